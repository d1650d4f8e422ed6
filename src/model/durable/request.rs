//! What a client can ask of the durable class, decoded and checked.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::{Administer, OptionChanges};
use crate::model::ClientRef;

/// One request of the durable class.
#[derive(Clone, Debug)]
pub enum Command {
    /// Declare a queue or change its options.
    Configure(Configure),
    /// Remove a queue with everything of it.
    Delete {
        /// The queue.
        queue: Box<str>,
    },
    /// Append messages, each to its own partition.
    Push(Vec<PushItem>),
    /// Take messages for a group.
    Pop(Pop),
    /// Settle delivered messages.
    Ack(Vec<Ack>),
    /// Hold a lease for longer.
    Extend(Extend),
    /// Acks and pushes that happen together or not at all.
    Step(Step),
    /// What a pop has leased could not be delivered: it goes back without a charge. Answered to nobody.
    /// Only the broker asks for it, and no two leases have one id: whoever it is of, it is the right one.
    Release {
        /// The lease over all of it.
        lease_id: Uuid,
    },
    /// The client of a pop that may wait is gone: nobody waits any more. Answered to nobody, and so is
    /// the pop.
    Abandon {
        /// Whose pop it is.
        client: ClientRef,
    },
    /// What an operator asks for.
    Administer(Box<Administer>),
}

impl Command {
    /// Whether it puts messages into partitions.
    pub fn pushes(&self) -> bool {
        let is_push = |operation: &StepOperation| matches!(operation, StepOperation::Push(_));
        match self {
            Command::Push(_) => true,
            Command::Step(step) => step.operations.iter().any(is_push),
            Command::Administer(administer) => matches!(
                **administer,
                Administer::Replay(_) | Administer::ReplayLetters(_)
            ),
            _ => false,
        }
    }
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Configure {
    /// The queue.
    pub queue: Box<str>,
    /// Whether options that are not named go back to their defaults (`mode: "replace"`).
    pub replace: bool,
    /// What is to change.
    pub changes: OptionChanges,
}

/// One message to be stored.
#[derive(Clone, Debug)]
pub struct PushItem {
    /// Target queue; made if it is not there.
    pub queue: Box<str>,
    /// Target partition; made if it is not there.
    pub partition: Box<str>,
    /// The id that the broker gives it, whatever becomes of the request.
    pub message_id: Uuid,
    /// The client's id, on which duplicates are recognised; the broker has minted one where the client
    /// sent none.
    pub transaction_id: Box<str>,
    /// The exact JSON text that was sent.
    pub payload: Bytes,
    /// Only a push within a step can carry one.
    pub trace_id: Option<Uuid>,
    /// The subject of the verified token.
    pub producer: Option<Arc<str>>,
}

/// A request for messages.
#[derive(Clone, Debug)]
pub struct Pop {
    /// From where.
    pub source: Source,
    /// The consumer group that asks.
    pub group: Box<str>,
    /// Messages at most in the whole answer, 1 to 10,000.
    pub batch: u32,
    /// Partitions at most, 1 to 256.
    pub partitions: u32,
    /// Whether the client leaves it to the broker how many that are, and is told.
    pub autopilot: bool,
    /// How long to wait for a message, in milliseconds; `None`: not at all.
    pub wait_ms: Option<u64>,
    /// Settle at delivery instead of leasing.
    pub auto_ack: bool,
    /// Seconds of the lease; `None`: as the queue says.
    pub lease_s: Option<u32>,
    /// Where the group starts if it is new to the queue; `None`: as the broker's default says.
    pub start: Option<Start>,
}

/// Where a pop takes its messages from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Any partition of a queue.
    Queue(Box<str>),
    /// One partition.
    Partition {
        /// Its queue.
        queue: Box<str>,
        /// Its name.
        partition: Box<str>,
    },
    /// All queues of a namespace, a task, or both.
    Discovery {
        /// Only queues of exactly this namespace.
        namespace: Option<Box<str>>,
        /// Only queues of exactly this task.
        task: Option<Box<str>>,
    },
}

/// Where a group that is new to a queue starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the oldest message that is kept.
    All,
    /// Behind the newest.
    #[default]
    New,
    /// At the first message stored at or after this time, in microseconds since 1970.
    At(i64),
}

/// What became of one delivered message.
#[derive(Clone, Debug)]
pub struct Ack {
    /// The partition; `None`: what was sent is no number, so there is none.
    pub partition_id: Option<i64>,
    /// The message's transaction id.
    pub transaction_id: Box<str>,
    /// The verdict.
    pub verdict: Verdict,
    /// The group that took it.
    pub group: Box<str>,
    /// The lease under which it was taken; `None`: not fenced.
    pub lease_id: Option<Box<str>>,
    /// Why it failed.
    pub error: Option<Box<str>>,
}

/// A verdict on a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Done with.
    Completed,
    /// Deliver it again, without a charge.
    Retry,
    /// Deliver it again; charged to the retry limit.
    Failed,
    /// To the dead letters at once.
    DeadLetter,
}

/// A lease that is to last longer.
#[derive(Clone, Debug)]
pub struct Extend {
    /// The lease as it was sent.
    pub lease_id: Box<str>,
    /// Seconds from now.
    pub seconds: u32,
}

/// Acks and pushes that happen together or not at all.
#[derive(Clone, Debug)]
pub struct Step {
    /// In the order of the answer.
    pub operations: Vec<StepOperation>,
    /// Leases that must be live, as they were sent.
    pub required_leases: Vec<Box<str>>,
}

/// One operation of a step.
#[derive(Clone, Debug)]
pub enum StepOperation {
    /// Store a message.
    Push(PushItem),
    /// Settle a message.
    Ack(Ack),
}
