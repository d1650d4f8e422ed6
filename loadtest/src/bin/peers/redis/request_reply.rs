//! Request and reply over lists: a requester appends to the list of requests and waits at a list of
//! its own that the request names; a responder waits at the list of requests.

use super::resp::{Reply, Resp, command};
use super::{blocking_pop, clear};
use queen_loadtest::LoadError;
use queen_loadtest::load::{Load, run_name};
use queen_loadtest::report::Report;
use queen_loadtest::run::{Slot, Step, Workload, run};
use queen_loadtest::wire;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Responders {
    /// Connections that answer requests.
    pub(crate) connections: usize,
    /// Requests that each takes at once, at most: 1 by `BLPOP`, more by `BLMPOP`.
    pub(crate) batch: u32,
}

/// Requesters are the scheduled connections. A unit of work is one request with its reply.
pub(crate) fn request_reply(load: &Load, responders: Responders) -> Result<Report, LoadError> {
    clear(load.address)?;
    let run_name = run_name();
    let list = format!("load-{run_name}");
    let mut take = Vec::new();
    match responders.batch {
        1 => blocking_pop(&list, &mut take),
        batch => {
            let (list, batch) = (list.as_bytes(), batch.to_string());
            let words: [&[u8]; 7] = [
                b"BLMPOP",
                b"0",
                b"1",
                list,
                b"LEFT",
                b"COUNT",
                batch.as_bytes(),
            ];
            command(&words, &mut take);
        }
    }
    let mut payload = Vec::new();
    let requests = (0..load.connections).map(|index| {
        let inbox = format!("inbox-{run_name}-{index}");
        wire::inbox_payload(&inbox, load.payload_bytes, &mut payload);
        let mut request = Vec::new();
        command(&[b"RPUSH", list.as_bytes(), &payload], &mut request);
        blocking_pop(&inbox, &mut request);
        request
    });
    let mut work = RequestReply {
        requests: requests.collect(),
        take,
        responders,
        payload_bytes: load.payload_bytes,
        payload: Vec::new(),
    };
    run(&load.in_turn(), &mut work)
}

struct RequestReply {
    /// What each requester sends.
    requests: Vec<Vec<u8>>,
    /// What a responder waits with.
    take: Vec<u8>,
    responders: Responders,
    payload_bytes: usize,
    payload: Vec<u8>,
}

impl RequestReply {
    /// Answers what was taken, and takes the next.
    fn respond(&mut self, reply: Reply<'_>, out: &mut Vec<u8>) -> Step {
        let taken = match reply {
            // The length of a list that a reply was appended to.
            Reply::Integer(_) => return Step::Continued,
            Reply::Array(mut items) => items.nth(1),
            _ => None,
        };
        let answered = match taken {
            Some(Reply::Bulk(request)) => self.answer([request], out),
            Some(Reply::Array(requests)) => self.answer(requests.filter_map(Reply::bulk), out),
            _ => None,
        };
        if answered.is_none() {
            return Step::Broken;
        }
        out.extend_from_slice(&self.take);
        Step::Continued
    }

    /// Answers each at the inbox that it names.
    fn answer<'a>(
        &mut self,
        requests: impl IntoIterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        for request in requests {
            let inbox = wire::text_member(request, wire::INBOX_KEY)?;
            wire::inbox_payload(inbox, self.payload_bytes, &mut self.payload);
            command(&[b"RPUSH", inbox.as_bytes(), &self.payload], out);
        }
        Some(())
    }
}

impl Workload for RequestReply {
    type Protocol = Resp;

    fn standing(&self) -> usize {
        self.responders.connections
    }

    fn stand(&mut self, _: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.take);
    }

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.requests[slot.index]);
    }

    fn answered(&mut self, connection: usize, reply: &Reply<'_>, out: &mut Vec<u8>) -> Step {
        let Some(slot) = connection.checked_sub(self.responders.connections) else {
            return self.respond(*reply, out);
        };
        match reply {
            Reply::Integer(_) => Step::Continued,
            Reply::Array(_) => Step::Finished(slot),
            _ => Step::Refused(slot),
        }
    }
}
