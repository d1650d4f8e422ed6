//! Polling with a deadline: the only place of the tests that sleeps.

use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks.
const STEP: Duration = Duration::from_millis(10);

/// Looks until `look` is true; panics with `what` after 5 s.
#[track_caller]
pub(crate) fn eventually(what: &str, look: impl FnMut() -> bool) {
    eventually_within(Duration::from_secs(5), what, look);
}

/// Looks until `look` is true; panics with `what` after `limit`.
#[track_caller]
pub(crate) fn eventually_within(limit: Duration, what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !look() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(STEP);
    }
}

/// Lets `time` pass where a test is about time itself: that nothing happens until then.
pub(crate) fn let_pass(time: Duration) {
    thread::sleep(time);
}

/// A pause between two looks, for loops that decide themselves when to give up.
pub(crate) fn step() {
    thread::sleep(STEP);
}
