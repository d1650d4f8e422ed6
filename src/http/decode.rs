//! Percent and form decoding, exactly once.

use std::borrow::Cow;
use std::iter::FusedIterator;

use super::Fault;
use super::octets::hex_value;

/// Decodes the escapes of one path segment (RFC 3986 section 2.1); a plus sign is itself. Borrows
/// where there is nothing to decode. A malformed escape or text that is not UTF-8 is a fault.
pub fn decode_path_segment(raw: &[u8]) -> Result<Cow<'_, str>, Fault> {
    if memchr::memchr(b'%', raw).is_none() {
        return as_text(raw).map(Cow::Borrowed);
    }
    decode(raw, false).map(Cow::Owned)
}

/// The pairs of a query in `application/x-www-form-urlencoded`: plus is a space, escapes are
/// decoded once, a pair without `=` has an empty value, empty pairs are skipped. Borrows where
/// there is nothing to decode. After a fault the later pairs can still be had.
pub fn form_pairs(query: &[u8]) -> FormPairs<'_> {
    FormPairs { rest: query }
}

/// Iterator of [`form_pairs`].
#[derive(Clone, Debug)]
pub struct FormPairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for FormPairs<'a> {
    type Item = Result<(Cow<'a, str>, Cow<'a, str>), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let end = memchr::memchr(b'&', self.rest).unwrap_or(self.rest.len());
            let pair = &self.rest[..end];
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if pair.is_empty() {
                continue;
            }
            let (key, value) = match memchr::memchr(b'=', pair) {
                Some(equals) => (&pair[..equals], &pair[equals + 1..]),
                None => (pair, &[][..]),
            };
            return Some(decode_form(key).and_then(|key| Ok((key, decode_form(value)?))));
        }
        None
    }
}

impl FusedIterator for FormPairs<'_> {}

fn decode_form(raw: &[u8]) -> Result<Cow<'_, str>, Fault> {
    if memchr::memchr2(b'%', b'+', raw).is_none() {
        return as_text(raw).map(Cow::Borrowed);
    }
    decode(raw, true).map(Cow::Owned)
}

fn as_text(raw: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(raw).map_err(|_| Fault::BAD_ENCODING)
}

fn decode(raw: &[u8], plus_is_space: bool) -> Result<String, Fault> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        match raw[at] {
            b'%' => {
                let digit = |position: usize| raw.get(position).copied().and_then(hex_value);
                let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
                    return Err(Fault::BAD_ESCAPE);
                };
                decoded.push(high << 4 | low);
                at += 3;
                continue;
            }
            b'+' if plus_is_space => decoded.push(b' '),
            byte => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).map_err(|_| Fault::BAD_ENCODING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str) -> Result<Vec<(String, String)>, Fault> {
        form_pairs(query.as_bytes())
            .map(|pair| pair.map(|(key, value)| (key.into_owned(), value.into_owned())))
            .collect()
    }

    #[test]
    fn a_segment_is_decoded_once() {
        let decoded = |raw: &'static str| decode_path_segment(raw.as_bytes());
        assert_eq!(decoded("plain+text"), Ok("plain+text".into()));
        assert!(matches!(decoded("plain"), Ok(Cow::Borrowed("plain"))));
        assert_eq!(decoded("a%2Fb%20c%252F"), Ok("a/b c%2F".into()));
        assert_eq!(decoded("%F0%9f%98%80"), Ok("\u{1f600}".into()));
        assert_eq!(decoded("%00"), Ok("\0".into()));
        for raw in ["%", "a%2", "%zz", "%+1", "% 1", "%%41"] {
            assert_eq!(decoded(raw), Err(Fault::BAD_ESCAPE), "{raw}");
        }
        for raw in ["%ff", "%c0%80", "%ed%a0%80", "a%C3"] {
            assert_eq!(decoded(raw), Err(Fault::BAD_ENCODING), "{raw}");
        }
        assert_eq!(decode_path_segment(b"\xff"), Err(Fault::BAD_ENCODING));
    }

    #[test]
    fn form_pairs_follow_the_form_rules() {
        let expected = |list: &[(&str, &str)]| -> Result<Vec<(String, String)>, Fault> {
            Ok(list
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect())
        };
        assert_eq!(pairs(""), expected(&[]));
        assert_eq!(pairs("&&"), expected(&[]));
        assert_eq!(pairs("a=1&b=2"), expected(&[("a", "1"), ("b", "2")]));
        assert_eq!(
            pairs("a&=x&c="),
            expected(&[("a", ""), ("", "x"), ("c", "")])
        );
        assert_eq!(
            pairs("a=b=c&&d+e=%2B+%252B"),
            expected(&[("a", "b=c"), ("d e", "+ %2B")])
        );
        assert_eq!(pairs("a=%2&b=1"), Err(Fault::BAD_ESCAPE));
        assert_eq!(pairs("%gg=1"), Err(Fault::BAD_ESCAPE));
        assert_eq!(pairs("a=%ff"), Err(Fault::BAD_ENCODING));
    }

    #[test]
    fn plain_pairs_are_borrowed() {
        let pair = form_pairs(b"queue=inbox").next().unwrap().unwrap();
        assert!(matches!(
            pair,
            (Cow::Borrowed("queue"), Cow::Borrowed("inbox"))
        ));
    }
}
