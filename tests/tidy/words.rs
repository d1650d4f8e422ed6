//! What must not be written: vague names, paths of one machine, failures that are swallowed.

use crate::assert_none;
use crate::source::{files, rust_files};

/// Parts of a name that say nothing.
const VAGUE: [&str; 6] = ["util", "utils", "helper", "helpers", "manager", "misc"];

/// The parts of a snake or camel case name, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut previous_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && previous_lower) {
            parts.push(String::new());
        }
        previous_lower = letter.is_lowercase() || letter.is_numeric();
        if letter != '_' {
            parts
                .last_mut()
                .expect("never empty")
                .extend(letter.to_lowercase());
        }
    }
    parts
}

fn is_vague(name: &str) -> bool {
    parts(name)
        .iter()
        .any(|part| VAGUE.contains(&part.as_str()))
}

#[test]
fn no_file_has_a_vague_name() {
    let vague = |path: &String| {
        path.split('/')
            .any(|part| is_vague(part.split('.').next().unwrap_or(part)))
    };
    let faults: Vec<String> = files()
        .into_iter()
        .map(|file| file.path)
        .filter(vague)
        .collect();
    assert_none("a file whose name says nothing", &faults);
}

#[test]
fn no_identifier_is_vague() {
    let mut faults = Vec::new();
    for file in rust_files() {
        for (number, line) in file.code().lines().enumerate() {
            let mut names = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            if let Some(name) = names.find(|name| is_vague(name)) {
                faults.push(format!("{}:{}: {name}", file.path, number + 1));
            }
        }
    }
    assert_none("a name that says nothing", &faults);
}

#[test]
fn nothing_refers_outside_of_the_project() {
    // Written in two halves, so that this file does not refer to them itself.
    let forbidden = [
        concat!("../", "shared"),
        concat!("/", "work/"),
        concat!("/", "root/"),
        concat!("/", "home/"),
        concat!("/", "Users/"),
    ];
    let mut faults = Vec::new();
    for file in files() {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(path) = forbidden.iter().find(|path| line.contains(**path)) {
                faults.push(format!("{}:{}: {path}", file.path, number + 1));
            }
        }
    }
    assert_none("a path of one machine", &faults);
}

#[test]
fn no_script_swallows_a_failure() {
    let mut faults = Vec::new();
    for file in files() {
        let is_script = file.path.ends_with(".sh") || file.text.starts_with("#!/usr/bin/env bash");
        if !is_script {
            continue;
        }
        if !file.text.contains("\nset -euo pipefail\n") {
            faults.push(format!("{}: no `set -euo pipefail`", file.path));
        }
        for (number, line) in file.text.lines().enumerate() {
            if line.contains("|| true") || line.contains("|| :") {
                faults.push(format!("{}:{}", file.path, number + 1));
            }
        }
    }
    assert_none("a script that goes on after a failure", &faults);
}

#[test]
fn names_are_taken_apart() {
    assert_eq!(parts("BudgetManager2"), ["budget", "manager2"]);
    assert_eq!(parts("test_helpers"), ["test", "helpers"]);
    assert!(is_vague("LeaseManager") && is_vague("utils") && !is_vague("utility"));
}
