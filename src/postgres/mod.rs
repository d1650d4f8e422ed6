//! PostgreSQL as the broker meets it. For now the private cluster alone: `cluster` finds the
//! programs, creates, starts, adopts and stops a server that belongs to this broker.
//!
//! Everything here blocks and is called on a thread that may be kept waiting. Knows no HTTP, no
//! queues and no shards.

mod cluster;
mod fault;
mod session;
mod target;

pub use cluster::{
    Address, ClusterFault, ClusterPlan, PrivateCluster, ProgramSearch, Programs, Progress, Started,
    Stopped, default_data_folder, find_programs,
};
pub use fault::SessionFault;
pub use session::{Changes, ServerRules, Session, StoreItem};
pub use target::{Target, TargetSettings};

const FIRST_SCHEMA: &str = include_str!("sql/0001_ephemeral.sql");
