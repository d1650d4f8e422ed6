//! The answers to questions, before they become JSON.

use bytes::Bytes;

use super::{
    ChangedPartition, Counts, DeadLetter, GroupRow, GroupSummary, LagRow, MessageRow, OverviewForm,
    PartitionDepth, PartitionRow, PartitionSummary, QueueFace, QueueForm, QueueSummary,
};
use crate::model::durable::{FoundTraces, Record, Unopened};

/// The answer to a question.
#[derive(Debug)]
pub enum ReadReply {
    /// Queues with their numbers.
    Queues(QueueListing),
    /// One queue.
    Queue(Box<QueueDetail>),
    /// There is no such queue.
    NoQueue,
    /// What is left to do in a queue.
    Depth(QueueDepth),
    /// Everything in sums.
    Overview(Box<Overview>),
    /// Namespaces, each with its queues, partitions and messages.
    Namespaces(Vec<(Box<str>, i64, i64, Counts)>),
    /// Tasks, the same.
    Tasks(Vec<(Box<str>, i64, i64, Counts)>),
    /// Partitions by what is left to do.
    Partitions(PartitionRanks),
    /// Messages.
    Messages(MessagePage),
    /// One message.
    Message(Box<MessageDetail>),
    /// There is no such message.
    NoMessage,
    /// Dead letters.
    DeadLetters(DeadLetterPage),
    /// Consumer groups.
    Groups(Vec<GroupSummary>),
    /// Where groups are behind.
    Lagging(Vec<LagRow>),
    /// The places of a group, by queue.
    Group(Vec<GroupRow>),
    /// Stored messages by their offsets.
    Fetched(FetchAnswer),
    /// Partitions that were written to.
    Changed(ChangedAnswer),
    /// What clients have noted of messages.
    Traces(FoundTraces),
    /// There is a database that answers.
    Refreshed,
}

/// Queues with their numbers.
#[derive(Debug)]
pub struct QueueListing {
    /// For which route.
    pub form: QueueForm,
    /// By name.
    pub rows: Vec<QueueSummary>,
    /// What was asked for.
    pub limit: u32,
    /// What was asked for.
    pub offset: u32,
    /// Whether more follow.
    pub more: bool,
}

/// One queue.
#[derive(Debug)]
pub struct QueueDetail {
    /// For which route.
    pub form: QueueForm,
    /// The queue in sums.
    pub summary: QueueSummary,
    /// Its partitions by name, or some of them.
    pub partitions: Vec<PartitionSummary>,
    /// Whether more follow.
    pub more: bool,
}

/// What is left to do in a queue.
#[derive(Debug)]
pub struct QueueDepth {
    /// The queue.
    pub queue: Box<str>,
    /// The group that was asked for.
    pub group: Option<Box<str>>,
    /// In all partitions.
    pub counts: Counts,
    /// Partitions with pending messages.
    pub partitions_pending: i64,
    /// Partitions of which something is pending and nothing leased.
    pub partitions_ready: i64,
    /// By name, or some of them.
    pub partitions: Vec<PartitionDepth>,
    /// Whether more follow.
    pub more: bool,
}

/// Everything in sums.
#[derive(Debug)]
pub struct Overview {
    /// For which route.
    pub form: OverviewForm,
    /// The database's time, in microseconds since 1970.
    pub now_us: i64,
    /// Each queue in sums.
    pub queues: Vec<QueueSummary>,
}

/// Partitions by what is left to do.
#[derive(Debug)]
pub struct PartitionRanks {
    /// Most first.
    pub rows: Vec<PartitionRow>,
}

/// Messages.
#[derive(Debug)]
pub struct MessagePage {
    /// Newest first.
    pub rows: Vec<MessageRow>,
    /// Whether one of the queues is consumed without a group.
    pub has_queue_mode: bool,
    /// Whether one of the queues has groups.
    pub has_groups: bool,
}

