//! Request and reply over inbox queues that nobody declared. A requester mints an inbox, names it in
//! its request and parks on it; a responder pops requests and pushes each answer into its inbox.

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
pub struct Inboxes {
    /// Connections that answer requests.
    pub responders: usize,
    /// Requests that name one inbox before the requester mints the next.
    pub requests_per_inbox: u64,
    /// A push and the pop that follows it are sent together.
    pub pipelined: bool,
}

/// Requesters are the scheduled connections. A unit of work is one request with its reply.
pub fn inboxes(load: &Load, inboxes: Inboxes) -> Result<Report, LoadError> {
    assert!(
        inboxes.responders >= load.queues,
        "every queue has a responder"
    );
    assert!(inboxes.requests_per_inbox > 0, "an inbox is used");
    load.with_queues("{}", |queues| {
        let mut polls = Vec::new();
        for queue in queues {
            let mut poll = Vec::new();
            wire::pop(queue, PARK, &mut poll);
            polls.push(poll);
        }
        let run_name = run_name();
        let requesters = (0..load.connections)
            .map(|index| Requester {
                name: format!("inbox-{run_name}-{index}"),
                requests: 0,
                inbox: String::new(),
                parked: false,
            })
            .collect();
        let mut exchange = Exchange {
            queues: queues.to_vec(),
            polls,
            responders: vec![false; inboxes.responders],
            requesters,
            requests_per_inbox: inboxes.requests_per_inbox,
            pipelined: inboxes.pipelined,
            payload_bytes: load.payload_bytes,
            payload: Vec::new(),
        };
        run(&load.in_turn(), &mut exchange)
    })
}

const PARK: PopMode = PopMode {
    wait_ms: Some(PARK_MS),
    auto_ack: true,
};

struct Exchange {
    /// The queues of requests.
    queues: Vec<String>,
    /// A waiting pop of each.
    polls: Vec<Vec<u8>>,
    /// Whether each responder is sending a reply; else it is parked.
    responders: Vec<bool>,
    requesters: Vec<Requester>,
    requests_per_inbox: u64,
    pipelined: bool,
    payload_bytes: usize,
    payload: Vec<u8>,
}

struct Requester {
    name: String,
    requests: u64,
    inbox: String,
    /// Whether it waits for the reply; else for the answer to its push.
    parked: bool,
}

impl Exchange {
    fn responder_answered(
        &mut self,
        connection: usize,
        response: &Response<'_>,
        out: &mut Vec<u8>,
    ) -> Step {
        let poll = connection % self.polls.len();
        let expected = if self.responders[connection] {
            201
        } else {
            200
        };
        if response.status != expected {
            return Step::Broken;
        }
        let was_replying = std::mem::take(&mut self.responders[connection]);
        if was_replying && self.pipelined {
            return Step::Continued;
        }
        match wire::text_member(&response.body, wire::INBOX_KEY) {
            Some(inbox) if !was_replying => {
                self.responders[connection] = true;
                wire::inbox_payload(inbox, self.payload_bytes, &mut self.payload);
                wire::push(inbox, &self.payload, out);
                if self.pipelined {
                    out.extend_from_slice(&self.polls[poll]);
                }
            }
            _ => out.extend_from_slice(&self.polls[poll]),
        }
        Step::Continued
    }
}

impl Workload for Exchange {
    type Protocol = Http;

    fn standing(&self) -> usize {
        self.responders.len()
    }

    fn stand(&mut self, connection: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.polls[connection % self.polls.len()]);
    }

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        let requester = &mut self.requesters[slot.index];
        if requester.requests.is_multiple_of(self.requests_per_inbox) {
            let number = requester.requests / self.requests_per_inbox;
            requester.inbox = format!("{}-{number}", requester.name);
        }
        requester.requests += 1;
        requester.parked = false;
        let inbox = std::mem::take(&mut requester.inbox);
        wire::inbox_payload(&inbox, self.payload_bytes, &mut self.payload);
        self.requesters[slot.index].inbox = inbox;
        let queue = &self.queues[slot.index % self.queues.len()];
        wire::push(queue, &self.payload, out);
        if self.pipelined {
            wire::pop(&self.requesters[slot.index].inbox, PARK, out);
        }
    }

    fn answered(&mut self, connection: usize, answer: &Response<'_>, out: &mut Vec<u8>) -> Step {
        let Some(slot) = connection.checked_sub(self.responders.len()) else {
            return self.responder_answered(connection, answer, out);
        };
        let requester = &mut self.requesters[slot];
        match (requester.parked, answer.status) {
            (false, 201) if self.pipelined => {
                requester.parked = true;
                return Step::Continued;
            }
            (false, 201) => {}
            (true, 200) if wire::first_id(&answer.body).is_some() => return Step::Finished(slot),
            // The wait ended before the reply came.
            (true, 200) => {}
            _ => return Step::Refused(slot),
        }
        requester.parked = true;
        wire::pop(&requester.inbox, PARK, out);
        Step::Continued
    }
}
