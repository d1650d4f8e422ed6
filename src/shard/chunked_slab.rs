//! A slab that gives memory back: things under small stable keys, in chunks of which an empty one is
//! freed. New things go to the lowest chunk with room, so that the others empty.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

/// Things of a chunk: a bit each in one word.
const CHUNK_ENTRIES: usize = 32;

type Chunk<T> = Box<[Option<T>; CHUNK_ENTRIES]>;

#[derive(Debug)]
pub(super) struct ChunkedSlab<T> {
    /// Keys count through them; `None`: all its entries are free.
    chunks: Vec<Option<Chunk<T>>>,
    /// The free entries of each chunk, a bit each.
    free: Vec<u32>,
    /// Chunks that have room.
    roomy: BTreeSet<u32>,
    count: usize,
}

impl<T> ChunkedSlab<T> {
    pub(super) fn new() -> ChunkedSlab<T> {
        ChunkedSlab {
            chunks: Vec::new(),
            free: Vec::new(),
            roomy: BTreeSet::new(),
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Puts a thing in; its key.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if self.roomy.is_empty() {
            let at = u32::try_from(self.chunks.len()).expect("what a shard holds is bounded");
            self.chunks.push(None);
            self.free.push(u32::MAX);
            self.roomy.insert(at);
        }
        let at = *self.roomy.first().expect("a chunk has room");
        let chunk = self.chunks[at as usize]
            .get_or_insert_with(|| Box::new([const { None }; CHUNK_ENTRIES]));
        let free = &mut self.free[at as usize];
        let entry = free.trailing_zeros();
        *free &= !(1 << entry);
        if *free == 0 {
            self.roomy.remove(&at);
        }
        let before = chunk[entry as usize].replace(thing);
        assert!(before.is_none(), "a free entry was taken");
        self.count += 1;
        at * CHUNK_ENTRIES as u32 + entry
    }

    /// Takes out what is there, which must be something.
    pub(super) fn remove(&mut self, key: u32) -> T {
        let (at, entry) = split(key);
        let chunk = self.chunks[at].as_mut().expect("a chunk that is in use");
        let thing = chunk[entry].take().expect("an entry that is in use");
        let free = &mut self.free[at];
        *free |= 1 << entry;
        if *free == u32::MAX {
            self.chunks[at] = None;
        }
        self.roomy.insert(at as u32);
        self.count -= 1;
        thing
    }

    pub(super) fn get(&self, key: u32) -> Option<&T> {
        let (at, entry) = split(key);
        self.chunks.get(at)?.as_ref()?[entry].as_ref()
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let (at, entry) = split(key);
        self.chunks.get_mut(at)?.as_mut()?[entry].as_mut()
    }

    /// All things with their keys, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(|(at, chunk)| {
            let entries = chunk.iter().flat_map(|entries| entries.iter().enumerate());
            entries.filter_map(move |(entry, thing)| {
                let key = at * CHUNK_ENTRIES + entry;
                Some((key as u32, thing.as_ref()?))
            })
        })
    }
}

/// Which chunk, and which entry of it.
fn split(key: u32) -> (usize, usize) {
    let key = key as usize;
    (key / CHUNK_ENTRIES, key % CHUNK_ENTRIES)
}

impl<T> Index<u32> for ChunkedSlab<T> {
    type Output = T;

    fn index(&self, key: u32) -> &T {
        self.get(key).expect("an entry that is in use")
    }
}

impl<T> IndexMut<u32> for ChunkedSlab<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.get_mut(key).expect("an entry that is in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_and_are_used_again_from_the_lowest() {
        let mut slab = ChunkedSlab::new();
        let keys: Vec<u32> = (0..100).map(|thing| slab.insert(thing)).collect();
        assert_eq!(keys, (0..100).collect::<Vec<_>>());
        assert_eq!((slab.remove(70), slab.remove(3)), (70, 3));
        assert_eq!((slab.get(3), slab.get(4), slab.len()), (None, Some(&4), 98));
        assert_eq!((slab.insert(-1), slab.insert(-2)), (3, 70));
        assert_eq!((slab[3], slab[70]), (-1, -2));
        assert_eq!(slab.get(1_000), None);
        let seen: Vec<u32> = slab.iter().map(|(key, _)| key).collect();
        assert_eq!(seen, keys);
    }

    #[test]
    fn an_empty_chunk_is_freed_and_used_again() {
        let mut slab = ChunkedSlab::new();
        for thing in 0..96 {
            slab.insert(thing);
        }
        for key in 32..64 {
            slab.remove(key);
        }
        assert_eq!(slab.chunks.iter().flatten().count(), 2);
        let seen: Vec<u32> = slab.iter().map(|(key, _)| key).collect();
        assert_eq!(seen, (0..32).chain(64..96).collect::<Vec<_>>());
        assert_eq!(slab.insert(7), 32);
        for key in (0..33).chain(64..96) {
            slab.remove(key);
        }
        assert_eq!((slab.len(), slab.chunks.iter().flatten().count()), (0, 0));
    }
}
