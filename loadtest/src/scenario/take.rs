//! Taking messages that stand in a queue, and settling them.

use super::Load;
use crate::pace::Extent;
use crate::protocol::Http;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Slot, Step, Workload, run};
use crate::wire::{self, PopMode, PushText};
use crate::{LoadError, control};

/// Messages of one push while the queue is filled.
const FILL_BATCH: u64 = 1_000;

/// How what was taken is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// At delivery.
    AutoAck,
    /// By an ack that is sent together with the next pop, which does not wait for its answer.
    Pipelined,
    /// By an ack that is one request with the next pop.
    Exchange,
}

/// Pops of `batch` messages; a unit of work is one pop with the settling of what the one before it
/// took. The run must be of a number of units: so many messages are pushed first, and must fit into
/// the queues (`QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH`, `QUEEN_EPHEMERAL_QUEUE_MAX_BYTES`).
pub fn take(load: &Load, batch: u32, taking: Taking) -> Result<Report, LoadError> {
    let Extent::Units(units) = load.extent else {
        return Err(LoadError::text("a number of units must be given"));
    };
    let mut plan = load.plan(0).in_turn();
    // Whatever is taken before the measured part was to be measured.
    plan.warmup = std::time::Duration::ZERO;
    load.with_queues("{}", |queues| {
        for queue in queues {
            let messages = units * u64::from(batch) / queues.len() as u64;
            fill(load, queue, messages)?;
        }
        let mut takes = Takes {
            queues: queues.to_vec(),
            batch,
            taking,
            ids: vec![Vec::new(); load.connections],
            acks_owed: vec![0; load.connections],
            body: Vec::new(),
        };
        run(&plan, &mut takes)
    })
}

fn fill(load: &Load, queue: &str, messages: u64) -> Result<(), LoadError> {
    let mut left = messages;
    while left > 0 {
        let batch = left.min(FILL_BATCH);
        let mut text = PushText::new(queue, load.payload_bytes, batch as usize);
        let text = text.stamped(0);
        control::request(load.address, text)?;
        left -= batch;
    }
    Ok(())
}

struct Takes {
    queues: Vec<String>,
    batch: u32,
    taking: Taking,
    /// What each connection has taken and not acked.
    ids: Vec<Vec<String>>,
    /// Answers to acks that come before that to the pop.
    acks_owed: Vec<u32>,
    body: Vec<u8>,
}

impl Workload for Takes {
    type Protocol = Http;

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        let queue = &self.queues[slot.connection % self.queues.len()];
        let mode = PopMode {
            wait_ms: None,
            auto_ack: self.taking == Taking::AutoAck,
        };
        let ids = &self.ids[slot.connection];
        self.body.clear();
        match self.taking {
            Taking::AutoAck => wire::pop_batch(queue, self.batch, mode, out),
            Taking::Pipelined => {
                if !ids.is_empty() {
                    wire::ack_all(queue, ids, out);
                    self.acks_owed[slot.connection] = 1;
                }
                wire::pop_batch(queue, self.batch, mode, out);
            }
            Taking::Exchange => {
                self.body.push(b'{');
                if !ids.is_empty() {
                    self.body.extend_from_slice(br#""acks":["#);
                    wire::ack_body(queue, ids, &mut self.body);
                    self.body.extend_from_slice(b"],");
                }
                wire::pop_leg(queue, self.batch, mode, &mut self.body);
                self.body.push(b'}');
                wire::exchange(&self.body, out);
            }
        }
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, _: &mut Vec<u8>) -> Step {
        if answer.status != 200 {
            return Step::Refused(connection);
        }
        if self.acks_owed[connection] > 0 {
            self.acks_owed[connection] -= 1;
            let acked = wire::count_acked(&answer.body);
            assert_eq!(acked, self.ids[connection].len(), "a lease outlives a pop");
            return Step::Continued;
        }
        let ids = &mut self.ids[connection];
        if self.taking == Taking::Exchange {
            assert_eq!(
                wire::count_acked(&answer.body),
                ids.len(),
                "a lease outlives a pop"
            );
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
        if kept == self.batch as usize {
            Step::Finished(connection)
        } else {
            Step::Refused(connection)
        }
    }
}
