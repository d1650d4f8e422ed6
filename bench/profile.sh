#!/usr/bin/env bash
# Shows where a thread of the broker spends its time while a command runs: samples of the CPU clock with the
# kernel's call chains, sorted into a few classes and printed as a table.
#
#   cargo build --release --workspace --bins
#   bash bench/profile.sh target/release/peers --broker target/release/queen --rows request-reply1 --rounds 2
#   THREAD=null_responder bash bench/profile.sh target/release/compare --connections 16
#
# What the command prints goes to standard error. Samples of all CPUs are taken, so that it may start and stop the
# broker as it likes; only those of threads with the name THREAD count (shard-0).
#
# Needs perf, which is installed where it is missing (Debian: linux-perf), and root or
# kernel.perf_event_paranoid = -1. So it is no part of the tests.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v perf >/dev/null; then
  as_root apt-get update >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends linux-perf >&2
fi

samples=$(mktemp)
trap 'rm -f "$samples"' EXIT
# Status 1 is a missed goal; where perf itself failed, there are no samples, which is said below. The clock, and not
# cycles, which a virtual machine may not count.
status=0
perf record --quiet --all-cpus --event cpu-clock --freq 1500 --call-graph fp --output "$samples" -- "$@" >&2 ||
  status=$?
[ "$status" -le 1 ] || exit "$status"

perf script --input "$samples" --fields comm,ip,sym,dso | awk -v thread="${THREAD:-shard-0}" '
  # A sample: a line with the thread, one for each frame, the innermost first, and an empty line.
  # A frame without an object is the kernel, whose addresses may be hidden.
  function is_kernel(frame) { return frame ~ /\(\[(kernel|guest)|\(\[unknown\]\)/ }
  function class(frame, chain) {
    if (is_kernel(frame)) {
      if (chain ~ /tcp_sendmsg/) return "kernel: send, as far as into the other socket"
      if (chain ~ /tcp_recvmsg/) return "kernel: receive"
      if (chain ~ /schedule/) return "kernel: sleep and wake"
      if (chain ~ /io_/) return "kernel: io_uring without those"
      return "kernel: rest"
    }
    if (frame ~ /clock_gettime|Timespec|Instant/) return "clock"
    if (frame ~ /_rjem|arena_|tcache_|do_rallocx/) return "allocator"
    if (frame ~ /__mem/) return "copies and comparisons"
    if (frame ~ /serde|queen::api::decode/) return "decode JSON"
    if (frame ~ /queen::api::encode|write_json|itoa/) return "encode"
    if (frame ~ /queen::http/) return "heads"
    if (frame ~ /queen::shard|hashbrown|queen::model/) return "shard: queues, rings, parked pops"
    if (frame ~ /queen::(core_loop|net|api)/) return "connections, routes, core loop"
    if (frame ~ /monoio|io_uring| syscall |queen::runtime/) return "runtime: monoio"
    return "rest"
  }
  function note() {
    if (name == thread && top != "") { count[class(top, chain)]++; total++ }
    name = top = chain = ""
  }
  /^$/ { note(); next }
  /^[^ \t]/ { name = $1; next }
  # Only the kernel has frame pointers: of a program the innermost frame is all that is used.
  { if (top == "") top = $0; if (is_kernel($0)) chain = chain $0 }
  END {
    note()
    if (total == 0) { print "no sample of a thread " thread > "/dev/stderr"; exit 1 }
    print "| Where | % of " total " samples |"
    print "|---|--:|"
    sort = "sort -t \"|\" -k 3 -n -r"
    for (one in count) printf "| %s | %.1f |\n", one, 100 * count[one] / total | sort
  }'
