//! The life of a message: pushed, popped and, if it was leased, acked.

use super::in_order::InOrder;
use crate::LoadError;
use crate::load::Load;
use crate::protocol::Http;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Slot, Step, Workload, run};
use crate::wire::{self, PopMode, PushText};

/// How a cycle settles its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// The pop leases, an ack follows: three requests.
    Ack,
    /// The pop settles: two requests.
    AutoAck,
}

/// Whole cycles; a unit of work is one.
pub fn cycle(load: &Load, settle: Settle) -> Result<Report, LoadError> {
    load.with_queues("{}", |queues| cycle_in(load, queues, settle))
}

/// The same in queues that are there already, and empty.
pub fn cycle_in(load: &Load, queues: &[String], settle: Settle) -> Result<Report, LoadError> {
    let mode = PopMode {
        wait_ms: None,
        auto_ack: settle == Settle::AutoAck,
    };
    let mut cycles = Cycles {
        queues: queues.to_vec(),
        pushes: Vec::new(),
        pops: Vec::new(),
        stages: vec![Stage::Push; load.connections * load.depth],
        order: InOrder::new(load.connections),
        settle,
    };
    for queue in queues {
        cycles
            .pushes
            .push(PushText::new(queue, load.payload_bytes, 1));
        let mut pop = Vec::new();
        wire::pop(queue, mode, &mut pop);
        cycles.pops.push(pop);
    }
    run(load, &mut cycles)
}

struct Cycles {
    queues: Vec<String>,
    pushes: Vec<PushText>,
    pops: Vec<Vec<u8>>,
    /// The request of each slot that is to be answered.
    stages: Vec<Stage>,
    order: InOrder,
    settle: Settle,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Push,
    Pop,
    Ack,
}

impl Workload for Cycles {
    type Protocol = Http;

    fn begin(&mut self, slot: Slot, due_ns: u64, out: &mut Vec<u8>) {
        let queue = slot.connection % self.queues.len();
        self.stages[slot.index] = Stage::Push;
        out.extend_from_slice(self.pushes[queue].stamped(due_ns));
        self.order.sent(slot);
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, out: &mut Vec<u8>) -> Step {
        let queue = connection % self.queues.len();
        let slot = self.order.answered(connection);
        let next = match (self.stages[slot.index], answer.status) {
            (Stage::Push, 201) => {
                out.extend_from_slice(&self.pops[queue]);
                Stage::Pop
            }
            (Stage::Pop, 200) => match wire::first_id(&answer.body) {
                // Every pop follows a push to its queue, so a message is there.
                None => return Step::Refused(slot.index),
                Some(_) if self.settle == Settle::AutoAck => return Step::Finished(slot.index),
                Some(id) => {
                    wire::ack(&self.queues[queue], id, out);
                    Stage::Ack
                }
            },
            (Stage::Ack, 200) if wire::is_acked(&answer.body) => {
                return Step::Finished(slot.index);
            }
            _ => return Step::Refused(slot.index),
        };
        self.stages[slot.index] = next;
        self.order.sent(slot);
        Step::Continued
    }
}
