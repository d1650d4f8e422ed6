//! What a run can do to a broker. Each scenario is one function, so that tests call it with a tiny
//! size.

mod cycle;
mod delivery;
mod exchange;
mod floor;
mod in_order;
mod inboxes;
mod push;
mod take;

pub use cycle::{Settle, cycle, cycle_in};
pub use delivery::delivery;
pub use exchange::{Exchanging, exchange};
pub use floor::{FloorOf, floor};
pub use inboxes::{Inboxes, inboxes};
pub use push::{push, store};
pub use take::{Taking, take};

/// Milliseconds that a parked pop waits before it asks again.
const PARK_MS: u64 = 30_000;
