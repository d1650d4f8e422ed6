//! The README's map names the rooms of the source, its tables all settings and limits.

use std::collections::BTreeSet;
use std::fs;

use crate::assert_none;
use crate::source::{rust_files, top};

fn readme() -> String {
    fs::read_to_string(top().join("README.md")).expect("the project has a README.md")
}

/// The text of one section, up to the next heading of its level or above.
fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let heading = |line: &str| line.starts_with("## ") || line.starts_with("# ");
    let mut start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        match start {
            None if heading(line) && line.to_lowercase().contains(title) => {
                start = Some(at + line.len());
            }
            Some(start) if heading(line) => return &text[start..at],
            _ => {}
        }
        at += line.len();
    }
    &text[start.unwrap_or_else(|| panic!("README.md has no section {title:?}"))..]
}

/// What stands between backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rooms as the map writes them: `http/`, `limits.rs`.
fn rooms() -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for entry in fs::read_dir(top().join("src")).expect("the source") {
        let entry = entry.expect("an entry");
        let mut name = entry.file_name().into_string().expect("names are UTF-8");
        if entry.file_type().expect("a kind").is_dir() {
            name.push('/');
        }
        if name != "lib.rs" && name != "main.rs" {
            rooms.insert(name);
        }
    }
    rooms
}

#[test]
fn the_map_names_exactly_the_rooms() {
    let text = readme();
    let map: BTreeSet<String> = quoted(section(&text, "source map"))
        .into_iter()
        .map(|name| name.strip_prefix("src/").unwrap_or(name).to_owned())
        .collect();
    let rooms = rooms();
    let missing = rooms.iter().filter(|room| !map.contains(*room));
    let missing: Vec<String> = missing.map(|room| format!("`{room}`")).collect();
    assert_none("rooms that the README's source map does not name", &missing);
    let looks_like_a_room = |name: &String| {
        let inner = name.trim_end_matches('/');
        let top_level = ["bench", "loadtest", "tests", "tuning", "src"].contains(&inner);
        let main = ["lib.rs", "main.rs", "mod.rs"].contains(&inner);
        (name.ends_with('/') || name.ends_with(".rs"))
            && !inner.contains(['/', ' '])
            && !top_level
            && !main
    };
    let gone: Vec<String> = map
        .into_iter()
        .filter(|name| looks_like_a_room(name) && !rooms.contains(name))
        .collect();
    assert_none("rooms of the README's source map that are not there", &gone);
}

#[test]
fn the_tests_that_the_readme_names_are_there() {
    let text = readme();
    let functions: BTreeSet<String> = rust_files()
        .iter()
        .filter(|file| file.path.starts_with("tests/"))
        .flat_map(|file| {
            let names = file.text.split("fn ").skip(1);
            let names = names.filter_map(|rest| rest.split_once("()"));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let rows = section(&text, "the database")
        .lines()
        .filter(|line| line.starts_with('|'));
    // The test is the last word in backticks of a row.
    let named: Vec<&str> = rows.filter_map(|row| row.split('`').nth_back(1)).collect();
    assert!(named.len() >= 6, "what survives what is shown by tests");
    let missing = named.iter().filter(|name| !functions.contains(**name));
    let missing: Vec<String> = missing.map(|name| (*name).to_owned()).collect();
    assert_none(
        "tests that the README names and that are not there",
        &missing,
    );
}

#[test]
fn every_setting_is_in_the_readme() {
    let text = readme();
    let known = quoted(&text);
    let missing: Vec<String> = queen::config::setting_names()
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(str::to_owned)
        .collect();
    assert_none(
        "settings that the README does not name in backticks",
        &missing,
    );
}

#[test]
fn no_setting_of_the_readme_is_unknown() {
    let text = readme();
    let names = queen::config::setting_names();
    // What the tests themselves read is no setting of the broker.
    let unknown: Vec<String> = quoted(&text)
        .into_iter()
        .map(|name| name.split('=').next().unwrap_or(name))
        .filter(|name| name.starts_with("QUEEN_") && !name.starts_with("QUEEN_TEST_"))
        .filter(|name| {
            name.bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        })
        .filter(|name| !names.contains(name))
        .map(str::to_owned)
        .collect();
    assert_none("settings of the README that do not exist", &unknown);
}

/// The names of the constants of `limits.rs`.
fn limits() -> BTreeSet<String> {
    let text = fs::read_to_string(top().join("src/limits.rs")).expect("the limits");
    let names = text.split("pub const ").skip(1);
    let names = names.filter_map(|rest| rest.split_once(':'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_table_of_limits_names_exactly_the_limits() {
    let text = readme();
    let rows = section(&text, "limits")
        .lines()
        .filter_map(|line| line.strip_prefix("| `"));
    // The names stand in the first cell.
    let words = rows
        .filter_map(|row| row.split('|').next())
        .flat_map(|cell| cell.split([',', '`', ' ']))
        .filter(|word| !word.is_empty());
    let mut named = BTreeSet::new();
    let twice: Vec<String> = words
        .map(str::to_owned)
        .filter(|word| !named.insert(word.clone()))
        .collect();
    assert_none("limits that the README's table names twice", &twice);
    let limits = limits();
    let missing: Vec<String> = limits.difference(&named).cloned().collect();
    assert_none("limits that the README's table does not name", &missing);
    let gone: Vec<String> = named.difference(&limits).cloned().collect();
    assert_none("limits of the README's table that do not exist", &gone);
}
