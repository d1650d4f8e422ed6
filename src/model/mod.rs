//! Plain values that the rooms exchange. No behaviour beyond checking themselves, no I/O, and no
//! knowledge of any other room but `limits`.

mod client;
mod cores;
mod declaration;
pub mod durable;
mod job;
mod message_id;
mod moment;
mod name;
mod options;
mod peer;
mod refusal;
mod reply;
mod request;
mod tenant;

pub use client::ClientRef;
pub use cores::cores_of;
pub use declaration::{Declaration, Grant};
pub use job::{Change, Job};
pub use message_id::{Incarnation, MessageId};
pub use moment::Moment;
pub use name::{
    DEFAULT_PARTITION, GroupName, NameFault, PartitionName, QUEUE_MODE_GROUP, QueueName,
};
pub use options::{EffectiveOptions, Policy, QueueOptions, WindowBuffer};
pub use peer::{MakeRoom, Part, PartResult, PeerMessage, QueueRef, Take};
pub use refusal::Refusal;
pub use reply::{
    AckOutcome, Delivered, Depth, DropCounts, Exchanged, GroupDepth, PartitionDepth, Popped,
    QueuePage, QueueRow, Reply, Tier,
};
pub use request::{Ack, AckItem, Command, Configure, Exchange, ListQueues, Pop, Push, Verdict};
pub use tenant::TenantId;
