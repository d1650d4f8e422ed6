//! Request and reply: a request names the subject of its answer, and the members of a group of
//! subscribers share the requests.

use super::opening::Opening;
use super::wire::{self, Message, NatsWire, Said};
use queen_loadtest::LoadError;
use queen_loadtest::load::{Load, run_name};
use queen_loadtest::report::Report;
use queen_loadtest::run::{Slot, Step, Workload, run};

/// The number of a subscription; each connection has one.
const SUBSCRIPTION: usize = 1;

/// Requesters are the scheduled connections, each with as many requests under way as the depth says:
/// the subject of an answer says which it answers. A unit of work is one request with its reply.
pub(crate) fn request_reply(load: &Load, responders: usize) -> Result<Report, LoadError> {
    let run_name = run_name();
    let subject = format!("load-{run_name}");
    let inbox = format!("_INBOX.{run_name}");
    let payload = vec![b'x'; load.payload_bytes];
    let requests = (0..load.connections * load.depth).map(|slot| {
        let connection = Slot::spread(slot, responders, load.connections).connection;
        let reply = format!("{inbox}.{connection}.{slot}");
        let mut request = Vec::new();
        wire::publish(
            subject.as_bytes(),
            Some(reply.as_bytes()),
            &payload,
            &mut request,
        );
        request
    });
    let mut work = RequestReply {
        requests: requests.collect(),
        opening: Opening::new(responders, load.connections),
        responders,
        subject,
        inbox,
        payload: payload.clone(),
    };
    run(load, &mut work)
}

struct RequestReply {
    /// What each slot sends.
    requests: Vec<Vec<u8>>,
    opening: Opening,
    responders: usize,
    /// Of the requests.
    subject: String,
    /// The beginning of the subjects of all answers.
    inbox: String,
    payload: Vec<u8>,
}

/// The slot that an answer is for: the last part of its subject.
fn slot_of(message: &Message<'_>) -> Option<usize> {
    let dot = memchr::memrchr(b'.', message.subject)?;
    let number = std::str::from_utf8(&message.subject[dot + 1..]).ok()?;
    number.parse().ok()
}

impl Workload for RequestReply {
    type Protocol = NatsWire;

    fn standing(&self) -> usize {
        self.responders
    }

    fn stand(&mut self, _: usize, out: &mut Vec<u8>) {
        Opening::listen(out, |out| {
            wire::subscribe(&self.subject, Some("responders"), SUBSCRIPTION, out);
        });
    }

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        let Slot { index, connection } = slot;
        let inbox = &self.inbox;
        self.opening
            .send(connection, &self.requests[index], out, |out| {
                let answers = format!("{inbox}.{connection}.*");
                wire::subscribe(&answers, None, SUBSCRIPTION, out);
            });
    }

    fn answered(&mut self, connection: usize, said: &Said<'_>, out: &mut Vec<u8>) -> Step {
        let Said::Message(message) = said else {
            return self.opening.heard(connection, said, out);
        };
        if connection < self.responders {
            let Some(reply) = message.reply else {
                return Step::Broken;
            };
            wire::publish(reply, None, &self.payload, out);
            return Step::Continued;
        }
        match slot_of(message) {
            // A status instead of an answer: nobody listens.
            Some(slot) if !message.headers.is_empty() => Step::Refused(slot),
            Some(slot) => Step::Finished(slot),
            None => Step::Broken,
        }
    }
}
