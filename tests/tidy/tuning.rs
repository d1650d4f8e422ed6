//! What stands in `tuning/`: every line has its reason, scripts parse and keep their promises on this
//! machine and on one that is made of files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use queen::limits::{LISTEN_BACKLOG, SHARDS_MAX, SHUTDOWN_MS_MAX};

use crate::assert_none;
use crate::source::top;

const LEVELS: [&str; 5] = ["ok", "note", "warn", "bad", "cannot tell"];

fn text(name: &str) -> String {
    fs::read_to_string(top().join("tuning").join(name)).expect("a file of tuning/")
}

/// Runs a script of `tuning/` without what the settings of the one who tests would add.
fn run(script: &str, arguments: &[&str]) -> Output {
    Command::new("bash")
        .arg(top().join("tuning").join(script))
        .args(arguments)
        .env_remove("QUEEN_PIN")
        .env_remove("QUEEN_SHARDS")
        .env_remove("QUEEN_MAX_CONNECTIONS")
        .output()
        .expect("bash is there")
}

/// What a script printed; it must have ended with `status` and complained of nothing.
#[track_caller]
fn said(output: &Output, status: i32) -> String {
    let faults = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(faults, "", "{said}");
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

#[test]
fn every_line_has_its_reason() {
    let mut faults = Vec::new();
    for name in [
        "queen.service",
        "sysctl.conf",
        "limits.conf",
        "postgresql.conf",
    ] {
        let mut before = "";
        let text = text(name);
        for (number, line) in text.lines().enumerate() {
            let says_something = !line.is_empty() && !line.starts_with(['#', '[']);
            if says_something && !before.starts_with("# ") {
                faults.push(format!("tuning/{name}:{}: {line}", number + 1));
            }
            before = line;
        }
    }
    assert_none("a line without a reason above it", &faults);
}

#[test]
fn scripts_can_be_parsed() {
    for script in ["check.sh", "apply.sh"] {
        let path = top().join("tuning").join(script);
        let output = Command::new("bash").arg("-n").arg(&path).output();
        said(&output.expect("bash is there"), 0);
        let mode = fs::metadata(&path).expect("a script").permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{script} can be run");
    }
}

/// The value behind `NAME=` or `NAME = `.
fn value(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no {name}"));
    line.trim_start_matches([' ', '=']).to_owned()
}

fn number(text: &str, name: &str) -> u64 {
    value(text, name).parse().expect("a number")
}

#[test]
fn the_unit_and_the_scripts_fit_the_broker() {
    let unit = text("queen.service");
    assert!(number(&unit, "TimeoutStopSec") * 1_000 > SHUTDOWN_MS_MAX);
    assert!(number(&unit, "LimitNOFILE") > 65_536 + 128);
    assert_eq!(value(&unit, "KillMode"), "mixed");
    let backlog = u64::from(LISTEN_BACKLOG);
    assert_eq!(number(&text("sysctl.conf"), "net.core.somaxconn"), backlog);
    let check = text("check.sh");
    assert!(check.contains(&format!("backlog={LISTEN_BACKLOG} ")));
    let unit_data = value(&unit, "Environment=QUEEN_DATA_DIR");
    assert_eq!(
        unit_data,
        format!("/var/lib/{}", value(&unit, "StateDirectory="))
    );
}

/// The CPUs of a list such as `0,2-5`.
fn cpus(list: &str) -> Vec<u32> {
    let number = |text: &str| text.parse::<u32>().expect("a CPU");
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first)..=number(last)
    };
    list.split(',').flat_map(part).collect()
}

#[test]
fn the_core_maps_add_up() {
    let mut maps = 0;
    for row in text("README.md").lines() {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let Ok(cores) = cells[0].parse::<u32>() else {
            continue;
        };
        maps += 1;
        let [.., shard_cpus, shards, pin] = cells.as_slice() else {
            panic!("{row}");
        };
        let (pin, shards) = (cpus(pin), shards.parse::<usize>().expect("shards"));
        assert!(shards <= usize::from(SHARDS_MAX), "{row}");
        assert_eq!(pin[..shards], cpus(shard_cpus), "{row}");
        assert_eq!(pin[shards..], cpus(cells[2]), "{row}");
        let all: BTreeSet<u32> = cells[1..cells.len() - 2]
            .iter()
            .flat_map(|cell| cpus(cell))
            .collect();
        assert!(all.into_iter().eq(0..cores), "a core is left out: {row}");
    }
    assert_eq!(maps, 8);
}

