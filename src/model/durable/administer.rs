//! What an operator can ask of the durable class: groups that go or move, dead letters that are taken
//! up again or thrown away, and traces that are noted.

use bytes::Bytes;
use uuid::Uuid;

/// One request of an operator. Each is carried out by itself.
#[derive(Clone, Debug)]
pub enum Administer {
    /// Forget where a group stands.
    DeleteGroup(DeleteGroup),
    /// Put a group somewhere else.
    Seek(Seek),
    /// Say from when on a group counts.
    Subscribe(Subscribe),
    /// Push a dead letter once more.
    Replay(Replay),
    /// Throw the dead letters of a message away.
    DiscardLetter(Address),
    /// Push dead letters once more, as many as one commit takes.
    ReplayLetters(LetterFilter),
    /// Throw dead letters away, as many as one commit takes.
    DiscardLetters(LetterFilter),
    /// Note what became of a message.
    RecordTrace(Box<NewTrace>),
}

/// A group that is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteGroup {
    /// The group.
    pub group: Box<str>,
    /// Where; `None`: in all queues.
    pub queue: Option<Box<str>>,
    /// Whether its registration goes too, so that its next pop registers it anew. Otherwise it starts
    /// again where it started at first.
    pub registration: bool,
}

/// A group that is to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seek {
    /// The group; registered if it is new.
    pub group: Box<str>,
    /// The queue.
    pub queue: Box<str>,
    /// The partition; `None`: all of the queue.
    pub partition: Option<Box<str>>,
    /// Where to.
    pub to: SeekTo,
}

/// A place in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Behind the newest message.
    End,
    /// The first message accepted at or after a time.
    Time(NamedTime),
    /// An offset; where none such is kept the nearest.
    Offset(i64),
}

/// A point in time as a client has named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTime {
    /// As it was sent.
    pub text: Box<str>,
    /// In microseconds since 1970.
    pub time_us: i64,
}

/// From when on a group counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// The group, in all queues.
    pub group: Box<str>,
    /// The time.
    pub from: NamedTime,
}

/// The address of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The partition as it was sent.
    pub partition: Box<str>,
    /// Its id; `None`: what was sent is no id, so there is none.
    pub partition_id: Option<i64>,
    /// The client's id of the message.
    pub transaction_id: Box<str>,
}

/// A dead letter that is to be pushed once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The newest of a message, to where it came from.
    Newest(Address),
    /// One by its id.
    One {
        /// The id as it was sent.
        id: Box<str>,
        /// The id; `None`: what was sent is no id, so there is none.
        letter_id: Option<i64>,
        /// The queue it goes to; `None`: its own.
        queue: Option<Box<str>>,
        /// The partition it goes to; `None`: its own.
        partition: Option<Box<str>>,
    },
}

/// Which dead letters are meant. All that is named must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterFilter {
    /// Of this queue.
    pub queue: Option<Box<str>>,
    /// Given up by this group.
    pub group: Option<Box<str>>,
    /// Of partitions of this name.
    pub partition: Option<Box<str>>,
    /// Given up at or after this time, in microseconds since 1970.
    pub from_us: Option<i64>,
    /// Given up at or before this time, in microseconds since 1970.
    pub to_us: Option<i64>,
}

/// Something to be noted of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTrace {
    /// The message.
    pub message: Address,
    /// The group that handles it.
    pub group: Box<str>,
    /// Names under which it is found.
    pub names: Vec<Box<str>>,
    /// What kind of event it is.
    pub event: Box<str>,
    /// JSON text.
    pub data: Bytes,
    /// Who says so, if that was said.
    pub worker: Option<Box<str>>,
}

/// The answer to an operator.
#[derive(Debug)]
pub enum Administered {
    /// A group is forgotten.
    GroupDeleted {
        /// What was asked for.
        asked: DeleteGroup,
        /// Places that it had.
        cursors: u64,
    },
    /// A group is moved.
    Sought {
        /// What was asked for.
        asked: Seek,
        /// Partitions in which it was; 0: there is no such queue or partition.
        partitions: u64,
    },
    /// A group counts from another time on.
    Subscribed {
        /// What was asked for.
        asked: Subscribe,
        /// Queues in which there is such a group.
        queues: u64,
    },
    /// What became of a dead letter.
    Replayed {
        /// What was asked for.
        asked: Replay,
        /// `None`: there is no such dead letter.
        replayed: Option<Box<Replayed>>,
    },
    /// Dead letters of a message were thrown away.
    LetterDiscarded {
        /// What was asked for.
        asked: Address,
        /// How many.
        discarded: u64,
    },
    /// Dead letters were pushed once more.
    LettersReplayed {
        /// Of those that were stored.
        moved: u64,
        /// Of those that were there already.
        duplicates: u64,
        /// Of those that stay: they cannot be decrypted, or are damaged.
        unreadable: u64,
        /// Whether there are more of them.
        more: bool,
    },
    /// Dead letters were thrown away.
    LettersDiscarded {
        /// How many.
        discarded: u64,
        /// Whether there are more of them.
        more: bool,
    },
    /// Something was noted of a message.
    TraceRecorded {
        /// What was asked for.
        message: Address,
        /// The trace's id; `None`: there is no such partition.
        id: Option<i64>,
    },
}

/// A dead letter that was pushed once more.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Its id.
    pub letter_id: i64,
    /// The queue it went to.
    pub queue: Box<str>,
    /// The partition it went to.
    pub partition: Box<str>,
    /// The group that had given it up.
    pub group: Box<str>,
    /// The client's id that it had.
    pub transaction_id: Box<str>,
    /// Its new id, or the id of the message it repeats.
    pub message_id: Uuid,
    /// Its offset, or that of the message it repeats.
    pub offset: i64,
    /// Whether it was there already.
    pub duplicate: bool,
}

/// The client's id of a dead letter that is pushed once more: a second try finds the first.
pub fn replayed_id(letter_id: i64) -> Box<str> {
    format!("dlq:{letter_id}").into()
}
