//! Stored messages by their offsets, and partitions that were written to.

use serde::Serialize;

use super::{CURSOR_MARK, FineTime, Payload, Shown};
use crate::model::durable::Unopened;
use crate::model::durable::read::{
    ChangedAnswer, ChangedPage, ChangedPartition, FetchAnswer, FetchFault, Fetched, FetchedRecord,
};

/// The answer of `/fetch`.
#[derive(Serialize)]
pub(super) struct Fetch<'a> {
    entries: Vec<Entry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    queue: &'a str,
    partition: &'a str,
    records: Vec<Record<'a>>,
    high_watermark: i64,
    log_start_offset: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    offset: i64,
    transaction_id: std::borrow::Cow<'a, str>,
    payload: Payload<'a>,
    ts: FineTime,
}

impl<'a> Entry<'a> {
    fn of(fetched: &'a Fetched) -> Entry<'a> {
        Entry {
            queue: &fetched.queue,
            partition: &fetched.partition,
            records: fetched.records.iter().map(Record::of).collect(),
            high_watermark: fetched.next_offset,
            log_start_offset: fetched.first_offset,
            error: fetched.fault.map(word_of),
        }
    }
}

impl<'a> Record<'a> {
    fn of(record: &'a FetchedRecord) -> Record<'a> {
        Record {
            offset: record.offset,
            transaction_id: String::from_utf8_lossy(&record.transaction_id),
            payload: Payload(&record.payload),
            ts: FineTime(record.created_us),
        }
    }
}

fn word_of(fault: FetchFault) -> &'static str {
    match fault {
        FetchFault::Unknown => "UNKNOWN_TOPIC_OR_PARTITION",
        FetchFault::OutOfRange => "OFFSET_OUT_OF_RANGE",
        FetchFault::BadCursor => "BAD_CURSOR",
        FetchFault::Unopened(Unopened::NoKey | Unopened::OtherKey) => "WRONG_ENCRYPTION_KEY",
        FetchFault::Unopened(Unopened::Damaged) => "MESSAGE_DAMAGED",
    }
}

pub(super) fn fetched(answer: &FetchAnswer) -> Fetch<'_> {
    Fetch {
        entries: answer.entries.iter().map(Entry::of).collect(),
    }
}

/// The answer of `/partitions/changed`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Changed<'a> {
    safe_time: FineTime,
    safe_time_degraded: bool,
    entries: Vec<Page<'a>>,
}

#[derive(Serialize)]
struct Page<'a> {
    queue: &'a str,
    partitions: Vec<Partition<'a>>,
    next: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Partition<'a> {
    name: &'a str,
    id: Shown<i64>,
    last_offset: i64,
    log_start: i64,
    last_write_at: FineTime,
}

impl<'a> Page<'a> {
    fn of(page: &'a ChangedPage) -> Page<'a> {
        Page {
            queue: &page.queue,
            partitions: page.partitions.iter().map(Partition::of).collect(),
            next: page
                .next
                .as_ref()
                .map(|next| format!("{CURSOR_MARK}{next}")),
            error: page.fault.map(word_of),
        }
    }
}

impl<'a> Partition<'a> {
    fn of(partition: &'a ChangedPartition) -> Partition<'a> {
        Partition {
            name: &partition.name,
            id: Shown(partition.id),
            last_offset: partition.next_offset - 1,
            log_start: partition.first_offset,
            last_write_at: FineTime(partition.written_us),
        }
    }
}

pub(super) fn changed(answer: &ChangedAnswer) -> Changed<'_> {
    Changed {
        safe_time: FineTime(answer.safe_us),
        safe_time_degraded: false,
        entries: answer.entries.iter().map(Page::of).collect(),
    }
}
