//! Where everything meets. `shard_core` is one turn of a shard core, free of any runtime, so that
//! the simulation drives it too, and `open` what it remembers of requests that other cores answer;
//! `broker` puts the HTTP API in front of it and builds a `listing` in steps; `core_thread` runs both
//! on a thread with sockets and a clock, `lanes` serves what other cores send, `bells` wake them;
//! `pinning` holds such a thread on one CPU.

mod bells;
mod broker;
mod core_thread;
mod lanes;
mod listing;
mod open;
mod pinning;
mod shard_core;

pub use bells::Bells;
pub use broker::{Broker, BrokerParts};
pub use core_thread::{CoreFault, CoreParts, run};
pub use pinning::usable_cpus;
pub use shard_core::{Answer, Outcome, ShardCore};
