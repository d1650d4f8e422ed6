//! JetStream: streams kept in memory, of which a consumer takes what it acknowledges.

use std::net::SocketAddr;

use super::wire::{self, NatsWire, Said};
use queen_loadtest::load::{FILL_BATCH, Load};
use queen_loadtest::protocol::Protocol;
use queen_loadtest::report::Report;
use queen_loadtest::run::{Slot, Step, Workload, run};
use queen_loadtest::{LoadError, control};

/// The stream, its subject, and the consumer that takes from it.
const STREAM: &str = "load";
const SUBJECT: &str = "load-messages";
const CONSUMER: &str = "takers";

/// What settles a message.
const ACK: &[u8] = b"+ACK";

/// The code of the server for a stream that is not there.
const STREAM_NOT_FOUND: &str = "\"err_code\":10059";

/// Batches of `batch` messages, all of which are kept; a unit of work is one batch, sent together, until
/// the last of its messages was confirmed.
pub(crate) fn push(load: &Load, batch: usize) -> Result<Report, LoadError> {
    create_stream(load.address)?;
    fill(load, batch)
}

/// Takes of `batch` messages; a unit of work is one, with the acknowledgement of each message of the
/// one before it. The run must be of a number of units: so many messages are there at its start.
pub(crate) fn take(load: &Load, batch: u32) -> Result<Report, LoadError> {
    let filling = load.filling(batch)?;
    create_stream(load.address)?;
    fill(&filling, FILL_BATCH as usize)?.clean()?;
    let options = r#""ack_policy":"explicit","max_ack_pending":-1,"mem_storage":true"#;
    let config = format!(
        r#"{{"stream_name":"{STREAM}","config":{{"durable_name":"{CONSUMER}",{options}}}}}"#
    );
    let subject = format!("$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}");
    request(load.address, &subject, &config)?;
    let texts = (0..load.connections).map(|connection| {
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}");
        let asked = format!(r#"{{"batch":{batch},"expires":30000000000}}"#);
        let mut text = Vec::new();
        let reply = inbox(connection);
        wire::publish(
            subject.as_bytes(),
            Some(reply.as_bytes()),
            asked.as_bytes(),
            &mut text,
        );
        text
    });
    let mut work = Take {
        texts: texts.collect(),
        batch: batch as usize,
        connections: Connections::new(load.connections),
        acks: vec![Vec::new(); load.connections],
    };
    run(&load.taking(), &mut work)
}

fn fill(load: &Load, batch: usize) -> Result<Report, LoadError> {
    assert!(batch > 0, "a batch has a message");
    let payload = vec![b'x'; load.payload_bytes];
    let texts = (0..load.connections).map(|connection| {
        let reply = inbox(connection);
        let mut text = Vec::new();
        for _ in 0..batch {
            wire::publish(
                SUBJECT.as_bytes(),
                Some(reply.as_bytes()),
                &payload,
                &mut text,
            );
        }
        text
    });
    let mut work = Push {
        texts: texts.collect(),
        batch,
        connections: Connections::new(load.connections),
    };
    run(&load.in_turn(), &mut work)
}

/// Where a connection is answered.
fn inbox(connection: usize) -> String {
    format!("_INBOX.load.{connection}")
}

/// Makes the stream, empty.
fn create_stream(address: SocketAddr) -> Result<(), LoadError> {
    let deleted = request(address, &format!("$JS.API.STREAM.DELETE.{STREAM}"), "");
    match deleted {
        Err(LoadError::Refused(refused)) if refused.text.contains(STREAM_NOT_FOUND) => {}
        outcome => outcome?,
    }
    let options = r#""storage":"memory","retention":"limits","num_replicas":1"#;
    let config = format!(r#"{{"name":"{STREAM}","subjects":["{SUBJECT}"],{options}}}"#);
    request(address, &format!("$JS.API.STREAM.CREATE.{STREAM}"), &config)
}

/// Sends one request on a connection of its own; an error of the server is one.
fn request(address: SocketAddr, subject: &str, body: &str) -> Result<(), LoadError> {
    let mut text = Vec::new();
    wire::connect(&mut text);
    wire::subscribe(&inbox(0), None, 1, &mut text);
    wire::publish(
        subject.as_bytes(),
        Some(inbox(0).as_bytes()),
        body.as_bytes(),
        &mut text,
    );
    control::ask::<NatsWire, ()>(address, &text, |said| match said {
        Said::Error(_) => Some(Err(NatsWire::refused(said).into())),
        Said::Message(_) if is_refusal(said) => Some(Err(NatsWire::refused(said).into())),
        Said::Message(_) => Some(Ok(())),
        _ => None,
    })
}

/// Whether a message is not what was asked for but says why not.
fn is_refusal(said: &Said<'_>) -> bool {
    let Said::Message(message) = said else {
        return false;
    };
    let says_error = || memchr::memmem::find(message.payload, b"\"error\":").is_some();
    !message.headers.is_empty() || says_error()
}

/// How far each connection is.
struct Connections {
    is_open: Vec<bool>,
    /// Messages that each waits for.
    missing: Vec<usize>,
}

impl Connections {
    fn new(count: usize) -> Connections {
        Connections {
            is_open: vec![false; count],
            missing: vec![0; count],
        }
    }

    /// A unit of work begins, which `messages` messages answer.
    fn begin(&mut self, connection: usize, messages: usize, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_open[connection], true) {
            wire::connect(out);
            wire::subscribe(&inbox(connection), None, 1, out);
        }
        self.missing[connection] = messages;
    }

    fn heard(&mut self, connection: usize, said: &Said<'_>, out: &mut Vec<u8>) -> Step {
        match said {
            Said::Ping => wire::pong(out),
            Said::Info(_) | Said::Pong | Said::Ok => {}
            // One message that is not kept, or not there, makes the whole run worthless.
            Said::Error(_) => return Step::Broken,
            Said::Message(message) if !message.headers.is_empty() => return Step::Broken,
            Said::Message(_) => {
                self.missing[connection] -= 1;
                if self.missing[connection] == 0 {
                    return Step::Finished(connection);
                }
            }
        }
        Step::Continued
    }
}

struct Push {
    texts: Vec<Vec<u8>>,
    batch: usize,
    connections: Connections,
}

impl Workload for Push {
    type Protocol = NatsWire;

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        self.connections.begin(slot.connection, self.batch, out);
        out.extend_from_slice(&self.texts[slot.connection]);
    }

    fn answered(&mut self, connection: usize, said: &Said<'_>, out: &mut Vec<u8>) -> Step {
        if is_refusal(said) {
            return Step::Broken;
        }
        self.connections.heard(connection, said, out)
    }
}

struct Take {
    texts: Vec<Vec<u8>>,
    batch: usize,
    connections: Connections,
    /// The acknowledgements that each connection sends with its next take.
    acks: Vec<Vec<u8>>,
}

impl Workload for Take {
    type Protocol = NatsWire;

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        self.connections.begin(slot.connection, self.batch, out);
        out.append(&mut self.acks[slot.connection]);
        out.extend_from_slice(&self.texts[slot.connection]);
    }

    fn answered(&mut self, connection: usize, said: &Said<'_>, out: &mut Vec<u8>) -> Step {
        if let Said::Message(message) = said {
            let Some(reply) = message.reply else {
                return Step::Broken;
            };
            wire::publish(reply, None, ACK, &mut self.acks[connection]);
        }
        self.connections.heard(connection, said, out)
    }
}
