//! The broker `queen`: ephemeral queues in RAM, thread per core, over the Queen MQ HTTP/JSON wire.
//!
//! The modules are declared in the order in which a request flows through them; README.md has the
//! map of the source.

pub mod limits;

pub mod config;
pub mod model;

pub mod runtime;

pub mod http;

pub mod net;

pub mod auth;

pub mod api;

pub mod placement;

pub mod dispatch;

pub mod channel;

pub mod directory;

pub mod shard;

pub mod postgres;

pub mod engine;

pub mod core_loop;

pub mod observe;

pub mod fatal;
pub mod shutdown;
