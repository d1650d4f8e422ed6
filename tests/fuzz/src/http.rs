//! The parsers of `queen::http`.

use std::borrow::Cow;

use bytes::BytesMut;
use queen::http::{
    ChunkedDecoder, Fault, FieldSlots, Framing, Head, HeadScan, Method, ParsedHead, Version,
    decode_path_segment, form_pairs, parse_head,
};
use queen::limits;

/// Splits two bytes off `data` and derives from them where to cut the rest.
fn cut_point(data: &[u8]) -> Option<(usize, &[u8])> {
    let (&[high, low], rest) = data.split_first_chunk::<2>()?;
    let number = usize::from(u16::from_be_bytes([high, low]));
    Some((number % (rest.len() + 1), rest))
}

/// Everything a head says, owned.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Complete {
        said: String,
        fields: Vec<(Vec<u8>, Vec<u8>)>,
        length: usize,
    },
    Partial,
    Bad(Fault),
}

fn parse(input: &[u8], scan: &mut HeadScan) -> Outcome {
    let mut slots = FieldSlots::new();
    match parse_head(input, scan, &mut slots) {
        ParsedHead::Complete { head, length } => {
            check_complete(input, &head, length);
            let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
            Outcome::Complete {
                said: format!("{head:?} {:?}", head.query),
                fields: head.all_fields().map(own).collect(),
                length,
            }
        }
        ParsedHead::Partial => Outcome::Partial,
        ParsedHead::Bad(fault) => Outcome::Bad(fault),
    }
}

fn check_complete(input: &[u8], head: &Head<'_>, length: usize) {
    assert!(length <= input.len());
    assert!(length <= limits::HEAD_BYTES_MAX);
    let bytes = &input[..length];
    assert!(bytes.ends_with(b"\r\n\r\n"));
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(bytes.get(at + 1), Some(&b'\n'), "bare CR"),
            b'\n' => assert_eq!(bytes[at - 1], b'\r', "bare LF"),
            b'\t' => {}
            _ => assert!(byte >= 0x20 && byte != 0x7f, "control byte"),
        }
    }
    assert!(!head.path.is_empty());
    assert!(head.path[0] == b'/' || matches!(head.method, Method::Options | Method::Connect));
    for part in [head.path, head.query.unwrap_or_default()] {
        assert!(
            part.iter()
                .all(|byte| byte.is_ascii_graphic() && *byte != b'#')
        );
    }
    assert_ne!(decode_path_segment(head.path), Err(Fault::BAD_ESCAPE));
    for pair in form_pairs(head.query.unwrap_or_default()) {
        assert!(
            pair.is_ok() || pair == Err(Fault::BAD_ENCODING),
            "an escape got through"
        );
    }
    assert!(head.all_fields().count() <= limits::HEAD_FIELDS_MAX);
    assert!(head.fields("hOST").count() <= 1);
    assert!(head.field("host").is_some() || head.version == Version::Http10);
    let lengths = head.fields("content-length").count();
    let codings = head.fields("transfer-encoding").count();
    match head.framing {
        Framing::None => assert_eq!((lengths, codings), (0, 0)),
        Framing::Length(_) => assert_eq!((lengths, codings), (1, 0)),
        Framing::Chunked => assert_eq!((lengths, codings), (0, 1)),
    }
    assert!(!head.expect_continue || head.field("expect").is_some());
}

/// A request head. The first two bytes say where it is cut; it must not matter.
pub fn head(data: &[u8]) {
    let Some((cut, input)) = cut_point(data) else {
        return;
    };
    let whole = parse(input, &mut HeadScan::default());
    if let Outcome::Complete { length, .. } = whole {
        assert_eq!(parse(&input[..length], &mut HeadScan::default()), whole);
        assert_eq!(
            parse(&input[..length - 1], &mut HeadScan::default()),
            Outcome::Partial
        );
    }
    let mut scan = HeadScan::default();
    let front = parse(&input[..cut], &mut scan);
    if front != Outcome::Partial {
        assert_eq!(front, whole, "the front is judged differently");
        return;
    }
    let resumed = parse(input, &mut scan);
    if resumed == Outcome::Partial && matches!(whole, Outcome::Bad(_)) {
        // Noticed later, at the latest where the head ends, but never judged differently.
        let mut ended = input.to_vec();
        ended.extend_from_slice(b"\r\n\r\n");
        assert_eq!(
            parse(&ended, &mut scan),
            whole,
            "the fault depends on the cut"
        );
        return;
    }
    assert_eq!(resumed, whole, "the head depends on the cut");
}

