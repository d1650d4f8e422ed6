#!/usr/bin/env bash
# Measures everything that the ephemeral class has goals for, in turn, on a machine that does nothing else:
# beside Redis and NATS, beside a null responder without and with polling, memory, what needs no sockets,
# and counts of instructions. Half an hour. Exit status 1 where a goal is missed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
programs=${CARGO_TARGET_DIR:-target}/release

cargo build --release --locked --workspace --bins
missed=()
judge() {
  printf '\n==> %s s: %s\n' "$SECONDS" "$*"
  "$@" || missed+=("$*")
}
judge "$programs/peers" --broker "$programs/queen"
judge env QUEEN_SPIN_US=0 "$programs/compare" --broker "$programs/queen"
judge "$programs/compare" --broker "$programs/queen"
judge "$programs/memory" --broker "$programs/queen"
judge cargo bench --locked --bench in_process
judge bash bench/instructions.sh

printf '\n'
for one in ${missed[@]+"${missed[@]}"}; do
  printf 'a goal is missed or something failed: %s\n' "$one"
done
[ ${#missed[@]} -eq 0 ]
