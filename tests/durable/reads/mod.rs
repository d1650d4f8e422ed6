//! What the durable class tells of itself.

mod groups;
mod messages;
mod offsets;
mod outage;
mod queues;
mod refusals;