/// Level and name of each finding.
#[track_caller]
fn findings(said: &str) -> Vec<(String, String)> {
    let mut lines: Vec<&str> = said.lines().collect();
    let sum = lines.pop().expect("a sum at the end");
    let mut found = Vec::new();
    for line in lines {
        let (level, rest) = line.split_at_checked(12).expect("a level");
        assert!(LEVELS.contains(&level.trim_end()), "{line}");
        let (name, rest) = rest.split_once(": ").expect("a name");
        assert!(!name.contains(' '), "{line}");
        let parts: Vec<&str> = rest.split(" | ").collect();
        assert!(parts.len() == 3, "{line}");
        assert!(parts.iter().all(|part| !part.trim().is_empty()), "{line}");
        assert!(!line.contains('\u{1b}'), "no colours in a pipe: {line}");
        found.push((level.trim_end().to_owned(), name.to_owned()));
    }
    for part in sum.split(", ") {
        let (count, level) = part.split_once(' ').expect("a count of a level");
        let is = found.iter().filter(|(found, _)| found == level).count();
        assert_eq!(count, is.to_string(), "{sum}");
    }
    found
}

#[test]
fn a_check_of_this_machine_has_the_promised_form() {
    let output = run("check.sh", &[]);
    let status = output.status.code().expect("a status");
    let found = findings(&said(&output, status));
    let is_bad = found.iter().any(|(level, _)| level == "bad");
    assert_eq!(status, i32::from(is_bad));
    let names: BTreeSet<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    for name in [
        "machine",
        "pins",
        "governor",
        "c-states",
        "isolation",
        "quota",
        "clocksource",
        "mitigations",
        "irq",
        "irqbalance",
        "rps",
        "rfs",
        "thp",
        "swap",
        "numa",
        "somaxconn",
        "syn-backlog",
        "files",
        "memlock",
        "io_uring",
    ] {
        assert!(names.contains(name), "{name} in {names:?}");
    }
}

#[test]
fn wrong_arguments_are_named() {
    for (script, arguments) in [
        ("check.sh", &["--pin", "1"][..]),
        ("check.sh", &["--pin", "1-x", "--shards", "1"]),
        ("check.sh", &["--pin", "1", "--shards", "2"]),
        ("check.sh", &["--nonsense"]),
        ("apply.sh", &["--nonsense"]),
        ("apply.sh", &["--dry-run", "--pin", "1"]),
    ] {
        let output = run(script, arguments);
        assert_eq!(output.status.code(), Some(2), "{script} {arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
}

/// A tree with proc and sys of a machine that does not exist; removed when dropped.
struct Machine(PathBuf);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Machine {
        let name = format!("queen-tuning-{}", uuid::Uuid::new_v4().simple());
        let machine = Machine(std::env::temp_dir().join(name));
        fs::create_dir(&machine.0).expect("a folder of its own");
        for (path, text) in files {
            let path = machine.0.join(path);
            fs::create_dir_all(path.parent().expect("below the top")).expect("folders");
            fs::write(path, format!("{text}\n")).expect("a file");
        }
        machine
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }

    fn files(&self) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).expect("text");
                    files.push((path, text));
                }
            }
        }
        files.sort();
        files
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A temporary folder that stays behind harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const CPUS: &str = "sys/devices/system/cpu";

/// A machine of 34 CPUs with everything wrong that can be set.
fn wrong_machine() -> Machine {
    let cpu = |rest: &str| format!("{CPUS}/{rest}");
    let limits =
        "Limit Soft Hard Units\nMax open files 1024 1024 files\nMax locked memory 8 8 bytes";
    let files = [
        (cpu("online"), "0-33"),
        (cpu("cpu33/cpufreq/scaling_governor"), "powersave"),
        (cpu("cpu33/cpufreq/scaling_driver"), "acpi-cpufreq"),
        (cpu("cpuidle/current_driver"), "intel_idle"),
        (cpu("cpu33/cpuidle/state1/latency"), "2"),
        (cpu("cpu33/cpuidle/state1/disable"), "0"),
        (cpu("cpu33/cpuidle/state2/latency"), "133"),
        (cpu("cpu33/cpuidle/state2/disable"), "0"),
        (cpu("cpu33/cpuidle/state2/name"), "C6"),
    ];
    let rest = [
        ("proc/7/comm", "queen"),
        ("proc/7/limits", limits),
        ("proc/7/status", "VmSwap:\t     12 kB"),
        ("proc/7/task/7/comm", "queen"),
        ("proc/7/task/8/comm", "shard-0"),
        ("proc/7/task/8/status", "Cpus_allowed_list:\t33"),
        ("proc/7/task/9/comm", "engine"),
        ("proc/7/task/9/status", "Cpus_allowed_list:\t0-3"),
        ("proc/9/comm", "irqbalance"),
        ("proc/irq/41/smp_affinity_list", "0-33"),
        ("sys/class/net/eth0/device/msi_irqs/41", "msix"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "3,ffffffff"),
        ("sys/class/net/lo/queues/rx-0/rps_cpus", "0"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never",
        ),
        (
            "sys/kernel/mm/transparent_hugepage/defrag",
            "[always] defer madvise never",
        ),
        ("sys/devices/system/node/node0/cpulist", "0-16"),
        ("sys/devices/system/node/node1/cpulist", "17-33"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet",
        ),
        ("proc/sys/kernel/numa_balancing", "1"),
        ("proc/sys/kernel/osrelease", "6.12.1-x"),
        ("proc/sys/kernel/io_uring_disabled", "2"),
        ("proc/sys/vm/swappiness", "60"),
        (
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/a partition 9 1 -2",
        ),
        ("proc/sys/net/core/somaxconn", "128"),
        ("proc/sys/net/ipv4/tcp_syncookies", "0"),
        ("proc/sys/net/ipv4/tcp_max_syn_backlog", "256"),
    ];
    let mut all: Vec<(&str, &str)> = rest.to_vec();
    all.extend(files.iter().map(|(path, text)| (path.as_str(), *text)));
    Machine::new(&all)
}

