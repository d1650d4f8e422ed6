//! Where everything meets. `shard_core` is one turn of a shard core, free of any runtime, so that
//! the simulation drives it too, `open` what it remembers of requests that other cores answer, and
//! `exchange` requests of several legs;
//! `broker` puts the HTTP API in front of it and builds a `listing` in steps; `core_thread` runs both
//! on a thread with sockets and a clock, `lanes` serves what other cores send, `bells` wake them;
//! `engine_line` is a core's way to the engine, `durable` what a core does for the durable class, `claim`
//! what goes back if an answer cannot be delivered; `engine_thread` runs that one and reaches the cores for
//! it; `pinning` holds threads on CPUs.

mod bells;
mod broker;
mod claim;
mod core_thread;
mod durable;
mod engine_line;
mod engine_thread;
mod exchange;
mod lanes;
mod listing;
mod open;
mod pinning;
mod reader_line;
mod reader_thread;
mod shard_core;

pub use bells::Bells;
pub use broker::{Broker, BrokerParts};
pub use claim::Claim;
pub use core_thread::{CoreFault, CoreParts, run};
pub use durable::DurableOutcome;
pub use engine_line::EngineLine;
pub use engine_thread::{EngineParts, EngineThread, Readiness};
pub use exchange::ExchangeOutcome;
pub use pinning::usable_cpus;
pub use reader_line::ReaderLine;
pub use reader_thread::{ReaderParts, ReaderThread};
pub use shard_core::{Answer, Outcome, ShardCore};
