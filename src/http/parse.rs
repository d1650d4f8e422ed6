//! The push parser of request heads (RFC 9112 sections 2 to 5): one forward pass, no allocation.
//!
//! A fault depends only on the bytes up to it. So it does not matter how a head was cut on its way:
//! every cutting ends in the same head or the same fault, and only the moment may differ at which
//! the fault is noticed.

use super::field_meaning::FieldMeaning;
use super::head::{FieldSlots, Head, HeadScan, Method, ParsedHead, Slot, Version};
use super::octets::{TOKEN, is_blank, span, target_span, value_span};
use super::{Fault, target};
use crate::limits;

/// Why a pass ended before the end of the head.
enum Stop {
    Partial,
    Bad(&'static Fault),
}

impl From<&'static Fault> for Stop {
    fn from(fault: &'static Fault) -> Stop {
        Stop::Bad(fault)
    }
}

/// Parses the request head at the start of `buffer`. While the outcome is `Partial`, the caller
/// keeps `buffer`, appends to it and calls again with the same `scan`; after any other outcome
/// `scan` is as new. A head of more than [`limits::HEAD_BYTES_MAX`] bytes or
/// [`limits::HEAD_FIELDS_MAX`] fields is `Bad`.
pub fn parse_head<'a>(
    buffer: &'a [u8],
    scan: &mut HeadScan,
    slots: &'a mut FieldSlots,
) -> ParsedHead<'a> {
    let bytes = &buffer[..buffer.len().min(limits::HEAD_BYTES_MAX)];
    if !scan.is_worth_parsing(bytes) {
        return ParsedHead::Partial;
    }
    match parse(bytes, slots) {
        Ok((head, length)) => {
            *scan = HeadScan::default();
            ParsedHead::Complete { head, length }
        }
        Err(Stop::Bad(fault)) => {
            *scan = HeadScan::default();
            ParsedHead::Bad(*fault)
        }
        Err(Stop::Partial) if bytes.len() == limits::HEAD_BYTES_MAX => {
            *scan = HeadScan::default();
            ParsedHead::Bad(Fault::HEAD_TOO_LARGE)
        }
        Err(Stop::Partial) => {
            *scan = HeadScan {
                searched: bytes.len(),
                parsed: bytes.len(),
            };
            ParsedHead::Partial
        }
    }
}

impl HeadScan {
    /// Whether a pass over `bytes` can end in anything but `Partial`, or is due so that faults are
    /// found early; passes double their length each time, so all of them together stay linear.
    fn is_worth_parsing(&mut self, bytes: &[u8]) -> bool {
        let is_new = self.searched == 0 || bytes.len() < self.searched;
        let is_due = bytes.len() >= self.parsed * 2 || bytes.len() == limits::HEAD_BYTES_MAX;
        if is_new || is_due {
            return true;
        }
        for line_feed in memchr::memchr_iter(b'\n', &bytes[self.searched..]) {
            let line_end = self.searched + line_feed;
            // A line feed without CR before it, or the end of an empty line.
            if !bytes[..line_end].ends_with(b"\r") || bytes[..line_end].ends_with(b"\n\r") {
                return true;
            }
        }
        self.searched = bytes.len();
        false
    }
}

fn parse<'a>(bytes: &'a [u8], slots: &'a mut FieldSlots) -> Result<(Head<'a>, usize), Stop> {
    let (method, target_start) = parse_method(bytes)?;
    let (target_end, question) = scan_target(bytes, target_start)?;
    let (version, fields_start) = parse_version(bytes, target_end + 1)?;
    let target = target::split(method, &bytes[target_start..target_end], question)?;
    let mut meaning = FieldMeaning::new(version);
    let (count, length) = parse_fields(bytes, fields_start, slots, &mut meaning)?;
    meaning.finish()?;
    let head = Head {
        method,
        path: target.path,
        query: target.query,
        version,
        keep_alive: meaning.keep_alive(),
        expect_continue: meaning.expect_continue,
        framing: meaning.framing(),
        buffer: bytes,
        slots: &slots.0[..count],
    };
    Ok((head, length))
}