#[test]
fn what_is_wrong_is_found() {
    let machine = wrong_machine();
    let output = run("check.sh", &["--root", machine.path()]);
    let found = findings(&said(&output, 1));
    for (level, name) in [
        ("bad", "governor"),
        ("bad", "clocksource"),
        ("bad", "swap"),
        ("bad", "somaxconn"),
        ("bad", "files"),
        ("ok", "pins"),
        ("note", "isolation"),
        ("note", "io_uring"),
        ("note", "memlock"),
        ("warn", "c-states"),
        ("warn", "irq"),
        ("warn", "irqbalance"),
        ("warn", "rps"),
        ("warn", "thp"),
        ("warn", "thp-defrag"),
        ("warn", "numa-balancing"),
        ("warn", "syn-backlog"),
    ] {
        assert!(
            found.contains(&(level.to_owned(), name.to_owned())),
            "{level} {name} in {found:?}"
        );
    }
}

#[test]
fn a_machine_that_shows_nothing_cannot_be_judged() {
    let machine = Machine::new(&[]);
    let found = findings(&said(&run("check.sh", &["--root", machine.path()]), 0));
    let of = |wanted: &str| found.iter().filter(|(level, _)| level == wanted).count();
    assert!(of("cannot tell") >= 8, "{found:?}");
    assert_eq!(of("bad"), 0);
}

const ALL: [&str; 3] = ["--idle", "--interrupts", "--io-uring"];

#[test]
fn a_dry_run_changes_nothing() {
    let machine = wrong_machine();
    let before = machine.files();
    let mut arguments = vec!["--dry-run", "--root", machine.path()];
    arguments.extend(ALL);
    let told = said(&run("apply.sh", &arguments), 0);
    assert_eq!(told.matches("would set ").count(), 11, "{told}");
    assert_eq!(machine.files(), before);
    // On this machine too, whoever runs it.
    said(&run("apply.sh", &["--dry-run"]), 0);
}

#[test]
fn what_is_set_is_undone() {
    let machine = wrong_machine();
    let undo = machine.0.with_extension("undo.sh");
    let undo_path = undo.to_str().expect("UTF-8");
    let before = machine.files();
    let mut arguments = vec!["--root", machine.path(), "--undo", undo_path];
    // The files of the kernel show a choice in brackets only where they are the kernel's.
    let thp = machine.0.join("sys/kernel/mm/transparent_hugepage");
    let told = said(&run("apply.sh", &arguments), 1);
    assert!(told.contains("left        c-states: "), "{told}");
    let read = |path: &Path| fs::read_to_string(path).expect("a file");
    let irq = machine.0.join("proc/irq/41/smp_affinity_list");
    assert_eq!(read(&thp.join("enabled")), "madvise\n");
    assert_eq!(read(&irq), "0-33\n", "nobody has asked for it");
    fs::remove_file(&undo).expect("an undo script");

    arguments.extend(ALL);
    said(&run("apply.sh", &arguments), 1);
    assert_eq!(read(&irq), "0-32\n");
    let rps = machine.0.join("sys/class/net/eth0/queues/rx-0/rps_cpus");
    assert_eq!(read(&rps), "00000001,ffffffff\n");
    let idle = machine.0.join(CPUS).join("cpu33/cpuidle");
    assert_eq!(read(&idle.join("state2/disable")), "1\n");
    assert_eq!(read(&idle.join("state1/disable")), "0\n");

    let output = Command::new("bash").arg(&undo).output();
    said(&output.expect("bash is there"), 0);
    fs::remove_file(&undo).expect("an undo script");
    for path in [irq, rps, idle.join("state2/disable")] {
        let old = before.iter().find(|(known, _)| *known == path);
        assert_eq!(old.expect("a file").1, read(&path));
    }
}
