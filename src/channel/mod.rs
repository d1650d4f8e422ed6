//! The mesh between the cores: two bounded single-producer single-consumer lanes for each ordered
//! pair, one for what goes to the owner of a key and one for answers. Knows no queue: what a frame
//! means is the business of `core_loop` and `shard`.

mod frame;

pub use frame::{Answer, Forwarded, Frame};
