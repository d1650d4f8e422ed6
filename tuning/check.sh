#!/usr/bin/env bash
# Says what is wrong with a machine for work where latency counts, and how bad it is. Reads only, as
# any user; what is not there (containers, other kernels) it cannot tell. Paths and their meaning
# are those of the kernel's documentation (admin-guide, networking/scaling, proc(5), sysfs).
#
#   bash tuning/check.sh [--pin LIST --shards N] [--pid PID] [--max-connections N]
#
#   --pin LIST, --shards N  the CPUs to judge by, as QUEEN_PIN and QUEEN_SHARDS (default: those of
#                           the environment, else of the running broker)
#   --pid PID               the broker to look at (default: a process named queen)
#   --max-connections N     as QUEEN_MAX_CONNECTIONS
#   --root FOLDER           a tree with proc and sys to look at in place of this machine's
#   --fixes                 prints instead what apply.sh can set: class, name, path, new value
#
# One line each:  LEVEL  NAME: what is | what should be | why. Levels: ok; note (worth knowing, a
# choice); warn (costs latency or room under load); bad (spoils both); cannot tell.
# Exit status: 0 nothing is bad, 1 something is, 2 the arguments are wrong.
set -euo pipefail

# As in src/limits.rs (LISTEN_BACKLOG), config/open_files.rs (RESERVED_FILES).
readonly backlog=4096 reserved_files=128
# Between the shallow sleep of current processors and the next deeper one, as their drivers say.
readonly idle_exit_us_max=10
# What the thread-per-core runtimes on io_uring lock for each of their threads.
readonly memlock_shard_kb=512

root="" fixes=no pid="" pin=${QUEEN_PIN:-} shards=${QUEEN_SHARDS:-}
max_connections=${QUEEN_MAX_CONNECTIONS:-65536}
declare -A count=([ok]=0 [note]=0 [warn]=0 [bad]=0 ["cannot tell"]=0)
declare -A colour=([ok]=32 [note]=36 [warn]=33 [bad]=31 ["cannot tell"]=35)

usage() {
  printf 'check.sh: %s; the head of the file says how it is used\n' "$1" >&2
  exit 2
}

number() {
  [[ $2 =~ ^[0-9]{1,9}$ ]] || usage "$1 is no number: $2"
}

while [ $# -gt 0 ]; do
  case $1 in
    --fixes) fixes=yes ;;
    --pin | --shards | --pid | --max-connections | --root)
      [ $# -ge 2 ] || usage "$1 needs a value"
      case $1 in
        --pin) pin=$2 ;;
        --shards) shards=$2 ;;
        --pid) pid=$2 ;;
        --max-connections) max_connections=$2 ;;
        --root) root=${2%/} ;;
      esac
      shift
      ;;
    *) usage "unknown argument $1" ;;
  esac
  shift
