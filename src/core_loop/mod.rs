//! Where everything meets. `shard_core` is one turn of a shard core, free of any runtime, so that
//! the simulation drives it too, `open` what it remembers of requests that other cores answer, and
//! `exchange` requests of several legs;
//! `broker` puts the HTTP API in front of it and builds a `listing` in steps; `core_thread` runs both
//! on a thread with sockets and a clock, `lanes` serves what other cores send, `bells` wake them;
//! `engine_line` is a core's way to the engine, `engine_thread` runs that one and reaches the cores for
//! it; `pinning` holds threads on CPUs.

mod bells;
mod broker;
mod core_thread;
mod engine_line;
mod engine_thread;
mod exchange;
mod lanes;
mod listing;
mod open;
mod pinning;
mod shard_core;

pub use bells::Bells;
pub use broker::{Broker, BrokerParts};
pub use core_thread::{CoreFault, CoreParts, run};
pub use engine_line::EngineLine;
pub use engine_thread::{EngineParts, EngineThread, Readiness};
pub use exchange::ExchangeOutcome;
pub use pinning::usable_cpus;
pub use shard_core::{Answer, Outcome, ShardCore};
