//! What one shard knows of one queue.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::partitions::Partitions;
use super::waiters::WaiterNumber;
use crate::directory::{GroupCell, QueueCell};
use crate::model::{EffectiveOptions, Moment, QueueRef, WindowBuffer};

/// A ring's key in the shard's table, and its serial number: the key may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RingRef {
    pub(super) key: u32,
    pub(super) serial: u32,
}

/// A group of the queue, as pops without partition see it.
#[derive(Debug)]
pub(super) struct QueueGroup {
    pub(super) cell: Arc<GroupCell>,
    /// Rings that may have something for the group, served round robin. A ring stands here exactly
    /// when its `ready` flag is set; entries of collected rings are skipped.
    pub(super) ready: VecDeque<RingRef>,
    /// How many entries of `ready` are of collected rings.
    pub(super) stale: u32,
    /// Parked pops without partition, oldest first. Only the queue's home has any.
    pub(super) waiters: BTreeSet<WaiterNumber>,
    /// The shard that the next pop without partition takes from first.
    pub(super) next_shard: u16,
}

impl QueueGroup {
    pub(super) fn name(&self) -> &Arc<str> {
        self.cell.name()
    }
}

/// Above so many groups their names are indexed.
const INDEXED_FROM: usize = 16;

#[derive(Debug)]
pub(super) struct LocalQueue {
    pub(super) cell: Arc<QueueCell>,
    /// The shard where pops that name no partition park.
    pub(super) home: u16,
    /// The options as this shard has taken them over, and which version of the cell's they are.
    pub(super) options: EffectiveOptions,
    pub(super) configured: u32,
    pub(super) partitions: Partitions,
    pub(super) groups: SmallVec<[QueueGroup; 1]>,
    /// The groups by name, where there are many.
    group_index: Option<Box<HashMap<Arc<str>, u32>>>,
    /// Rings by the age of their oldest message, kept from the first time the queue is full and
    /// drops or expires something. A ring's entry may be older than its oldest message, never younger.
    pub(super) by_age: Option<BinaryHeap<Reverse<(Moment, RingRef)>>>,
    /// The moment of the queue's entry among the shard's timers.
    pub(super) armed: Option<Moment>,
    /// Whether this shard collects the queue when it is idle.
    pub(super) collects: bool,
    /// Whether it stands among the queues whose windows are to be told at the end of the turn.
    pub(super) changed: bool,
}

/// The options that a cell has now, and which version of them it is at least.
pub(super) fn options_of(cell: &QueueCell) -> (u32, EffectiveOptions) {
    // In this order: a version that is too old is noticed, one that is too new would not be.
    let version = cell.configuration_version();
    (version, cell.configuration().effective)
}

/// The life of a queue that a cell is, as shards name it to each other.
pub(super) fn life_of(cell: &QueueCell) -> QueueRef {
    QueueRef {
        tenant: cell.tenant().id(),
        name: Arc::clone(cell.name()),
        generation: cell.generation(),
    }
}

impl LocalQueue {
    pub(super) fn new(cell: Arc<QueueCell>, home: u16) -> LocalQueue {
        let (configured, options) = options_of(&cell);
        LocalQueue {
            cell,
            home,
            options,
            configured,
            partitions: Partitions::None,
            groups: SmallVec::new(),
            group_index: None,
            by_age: None,
            armed: None,
            collects: false,
            changed: false,
        }
    }

    /// As other shards are told of it.
    pub(super) fn reference(&self) -> QueueRef {
        life_of(&self.cell)
    }

    /// Whether its waiting pops gather messages.
    pub(super) fn has_window(&self) -> bool {
        self.options.window_buffer != WindowBuffer::default()
    }

    /// Its rings, in an order that depends on nothing but what happened: a run can be replayed.
    pub(super) fn rings(&self) -> Vec<u32> {
        let mut rings: Vec<u32> = self.partitions.rings().collect();
        rings.sort_unstable();
        rings
    }

    /// Lets the rings by age go when collected rings and messages that were given back have left
    /// most of the entries; the rings are entered anew when they are asked for.
    pub(super) fn bound_by_age(&mut self) {
        let entries = self.by_age.as_ref().map_or(0, BinaryHeap::len);
        if entries > 2 * self.partitions.len() + 64 {
            self.by_age = None;
        }
    }

    /// The position of a group that this shard has seen.
    pub(super) fn group(&self, name: &str) -> Option<u32> {
        if let Some(index) = &self.group_index {
            return index.get(name).copied();
        }
        self.groups
            .iter()
            .position(|group| &**group.name() == name)
            .map(|at| at as u32)
    }

    /// Learns the groups that were registered since.
    pub(super) fn sync_groups(&mut self) {
        if self.cell.group_version() as usize == self.groups.len() {
            return;
        }
        for cell in self.cell.groups_since(self.groups.len() as u32) {
            self.groups.push(QueueGroup {
                cell,
                ready: VecDeque::new(),
                stale: 0,
                waiters: BTreeSet::new(),
                next_shard: 0,
            });
        }
        if self.groups.len() > INDEXED_FROM {
            let index = self.group_index.get_or_insert_default();
            for (position, group) in self.groups.iter().enumerate().skip(index.len()) {
                index.insert(Arc::clone(group.name()), position as u32);
            }
        }
    }
}
