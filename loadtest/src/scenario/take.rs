//! Taking messages that stand in a queue, and settling them.

use clap::ValueEnum;

use super::push::push_in;
use crate::LoadError;
use crate::load::{FILL_BATCH, Load};
use crate::protocol::Http;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Slot, Step, Workload, run};
use crate::wire::{self, PopMode};

/// How what was taken is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Taking {
    /// At delivery.
    AutoAck,
    /// By an ack that is sent together with the next pop, which does not wait for its answer.
    Pipelined,
    /// By an ack that is one request with the next pop.
    Exchange,
}

/// Pops of `batch` messages; a unit of work is one pop with the settling of what the one before it
/// took. The run must be of a number of units: as many messages are pushed first, rounded up to whole
/// pushes of [`FILL_BATCH`], and must fit into the one queue (`QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH`,
/// `QUEEN_EPHEMERAL_QUEUE_MAX_BYTES`).
pub fn take(load: &Load, batch: u32, taking: Taking) -> Result<Report, LoadError> {
    let filling = load.filling(batch)?;
    load.with_queues("{}", |queues| {
        push_in(&filling, FILL_BATCH as usize, queues)?.clean()?;
        let queue = &queues[0];
        let mode = PopMode {
            wait_ms: None,
            auto_ack: taking == Taking::AutoAck,
        };
        let mut pop = Vec::new();
        match taking {
            Taking::Exchange => wire::pop_leg(queue, batch, mode, &mut pop),
            Taking::AutoAck | Taking::Pipelined => wire::pop_batch(queue, batch, mode, &mut pop),
        }
        let mut takes = Takes {
            queue: queue.clone(),
            pop,
            batch: batch as usize,
            taking,
            ids: vec![Vec::new(); load.connections],
            is_ack_owed: vec![false; load.connections],
            acks: Vec::new(),
        };
        run(&load.taking(), &mut takes)
    })
}

struct Takes {
    queue: String,
    /// What takes a batch: a request, or the leg of one.
    pop: Vec<u8>,
    batch: usize,
    taking: Taking,
    /// What each connection has taken and not acked.
    ids: Vec<Vec<String>>,
    /// Whether the answer to an ack comes before that to the pop.
    is_ack_owed: Vec<bool>,
    acks: Vec<u8>,
}

impl Workload for Takes {
    type Protocol = Http;

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        let ids = &self.ids[slot.connection];
        self.acks.clear();
        match self.taking {
            Taking::Exchange => {
                if !ids.is_empty() {
                    wire::ack_body(&self.queue, ids, &mut self.acks);
                }
                return wire::exchange(&self.acks, b"", &self.pop, out);
            }
            Taking::Pipelined if !ids.is_empty() => {
                wire::ack_all(&self.queue, ids, out);
                self.is_ack_owed[slot.connection] = true;
            }
            Taking::Pipelined | Taking::AutoAck => {}
        }
        out.extend_from_slice(&self.pop);
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, _: &mut Vec<u8>) -> Step {
        let ids = &mut self.ids[connection];
        let is_ack = std::mem::take(&mut self.is_ack_owed[connection]);
        if answer.status != 200 && !is_ack {
            return Step::Refused(connection);
        }
        // A lease outlives a pop, so all that was taken is settled.
        let settles = is_ack || self.taking == Taking::Exchange;
        if settles && wire::count_acked(&answer.body) != ids.len() {
            return Step::Broken;
        }
        if is_ack {
            return Step::Continued;
        }
        let mut kept = 0;
        for id in wire::ids(wire::popped(&answer.body)) {
            match ids.get_mut(kept) {
                Some(text) => {
                    text.clear();
                    text.push_str(id);
                }
                None => ids.push(id.to_owned()),
            }
            kept += 1;
        }
        ids.truncate(kept);
        if kept == self.batch {
            Step::Finished(connection)
        } else {
            Step::Refused(connection)
        }
    }
}
