//! What a user would pick instead: Redis and NATS, driven by the same loop with the same payloads.

pub mod nats;
pub mod parked;
pub mod program;
pub mod redis;
pub mod server;

/// What was sent by a single blocking request that a peer did not answer in time.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
