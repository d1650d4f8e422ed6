//! Messages and dead letters.

use std::borrow::Cow;

use serde::Serialize;
use uuid::Uuid;

use super::queues::Pagination;
use super::{Options, Payload, Shown, Time};
use crate::model::durable::read::{
    DeadLetter, DeadLetterPage, MessageDetail, MessageGroup, MessagePage, MessageRow, MessageStatus,
};
use crate::model::durable::{QUEUE_MODE_GROUP, Record, records};

/// The answer of `/messages`.
#[derive(Serialize)]
pub(super) struct Page<'a> {
    messages: Vec<Message<'a>>,
    mode: Mode,
    /// Rows of the page.
    total: usize,
}

/// How messages are consumed: without a group, by groups, or both.
#[derive(Serialize)]
struct Mode {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Mode {
    fn of(has_queue_mode: bool, has_groups: bool) -> Mode {
        let kind = match (has_queue_mode, has_groups) {
            (true, false) => "queue",
            (false, true) => "bus",
            (true, true) => "hybrid",
            (false, false) => "none",
        };
        Mode { kind }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    id: Shown<Uuid>,
    transaction_id: &'a str,
    txn_hash: String,
    partition_id: Shown<i64>,
    queue: &'a str,
    partition: &'a str,
    status: &'static str,
    segment: Segment,
    queue_path: String,
    namespace: &'a str,
    task: &'a str,
    queue_status: Option<&'static str>,
    bus_status: Bus,
    trace_id: Option<Shown<Uuid>>,
    producer_sub: Option<&'a str>,
    queue_priority: i32,
    payload_available: bool,
    created_at: Time,
    lease_expires_at: Option<Time>,
    data: Option<Payload<'a>>,
    payload: Option<Payload<'a>>,
}

/// Where a message lies: in which row and where in it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Segment {
    seq: i64,
    frame_idx: i64,
}

/// How many of the groups have passed a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bus {
    consumed_by: usize,
    total_groups: usize,
}

fn word_of(status: MessageStatus) -> &'static str {
    match status {
        MessageStatus::Pending => "pending",
        MessageStatus::Processing => "processing",
        MessageStatus::Completed => "completed",
        MessageStatus::DeadLetter => "dead_letter",
    }
}

fn is_queue_mode(group: &&MessageGroup) -> bool {
    *group.name == *QUEUE_MODE_GROUP
}

fn word_of_group(group: &MessageGroup) -> &'static str {
    match (group.consumed, group.lease_until_us) {
        (true, _) => "completed",
        (false, Some(_)) => "processing",
        (false, None) => "pending",
    }
}

/// When the last lease over a message ends.
fn lease_end(row: &MessageRow) -> Option<Time> {
    let ends = row.groups.iter().filter_map(|group| group.lease_until_us);
    ends.max().map(Time)
}

impl<'a> Message<'a> {
    fn of(row: &'a MessageRow) -> Message<'a> {
        let named = || row.groups.iter().filter(|group| !is_queue_mode(group));
        let payload = || row.payload.as_deref().ok().map(Payload);
        Message {
            id: Shown(row.message_id),
            transaction_id: &row.transaction_id,
            txn_hash: format!("{:016x}", row.transaction_hash),
            partition_id: Shown(row.partition_id),
            queue: &row.queue,
            partition: &row.partition,
            status: word_of(row.status),
            segment: Segment {
                seq: row.base_offset,
                frame_idx: row.offset - row.base_offset,
            },
            queue_path: format!("{}/{}", row.queue, row.partition),
            namespace: &row.namespace,
            task: &row.task,
            queue_status: row.groups.iter().find(is_queue_mode).map(word_of_group),
            bus_status: Bus {
                consumed_by: named().filter(|group| group.consumed).count(),
                total_groups: named().count(),
            },
            trace_id: row.trace_id.map(Shown),
            producer_sub: row.producer.as_deref(),
            queue_priority: row.priority,
            payload_available: row.payload.is_ok(),
            created_at: Time(row.created_us),
            lease_expires_at: lease_end(row),
            data: payload(),
            payload: payload(),
        }
    }
}

pub(super) fn page(page: &MessagePage) -> Page<'_> {
    Page {
        messages: page.rows.iter().map(Message::of).collect(),
        mode: Mode::of(page.has_queue_mode, page.has_groups),
        total: page.rows.len(),
    }
}

