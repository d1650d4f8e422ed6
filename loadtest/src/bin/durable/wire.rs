//! Requests of the durable class as the published clients send them, and what is read of the answers.

use std::io::Write;

use memchr::memmem;
use queen_loadtest::wire::{stamped_payload, text_members};

/// The group of all consumers.
const GROUP: &str = "workers";

/// Digits of a transaction id; numbers as `u64` fit.
const ID_DIGITS: usize = 20;

/// Digits of a partition's name.
const PARTITION_DIGITS: usize = 5;

const FIELDS: &str = "accept: */*\r\ncontent-type: application/json\r\nhost: localhost\r\n";

/// A push of several messages to one queue, whose partitions and transaction ids are set in place.
#[derive(Clone, Debug)]
pub(crate) struct PushText {
    bytes: Vec<u8>,
    /// Where partition and transaction id of each message are.
    places: Vec<(usize, usize)>,
}

impl PushText {
    /// A push of `batch` messages of `payload_bytes` each. `queue` needs no escape in JSON.
    pub(crate) fn new(queue: &str, payload_bytes: usize, batch: usize) -> PushText {
        let payload = stamped_payload(payload_bytes);
        let (partition, id) = ("0".repeat(PARTITION_DIGITS), "0".repeat(ID_DIGITS));
        let item = format!(
            r#"{{"queue":"{queue}","partition":"{partition}","payload":{payload},"transactionId":"{id}"}}"#
        );
        let body = format!(r#"{{"items":[{}]}}"#, vec![item; batch].join(","));
        let bytes = post("push", &body);
        let behind =
            |key: &'static [u8]| memmem::find_iter(&bytes, key).map(move |at| at + key.len());
        let places = behind(br#""partition":""#).zip(behind(br#""transactionId":""#));
        let places = places.collect();
        PushText { bytes, places }
    }

    /// The request with these partitions, and with transaction ids from `first_id` on.
    pub(crate) fn filled(&mut self, first_id: u64, partition: impl Fn(usize) -> usize) -> &[u8] {
        for (index, &(partition_at, id_at)) in self.places.iter().enumerate() {
            let number = partition(index) as u64;
            put_digits(&mut self.bytes[partition_at..][..PARTITION_DIGITS], number);
            put_digits(
                &mut self.bytes[id_at..][..ID_DIGITS],
                first_id + index as u64,
            );
        }
        &self.bytes
    }

    /// Messages of one request.
    pub(crate) fn batch(&self) -> usize {
        self.places.len()
    }
}

fn put_digits(place: &mut [u8], number: u64) {
    let mut rest = number;
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    assert_eq!(rest, 0, "{number} has no room");
}

/// A declaration of a queue with `options` (JSON text).
pub(crate) fn configure(queue: &str, options: &str) -> Vec<u8> {
    post(
        "configure",
        &format!(r#"{{"queue":"{queue}","options":{options}}}"#),
    )
}

/// A deletion of a queue.
pub(crate) fn delete(queue: &str) -> Vec<u8> {
    format!("DELETE /api/v1/resources/queues/{queue} HTTP/1.1\r\n{FIELDS}\r\n").into_bytes()
}

/// A pop of the one group; `wait_ms`: how long it waits for a message.
pub(crate) fn pop(queue: &str, batch: u32, partitions: u32, wait_ms: Option<u64>) -> Vec<u8> {
    let wait = wait_ms.map(|wait_ms| format!("&wait=true&timeout={wait_ms}"));
    let wait = wait.unwrap_or_default();
    format!(
        "GET /api/v1/pop/queue/{queue}?consumerGroup={GROUP}&subscriptionMode=all&batch={batch}\
         &partitions={partitions}{wait} HTTP/1.1\r\n{FIELDS}\r\n"
    )
    .into_bytes()
}

/// Appends an ack of every message in the answer to a pop to `out`, as the clients send it; returns
/// how many there are.
pub(crate) fn ack_all(popped: &[u8], out: &mut Vec<u8>) -> usize {
    let lease = text_members(popped, br#""leaseId":""#)
        .next()
        .unwrap_or_default();
    let ids = text_members(popped, br#""transactionId":""#);
    // The first one is that of the whole answer.
    let partitions = text_members(popped, br#""partitionId":""#).skip(1);
    let mut body = Vec::with_capacity(popped.len());
    append(
        &mut body,
        format_args!(r#"{{"consumerGroup":"{GROUP}","acknowledgments":["#),
    );
    let mut count = 0;
    for (id, partition) in ids.zip(partitions) {
        let before = if count == 0 { "" } else { "," };
        append(
            &mut body,
            format_args!(
                r#"{before}{{"transactionId":"{id}","partitionId":"{partition}","leaseId":"{lease}","status":"completed"}}"#
            ),
        );
        count += 1;
    }
    body.extend_from_slice(b"]}");
    append(
        out,
        format_args!(
            "POST /api/v1/ack/batch HTTP/1.1\r\n{FIELDS}content-length: {}\r\n\r\n",
            body.len()
        ),
    );
    out.extend_from_slice(&body);
    count
}

/// How many acks of an answer took effect.
pub(crate) fn count_acked(body: &[u8]) -> usize {
    memmem::find_iter(body, br#""success":true"#).count()
}

/// The transaction ids in the answer to a pop, as the numbers that a [`PushText`] has put there.
pub(crate) fn popped_ids(body: &[u8]) -> impl Iterator<Item = u64> {
    text_members(body, br#""transactionId":""#).filter_map(|id| id.parse().ok())
}

/// How many messages of an answer to a push were stored.
pub(crate) fn count_queued(body: &[u8]) -> usize {
    memmem::find_iter(body, br#""status":"queued""#).count()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST /api/v1/{path} HTTP/1.1\r\n{FIELDS}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_of(request: &[u8]) -> &str {
        let text = std::str::from_utf8(request).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = head.split("content-length: ").nth(1);
        assert_eq!(
            length.unwrap().split('\r').next().unwrap(),
            body.len().to_string()
        );
        body
    }

    #[test]
    fn each_message_has_a_partition_and_an_id_of_its_own() {
        let mut push = PushText::new("q", 256, 2);
        let body = body_of(push.filled(41, |index| 7 + index)).to_owned();
        assert_eq!(body.matches(r#""queue":"q""#).count(), 2);
        let members = |key: &[u8]| {
            text_members(body.as_bytes(), key)
                .map(str::to_owned)
                .collect::<Vec<String>>()
        };
        assert_eq!(members(br#""partition":""#), ["00007", "00008"]);
        assert_eq!(
            members(br#""transactionId":""#),
            ["00000000000000000041", "00000000000000000042"]
        );
    }

    #[test]
    fn all_that_was_popped_is_acked() {
        let popped = concat!(
            r#"{"success":true,"queue":"q","partition":"00007","partitionId":"3","leaseId":"l","#,
            r#""consumerGroup":"workers","messages":["#,
            r#"{"id":"x","transactionId":"41","data":{},"partitionId":"3","partition":"00007","#,
            r#""leaseId":"l"},{"id":"y","transactionId":"42","data":{},"partitionId":"4","#,
            r#""partition":"00008","leaseId":"l"}],"partitionsClaimed":2}"#,
        );
        let mut out = Vec::new();
        assert_eq!(ack_all(popped.as_bytes(), &mut out), 2);
        let ack = |id, partition| {
            format!(
                r#"{{"transactionId":"{id}","partitionId":"{partition}","leaseId":"l","status":"completed"}}"#
            )
        };
        let acks = format!("{},{}", ack(41, 3), ack(42, 4));
        assert_eq!(
            body_of(&out),
            format!(r#"{{"consumerGroup":"workers","acknowledgments":[{acks}]}}"#)
        );
        assert_eq!(
            popped_ids(popped.as_bytes()).collect::<Vec<u64>>(),
            [41, 42]
        );
    }
}