/// The byte at `at`, which decides what comes next.
#[inline]
fn byte_at(bytes: &[u8], at: usize) -> Result<u8, Stop> {
    bytes.get(at).copied().ok_or(Stop::Partial)
}

/// The position after the CR LF at `at`, where a CR is known to stand.
#[inline]
fn after_line_end(bytes: &[u8], at: usize) -> Result<usize, Stop> {
    match byte_at(bytes, at + 1)? {
        b'\n' => Ok(at + 2),
        _ => Err(Stop::Bad(&Fault::BAD_LINE_END)),
    }
}

/// The fault of an unexpected `byte`.
#[cold]
fn unexpected(byte: u8, otherwise: &'static Fault) -> Stop {
    match byte {
        b'\n' => Stop::Bad(&Fault::BAD_LINE_END),
        _ => Stop::Bad(otherwise),
    }
}

/// The method, and where the target starts.
#[inline]
fn parse_method(bytes: &[u8]) -> Result<(Method, usize), Stop> {
    if bytes.starts_with(b"GET ") {
        return Ok((Method::Get, 4));
    }
    if bytes.starts_with(b"POST ") {
        return Ok((Method::Post, 5));
    }
    let end = span(bytes, 0, &TOKEN);
    let after = byte_at(bytes, end)?;
    if after != b' ' || end == 0 {
        return Err(unexpected(after, &Fault::BAD_REQUEST_LINE));
    }
    let method = match &bytes[..end] {
        b"HEAD" => Method::Head,
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        b"PATCH" => Method::Patch,
        b"OPTIONS" => Method::Options,
        b"TRACE" => Method::Trace,
        b"CONNECT" => Method::Connect,
        _ => Method::Other,
    };
    Ok((method, end + 1))
}

/// The end of the target, where a space stands, and its first question mark, counted from `start`.
#[inline]
fn scan_target(bytes: &[u8], start: usize) -> Result<(usize, Option<usize>), Stop> {
    let mut at = start;
    loop {
        at = target_span(bytes, at);
        match byte_at(bytes, at)? {
            b'%' => {
                for digit in at + 1..at + 3 {
                    if !byte_at(bytes, digit)?.is_ascii_hexdigit() {
                        return Err(Stop::Bad(&Fault::BAD_ESCAPE));
                    }
                }
                at += 3;
            }
            b' ' if at > start => {
                return Ok((at, memchr::memchr(b'?', &bytes[start..at])));
            }
            b' ' | b'\r' => return Err(Stop::Bad(&Fault::BAD_REQUEST_LINE)),
            byte => return Err(unexpected(byte, &Fault::BAD_TARGET)),
        }
    }
}

/// The version, and where the fields start.
#[inline]
fn parse_version(bytes: &[u8], start: usize) -> Result<(Version, usize), Stop> {
    const LINE: &[u8; 10] = b"HTTP/1.1\r\n";
    if bytes[start..].starts_with(LINE) {
        return Ok((Version::Http11, start + LINE.len()));
    }
    for (offset, &expected) in LINE.iter().enumerate() {
        let byte = byte_at(bytes, start + offset)?;
        match expected {
            b'1' if byte.is_ascii_digit() => {}
            _ if byte == expected => {}
            b'\n' => return Err(Stop::Bad(&Fault::BAD_LINE_END)),
            _ => return Err(unexpected(byte, &Fault::BAD_REQUEST_LINE)),
        }
    }
    match (bytes[start + 5], bytes[start + 7]) {
        (b'1', b'0') => Ok((Version::Http10, start + LINE.len())),
        _ => Err(Stop::Bad(&Fault::UNSUPPORTED_VERSION)),
    }
}

