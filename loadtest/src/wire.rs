//! Request texts as the published Rust client sends them, written by hand so that a generator
//! spends nothing on them, and the few members of an answer that a scenario looks at.

use std::io::Write;

use memchr::memmem;

/// Digits of a stamp, the time at which a message is due; nanoseconds as `u64` fit.
const STAMP_DIGITS: usize = 20;

/// Bytes of the smallest payload that can carry a stamp.
pub const PAYLOAD_BYTES_MIN: usize = br#"{"n":"","pad":""}"#.len() + STAMP_DIGITS;

const FIELDS: &str = "accept: */*\r\ncontent-type: application/json\r\nhost: localhost\r\n";

/// A push; the payload of its first message carries a stamp that can be set in place.
#[derive(Clone, Debug)]
pub struct PushText {
    bytes: Vec<u8>,
    stamp_at: usize,
}

impl PushText {
    /// A push of `batch` messages of `payload_bytes` each (at least [`PAYLOAD_BYTES_MIN`]) to `queue`.
    pub fn new(queue: &str, payload_bytes: usize, batch: usize) -> PushText {
        let payload = stamped_payload(payload_bytes);
        let mut bytes = Vec::new();
        push_all(queue, &vec![payload.as_bytes(); batch], &mut bytes);
        PushText::of(bytes)
    }

