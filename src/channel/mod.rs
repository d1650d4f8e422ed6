//! The mesh between the cores: two bounded single-producer single-consumer lanes for each ordered
//! pair, one for what goes to the owner of a key and one for answers. Knows no queue: what a frame
//! means is the business of `core_loop` and `shard`. Each core's thread owns its [`Port`]; nobody
//! waits in here, and whose doorbell must be rung is only said, so a simulation can drive all ports
//! on one thread.

mod frame;
mod port;
mod rest;

pub use frame::{Answer, Forwarded, Frame};
pub use port::{Port, mesh};
