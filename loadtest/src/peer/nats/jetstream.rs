//! JetStream: streams kept in memory, of which a consumer takes what it acknowledges.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::wire::{self, NatsWire, Said, read_said};
use crate::LoadError;
use crate::pace::Extent;
use crate::peer::ANSWER_TIMEOUT;
use crate::protocol::Protocol;
use crate::report::Report;
use crate::run::{Slot, Step, Workload, run};
use crate::scenario::Load;

/// The stream, its subject, and the consumer that takes from it.
const STREAM: &str = "load";
const SUBJECT: &str = "load-messages";
const CONSUMER: &str = "takers";

/// Messages of one batch while the stream is filled.
const FILL_BATCH: u64 = 100;

/// Connections that fill it.
const FILL_CONNECTIONS: usize = 8;

/// What settles a message.
const ACK: &[u8] = b"+ACK";

/// The code of the server for a stream that is not there.
const STREAM_NOT_FOUND: &str = "\"err_code\":10059";

/// Batches of `batch` messages, all of which are kept; a unit of work is one batch, sent together, until
/// the last of its messages was confirmed.
pub fn push(load: &Load, batch: usize) -> Result<Report, LoadError> {
    create_stream(load.address)?;
    fill(load, batch)
}

/// Takes of `batch` messages; a unit of work is one, with the acknowledgement of each message of the
/// one before it. The run must be of a number of units: so many messages are there at its start.
pub fn take(load: &Load, batch: u32) -> Result<Report, LoadError> {
    let Extent::Units(units) = load.extent else {
        return Err(LoadError::text("a number of units must be given"));
    };
    create_stream(load.address)?;
    let filling = Load {
        connections: FILL_CONNECTIONS,
        extent: Extent::Units((units * u64::from(batch)).div_ceil(FILL_BATCH)),
        warmup: Duration::ZERO,
        ..load.clone()
    };
    fill(&filling, FILL_BATCH as usize)?;
    let config = format!(
        r#"{{"stream_name":"{STREAM}","config":{{"durable_name":"{CONSUMER}","ack_policy":"explicit","max_ack_pending":-1,"mem_storage":true}}}}"#
    );
    let subject = format!("$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}");
    request(load.address, &subject, &config)?;
    let mut plan = load.plan(0).in_turn();
    // Whatever is taken before the measured part was to be measured.
    plan.warmup = Duration::ZERO;
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
    run(&plan, &mut work)
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
    run(&load.plan(0).in_turn(), &mut work)
}

/// Where a connection is answered.
fn inbox(connection: usize) -> String {
    format!("_INBOX.load.{connection}")
}

/// Makes the stream, empty.
fn create_stream(address: SocketAddr) -> Result<(), LoadError> {
    let deleted = request(address, &format!("$JS.API.STREAM.DELETE.{STREAM}"), "");
    match deleted {
        Err(LoadError::Refused(refused)) if refused.body.contains(STREAM_NOT_FOUND) => {}
        outcome => outcome?,
    }
    let config = format!(
        r#"{{"name":"{STREAM}","subjects":["{SUBJECT}"],"storage":"memory","retention":"limits","num_replicas":1}}"#
    );
    request(address, &format!("$JS.API.STREAM.CREATE.{STREAM}"), &config)
}

/// Sends one request on a connection of its own; an error of the server is one.
fn request(address: SocketAddr, subject: &str, body: &str) -> Result<(), LoadError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut text = Vec::new();
    wire::connect(&mut text);
    wire::subscribe(&inbox(0), None, 1, &mut text);
    wire::publish(
        subject.as_bytes(),
        Some(inbox(0).as_bytes()),
        body.as_bytes(),
        &mut text,
    );
    stream.write_all(&text)?;
    let mut received = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(LoadError::Closed);
        }
        received.extend_from_slice(&part[..count]);
        while let Some((said, length)) = read_said(&received)? {
            if matches!(said, Said::Error(_)) || is_refusal(&said) {
                return Err(NatsWire::refused(&said).into());
            }
            if matches!(said, Said::Message(_)) {
                return Ok(());
            }
            received.drain(..length);
        }
    }
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
