//! Classes of bytes, as tables, and how far a text stays in one.

use super::simd::{self, Run};

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
        Class::Target => byte.is_ascii_graphic() && !matches!(byte, b'#' | b'%' | b'?'),
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

/// What a request target may contain besides escapes and question marks. Wider than RFC 3986:
/// clients in use send characters such as `|` and `[` as they are, and nothing here gives them a
/// meaning.
pub(super) static TARGET: [bool; 256] = table(Class::Target);

/// `reg-name` of RFC 3986 section 3.2.2 without escapes: a host has no use for them.
static REG_NAME: [bool; 256] = table(Class::RegName);

/// How many bytes at the start of `text` are in the class. For what is short: a processor that
/// guesses the branches does not wait for the bytes.
#[inline]
pub(super) fn span(text: &[u8], class: &[bool; 256]) -> usize {
    let is_other = |byte: &u8| !class[usize::from(*byte)];
    text.iter().position(is_other).unwrap_or(text.len())
}

/// As [`span`], sixteen bytes a step, for a `run` that is part of the class; may end early, where
/// the run does.
#[inline]
fn run_span(text: &[u8], run: Run, class: &[bool; 256]) -> usize {
    let mut rest = text;
    while let Some((chunk, after)) = rest.split_first_chunk() {
        let stops = simd::stops(run, chunk);
        if stops != 0 {
            return text.len() - rest.len() + stops.trailing_zeros() as usize;
        }
        rest = after;
    }
    // Less than a chunk is left: the last chunk takes in some of what was seen, and where there is
    // none, two halves overlap.
    if let Some(chunk) = text.last_chunk() {
        return text.len() - simd::WIDTH + simd::run_length(run, chunk);
    }
    let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else {
        return span(text, class);
    };
    match simd::run_length(run, &simd::halves(first, last)) {
        length if length < simd::WIDTH / 2 => length,
        length => text.len() + length - simd::WIDTH,
    }
}

/// How many bytes at the start of `text` are of a token.
#[inline]
pub(super) fn token_span(text: &[u8]) -> usize {
    let length = run_span(text, Run::Name, &TOKEN);
    match text.get(length) {
        Some(b':') => length,
        _ => length + span(&text[length..], &TOKEN),
    }
}

/// How many bytes at the start of `text` are of a `reg-name`.
#[inline]
pub(super) fn reg_name_span(text: &[u8]) -> usize {
    let length = run_span(text, Run::Host, &REG_NAME);
    length + span(&text[length..], &REG_NAME)
}

/// How many bytes at the start of `text` may stand in a field value; may end early, at a byte that
/// is seldom there.
#[inline]
pub(super) fn value_span(text: &[u8]) -> usize {
    run_span(text, Run::Value, &VALUE)
}

/// Whether `text`, of tokens and blanks, is `lower` in any case.
#[inline]
pub(super) fn is_in_any_case<const N: usize>(text: &[u8], lower: &[u8; N]) -> bool {
    let Ok(text) = <&[u8; N]>::try_from(text) else {
        return false;
    };
    let (text_words, text_rest) = text.as_chunks::<4>();
    let (lower_words, lower_rest) = lower.as_chunks::<4>();
    // Beside letters the bit tells only control characters from others.
    let words = text_words
        .iter()
        .zip(lower_words)
        .fold(0, |all, (text, lower)| {
            all | ((u32::from_le_bytes(*text) | 0x2020_2020) ^ u32::from_le_bytes(*lower))
        });
    let bytes = text_rest.iter().zip(lower_rest);
    words == 0 && bytes.fold(0, |all, (byte, lower)| all | ((byte | 0x20) ^ lower)) == 0
}

/// Whether `byte` is optional whitespace (RFC 9110 section 5.6.3).
#[inline]
pub(super) const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without optional whitespace at the start.
#[inline]
pub(super) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    bytes
}

/// `bytes` without optional whitespace at the end.
#[inline]
pub(super) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

/// `bytes` without optional whitespace at both ends.
pub(super) fn trim_blanks(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
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
    fn spans_end_at_bytes_outside_of_their_class() {
        type Span = fn(&[u8]) -> usize;
        let spans: [(Span, &[bool; 256]); 3] = [
            (token_span, &TOKEN),
            (value_span, &VALUE),
            (reg_name_span, &REG_NAME),
        ];
        for (part, class) in spans {
            // As its callers do: where a part ended at a member, the next begins behind it.
            let whole = |text: &[u8]| {
                let mut length = part(text);
                while text
                    .get(length)
                    .is_some_and(|byte| class[usize::from(*byte)])
                {
                    length += 1 + part(&text[length + 1..]);
                }
                length
            };
            // Shorter than half a chunk, than one, and longer.
            for length in [1, 7, 8, 11, 15, 16, 17, 32, 40] {
                for (position, byte) in (0..length).flat_map(|at| (0..=255).map(move |to| (at, to)))
                {
                    let mut text = [b'v'; 40];
                    text[position] = byte;
                    let text = &text[..length];
                    let expected = span(text, class);
                    assert_eq!(whole(text), expected, "{byte} at {position} of {length}");
                }
            }
        }
    }

    #[test]
    fn classes_have_the_sizes_of_the_grammar() {
        let size = |class: &[bool; 256]| class.iter().filter(|member| **member).count();
        assert_eq!(size(&TOKEN), 77);
        assert_eq!(size(&VALUE), 256 - 32 - 1 + 1);
        assert_eq!(size(&TARGET), 91);
        assert_eq!(size(&REG_NAME), 62 + 11 + 4);
    }

    #[test]
    fn blanks_are_trimmed_at_the_ends_only() {
        assert_eq!(trim_blanks(b" \t a b\t "), b"a b");
        assert_eq!(trim_blanks(b" \t"), b"");
    }
}