/// One message.
#[derive(Debug)]
pub struct MessageDetail {
    /// The message.
    pub row: MessageRow,
    /// Its queue.
    pub queue: QueueFace,
    /// That it was given up, if it was.
    pub given_up: Option<GivenUp>,
}

/// That a message was given up.
#[derive(Debug)]
pub struct GivenUp {
    /// The group that gave up.
    pub group: Box<str>,
    /// Why.
    pub error: Box<str>,
    /// Failures that were charged before.
    pub retries: i32,
}

/// Dead letters.
#[derive(Debug)]
pub struct DeadLetterPage {
    /// Newest first.
    pub rows: Vec<DeadLetter>,
    /// All that match.
    pub total: i64,
    /// What was asked for.
    pub limit: u32,
    /// What was asked for.
    pub offset: u32,
}

/// Stored messages by their offsets.
#[derive(Debug)]
pub struct FetchAnswer {
    /// In the order of the request.
    pub entries: Vec<Fetched>,
}

impl FetchAnswer {
    /// Bytes of payload; one for an empty one.
    pub fn payload_bytes(&self) -> u64 {
        let records = self.entries.iter().flat_map(|entry| &entry.records);
        records
            .map(|record| (record.payload.len() as u64).max(1))
            .sum()
    }

    /// Whether something is wrong with an entry.
    pub fn has_fault(&self) -> bool {
        self.entries.iter().any(|entry| entry.fault.is_some())
    }
}

/// What was read of a partition.
#[derive(Debug)]
pub struct Fetched {
    /// The queue.
    pub queue: Box<str>,
    /// The partition.
    pub partition: Box<str>,
    /// In the order of their offsets.
    pub records: Vec<FetchedRecord>,
    /// The offset of the next message.
    pub next_offset: i64,
    /// The oldest offset that is kept.
    pub first_offset: i64,
    /// Whether what follows cannot be read.
    pub is_cut: bool,
    /// What is wrong.
    pub fault: Option<FetchFault>,
}

impl Fetched {
    /// Adds the next message. Behind one that cannot be read nothing follows; who reads from there on
    /// is told why.
    pub fn add(&mut self, offset: i64, record: Result<Record, Unopened>) {
        if self.fault.is_some() || self.is_cut {
            return;
        }
        match record {
            Ok(record) => self.records.push(FetchedRecord {
                offset,
                transaction_id: record.transaction_id,
                payload: record.payload,
                created_us: record.created_us,
            }),
            Err(why) if self.records.is_empty() => self.fault = Some(FetchFault::Unopened(why)),
            Err(_) => self.is_cut = true,
        }
    }
}

/// A message at its offset.
#[derive(Debug)]
pub struct FetchedRecord {
    /// Its offset.
    pub offset: i64,
    /// The client's id, UTF-8.
    pub transaction_id: Bytes,
    /// The payload as JSON text.
    pub payload: Bytes,
    /// When it was accepted, in microseconds since 1970.
    pub created_us: i64,
}

/// What is wrong with an entry of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFault {
    /// There is no such queue or partition.
    Unknown,
    /// The offset is not one that is kept or comes next.
    OutOfRange,
    /// The place in the listing is none that this broker has given out.
    BadCursor,
    /// The first message is encrypted and cannot be read.
    Unopened(Unopened),
}

/// Partitions that were written to.
#[derive(Debug)]
pub struct ChangedAnswer {
    /// What was accepted before this time, in microseconds since 1970, is in the answer.
    pub safe_us: i64,
    /// In the order of the request.
    pub entries: Vec<ChangedPage>,
}

/// Partitions of one queue that were written to.
#[derive(Debug)]
pub struct ChangedPage {
    /// The queue.
    pub queue: Box<str>,
    /// By name.
    pub partitions: Vec<ChangedPartition>,
    /// Whether more follow; the name behind which.
    pub next: Option<Box<str>>,
    /// What is wrong.
    pub fault: Option<FetchFault>,
}
