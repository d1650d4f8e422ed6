//! What clients do to the broker: push, pop and ack, and wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use queen_loadtest::LoadError;
use queen_loadtest::load::Load;
use queen_loadtest::pace::nanoseconds;
use queen_loadtest::protocol::Http;
use queen_loadtest::report::{Report, median};
use queen_loadtest::response::Response;
use queen_loadtest::run::{Slot, Step, Workload, run};

use crate::wire::{self, PushText};

/// Pops that find nothing, one after the other, after which the queue is taken to be empty.
const EMPTY_MAX: u32 = 10_000;

/// Milliseconds that a parked pop waits before it asks again.
const PARK_MS: u64 = 30_000;

/// Which partitions a push goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All its messages to one, the next push to the next.
    Whole,
    /// Each message to the next.
    Scattered,
}

/// A push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pushing<'a> {
    pub(crate) queue: &'a str,
    /// Messages of a request.
    pub(crate) batch: usize,
    /// Partitions in turn.
    pub(crate) partitions: usize,
    pub(crate) spread: Spread,
}

/// Pushes; a unit of work is one request.
pub(crate) fn push(load: &Load, pushing: Pushing<'_>) -> Result<Report, LoadError> {
    let mut pushes = Pushes {
        text: PushText::new(pushing.queue, load.payload_bytes, pushing.batch),
        partitions: pushing.partitions,
        spread: pushing.spread,
        sent: 0,
    };
    run(load, &mut pushes)?.clean()
}

/// Numbers that no other message of this program has.
fn fresh_ids(count: usize) -> u64 {
    static USED: AtomicU64 = AtomicU64::new(0);
    USED.fetch_add(count as u64, Ordering::Relaxed)
}

struct Pushes {
    text: PushText,
    partitions: usize,
    spread: Spread,
    /// Requests so far.
    sent: usize,
}

impl Workload for Pushes {
    type Protocol = Http;

    fn begin(&mut self, _: Slot, _: u64, out: &mut Vec<u8>) {
        let (sent, partitions) = (self.sent, self.partitions);
        let batch = self.text.batch();
        self.sent += 1;
        let first_id = fresh_ids(batch);
        let text = match self.spread {
            Spread::Whole => self.text.filled(first_id, |_| sent % partitions),
            Spread::Scattered => {
                let first = sent * batch;
                self.text
                    .filled(first_id, |index| (first + index) % partitions)
            }
        };
        out.extend_from_slice(text);
    }

    fn answered(&mut self, slot: usize, answer: &Response<'_>, _: &mut Vec<u8>) -> Step {
        if answer.status == 201 && wire::count_queued(&answer.body) == self.text.batch() {
            Step::Finished(slot)
        } else {
            Step::Refused(slot)
        }
    }
}

/// A pop of as many messages from as many partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taking<'a> {
    pub(crate) queue: &'a str,
    pub(crate) batch: u32,
    pub(crate) partitions: u32,
}

/// Pops, each with an ack of all that it brought; a unit of work is both. Messages a second.
pub(crate) fn take(load: &Load, taking: Taking<'_>) -> Result<f64, LoadError> {
    let mut takes = Takes {
        pop: wire::pop(taking.queue, taking.batch, taking.partitions, None),
        owed: vec![None; load.connections],
        empty: 0,
        taken: 0,
    };
    // All that is taken counts.
    assert!(
        load.warmup.is_zero(),
        "what is taken before was to be measured"
    );
    let report = run(load, &mut takes)?.clean()?;
    Ok(takes.taken as f64 / report.elapsed.as_secs_f64())
}

struct Takes {
    pop: Vec<u8>,
    /// How many messages each connection has acked without an answer so far; `None`: it pops.
    owed: Vec<Option<usize>>,
    /// Pops that found nothing since the last that did.
    empty: u32,
    /// Messages that were popped and acked.
    taken: u64,
}

impl Workload for Takes {
    type Protocol = Http;

