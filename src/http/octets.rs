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

/// Position of the first byte at or after `from` that is not in the class; the length if all are. For
/// what is short: a processor that guesses the branches does not wait for the bytes.
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

/// One in each byte of a word.
const ONES: u64 = u64::from_ne_bytes([1; 8]);

/// The highest bit of each byte of a word.
const TOPS: u64 = ONES << 7;

/// As [`span`], eight bytes a step. `stops` sets the highest bit of the bytes of a word that are
/// outside of the class; it may set it of some others, and is exact up to the first.
#[inline(always)]
fn wide_span(bytes: &[u8], from: usize, class: &[bool; 256], stops: impl Fn(u64) -> u64) -> usize {
    let mut rest = &bytes[from..];
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let hits = stops(word) & TOPS;
        if hits == 0 {
            rest = after;
            continue;
        }
        let bits = hits.trailing_zeros() & 0x38;
        let length = bits as usize / 8;
        if !class[usize::from((word >> bits) as u8)] {
            return bytes.len() - rest.len() + length;
        }
        rest = &rest[length + 1..];
    }
    span(bytes, bytes.len() - rest.len(), class)
}

/// The highest bit of the bytes that are below `bound`, at most 128, and of some above the first
/// such: a borrow disturbs nothing below it.
#[inline(always)]
fn below(word: u64, bound: u64) -> u64 {
    word.wrapping_sub(ONES * bound) & !word
}

/// Position of the first byte at or after `from` that may not stand in a field value; the length
/// if all may.
#[inline]
pub(super) fn value_span(bytes: &[u8], from: usize) -> usize {
    wide_span(bytes, from, &VALUE, |word| {
        below(word, 0x20) | below(word ^ (ONES * 0x7f), 1)
    })
}

/// Position of the first byte at or after `from` that may not stand in a target outside of an
/// escape; the length if all may.
#[inline]
pub(super) fn target_span(bytes: &[u8], from: usize) -> usize {
    wide_span(bytes, from, &TARGET, |word| {
        // Four of one pattern, `#` and `%` among them.
        let escapes = (word & (ONES * 0xf9)) ^ (ONES * 0x21);
        let above = word.wrapping_add(ONES) | word;
        word.wrapping_sub(ONES * 0x21) | escapes.wrapping_sub(ONES) | above
    })
}

/// Whether `text`, of tokens and blanks, is `lower` in any case.
#[inline]
pub(super) fn is_in_any_case<const N: usize>(text: &[u8], lower: &[u8; N]) -> bool {
    let Ok(text) = <&[u8; N]>::try_from(text) else {
        return false;
    };
    // Beside letters the bit tells only control characters from others.
    let differs = text.iter().zip(lower);
    differs.fold(0, |all, (byte, lower)| all | ((byte | 0x20) ^ lower)) == 0
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
    fn wide_and_narrow_scans_agree() {
        type Wide = fn(&[u8], usize) -> usize;
        let scans: [(Wide, &[bool; 256], u8); 2] =
            [(value_span, &VALUE, b'\t'), (target_span, &TARGET, b'!')];
        for (wide, class, member) in scans {
            for byte in 0..=255u8 {
                for position in 0..40 {
                    let mut bytes = [b'v'; 40];
                    bytes[position] = byte;
                    bytes[position / 2] = member;
                    let narrow = span(&bytes, 1, class);
                    assert_eq!(wide(&bytes, 1), narrow, "{byte} at {position}");
                }
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
