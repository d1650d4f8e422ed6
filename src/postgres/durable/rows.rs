//! What the durable class reads and writes, as rows. The statements and why they look as they do stand
//! in `sql/`.

use bytes::Bytes;
use uuid::Uuid;

use crate::model::TenantId;
use crate::model::durable::QueueOptions;

/// One batch: all of it is stored or nothing, and only if every row it was judged on is still so.
#[derive(Debug, Default)]
pub struct Batch {
    /// Queues that come to be.
    pub queues: Vec<QueueRow>,
    /// Partitions that come to be.
    pub partitions: Vec<NewPartition>,
    /// Where each partition that is appended to must end; one that comes to be needs none.
    pub tails: Vec<Tail>,
    /// What is appended, by ascending offset within a partition.
    pub segments: Vec<NewSegment>,
    /// Cursors that move, are leased or released.
    pub cursors: Vec<CursorWrite>,
    /// What is given up.
    pub dead_letters: Vec<NewDeadLetter>,
    /// Dead letters that are pushed once more: they must be there, and go.
    pub replayed_letters: Vec<i64>,
    /// The spooled pushes that it stores, if it does.
    pub spooled: Option<SpoolStep>,
}

/// How far a spool is stored from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolStep {
    /// The spool.
    pub identity: Uuid,
    /// The number of the first entry that is not stored.
    pub from: i64,
    /// The same when this is stored.
    pub to: i64,
}

impl Batch {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
            && self.partitions.is_empty()
            && self.segments.is_empty()
            && self.cursors.is_empty()
            && self.dead_letters.is_empty()
            && self.replayed_letters.is_empty()
            && self.spooled.is_none()
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is stored.
    Stored,
    /// Another broker was faster: something is not as it was judged on. Nothing is stored.
    Stale,
}

/// A queue.
#[derive(Clone, Debug)]
pub struct QueueRow {
    /// Its id, from [`crate::postgres::Session::reserve_ids`].
    pub id: i64,
    /// Whose it is.
    pub tenant: TenantId,
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

/// A partition that comes to be.
#[derive(Clone, Debug)]
pub struct NewPartition {
    /// Its id, from [`crate::postgres::Session::reserve_ids`].
    pub id: i64,
    /// Its queue.
    pub queue_id: i64,
    /// Its name.
    pub name: Box<str>,
    /// When, in microseconds since 1970.
    pub created_us: i64,
}

/// Where a partition ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The partition.
    pub partition_id: i64,
    /// The offset of the next message.
    pub next_offset: i64,
}

/// Messages that are appended.
#[derive(Clone, Debug)]
pub struct NewSegment {
    /// To which partition.
    pub partition_id: i64,
    /// The offset of the first.
    pub base_offset: i64,
    /// How many.
    pub count: i32,
    /// When the last of them was accepted, in microseconds since 1970.
    pub created_us: i64,
    /// Eight bytes for each transaction id, as `model::durable` packs nothing of.
    pub hashes: Bytes,
    /// The packed messages.
    pub payload: Bytes,
}

/// A group's place in a partition, as it is to be from now on.
#[derive(Clone, Debug)]
pub struct CursorWrite {
    /// The group.
    pub group_id: i64,
    /// The partition.
    pub partition_id: i64,
    /// The version it was judged on; 0: there was no row.
    pub version: i64,
    /// What it becomes.
    pub state: CursorState,
}

/// A group's place in a partition. What is not stored is [`CursorState::default`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorState {
    /// The first offset that is not settled.
    pub committed: i64,
    /// Behind the last offset of the lease, or of the last lease.
    pub batch_end: i64,
    /// Who holds `committed..batch_end`.
    pub lease_id: Option<Uuid>,
    /// Until when, in microseconds since 1970.
    pub lease_until_us: i64,
    /// Failures charged to the message at `committed`.
    pub retries: i32,
    /// Deliveries since `committed` moved last.
    pub attempts: i32,
    /// Nothing is delivered before this time (`retryDelay`), in microseconds since 1970; 0: no wait.
    pub held_until_us: i64,
    /// When something was settled last, in microseconds since 1970; 0: never.
    pub settled_us: i64,
    /// How many messages were settled.
    pub settled_count: i64,
}

/// A message that is given up.
#[derive(Clone, Debug)]
pub struct NewDeadLetter {
    /// Its queue.
    pub queue_id: i64,
    /// Its partition.
    pub partition_id: i64,
    /// Who gave it up.
    pub group: Box<str>,
    /// Its offset.
    pub offset: i64,
    /// Why.
    pub error: Box<str>,
    /// Failures that were charged before.
    pub retries: i32,
    /// When, in microseconds since 1970.
    pub failed_us: i64,
    /// The client's id.
    pub transaction_id: Box<str>,
    /// The message as a segment of one.
    pub record: Bytes,
}

/// Everything that is needed to judge requests on a queue.
#[derive(Debug)]
pub struct QueueLoad {
    /// The queue; `None`: there is none of that name, but groups may have popped from it already.
    pub queue: Option<QueueRow>,
    /// Its partitions.
    pub partitions: Vec<PartitionRow>,
    /// The groups that have popped from it.
    pub groups: Vec<GroupRow>,
    /// Their places, where one is stored.
    pub cursors: Vec<CursorRow>,
}

/// A partition.
#[derive(Clone, Debug)]
pub struct PartitionRow {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: Box<str>,
    /// When it came to be, in microseconds since 1970.
    pub created_us: i64,
    /// The oldest offset that is kept; `next_offset` where none is.
    pub first_offset: i64,
    /// The offset of the next message.
    pub next_offset: i64,
    /// When the last message was accepted, in microseconds since 1970; 0: there was none.
    pub written_us: i64,
}

/// A group of a queue.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: Box<str>,
    /// `all`, `new`, or `from`.
    pub mode: Box<str>,
    /// Where partitions that are born later start is always their beginning; this is when the group
    /// came to be, in microseconds since 1970.
    pub created_us: i64,
}

/// A stored place of a group in a partition.
#[derive(Clone, Copy, Debug)]
pub struct CursorRow {
    /// The group.
    pub group_id: i64,
    /// The partition.
    pub partition_id: i64,
    /// Counts its changes, from 1.
    pub version: i64,
    /// The place.
    pub state: CursorState,
}

/// Where a group that is new to a queue starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStart {
    /// At the oldest message.
    All,
    /// Behind the newest.
    New,
    /// At the first message accepted at or after this time, in microseconds since 1970.
    At(i64),
}

/// A run of offsets to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The partition.
    pub partition_id: i64,
    /// The first offset.
    pub from: i64,
    /// Behind the last.
    pub to: i64,
}

/// A stored segment.
#[derive(Clone, Debug)]
pub struct SegmentRow {
    /// The partition.
    pub partition_id: i64,
    /// The offset of its first message.
    pub base_offset: i64,
    /// How many messages.
    pub count: i32,
    /// The packed messages.
    pub payload: Bytes,
}

/// The transaction ids of a stored segment.
#[derive(Clone, Debug)]
pub struct HashRow {
    /// The partition.
    pub partition_id: i64,
    /// The offset of its first message.
    pub base_offset: i64,
    /// When the last of them was accepted, in microseconds since 1970.
    pub created_us: i64,
    /// Eight bytes each.
    pub hashes: Bytes,
}