/// The answer of `/messages/:partitionId/:transactionId`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Detail<'a> {
    #[serde(flatten)]
    message: Message<'a>,
    offset: i64,
    retry_count: i32,
    queue_config: Options<'a>,
    consumer_groups: Vec<Group<'a>>,
    /// The group that the status is about.
    group: Option<&'a str>,
    consumed: bool,
    is_encrypted: bool,
    error_message: Option<&'a str>,
    mode: Mode,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Group<'a> {
    name: &'a str,
    consumed: bool,
    status: &'static str,
    lease_expires_at: Option<Time>,
    retry_count: i32,
    last_consumed_at: Option<Time>,
}

impl<'a> Group<'a> {
    fn of(group: &'a MessageGroup) -> Group<'a> {
        Group {
            name: &group.name,
            consumed: group.consumed,
            status: word_of_group(group),
            lease_expires_at: group.lease_until_us.map(Time),
            retry_count: group.retries,
            last_consumed_at: group.settled_us.map(Time),
        }
    }
}

pub(super) fn detail(detail: &MessageDetail) -> Detail<'_> {
    let row = &detail.row;
    let given_up = detail.given_up.as_ref();
    let holder = row
        .groups
        .iter()
        .find(|group| group.lease_until_us.is_some());
    let retries = row.groups.iter().map(|group| group.retries).max();
    let has_queue_mode = row.groups.iter().any(|group| is_queue_mode(&group));
    let has_groups = row.groups.iter().any(|group| !is_queue_mode(&group));
    Detail {
        message: Message::of(row),
        offset: row.offset,
        retry_count: given_up.map_or(retries.unwrap_or(0), |given_up| given_up.retries),
        queue_config: Options(&detail.queue.options),
        consumer_groups: row.groups.iter().map(Group::of).collect(),
        group: match given_up {
            Some(given_up) => Some(&given_up.group),
            None => holder.or(row.groups.first()).map(|group| &*group.name),
        },
        consumed: !row.groups.is_empty() && row.groups.iter().all(|group| group.consumed),
        is_encrypted: row.encrypted,
        error_message: given_up.map(|given_up| &*given_up.error),
        mode: Mode::of(has_queue_mode, has_groups),
    }
}

/// The answer of `/dlq`.
#[derive(Serialize)]
pub(super) struct DeadLetters<'a> {
    messages: Vec<Letter<'a>>,
    pagination: Pagination,
    total: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Letter<'a> {
    id: Shown<i64>,
    transaction_id: &'a str,
    partition_id: Shown<i64>,
    queue: &'a str,
    partition: &'a str,
    consumer_group: &'a str,
    error_message: &'a str,
    retry_count: i32,
    data: OwnPayload,
    payload_available: bool,
    producer_sub: Option<Cow<'a, str>>,
    created_at: Option<Time>,
    failed_at: Time,
}

/// The payload of a record that was just unpacked.
struct OwnPayload(Option<Record>);

impl Serialize for OwnPayload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(record) if !record.encrypted => Payload(&record.payload).serialize(serializer),
            Some(_) | None => serializer.serialize_unit(),
        }
    }
}

impl<'a> Letter<'a> {
    fn of(letter: &'a DeadLetter) -> Letter<'a> {
        let record = records(&letter.record).next();
        let producer = record.as_ref().and_then(|record| record.producer.as_ref());
        Letter {
            id: Shown(letter.id),
            transaction_id: &letter.transaction_id,
            partition_id: Shown(letter.partition_id),
            queue: &letter.queue,
            partition: &letter.partition,
            consumer_group: &letter.group,
            error_message: &letter.error,
            retry_count: letter.retries,
            producer_sub: producer
                .map(|producer| Cow::Owned(String::from_utf8_lossy(producer).into_owned())),
            created_at: record.as_ref().map(|record| Time(record.created_us)),
            failed_at: Time(letter.failed_us),
            payload_available: record.as_ref().is_some_and(|record| !record.encrypted),
            data: OwnPayload(record),
        }
    }
}

pub(super) fn dead_letters(page: &DeadLetterPage) -> DeadLetters<'_> {
    DeadLetters {
        messages: page.rows.iter().map(Letter::of).collect(),
        pagination: Pagination {
            limit: page.limit,
            offset: page.offset,
        },
        total: page.total,
    }
}
