//! What the broker answers, before it becomes JSON.

use std::sync::Arc;

use bytes::Bytes;

use super::{Command, EffectiveOptions, Incarnation, Moment, QueueRef, Refusal, TenantId, durable};

/// The answer to one command.
#[derive(Debug)]
pub enum Reply {
    /// Messages were stored.
    Pushed {
        /// How many.
        count: u32,
    },
    /// Messages were taken, or none were there.
    Popped(Popped),
    /// One outcome per ack, in request order.
    Acked(Vec<AckOutcome>),
    /// The queue is declared.
    Configured {
        /// The options in force.
        effective: EffectiveOptions,
        /// Whether the declaration outlives the process.
        durable: bool,
    },
    /// The queue is empty.
    Reset {
        /// Messages that were held.
        dropped: u64,
    },
    /// The queue is gone.
    Deleted {
        /// Whether anything was there.
        deleted: bool,
        /// Whether a declaration was there.
        declared: bool,
    },
    /// The operator's switch is set.
    Switched {
        /// Whether the class is enabled.
        enabled: bool,
        /// Whether that is stored, and holds for all brokers on the database.
        mirrored: bool,
    },
    /// One step of a listing.
    Queues(QueuePage),
    /// How much a queue holds.
    Depth(Box<Depth>),
    /// All legs of an exchange.
    Exchanged(Box<Exchanged<'static>>),
    /// The answer of the durable class.
    Durable(Box<durable::Reply>),
    /// An answer that is JSON already.
    Written {
        /// Its status.
        status: u16,
        /// Its body.
        body: Bytes,
    },
    /// The command was refused and nothing changed.
    Refused(Refusal),
    /// A waiting pop was sent to cores that had nothing after all: it waits on. Never reaches a client.
    Missed,
    /// A waiting pop whose client has closed its half had nothing to get. Never reaches a client.
    Gone,
}

/// The answers to an exchange, leg by leg.
#[derive(Debug)]
pub struct Exchanged<'a> {
    /// Each ack, which its answer repeats, and its answer.
    pub acks: Vec<(Command<'a>, Reply)>,
    /// The answers to the pushes.
    pub pushes: Vec<Reply>,
    /// The answer to the pop, if one was asked for.
    pub pop: Option<Reply>,
}

/// Messages on their way to a client. If they cannot be delivered they are given back.
#[derive(Debug)]
pub struct Popped {
    /// The queue's name.
    pub queue: Arc<str>,
    /// Whose queue it is.
    pub tenant: TenantId,
    /// The queue's life: a give-back into a later one of the same name is void.
    pub generation: u64,
    /// The group that took them, as a position in the queue's list of groups.
    pub group: u32,
    /// The process that issued the ids.
    pub incarnation: Incarnation,
    /// Whether they were settled when they were taken.
    pub auto_ack: bool,
    /// The messages, in delivery order.
    pub messages: Vec<Delivered>,
}

impl Popped {
    /// The life of the queue that they were taken from.
    pub fn life(&self) -> QueueRef {
        QueueRef {
            tenant: self.tenant,
            name: Arc::clone(&self.queue),
            generation: self.generation,
        }
    }
}

/// One delivered message.
#[derive(Debug)]
pub struct Delivered {
    /// The partition's name.
    pub partition: Arc<str>,
    /// Its number in the partition.
    pub sequence: u64,
    /// Which delivery to this group it is, from 1.
    pub attempts: u32,
    /// Number of the lease: a give-back or expiry of an older one is void.
    pub delivery: u64,
    /// When it was pushed.
    pub pushed: Moment,
    /// The exact bytes that were pushed.
    pub payload: Bytes,
}

/// What an ack did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// Settled, or dropped because the retry limit or the TTL was reached.
    Acked,
    /// Back in line.
    Redelivered,
    /// The id is of an earlier process.
    Stale,
    /// No live lease of this group.
    Unknown,
}

/// How a queue came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// By configure; kept until deleted.
    Declared,
    /// By use; collected when idle.
    Implicit,
}

/// Messages dropped since the queue was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// To make room.
    pub bounds: u64,
    /// Past their TTL.
    pub ttl: u64,
    /// Past their retry limit, once per group.
    pub retry: u64,
}

/// A step of a listing.
#[derive(Debug)]
pub struct QueuePage {
    /// Rows by ascending name.
    pub rows: Vec<QueueRow>,
    /// Whether names follow the last row.
    pub more: bool,
    /// Payload bytes held by the whole broker.
    pub broker_bytes: u64,
}

/// One queue in a listing.
#[derive(Debug)]
pub struct QueueRow {
    /// The queue's name.
    pub queue: Arc<str>,
    /// How it came to be.
    pub tier: Tier,
    /// Messages held, leased and half-consumed ones included.
    pub depth: u64,
    /// Payload bytes held.
    pub bytes: u64,
    /// Live partitions.
    pub partitions: u64,
    /// Known groups.
    pub groups: u64,
    /// Drop counters.
    pub drops: DropCounts,
    /// Options in force.
    pub options: EffectiveOptions,
}

/// How much a queue holds.
#[derive(Debug)]
pub struct Depth {
    /// How the queue came to be.
    pub tier: Tier,
    /// Sum over partitions.
    pub pending: u64,
    /// Partitions with pending messages.
    pub partitions_pending: u64,
    /// Payload bytes held.
    pub bytes: u64,
    /// Drop counters.
    pub drops: DropCounts,
    /// Pops parked now.
    pub waiting: u64,
    /// By ascending name.
    pub partitions: Vec<PartitionDepth>,
    /// By ascending name.
    pub groups: Vec<GroupDepth>,
}

/// One partition's share.
#[derive(Debug, PartialEq, Eq)]
pub struct PartitionDepth {
    /// Its name.
    pub partition: Arc<str>,
    /// Messages that the asked group, or the worst one, still has to take.
    pub pending: u64,
    /// Payload bytes held.
    pub bytes: u64,
}

/// One group's backlog.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupDepth {
    /// Its name.
    pub group: Arc<str>,
    /// Messages it still has to take; leased ones are not counted.
    pub pending: u64,
    /// Messages that were dropped before it could take them.
    pub skipped: u64,
}
