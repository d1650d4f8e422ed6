//! Which room of `src` may use which other one.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::source::{File, code_of, rust_files};

/// A room and the rooms it may use. `limits` may be used by all and uses none.
const ROOMS: [(&str, &[&str]); 20] = [
    ("limits", &[]),
    ("config", &[]),
    ("model", &[]),
    // Moments are the values that deadlines are given in.
    ("runtime", &["model"]),
    ("http", &[]),
    // An answer is addressed by a value of the model.
    ("net", &["runtime", "http", "model"]),
    // The tenant is read from a field of the head.
    ("auth", &["http", "model"]),
    ("api", &["http", "model", "auth"]),
    ("placement", &["model"]),
    ("dispatch", &["placement", "channel", "shard", "model"]),
    ("channel", &["model"]),
    ("directory", &["model"]),
    ("shard", &["model", "directory", "placement"]),
    ("postgres", &["model"]),
    ("engine", &["model", "postgres"]),
    (
        "core_loop",
        &[
            "config",
            "model",
            "runtime",
            "http",
            "net",
            "auth",
            "api",
            "placement",
            "dispatch",
            "channel",
            "directory",
            "shard",
            "postgres",
            "engine",
            "observe",
        ],
    ),
    ("observe", &["model"]),
    // A part of the process, like `main.rs`.
    ("engine_start", &[]),
    ("fatal", &[]),
    ("shutdown", &["fatal"]),
];

/// The room a file of `src` belongs to; none for the two roots.
fn room_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    let room = rest.split('/').next()?.trim_end_matches(".rs");
    (!matches!(room, "lib" | "main")).then_some(room)
}

/// The rooms that code names behind `crate::`, groups in braces included.
fn used_rooms(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let name = |text: &str| -> String {
        let word = |letter: &char| letter.is_alphanumeric() || *letter == '_';
        text.trim_start().chars().take_while(word).collect()
    };
    for (at, found) in code.match_indices("crate::") {
        let whole = !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            Some(group) if whole => used.extend(top_level_parts(group).into_iter().map(name)),
            None if whole => {
                used.insert(name(rest));
            }
            _ => {}
        }
    }
    used
}

/// The parts of a brace group up to its end, split at the commas of the first level.
fn top_level_parts(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (1, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            parts.push(&group[start..at]);
            break;
        }
    }
    parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect()
}

fn faults_of(file: &File) -> Vec<String> {
    let Some(room) = room_of(&file.path) else {
        return Vec::new();
    };
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![format!(
            "{}: the room {room} is not in the table",
            file.path
        )];
    };
    let known = |name: &str| ROOMS.iter().any(|(room, _)| *room == name);
    let may = |name: &str| name == room || name == "limits" || allowed.contains(&name);
    used_rooms(&file.code())
        .into_iter()
        .filter(|name| known(name) && !may(name))
        .map(|name| format!("{}: {room} must not use {name}", file.path))
        .collect()
}

#[test]
fn rooms_use_only_what_they_may() {
    let faults: Vec<String> = rust_files().iter().flat_map(faults_of).collect();
    assert_none("a room uses one that it must not know", &faults);
}

/// A path of `super::super::` would leave a room unseen.
#[test]
fn rooms_name_each_other_by_crate_only() {
    let leaves = |file: &&File| {
        let depth = file.path.matches('/').count();
        let chain = "super::".repeat(depth.max(1) + 1);
        room_of(&file.path).is_some() && file.code().contains(&chain)
    };
    let faults: Vec<String> = rust_files()
        .iter()
        .filter(leaves)
        .map(|file| file.path.clone())
        .collect();
    assert_none("a chain of super:: leaves its room", &faults);
}

#[test]
fn groups_and_paths_are_read() {
    let code = code_of(
        "use crate::{http, model::{A, B}, net::x};\nuse crate::shard::Ring; my_crate::no(); \
         // crate::comment\n let x = crate::limits::Y;",
    );
    let used: Vec<String> = used_rooms(&code).into_iter().collect();
    assert_eq!(used, ["http", "limits", "model", "net", "shard"]);
}
