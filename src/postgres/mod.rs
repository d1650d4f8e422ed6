//! PostgreSQL as the broker meets it. `cluster` finds the programs, creates, starts, adopts and stops a
//! server that belongs to this broker. A [`Session`] is one connection to that server or to one that
//! was named: opened at a [`Target`] it checks the server, brings the schema `queen` up to date, and
//! then loads, follows and stores what the ephemeral class keeps,
//! and all that the durable class has.
//!
//! Everything here blocks and is called on a thread that may be kept waiting, each call within a bound
//! that holds whatever the server does. Knows no HTTP, no queues and no shards.
//!
//! In reading order: `target` with its `connection_text`, `tls`, `dial`, `patience`, `session`,
//! `schema`, `changes`, `store`, `durable`, `fault`; `sql/` has the statements, the numbered files are migrations.

mod changes;
mod cluster;
mod connection_text;
mod dial;
pub mod durable;
mod fault;
mod patience;
mod schema;
mod session;
mod store;
mod target;
mod tls;

pub use changes::Changes;
pub use cluster::{
    Address, ClusterFault, ClusterPlan, PrivateCluster, ProgramSearch, Programs, Progress, Started,
    Stopped, default_data_folder, find_programs,
};
pub use fault::SessionFault;
pub use session::{ServerRules, Session};
pub use store::StoreItem;
pub use target::{Target, TargetSettings};
