//! What the shards of different cores tell each other about a queue that lies on several of them.

use std::sync::Arc;

use super::{ClientRef, Depth, Popped, TenantId};

/// One life of a queue, as shards name it to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRef {
    /// Whose queue it is.
    pub tenant: TenantId,
    /// Its name.
    pub name: Arc<str>,
    /// Which life of the name.
    pub generation: u64,
}

/// From one shard to another. All of these must arrive: none is ever refused.
#[derive(Debug)]
pub enum PeerMessage {
    /// Take for a pop that names no partition.
    Take(Take),
    /// To the queue's home: there is something for a group whose pops wait there.
    Ready {
        /// The queue.
        queue: QueueRef,
        /// The group's position in the queue's list.
        group: u32,
    },
    /// A push needs room that the receiver's messages hold.
    MakeRoom(MakeRoom),
    /// What was done about a [`PeerMessage::MakeRoom`]: try again.
    RoomMade {
        /// The push that waits.
        token: u64,
    },
    /// From the queue's home: do your part of a command that concerns the whole queue.
    Part {
        /// The queue.
        queue: QueueRef,
        /// The command that waits.
        token: u64,
        /// What to do.
        part: Part,
    },
    /// A part is done.
    PartDone {
        /// The command that waits.
        token: u64,
        /// What came of it.
        result: PartResult,
    },
    /// The queue is gone, or a window has to be told what is there, for a new group or because what
    /// was told counts no more: look at it.
    Look(QueueRef),
}

/// A pop that names no partition on its way over the owners that have something for it.
#[derive(Debug)]
pub struct Take {
    /// Who is answered.
    pub client: ClientRef,
    /// Queue, group and what was taken so far.
    pub popped: Popped,
    /// Messages at most in the whole answer.
    pub batch: u32,
    /// Owners that are still to be asked, a bit each.
    pub owners: u64,
    /// Whether the pop waits on where nothing was found.
    pub waits: bool,
}

/// A push that waits for room in a queue whose messages lie on several shards.
#[derive(Debug)]
pub struct MakeRoom {
    /// The queue.
    pub queue: QueueRef,
    /// The push.
    pub token: u64,
    /// Messages to make room for.
    pub messages: u64,
    /// Payload bytes to make room for.
    pub bytes: u64,
}

/// One shard's part of a command that concerns a whole queue.
#[derive(Clone, Debug)]
pub enum Part {
    /// Take over what the cell says.
    Configure,
    /// Drop all messages.
    Reset,
    /// The queue was removed: let go of everything.
    Delete,
    /// Say how much is held.
    Depth {
        /// The group whose backlog is asked for.
        group: Option<Arc<str>>,
    },
}

/// What came of a [`Part`].
#[derive(Debug)]
pub enum PartResult {
    /// It is done.
    Done,
    /// Messages that were dropped.
    Dropped(u64),
    /// The shard's share: partitions and groups; what the cell knows is left to the home.
    Depth(Box<Depth>),
}
