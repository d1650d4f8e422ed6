//! Plain values of the durable class: what a client can ask, what is answered, and how messages lie
//! packed in a segment. Everything is owned: each request crosses to the engine's core.

mod administer;
mod options;
pub mod read;
mod reply;
mod request;
mod sealed;
mod segment;
mod traces;

pub use administer::{
    Address, Administer, Administered, DeleteGroup, LetterFilter, NamedTime, NewTrace, Replay,
    Replayed, Seek, SeekTo, Subscribe, replayed_id,
};
pub use options::{OptionChange, OptionChanges, QueueOptions};
pub use reply::{
    AckOutcome, AckRefused, Claim, Configured, Extended, Piece, Popped, PushOutcome, PushStatus,
    Reply, StepOutcome, StepRefused, StepResult,
};
pub use request::{
    Ack, Command, Configure, Extend, Pop, PushItem, Source, Start, Step, StepOperation, Verdict,
};
pub use sealed::Unopened;
pub use segment::{Record, SegmentWriter, is_whole, is_whole_and_plain, records, records_behind};
pub use traces::{FindTraces, FoundTraces, TraceNameRow, TracePage, TraceRow};

/// The partition of a message that names none.
pub const DEFAULT_PARTITION: &str = "Default";

/// The group of a pop that names none.
pub const QUEUE_MODE_GROUP: &str = "__QUEUE_MODE__";
