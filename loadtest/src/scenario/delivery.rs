//! Delivery to parked pops: from the moment a push is due to the arrival of the parked answer.

use super::{Load, PARK_MS};
use crate::LoadError;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Step, Workload, run};
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
                .push(PushText::new(queue, load.payload_bytes));
            let mut pop = Vec::new();
            wire::pop(queue, mode, &mut pop);
            deliveries.pops.push(pop);
        }
        run(&load.plan(parked), &mut deliveries)
    })
}

struct Deliveries {
    parked: usize,
    pushes: Vec<PushText>,
    pops: Vec<Vec<u8>>,
    next_queue: usize,
}

impl Workload for Deliveries {
    fn standing(&self) -> usize {
        self.parked
    }

    fn begin(&mut self, connection: usize, due_ns: u64, out: &mut Vec<u8>) {
        if connection < self.parked {
            return out.extend_from_slice(&self.pops[connection % self.pops.len()]);
        }
        out.extend_from_slice(self.pushes[self.next_queue].stamped(due_ns));
        self.next_queue = (self.next_queue + 1) % self.pushes.len();
    }

    fn answered(&mut self, connection: usize, response: &Response<'_>, out: &mut Vec<u8>) -> Step {
        if connection >= self.parked {
            return if response.status == 201 {
                Step::HandedOver
            } else {
                Step::Refused
            };
        }
        if response.status != 200 {
            return Step::Refused;
        }
        out.extend_from_slice(&self.pops[connection % self.pops.len()]);
        match wire::first_stamp(&response.body) {
            Some(due_ns) => Step::Arrived { due_ns },
            None => Step::Continued,
        }
    }
}
