//! The files of the project, and Rust text without comments and the contents of literals.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are made, not written.
const MADE: [&str; 6] = [
    ".git",
    "target",
    "queen-data",
    ".venv",
    "node_modules",
    "__pycache__",
];

/// One file of the project.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the top folder, with `/` between its parts.
    pub(crate) path: String,
    /// Its text; empty when it is not text.
    pub(crate) text: String,
}

impl File {
    /// Whether it is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Its Rust text without comments and literals.
    pub(crate) fn code(&self) -> String {
        code_of(&self.text)
    }
}

/// The top folder of the project.
pub(crate) fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of the project, by path.
pub(crate) fn files() -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![top().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() && !MADE.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && name != ".git" {
                files.push(read(&entry.path()));
            }
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    files
}

/// All Rust files of the project.
pub(crate) fn rust_files() -> Vec<File> {
    files().into_iter().filter(File::is_rust).collect()
}

fn read(path: &PathBuf) -> File {
    let relative = path.strip_prefix(top()).expect("below the top folder");
    File {
        path: relative.to_str().expect("names are UTF-8").to_owned(),
        text: fs::read_to_string(path).unwrap_or_default(),
    }
}

/// Rust text with comments and the contents of literals blanked out; every line stays where it is.
pub(crate) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if starts_raw_string(bytes, at) => raw_string_end(bytes, at),
            b'\'' => character_end(bytes, at),
            _ => {
                at += 1;
                continue;
            }
        };
        let blank = |byte: &mut u8| *byte = if *byte == b'\n' { b'\n' } else { b' ' };
        code[at..end].iter_mut().for_each(blank);
        at = end;
    }
    String::from_utf8(code).expect("only whole characters were blanked out")
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    find(bytes, from, b"\n")
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> usize {
    let found = bytes[from..]
        .windows(needle.len())
        .position(|window| window == needle);
    found.map_or(bytes.len(), |offset| from + offset)
}

fn comment_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn hashes(bytes: &[u8], from: usize) -> usize {
    bytes[from..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count()
}

fn starts_raw_string(bytes: &[u8], at: usize) -> bool {
    let continues_a_name =
        at > 0 && (bytes[at - 1].is_ascii_alphanumeric() && bytes[at - 1] != b'b');
    let after = at + 1 + hashes(bytes, at + 1);
    !continues_a_name && bytes.get(after) == Some(&b'"')
}

fn raw_string_end(bytes: &[u8], from: usize) -> usize {
    let count = hashes(bytes, from + 1);
    let mut close = vec![b'"'];
    close.resize(1 + count, b'#');
    let end = find(bytes, from + 2 + count, &close);
    (end + close.len()).min(bytes.len())
}

/// The end of a character literal, or just past the quote when it opens a lifetime.
fn character_end(bytes: &[u8], from: usize) -> usize {
    if bytes.get(from + 1) == Some(&b'\\') {
        return find(bytes, from + 3, b"'") + 1;
    }
    let character = std::str::from_utf8(&bytes[from + 1..])
        .ok()
        .and_then(|rest| rest.chars().next());
    match character {
        Some(one) if bytes.get(from + 1 + one.len_utf8()) == Some(&b'\'') => {
            from + 2 + one.len_utf8()
        }
        _ => from + 1,
    }
}

#[test]
fn comments_and_literals_are_blanked_out() {
    let text =
        "a /* x /* y */ z */ b // c\n\"d\\\"{\" 'e' '\\'' &'f g r#\"h\"{\"# br\"i\" '\u{e9}' j";
    let words: Vec<String> = code_of(text)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    assert_eq!(words, ["a", "b", "&", "f", "g", "b", "j"]);
    assert_eq!(code_of(text).matches('\n').count(), 1);
}
