//! The lingering messages of one shard, bounded together.

use std::collections::VecDeque;

use super::queue::RingRef;
use super::slots::LingerTotal;

/// A message that lingers.
#[derive(Clone, Copy, Debug)]
pub(super) struct LingerEntry {
    pub(super) ring: RingRef,
    pub(super) sequence: u64,
}

/// First in, first out over all rings of the shard.
#[derive(Debug)]
pub(super) struct Linger {
    entries: VecDeque<LingerEntry>,
    total: LingerTotal,
    cap_bytes: u64,
}

impl Linger {
    pub(super) fn new(cap_bytes: u64) -> Linger {
        Linger {
            entries: VecDeque::new(),
            total: LingerTotal::default(),
            cap_bytes,
        }
    }

    pub(super) fn push(&mut self, entry: LingerEntry) {
        self.entries.push_back(entry);
    }

    /// Follows what one ring's lingering messages cost before and after an operation.
    pub(super) fn account(&mut self, before: LingerTotal, after: LingerTotal) {
        self.total.messages = self.total.messages - before.messages + after.messages;
        self.total.bytes = self.total.bytes - before.bytes + after.bytes;
    }

    pub(super) fn total(&self) -> LingerTotal {
        self.total
    }

    /// The entry whose ring has to let go of its oldest lingering message, if the cap is exceeded.
    pub(super) fn pop_excess(&mut self) -> Option<LingerEntry> {
        if self.total.bytes > self.cap_bytes {
            self.entries.pop_front()
        } else {
            None
        }
    }

    /// Drops entries whose message no longer lingers, when they are the most.
    pub(super) fn compact(&mut self, mut lingers: impl FnMut(&LingerEntry) -> bool) {
        if self.entries.len() as u64 > 2 * self.total.messages + 64 {
            self.entries.retain(|entry| lingers(entry));
        }
    }
}
