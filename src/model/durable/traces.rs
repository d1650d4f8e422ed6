//! Traces that are looked up: what clients have noted of messages.

use bytes::Bytes;

use super::Address;

/// Traces that are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindTraces {
    /// All names there are.
    Names(TracePage),
    /// Those of a name, newest first.
    Name {
        /// The name.
        name: Box<str>,
        /// Which of them.
        page: TracePage,
    },
    /// Those of a message, in the order in which they were noted.
    Message(Address),
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePage {
    /// Rows at most.
    pub limit: u32,
    /// Rows before the first one.
    pub offset: u64,
}

/// Traces that were found.
#[derive(Debug)]
pub enum FoundTraces {
    /// All names there are, those first that were used last.
    Names {
        /// Which of them.
        page: TracePage,
        /// How many there are in all.
        total: u64,
        /// The names.
        rows: Vec<TraceNameRow>,
    },
    /// Those of a name, newest first.
    Named {
        /// Which of them.
        page: TracePage,
        /// How many there are in all.
        total: u64,
        /// The traces.
        rows: Vec<TraceRow>,
    },
    /// Those of a message, in the order in which they were noted.
    OfMessage(Vec<TraceRow>),
}

/// A name of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceNameRow {
    /// The name.
    pub name: Box<str>,
    /// Traces that have it.
    pub traces: u64,
    /// Messages that they are of.
    pub messages: u64,
    /// When the last of them was noted, in microseconds since 1970.
    pub last_seen_us: i64,
}

/// A trace.
#[derive(Clone, Debug)]
pub struct TraceRow {
    /// Its id.
    pub id: i64,
    /// The message's partition.
    pub partition_id: i64,
    /// The client's id of the message.
    pub transaction_id: Box<str>,
    /// Its queue.
    pub queue: Box<str>,
    /// The partition's name.
    pub partition: Box<str>,
    /// The group that handled it.
    pub group: Box<str>,
    /// Who said so.
    pub worker: Option<Box<str>>,
    /// What kind of event it is.
    pub event: Box<str>,
    /// JSON text.
    pub data: Bytes,
    /// Names under which it is found.
    pub names: Vec<Box<str>>,
    /// When it was noted, in microseconds since 1970.
    pub created_us: i64,
    /// The message's payload as JSON text; `None`: the message is not known any more.
    pub payload: Option<Bytes>,
}