done
number --max-connections "$max_connections"
max_connections=$((10#$max_connections))
[ -z "$shards" ] || number --shards "$shards"
[ -z "$pid" ] || number --pid "$pid"

# --- what everything below is written with -------------------------------------------------------

# Reads the first line of a file into `value`; fails where it cannot be read or is empty.
look() {
  value=""
  [ -r "$root$1" ] || return 1
  { IFS= read -r value <"$root$1" || [ -n "$value" ]; } 2>/dev/null
}

# finding LEVEL NAME IS SHOULD WHY
finding() {
  count[$1]=$((count[$1] + 1))
  [ "$fixes" = no ] || return 0
  local level
  printf -v level '%-11s' "$1"
  if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    level=$'\e['"${colour[$1]}m$level"$'\e[0m'
  fi
  printf '%s %s: %s | %s | %s\n' "$level" "$2" "$3" "$4" "$5"
}

# fix CLASS NAME PATH NEW
fix() {
  [ "$fixes" = no ] || printf '%s\t%s\t%s\t%s\n' "$@"
}

# A list of CPUs such as 0,2-5 as words; fails on anything else.
expand() {
  local part first last
  expanded=""
  for part in ${1//,/ }; do
    [[ $part =~ ^([0-9]{1,5})(-([0-9]{1,5}))?$ ]] || return 1
    first=$((10#${BASH_REMATCH[1]}))
    last=$((10#${BASH_REMATCH[3]:-$first}))
    for (( ; first <= last; first++)); do expanded+=" $first"; done
  done
  expanded=${expanded# }
}

# Words as a list of CPUs: 0,2-5.
collapse() {
  local cpu first="" last="" text=""
  for cpu in $(printf '%s\n' "$@" | sort -nu); do
    if [ -n "$last" ] && [ "$cpu" -eq $((last + 1)) ]; then
      last=$cpu
      continue
    fi
    [ -z "$last" ] || text+=",$first$([ "$first" = "$last" ] || printf -- '-%s' "$last")"
    first=$cpu last=$cpu
  done
  [ -z "$last" ] || text+=",$first$([ "$first" = "$last" ] || printf -- '-%s' "$last")"
  printf '%s' "${text#,}"
}

# The words of $1 that are among those of $2, and those that are not.
both() {
  local word
  for word in $1; do if [[ " $2 " == *" $word "* ]]; then printf '%s ' "$word"; fi; done
}
without() {
  local word
  for word in $1; do if [[ " $2 " != *" $word "* ]]; then printf '%s ' "$word"; fi; done
}

# A mask of the kernel (hexadecimal, a comma before each 32 CPUs) as words, and words as a mask.
cpus_of_mask() {
  local digits=${1//,/} at digit bit
  for ((at = 0; at < ${#digits}; at++)); do
    digit=$((16#${digits:${#digits}-1-at:1}))
    for bit in 0 1 2 3; do
      if (((digit >> bit) & 1)); then printf '%d ' $((4 * at + bit)); fi
    done
  done
}
mask_of_cpus() {
  local words=() cpu at text="" last=0
  for cpu in $1; do
    at=$((cpu / 32))
    words[at]=$((${words[at]:-0} | (1 << (cpu % 32))))
    if ((at > last)); then last=$at; fi
  done
  for ((at = last; at >= 0; at--)); do
    printf -v text '%s,%08x' "$text" "${words[at]:-0}"
  done
  printf '%s' "${text#,}"
}

# The word in brackets of a file that offers a choice.
chosen() {
  look "$1" || return 1
  [[ $value =~ \[([^]]+)\] ]] && value=${BASH_REMATCH[1]}
}

# --- the machine and the broker ------------------------------------------------------------------

online=""
if look /sys/devices/system/cpu/online && expand "$value"; then online=$expanded; fi
isolated=""
if look /sys/devices/system/cpu/isolated && expand "$value"; then isolated=$expanded; fi

look_at_machine() {
  local kind="" place="no container seen" steal=""
  if [ -r "$root/proc/cpuinfo" ] && grep -qw -m 1 hypervisor "$root/proc/cpuinfo"; then
    kind="a virtual machine"
  elif look /sys/hypervisor/type; then
    kind="a virtual machine ($value)"
  elif look /sys/class/dmi/id/product_name && [[ $value =~ KVM|Virtual|VMware|HVM ]]; then
    kind="a virtual machine ($value)"
  fi
  if [ -e "$root/.dockerenv" ] || [ -e "$root/run/.containerenv" ] || [ -e "$root/run/systemd/container" ]; then
    place="in a container"
  fi
  if look /proc/stat; then
    # cpu user nice system idle iowait irq softirq steal, in ticks (proc(5)).
    read -r -a value <<<"$value"
    local total=0 part
    for part in "${value[@]:1:8}"; do total=$((total + part)); done
    if [ "$total" -gt 0 ]; then
      part=$((${value[8]:-0} * 1000 / total))
      steal="; stolen since boot: $((part / 10)).$((part % 10)) % of CPU time"
    fi
    unset value
  fi
  if [ -n "$kind" ]; then
    finding note machine "$kind, $place$steal" "as it is" \
      "frequency, sleep and the time that neighbours steal are decided by its host"
  else
    finding ok machine "no sign of a hypervisor, $place$steal" "as it is" \
      "what is set here is what the hardware does"
  fi
}

# Processes that matter, by name (comm of proc(5)).
brokers=() irqbalance=""
for file in "$root"/proc/[0-9]*/comm; do
  look "${file#"$root"}" || continue
  file=${file%/comm}
  case $value in
    queen) brokers+=("${file##*/}") ;;
    irqbalance) irqbalance=${file##*/} ;;
  esac
done
if [ -z "$pid" ] && [ ${#brokers[@]} -gt 0 ]; then pid=${brokers[0]}; fi

# One word per shard in `pins`, - where it is not pinned; the engine's CPUs in `engine`.
pins="" engine="" source=""
pins_of_settings() {
  local mask list=() usable=()
  source="QUEEN_PIN=$pin, QUEEN_SHARDS=$shards"
  [ -n "$shards" ] || usage "--pin needs --shards"
  shards=$((10#$shards))
  case ${pin,,} in
    off) pins=$(for ((i = 0; i < shards; i++)); do printf -- '- '; done) ;;
    auto)
      mask=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$root/proc/self/status")
      expand "$mask" || usage "the usable CPUs are not known; name them with --pin"
      read -r -a usable <<<"$expanded"
      [ "$shards" -lt ${#usable[@]} ] || usage "auto pins nothing: $shards shards, ${#usable[@]} CPUs"
      pins=${usable[*]:0:shards} engine=${usable[*]:shards}
      ;;
    *)
      expand "$pin" || usage "QUEEN_PIN is no list of CPUs: $pin"
      read -r -a list <<<"$expanded"
      [ ${#list[@]} -ge "$shards" ] || usage "QUEEN_PIN names fewer CPUs than there are shards"
      pins=${list[*]:0:shards} engine=${list[*]:shards}
      ;;
  esac
}
pins_of_broker() {
  local task mask
  source="broker $pid"
  for task in "$root/proc/$pid/task"/*; do
    look "${task#"$root"}/comm" || continue
    [[ $value == shard-* || $value == engine ]] || continue
    mask=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$task/status" 2>/dev/null) || continue
    expand "$mask" || continue
    if [ "$value" = engine ]; then
      engine=$expanded
    elif [[ $expanded == *" "* ]]; then
      pins+=" -"
    else
      pins+=" $expanded"
    fi
  done
  pins=${pins# }
}
if [ -n "$pin" ]; then
  pins_of_settings
elif [ -n "$pid" ]; then
  pins_of_broker
fi
pinned=${pins//-/}
read -r -a pinned <<<"$pinned"
pinned=${pinned[*]}
shards=$(wc -w <<<"$pins")
free=$(without "$online" "$pinned")
where="the shards' CPUs"
[ -n "$pinned" ] || where="all CPUs"
watched=${pinned:-$online}

look_at_pins() {
  local twice siblings shared="" beside="" cpu missing
  if [ -z "$pins" ]; then
    finding "cannot tell" pins "no shards are seen to run${pid:+ in broker $pid} and no --pin is given" \
      "a CPU of its own for each shard" "interrupts and isolation are judged by the shards' CPUs"
    return
  fi
  missing=$(without "$pinned" "$online")
  twice=$(tr ' ' '\n' <<<"$pinned" | sort -n | uniq -d | tr '\n' ' ')
  if [ -n "$online" ] && [ -n "$missing" ]; then
    finding bad pins "$source: CPU $(collapse $missing) is not online" "CPUs that are" \
      "the broker refuses to start on a CPU that it may not use"
  elif [ -n "$twice" ]; then
    finding bad pins "$source: several shards on CPU $(collapse $twice)" "one shard for a CPU" \
      "each waits while the other runs"
  elif [ "$pinned" != "$pins" ]; then
    finding warn pins "$source: $(wc -w <<<"${pins//[0-9]/}") of $shards shards not pinned" \
      "a CPU of its own for each shard" \
      "a thread that is moved loses its cache, one that shares a CPU waits for it"
  else
    finding ok pins "$source: shards on CPU $(collapse $pinned), engine on ${engine:+CPU }$(
      [ -n "$engine" ] && collapse $engine || printf 'any')" "a CPU of its own for each shard" \
      "nothing of the broker waits for a CPU"
  fi
  for cpu in $pinned; do
    look "/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list" || continue
    expand "$value" || continue
    siblings=$(without "$expanded" "$cpu")
    beside+=" $siblings"
    shared+=" $(both "$siblings" "$pinned")"
  done
  if [ -n "${shared// /}" ]; then
    finding warn smt "shards on CPU $(collapse $shared) share a core with another shard" \
      "one shard for a core" "two threads of a core slow each other down when both are busy"
  elif [ -n "${beside// /}" ]; then
    finding note smt "beside shards: CPU $(collapse $beside)" "idle, or SMT off" \
      "two threads of a core slow each other down when both are busy"
  else
    finding ok smt "no shard's core has a second thread" "one shard for a core" \
      "two threads of a core slow each other down when both are busy"
  fi
}

# --- processors ----------------------------------------------------------------------------------

look_at_governor() {
  local cpu driver slow="" dynamic="" seen=""
  for cpu in $online; do
    look "/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor" || continue
    seen+=" $cpu"
    [ "$value" != performance ] || continue
    local governor=$value
    driver=""
    if look "/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_driver"; then driver=$value; fi
    # The active drivers mean by powersave: as the load asks. Others mean: always the lowest.
    if [ "$governor" = powersave ] && [[ $driver != intel_pstate && $driver != amd-pstate-epp ]]; then
      slow+=" $cpu"
    else
      dynamic+=" $cpu"
    fi
    if look "/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_available_governors" &&
      [[ " $value " != *" performance "* ]]; then continue; fi
    fix safe governor "/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor" performance
  done
  if [ -z "$seen" ]; then
    finding "cannot tell" governor "no cpufreq here" performance \
      "the host or the firmware sets the frequency: look there"
  elif [ -n "$slow" ]; then
    finding bad governor "powersave on CPU $(collapse $slow)" performance \
      "the frequency stays at its lowest"
  elif [ -n "$dynamic" ]; then
    finding warn governor "not performance on CPU $(collapse $dynamic)" performance \
      "after a pause the first work is done at a low frequency"
  else
    finding ok governor performance performance "the frequency does not follow the load"
  fi
}

look_at_idle() {
  local driver=none cpu state latency name deepest="" deepest_us=0 cpus="" seen=no
  if look /sys/devices/system/cpu/cpuidle/current_driver; then driver=$value; fi
  for cpu in $watched; do
    for state in "$root/sys/devices/system/cpu/cpu$cpu/cpuidle"/state*; do
      state=${state#"$root"}
      look "$state/latency" || continue
      seen=yes latency=$value
      [ "$latency" -gt "$idle_exit_us_max" ] || continue
      if look "$state/disable" && [ "$value" != 0 ]; then continue; fi
      cpus+=" $cpu"
      if [ "$latency" -gt "$deepest_us" ]; then
        look "$state/name" || value=${state##*/}
        deepest=$value deepest_us=$latency
      fi
      fix idle c-states "$state/disable" 1
    done
  done
  if [ "$seen" = no ]; then
    finding "cannot tell" c-states "driver $driver, no states shown" \
      "none that takes over $idle_exit_us_max us to leave" \
      "the processor or the host decides by itself how deep a CPU sleeps"
  elif [ -n "$cpus" ]; then
    finding warn c-states "driver $driver, down to $deepest ($deepest_us us to leave) on CPU $(collapse $cpus)" \
      "none over $idle_exit_us_max us on $where" \
      "who wakes a sleeping core waits for it, unless somebody holds /dev/cpu_dma_latency"
  else
    finding ok c-states "driver $driver, none over $idle_exit_us_max us on $where" \
      "none over $idle_exit_us_max us" "a core wakes at once"
  fi
}

look_at_isolation() {
  local full="" inside outside
  outside=$(without "$pinned" "$isolated")
  inside=$(both "$engine" "$isolated")
  if [ -z "$isolated" ]; then
    finding note isolation "no CPU is isolated" "isolcpus= with $where" \
      "any other process may run there; README.md beside this file says when it is worth it"
  elif [ -z "$pins" ]; then
    finding "cannot tell" isolation "isolated: CPU $(collapse $isolated)" "the shards' CPUs" \
      "it is not known where the shards are"
  elif [ -n "$(without "$isolated" "$pinned $engine")" ]; then
    finding warn isolation "isolated and not used: CPU $(collapse $(without "$isolated" "$pinned $engine"))" \
      "isolated CPUs are those of the shards" "the scheduler puts nothing there by itself"
  elif [ "$(wc -w <<<"$inside")" -gt 1 ]; then
    finding warn isolation "the engine's CPUs are isolated: $(collapse $inside)" \
      "engine and PostgreSQL outside" \
      "among isolated CPUs the scheduler balances nothing: all processes of PostgreSQL stay on one"
  elif [ -n "$outside" ]; then
    finding note isolation "not isolated: CPU $(collapse $outside)" "$where isolated" \
      "any other process may run there"
  else
    finding ok isolation "CPU $(collapse $isolated)" "$where" "no other process runs there"
  fi
  if look /sys/devices/system/cpu/nohz_full && expand "$value"; then full=$(both "$watched" "$expanded"); fi
  if [ -n "$full" ]; then
    finding note nohz_full "CPU $(collapse $full)" "no shard's CPU" \
      "it makes each way into the kernel dearer, and a shard takes one every turn"
  fi
}

look_at_quota() {
  local path throttled=0 quota="" file=/proc/self/cgroup line lines
  [ -z "$pid" ] || file=/proc/$pid/cgroup
  if ! lines=$(cat "$root$file" 2>/dev/null); then
    finding "cannot tell" quota "no $file" "no quota" "one that is used up stops all threads"
    return
  fi
  while IFS= read -r line; do
    path=${line#*:*:}
    case $line in
      0::*) path=/sys/fs/cgroup$path ;;
      *:cpu:* | *:cpu,*:* | *:*,cpu:*) path=/sys/fs/cgroup/cpu$path ;;
      *) continue ;;
    esac
    path=${path%/}
    while [[ $path == /sys/fs/cgroup* ]]; do
      if look "$path/cpu.max" && [[ $value != max* ]]; then quota=$value; fi
      if look "$path/cpu.cfs_quota_us" && [ "$value" != -1 ]; then quota="$value us a period"; fi
      if [ -n "$quota" ] && [ -r "$root$path/cpu.stat" ]; then
        throttled=$(sed -n 's/^nr_throttled //p' "$root$path/cpu.stat" 2>/dev/null) || throttled=0
        break 2
      fi
      path=${path%/*}
    done
  done <<<"$lines"
  if [ -z "$quota" ]; then
    finding ok quota "none" "none" "all threads may run whenever there is work"
  elif [ "${throttled:-0}" -gt 0 ]; then
    finding bad quota "$quota, used up in $throttled periods" "none, or CPUs of its own" \
      "all threads stop until the next period"
  else
    finding warn quota "$quota, never used up yet" "none, or QUEEN_SHARDS that fits it" \
      "once it is used up all threads stop until the next period"
  fi
}

look_at_clock() {
  local source others=""
  if ! look /sys/devices/system/clocksource/clocksource0/current_clocksource; then
    finding "cannot tell" clocksource "not shown" tsc "the clock is read many times for each request"
    return
  fi
  source=$value
  if look /sys/devices/system/clocksource/clocksource0/available_clocksource; then others=$value; fi
  case $source in
    tsc | arch_sys_counter | kvm-clock | hyperv_clocksource_tsc_page)
      finding ok clocksource "$source" "$source" "it is read without entering the kernel"
      ;;
    hpet | acpi_pm | jiffies | refined-jiffies)
      finding bad clocksource "$source (there are: $others)" \
        "tsc; the kernel's log says why it was given up" \
        "each reading enters the kernel, and reads a slow device or a coarse clock"
      ;;
    *)
      finding note clocksource "$source (there are: $others)" "tsc where there is one" \
        "it may be read by entering the kernel"
      ;;
  esac
}

look_at_mitigations() {
  local file active=0 open=0
  for file in "$root"/sys/devices/system/cpu/vulnerabilities/*; do
    look "${file#"$root"}" || continue
    case $value in
      Mitigation:*) active=$((active + 1)) ;;
      Vulnerable*) open=$((open + 1)) ;;
    esac
  done
  finding note mitigations "$active active, $open faults of the processor open" "as they are" \
    "for information: some cost time on each way into the kernel; they are a matter of safety"
}

# --- interrupts and packets ----------------------------------------------------------------------

# The folders of network cards, without those that are software only.
cards() {
  local card
  for card in "$root"/sys/class/net/*; do
    if [ -e "$card/device" ]; then printf '%s\n' "$card"; fi
  done
}

look_at_interrupts() {
  local card folder irq hits="" hit_cpus="" total=0 where_to
  where_to=$(collapse $free)
  for card in $(cards); do
    # Of a virtio card they belong to the PCI device above.
    for folder in "$card/device/msi_irqs" "$card/device/../msi_irqs"; do
      [ -d "$folder" ] || continue
      for irq in "$folder"/*; do
        irq=${irq##*/}
        if ! look "/proc/irq/$irq/effective_affinity_list"; then
          look "/proc/irq/$irq/smp_affinity_list" || continue
        fi
        expand "$value" || continue
        total=$((total + 1))
        [ -n "$(both "$expanded" "$pinned")" ] || continue
        hits+=" $irq" hit_cpus+=" $(both "$expanded" "$pinned")"
        [ -z "$where_to" ] || fix interrupts irq "/proc/irq/$irq/smp_affinity_list" "$where_to"
      done
      break
    done
  done
  if [ "$total" -eq 0 ]; then
    finding "cannot tell" irq "no network card whose interrupts are shown" "off the shards' CPUs" \
      "an interrupt breaks into what a shard does"
  elif [ -z "$pinned" ]; then
    finding "cannot tell" irq "$total of network cards" "off the shards' CPUs" \
      "it is not known where the shards are"
  elif [ -n "$hits" ]; then
    finding warn irq "on shards' CPU $(collapse $hit_cpus): irq $(collapse $hits) of network cards" \
      "on CPU ${where_to:-of which none is free}" "an interrupt breaks into what a shard does"
  else
    finding ok irq "$total of network cards, none on a shard's CPU" "off the shards' CPUs" \
      "no card breaks into what a shard does"
  fi
}

look_at_irqbalance() {
  local open banned
  open=$(without "$pinned" "$isolated")
  banned=$(grep -hE '^[^#]*IRQBALANCE_BANNED_CPU' "$root/etc/default/irqbalance" \
    "$root/etc/sysconfig/irqbalance" 2>/dev/null | head -n 1) || banned=""
  if [ -z "$irqbalance" ]; then
    finding ok irqbalance "is not seen to run" "off, or kept from the shards' CPUs" \
      "interrupts stay where they are put"
  elif [ -n "$banned" ]; then
    finding note irqbalance "runs with $banned" "that names the shards' CPUs" \
      "it moves interrupts to any other CPU"
  elif [ -n "$pinned" ] && [ -z "$open" ]; then
    finding ok irqbalance "runs; the shards' CPUs are isolated" "off, or kept from the shards' CPUs" \
      "it leaves isolated CPUs alone"
  else
    finding warn irqbalance "runs and may use all CPUs" \
      "off, or IRQBALANCE_BANNED_CPULIST with the shards' CPUs in its settings" \
      "it moves interrupts onto the shards' CPUs"
  fi
}

look_at_steering() {
  local card queue mask steered="" single="" on_shards="" queues flows=0 value_new
  if look /proc/sys/net/core/rps_sock_flow_entries; then flows=$value; fi
  for card in $(cards); do
    queues=0
    for queue in "$card"/queues/rx-*; do
      look "${queue#"$root"}/rps_cpus" || continue
      queues=$((queues + 1)) mask=$(cpus_of_mask "$value")
      [ -n "$mask" ] || continue
      steered+=" ${card##*/}"
      [ -n "$(both "$mask" "$pinned")" ] || continue
      on_shards+=" $(both "$mask" "$pinned")"
      value_new=0
      [ -z "$free" ] || value_new=$(mask_of_cpus "$free")
      fix interrupts rps "${queue#"$root"}/rps_cpus" "$value_new"
    done
    if [ "$queues" -eq 1 ]; then single+=" ${card##*/}"; fi
  done
  if [ -n "$on_shards" ]; then
    finding warn rps "packets are steered to shards' CPU $(collapse $on_shards)" \
      "to CPU $(collapse $free)" "the work for packets of others breaks into what a shard does"
  elif [ -z "$steered" ] && [ -n "$single" ]; then
    finding note rps "off; one receive queue:$single" \
      "off, unless the CPU of its interrupt is busy: then on, over other CPUs without shards" \
      "all packets pass through that one CPU"
  else
    finding ok rps "${steered:+on for}${steered:-off}" "off the shards' CPUs" \
      "cards with several queues spread packets by themselves"
  fi
  if [ -n "$steered" ] || [ "$flows" -eq 0 ]; then
    finding ok rfs "$flows flows" "0, or more than 0 together with RPS" "it refines RPS"
  else
    finding note rfs "$flows flows, RPS is off" "0" "without RPS it only keeps records"
  fi
}

# --- memory --------------------------------------------------------------------------------------

look_at_huge_pages() {
  local folder=/sys/kernel/mm/transparent_hugepage
  if ! chosen $folder/enabled; then
    finding ok thp "not there" "madvise or never" "no memory is moved to make huge pages"
    return
  fi
  if [ "$value" = always ]; then
    finding warn thp always "madvise or never" \
      "a first touch clears 2 MiB in place of 4 KiB, and memory is moved together behind one's back"
    fix safe thp $folder/enabled madvise
  else
    finding ok thp "$value" "madvise or never" "only who asks for huge pages gets them"
  fi
  chosen $folder/defrag || return 0
  if [ "$value" = always ]; then
    finding warn thp-defrag always "madvise, defer or never" \
      "a first touch waits while memory is moved to make a huge page"
    fix safe thp-defrag $folder/defrag madvise
  else
    finding ok thp-defrag "$value" "not always" "a first touch does not wait for memory to be moved"
  fi
}

look_at_swap() {
  local devices swapped=0 swappiness
  if [ ! -r "$root/proc/swaps" ]; then
    finding "cannot tell" swap "no /proc/swaps" "off" "a message on disk is no message in memory"
    return
  fi
  devices=$(awk 'NR > 1' "$root/proc/swaps" | wc -l)
  if [ -n "$pid" ]; then
    # The process may end meanwhile, here as elsewhere.
    swapped=$(awk '/^VmSwap:/ { kb = $2 } END { print kb + 0 }' "$root/proc/$pid/status" 2>/dev/null) ||
      swapped=0
  fi
  look /proc/sys/vm/swappiness || value=0
  swappiness=$value
  if [ "$swapped" -gt 0 ]; then
    finding bad swap "$swapped KiB of broker $pid are swapped out" "0, by MemorySwapMax=0 or swapoff" \
      "whoever touches them waits for the disk, and the whole shard with it"
  elif [ "$devices" -eq 0 ]; then
    finding ok swap off off "what is in memory stays there"
  elif [ "$swappiness" -gt 1 ]; then
    finding warn swap "on, swappiness $swappiness" "off, or swappiness 1 and MemorySwapMax=0 of the unit" \
      "queues that rest are swapped out; who touches them waits for the disk"
  else
    finding note swap "on, swappiness $swappiness" "off, or MemorySwapMax=0 of the unit" \
      "under pressure queues may still be swapped out"
  fi
  if [ "$devices" -gt 0 ] && [ "$swappiness" -gt 1 ]; then
    fix safe swappiness /proc/sys/vm/swappiness 1
  fi
}

look_at_numa() {
  local folder nodes=0 used=0 balancing=0 card far=""
  for folder in "$root"/sys/devices/system/node/node[0-9]*; do
    look "${folder#"$root"}/cpulist" && expand "$value" || continue
    nodes=$((nodes + 1))
    if [ -n "$(both "$pinned" "$expanded")" ]; then used=$((used + 1)); fi
    for card in $(cards); do
      if look "${card#"$root"}/device/numa_node" && [ "$value" = "${folder##*node}" ] &&
        [ -n "$pinned" ] && [ -z "$(both "$pinned" "$expanded")" ]; then far+=" ${card##*/}"; fi
    done
  done
  if look /proc/sys/kernel/numa_balancing; then balancing=$value; fi
  if [ "$nodes" -le 1 ]; then
    finding ok numa "$nodes nodes shown" "one, or all shards on one" "all memory is equally near"
    return
  fi
  if [ "$balancing" != 0 ]; then
    finding warn numa-balancing "$balancing" 0 \
      "it takes pages away to see who misses them: faults in the middle of the work"
    fix safe numa-balancing /proc/sys/kernel/numa_balancing 0
  else
    finding ok numa-balancing 0 0 "no page is taken away to see who misses it"
  fi
  if [ -z "$pinned" ]; then
    finding "cannot tell" numa "$nodes nodes" "all shards on one" "it is not known where the shards are"
  elif [ "$used" -gt 1 ]; then
    finding warn numa "shards on $used of $nodes nodes" "on one, that of the network card" \
      "what shards exchange crosses between the nodes"
  elif [ -n "$far" ]; then
    finding warn numa "the shards are on another node than:$far" "on one node" \
      "each packet crosses between the nodes"
  else
    finding ok numa "shards on one of $nodes nodes" "on one" "all their memory is near"
  fi
}

# --- limits --------------------------------------------------------------------------------------

look_at_backlogs() {
  local cookies=1
  if ! look /proc/sys/net/core/somaxconn; then
    finding "cannot tell" somaxconn "not shown" "at least $backlog" "it cuts the broker's backlog"
  elif [ "$value" -lt "$backlog" ]; then
    finding "$([ "$value" -le 128 ] && printf bad || printf warn)" somaxconn "$value" \
      "at least $backlog" "it cuts the backlog; clients that connect at once wait a second and more"
    fix safe somaxconn /proc/sys/net/core/somaxconn "$backlog"
  else
    finding ok somaxconn "$value" "at least $backlog" "the broker's backlog is not cut"
  fi
  if look /proc/sys/net/ipv4/tcp_syncookies; then cookies=$value; fi
  if ! look /proc/sys/net/ipv4/tcp_max_syn_backlog; then
    finding "cannot tell" syn-backlog "not shown" "at least $backlog" "it bounds half-open connections"
  elif [ "$value" -ge "$backlog" ]; then
    finding ok syn-backlog "$value" "at least $backlog" "the backlog fits"
  else
    if [ "$cookies" = 0 ]; then
      finding warn syn-backlog "$value, without syncookies" "at least $backlog" \
        "half-open connections beyond are dropped; the client tries again after a second"
    else
      finding note syn-backlog "$value" "at least $backlog" \
        "it counts only where tcp_syncookies is 0; here it is $cookies"
    fi
    fix safe syn-backlog /proc/sys/net/ipv4/tcp_max_syn_backlog "$backlog"
  fi
}

# limit NAME OPTION: the hard limit of the broker, else of this shell, as a number or unlimited.
limit() {
  local line=""
  if [ -n "$pid" ] && [ -r "$root/proc/$pid/limits" ]; then
    line=$(grep -m 1 "^$1 " "$root/proc/$pid/limits" 2>/dev/null) || line=""
    # Name, soft, hard, unit.
    read -r _ whose_hard _ <<<"${line#"$1"}"
    whose="broker $pid"
  else
    whose_hard=$(ulimit -H "$2") whose="this shell"
    if [ "$2" = -l ] && [ "$whose_hard" != unlimited ]; then whose_hard=$((whose_hard * 1024)); fi
  fi
}

look_at_limits() {
  local needed=$((max_connections + reserved_files)) locked
  limit "Max open files" -n
  if [ -z "$whose_hard" ]; then
    finding "cannot tell" files "the limit is not shown" "at least $needed" "each connection is a file"
  elif [ "$whose_hard" = unlimited ] || [ "$whose_hard" -ge "$needed" ]; then
    finding ok files "$whose_hard ($whose)" "at least $needed" "room for $max_connections connections"
  else
    finding "$([ "$whose_hard" -le 1024 ] && printf bad || printf warn)" files "$whose_hard ($whose)" \
      "at least $needed, by LimitNOFILE or limits.conf" "the broker takes that many fewer connections"
  fi
  if look /proc/sys/fs/nr_open && [ "$value" -lt "$needed" ]; then
    finding warn nr_open "$value" "at least $needed" "no limit of open files can be above it"
    fix safe nr_open /proc/sys/fs/nr_open "$needed"
  fi
  locked=$(((shards > 0 ? shards : 1) * memlock_shard_kb * 1024))
  limit "Max locked memory" -l
  if [ -z "$whose_hard" ]; then
    finding "cannot tell" memlock "the limit is not shown" "at least $locked" "io_uring may lock memory"
  elif [ "$whose_hard" = unlimited ] || [ "$whose_hard" -ge "$locked" ]; then
    finding ok memlock "$whose_hard bytes ($whose)" "at least $locked" "io_uring may lock what it needs"
  else
    finding note memlock "$whose_hard bytes ($whose)" "at least $locked, by LimitMEMLOCK" \
      "buffers that io_uring locks count against it"
  fi
}

look_at_io_uring() {
  local release="" major minor
  if look /proc/sys/kernel/osrelease; then release=$value; fi
  IFS=.- read -r major minor _ <<<"$release"
  if [[ ! $major =~ ^[0-9]+$ || ! $minor =~ ^[0-9]+$ ]]; then
    finding "cannot tell" io_uring "the kernel's release is not shown" "Linux 6.1 or newer" \
      "older ones lack what the broker asks for; it takes epoll then"
  elif [ $((major * 1000 + minor)) -lt 6001 ]; then
    finding note io_uring "Linux $release" "6.1 or newer" \
      "older ones lack what the broker asks for; it takes epoll then"
  elif ! look /proc/sys/kernel/io_uring_disabled; then
    finding ok io_uring "Linux $release, no switch" "Linux 6.1 or newer" \
      "the switch came with 6.6; a container may refuse all the same"
  elif [ "$value" = 0 ]; then
    finding ok io_uring "Linux $release, io_uring_disabled 0" 0 \
      "any process may use it; a container may refuse all the same"
  else
    finding note io_uring "io_uring_disabled $value" "0, or 1 and the broker in io_uring_group" \
      "2 refuses everybody, 1 whoever is not in that group; the broker takes epoll then"
    fix io-uring io_uring /proc/sys/kernel/io_uring_disabled 0
  fi
}

look_at_machine
look_at_pins
look_at_governor
look_at_idle
look_at_isolation
look_at_quota
look_at_clock
look_at_mitigations
look_at_interrupts
look_at_irqbalance
look_at_steering
look_at_huge_pages
look_at_swap
look_at_numa
look_at_backlogs
look_at_limits
look_at_io_uring

if [ "$fixes" = no ]; then
  printf '%d bad, %d warn, %d note, %d ok, %d cannot tell\n' "${count[bad]}" "${count[warn]}" \
    "${count[note]}" "${count[ok]}" "${count["cannot tell"]}"
fi
[ "${count[bad]}" -eq 0 ]
