//! What other cores send: served in bounded steps, asleep in between.

use super::broker::Broker;
use crate::runtime::{self, Doorbell};

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
