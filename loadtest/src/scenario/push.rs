//! Pushes that nobody pops.

use super::in_order::InOrder;
use crate::LoadError;
use crate::load::Load;
use crate::protocol::Http;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Slot, Step, Workload, run};
use crate::wire::PushText;

/// Nobody pops, so that the queue must make room: at a bounded size every push evicts one.
const OPTIONS: &str = r#"{"maxLength":1024,"policy":"dropOldest"}"#;

/// Pushes of `batch` messages into queues that are full; a unit of work is one push.
pub fn push(load: &Load, batch: usize) -> Result<Report, LoadError> {
    push_to(load, batch, OPTIONS)
}

/// The same into queues that keep all of them, which must fit (`QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH`,
/// `QUEEN_EPHEMERAL_QUEUE_MAX_BYTES`).
pub fn store(load: &Load, batch: usize) -> Result<Report, LoadError> {
    push_to(load, batch, "{}")
}

fn push_to(load: &Load, batch: usize, options: &str) -> Result<Report, LoadError> {
    load.with_queues(options, |queues| push_in(load, batch, queues))
}

/// The same in queues that are there already.
pub(super) fn push_in(load: &Load, batch: usize, queues: &[String]) -> Result<Report, LoadError> {
    let texts = queues
        .iter()
        .map(|queue| PushText::new(queue, load.payload_bytes, batch))
        .collect();
    let order = InOrder::new(load.connections);
    run(load, &mut Pushes { texts, order })
}

struct Pushes {
    texts: Vec<PushText>,
    order: InOrder,
}

impl Workload for Pushes {
    type Protocol = Http;

    fn begin(&mut self, slot: Slot, due_ns: u64, out: &mut Vec<u8>) {
        let queue = slot.connection % self.texts.len();
        out.extend_from_slice(self.texts[queue].stamped(due_ns));
        self.order.sent(slot);
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, _: &mut Vec<u8>) -> Step {
        let slot = self.order.answered(connection).index;
        if answer.status == 201 {
            Step::Finished(slot)
        } else {
            Step::Refused(slot)
        }
    }
}
