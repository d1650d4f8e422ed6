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
    leases: HashMap<u64, Lease>,
    /// Lease ends, earliest first; entries of settled leases are skipped when they surface.
    lease_ends: BinaryHeap<Reverse<(Moment, u64, u64)>>,
    /// Sequence to deliveries so far, of messages that are to be given out again.
    pub(super) pending: BTreeMap<u64, u32>,
    /// Pops of this partition that are parked, oldest first.
    pub(super) waiters: BTreeSet<WaiterNumber>,
    /// Whether the ring stands in the queue's list of ready rings of this group.
    pub(super) ready: bool,
}

impl Group {
    /// A group that has seen nothing from `cursor` on, where `unread` live messages are.
    pub(super) fn new(cursor: u64, unread: u64) -> Group {
        Group {
            cursor,
            unread,
            skipped: 0,
            leases: HashMap::new(),
            lease_ends: BinaryHeap::new(),
            pending: BTreeMap::new(),
            waiters: BTreeSet::new(),
            ready: false,
        }
    }

    pub(super) fn lease(&self, sequence: u64) -> Option<Lease> {
        self.leases.get(&sequence).copied()
    }

    pub(super) fn lease_count(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn add_lease(&mut self, sequence: u64, lease: Lease) {
        let before = self.leases.insert(sequence, lease);
        assert!(before.is_none(), "{sequence} was leased twice to one group");
        self.lease_ends
            .push(Reverse((lease.deadline, sequence, lease.delivery)));
    }

    pub(super) fn remove_lease(&mut self, sequence: u64) -> Option<Lease> {
        let lease = self.leases.remove(&sequence);
        if self.lease_ends.len() > 64 && self.lease_ends.len() > 4 * self.leases.len() {
            let leases = &self.leases;
            self.lease_ends
                .retain(|Reverse(end)| is_current(leases, end));
        }
        lease
    }

    /// The earliest end of a lease.
    pub(super) fn next_lease_end(&mut self) -> Option<(Moment, u64)> {
        while let Some(Reverse(end)) = self.lease_ends.peek() {
            if is_current(&self.leases, end) {
                return Some((end.0, end.1));
            }
            self.lease_ends.pop();
        }
        None
    }

    /// Whether this group may still want the message.
    pub(super) fn needs(&self, sequence: u64) -> bool {
        self.cursor <= sequence
            || self.leases.contains_key(&sequence)
            || self.pending.contains_key(&sequence)
    }

    /// Voids everything and puts the cursor at `tail`; counters and parked pops stay.
    pub(super) fn reset(&mut self, tail: u64) {
        self.cursor = tail;
        self.unread = 0;
        self.leases = HashMap::new();
        self.lease_ends = BinaryHeap::new();
        self.pending = BTreeMap::new();
    }

    /// Gives back memory that leases used.
    pub(super) fn shrink(&mut self) {
        self.leases.shrink_to_fit();
        if self.leases.is_empty() {
            self.lease_ends = BinaryHeap::new();
        }
    }
}

fn is_current(leases: &HashMap<u64, Lease>, end: &(Moment, u64, u64)) -> bool {
    leases
        .get(&end.1)
        .is_some_and(|lease| lease.delivery == end.2)
}
