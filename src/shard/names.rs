//! The queues of a shard by name.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, Equivalent, HashTable};

use crate::directory::QueueCell;
use crate::model::TenantId;

/// A queue's name in the shard's table; can be asked by the borrowed form below.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueName(pub(super) TenantId, pub(super) Arc<str>);

#[derive(Hash)]
pub(super) struct NameRef<'a>(pub(super) TenantId, pub(super) &'a str);

impl Equivalent<QueueName> for NameRef<'_> {
    fn equivalent(&self, key: &QueueName) -> bool {
        self.0 == key.0 && self.1 == key.1.as_ref()
    }
}

/// Where a queue stands: among those that are awake or among those at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

const RESTING: u32 = 1 << 31;

impl Place {
    pub(super) fn awake(key: u32) -> Place {
        assert!(key < RESTING);
        Place(key)
    }

    pub(super) fn resting(key: u32) -> Place {
        assert!(key < RESTING);
        Place(key | RESTING)
    }

    pub(super) fn key(self) -> Key {
        if self.0 < RESTING {
            Key::Awake(self.0)
        } else {
            Key::Resting(self.0 & !RESTING)
        }
    }
}

pub(super) enum Key {
    Awake(u32),
    Resting(u32),
}

/// The queues of a shard by name. The names stand in the cells: an entry is as small as it can be.
#[derive(Debug, Default)]
pub(super) struct Names {
    entries: HashTable<NameEntry>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameEntry {
    /// A part of the name's hash, so that the table grows without a look at the names.
    hash: u32,
    place: Place,
}

const _: () = assert!(size_of::<NameEntry>() == 8);

/// Names that the table keeps room for whatever it holds.
const NAMES_KEPT: usize = 1_024;

/// What the table goes by, from what an entry keeps: Fibonacci hashing.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl NameEntry {
    fn spread_hash(&self) -> u64 {
        spread(self.hash)
    }
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn hash(&self, name: NameRef<'_>) -> u32 {
        (self.hasher.hash_one(name) >> 32) as u32
    }

    fn hash_of(&self, cell: &QueueCell) -> u32 {
        self.hash(NameRef(cell.tenant().id(), cell.name()))
    }

    /// The place of a queue; `cell_at` is what stands there.
    pub(super) fn find<'a>(
        &self,
        (tenant, name): (TenantId, &str),
        cell_at: impl Fn(Place) -> &'a QueueCell,
    ) -> Option<Place> {
        let hash = self.hash(NameRef(tenant, name));
        let is_it = |entry: &NameEntry| {
            entry.hash == hash && {
                let cell = cell_at(entry.place);
                **cell.name() == *name && cell.tenant().id() == tenant
            }
        };
        let entry = self.entries.find(spread(hash), is_it)?;
        Some(entry.place)
    }

    /// Whether the queue is known to stand there.
    pub(super) fn has(&self, cell: &QueueCell, place: Place) -> bool {
        let entry = NameEntry {
            hash: self.hash_of(cell),
            place,
        };
        let found = self
            .entries
            .find(entry.spread_hash(), |known| *known == entry);
        found.is_some()
    }

    /// Enters a queue whose name is not there.
    pub(super) fn insert(&mut self, cell: &QueueCell, place: Place) {
        let hash = self.hash_of(cell);
        let entry = NameEntry { hash, place };
        self.entries
            .insert_unique(entry.spread_hash(), entry, NameEntry::spread_hash);
    }

    pub(super) fn remove(&mut self, cell: &QueueCell, place: Place) {
        let entry = NameEntry {
            hash: self.hash_of(cell),
            place,
        };
        let found = self
            .entries
            .find_entry(entry.spread_hash(), |known| *known == entry);
        found.expect("the queue stands there").remove();
        if self.entries.len() * 8 < self.entries.capacity() && self.entries.capacity() > NAMES_KEPT
        {
            let wanted = self.entries.len() * 2;
            self.entries.shrink_to(wanted, NameEntry::spread_hash);
        }
    }

    /// The queue has moved.
    pub(super) fn replace(&mut self, cell: &QueueCell, before: Place, after: Place) {
        let hash = self.hash_of(cell);
        let entry = NameEntry {
            hash,
            place: before,
        };
        let found = self
            .entries
            .find_mut(entry.spread_hash(), |known| *known == entry);
        found.expect("the queue stands there").place = after;
    }
}
