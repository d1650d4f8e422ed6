#!/usr/bin/env bash
# Runs the live tests that ship inside the published Rust client against the broker: each number of
# shards gets a broker of its own, on a private PostgreSQL in a folder that is removed at the end.
#
#   bash tests/clients/rust-live.sh [suite ...]   suites: core semantics coverage admin docs reads (the default)
#
#   QUEEN_BROKER=target/debug/queen   the broker; built if it is not given
#   QUEEN_LIVE_SHARDS="1 2"           one broker for each
#   QUEEN_LIVE_TIMES=1                how often all suites run against each broker, which is not restarted
#   QUEEN_LIVE_FILTER='a_test|b'      only these tests
#
# Needs: cargo, curl, python3, PostgreSQL's programs. The last line is `N passed, M failed`; exit status 0 only when
# at least one test ran and none failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=2.7.0
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(core semantics coverage admin docs reads)
work=target/clients/queen-mq-$version
log=$(mktemp)
folder=$(mktemp -d)
chmod 755 "$folder"
broker=

stop_broker() {
  local ended=0
  if [ -n "$broker" ]; then
    # It may have ended by itself, which the suites have told already.
    if kill "$broker" 2>/dev/null; then wait "$broker" || ended=$?; fi
    [ "$ended" -eq 0 ] || echo "the broker ended with status $ended"
    broker=
  fi
}

clean_up() {
  stop_broker
  rm -rf "$folder" "$log"
}
trap clean_up EXIT

# The package with its tests, as a workspace of its own.
fetch_suite() {
  if [ -f "$work/suite/Cargo.toml" ]; then return 0; fi
  local package
  package=$(cargo metadata --locked --format-version 1 | python3 -c '
import json, os, sys
packages = json.load(sys.stdin)["packages"]
print(next(os.path.dirname(p["manifest_path"]) for p in packages if p["name"] == "queen-mq"))')
  mkdir -p "$work"
  rm -rf "$work/suite.new"
  cp -r "$package" "$work/suite.new"
  chmod -R u+w "$work/suite.new"
  printf '\n[workspace]\n' >>"$work/suite.new/Cargo.toml"
  mv "$work/suite.new" "$work/suite"
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start_broker() {
  local shards=$1
  port=$(free_port)
  PORT=$port QUEEN_BIND_ADDR=127.0.0.1 QUEEN_SHARDS=$shards QUEEN_PIN=off QUEEN_SPIN_US=0 QUEEN_LOG=warn \
    QUEEN_DATA_DIR=$folder/$shards "$program" &
  broker=$!
  for _ in $(seq 600); do
    # It may answer before its database does.
    if curl -sf "http://127.0.0.1:$port/health" | grep -q '"database":"connected"'; then return 0; fi
    kill -0 "$broker" || return 1
    sleep 0.1
  done
  return 1
}

run_suites() {
  local targets=() filter=() suite
  for suite in "${suites[@]}"; do targets+=(--test "$suite"); done
  if [ -n "${QUEEN_LIVE_FILTER:-}" ]; then IFS='|' read -r -a filter <<<"$QUEEN_LIVE_FILTER"; fi
  QUEEN_TEST_URL=http://127.0.0.1:$port QUEEN_TEST_STRICT=1 CARGO_TARGET_DIR=$PWD/$work/target \
    cargo test --manifest-path "$work/suite/Cargo.toml" --no-fail-fast "${targets[@]}" -- \
    ${filter[@]+"${filter[@]}"} 2>&1 | tee -a "$log"
}

program=${QUEEN_BROKER:-}
if [ -z "$program" ]; then
  cargo build --locked --bin queen
  program=${CARGO_TARGET_DIR:-target}/debug/queen
fi
fetch_suite
status=0
for shards in ${QUEEN_LIVE_SHARDS:-1 2}; do
  if ! start_broker "$shards"; then
    echo "the broker with $shards shards did not start"
    status=1
    continue
  fi
  for _ in $(seq "${QUEEN_LIVE_TIMES:-1}"); do
    printf '\n==> the live tests of the Rust client, %s shards\n' "$shards"
    run_suites || status=1
  done
  stop_broker
done
passed=$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$log")
failed=$(awk '/^test result:/ { n += $6 } END { print n + 0 }' "$log")
echo "$passed passed, $failed failed"
[ "$status" -eq 0 ] && [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
