//! The Python client and what a JavaScript client sends, as child processes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::brokers;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// The Python of the virtual environment that `tests/all.sh` makes.
fn python() -> PathBuf {
    match env::var_os("QUEEN_TEST_PYTHON") {
        Some(path) => path.into(),
        None => folder().join(".venv/bin/python"),
    }
}

fn node() -> PathBuf {
    env::var_os("QUEEN_TEST_NODE").map_or_else(|| "node".into(), PathBuf::from)
}

/// Runs a program against a broker of each driver; it must end with status 0.
fn run(interpreter: &Path, variable: &str, program: &str) {
    for broker in brokers() {
        let output = Command::new(interpreter)
            .arg(folder().join(program))
            .arg(broker.url())
            .output()
            .unwrap_or_else(|fault| {
                panic!(
                    "{} cannot be started ({fault}): run `bash tests/all.sh` once, which installs \
                     what the tests need, or set {variable}",
                    interpreter.display()
                )
            });
        assert!(
            output.status.success(),
            "{program} failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.trim_end().ends_with("ok"), "{program} said {text:?}");
    }
}

#[test]
fn the_python_client_runs_the_program() {
    run(&python(), "QUEEN_TEST_PYTHON", "seed.py");
}

#[test]
fn what_a_javascript_client_sends_runs_the_program() {
    run(&node(), "QUEEN_TEST_NODE", "seed.mjs");
}
