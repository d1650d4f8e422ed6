//! Waiting for processes that are no children: looks with a deadline in between.

use std::thread;
use std::time::{Duration, Instant};

use crate::limits::CLUSTER_POLL_MS;

/// A point in time until which something is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
}

impl Deadline {
    /// `limit` from now.
    pub(super) fn after(limit: Duration) -> Deadline {
        Deadline {
            at: Instant::now() + limit,
        }
    }

    /// Whether it has passed.
    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.at
    }
}

/// Lets the time between two looks pass.
pub(super) fn pause() {
    thread::sleep(Duration::from_millis(CLUSTER_POLL_MS));
}

/// Looks until `look` is true or the deadline has passed; whether it became true.
pub(super) fn wait_until(deadline: Deadline, mut look: impl FnMut() -> bool) -> bool {
    loop {
        if look() {
            return true;
        }
        if deadline.is_over() {
            return false;
        }
        pause();
    }
}
