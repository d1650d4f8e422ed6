//! The scripts of wrk and k6 in `loadtest/`: each one at its tiny size with a broker of its own, as
//! `loadtest/run.sh` starts it; and that the launcher sees faults and leaves nothing behind.

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use support::eventually_within;

/// How long a tiny run may take, in seconds: a few, and more where a program is missing yet and is
/// installed by the run.
const RUN_S_MAX: &str = "200";

/// Whether the settings of the one who tests would change what the broker does.
fn is_setting(name: &str) -> bool {
    name.starts_with("QUEEN_") || name.starts_with("POP_")
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn launcher() -> PathBuf {
    top().join("loadtest/run.sh")
}

/// The launcher, in any folder; `timeout` ends it with its broker where it takes too long.
fn run_of(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=60", RUN_S_MAX, "bash"])
        .arg(launcher())
        .args(arguments)
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command
}

/// One scenario with the broker under test.
fn scenario(tool: &str, name: &str, more: &[&str]) -> Command {
    let mut command = run_of(&[tool, name, "--broker", env!("CARGO_BIN_EXE_queen")]);
    command.args(more);
    command
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// What it printed to stdout and stderr; it must have ended with `status`.
#[track_caller]
fn run(command: &mut Command, status: i32) -> (String, String) {
    let output = command.output().expect("timeout is there");
    let (said, complained) = text(&output);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{command:?}:\n{said}{complained}"
    );
    (said, complained)
}

/// The names of the scripts of a tool.
fn scenarios(tool: &str, ending: &str) -> BTreeSet<String> {
    let folder = top().join("loadtest").join(tool);
    let entries = fs::read_dir(folder).expect("scripts");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("names are UTF-8"));
    let stems = names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned));
    let found: BTreeSet<String> = stems.collect();
    assert!(found.len() >= 4, "{found:?}");
    found
}

fn every_scenario() -> Vec<(&'static str, String)> {
    let of = |tool, ending| {
        scenarios(tool, ending)
            .into_iter()
            .map(move |one| (tool, one))
    };
    of("wrk", ".lua").chain(of("k6", ".js")).collect()
}

#[track_caller]
fn all_work(tool: &'static str) {
    for (_, name) in every_scenario().iter().filter(|(of, _)| *of == tool) {
        let (said, _) = run(&mut scenario(tool, name, &["--tiny"]), 0);
        assert!(said.ends_with(&format!("\nok: {tool} {name}\n")), "{said}");
        assert!(said.starts_with("broker: process "), "{said}");
    }
}

#[test]
fn every_script_of_wrk_works() {
    all_work("wrk");
}

#[test]
fn every_script_of_k6_works() {
    all_work("k6");
}

#[test]
fn every_scenario_is_listed_and_in_the_readme() {
    let readme = fs::read_to_string(top().join("README.md")).expect("a README");
    let (list, _) = run(&mut run_of(&[]), 0);
    let all = every_scenario();
    assert_eq!(list.lines().count(), all.len(), "{list}");
    let words = |line: &str| {
        let (command, what) = line.split_once(" # ").unwrap_or((line, ""));
        let command: Vec<&str> = command.split_whitespace().collect();
        (command.join(" "), what.to_owned())
    };
    for (tool, name) in all {
        let command = format!("bash loadtest/run.sh {tool} {name}");
        let listed = list
            .lines()
            .map(words)
            .find(|(listed, _)| *listed == command);
        let (_, what) = listed.unwrap_or_else(|| panic!("{command} in {list}"));
        assert!(!what.is_empty(), "{command} says what it does");
        let is_in_readme = readme.lines().any(|line| words(line).0 == command);
        assert!(is_in_readme, "{command} in the README");
    }
}

/// A broker that is full refuses every push: each tool must say so.
#[test]
fn a_refused_request_fails_the_run() {
    for (tool, name) in [("wrk", "pipelined"), ("k6", "presence_fan_out")] {
        let mut command = scenario(tool, name, &["--tiny"]);
        command.env("QUEEN_EPHEMERAL_MAX_BYTES", "1");
        let (said, complained) = run(&mut command, 1);
        assert!(said.contains("503"), "{said}{complained}");
        assert!(
            complained.ends_with(&format!("\nFAILED: {tool} {name}\n")),
            "{complained}"
        );
    }
}

#[test]
fn a_broker_that_ends_fails_the_run() {
    let mut command = run_of(&["wrk", "push", "--tiny", "--broker", "/bin/false"]);
    let (_, complained) = run(&mut command, 1);
    assert!(complained.contains("the broker has ended"), "{complained}");
}

#[test]
fn wrong_arguments_are_named() {
    for arguments in [
        &["wrk"][..],
        &["wrk", "nonsense"],
        &["wrk", "../wrk/push"],
        &["ab", "push"],
        &["wrk", "push", "--nonsense"],
        &["wrk", "push", "pop"],
        &["wrk", "push", "--broker"],
        &["wrk", "push", "--broker", "/nonsense"],
        &["--install", "--tiny"],
    ] {
        let (said, complained) = run(&mut run_of(arguments), 2);
        assert_eq!(said, "", "{arguments:?}");
        assert!(
            complained.starts_with("run.sh: "),
            "{arguments:?}: {complained}"
        );
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it can be signalled");
}

/// A long run that is interrupted in the middle of its load.
#[track_caller]
fn interrupt(tool: &str, name: &str, how: Signal) {
    // Without `timeout`, which a signal would reach first. A shell cannot catch what was ignored when it
    // began, as SIGINT is where all of this runs in the background.
    let mut command = Command::new("env");
    let broker = env!("CARGO_BIN_EXE_queen");
    command
        .args(["--default-signal=INT", "bash"])
        .arg(launcher())
        .args([tool, name, "--broker", broker])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("bash is there");
    let mut said = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("its first line");
    let pid = line.split_whitespace().nth(2).expect("the broker's id");
    let process = Path::new("/proc").join(pid);
    assert!(process.exists(), "{line}");
    signal(&child, how);
    let limit = Duration::from_secs(60);
    eventually_within(limit, "the run ends", || {
        child.try_wait().expect("a child").is_some()
    });
    assert!(!process.exists(), "its broker has ended");
    let status = child.wait().expect("a child").code();
    assert_eq!(status, Some(128 + how.as_raw()));
    let mut complained = String::new();
    let mut stderr = child.stderr.take().expect("stderr is piped");
    stderr
        .read_to_string(&mut complained)
        .expect("its complaint");
    assert!(
        complained.ends_with(&format!("FAILED: {tool} {name}\n")),
        "{complained}"
    );
}

#[test]
fn an_interrupted_run_leaves_no_broker() {
    interrupt("wrk", "push", Signal::TERM);
    interrupt("k6", "mixed", Signal::INT);
}
