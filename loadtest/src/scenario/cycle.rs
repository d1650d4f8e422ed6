//! The life of a message on one connection: pushed, popped and, if it was leased, acked.

use super::Load;
use crate::LoadError;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Step, Workload, run};
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
        stages: vec![Stage::Push; load.connections],
        settle,
    };
    for queue in queues {
        cycles.pushes.push(PushText::new(queue, load.payload_bytes));
        let mut pop = Vec::new();
        wire::pop(queue, mode, &mut pop);
        cycles.pops.push(pop);
    }
    run(&load.plan(0), &mut cycles)
}

struct Cycles {
    queues: Vec<String>,
    pushes: Vec<PushText>,
    pops: Vec<Vec<u8>>,
    /// The request of each connection that is to be answered.
    stages: Vec<Stage>,
    settle: Settle,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Push,
    Pop,
    Ack,
}

impl Workload for Cycles {
    fn standing(&self) -> usize {
        0
    }

    fn begin(&mut self, connection: usize, due_ns: u64, out: &mut Vec<u8>) {
        let queue = connection % self.queues.len();
        self.stages[connection] = Stage::Push;
        out.extend_from_slice(self.pushes[queue].stamped(due_ns));
    }

    fn answered(&mut self, connection: usize, response: &Response<'_>, out: &mut Vec<u8>) -> Step {
        let queue = connection % self.queues.len();
        match (self.stages[connection], response.status) {
            (Stage::Push, 201) => {
                self.stages[connection] = Stage::Pop;
                out.extend_from_slice(&self.pops[queue]);
                Step::Continued
            }
            (Stage::Pop, 200) => match wire::first_id(&response.body) {
                // Every pop follows a push to its queue, so a message is there.
                None => Step::Refused,
                Some(_) if self.settle == Settle::AutoAck => Step::Finished,
                Some(id) => {
                    self.stages[connection] = Stage::Ack;
                    wire::ack(&self.queues[queue], id, out);
                    Step::Continued
                }
            },
            (Stage::Ack, 200) if wire::is_acked(&response.body) => Step::Finished,
            _ => Step::Refused,
        }
    }
}
