//! Manifests and the top folder.

use std::fs;

use crate::assert_none;
use crate::source::{files, top};

/// What the top folder consists of, beside files that begin with a dot and what is made.
const TOP: [&str; 9] = [
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE",
    "README.md",
    "src",
    "bench",
    "loadtest",
    "tests",
    "tuning",
];
const MADE: [&str; 2] = ["target", "queen-data"];

#[test]
fn the_top_folder_holds_what_it_should() {
    let mut faults = Vec::new();
    for entry in fs::read_dir(top()).expect("the top folder") {
        let name = entry.expect("an entry").file_name();
        let name = name.into_string().expect("names are UTF-8");
        if !name.starts_with('.') && !TOP.contains(&&*name) && !MADE.contains(&&*name) {
            faults.push(name);
        }
    }
    assert_none("unexpected in the top folder", &faults);
}

#[test]
fn every_dependency_has_its_reason() {
    let mut faults = Vec::new();
    for file in files() {
        if !file.path.ends_with("Cargo.toml") {
            continue;
        }
        let (mut of_dependencies, mut above) = (false, "");
        for line in file.text.lines() {
            if line.starts_with('[') {
                of_dependencies = line.contains("dependencies]");
            } else if of_dependencies
                && line.starts_with(|letter: char| letter.is_ascii_alphanumeric())
                && line.contains('=')
                && !above.starts_with('#')
            {
                faults.push(format!("{}: {line}", file.path));
            }
            above = line;
        }
    }
    assert_none("a dependency without a comment above it", &faults);
}

#[test]
fn every_suite_and_bench_is_in_the_manifest() {
    let manifests: String = ["Cargo.toml", "loadtest/Cargo.toml"]
        .map(|path| fs::read_to_string(top().join(path)).expect("a manifest"))
        .concat()
        .replace("path = \"../", "path = \"");
    let is_target = |path: &str| {
        let depth = path.matches('/').count();
        (path.starts_with("bench/") && depth == 1 && path.ends_with(".rs"))
            || (path.starts_with("tests/") && depth == 1 && path.ends_with(".rs"))
            || (path.starts_with("tests/") && depth == 2 && path.ends_with("/main.rs"))
    };
    let faults: Vec<String> = files()
        .into_iter()
        .map(|file| file.path)
        .filter(|path| is_target(path) && !manifests.contains(&format!("path = \"{path}\"")))
        .collect();
    assert_none("a suite or bench that never runs", &faults);
}
