//! Request texts as the published Rust client sends them, written by hand so that a generator
//! spends nothing on them, and the few members of an answer that a scenario looks at.

use std::io::Write;

use memchr::memmem;

/// Digits of a stamp; nanoseconds as `u64` fit.
const STAMP_DIGITS: usize = 20;

/// Bytes of the smallest payload that can carry a stamp.
pub const PAYLOAD_BYTES_MIN: usize = br#"{"n":"","pad":""}"#.len() + STAMP_DIGITS;

const FIELDS: &str = "accept: */*\r\ncontent-type: application/json\r\nhost: localhost\r\n";

/// A push whose payload carries a stamp that can be set in place.
#[derive(Clone, Debug)]
pub struct PushText {
    bytes: Vec<u8>,
    stamp_at: usize,
}

impl PushText {
    /// A push of one message of `payload_bytes` (at least [`PAYLOAD_BYTES_MIN`]) to `queue`.
    pub fn new(queue: &str, payload_bytes: usize) -> PushText {
        assert!(
            payload_bytes >= PAYLOAD_BYTES_MIN,
            "a payload carries a stamp"
        );
        let pad = "x".repeat(payload_bytes - PAYLOAD_BYTES_MIN);
        let stamp = "0".repeat(STAMP_DIGITS);
        let payload = format!(r#"{{"n":"{stamp}","pad":"{pad}"}}"#);
        assert_eq!(payload.len(), payload_bytes);
        let mut bytes = Vec::new();
        push(queue, payload.as_bytes(), &mut bytes);
        let stamp_at = memmem::find(&bytes, STAMP_KEY).expect("the payload was just written");
        PushText {
            bytes,
            stamp_at: stamp_at + STAMP_KEY.len(),
        }
    }

    /// The request with `stamp` in its payload.
    pub fn stamped(&mut self, stamp: u64) -> &[u8] {
        let mut rest = stamp;
        for digit in self.bytes[self.stamp_at..self.stamp_at + STAMP_DIGITS]
            .iter_mut()
            .rev()
        {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        assert_eq!(rest, 0, "a stamp has at most 20 digits");
        &self.bytes
    }
}

const STAMP_KEY: &[u8] = br#""n":""#;

/// How a pop waits and settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PopMode {
    /// Milliseconds to wait for a message; `None`: not at all.
    pub wait_ms: Option<u64>,
    /// Settle at delivery instead of leasing.
    pub auto_ack: bool,
}

/// Appends a push of one message to `out`. `queue` needs no escape in JSON.
pub fn push(queue: &str, payload: &[u8], out: &mut Vec<u8>) {
    let before = format!(r#"{{"queue":"{queue}","messages":[{{"payload":"#);
    let after = "}]}";
    let length = before.len() + payload.len() + after.len();
    post("push", length, out);
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(after.as_bytes());
}

/// Appends a pop of one message to `out`. `queue` needs no escape in a query.
pub fn pop(queue: &str, mode: PopMode, out: &mut Vec<u8>) {
    append(
        out,
        format_args!("GET /api/v1/ephemeral/pop?queue={queue}&batch=1"),
    );
    if let Some(wait_ms) = mode.wait_ms {
        append(out, format_args!("&wait=true&timeout={wait_ms}"));
    }
    if mode.auto_ack {
        append(out, format_args!("&autoAck=true"));
    }
    append(out, format_args!(" HTTP/1.1\r\n{FIELDS}\r\n"));
}

/// Appends an ack of one message to `out`. Neither text needs an escape in JSON.
pub fn ack(queue: &str, id: &str, out: &mut Vec<u8>) {
    let (before, middle, after) = (r#"{"queue":""#, r#"","acks":[{"id":""#, r#""}]}"#);
    let length = before.len() + queue.len() + middle.len() + id.len() + after.len();
    post("ack", length, out);
    for part in [before, queue, middle, id, after] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends a declaration of `queue` with `options` (JSON text) to `out`.
pub fn configure(queue: &str, options: &str, out: &mut Vec<u8>) {
    let body = format!(r#"{{"queue":"{queue}","options":{options}}}"#);
    post("configure", body.len(), out);
    out.extend_from_slice(body.as_bytes());
}

/// Appends a deletion of `queue` to `out`.
pub fn delete(queue: &str, out: &mut Vec<u8>) {
    append(
        out,
        format_args!("DELETE /api/v1/ephemeral/queue/{queue} HTTP/1.1\r\n{FIELDS}\r\n"),
    );
}

/// Appends a question for the broker's health to `out`.
pub fn health(out: &mut Vec<u8>) {
    append(out, format_args!("GET /health HTTP/1.1\r\n{FIELDS}\r\n"));
}

/// Appends a question for the broker's metrics to `out`.
pub fn metrics(out: &mut Vec<u8>) {
    append(
        out,
        format_args!("GET /metrics/prometheus HTTP/1.1\r\n{FIELDS}\r\n"),
    );
}

fn post(verb: &str, length: usize, out: &mut Vec<u8>) {
    append(
        out,
        format_args!(
            "POST /api/v1/ephemeral/{verb} HTTP/1.1\r\n{FIELDS}content-length: {length}\r\n\r\n"
        ),
    );
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to memory does not fail");
}

/// The id of the first message of a pop's answer; `None` when it is empty.
pub fn first_id(body: &[u8]) -> Option<&str> {
    text_member(body, br#""id":""#)
}

/// The stamp of the first message of a pop's answer.
pub fn first_stamp(body: &[u8]) -> Option<u64> {
    text_member(body, STAMP_KEY)?.parse().ok()
}

/// Whether the answer about the health says that nothing is wrong.
pub fn is_healthy(body: &[u8]) -> bool {
    text_member(body, br#""status":""#) == Some("healthy")
}

/// Whether the first ack of an answer settled its message.
pub fn is_acked(body: &[u8]) -> bool {
    text_member(body, br#""outcome":""#) == Some("acked")
}

/// The text after `key` up to the next quotation mark: for members that hold no escapes.
pub fn text_member<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a str> {
    let rest = &body[memmem::find(body, key)? + key.len()..];
    std::str::from_utf8(&rest[..memchr::memchr(b'"', rest)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_of(request: &[u8]) -> &str {
        let end = memmem::find(request, b"\r\n\r\n").unwrap() + 4;
        let head = std::str::from_utf8(&request[..end]).unwrap();
        let length = head
            .split("content-length: ")
            .nth(1)
            .map_or(0, |rest| rest.split('\r').next().unwrap().parse().unwrap());
        assert_eq!(request.len() - end, length);
        std::str::from_utf8(&request[end..]).unwrap()
    }

    #[test]
    fn a_stamp_survives_the_way_through_a_queue() {
        for payload_bytes in [PAYLOAD_BYTES_MIN, 256, 100_000] {
            let mut text = PushText::new("q", payload_bytes);
            for stamp in [0, 7, 1_234_567_890, u64::MAX] {
                let body = body_of(text.stamped(stamp));
                let payload = body
                    .strip_prefix(r#"{"queue":"q","messages":[{"payload":"#)
                    .unwrap();
                let payload = payload.strip_suffix("}]}").unwrap();
                assert_eq!(payload.len(), payload_bytes);
                let answer = format!(
                    r#"{{"queue":"q","messages":[{{"id":"e:1:Default:4","partition":"Default","attempts":1,"payload":{payload}}}]}}"#
                );
                assert_eq!(first_stamp(answer.as_bytes()), Some(stamp));
                assert_eq!(first_id(answer.as_bytes()), Some("e:1:Default:4"));
            }
        }
        assert_eq!(first_id(br#"{"queue":"q","messages":[]}"#), None);
    }

    #[test]
    fn requests_are_framed() {
        let mut out = Vec::new();
        ack("q", "e:1:Default:4", &mut out);
        assert_eq!(
            body_of(&out),
            r#"{"queue":"q","acks":[{"id":"e:1:Default:4"}]}"#
        );
        out.clear();
        configure("q", r#"{"maxLength":5}"#, &mut out);
        assert_eq!(body_of(&out), r#"{"queue":"q","options":{"maxLength":5}}"#);
        out.clear();
        pop(
            "q",
            PopMode {
                wait_ms: Some(5),
                auto_ack: true,
            },
            &mut out,
        );
        assert_eq!(body_of(&out), "");
        let target = b"GET /api/v1/ephemeral/pop?queue=q&batch=1&wait=true&timeout=5&autoAck=true ";
        assert!(out.starts_with(target));
    }
}