    /// A push as another wire has it, which holds a [`stamped_payload`].
    pub fn of(bytes: Vec<u8>) -> PushText {
        let stamp_at = memmem::find(&bytes, STAMP_KEY).expect("a payload has a place for a stamp");
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

/// A payload of `payload_bytes` (at least [`PAYLOAD_BYTES_MIN`]) with a place for a stamp.
pub fn stamped_payload(payload_bytes: usize) -> String {
    assert!(
        payload_bytes >= PAYLOAD_BYTES_MIN,
        "a payload carries a stamp"
    );
    let pad = "x".repeat(payload_bytes - PAYLOAD_BYTES_MIN);
    let stamp = "0".repeat(STAMP_DIGITS);
    let payload = format!(r#"{{"n":"{stamp}","pad":"{pad}"}}"#);
    assert_eq!(payload.len(), payload_bytes);
    payload
}

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
    push_all(queue, &[payload], out);
}

/// Appends a push of several messages to `out`. `queue` needs no escape in JSON.
pub fn push_all(queue: &str, payloads: &[&[u8]], out: &mut Vec<u8>) {
    let mut body = Vec::new();
    push_body(queue, payloads, &mut body);
    post("push", body.len(), out);
    out.extend_from_slice(&body);
}

/// Appends the body of a push, as the leg of an exchange has it.
pub fn push_body(queue: &str, payloads: &[&[u8]], out: &mut Vec<u8>) {
    append(out, format_args!(r#"{{"queue":"{queue}","messages":["#));
    for (index, payload) in payloads.iter().enumerate() {
        let before = if index == 0 { "" } else { "," };
        append(out, format_args!(r#"{before}{{"payload":"#));
        out.extend_from_slice(payload);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// Appends a pop of one message to `out`. `queue` needs no escape in a query.
pub fn pop(queue: &str, mode: PopMode, out: &mut Vec<u8>) {
    pop_batch(queue, 1, mode, out);
}

/// Appends a pop of at most `batch` messages to `out`. `queue` needs no escape in a query.
pub fn pop_batch(queue: &str, batch: u32, mode: PopMode, out: &mut Vec<u8>) {
    append(
        out,
        format_args!("GET /api/v1/ephemeral/pop?queue={queue}&batch={batch}"),
    );
    if let Some(wait_ms) = mode.wait_ms {
        append(out, format_args!("&wait=true&timeout={wait_ms}"));
    }
    if mode.auto_ack {
        append(out, format_args!("&autoAck=true"));
    }
    append(out, format_args!(" HTTP/1.1\r\n{FIELDS}\r\n"));
}

/// Appends a pop as the last leg of an exchange, with its key.
pub fn pop_leg(queue: &str, batch: u32, mode: PopMode, out: &mut Vec<u8>) {
    append(
        out,
        format_args!(r#""pop":{{"queue":"{queue}","batch":{batch}"#),
    );
    if let Some(wait_ms) = mode.wait_ms {
        append(out, format_args!(r#","wait":true,"timeout":{wait_ms}"#));
    }
    if mode.auto_ack {
        append(out, format_args!(r#","autoAck":true"#));
    }
    out.push(b'}');
}

/// Appends an exchange to `out`: `acks` and `pushes` are bodies of such, with commas between them, or
/// nothing; `pop` is what [`pop_leg`] writes.
pub fn exchange(acks: &[u8], pushes: &[u8], pop: &[u8], out: &mut Vec<u8>) {
    fn leg<'a>(key: &'a [u8], bodies: &'a [u8]) -> [&'a [u8]; 3] {
        match bodies {
            b"" => [b""; 3],
            _ => [key, bodies, b"],"],
        }
    }
    let legs = [leg(br#""acks":["#, acks), leg(br#""pushes":["#, pushes)];
    let lengths = legs.iter().flatten().map(|part| part.len());
    post("exchange", 2 + pop.len() + lengths.sum::<usize>(), out);
    out.push(b'{');
    for part in legs.iter().flatten() {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(pop);
    out.push(b'}');
}

/// Appends an ack of one message to `out`. Neither text needs an escape in JSON.
pub fn ack(queue: &str, id: &str, out: &mut Vec<u8>) {
    ack_all(queue, [id], out);
}

/// Appends an ack of several messages to `out`. No text needs an escape in JSON.
pub fn ack_all(queue: &str, ids: impl IntoIterator<Item = impl AsRef<str>>, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    ack_body(queue, ids, &mut body);
    post("ack", body.len(), out);
    out.extend_from_slice(&body);
}

/// Appends the body of an ack, as the leg of an exchange has it.
pub fn ack_body(queue: &str, ids: impl IntoIterator<Item = impl AsRef<str>>, out: &mut Vec<u8>) {
    append(out, format_args!(r#"{{"queue":"{queue}","acks":["#));
    for (index, id) in ids.into_iter().enumerate() {
        let before = if index == 0 { "" } else { "," };
        append(out, format_args!(r#"{before}{{"id":"{}"}}"#, id.as_ref()));
    }
    out.extend_from_slice(b"]}");
}

/// Replaces `out` by a payload that names `inbox`, filled up to `payload_bytes`.
pub fn inbox_payload(inbox: &str, payload_bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    out.push(b'{');
    out.extend_from_slice(INBOX_KEY);
    append(out, format_args!(r#"{inbox}","pad":""#));
    let filled = out.len() + 2;
    out.resize(out.len() + payload_bytes.saturating_sub(filled), b'x');
    out.extend_from_slice(br#""}"#);
}

/// What stands before the name of an inbox in a payload.
pub const INBOX_KEY: &[u8] = br#""inbox":""#;

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
    ids(body).next()
}

/// The stamp of the first message of a pop's answer.
pub fn first_stamp(body: &[u8]) -> Option<u64> {
    text_member(body, STAMP_KEY)?.parse().ok()
}

/// Whether the answer about the health says that nothing is wrong.
pub fn is_healthy(body: &[u8]) -> bool {
    text_member(body, br#""status":""#) == Some("healthy")
}

/// The ids of all messages of a pop's answer.
pub fn ids(body: &[u8]) -> impl Iterator<Item = &str> {
    text_members(body, br#""id":""#)
}

/// What the pop of an exchange brought, which stands last; of the answer to a plain pop, all.
pub fn popped(body: &[u8]) -> &[u8] {
    &body[memmem::find(body, br#""pop":{"#).unwrap_or(0)..]
}

/// How many acks of an answer settled their message.
pub fn count_acked(body: &[u8]) -> usize {
    memmem::find_iter(body, br#""outcome":"acked""#).count()
}

/// Whether a leg of an exchange has another status than 200 or 201.
pub fn has_refused_leg(body: &[u8]) -> bool {
    let key = br#""status":"#;
    memmem::find_iter(body, key).any(|at| !body[at + key.len()..].starts_with(b"20"))
}

/// Whether the first ack of an answer settled its message.
pub fn is_acked(body: &[u8]) -> bool {
    text_member(body, br#""outcome":""#) == Some("acked")
}

/// The texts after each `key`, up to the next quotation mark: for members that hold no escapes.
pub fn text_members<'a>(body: &'a [u8], key: &[u8]) -> impl Iterator<Item = &'a str> {
    let mut rest = body;
    std::iter::from_fn(move || {
        rest = &rest[memmem::find(rest, key)? + key.len()..];
        let text = &rest[..memchr::memchr(b'"', rest)?];
        std::str::from_utf8(text).ok()
    })
}

/// The first of [`text_members`].
pub fn text_member<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a str> {
    text_members(body, key).next()
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
            let mut text = PushText::new("q", payload_bytes, 1);
            for stamp in [0, 7, 1_234_567_890, u64::MAX] {
                let body = body_of(text.stamped(stamp));
                let payload = body
                    .strip_prefix(r#"{"queue":"q","messages":[{"payload":"#)
                    .unwrap();
                let payload = payload.strip_suffix("}]}").unwrap();
                assert_eq!(payload.len(), payload_bytes);
                let answer = format!(
                    r#"{{"messages":[{{"id":"e:1:Default:4","attempts":1,"payload":{payload}}}]}}"#
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
        push_all("q", &[b"1", b"[]"], &mut out);
        assert_eq!(
            body_of(&out),
            r#"{"queue":"q","messages":[{"payload":1},{"payload":[]}]}"#
        );
        out.clear();
        let mode = PopMode {
            wait_ms: Some(5),
            auto_ack: true,
        };
        let (mut acks, mut pushes, mut leg) = (Vec::new(), Vec::new(), Vec::new());
        ack_body("q", ["a", "b"], &mut acks);
        push_body("r", &[b"1"], &mut pushes);
        pop_leg("q", 7, mode, &mut leg);
        exchange(&acks, &pushes, &leg, &mut out);
        let settled = r#""acks":[{"queue":"q","acks":[{"id":"a"},{"id":"b"}]}]"#;
        let pushed = r#""pushes":[{"queue":"r","messages":[{"payload":1}]}]"#;
        let popped = r#""pop":{"queue":"q","batch":7,"wait":true,"timeout":5,"autoAck":true}"#;
        assert_eq!(body_of(&out), format!("{{{settled},{pushed},{popped}}}"));
        out.clear();
        exchange(b"", b"", &leg, &mut out);
        assert_eq!(body_of(&out), format!("{{{popped}}}"));
        out.clear();
        configure("q", r#"{"maxLength":5}"#, &mut out);
        assert_eq!(body_of(&out), r#"{"queue":"q","options":{"maxLength":5}}"#);
        out.clear();
        pop("q", mode, &mut out);
        assert_eq!(body_of(&out), "");
        let target = b"GET /api/v1/ephemeral/pop?queue=q&batch=1&wait=true&timeout=5&autoAck=true ";
        assert!(out.starts_with(target));
    }

    #[test]
    fn an_answer_of_several_legs_is_told_apart() {
        let body = concat!(
            r#"{"acks":[{"status":200,"results":[{"id":"a","outcome":"acked"},"#,
            r#"{"id":"b","outcome":"unknown"}]}],"pushes":[{"status":201,"pushed":1}],"#,
            r#""pop":{"status":200,"queue":"q","messages":["#,
            r#"{"id":"c","payload":{"inbox":"i","pad":"x"}},"#,
            r#"{"id":"d","payload":{"inbox":"j","pad":"x"}}]}}"#,
        );
        let body = body.as_bytes();
        assert_eq!(count_acked(body), 1);
        assert!(!has_refused_leg(body));
        assert_eq!(ids(popped(body)).collect::<Vec<&str>>(), ["c", "d"]);
        let inboxes: Vec<&str> = text_members(popped(body), INBOX_KEY).collect();
        assert_eq!(inboxes, ["i", "j"]);
        assert!(has_refused_leg(
            br#"{"pushes":[{"status":429,"code":"x"}]}"#
        ));
        let mut payload = b"before".to_vec();
        inbox_payload("i", 40, &mut payload);
        assert_eq!(payload.len(), 40);
        assert!(payload.starts_with(br#"{"inbox":"i","pad":"x"#));
    }
}
