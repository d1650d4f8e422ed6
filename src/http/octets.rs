//! Classes of bytes, as tables.

#[derive(Clone, Copy)]
enum Class {
    Token,
    Value,
    Target,
    RegName,
}

const fn contains(class: Class, byte: u8) -> bool {
    match class {
        Class::Token => {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+')
                || matches!(byte, b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
        }
        Class::Value => byte == b'\t' || (byte >= 0x20 && byte != 0x7f),
        Class::Target => byte.is_ascii_graphic() && byte != b'#' && byte != b'%',
        Class::RegName => {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'')
                || matches!(byte, b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
        }
    }
}

const fn table(class: Class) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = contains(class, byte as u8);
        byte += 1;
    }
    table
}

/// `tchar` of RFC 9110 section 5.6.2.
pub(super) static TOKEN: [bool; 256] = table(Class::Token);

/// What a field value may contain: RFC 9110 section 5.5, obsolete text included.
pub(super) static VALUE: [bool; 256] = table(Class::Value);

/// What a request target may contain besides escapes. Wider than RFC 3986: clients in use send
/// characters such as `|` and `[` as they are, and nothing here gives them a meaning.
pub(super) static TARGET: [bool; 256] = table(Class::Target);

/// `reg-name` of RFC 3986 section 3.2.2 without escapes: a host has no use for them.
pub(super) static REG_NAME: [bool; 256] = table(Class::RegName);

/// Position of the first byte at or after `from` that is not in the class; the length if all are.
#[inline]
pub(super) fn span(bytes: &[u8], from: usize, class: &[bool; 256]) -> usize {
    let is_member = |byte: u8| class[usize::from(byte)];
    let mut at = from;
    // Four bytes a step: one check of the bounds for all of them.
    while let Some(&[first, second, third, fourth]) = bytes[at..].first_chunk::<4>() {
        if !is_member(first) {
            return at;
        }
        if !is_member(second) {
            return at + 1;
        }
        if !is_member(third) {
            return at + 2;
        }
        if !is_member(fourth) {
            return at + 3;
        }
        at += 4;
    }
    while bytes.get(at).is_some_and(|&byte| is_member(byte)) {
        at += 1;
    }
    at
}

/// Position of the first byte at or after `from` that may not stand in a field value; the length
/// if all may. Eight bytes a step: values make up most of a head.
#[inline]
pub(super) fn value_span(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let mut at = from;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let deletes = word ^ (ONES * 0x7f);
        let delete = deletes.wrapping_sub(ONES) & !deletes;
        let hits = (below_space | delete) & TOPS;
        if hits == 0 {
            at += 8;
            continue;
        }
        // A borrow only disturbs bytes above the first hit, so the lowest one is exact.
        at += (hits.trailing_zeros() / 8) as usize;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    span(bytes, at, &VALUE)
}

/// Whether `byte` is optional whitespace (RFC 9110 section 5.6.3).
#[inline]
pub(super) const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without optional whitespace at both ends.
pub(super) fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

/// The value of a hexadecimal digit.
#[inline]
pub(super) const fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_narrow_scans_of_a_value_agree() {
        for byte in 0..=255u8 {
            for position in 0..20 {
                let mut bytes = [b'v'; 20];
                bytes[position] = byte;
                bytes[position / 2] = b'\t';
                let narrow = span(&bytes, 0, &VALUE);
                assert_eq!(value_span(&bytes, 0), narrow, "{byte} at {position}");
            }
        }
        let mut bytes = [0xff; 16];
        bytes[9] = 0x1f;
        bytes[10] = 0x20;
        assert_eq!(value_span(&bytes, 0), 9);
        assert_eq!(value_span(&bytes, 10), 16);
    }

    #[test]
    fn classes_have_the_sizes_of_the_grammar() {
        let size = |class: &[bool; 256]| class.iter().filter(|member| **member).count();
        assert_eq!(size(&TOKEN), 77);
        assert_eq!(size(&VALUE), 256 - 32 - 1 + 1);
        assert_eq!(size(&TARGET), 92);
        assert_eq!(size(&REG_NAME), 62 + 11 + 4);
    }

    #[test]
    fn blanks_are_trimmed_at_the_ends_only() {
        assert_eq!(trim_blanks(b" \t a b\t "), b"a b");
        assert_eq!(trim_blanks(b" \t"), b"");
    }
}
