//! Reads vector files: `#` begins a comment, `>` a line of input that ends with CR LF, `|` a piece
//! of input without a line end, `=` an expected outcome. A vector ends with its last outcome.
//! Input knows the escapes `\r`, `\n`, `\t`, `\\` and `\xHH`, and `\{COUNT*TEXT}` for repetition.

/// Input and the outcomes that it must have.
pub(crate) struct Vector {
    pub(crate) file: &'static str,
    /// Where it ends in its file.
    pub(crate) line: usize,
    pub(crate) input: Vec<u8>,
    pub(crate) expected: Vec<String>,
}

pub(crate) fn read(file: &'static str, text: &str) -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let Some(kind) = line.chars().next().filter(|kind| *kind != '#') else {
            continue;
        };
        let content = line[1..].strip_prefix(' ').unwrap_or(&line[1..]);
        if kind == '=' {
            let vector = vectors.last_mut().expect("an outcome follows input");
            vector.expected.push(content.to_owned());
            vector.line = line_number;
            is_open = false;
            continue;
        }
        if !is_open {
            vectors.push(Vector {
                file,
                line: line_number,
                input: Vec::new(),
                expected: Vec::new(),
            });
            is_open = true;
        }
        let input = &mut vectors.last_mut().expect("one was just opened").input;
        input.extend(unescape(content));
        match kind {
            '>' => input.extend_from_slice(b"\r\n"),
            '|' => {}
            other => panic!("{file}:{line_number}: unknown kind of line {other:?}"),
        }
    }
    assert!(!is_open, "{file}: the last vector has no outcome");
    vectors
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let kind = escaped
            .chars()
            .next()
            .expect("a backslash escapes something");
        rest = &escaped[1..];
        match kind {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '\\' => bytes.push(b'\\'),
            'x' => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).expect("two hexadecimal digits"));
                rest = &rest[2..];
            }
            '{' => {
                let (repetition, after) = rest.split_once('}').expect("a repetition is closed");
                let (count, unit) = repetition.split_once('*').expect("COUNT*TEXT");
                let count = count.parse().expect("a count");
                bytes.extend(unescape(unit).repeat(count));
                rest = after;
            }
            other => panic!("unknown escape {other:?}"),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
