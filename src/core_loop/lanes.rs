//! What other cores send: served in bounded steps, asleep in between.

use std::sync::Arc;

use super::broker::Broker;
use crate::runtime::{self, Bell, Doorbell};

/// The doorbells of all cores, by number.
#[derive(Clone, Debug)]
pub struct Bells(Arc<[Bell]>);

impl Bells {
    /// The doorbells of all cores, by number.
    pub fn new(bells: Vec<Bell>) -> Bells {
        Bells(bells.into())
    }

    /// Rings those of `cores`, a bit each.
    pub(super) fn ring(&self, cores: u64) {
        let mut left = cores;
        while left != 0 {
            let core = left.trailing_zeros();
            self.0[core as usize].ring();
            left &= left - 1;
        }
    }

    /// Rings all.
    pub(super) fn ring_all(&self) {
        for bell in &*self.0 {
            bell.ring();
        }
    }
}

/// Serves the lanes of a core for as long as its thread lives.
pub(super) async fn serve(broker: &Broker, doorbell: Doorbell) {
    loop {
        if broker.receive() {
            // What is left waits until everybody else has had a turn.
            runtime::next_turn().await;
        } else if broker.sleep() {
            let rung = doorbell.wait().await;
            assert!(
                rung.is_ok_and(|count| count > 0),
                "the doorbell of a core is broken"
            );
            broker.wake();
        }
    }
}
