//! The durable class over HTTP, with PostgreSQL behind it.

#[path = "../support/mod.rs"]
mod support;

mod ages;
mod clients;
mod encryption;
mod groups;
mod idle;
mod kills;
mod letters;
mod outage;
mod paused;
mod pops;
mod reads;
mod rig;
mod survival;
mod tokens;
mod traces;
