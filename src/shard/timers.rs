//! What a shard has to look at, and when. Removal is exact, so that pops which were answered and
//! queues that were deleted leave nothing behind.

use std::collections::BTreeSet;

use super::waiters::WaiterNumber;
use crate::model::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Leases, TTL, lingering or collection of a ring: (place in the table, serial).
    Ring(u32, u32),
    /// Collection of a queue: (place in the table, generation).
    Queue(u32, u64),
    /// A parked pop's window closes.
    Window(WaiterNumber),
    /// A parked pop's time is up.
    Waiter(WaiterNumber),
    /// A queue's pushes that wait for room: the number of the wait.
    Held(u64),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    set: BTreeSet<(Moment, Timer)>,
}

impl Timers {
    pub(super) fn insert(&mut self, at: Moment, timer: Timer) {
        if at < Moment::NEVER {
            self.set.insert((at, timer));
        }
    }

    pub(super) fn remove(&mut self, at: Moment, timer: Timer) {
        self.set.remove(&(at, timer));
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.set.first().map(|&(at, _)| at)
    }

    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// Takes the earliest timer if it is due.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.set.pop_first().map(|(_, timer)| timer)
    }
}
