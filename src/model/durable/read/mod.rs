//! Questions about what is stored. They change nothing, take no lease and move no cursor, and are
//! answered on a session of their own, so that none stands in the way of a push. All numbers are of
//! the moment of the answer.

mod answer;
mod rows;

use std::time::Instant;

pub use answer::{
    ChangedAnswer, ChangedPage, DeadLetterPage, FetchAnswer, FetchFault, Fetched, FetchedRecord,
    GivenUp, MessageDetail, MessagePage, Overview, PartitionRanks, QueueDepth, QueueDetail,
    QueueListing, ReadReply,
};
pub use rows::{
    ChangedPartition, Counts, DeadLetter, GroupPlace, GroupRow, GroupSummary, LagRow, Lags,
    MessageGroup, MessageRow, MessageStatus, PartitionDepth, PartitionRow, PartitionSummary,
    QueueFace, QueueSummary,
};

use crate::model::durable::FindTraces;
use crate::model::{ClientRef, TenantId};

/// Something that a client wants to know.
#[derive(Clone, Debug)]
pub struct Question {
    /// Who is answered.
    pub client: ClientRef,
    /// Who asks.
    pub tenant: TenantId,
    /// For what.
    pub read: Read,
    /// Since when.
    pub since: Instant,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Queues with their numbers.
    Queues {
        /// Which.
        filter: QueueFilter,
        /// How many.
        page: Page,
        /// For which of the routes that list queues.
        form: QueueForm,
    },
    /// One queue with its partitions.
    Queue {
        /// The queue.
        queue: Box<str>,
        /// Which partitions.
        page: Page,
        /// For which of the routes that show a queue.
        form: QueueForm,
    },
    /// What is left to do in a queue, partition by partition.
    Depth {
        /// The queue.
        queue: Box<str>,
        /// For which group; `None`: for the slowest.
        group: Option<Box<str>>,
        /// Which partitions.
        page: Page,
    },
    /// Everything in sums.
    Overview(OverviewForm),
    /// The namespaces, each in sums.
    Namespaces,
    /// The tasks, each in sums.
    Tasks,
    /// The partitions with the most to do.
    Partitions {
        /// Of this queue only.
        queue: Option<Box<str>>,
        /// How many at most.
        limit: u32,
    },
    /// Messages, newest first.
    Messages(MessageFilter),
    /// One message.
    Message {
        /// Its partition; `None`: what was sent is no number, so there is none.
        partition_id: Option<i64>,
        /// The client's id.
        transaction_id: Box<str>,
    },
    /// Dead letters, newest first.
    DeadLetters(DeadLetterFilter),
    /// The consumer groups of all queues.
    Groups(Page),
    /// Where groups are behind.
    Lagging {
        /// Only where the oldest message is older than that.
        min_lag_us: i64,
        /// How many.
        page: Page,
    },
    /// A consumer group, partition by partition.
    Group {
        /// The group.
        group: Box<str>,
        /// Which partitions.
        page: Page,
    },
    /// Stored messages by their offsets.
    Fetch(Fetch),
    /// Partitions that were written to.
    Changed(Vec<ChangedEntry>),
    /// What clients have noted of messages.
    Traces(FindTraces),
    /// Whether there is a database that answers.
    Refresh,
}

/// What is listed of something long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Rows at most.
    pub limit: u32,
    /// Rows that are left out first.
    pub offset: u32,
    /// Only names behind this one.
    pub after: Option<Box<str>>,
}

/// Which queues are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFilter {
    /// Only those of exactly this namespace.
    pub namespace: Option<Box<str>>,
    /// Only those of exactly this task.
    pub task: Option<Box<str>>,
}

/// Two routes show queues, each in a form of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueForm {
    /// `/resources/queues`
    Resource,
    /// `/status/queues`
    Status,
}

/// Several routes show sums, each in a form of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverviewForm {
    /// `/resources/overview`
    Overview,
    /// `/status`
    Status,
    /// `/status/analytics`
    Analytics,
    /// `/analytics/system-metrics`
    System,
    /// `/analytics/worker-metrics`
    Workers,
}

/// Which messages are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// Only those of this queue.
    pub queue: Option<Box<str>>,
    /// Only those of partitions of this name.
    pub partition: Option<Box<str>>,
    /// Only those of queues of this namespace.
    pub namespace: Option<Box<str>>,
    /// Only those of queues of this task.
    pub task: Option<Box<str>>,
    /// Only those that stand so.
    pub status: Option<MessageStatus>,
    /// Only those that were accepted at or after this time, in microseconds since 1970; `None`: in
    /// the last hour.
    pub from_us: Option<i64>,
    /// Only those that were accepted before this time.
    pub to_us: Option<i64>,
    /// Rows at most.
    pub limit: u32,
    /// Rows that are left out first.
    pub offset: u32,
}

/// Which dead letters are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only those of this queue.
    pub queue: Option<Box<str>>,
    /// Only those that this group has given up.
    pub group: Option<Box<str>>,
    /// Only those of partitions of this name.
    pub partition: Option<Box<str>>,
    /// Only those that were given up at or after this time, in microseconds since 1970.
    pub from_us: Option<i64>,
    /// Only those that were given up before this time.
    pub to_us: Option<i64>,
    /// Rows at most.
    pub limit: u32,
    /// Rows that are left out first.
    pub offset: u32,
}

/// A read of stored messages by their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// What is read, in the order of the answer.
    pub entries: Vec<FetchEntry>,
    /// How long it may wait for messages that are not there yet, in milliseconds.
    pub wait_ms: u64,
    /// Bytes of payload that end the wait; 0: there is none.
    pub bytes_min: u64,
    /// Stored bytes at most in the whole answer; one segment is always read.
    pub bytes_max: u64,
}

/// One partition of a read by offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchEntry {
    /// The queue.
    pub queue: Box<str>,
    /// The partition.
    pub partition: Box<str>,
    /// The first offset.
    pub offset: i64,
    /// Stored bytes at most; one segment is always read.
    pub bytes_max: u64,
}

/// A question for the partitions of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedEntry {
    /// The queue.
    pub queue: Box<str>,
    /// Only those that were written to at or after this time, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// What comes behind this name; `None` within: the place that was sent is none.
    pub after: Option<Result<Box<str>, BadCursor>>,
    /// Partitions at most.
    pub limit: u32,
}

/// A place in a listing that this broker has not given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;
