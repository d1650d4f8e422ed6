#!/usr/bin/env bash
# Counts the instructions of each operation of the in-process benchmarks under valgrind's callgrind
# and prints them as a table. Counts hardly vary between runs, so a change shows without noise.
#
#   bash bench/instructions.sh            # the table; builds for release first
#   bash bench/instructions.sh --tiny     # a build that is there, each once with what it sets up: that it works
#
# Needs: valgrind, which is installed where it is missing (Debian or Ubuntu).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

few=2000
many=6000
build=(build --profile bench)
tiny=
if [ "${1:-}" = --tiny ]; then
  few=10
  # What `cargo test --workspace` has built.
  build=(test --no-run --workspace)
  tiny=yes
fi

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v valgrind >/dev/null; then
  as_root apt-get update >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends valgrind >&2
fi

# The program as cargo names it.
program=$(cargo "${build[@]}" --quiet --locked --bench in_process --message-format json |
  sed -n 's/.*"name":"in_process".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -x "$program" ] || { echo "in_process was not built" >&2; exit 1; }

# Instructions of a run that repeats an operation so often.
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" --repeat "$1" "$2" 2>&1 |
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

echo "| Operation | Instructions |"
echo "|---|--:|"
"$program" --list | while IFS= read -r name; do
  instructions=$(count "$name" "$few")
  if [ -z "$tiny" ]; then
    # The difference leaves out what is done once.
    instructions=$((($(count "$name" "$many") - instructions) / (many - few)))
  fi
  [ -n "$instructions" ] || { echo "$name was not counted" >&2; exit 1; }
  echo "| $name | $instructions |"
done
