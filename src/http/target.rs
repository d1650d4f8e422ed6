//! The forms of a request target (RFC 9112 section 3.2).

use super::octets::reg_name_span;
use super::{Fault, Method};

/// A request target, taken apart.
pub(super) struct Target<'a> {
    pub(super) path: &'a [u8],
    pub(super) query: Option<&'a [u8]>,
}

const SCHEME: &[u8] = b"http://";

/// Takes a target apart whose bytes are known to be allowed and whose escapes are well-formed.
/// `question` is the position of its first question mark.
pub(super) fn split<'a>(
    method: Method,
    target: &'a [u8],
    question: Option<usize>,
) -> Result<Target<'a>, &'static Fault> {
    if method == Method::Connect {
        return match is_authority(target) {
            true => Ok(Target {
                path: target,
                query: None,
            }),
            false => Err(&Fault::BAD_TARGET),
        };
    }
    let (hierarchy, query) = match question {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    match hierarchy {
        [b'/', ..] => Ok(Target {
            path: hierarchy,
            query,
        }),
        b"*" if method == Method::Options && query.is_none() => Ok(Target { path: b"*", query }),
        _ => absolute(method, hierarchy, query),
    }
}

/// Reduces an absolute-form target; its host counts for nothing here, as the broker has one site.
fn absolute<'a>(
    method: Method,
    hierarchy: &'a [u8],
    query: Option<&'a [u8]>,
) -> Result<Target<'a>, &'static Fault> {
    let Some((scheme, rest)) = hierarchy.split_at_checked(SCHEME.len()) else {
        return Err(&Fault::BAD_TARGET);
    };
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Err(&Fault::BAD_TARGET);
    }
    let (authority, path) = rest.split_at(memchr::memchr(b'/', rest).unwrap_or(rest.len()));
    // RFC 9110 section 4.2: no empty host, and user information is treated as an error.
    if authority.is_empty() || !is_authority(authority) {
        return Err(&Fault::BAD_TARGET);
    }
    let path: &[u8] = match (path.is_empty(), method, query) {
        (false, ..) => path,
        // RFC 9112 section 3.2.4: what a client sends to a proxy in place of `*`.
        (true, Method::Options, None) => b"*",
        (true, ..) => b"/",
    };
    Ok(Target { path, query })
}

/// Whether `text` is a host with an optional port (RFC 3986 section 3.2, without user information
/// and escapes). An empty host is one: RFC 9112 section 3.2 lets a Host field be empty.
pub(super) fn is_authority(text: &[u8]) -> bool {
    let host_end = match text {
        [b'[', rest @ ..] => {
            let Some(length) = memchr::memchr(b']', rest) else {
                return false;
            };
            let address = &rest[..length];
            let allowed = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            if address.is_empty() || !address.iter().all(allowed) {
                return false;
            }
            length + 2
        }
        _ => reg_name_span(text),
    };
    match &text[host_end..] {
        [] => true,
        [b':', port @ ..] => host_end > 0 && port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        for text in [
            "",
            "a",
            "a:80",
            "127.0.0.1:6632",
            "[::1]",
            "[::1]:80",
            "a_b.c-d",
            "a:",
        ] {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
        for text in [
            ":80", "a b", "a:b", "a@b", "[::1", "[]", "[x]", "a/b", "[::1]a", "a:1:2", "a%41",
        ] {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
    }
}
