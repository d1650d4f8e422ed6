//! How messages lie packed in a segment: a row of the database holds many, and what a pop delivers is
//! cut out of it without decoding payloads.
//!
//! ```text
//! message   u32 length of the rest, u8 flags, i64 created (microseconds), 16 bytes id,
//!           u16 length and transaction id, [16 bytes trace id], [u16 length and producer], payload
//! flags     1: has a trace id, 2: has a producer, 4: the payload is encrypted
//! ```
//! Numbers are little-endian. The format is stored: it may gain flags, and never changes otherwise.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use uuid::Uuid;

const HAS_TRACE: u8 = 1;
const HAS_PRODUCER: u8 = 2;
const IS_ENCRYPTED: u8 = 4;

/// One stored message. Its parts share the segment's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The message's id.
    pub message_id: Uuid,
    /// The client's id, UTF-8.
    pub transaction_id: Bytes,
    /// When it was accepted, in microseconds since 1970.
    pub created_us: i64,
    /// The trace it belongs to.
    pub trace_id: Option<Uuid>,
    /// The subject of the token it was pushed with, UTF-8.
    pub producer: Option<Bytes>,
    /// Whether the payload is encrypted.
    pub encrypted: bool,
    /// JSON text, or what it was encrypted to.
    pub payload: Bytes,
}

/// Packs messages into a segment.
#[derive(Debug, Default)]
pub struct SegmentWriter {
    bytes: BytesMut,
    count: u32,
}

impl SegmentWriter {
    /// Appends a message.
    ///
    /// # Panics
    /// If a transaction id or producer is longer than 65,535 bytes or the whole than 4 GiB: `limits`
    /// keeps both far smaller.
    pub fn push(&mut self, record: &Record) {
        let start = self.bytes.len();
        self.bytes.put_u32_le(0);
        let mut flags = 0;
        flags |= if record.trace_id.is_some() {
            HAS_TRACE
        } else {
            0
        };
        flags |= if record.producer.is_some() {
            HAS_PRODUCER
        } else {
            0
        };
        flags |= if record.encrypted { IS_ENCRYPTED } else { 0 };
        self.bytes.put_u8(flags);
        self.bytes.put_i64_le(record.created_us);
        self.bytes.put_slice(record.message_id.as_bytes());
        put_short(&mut self.bytes, &record.transaction_id);
        if let Some(trace_id) = &record.trace_id {
            self.bytes.put_slice(trace_id.as_bytes());
        }
        if let Some(producer) = &record.producer {
            put_short(&mut self.bytes, producer);
        }
        self.bytes.put_slice(&record.payload);
        let length = u32::try_from(self.bytes.len() - start - 4).expect("a body is far smaller");
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }

    /// Messages so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no message yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The packed messages.
    pub fn finish(self) -> Bytes {
        self.bytes.freeze()
    }
}

fn put_short(bytes: &mut BytesMut, text: &[u8]) {
    let length = u16::try_from(text.len()).expect("names are shorter");
    bytes.put_u16_le(length);
    bytes.put_slice(text);
}

/// The messages of a segment, in order. Ends early where the bytes are no messages, which a database
/// that someone else has written to may hold.
pub fn records(segment: &Bytes) -> impl Iterator<Item = Record> {
    records_behind(segment, 0)
}

/// The messages of a segment behind the first `count`, which are not looked into.
pub fn records_behind(segment: &Bytes, count: usize) -> impl Iterator<Item = Record> {
    let mut rest = segment.clone();
    let has_them = (0..count).all(|_| next(&mut rest).is_some());
    std::iter::from_fn(move || {
        let bytes = next(&mut rest).filter(|_| has_them)?;
        read(bytes)
    })
}

/// Whether the bytes of a stored segment are as many messages as its row says, and nothing else.
pub fn is_whole(segment: &Bytes, count: i32) -> bool {
    has_all(segment, count, |_| true)
}

/// Whether they are, and all are plain as far as a glance tells: no JSON text begins with a control
/// character, as everything that is sealed does, whatever the flags say.
pub fn is_whole_and_plain(segment: &Bytes, count: i32) -> bool {
    has_all(segment, count, |record| {
        let first = record.payload.first();
        !record.encrypted && first.is_some_and(|byte| *byte >= b' ')
    })
}

