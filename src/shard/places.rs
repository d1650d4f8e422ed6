//! A table of things under small stable numbers that gives memory back: it grows by chunks, and an
//! empty chunk is freed. New things go to the lowest chunk with room, so that the others empty.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

/// Places of a chunk: a bit each in one word.
const CHUNK_PLACES: usize = 32;

type Chunk<T> = Box<[Option<T>; CHUNK_PLACES]>;

#[derive(Debug)]
pub(super) struct Places<T> {
    /// Numbers count through them; `None`: all its places are free.
    chunks: Vec<Option<Chunk<T>>>,
    /// The free places of each chunk, a bit each.
    free: Vec<u32>,
    /// Chunks that have room.
    roomy: BTreeSet<u32>,
    count: usize,
}

impl<T> Places<T> {
    pub(super) fn new() -> Places<T> {
        Places {
            chunks: Vec::new(),
            free: Vec::new(),
            roomy: BTreeSet::new(),
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Puts a thing in a free place; its number.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if self.roomy.is_empty() {
            let number = u32::try_from(self.chunks.len()).expect("what a shard holds is bounded");
            self.chunks.push(None);
            self.free.push(u32::MAX);
            self.roomy.insert(number);
        }
        let number = *self.roomy.first().expect("a chunk has room");
        let chunk = self.chunks[number as usize]
            .get_or_insert_with(|| Box::new([const { None }; CHUNK_PLACES]));
        let free = &mut self.free[number as usize];
        let place = free.trailing_zeros();
        *free &= !(1 << place);
        if *free == 0 {
            self.roomy.remove(&number);
        }
        let before = chunk[place as usize].replace(thing);
        assert!(before.is_none(), "a free place was taken");
        self.count += 1;
        number * CHUNK_PLACES as u32 + place
    }

    /// Takes out what is there, which must be something.
    pub(super) fn remove(&mut self, number: u32) -> T {
        let (at, place) = split(number);
        let chunk = self.chunks[at].as_mut().expect("a chunk that is in use");
        let thing = chunk[place].take().expect("a place that is in use");
        let free = &mut self.free[at];
        *free |= 1 << place;
        if *free == u32::MAX {
            self.chunks[at] = None;
        }
        self.roomy.insert(at as u32);
        self.count -= 1;
        thing
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let (at, place) = split(number);
        self.chunks.get(at)?.as_ref()?[place].as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (at, place) = split(number);
        self.chunks.get_mut(at)?.as_mut()?[place].as_mut()
    }

    /// All things with their numbers, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = self.chunks.iter().flatten().flat_map(|chunk| chunk.iter());
        let numbers = self.chunks.iter().enumerate();
        let numbers = numbers.filter(|(_, chunk)| chunk.is_some());
        let numbers = numbers
            .flat_map(|(at, _)| (0..CHUNK_PLACES).map(move |place| at * CHUNK_PLACES + place));
        let all = numbers.zip(places);
        all.filter_map(|(number, thing)| Some((number as u32, thing.as_ref()?)))
    }
}

fn split(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / CHUNK_PLACES, number % CHUNK_PLACES)
}

impl<T> Index<u32> for Places<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).expect("a place that is in use")
    }
}

impl<T> IndexMut<u32> for Places<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).expect("a place that is in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_are_used_again_from_the_lowest() {
        let mut places = Places::new();
        let numbers: Vec<u32> = (0..100).map(|thing| places.insert(thing)).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert_eq!((places.remove(70), places.remove(3)), (70, 3));
        assert_eq!(
            (places.get(3), places.get(4), places.len()),
            (None, Some(&4), 98)
        );
        assert_eq!((places.insert(-1), places.insert(-2)), (3, 70));
        assert_eq!((places[3], places[70]), (-1, -2));
        assert_eq!(places.get(1_000), None);
        let seen: Vec<u32> = places.iter().map(|(number, _)| number).collect();
        assert_eq!(seen, numbers);
    }

    #[test]
    fn an_empty_chunk_is_freed_and_used_again() {
        let mut places = Places::new();
        for thing in 0..96 {
            places.insert(thing);
        }
        for number in 32..64 {
            places.remove(number);
        }
        assert_eq!(places.chunks.iter().flatten().count(), 2);
        let seen: Vec<u32> = places.iter().map(|(number, _)| number).collect();
        assert_eq!(seen, (0..32).chain(64..96).collect::<Vec<_>>());
        assert_eq!(places.insert(7), 32);
        for number in (0..33).chain(64..96) {
            places.remove(number);
        }
        assert_eq!(
            (places.len(), places.chunks.iter().flatten().count()),
            (0, 0)
        );
    }
}
