//! The push parser of request heads (RFC 9112 sections 2 to 5): one forward pass, no allocation.
//!
//! A fault depends only on the bytes up to it. So it does not matter how a head was cut on its way:
//! every cutting ends in the same head or the same fault, and only the moment may differ at which
//! the fault is noticed.

use super::field_meaning::{FieldMeaning, is_faulty_by_itself};
use super::head::{FieldSlots, Head, HeadScan, Method, ParsedHead, Slot, Version};
use super::octets::{
    TARGET, TOKEN, VALUE, is_blank, span, token_span, trim_end, trim_start, value_span,
};
use super::simd::{self, Run};
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
    /// found early. A pass that is due has twice the length of the one before, one for a line happens
    /// once or is the last, and no line is looked at twice: all of them together stay linear.
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
            match memchr::memrchr(b'\n', &bytes[..line_end]) {
                Some(before) if is_faulty_field(&bytes[before + 1..=line_end]) => return true,
                Some(_) => {}
                // The request line.
                None => return true,
            }
        }
        self.searched = bytes.len();
        false
    }
}

/// Whether a field line that ends with CR LF has a fault, whatever stands before it.
fn is_faulty_field(line: &[u8]) -> bool {
    let (name, rest) = line.split_at(token_span(line));
    if name.is_empty() || rest[0] != b':' {
        return true;
    }
    match split_line(line) {
        Ok((line, _)) => is_faulty_by_itself(name, trim_end(trim_start(&line[name.len() + 1..]))),
        Err(_) => true,
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
    let end = span(bytes, &TOKEN);
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
    let mut question = None;
    let mut at = start;
    // All stops of a chunk are read off one mask, and the next chunk begins behind it wherever they
    // are: the processor can scan ahead.
    while let Some(chunk) = bytes[at..].first_chunk() {
        let mut stops = simd::stops(Run::Target, chunk);
        while stops != 0 {
            let stop = at + stops.trailing_zeros() as usize;
            if ends_target(bytes, start, stop, &mut question)? {
                return Ok((stop, question));
            }
            stops &= stops - 1;
        }
        at += simd::WIDTH;
    }
    for stop in at..bytes.len() {
        if ends_target(bytes, start, stop, &mut question)? {
            return Ok((stop, question));
        }
    }
    Err(Stop::Partial)
}

/// Whether the target that began at `start` ends at `at`; notes its first question mark.
#[inline]
fn ends_target(
    bytes: &[u8],
    start: usize,
    at: usize,
    question: &mut Option<usize>,
) -> Result<bool, Stop> {
    match byte_at(bytes, at)? {
        b' ' if at > start => return Ok(true),
        b'?' => _ = question.get_or_insert(at - start),
        b'%' => {
            for digit in at + 1..at + 3 {
                if !byte_at(bytes, digit)?.is_ascii_hexdigit() {
                    return Err(Stop::Bad(&Fault::BAD_ESCAPE));
                }
            }
        }
        byte if TARGET[usize::from(byte)] => {}
        b' ' | b'\r' => return Err(Stop::Bad(&Fault::BAD_REQUEST_LINE)),
        byte => return Err(unexpected(byte, &Fault::BAD_TARGET)),
    }
    Ok(false)
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

/// Fills the slots up to the empty line; how many were filled, and the position after the line. Not
/// inlined, so that the loop has the registers to itself.
#[inline(never)]
fn parse_fields(
    bytes: &[u8],
    start: usize,
    slots: &mut FieldSlots,
    meaning: &mut FieldMeaning,
) -> Result<(usize, usize), Stop> {
    let mut rest = &bytes[start..];
    let mut free = slots.0.iter_mut();
    loop {
        let line_start = bytes.len() - rest.len();
        if byte_at(rest, 0)? == b'\r' {
            let count = limits::HEAD_FIELDS_MAX - free.len();
            return Ok((count, after_line_end(bytes, line_start)?));
        }
        let Some(slot) = free.next() else {
            return Err(Stop::Bad(&Fault::TOO_MANY_FIELDS));
        };
        let name_length = token_span(rest);
        if name_length == 0 || rest.get(name_length) != Some(&b':') {
            return Err(bad_name(rest, name_length));
        }
        // Scanned from the start of the line, not of the value: so the scan need not wait for the name.
        let (line, lines) = split_line(rest)?;
        let value = trim_start(&line[name_length + 1..]);
        let value_start = line_start + line.len() - value.len();
        let value = trim_end(value);
        *slot = Slot {
            name_start: line_start as u32,
            name_end: (line_start + name_length) as u32,
            value_start: value_start as u32,
            value_end: (value_start + value.len()) as u32,
        };
        meaning.take(&line[..name_length], value)?;
        rest = lines;
    }
}

/// Why no name with a colon after it stands at the start of `line`, but a token of `length` bytes.
#[cold]
fn bad_name(line: &[u8], length: usize) -> Stop {
    match (line.first(), line.get(length)) {
        (_, None) => Stop::Partial,
        (Some(first), _) if is_blank(*first) => Stop::Bad(&Fault::FOLDED_HEADER),
        (_, Some(byte)) => unexpected(*byte, &Fault::BAD_HEADER_NAME),
    }
}

/// The line at the start of `text`, of which a name and a colon are known, and the lines after it.
#[inline]
fn split_line(text: &[u8]) -> Result<(&[u8], &[u8]), Stop> {
    let mut length = 0;
    loop {
        length += value_span(&text[length..]);
        let (line, after) = text.split_at(length);
        match after {
            [b'\r', b'\n', lines @ ..] => return Ok((line, lines)),
            [] | [b'\r'] => return Err(Stop::Partial),
            [b'\r', ..] => return Err(Stop::Bad(&Fault::BAD_LINE_END)),
            [byte, ..] if VALUE[usize::from(*byte)] => length += 1,
            [byte, ..] => return Err(unexpected(*byte, &Fault::BAD_HEADER_VALUE)),
        }
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
    fn a_line_with_a_fault_is_refused_where_it_ends_however_it_was_cut() {
        let lines = [
            ("GET /%zz HTTP/1.1\r\n", Fault::BAD_ESCAPE),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nX-O ne: 1\r\n",
                Fault::BAD_HEADER_NAME,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n",
                Fault::BAD_HEADER_NAME,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n",
                Fault::FOLDED_HEADER,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n",
                Fault::BAD_HEADER_VALUE,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nX: 1\ry\r\n",
                Fault::BAD_LINE_END,
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: 1\n", Fault::BAD_LINE_END),
            ("GET / HTTP/1.1\r\nHost: a b\r\n", Fault::BAD_HOST),
            (
                "GET / HTTP/1.1\r\nContent-Length: -1\r\n",
                Fault::BAD_LENGTH,
            ),
        ];
        for (text, expected) in lines {
            for piece in 1..=text.len() {
                let mut slots = FieldSlots::new();
                let mut scan = HeadScan::default();
                let mut ends = (piece..text.len()).step_by(piece).chain([text.len()]);
                let found = ends.find_map(|end| {
                    match parse_head(&text.as_bytes()[..end], &mut scan, &mut slots) {
                        ParsedHead::Bad(fault) => Some(fault),
                        ParsedHead::Partial => None,
                        ParsedHead::Complete { .. } => panic!("{text:?} is no head"),
                    }
                });
                assert_eq!(found, Some(expected), "{text:?} in pieces of {piece}");
            }
        }
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