/// Fills the slots up to the empty line; how many were filled, and the position after the line.
#[inline]
fn parse_fields(
    bytes: &[u8],
    start: usize,
    slots: &mut FieldSlots,
    meaning: &mut FieldMeaning,
) -> Result<(usize, usize), Stop> {
    let mut line = start;
    let mut count = 0;
    loop {
        let first = byte_at(bytes, line)?;
        if first == b'\r' {
            return Ok((count, after_line_end(bytes, line)?));
        }
        let Some(slot) = slots.0.get_mut(count) else {
            return Err(Stop::Bad(&Fault::TOO_MANY_FIELDS));
        };
        let name_end = span(bytes, line, &TOKEN);
        let after_name = byte_at(bytes, name_end)?;
        if after_name != b':' || name_end == line {
            return Err(match is_blank(first) {
                true => Stop::Bad(&Fault::FOLDED_HEADER),
                false => unexpected(after_name, &Fault::BAD_HEADER_NAME),
            });
        }
        let mut value_start = name_end + 1;
        while is_blank(byte_at(bytes, value_start)?) {
            value_start += 1;
        }
        let line_end = value_span(bytes, value_start);
        let next_line = match bytes[line_end..] {
            [b'\r', b'\n', ..] => line_end + 2,
            [b'\r', _, ..] => return Err(Stop::Bad(&Fault::BAD_LINE_END)),
            [] | [b'\r'] => return Err(Stop::Partial),
            [byte, ..] => return Err(unexpected(byte, &Fault::BAD_HEADER_VALUE)),
        };
        let mut value = &bytes[value_start..line_end];
        while let [rest @ .., last] = value
            && is_blank(*last)
        {
            value = rest;
        }
        *slot = Slot {
            name_start: line as u32,
            name_end: name_end as u32,
            value_start: value_start as u32,
            value_end: (value_start + value.len()) as u32,
        };
        meaning.take(&bytes[line..name_end], value)?;
        count += 1;
        line = next_line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET /a?b HTTP/1.1\r\nHost: a\r\nX-One: 1 \r\nx-one:\t2\r\n\r\nrest";

    #[test]
    fn fields_are_found_by_name_in_any_case() {
        let mut slots = FieldSlots::new();
        let ParsedHead::Complete { head, length } =
            parse_head(HEAD, &mut HeadScan::default(), &mut slots)
        else {
            panic!("a good head");
        };
        assert_eq!(&HEAD[length..], b"rest");
        assert_eq!(head.field("HOST"), Some(&b"a"[..]));
        assert_eq!(head.field("X-ONE"), Some(&b"1"[..]));
        assert_eq!(head.fields("x-one").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(head.field("x-on"), None);
        assert_eq!(head.all_fields().count(), 3);
    }

    #[test]
    fn the_scan_is_as_new_after_a_head() {
        let mut slots = FieldSlots::new();
        let mut scan = HeadScan::default();
        assert!(matches!(
            parse_head(&HEAD[..20], &mut scan, &mut slots),
            ParsedHead::Partial
        ));
        assert_ne!(scan, HeadScan::default());
        assert!(matches!(
            parse_head(HEAD, &mut scan, &mut slots),
            ParsedHead::Complete { .. }
        ));
        assert_eq!(scan, HeadScan::default());
    }

    #[test]
    fn a_head_in_many_pieces_is_seldom_parsed_from_its_start() {
        let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        for number in 0..120 {
            bytes.extend_from_slice(format!("X-{number}: {}\r\n", "v".repeat(400)).as_bytes());
        }
        let mut slots = FieldSlots::new();
        let mut scan = HeadScan::default();
        let mut passes = 0;
        for length in 1..bytes.len() {
            let before = scan.parsed;
            assert!(matches!(
                parse_head(&bytes[..length], &mut scan, &mut slots),
                ParsedHead::Partial
            ));
            passes += u32::from(scan.parsed != before);
        }
        assert!(
            passes <= usize::BITS,
            "{passes} passes over {} bytes",
            bytes.len()
        );
    }
}
