//! What a client can ask of the ephemeral class. Names borrow from the request's bytes.

use std::borrow::Cow;

use bytes::Bytes;

use super::{GroupName, Moment, PartitionName, QueueName, QueueOptions};

/// One request of the ephemeral class, decoded and checked.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// Append messages to a partition.
    Push(Push<'a>),
    /// Take messages for a group.
    Pop(Pop<'a>),
    /// Settle leases.
    Ack(Ack<'a>),
    /// Declare a queue.
    Configure(Configure<'a>),
    /// Drop all messages of a queue.
    Reset(QueueName<'a>),
    /// Remove a queue.
    Delete(QueueName<'a>),
    /// One step of a listing.
    Queues(ListQueues<'a>),
    /// How much a queue holds.
    Depth {
        /// The queue.
        queue: QueueName<'a>,
        /// The group whose backlog is asked for.
        group: Option<GroupName<'a>>,
    },
}

impl Command<'_> {
    /// The command without what it borrows from.
    pub fn into_owned(self) -> Command<'static> {
        match self {
            Command::Push(push) => Command::Push(push.into_owned()),
            Command::Pop(pop) => Command::Pop(pop.into_owned()),
            Command::Ack(ack) => Command::Ack(ack.into_owned()),
            Command::Configure(configure) => Command::Configure(configure.into_owned()),
            Command::Reset(queue) => Command::Reset(queue.into_owned()),
            Command::Delete(queue) => Command::Delete(queue.into_owned()),
            Command::Queues(list) => Command::Queues(ListQueues {
                after: list.after.map(|after| Cow::Owned(after.into_owned())),
                prefix: Cow::Owned(list.prefix.into_owned()),
                limit: list.limit,
            }),
            Command::Depth { queue, group } => Command::Depth {
                queue: queue.into_owned(),
                group: group.map(GroupName::into_owned),
            },
        }
    }
}

/// Messages for one partition; all of them are stored or none.
#[derive(Clone, Debug)]
pub struct Push<'a> {
    /// Target queue.
    pub queue: QueueName<'a>,
    /// Target partition.
    pub partition: PartitionName<'a>,
    /// Payloads as the exact bytes received.
    pub payloads: Vec<Bytes>,
}

impl Push<'_> {
    /// The push without what it borrows from.
    pub fn into_owned(self) -> Push<'static> {
        Push {
            queue: self.queue.into_owned(),
            partition: self.partition.into_owned(),
            payloads: self.payloads,
        }
    }
}

/// A request for messages.
#[derive(Clone, Debug)]
pub struct Pop<'a> {
    /// Source queue.
    pub queue: QueueName<'a>,
    /// Source partition; `None`: any.
    pub partition: Option<PartitionName<'a>>,
    /// The consumer group that asks.
    pub group: GroupName<'a>,
    /// Messages at most, 1 to 10,000.
    pub batch: u32,
    /// How long to wait for a message, in milliseconds; `None`: not at all.
    pub wait_ms: Option<u64>,
    /// Since when it has waited, if it comes back from cores that had nothing: it keeps its turn.
    pub since: Option<Moment>,
    /// Settle at delivery instead of leasing.
    pub auto_ack: bool,
}

impl Pop<'_> {
    /// The request without what it borrows from.
    pub fn into_owned(self) -> Pop<'static> {
        Pop {
            queue: self.queue.into_owned(),
            partition: self.partition.map(PartitionName::into_owned),
            group: self.group.into_owned(),
            ..self
        }
    }
}

/// Verdicts on delivered messages.
#[derive(Clone, Debug)]
pub struct Ack<'a> {
    /// The queue of all ids.
    pub queue: QueueName<'a>,
    /// The group that held the leases.
    pub group: GroupName<'a>,
    /// One verdict per id, in the order of the answer.
    pub acks: Vec<AckItem<'a>>,
}

impl Ack<'_> {
    /// The verdicts without what they borrow from.
    pub fn into_owned(self) -> Ack<'static> {
        Ack {
            queue: self.queue.into_owned(),
            group: self.group.into_owned(),
            acks: self.acks.into_iter().map(AckItem::into_owned).collect(),
        }
    }
}

/// One verdict.
#[derive(Clone, Debug)]
pub struct AckItem<'a> {
    /// The id as the client sent it.
    pub id: Cow<'a, str>,
    /// What became of the message.
    pub verdict: Verdict,
}

impl AckItem<'_> {
    /// The verdict without what it borrows from.
    pub fn into_owned(self) -> AckItem<'static> {
        AckItem {
            id: Cow::Owned(self.id.into_owned()),
            verdict: self.verdict,
        }
    }
}

/// What became of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done with.
    Completed,
    /// Give it out again.
    Retry,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Configure<'a> {
    /// The queue to declare.
    pub queue: QueueName<'a>,
    /// The options, read.
    pub options: QueueOptions,
    /// The options as the JSON text that was sent; `{}` if none were.
    pub options_as_sent: Cow<'a, str>,
    /// Whether the declaration is stored: it outlives the process.
    pub stored: bool,
}

impl Configure<'_> {
    /// The declaration without what it borrows from.
    pub fn into_owned(self) -> Configure<'static> {
        Configure {
            queue: self.queue.into_owned(),
            options_as_sent: Cow::Owned(self.options_as_sent.into_owned()),
            ..self
        }
    }
}

/// Several requests that are answered together: each ack, each push, then the pop, in this order.
#[derive(Clone, Debug)]
pub struct Exchange<'a> {
    /// Verdicts, each for one queue and group.
    pub acks: Vec<Ack<'a>>,
    /// Messages, each push for one partition.
    pub pushes: Vec<Push<'a>>,
    /// What is asked for at the end.
    pub pop: Option<Pop<'a>>,
}

/// One step of a listing of queues by name.
#[derive(Clone, Debug)]
pub struct ListQueues<'a> {
    /// Only names after this one.
    pub after: Option<Cow<'a, str>>,
    /// Only names that begin so.
    pub prefix: Cow<'a, str>,
    /// Rows at most in this step.
    pub limit: u32,
}
