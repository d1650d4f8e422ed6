//! What is told of one queue, partition, group or message.

use bytes::Bytes;
use uuid::Uuid;

use crate::model::durable::Unopened;

use crate::model::durable::QueueOptions;

/// How many messages stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Stored now.
    pub stored: i64,
    /// Of those: not passed by the slowest group; all of them where there is no group. Messages under a
    /// lease are among them.
    pub pending: i64,
    /// Under a live lease; of several groups the one that holds most of a partition counts.
    pub processing: i64,
    /// Messages that are first in line for some group and have failed there before.
    pub failed: i64,
    /// Given up and kept.
    pub dead_letters: i64,
}

impl Counts {
    /// Stored and passed by all groups.
    pub fn completed(&self) -> i64 {
        self.stored - self.pending
    }

    /// Pending and not leased.
    pub fn ready(&self) -> i64 {
        (self.pending - self.processing).max(0)
    }

    /// Takes more messages in.
    pub fn add(&mut self, other: &Counts) {
        self.stored += other.stored;
        self.pending += other.pending;
        self.processing += other.processing;
        self.failed += other.failed;
        self.dead_letters += other.dead_letters;
    }
}

/// A queue without its numbers.
#[derive(Clone, Debug)]
pub struct QueueFace {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: Box<str>,
    /// Its namespace; empty: none.
    pub namespace: Box<str>,
    /// Its task; empty: none.
    pub task: Box<str>,
    /// Its options.
    pub options: QueueOptions,
    /// When it came to be, in microseconds since 1970.
    pub created_us: i64,
}

/// A queue in sums.
#[derive(Clone, Debug)]
pub struct QueueSummary {
    /// The queue.
    pub face: QueueFace,
    /// Its partitions.
    pub partitions: i64,
    /// Its messages.
    pub counts: Counts,
    /// Stored rows, as the newest row of each partition lets expect.
    pub segments: i64,
    /// Stored bytes, as the newest row of each partition lets expect.
    pub bytes: i64,
    /// Live leases.
    pub leases: i64,
    /// Partitions in which the slowest group is behind.
    pub lags: Lags,
}

/// How far groups are behind, over partitions in which they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// How many partitions.
    pub partitions: i64,
    /// Ages of the oldest messages that are not passed, in microseconds: their sum, the least and the
    /// greatest.
    pub time_us: (i64, i64, i64),
    /// Messages that are not passed: the least and the greatest of a partition.
    pub messages: (i64, i64),
}

/// A partition with its numbers.
#[derive(Clone, Debug)]
pub struct PartitionSummary {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: Box<str>,
    /// When it came to be, in microseconds since 1970.
    pub created_us: i64,
    /// Its messages.
    pub counts: Counts,
    /// When its oldest stored message was accepted, in microseconds since 1970.
    pub oldest_us: Option<i64>,
    /// When its newest one was.
    pub newest_us: Option<i64>,
}

/// A partition in an order of what is left to do.
#[derive(Clone, Debug)]
pub struct PartitionRow {
    /// Its queue.
    pub queue: Box<str>,
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: Box<str>,
    /// Messages that the slowest group has not passed.
    pub pending: i64,
    /// Messages under a live lease.
    pub processing: i64,
    /// Age of the oldest of the pending ones, in microseconds.
    pub lag_us: Option<i64>,
}

/// What is left to do in a partition.
#[derive(Clone, Debug)]
pub struct PartitionDepth {
    /// Its name.
    pub name: Box<str>,
    /// Messages that are not passed.
    pub pending: i64,
    /// Of those under a live lease.
    pub processing: i64,
}

/// A group of a queue in sums.
#[derive(Clone, Debug)]
pub struct GroupSummary {
    /// Its name.
    pub name: Box<str>,
    /// The queue, which may not be there (yet).
    pub queue: Box<str>,
    /// Live leases.
    pub members: i64,
    /// Partitions of the queue in which it has a stored place.
    pub cursors: i64,
    /// Partitions in which it is behind.
    pub partitions_behind: i64,
    /// Messages that it has not passed.
    pub lag: i64,
    /// Age of the oldest of them, in microseconds.
    pub lag_us: i64,
    /// `all`, `new` or `from`.
    pub mode: Box<str>,
    /// The time of `from`, in microseconds since 1970.
    pub from_us: Option<i64>,
    /// When it popped first, in microseconds since 1970.
    pub created_us: i64,
}

