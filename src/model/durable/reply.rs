//! What the durable class answers, before it becomes JSON.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::{Administered, QueueOptions};

/// The answer to one command.
#[derive(Debug)]
pub enum Reply {
    /// The queue is declared.
    Configured(Box<Configured>),
    /// The queue is gone.
    Deleted {
        /// Whether it was there.
        existed: bool,
    },
    /// One outcome per pushed message, in request order.
    Pushed(Vec<PushOutcome>),
    /// Messages were taken, or none were there.
    Popped(Box<Popped>),
    /// One outcome per ack, in request order.
    Acked(Vec<AckOutcome>),
    /// What became of a lease.
    Extended(Extended),
    /// What became of a step.
    Stepped(Box<StepOutcome>),
    /// The answer to an operator.
    Administered(Box<Administered>),
}

/// A declared queue.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Its id.
    pub queue_id: i64,
    /// Its name.
    pub queue: Box<str>,
    /// Its namespace; empty: none.
    pub namespace: Box<str>,
    /// Its task; empty: none.
    pub task: Box<str>,
    /// The options in force.
    pub options: QueueOptions,
    /// Whether messages should be encrypted and cannot be: the broker has no key.
    pub unencrypted: bool,
}

/// What became of one pushed message.
#[derive(Clone, Debug)]
pub struct PushOutcome {
    /// The queue.
    pub queue: Arc<str>,
    /// Its id, or the id of the one it repeats.
    pub message_id: Uuid,
    /// The transaction id.
    pub transaction_id: Box<str>,
    /// What became of it.
    pub status: PushStatus,
}

/// What became of one pushed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushStatus {
    /// Stored.
    Queued {
        /// Its offset in the partition.
        offset: i64,
    },
    /// It repeats one that is stored.
    Duplicate {
        /// The offset of that one.
        offset: i64,
    },
    /// It will be stored when the database is back.
    Buffered,
    /// It repeats one that will be stored when the database is back.
    BufferedBefore,
}

/// Messages on their way to a client.
#[derive(Debug)]
pub struct Popped {
    /// The queue of the pop; `None`: a discovery.
    pub queue: Option<Arc<str>>,
    /// The group that took them.
    pub group: Arc<str>,
    /// The lease over all of them; `None`: they were settled when they were taken.
    pub lease_id: Option<Uuid>,
    /// What was taken, partition by partition.
    pub claims: Vec<Claim>,
}

/// What was taken from one partition.
#[derive(Debug)]
pub struct Claim {
    /// Its queue.
    pub queue: Arc<str>,
    /// Its name.
    pub partition: Arc<str>,
    /// Its id.
    pub partition_id: i64,
    /// Which delivery to this group it is, from 1.
    pub attempt: u32,
    /// The messages, in the order of their offsets.
    pub pieces: Vec<Piece>,
}

/// A run of messages out of one segment.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The packed messages of the whole segment.
    pub segment: Bytes,
    /// The offset of its first message.
    pub base_offset: i64,
    /// The first offset that is meant.
    pub from: i64,
    /// The first offset that is meant no more.
    pub to: i64,
}

/// What became of one ack.
#[derive(Clone, Debug)]
pub struct AckOutcome {
    /// The message's transaction id.
    pub transaction_id: Box<str>,
    /// Why it was refused; `None`: it holds.
    pub refused: Option<AckRefused>,
    /// Whether the partition's lease ended with it.
    pub lease_released: bool,
    /// Whether the message went to the dead letters.
    pub dead_lettered: bool,
    /// Whether it had been settled before.
    pub noop: bool,
}

/// Why an ack was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckRefused {
    /// The lease is unknown, another's, or over.
    Lease,
    /// A nack of what is settled.
    Committed,
    /// No such message in that partition.
    Unresolved,
    /// The group has not taken the message yet.
    NotTaken,
    /// No such partition, or the group has never taken from it.
    NoConsumer,
}

/// What became of a lease.
#[derive(Clone, Debug)]
pub struct Extended {
    /// The lease as it was sent.
    pub lease_id: Box<str>,
    /// Partitions that are held for longer; 0: there is no such lease.
    pub renewed: u32,
    /// When the first of them ends, in microseconds since 1970.
    pub expires_us: Option<i64>,
}

/// What became of a step.
#[derive(Debug)]
pub struct StepOutcome {
    /// The step's own id.
    pub id: Uuid,
    /// What each operation did, or why nothing was done.
    pub result: Result<Vec<StepResult>, StepRefused>,
}

/// What one operation of a step did.
#[derive(Clone, Debug)]
pub enum StepResult {
    /// A message was stored.
    Pushed {
        /// What became of it; a duplicate repeats an operation of the same step.
        outcome: PushOutcome,
    },
    /// A message was settled.
    Acked {
        /// The message's transaction id.
        transaction_id: Box<str>,
        /// Whether it went to the dead letters.
        dead_lettered: bool,
    },
}

/// Why a step was refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepRefused {
    /// An ack was refused.
    Ack {
        /// The operation.
        index: usize,
        /// Why.
        reason: AckRefused,
        /// The message's transaction id.
        transaction_id: Box<str>,
    },
    /// A lease that it requires is unknown, or over.
    Lease {
        /// The lease as it was sent.
        lease_id: Box<str>,
    },
    /// A message is stored already.
    Duplicate {
        /// The operation.
        index: usize,
        /// The message's transaction id.
        transaction_id: Box<str>,
    },
}