/// What became of a chunked body: what it carries, and where it ends if it does.
fn decode(limit_bytes: u64, pieces: &[&[u8]]) -> (Result<Option<usize>, Fault>, BytesMut) {
    let mut decoder = ChunkedDecoder::new(limit_bytes);
    let mut body = BytesMut::new();
    let mut consumed = 0;
    for piece in pieces {
        match decoder.decode(piece, &mut body) {
            Ok(progress) => {
                assert!(progress.consumed <= piece.len());
                assert!(progress.complete || progress.consumed == piece.len());
                consumed += progress.consumed;
                if progress.complete {
                    let after = decoder
                        .decode(b"x", &mut body)
                        .expect("nothing follows the end");
                    assert_eq!(after.consumed, 0);
                    return (Ok(Some(consumed)), body);
                }
            }
            Err(fault) => {
                assert_eq!(
                    decoder.decode(piece, &mut body),
                    Err(fault),
                    "a fault is final"
                );
                return (Err(fault), body);
            }
        }
    }
    (Ok(None), body)
}

/// A chunked body. The first two bytes say where it is cut, the next one how long it may be.
pub fn chunked_body(data: &[u8]) {
    let Some((cut, rest)) = cut_point(data) else {
        return;
    };
    let Some((&limit, input)) = rest.split_first() else {
        return;
    };
    let cut = cut.min(input.len());
    let limit_bytes = if limit == 255 {
        u64::MAX
    } else {
        u64::from(limit)
    };
    let whole = decode(limit_bytes, &[input]);
    assert!(whole.1.len() as u64 <= limit_bytes);
    assert!(whole.1.len() <= input.len());
    let (front, back) = input.split_at(cut);
    assert_eq!(
        decode(limit_bytes, &[front, back]),
        whole,
        "the body depends on the cut"
    );
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(
        decode(limit_bytes, &bytes),
        whole,
        "the body depends on the pieces"
    );
    if let Ok(Some(consumed)) = whole.0 {
        assert_eq!(decode(limit_bytes, &[&input[..consumed]]), whole);
        assert!(input[..consumed].ends_with(b"\r\n"));
    }
}

fn encode(text: &str, is_form: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' if is_form => encoded.push('+'),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// A query. What it decodes to, encoded again, must decode to the same.
pub fn query(data: &[u8]) {
    let pieces = data
        .split(|&byte| byte == b'&')
        .filter(|piece| !piece.is_empty());
    assert_eq!(form_pairs(data).count(), pieces.count());
    for pair in form_pairs(data) {
        match pair {
            Ok((key, value)) => {
                let encoded = format!("{}={}", encode(&key, true), encode(&value, true));
                let again: Vec<_> = form_pairs(encoded.as_bytes()).collect();
                assert_eq!(again, [Ok((key, value))]);
            }
            Err(fault) => assert_eq!(fault.status, 400),
        }
    }
}

/// A path segment. What it decodes to, encoded again, must decode to the same.
pub fn path(data: &[u8]) {
    match decode_path_segment(data) {
        Ok(text) => {
            assert!(text.len() <= data.len());
            assert_eq!(matches!(text, Cow::Borrowed(_)), !data.contains(&b'%'));
            let encoded = encode(&text, false);
            assert_eq!(decode_path_segment(encoded.as_bytes()), Ok(text));
        }
        Err(fault) => {
            assert_eq!(fault.status, 400);
            let is_plain = !data.contains(&b'%') && std::str::from_utf8(data).is_ok();
            assert!(!is_plain, "plain text was refused");
        }
    }
}
