//! The consumer groups of a queue: an append-only list with a version.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use smallvec::SmallVec;

use super::lock;
use crate::limits;
use crate::model::{QUEUE_MODE_GROUP, Refusal};

/// What all cores share of one group of a queue: where pops that name no partition find something.
///
/// Whoever waits counts itself and then looks at the shards' marks; whoever has something sets its
/// mark and then looks whether anybody waits. Both in one total order, so that one sees the other.
#[derive(Debug)]
pub struct GroupCell {
    name: Arc<str>,
    /// Shards that may have something for the group, a bit each; a shard changes its own only.
    ready: AtomicU64,
    /// Pops that name no partition, parked at the queue's home.
    waiters: AtomicU32,
    /// Shards that have told the home so, which has not heard it yet, a bit each.
    told: AtomicU64,
    /// How much each shard has, kept where a window counts it.
    available: OnceLock<Box<[AtomicU32]>>,
}

impl GroupCell {
    fn new(name: Arc<str>) -> GroupCell {
        GroupCell {
            name,
            ready: AtomicU64::new(0),
            waiters: AtomicU32::new(0),
            told: AtomicU64::new(0),
            available: OnceLock::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Says whether shard `shard` has something.
    pub fn set_ready(&self, shard: u16, ready: bool) {
        let bit = 1 << shard;
        if ready {
            self.ready.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.ready.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// The shards that may have something, a bit each.
    pub fn ready(&self) -> u64 {
        self.ready.load(Ordering::SeqCst)
    }

    /// Says how much shard `shard` of `shards` has; what it said before.
    pub fn set_available(&self, shard: u16, shards: u16, count: u32) -> u32 {
        let all = self
            .available
            .get_or_init(|| (0..shards).map(|_| AtomicU32::new(0)).collect());
        let before = all[usize::from(shard)].swap(count, Ordering::SeqCst);
        self.set_ready(shard, count > 0);
        before
    }

    /// How much the shards but `shard` have, as far as they said.
    pub fn available_elsewhere(&self, shard: u16) -> usize {
        let all = self.available.get().map_or(&[][..], |all| all);
        let others = all.iter().enumerate();
        others
            .filter(|(other, _)| *other != usize::from(shard))
            .map(|(_, count)| count.load(Ordering::SeqCst) as usize)
            .sum()
    }

    /// What `shards`, a bit each, have is being taken: it counts for nobody else until they say anew.
    pub fn forget_available(&self, shards: u64) {
        let all = self.available.get().map_or(&[][..], |all| all);
        for (_, count) in (0..).zip(all).filter(|(at, _)| shards & (1 << at) != 0) {
            count.store(0, Ordering::SeqCst);
        }
    }

    /// Whether shard `shard` has to tell the home that it has something: not while the last word of it
    /// is on its way.
    pub fn tell(&self, shard: u16) -> bool {
        let bit = 1 << shard;
        self.told.fetch_or(bit, Ordering::SeqCst) & bit == 0
    }

    /// The home has heard shard `shard`, and looks at its mark afterwards.
    pub fn hear(&self, shard: u16) {
        self.told.fetch_and(!(1 << shard), Ordering::SeqCst);
    }

    /// Counts a pop that parks at the home.
    pub fn add_waiter(&self) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a pop that no longer parks.
    pub fn remove_waiter(&self) {
        let before = self.waiters.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "no waiter to remove");
    }

    /// Whether a pop is parked at the home.
    pub fn is_awaited(&self) -> bool {
        self.waiters.load(Ordering::SeqCst) > 0
    }
}

/// The name of a group; most queues have the same one and no other.
fn shared_name(name: &str) -> Arc<str> {
    static QUEUE_MODE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(QUEUE_MODE_GROUP));
    if name == QUEUE_MODE_GROUP {
        return Arc::clone(&QUEUE_MODE);
    }
    Arc::from(name)
}

/// Groups in the order of registration. A group is known to the rings by its position.
#[derive(Debug, Default)]
pub(super) struct GroupList {
    /// Length of the list: a core that has seen this many has seen all.
    version: AtomicU32,
    cells: Mutex<SmallVec<[Arc<GroupCell>; 1]>>,
}

impl GroupList {
    /// How many names there are.
    pub(super) fn version(&self) -> u32 {
        self.version.load(Ordering::SeqCst)
    }

    /// The groups from position `from` on.
    pub(super) fn since(&self, from: u32) -> Vec<Arc<GroupCell>> {
        lock(&self.cells)[from as usize..].to_vec()
    }

    /// The group's position, appended if it is new; refused past [`limits::GROUPS_MAX`]. Every one
    /// of `shards` (a bit each) may have something for a new group, until it says otherwise.
    pub(super) fn register(&self, name: &str, shards: &AtomicU64) -> Result<u32, Refusal> {
        let mut cells = lock(&self.cells);
        if let Some(position) = cells.iter().position(|known| &*known.name == name) {
            return Ok(position as u32);
        }
        if cells.len() >= limits::GROUPS_MAX {
            return Err(Refusal::QuotaExceeded {
                text: "the queue has 4096 consumer groups, the most it can have; \
                       reuse one or delete the queue",
            });
        }
        let cell = Arc::new(GroupCell::new(shared_name(name)));
        cells.push(Arc::clone(&cell));
        self.version.store(cells.len() as u32, Ordering::SeqCst);
        // In this order, and a shard the other way round: it enters itself, then looks at the list.
        // One of the two sees the other.
        let shards = shards.load(Ordering::SeqCst);
        cell.ready.fetch_or(shards, Ordering::SeqCst);
        Ok(cells.len() as u32 - 1)
    }
}
