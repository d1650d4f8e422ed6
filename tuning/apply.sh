#!/usr/bin/env bash
# Sets what check.sh asks for, writes a script that undoes it, then checks again. What it sets lasts
# until the machine boots; the files beside it (README.md) are for what should last longer.
#
#   sudo bash tuning/apply.sh [--dry-run] [--idle] [--interrupts] [--io-uring] [of check.sh: ...]
#
#   (always)      governor, huge pages, swappiness, NUMA balancing, backlogs, nr_open: each only
#                 where check.sh finds it wrong
#   --idle        no deep sleep on the shards' CPUs: costs power and heat, may cost their neighbours
#                 the highest frequency
#   --interrupts  interrupts and packets of network cards off the shards' CPUs
#   --io-uring    io_uring for all processes: a decision about the safety of the machine
#   --dry-run     changes nothing, as any user
#   --undo FILE   where the undo script goes (default: a new file in /var/lib/queen-tuning)
#   --pin, --shards, --pid, --max-connections, --root go to check.sh
#
# Exit status: that of check.sh; 3 where the kernel refused something; 2 the arguments are wrong.
set -euo pipefail

check=$(dirname "${BASH_SOURCE[0]}")/check.sh
dry_run=no undo="" root="" classes=" safe " refused=0 changed=0
arguments=()

usage() {
  printf 'apply.sh: %s; the head of the file says how it is used\n' "$1" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=yes ;;
    --idle | --interrupts | --io-uring) classes+="${1#--} " ;;
    --undo | --pin | --shards | --pid | --max-connections | --root)
      [ $# -ge 2 ] || usage "$1 needs a value"
      case $1 in
        --undo) undo=$2 ;;
        --root) root=${2%/} ;&
        *) arguments+=("$1" "$2") ;;
      esac
      shift
      ;;
    *) usage "unknown argument $1" ;;
  esac
  shift
done
if [ "$dry_run" = no ] && [ -z "$root" ] && [ "$(id -u)" -ne 0 ]; then
  usage "it has to be root to set anything; --dry-run says what it would set"
fi

# What a file holds: of a choice the word in brackets, else its first line.
value_of() {
  local line=""
  IFS= read -r line <"$1" || [ -n "$line" ] || return 1
  [[ $line =~ \[([^]]+)\] ]] && line=${BASH_REMATCH[1]}
  printf '%s' "$line"
}

begin_undo() {
  if [ -z "$undo" ]; then
    install -d -m 0700 /var/lib/queen-tuning
    undo=/var/lib/queen-tuning/undo-$(date +%Y%m%dT%H%M%S)-$$.sh
  fi
  # Fails where there is one: what it holds are the values of an earlier time.
  (set -o noclobber && umask 077 && cat >"$undo") <<'END'
#!/usr/bin/env bash
# Sets back what apply.sh has set. Of several such scripts the newest goes first.
set -euo pipefail
status=0
back() {
  if printf '%s\n' "$2" >"$1"; then
    printf 'back        %s | %s\n' "$1" "$2"
  else
    status=1
  fi
}
trap 'exit $status' EXIT
END
}

# set_value NAME PATH NEW
set_value() {
  local old now
  old=$(value_of "$root$2") || old=""
  if [ "$dry_run" = yes ]; then
    printf 'would set   %s: %s | %s -> %s\n' "$1" "$2" "$old" "$3"
    return
  fi
  [ "$changed" -gt 0 ] || [ "$refused" -gt 0 ] || begin_undo
  # Before the change, so that one that is broken off is undone too.
  printf 'back %q %q\n' "$root$2" "$old" >>"$undo"
  if { printf '%s\n' "$3" >"$root$2"; } 2>/dev/null; then
    now=$(value_of "$root$2") || now=""
    printf 'set         %s: %s | %s -> %s\n' "$1" "$2" "$old" "$now"
    changed=$((changed + 1))
  else
    printf 'refused     %s: %s | %s -> %s\n' "$1" "$2" "$old" "$3"
    refused=$((refused + 1))
  fi
}

# Its exit status says whether something is bad, 2 and more that it could not look.
status=0
fixes=$(bash "$check" --fixes ${arguments[@]+"${arguments[@]}"}) || status=$?
[ "$status" -le 1 ] || exit "$status"

while IFS=$'\t' read -r class name path new; do
  [ -n "$class" ] || continue
  if [[ $classes == *" $class "* ]]; then
    set_value "$name" "$path" "$new"
  else
    printf 'left        %s: %s | --%s sets it to %s\n' "$name" "$path" "$class" "$new"
  fi
done <<<"$fixes"

if [ "$dry_run" = yes ]; then
  exit 0
fi
[ -z "$undo" ] || [ ! -e "$undo" ] || printf 'undo with   bash %s\n' "$undo"
status=0
bash "$check" ${arguments[@]+"${arguments[@]}"} || status=$?
[ "$refused" -eq 0 ] || status=3
exit "$status"