/// A group that is behind in a partition.
#[derive(Clone, Debug)]
pub struct LagRow {
    /// The group.
    pub group: Box<str>,
    /// The queue.
    pub queue: Box<str>,
    /// The partition.
    pub partition: Box<str>,
    /// Its id.
    pub partition_id: i64,
    /// Who holds messages of it.
    pub lease_id: Option<Uuid>,
    /// Messages that it has not passed.
    pub lag: i64,
    /// Age of the oldest of them, in microseconds.
    pub lag_us: i64,
    /// When the oldest of them was accepted, in microseconds since 1970.
    pub oldest_us: i64,
    /// When it settled something last, in microseconds since 1970.
    pub settled_us: Option<i64>,
}

/// The place of a group in a partition.
#[derive(Clone, Debug)]
pub struct GroupPlace {
    /// The partition.
    pub partition: Box<str>,
    /// Who holds messages of it.
    pub lease_id: Option<Uuid>,
    /// When it settled something last, in microseconds since 1970.
    pub settled_us: Option<i64>,
    /// How many messages it settled.
    pub settled_count: i64,
    /// Messages that it has not passed.
    pub lag: i64,
    /// Age of the oldest of them, in microseconds.
    pub lag_us: Option<i64>,
}

/// A group's place in a queue, or that it is known there.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// The queue.
    pub queue: Box<str>,
    /// The place; `None`: no place is stored.
    pub place: Option<GroupPlace>,
}

/// How a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageStatus {
    /// Some group has still to take it, or there is no group.
    Pending,
    /// A group holds it under a live lease.
    Processing,
    /// All groups have passed it.
    Completed,
    /// A group has given it up.
    DeadLetter,
}

/// How a message stands for a group of its queue.
#[derive(Clone, Debug)]
pub struct MessageGroup {
    /// The group.
    pub name: Box<str>,
    /// Whether it has passed the message.
    pub consumed: bool,
    /// Until when it holds the message, in microseconds since 1970; `None`: it does not.
    pub lease_until_us: Option<i64>,
    /// Failures of the message there, if it is the first in line.
    pub retries: i32,
    /// When it settled something of the partition last, in microseconds since 1970.
    pub settled_us: Option<i64>,
}

/// A stored message.
#[derive(Clone, Debug)]
pub struct MessageRow {
    /// Its id.
    pub message_id: Uuid,
    /// The client's id.
    pub transaction_id: Box<str>,
    /// Its hash, as it is stored beside the message.
    pub transaction_hash: u64,
    /// Its partition's id.
    pub partition_id: i64,
    /// Its queue.
    pub queue: Box<str>,
    /// Its partition.
    pub partition: Box<str>,
    /// The queue's namespace; empty: none.
    pub namespace: Box<str>,
    /// The queue's task; empty: none.
    pub task: Box<str>,
    /// The queue's `priority`.
    pub priority: i32,
    /// How it stands.
    pub status: MessageStatus,
    /// The offset of the first message of its segment.
    pub base_offset: i64,
    /// Its own offset.
    pub offset: i64,
    /// How it stands for each group.
    pub groups: Vec<MessageGroup>,
    /// The trace it belongs to.
    pub trace_id: Option<Uuid>,
    /// Who pushed it.
    pub producer: Option<Box<str>>,
    /// When it was accepted, in microseconds since 1970.
    pub created_us: i64,
    /// Whether the payload is encrypted where it is stored.
    pub encrypted: bool,
    /// The payload as JSON text.
    pub payload: Result<Bytes, Unopened>,
}

/// A dead letter.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its id.
    pub id: i64,
    /// The partition it came from.
    pub partition_id: i64,
    /// Its queue.
    pub queue: Box<str>,
    /// The partition's name.
    pub partition: Box<str>,
    /// The group that gave up.
    pub group: Box<str>,
    /// Why.
    pub error: Box<str>,
    /// Failures that were charged before.
    pub retries: i32,
    /// When it was given up, in microseconds since 1970.
    pub failed_us: i64,
    /// The client's id.
    pub transaction_id: Box<str>,
    /// The offset of the message in its partition.
    pub offset: i64,
    /// The message as a segment of one; it stays encrypted where it cannot be decrypted.
    pub record: Bytes,
}

/// A partition that was written to.
#[derive(Clone, Debug)]
pub struct ChangedPartition {
    /// Its name.
    pub name: Box<str>,
    /// Its id.
    pub id: i64,
    /// The offset of the next message.
    pub next_offset: i64,
    /// The oldest offset that is kept.
    pub first_offset: i64,
    /// When it was written to last, in microseconds since 1970.
    pub written_us: i64,
}
