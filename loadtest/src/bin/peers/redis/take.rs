//! Taking messages that are there, in batches.

use super::push::{KEY, Kept, fill};
use super::resp::{Reply, Resp, begin, command, word};
use super::{clear, request};
use queen_loadtest::LoadError;
use queen_loadtest::load::{FILL_BATCH, Load};
use queen_loadtest::report::Report;
use queen_loadtest::run::{Slot, Step, Workload, run};

/// The group that reads the stream, and its only member.
const GROUP: &[u8] = b"load";

/// How messages are taken and settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// From a list, by `LPOP` with a count: taken is settled.
    Pop,
    /// From a stream, by `XREADGROUP`, settled by an `XACK` that is sent together with the next
    /// `XREADGROUP`.
    ReadAndAck,
}

/// Takes of `batch` messages; a unit of work is one, with the settling of what the one before it took.
/// The run must be of a number of units: so many messages are there at its start.
pub(crate) fn take(load: &Load, batch: u32, taking: Taking) -> Result<Report, LoadError> {
    let filling = load.filling(batch)?;
    clear(load.address)?;
    let kept = match taking {
        Taking::Pop => Kept::List,
        Taking::ReadAndAck => Kept::Stream,
    };
    fill(&filling, FILL_BATCH as usize, kept)?.clean()?;
    let count = batch.to_string();
    let mut text = Vec::new();
    match taking {
        Taking::Pop => command(&[b"LPOP", KEY, count.as_bytes()], &mut text),
        Taking::ReadAndAck => {
            request(
                load.address,
                &[b"XGROUP", b"CREATE", KEY, GROUP, b"0"],
                |_| (),
            )?;
            let words: [&[u8]; 9] = [
                b"XREADGROUP",
                b"GROUP",
                GROUP,
                GROUP,
                b"COUNT",
                count.as_bytes(),
                b"STREAMS",
                KEY,
                b">",
            ];
            command(&words, &mut text);
        }
    }
    let mut work = Take {
        text,
        batch: batch as usize,
        taking,
        acks: vec![Vec::new(); load.connections],
    };
    run(&load.taking(), &mut work)
}

struct Take {
    text: Vec<u8>,
    batch: usize,
    taking: Taking,
    /// The acknowledgement that each connection sends with its next take.
    acks: Vec<Vec<u8>>,
}

impl Take {
    /// Writes the acknowledgement of what a reply of `XREADGROUP` holds; the number of entries.
    fn settle(&mut self, connection: usize, reply: Reply<'_>) -> Option<usize> {
        let stream = reply.items()?.next()?;
        let entries = stream.items()?.nth(1)?.items()?;
        let count = entries.len();
        let ack = &mut self.acks[connection];
        begin(3 + count, ack);
        word(b"XACK", ack);
        word(KEY, ack);
        word(GROUP, ack);
        for entry in entries {
            word(entry.items()?.next()?.bulk()?, ack);
        }
        Some(count)
    }
}

impl Workload for Take {
    type Protocol = Resp;

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        out.append(&mut self.acks[slot.connection]);
        out.extend_from_slice(&self.text);
    }

    fn answered(&mut self, connection: usize, reply: &Reply<'_>, _: &mut Vec<u8>) -> Step {
        let taken = match (self.taking, *reply) {
            (Taking::ReadAndAck, Reply::Integer(acked)) => {
                let all = usize::try_from(acked).is_ok_and(|acked| acked == self.batch);
                return if all { Step::Continued } else { Step::Broken };
            }
            (Taking::ReadAndAck, reply) => self.settle(connection, reply),
            (Taking::Pop, reply) => reply.items().map(|items| items.len()),
        };
        if taken == Some(self.batch) {
            Step::Finished(connection)
        } else {
            Step::Refused(connection)
        }
    }
}
