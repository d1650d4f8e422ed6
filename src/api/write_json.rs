//! Pieces of JSON written straight into an answer, without allocation.

use bytes::{BufMut, BytesMut};

/// Appends `text` as it is: JSON that needs no escaping.
pub(super) fn put(out: &mut BytesMut, text: &str) {
    out.put_slice(text.as_bytes());
}

/// Appends `text` as a JSON string (RFC 8259 section 7).
pub(super) fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u8(b'"');
    put_escaped(out, text);
    out.put_u8(b'"');
}

/// Appends `text` as the inside of a JSON string.
pub(super) fn put_escaped(out: &mut BytesMut, text: &str) {
    let needs_escape = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let mut rest = text.as_bytes();
    // Most texts have none. Looking at every byte is many bytes at a time; stopping early is not.
    if !rest
        .iter()
        .fold(false, |found, byte| found | needs_escape(*byte))
    {
        return out.put_slice(rest);
    }
    while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
        out.put_slice(&rest[..at]);
        let short = match rest[at] {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            byte => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                let digits = [digit(byte >> 4), digit(byte & 0x0f)];
                out.put_slice(b"\\u00");
                out.put_slice(&digits);
                rest = &rest[at + 1..];
                continue;
            }
        };
        out.put_slice(&[b'\\', short]);
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
}

/// Appends a decimal number.
pub(super) fn put_number(out: &mut BytesMut, value: u64) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a decimal number that may be below zero.
pub(super) fn put_signed(out: &mut BytesMut, value: i64) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a hexadecimal number in lower case, without leading zeros.
pub(super) fn put_hex(out: &mut BytesMut, value: u64) {
    let mut digits = [0_u8; 16];
    let mut start = digits.len();
    let mut rest = value;
    loop {
        start -= 1;
        digits[start] = b"0123456789abcdef"[(rest & 0x0f) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.put_slice(&digits[start..]);
}

/// Appends thousandths as a JSON number without trailing zeros: 1500 is `1.5`.
pub(super) fn put_thousandths(out: &mut BytesMut, value: u64) {
    put_number(out, value / 1_000);
    let rest = value % 1_000;
    if rest == 0 {
        return;
    }
    let digit = |value: u64| b'0' + (value % 10) as u8;
    let digits = [digit(rest / 100), digit(rest / 10), digit(rest)];
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0');
    let length = digits.len() - zeros.count();
    out.put_u8(b'.');
    out.put_slice(&digits[..length]);
}

/// Appends `,"key":` and a number. `key` needs no escaping.
pub(super) fn put_member(out: &mut BytesMut, key: &str, value: u64) {
    put(out, ",\"");
    put(out, key);
    put(out, "\":");
    put_number(out, value);
}

/// Appends `true` or `false`.
pub(super) fn put_flag(out: &mut BytesMut, value: bool) {
    put(out, if value { "true" } else { "false" });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn numbers() {
        for value in [0, 9, 10, 12_345, u64::MAX - 1, u64::MAX] {
            assert_eq!(written(|out| put_number(out, value)), value.to_string());
            assert_eq!(written(|out| put_hex(out, value)), format!("{value:x}"));
        }
        for (value, text) in [
            (0, "0"),
            (1, "0.001"),
            (10, "0.01"),
            (1_500, "1.5"),
            (30_000, "30"),
            (86_400_250, "86400.25"),
        ] {
            assert_eq!(written(|out| put_thousandths(out, value)), text);
        }
    }

    #[test]
    fn every_ascii_byte_is_escaped_as_serde_json_does() {
        for byte in 0..0x80_u8 {
            let text = format!("a{}b", char::from(byte));
            let expected = serde_json::to_string(&text).unwrap();
            assert_eq!(written(|out| put_text(out, &text)), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_escaped_as_serde_json_does(text in any::<String>()) {
            let expected = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(written(|out| put_text(out, &text)), expected);
        }
    }
}
