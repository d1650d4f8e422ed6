//! One consumer group's place in one ring: cursor, leases, pending redeliveries.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use hashbrown::HashMap;

use super::waiters::WaiterNumber;
use crate::model::Moment;

/// A message that was delivered and not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) deadline: Moment,
    pub(super) attempts: u32,
    /// Number of the delivery, unique in its ring.
    pub(super) delivery: u64,
}

#[derive(Debug)]
pub(super) struct Group {
    /// Everything below it was delivered once or is gone.
    pub(super) cursor: u64,
    /// Live messages at or above the cursor.
    pub(super) unread: u64,
    /// Messages that were dropped before this group could take them.
    pub(super) skipped: u64,
    /// Those that acknowledge at delivery never have any.
    leases: Option<Box<Leases>>,
    /// Sequence to deliveries so far, of messages that are to be given out again.
    pub(super) pending: BTreeMap<u64, u32>,
    /// Pops of this partition that are parked, oldest first.
    pub(super) waiters: BTreeSet<WaiterNumber>,
    /// Whether the ring stands in the queue's list of ready rings of this group.
    pub(super) ready: bool,
}

#[derive(Debug, Default)]
struct Leases {
    by_sequence: HashMap<u64, Lease>,
    /// Lease ends, earliest first; entries of settled leases are skipped when they surface.
    ends: BinaryHeap<Reverse<(Moment, u64, u64)>>,
}

impl Group {
    /// A group that has seen nothing from `cursor` on, where `unread` live messages are.
    pub(super) fn new(cursor: u64, unread: u64) -> Group {
        Group {
            cursor,
            unread,
            skipped: 0,
            leases: None,
            pending: BTreeMap::new(),
            waiters: BTreeSet::new(),
            ready: false,
        }
    }

    pub(super) fn lease(&self, sequence: u64) -> Option<Lease> {
        self.leases.as_ref()?.by_sequence.get(&sequence).copied()
    }

    pub(super) fn lease_count(&self) -> usize {
        let leases = self.leases.as_ref();
        leases.map_or(0, |leases| leases.by_sequence.len())
    }

    pub(super) fn add_lease(&mut self, sequence: u64, lease: Lease) {
        let leases = self.leases.get_or_insert_default();
        let before = leases.by_sequence.insert(sequence, lease);
        assert!(before.is_none(), "{sequence} was leased twice to one group");
        let end = (lease.deadline, sequence, lease.delivery);
        leases.ends.push(Reverse(end));
    }

    pub(super) fn remove_lease(&mut self, sequence: u64) -> Option<Lease> {
        let Leases { by_sequence, ends } = &mut **self.leases.as_mut()?;
        let lease = by_sequence.remove(&sequence);
        if ends.len() > 64 && ends.len() > 4 * by_sequence.len() {
            ends.retain(|Reverse(end)| is_current(by_sequence, end));
        }
        lease
    }

    /// The earliest end of a lease.
    pub(super) fn next_lease_end(&mut self) -> Option<(Moment, u64)> {
        let leases = self.leases.as_mut()?;
        while let Some(Reverse(end)) = leases.ends.peek() {
            if is_current(&leases.by_sequence, end) {
                return Some((end.0, end.1));
            }
            leases.ends.pop();
        }
        None
    }

    /// Whether this group may still want the message.
    pub(super) fn needs(&self, sequence: u64) -> bool {
        self.cursor <= sequence
            || self.lease(sequence).is_some()
            || self.pending.contains_key(&sequence)
    }

    /// Voids everything and puts the cursor at `tail`; counters and parked pops stay.
    pub(super) fn reset(&mut self, tail: u64) {
        self.cursor = tail;
        self.unread = 0;
        self.leases = None;
        self.pending = BTreeMap::new();
    }

    /// Gives back memory that leases used.
    pub(super) fn shrink(&mut self) {
        if self.lease_count() == 0 {
            self.leases = None;
        } else if let Some(leases) = &mut self.leases {
            leases.by_sequence.shrink_to_fit();
        }
    }

    /// Whether it has passed everything below `tail` and there is nothing else to say of it.
    pub(super) fn is_plain_at(&self, tail: u64) -> bool {
        // Below the tail it would still be given what comes back to another group.
        self.cursor == tail
            && self.unread == 0
            && self.skipped == 0
            && self.lease_count() == 0
            && self.pending.is_empty()
            && self.waiters.is_empty()
    }
}

fn is_current(leases: &HashMap<u64, Lease>, end: &(Moment, u64, u64)) -> bool {
    leases
        .get(&end.1)
        .is_some_and(|lease| lease.delivery == end.2)
}