fn has_all(segment: &Bytes, count: i32, is_well: impl Fn(&Record) -> bool) -> bool {
    let mut rest = segment.clone();
    let has_them = (0..count).all(|_| {
        let record = next(&mut rest).and_then(read);
        record.as_ref().is_some_and(&is_well)
    });
    has_them && count > 0 && rest.is_empty()
}

/// Cuts the next message off.
fn next(rest: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(rest.try_get_u32_le().ok()?).ok()?;
    (length <= rest.len()).then(|| rest.split_to(length))
}

fn read(mut bytes: Bytes) -> Option<Record> {
    let flags = bytes.try_get_u8().ok()?;
    let created_us = bytes.try_get_i64_le().ok()?;
    let message_id = take_uuid(&mut bytes)?;
    let transaction_id = take_short(&mut bytes)?;
    let trace_id = match flags & HAS_TRACE {
        0 => None,
        _ => Some(take_uuid(&mut bytes)?),
    };
    let producer = match flags & HAS_PRODUCER {
        0 => None,
        _ => Some(take_short(&mut bytes)?),
    };
    Some(Record {
        message_id,
        transaction_id,
        created_us,
        trace_id,
        producer,
        encrypted: flags & IS_ENCRYPTED != 0,
        payload: bytes,
    })
}

fn take_uuid(bytes: &mut Bytes) -> Option<Uuid> {
    let mut id = [0; 16];
    bytes.try_copy_to_slice(&mut id).ok()?;
    Some(Uuid::from_bytes(id))
}

fn take_short(bytes: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(bytes.try_get_u16_le().ok()?);
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        Record {
            message_id: Uuid::from_u128(u128::from(number) + 7),
            transaction_id: Bytes::from(format!("transaction {number}")),
            created_us: 1_700_000_000_000_000 + number as i64,
            trace_id: number.is_multiple_of(2).then(|| Uuid::from_u128(99)),
            producer: number
                .is_multiple_of(3)
                .then(|| Bytes::from_static(b"somebody")),
            encrypted: number.is_multiple_of(5),
            payload: Bytes::from(format!("{{\"n\":{number}}}")),
        }
    }

    #[test]
    fn what_is_packed_is_read_back() {
        let mut writer = SegmentWriter::default();
        let packed: Vec<Record> = (0..30).map(record).collect();
        packed.iter().for_each(|record| writer.push(record));
        assert_eq!(writer.count(), 30);
        let segment = writer.finish();
        assert_eq!(records(&segment).collect::<Vec<_>>(), packed);
        for count in 0..32 {
            let behind: Vec<_> = records_behind(&segment, count).collect();
            assert_eq!(behind, packed[count.min(30)..], "behind {count}");
        }
    }

    #[test]
    fn a_cut_segment_ends_early_and_breaks_nothing() {
        let mut writer = SegmentWriter::default();
        (0..3).map(record).for_each(|record| writer.push(&record));
        let segment = writer.finish();
        for end in 0..segment.len() {
            assert!(records(&segment.slice(..end)).count() < 3, "cut at {end}");
            assert!(!is_whole(&segment.slice(..end), 3), "cut at {end}");
        }
    }

    #[test]
    fn a_segment_is_whole_with_as_many_messages_as_its_row_says() {
        let mut writer = SegmentWriter::default();
        (1..4).map(record).for_each(|record| writer.push(&record));
        let segment = writer.finish();
        let states = [-1, 0, 2, 3, 4].map(|count| is_whole(&segment, count));
        assert_eq!(states, [false, false, false, true, false]);
        assert!(is_whole_and_plain(&segment, 3));
        let one = |record: Record| {
            let mut writer = SegmentWriter::default();
            writer.push(&record);
            is_whole_and_plain(&writer.finish(), 1)
        };
        assert!(!one(record(5)), "it is encrypted");
        for payload in [&b"\x01sealed"[..], b""] {
            let payload = Bytes::from_static(payload);
            let claims_to_be_plain = Record {
                payload,
                ..record(1)
            };
            assert!(!one(claims_to_be_plain));
        }
    }
}
