//! What a ring remembers of messages that it dropped.
//!
//! A group that passed a message by `autoAck` may give it back after the message was dropped for the
//! groups that had not: it must neither come back nor count as dropped once more.

use std::collections::BTreeSet;

use crate::limits;

/// Sequence numbers of messages that count as dropped.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    sequences: BTreeSet<u64>,
    /// Everything below it counts as dropped: too long ago to be told apart.
    forgotten_below: u64,
}

impl Dropped {
    pub(super) fn note(&mut self, sequence: u64) {
        self.sequences.insert(sequence);
        if self.sequences.len() > limits::DROPPED_REMEMBERED_MAX
            && let Some(oldest) = self.sequences.pop_first()
        {
            self.forgotten_below = self.forgotten_below.max(oldest + 1);
        }
    }

    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.sequences.is_empty() && self.forgotten_below == 0
    }

    pub(super) fn contains(&self, sequence: u64) -> bool {
        sequence < self.forgotten_below || self.sequences.contains(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_counts_as_dropped() {
        let mut dropped = Dropped::default();
        let last = 2 * limits::DROPPED_REMEMBERED_MAX as u64;
        for even in (0..=last).step_by(2) {
            dropped.note(even);
        }
        assert!(dropped.contains(0) && dropped.contains(2) && dropped.contains(last));
        assert!(!dropped.contains(1) && !dropped.contains(3) && !dropped.contains(last - 1));
        assert_eq!(dropped.sequences.len(), limits::DROPPED_REMEMBERED_MAX);
    }
}
