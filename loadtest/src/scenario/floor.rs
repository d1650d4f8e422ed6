//! The requests of another scenario, sent to a server whose answers mean nothing: what the same
//! bytes cost when nothing is done for them.

use clap::ValueEnum;

use super::in_order::InOrder;
use crate::LoadError;
use crate::load::Load;
use crate::protocol::Http;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Slot, Step, Workload, run};
use crate::wire::{self, PopMode, PushText};

/// Whose requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FloorOf {
    /// Those of a push.
    Push,
    /// Those of a cycle with an ack.
    Cycle,
}

/// A queue as long as those of the other scenarios, and an id as a broker gives them out.
const QUEUE: &str = "load-1a2b-1a2b3c4d5e6-0-0";
const ID: &str = "e:1a2b3c4d5e6f7a8b:Default:268435456";

/// The same requests against a null responder; a unit of work is as long as there.
pub fn floor(load: &Load, of: FloorOf) -> Result<Report, LoadError> {
    let mut texts = vec![
        PushText::new(QUEUE, load.payload_bytes, 1)
            .stamped(0)
            .to_vec(),
    ];
    if of == FloorOf::Cycle {
        let (mut pop, mut ack) = (Vec::new(), Vec::new());
        wire::pop(
            QUEUE,
            PopMode {
                wait_ms: None,
                auto_ack: false,
            },
            &mut pop,
        );
        wire::ack(QUEUE, ID, &mut ack);
        texts.extend([pop, ack]);
    }
    let mut floor = Floor {
        texts,
        sent: vec![0; load.connections * load.depth],
        order: InOrder::new(load.connections),
    };
    run(load, &mut floor)
}

struct Floor {
    texts: Vec<Vec<u8>>,
    /// Requests of the unit of work that each slot has sent.
    sent: Vec<usize>,
    order: InOrder,
}

impl Floor {
    fn send(&mut self, slot: Slot, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(self.texts.get(self.sent[slot.index])?);
        self.sent[slot.index] += 1;
        self.order.sent(slot);
        Some(())
    }
}

impl Workload for Floor {
    type Protocol = Http;

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        self.sent[slot.index] = 0;
        self.send(slot, out).expect("a unit has a first request");
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, out: &mut Vec<u8>) -> Step {
        let slot = self.order.answered(connection);
        if answer.status >= 300 {
            return Step::Refused(slot.index);
        }
        match self.send(slot, out) {
            Some(()) => Step::Continued,
            None => Step::Finished(slot.index),
        }
    }
}
