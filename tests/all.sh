#!/usr/bin/env bash
# Installs what the tests need where it is missing, then runs all of them. All steps run even when
# one fails; the last line sums up, and the exit status is 0 only when nothing failed.
#
#   bash tests/all.sh
#
# Needs: a Debian or Ubuntu machine with a Rust toolchain (rustup), and the network on the first run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=tests/clients/.venv
python_client=queen-mq==2.6.0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed_steps=()

# With the seconds since the start: the whole takes a while.
say() {
  printf '\n==> %s s: %s\n' "$SECONDS" "$*"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# What must be there, and the Debian package that brings it.
install_programs() {
  local missing=()
  command -v cc >/dev/null && command -v make >/dev/null || missing+=(build-essential)
  command -v python3 >/dev/null || missing+=(python3)
  command -v curl >/dev/null || missing+=(curl)
  command -v node >/dev/null || missing+=(nodejs)
  command -v wrk >/dev/null || missing+=(wrk)
  # What brings the C library that glommio is built on calls it.
  command -v git >/dev/null || missing+=(git)
  # The interpreter alone does not bring what a virtual environment needs.
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      "${missing[@]}"
  fi
}

# Whether the programs of a PostgreSQL server are where the broker looks for them.
has_postgresql() {
  local folder
  for folder in "${QUEEN_PG_BIN:-/usr/local/pgsql/bin}" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
    if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then return 0; fi
  done
  command -v pg_config >/dev/null && [ -x "$(pg_config --bindir)/initdb" ]
}

# The programs alone are wanted: Debian's package would also create a cluster of its own and start it.
install_postgresql() {
  local conf=/etc/postgresql-common/createcluster.conf
  local status=0
  if has_postgresql; then return 0; fi
  say "installing postgresql"
  as_root apt-get update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    postgresql-common
  as_root cp -p "$conf" "$conf.kept"
  echo 'create_main_cluster = false' | as_root tee -a "$conf" >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    postgresql || status=$?
  as_root mv "$conf.kept" "$conf"
  return "$status"
}

install_toolchain_parts() {
  if ! command -v cargo >/dev/null; then
    echo "cargo is not there: install a Rust toolchain first, with rustup" >&2
    exit 1
  fi
  cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
  cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
}

install_python_client() {
  if [ ! -x "$venv/bin/python" ]; then
    say "making the virtual environment of the Python client"
    python3 -m venv "$venv"
  fi
  if ! "$venv/bin/python" -c 'import queen' 2>/dev/null; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$python_client"
  fi
}

install_load_programs() {
  say "installing wrk and k6 where they are missing"
  bash loadtest/run.sh --install
}

# Runs one step and goes on; the output is shown and kept for the sum.
step() {
  local name=$1
  shift
  say "$name"
  if ! "$@" 2>&1 | tee -a "$log"; then
    failed_steps+=("$name")
  fi
}

# The second runtime is a cargo feature: what hangs on it is built once more, and only its own driver
# is run. It locks memory, and refuses to start where the limit is lower.
glommio_steps() {
  local feature=(--workspace --features queen/glommio --locked)
  local locked_kib
  locked_kib=$(ulimit -l)
  step "clippy with glommio" cargo clippy "${feature[@]}" --lib --test net -- -D warnings
  if [ "$locked_kib" != unlimited ] && [ "$locked_kib" -lt 512 ]; then
    echo "NOTE: 512 KiB of memory cannot be locked (ulimit -l): the tests on glommio did not run" |
      tee -a "$log"
    return 0
  fi
  step "tests on glommio" env QUEEN_TEST_IO=glommio cargo test "${feature[@]}" --no-fail-fast \
    --test net --test http_conformance --test api
  step "a tiny load of each runtime" target/debug/runtimes --broker target/debug/queen \
    --rounds 1 --connections 1,4 --duration-s 0.3 --warmup-s 0.1 \
    --delivery-rate 200 --delivery-duration-s 0.5 --parked 4
}

# The sum of one column over all results of cargo test.
sum() {
  awk -v column="$1" '/^test result:/ { n += $column } END { print n + 0 }' "$log"
}

install_programs
install_postgresql
install_toolchain_parts
install_python_client
install_load_programs
export QUEEN_TEST_PYTHON=${QUEEN_TEST_PYTHON:-$PWD/$venv/bin/python}
export QUEEN_TEST_NODE=${QUEEN_TEST_NODE:-node}
# Most tests wait for the broker more than they compute.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc) > 6 ? 2 * $(nproc) : 6))}

step "formatting" cargo fmt --all --check
step "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
# Units, HTTP, connections, API, clients, simulation, fuzzing, the load generator, the scripts of wrk
# and k6; tidy; and every benchmark once in its tiny size.
step "tests" cargo test --workspace --all-targets --no-fail-fast --locked
step "documentation tests" cargo test --workspace --doc --no-fail-fast --locked
# What the tests have built is run as it is: a build of one package alone has other features of what it
# depends on, and would build all of that again.
step "a tiny load" target/debug/compare \
  --broker target/debug/queen --null-responder target/debug/null_responder --no-verdict \
  --rounds 1 --connections 1,4 --duration-s 0.3 --warmup-s 0.1 \
  --delivery-rate 200 --delivery-duration-s 0.5 --parked 4

# Core, semantics, coverage, admin, docs and offset reads, as they ship with the client; with one shard and with two.
step "live tests of the Rust client" env QUEEN_BROKER=target/debug/queen bash tests/clients/rust-live.sh

# Redis and NATS are installed on the first run; where they cannot be, this step fails and says so.
step "a tiny comparison with Redis and NATS" target/debug/peers \
  --broker target/debug/queen --no-verdict \
  --rounds 1 --duration-s 0.2 --warmup-s 0.1 --messages 10000 --waiting 50 \
  --delivery-rate 200 --delivery-duration-s 0.5 --consumers 4

step "a tiny look at memory" target/debug/memory \
  --broker target/debug/queen --no-verdict --idle-inboxes 2000 --parked 50 \
  --inboxes 200 --rounds 1 --burst-mib 1 --burst-connections 50

step "tiny counts of instructions" bash bench/instructions.sh --tiny

step "tiny faults of PostgreSQL" target/debug/faults \
  --broker target/debug/queen --no-verdict \
  --rounds 1 --rate 200 --warmup-s 0.1 --fault-s 0.5 --tail-s 0.3

# What is removed is swept at once, as each scene waits for that.
step "tiny figures of durable queues" env RETENTION_INTERVAL=100 target/debug/durable \
  --broker target/debug/queen --no-verdict \
  --rounds 1 --duration-s 0.3 --warmup-s 0.1 --partitions 200 --wide-times 1 --stored 2000 --retained 5000

glommio_steps

# What this machine does not allow did not run; the tests say so.
if grep -q "NOTE: " "$log"; then
  say "not everything could run here:"
  grep -o "NOTE: .*" "$log" | sort -u
fi
passed=$(sum 4)
failed=$(sum 6)
for name in ${failed_steps[@]+"${failed_steps[@]}"}; do
  say "FAILED: $name"
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ] && [ ${#failed_steps[@]} -eq 0 ]
