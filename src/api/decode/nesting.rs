//! How deep a payload is nested.

/// Whether more than `max` brackets are open at some point of `json`, which is well-formed JSON
/// text. Brackets inside strings do not count.
pub(super) fn is_deeper_than(json: &str, max: usize) -> bool {
    let bytes = json.as_bytes();
    // Most payloads do not have so many brackets at all, which is found out much faster.
    if memchr::memchr2_iter(b'[', b'{', bytes)
        .take(max + 1)
        .count()
        <= max
    {
        return false;
    }
    let mut open = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' => {
                open += 1;
                if open > max {
                    return true;
                }
            }
            b']' | b'}' => open = open.saturating_sub(1),
            b'"' => at = string_end(bytes, at),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The position of the quote that ends the string which begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_brackets_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_deeper_than(&nested(120), 120));
        assert!(is_deeper_than(&nested(121), 120));
        assert!(!is_deeper_than(
            &format!("[{}]", vec!["{}"; 500].join(",")),
            2
        ));
        assert!(is_deeper_than(
            &format!("[{}]", vec!["[{}]"; 500].join(",")),
            2
        ));
        let string = format!("[\"{}\\\"{}\\\\\"]", "[".repeat(300), "{".repeat(300));
        assert!(!is_deeper_than(&string, 1));
        let object = format!("{}1{}", "{\"a\":".repeat(121), "}".repeat(121));
        assert!(is_deeper_than(&object, 120));
    }
}
