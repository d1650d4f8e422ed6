//! Request and reply in one round trip for each side (README, "Exchange"): a requester pushes its
//! request and waits at its inbox in one call, a responder settles, answers many inboxes and takes
//! the next requests in one call.

use super::PARK_MS;
use crate::LoadError;
use crate::load::{Load, run_name};
use crate::protocol::Http;
use crate::report::Report;
use crate::response::Response;
use crate::run::{Slot, Step, Workload, run};
use crate::wire::{self, PopMode};

/// The shape of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanging {
    /// Connections that answer requests.
    pub responders: usize,
    /// Requests that a responder takes at once, at most.
    pub batch: u32,
    /// Whether a responder leases what it takes and acks it; else a request is settled at delivery.
    pub acked: bool,
}

/// Requesters are the scheduled connections. A unit of work is one request with its reply.
pub fn exchange(load: &Load, exchanging: Exchanging) -> Result<Report, LoadError> {
    let responders = exchanging.responders;
    assert!(responders >= load.queues, "every queue has a responder");
    load.with_queues("{}", |queues| {
        let run_name = run_name();
        let mut payload = Vec::new();
        let requests = (0..load.connections).map(|index| {
            let inbox = format!("inbox-{run_name}-{index}");
            wire::inbox_payload(&inbox, load.payload_bytes, &mut payload);
            let queue = &queues[index % queues.len()];
            Request::new(queue, &payload, &inbox)
        });
        let requests = requests.collect();
        let mode = PopMode {
            wait_ms: Some(PARK_MS),
            auto_ack: !exchanging.acked,
        };
        let takes = queues.iter().map(|queue| {
            let mut take = Vec::new();
            wire::pop_leg(queue, exchanging.batch, mode, &mut take);
            take
        });
        let mut exchanges = Exchanges {
            queues: queues.to_vec(),
            takes: takes.collect(),
            requests,
            exchanging,
            payload_bytes: load.payload_bytes,
            payload,
            acks: Vec::new(),
            pushes: Vec::new(),
        };
        run(&load.in_turn(), &mut exchanges)
    })
}

struct Exchanges {
    /// The queues of requests.
    queues: Vec<String>,
    /// The pop of each, as a leg.
    takes: Vec<Vec<u8>>,
    requests: Vec<Request>,
    exchanging: Exchanging,
    payload_bytes: usize,
    payload: Vec<u8>,
    acks: Vec<u8>,
    pushes: Vec<u8>,
}

/// What one requester sends.
struct Request {
    exchange: Vec<u8>,
    /// For a wait that ended before the reply came.
    pop: Vec<u8>,
}

impl Request {
    fn new(queue: &str, payload: &[u8], inbox: &str) -> Request {
        let mode = PopMode {
            wait_ms: Some(PARK_MS),
            auto_ack: true,
        };
        let (mut push, mut take) = (Vec::new(), Vec::new());
        wire::push_body(queue, &[payload], &mut push);
        wire::pop_leg(inbox, 1, mode, &mut take);
        let (mut exchange, mut pop) = (Vec::new(), Vec::new());
        wire::exchange(b"", &push, &take, &mut exchange);
        wire::pop(inbox, mode, &mut pop);
        Request { exchange, pop }
    }
}

impl Exchanges {
    /// Settles and answers the requests in `answer`, if any, and takes the next.
    fn respond(&mut self, connection: usize, answer: &[u8], out: &mut Vec<u8>) {
        let taken = wire::popped(answer);
        let queue = connection % self.queues.len();
        self.acks.clear();
        self.pushes.clear();
        for inbox in wire::text_members(taken, wire::INBOX_KEY) {
            if !self.pushes.is_empty() {
                self.pushes.push(b',');
            }
            wire::inbox_payload(inbox, self.payload_bytes, &mut self.payload);
            wire::push_body(inbox, &[&self.payload], &mut self.pushes);
        }
        if self.exchanging.acked && !self.pushes.is_empty() {
            wire::ack_body(&self.queues[queue], wire::ids(taken), &mut self.acks);
        }
        wire::exchange(&self.acks, &self.pushes, &self.takes[queue], out);
    }
}

impl Workload for Exchanges {
    type Protocol = Http;

    fn standing(&self) -> usize {
        self.exchanging.responders
    }

    fn stand(&mut self, connection: usize, out: &mut Vec<u8>) {
        self.respond(connection, b"", out);
    }

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.requests[slot.index].exchange);
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, out: &mut Vec<u8>) -> Step {
        // Whatever leg is refused, its status stands in the body.
        let is_served = answer.status == 200 && !wire::has_refused_leg(&answer.body);
        let Some(slot) = connection.checked_sub(self.exchanging.responders) else {
            if !is_served {
                return Step::Broken;
            }
            self.respond(connection, &answer.body, out);
            return Step::Continued;
        };
        if !is_served {
            return Step::Refused(slot);
        }
        if wire::first_id(wire::popped(&answer.body)).is_some() {
            return Step::Finished(slot);
        }
        out.extend_from_slice(&self.requests[slot].pop);
        Step::Continued
    }
}
