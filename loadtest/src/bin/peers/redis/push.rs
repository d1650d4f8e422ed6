//! Batches of messages that nobody takes.

use super::clear;
use super::resp::{Reply, Resp, begin, command, word};
use queen_loadtest::LoadError;
use queen_loadtest::load::Load;
use queen_loadtest::report::Report;
use queen_loadtest::run::{Slot, Step, Workload, run};
use queen_loadtest::wire;

/// What messages are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// A list: one `RPUSH` of all.
    List,
    /// A stream: one `XADD` for each, sent together.
    Stream,
}

/// The key of what is pushed; [`clear`] has removed it before.
pub(super) const KEY: &[u8] = b"load-messages";

/// The field of a stream's entry that holds the payload.
const FIELD: &[u8] = b"d";

/// Batches of `batch` messages, all of which are kept; a unit of work is one batch.
pub(crate) fn push(load: &Load, batch: usize, kept: Kept) -> Result<Report, LoadError> {
    clear(load.address)?;
    fill(load, batch, kept)
}

/// The same beside what is there already.
pub(super) fn fill(load: &Load, batch: usize, kept: Kept) -> Result<Report, LoadError> {
    assert!(batch > 0, "a batch has a message");
    let payload = wire::stamped_payload(load.payload_bytes);
    let mut text = Vec::new();
    match kept {
        Kept::List => {
            begin(2 + batch, &mut text);
            word(b"RPUSH", &mut text);
            word(KEY, &mut text);
            for _ in 0..batch {
                word(payload.as_bytes(), &mut text);
            }
        }
        Kept::Stream => {
            for _ in 0..batch {
                command(&[b"XADD", KEY, b"*", FIELD, payload.as_bytes()], &mut text);
            }
        }
    }
    let replies_per_unit = match kept {
        Kept::List => 1,
        Kept::Stream => batch,
    };
    let mut work = Push {
        text,
        replies_per_unit,
        missing: vec![0; load.connections],
    };
    run(&load.in_turn(), &mut work)
}

struct Push {
    text: Vec<u8>,
    replies_per_unit: usize,
    /// Replies that each connection waits for.
    missing: Vec<usize>,
}

impl Workload for Push {
    type Protocol = Resp;

    fn begin(&mut self, slot: Slot, _: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.text);
        self.missing[slot.connection] = self.replies_per_unit;
    }

    fn answered(&mut self, connection: usize, reply: &Reply<'_>, _: &mut Vec<u8>) -> Step {
        // One that is not kept makes the whole run worthless.
        if !matches!(reply, Reply::Integer(_) | Reply::Bulk(_)) {
            return Step::Broken;
        }
        self.missing[connection] -= 1;
        if self.missing[connection] == 0 {
            Step::Finished(connection)
        } else {
            Step::Continued
        }
    }
}
