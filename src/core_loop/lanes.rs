//! What other cores send: served in bounded steps. In between the core polls for a while after the
//! last event, then it sleeps: waking a core that sleeps costs more than serving a request.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::broker::Broker;
use crate::runtime::{self, Doorbell};

/// Serves the lanes of a core for as long as its thread lives.
pub(super) async fn serve(broker: &Broker, doorbell: Doorbell) {
    // Kept over many waits: what is begun with the kernel is not broken off each time.
    let mut ring = pin!(doorbell.wait());
    loop {
        if broker.receive() {
            // What is left waits until everybody else has had a turn.
            runtime::next_turn().await;
        } else if broker.is_lively() {
            runtime::look().await;
        } else if broker.sleep() {
            let rung = poll_fn(|context| match ring.as_mut().poll(context) {
                Poll::Ready(rung) => Poll::Ready(Some(rung)),
                // On a core that polls anything that happens here ends the wait.
                Poll::Pending => broker.poll_stirred(context).map(|()| None),
            });
            if let Some(rung) = rung.await {
                let rung = rung.is_ok_and(|count| count > 0);
                assert!(rung, "the doorbell of a core is broken");
                ring.set(doorbell.wait());
            }
            broker.wake();
        }
    }
}
