//! NATS: subscriptions, and JetStream where messages are kept.

mod delivery;
mod jetstream;
mod opening;
mod request_reply;
pub(crate) mod wire;

pub(crate) use delivery::delivery;
pub(crate) use jetstream::{push, take};
pub(crate) use request_reply::request_reply;