    fn begin(&mut self, _: Slot, _: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pop);
    }

    fn answered(&mut self, slot: usize, answer: &Response<'_>, out: &mut Vec<u8>) -> Step {
        match (self.owed[slot].take(), answer.status) {
            (Some(owed), 200) if wire::count_acked(&answer.body) == owed => {
                self.taken += owed as u64;
                Step::Finished(slot)
            }
            (None, 200) => {
                self.empty = 0;
                self.owed[slot] = Some(wire::ack_all(&answer.body, out));
                Step::Continued
            }
            (None, 204) if self.empty < EMPTY_MAX => {
                self.empty += 1;
                out.extend_from_slice(&self.pop);
                Step::Continued
            }
            _ => Step::Broken,
        }
    }
}

/// Consumers that wait, and partitions that are pushed to in turn: enough that one waits for each
/// message while others ack theirs.
const CONSUMERS: usize = 8;

/// Pushes of one message at the rate of the load while pops wait, each of which acks what it gets and
/// waits for the next. The median time in microseconds from the sending of a push to the answer of the pop.
pub(crate) fn delivery(load: &Load, queue: &str) -> Result<f64, LoadError> {
    let mut deliveries = Deliveries {
        push: PushText::new(queue, load.payload_bytes, 1),
        pop: wire::pop(queue, 1, 1, Some(PARK_MS)),
        is_ack_owed: [false; CONSUMERS],
        sent: HashMap::new(),
        warmup_ns: nanoseconds(load.warmup),
        times_us: Vec::new(),
    };
    run(load, &mut deliveries)?.clean()?;
    if deliveries.times_us.is_empty() {
        return Err(LoadError::text("no message was delivered"));
    }
    Ok(median(deliveries.times_us))
}

struct Deliveries {
    push: PushText,
    pop: Vec<u8>,
    is_ack_owed: [bool; CONSUMERS],
    /// When each message was due, and when it was sent.
    sent: HashMap<u64, (u64, Instant)>,
    warmup_ns: u64,
    times_us: Vec<f64>,
}

impl Deliveries {
    fn consumer_answered(
        &mut self,
        consumer: usize,
        answer: &Response<'_>,
        out: &mut Vec<u8>,
    ) -> Step {
        match (
            std::mem::take(&mut self.is_ack_owed[consumer]),
            answer.status,
        ) {
            (true, 200) if wire::count_acked(&answer.body) == 1 => {
                out.extend_from_slice(&self.pop);
                Step::Continued
            }
            (false, 204) => {
                out.extend_from_slice(&self.pop);
                Step::Continued
            }
            (false, 200) => {
                let id = wire::popped_ids(&answer.body).next();
                let Some((due_ns, sent_at)) = id.and_then(|id| self.sent.remove(&id)) else {
                    return Step::Broken;
                };
                if due_ns >= self.warmup_ns {
                    self.times_us.push(sent_at.elapsed().as_secs_f64() * 1e6);
                }
                self.is_ack_owed[consumer] = true;
                wire::ack_all(&answer.body, out);
                Step::Arrived { due_ns }
            }
            _ => Step::Broken,
        }
    }
}

impl Workload for Deliveries {
    type Protocol = Http;

    fn standing(&self) -> usize {
        CONSUMERS
    }

    fn stand(&mut self, _: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pop);
    }

    fn begin(&mut self, _: Slot, due_ns: u64, out: &mut Vec<u8>) {
        let id = fresh_ids(1);
        out.extend_from_slice(self.push.filled(id, |_| id as usize % CONSUMERS));
        self.sent.insert(id, (due_ns, Instant::now()));
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, out: &mut Vec<u8>) -> Step {
        match connection.checked_sub(CONSUMERS) {
            None => self.consumer_answered(connection, answer, out),
            Some(slot) if answer.status == 201 => Step::HandedOver(slot),
            Some(slot) => Step::Refused(slot),
        }
    }
}
