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

/// Where a queue is: among those that are awake or among those at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueKey {
    Awake(u32),
    Resting(u32),
}

/// The same in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedKey(u32);

const RESTING: u32 = 1 << 31;

impl QueueKey {
    fn pack(self) -> PackedKey {
        let (key, mark) = match self {
            QueueKey::Awake(key) => (key, 0),
            QueueKey::Resting(key) => (key, RESTING),
        };
        assert!(key < RESTING);
        PackedKey(key | mark)
    }
}

impl PackedKey {
    fn unpack(self) -> QueueKey {
        if self.0 < RESTING {
            QueueKey::Awake(self.0)
        } else {
            QueueKey::Resting(self.0 & !RESTING)
        }
    }
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
    key: PackedKey,
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

    fn entry(&self, cell: &QueueCell, key: QueueKey) -> NameEntry {
        NameEntry {
            hash: self.hash(NameRef(cell.tenant().id(), cell.name())),
            key: key.pack(),
        }
    }

    /// Where a queue is; `cell_of` is the cell of the one that is there.
    pub(super) fn find<'a>(
        &self,
        (tenant, name): (TenantId, &str),
        cell_of: impl Fn(QueueKey) -> &'a QueueCell,
    ) -> Option<QueueKey> {
        let hash = self.hash(NameRef(tenant, name));
        let is_it = |entry: &NameEntry| {
            entry.hash == hash && {
                let cell = cell_of(entry.key.unpack());
                **cell.name() == *name && cell.tenant().id() == tenant
            }
        };
        let entry = self.entries.find(spread(hash), is_it)?;
        Some(entry.key.unpack())
    }

    /// Whether the queue is known to be there.
    pub(super) fn has(&self, cell: &QueueCell, key: QueueKey) -> bool {
        let entry = self.entry(cell, key);
        let found = self
            .entries
            .find(entry.spread_hash(), |known| *known == entry);
        found.is_some()
    }

    /// Enters a queue whose name is not there.
    pub(super) fn insert(&mut self, cell: &QueueCell, key: QueueKey) {
        let entry = self.entry(cell, key);
        self.entries
            .insert_unique(entry.spread_hash(), entry, NameEntry::spread_hash);
    }

    pub(super) fn remove(&mut self, cell: &QueueCell, key: QueueKey) {
        let entry = self.entry(cell, key);
        let found = self
            .entries
            .find_entry(entry.spread_hash(), |known| *known == entry);
        found.expect("the queue is there").remove();
        if self.entries.len() * 8 < self.entries.capacity() && self.entries.capacity() > NAMES_KEPT
        {
            let wanted = self.entries.len() * 2;
            self.entries.shrink_to(wanted, NameEntry::spread_hash);
        }
    }

    /// The queue has moved.
    pub(super) fn replace(&mut self, cell: &QueueCell, before: QueueKey, after: QueueKey) {
        let entry = self.entry(cell, before);
        let found = self
            .entries
            .find_mut(entry.spread_hash(), |known| *known == entry);
        found.expect("the queue is there").key = after.pack();
    }
}
