//! Delivery to parked pops: from the moment a push is due to the arrival of the parked answer.

use super::PARK_MS;
use crate::LoadError;
use crate::load::Load;
use crate::protocol::Http;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Slot, Step, Workload, run};
use crate::wire::{self, PopMode, PushText};

/// `parked` pops, spread over the queues, wait while the other connections push in turn to each
/// queue. A unit of work is one message, pushed and delivered.
pub fn delivery(load: &Load, parked: usize) -> Result<Report, LoadError> {
    assert!(parked >= load.queues, "every queue has a consumer");
    load.with_queues("{}", |queues| {
        let mode = PopMode {
            wait_ms: Some(PARK_MS),
            auto_ack: true,
        };
        let mut deliveries = Deliveries {
            parked,
            pushes: Vec::new(),
            pops: Vec::new(),
            next_queue: 0,
        };
        for queue in queues {
            deliveries
                .pushes
                .push(PushText::new(queue, load.payload_bytes, 1));
            let mut pop = Vec::new();
            wire::pop(queue, mode, &mut pop);
            deliveries.pops.push(pop);
        }
        run(&load.in_turn(), &mut deliveries)
    })
}

struct Deliveries {
    parked: usize,
    pushes: Vec<PushText>,
    pops: Vec<Vec<u8>>,
    next_queue: usize,
}

impl Workload for Deliveries {
    type Protocol = Http;

    fn standing(&self) -> usize {
        self.parked
    }

    fn stand(&mut self, connection: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pops[connection % self.pops.len()]);
    }

    fn begin(&mut self, _: Slot, due_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.pushes[self.next_queue].stamped(due_ns));
        self.next_queue = (self.next_queue + 1) % self.pushes.len();
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, out: &mut Vec<u8>) -> Step {
        if let Some(slot) = connection.checked_sub(self.parked) {
            return if answer.status == 201 {
                Step::HandedOver(slot)
            } else {
                Step::Refused(slot)
            };
        }
        if answer.status != 200 {
            return Step::Broken;
        }
        out.extend_from_slice(&self.pops[connection % self.pops.len()]);
        match wire::first_stamp(&answer.body) {
            Some(due_ns) => Step::Arrived { due_ns },
            None => Step::Continued,
        }
    }
}
