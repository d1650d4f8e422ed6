//! Push, pop and ack that go on while something happens to the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::rig::{assert_serves, in_time};
use crate::support::Broker;
use crate::support::poll::step;

/// Ends the traffic also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `event` while messages of an implicit and of a declared queue are pushed, popped and acked
/// all the time: every request is served.
#[track_caller]
pub(crate) fn with_traffic<T>(broker: &Broker, declared: &str, event: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let queues = [broker.queue("traffic"), broker.queue_named(declared)];
            let mut rounds = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                for queue in &queues {
                    in_time("push, pop and ack", || assert_serves(queue));
                }
                rounds += 1;
                step();
            }
            rounds
        });
        let outcome = {
            let _stop = Stop(&stop);
            event()
        };
        let rounds = traffic.join().expect("every request was served");
        assert!(rounds > 0);
        outcome
    })
}
