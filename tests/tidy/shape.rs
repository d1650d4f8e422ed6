//! Sizes of files and functions, where unsafe code may stand, what must not be in code.

use crate::assert_none;
use crate::source::{File, code_of, rust_files};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// The only files with unsafe code: the scan of request heads calls instructions that the compiler
/// does not choose by itself, the seam to the I/O runtime lends out a raw descriptor.
const UNSAFE_FILES: [&str; 2] = ["src/http/simd.rs", "src/runtime/stream.rs"];

/// The only files of the tests that let time pass: they poll with a deadline, or time is what they
/// are about (a client or server that is slow on purpose).
const SLEEPING_FILES: [&str; 8] = [
    // At the start, before anything is served.
    "src/net/listener.rs",
    // For a process that is no child there is nothing to wait on.
    "src/postgres/cluster/deadline.rs",
    "tests/support/poll.rs",
    "tests/net/server.rs",
    "tests/net/deadlines.rs",
    "loadtest/src/server.rs",
    "loadtest/src/interrupt.rs",
    "loadtest/tests/generator/fake_broker.rs",
];

#[test]
fn no_file_is_too_long() {
    let long = |file: &File| {
        let lines = file.text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", file.path))
    };
    let faults: Vec<String> = rust_files().iter().filter_map(long).collect();
    assert_none("a file has more than 800 lines", &faults);
}

/// Name, first line (from 1) and number of lines of every function that has a body.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let word = |letter: &char| letter.is_alphanumeric() || *letter == '_';
        let name: String = code[at + 3..].chars().take_while(word).collect();
        if let Some(end) = body_end(&code[at..]).filter(|_| !name.is_empty()) {
            let lines = code[at..at + end].matches('\n').count() + 1;
            found.push((name, code[..at].matches('\n').count() + 1, lines));
        }
    }
    found
}

/// Where the body ends; none for a declaration without one.
fn body_end(code: &str) -> Option<usize> {
    let (mut depth, mut inside) = (0_i32, false);
    for (at, letter) in code.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' => {
                inside = true;
                depth += 1;
            }
            '}' => {
                depth -= 1;
                if inside && depth == 0 {
                    return Some(at);
                }
            }
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[test]
fn no_function_is_too_long() {
    let mut faults = Vec::new();
    for file in rust_files() {
        for (name, line, lines) in functions(&file.code()) {
            if lines > FUNCTION_LINES_MAX {
                faults.push(format!("{}:{line}: {name} has {lines} lines", file.path));
            }
        }
    }
    assert_none("a function has more than 70 lines", &faults);
}

fn with_word(word: &str, allowed: &[&str]) -> Vec<String> {
    let is_word = |text: &str, at: usize| {
        let edge = |letter: Option<char>| {
            !letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        };
        edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next())
    };
    let mut faults = Vec::new();
    for file in rust_files() {
        if allowed.contains(&file.path.as_str()) {
            continue;
        }
        for (number, line) in file.code().lines().enumerate() {
            if line.match_indices(word).any(|(at, _)| is_word(line, at)) {
                faults.push(format!("{}:{}", file.path, number + 1));
            }
        }
    }
    faults
}

#[test]
fn unsafe_code_stands_where_it_may() {
    assert_none(
        "unsafe outside of its files",
        &with_word("unsafe", &UNSAFE_FILES),
    );
    for path in UNSAFE_FILES {
        let file = rust_files().into_iter().find(|file| file.path == path);
        let used = file.is_some_and(|file| file.code().contains("unsafe"));
        assert!(used, "{path} needs no place in the list any more");
    }
}

#[test]
fn nothing_waits_by_sleeping() {
    let faults = with_word("thread::sleep", &SLEEPING_FILES);
    assert_none("wait for what is expected, with a deadline", &faults);
}

#[test]
fn nothing_is_left_undone() {
    for word in ["todo!", "unimplemented!", "dbg!"] {
        let faults: Vec<String> = with_word(word.trim_end_matches('!'), &[])
            .into_iter()
            .filter(|place| line_at(place).contains(word))
            .collect();
        assert_none(word, &faults);
    }
    let ignored: Vec<String> = rust_files()
        .iter()
        .filter(|file| file.code().contains("#[ignore"))
        .map(|file| file.path.clone())
        .collect();
    assert_none("a test is ignored", &ignored);
}

fn line_at(place: &str) -> String {
    let (path, number) = place.rsplit_once(':').expect("a place");
    let number: usize = number.parse().expect("a number");
    let file = rust_files().into_iter().find(|file| file.path == path);
    let code = file.expect("a file").code();
    code.lines().nth(number - 1).expect("a line").to_owned()
}

#[test]
fn every_file_of_the_source_says_what_it_is() {
    // Unit tests that outgrew their file stand in a sibling, which needs no words of its own.
    let silent = |file: &&File| {
        let of_source = file.path.starts_with("src/") && !file.path.ends_with("_test.rs");
        of_source && !file.text.starts_with("//! ")
    };
    let faults: Vec<String> = rust_files()
        .iter()
        .filter(silent)
        .map(|file| file.path.clone())
        .collect();
    assert_none("a file does not begin with //!", &faults);
}

#[test]
fn functions_are_measured() {
    let code = code_of(
        "fn a(x: [u8; 4]) -> u8 {\n    match x {\n        _ => 1,\n    }\n}\n\ntrait T {\n    fn b();\n    \
         fn c() {}\n}\nlet f: fn(u8) = d;\n",
    );
    let expected = [("a".to_owned(), 1, 5), ("c".to_owned(), 9, 1)];
    assert_eq!(functions(&code), expected);
}
