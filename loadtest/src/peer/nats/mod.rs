//! NATS: subscriptions, and JetStream where messages are kept.

mod delivery;
mod jetstream;
mod opening;
mod request_reply;
pub mod wire;

pub use delivery::delivery;
pub use jetstream::{push, take};
pub use request_reply::request_reply;
