//! The transaction ids of a partition that are remembered, so that a repeated push is recognised.

use std::collections::VecDeque;

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::postgres::durable::HashRow;

/// Eight bytes of a transaction id, as they are stored.
pub(in crate::engine) fn hash_of(transaction_id: &[u8]) -> u64 {
    xxh3_64(transaction_id)
}

/// Transaction ids by hash. Two ids of one hash are told apart by whoever finds one: the newest of them
/// is remembered, and the older ones in `doubles`.
#[derive(Debug, Default)]
pub(super) struct Window {
    offsets: HashMap<u64, i64>,
    doubles: Vec<(u64, i64)>,
    /// By age, for forgetting.
    order: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    created_us: i64,
    hash: u64,
    offset: i64,
}

impl Window {
    /// Takes in stored segments, newest first, that follow upon what is known.
    pub(super) fn extend(&mut self, rows: &[HashRow]) {
        for row in rows.iter().rev() {
            for (place, bytes) in row.hashes.chunks_exact(8).enumerate() {
                let hash = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                self.insert(hash, row.base_offset + place as i64, row.created_us);
            }
        }
    }

    /// Remembers an id.
    pub(super) fn insert(&mut self, hash: u64, offset: i64, created_us: i64) {
        if let Some(older) = self.offsets.insert(hash, offset) {
            self.doubles.push((hash, older));
        }
        self.order.push_back(Entry {
            created_us,
            hash,
            offset,
        });
    }

    /// The offsets that ids of this hash have, newest first.
    pub(super) fn find(&self, hash: u64) -> impl Iterator<Item = i64> {
        let newest = self.offsets.get(&hash).copied();
        let doubles = self.doubles.iter().rev();
        let older = doubles.filter(move |(other, _)| *other == hash);
        // Most windows have no doubles at all.
        newest.into_iter().chain(older.map(|&(_, offset)| offset))
    }

    /// Forgets what is older.
    pub(super) fn forget_before(&mut self, time_us: i64) {
        while let Some(entry) = self.order.front().copied()
            && entry.created_us < time_us
        {
            self.order.pop_front();
            if self.offsets.get(&entry.hash) == Some(&entry.offset) {
                self.offsets.remove(&entry.hash);
            } else {
                let is_it = |double: &(u64, i64)| *double == (entry.hash, entry.offset);
                if let Some(place) = self.doubles.iter().position(is_it) {
                    self.doubles.swap_remove(place);
                }
            }
        }
    }

    /// Forgets what was put in at or behind an offset: it was not stored after all.
    pub(super) fn forget_from(&mut self, offset: i64) {
        while let Some(entry) = self.order.back().copied()
            && entry.offset >= offset
        {
            self.order.pop_back();
            self.offsets.remove(&entry.hash);
            let double = self
                .doubles
                .iter()
                .rposition(|&(hash, _)| hash == entry.hash);
            if let Some(place) = double {
                let (hash, older) = self.doubles.remove(place);
                self.offsets.insert(hash, older);
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.offsets.allocation_size()
            + self.doubles.capacity() * size_of::<(u64, i64)>()
            + self.order.capacity() * size_of::<Entry>()
    }

    /// Ids that are remembered.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_is_older_is_forgotten_and_nothing_else() {
        let mut window = Window::default();
        window.insert(1, 10, 100);
        window.insert(2, 11, 200);
        window.insert(1, 12, 300);
        assert_eq!(window.find(1).collect::<Vec<_>>(), [12, 10]);
        window.forget_before(150);
        assert_eq!(window.find(1).collect::<Vec<_>>(), [12]);
        assert_eq!(window.find(2).collect::<Vec<_>>(), [11]);
        window.forget_before(1_000);
        assert_eq!((window.len(), window.find(1).count()), (0, 0));
    }

    #[test]
    fn what_was_not_stored_is_forgotten_again() {
        let mut window = Window::default();
        window.insert(1, 10, 100);
        window.insert(1, 11, 200);
        window.insert(2, 12, 300);
        window.forget_from(11);
        assert_eq!(window.find(1).collect::<Vec<_>>(), [10]);
        assert_eq!((window.find(2).count(), window.len()), (0, 1));
    }

    #[test]
    fn a_window_is_made_from_stored_segments() {
        let row = |base_offset: i64, created_us, hashes: &[u64]| HashRow {
            partition_id: 1,
            base_offset,
            created_us,
            hashes: hashes
                .iter()
                .flat_map(|hash| hash.to_le_bytes())
                .collect::<Bytes>(),
        };
        let mut window = Window::default();
        window.extend(&[row(2, 20, &[7, 8]), row(0, 10, &[5, 6])]);
        assert_eq!(window.find(6).collect::<Vec<_>>(), [1]);
        assert_eq!(window.find(7).collect::<Vec<_>>(), [2]);
    }
}
