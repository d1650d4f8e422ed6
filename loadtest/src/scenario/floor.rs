//! The requests of another scenario, sent to a server whose answers mean nothing: what the same
//! bytes cost when nothing is done for them.

use super::Load;
use crate::LoadError;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Step, Workload, run};
use crate::wire::{self, PopMode, PushText};

/// Whose requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloorOf {
    /// Those of [`super::push`].
    Push,
    /// Those of [`super::cycle`] with an ack.
    Cycle,
}

/// A queue as long as those of the other scenarios, and an id as a broker gives them out.
const QUEUE: &str = "load-1a2b-1a2b3c4d5e6-0-0";
const ID: &str = "e:1a2b3c4d5e6f7a8b:Default:268435456";

/// The same requests against a null responder; a unit of work is as long as there.
pub fn floor(load: &Load, of: FloorOf) -> Result<Report, LoadError> {
    let mut texts = vec![PushText::new(QUEUE, load.payload_bytes).stamped(0).to_vec()];
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
    let sent = vec![0; load.connections];
    run(&load.plan(0), &mut Floor { texts, sent })
}

struct Floor {
    texts: Vec<Vec<u8>>,
    /// Requests of the unit of work that each connection has sent.
    sent: Vec<usize>,
}

impl Workload for Floor {
    fn standing(&self) -> usize {
        0
    }

    fn begin(&mut self, connection: usize, _: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.texts[0]);
        self.sent[connection] = 1;
    }

    fn answered(&mut self, connection: usize, response: &Response<'_>, out: &mut Vec<u8>) -> Step {
        if response.status >= 300 {
            return Step::Refused;
        }
        let Some(text) = self.texts.get(self.sent[connection]) else {
            return Step::Finished;
        };
        out.extend_from_slice(text);
        self.sent[connection] += 1;
        Step::Continued
    }
}
