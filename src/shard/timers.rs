//! What a shard has to look at, and when.
//!
//! An entry is never searched for: what is no longer due at its moment leaves the entry behind, and
//! the shard, which knows what is armed, skips it when it comes up (`due.rs`). So that arming costs
//! the same for a million rings as for one, only the entries of the slice of time that comes next
//! are kept in order: one heap of all took nearly twice the time where a million stood in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::model::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Leases, TTL, lingering or collection of a ring: (key, serial).
    Ring(u32, u32),
    /// Collection of a queue, or rest of one without a ring: (key, generation).
    Queue(u32, u64),
    /// Collection of a queue at rest: (key among those, generation).
    Resting(u32, u64),
    /// The window of a parked pop closes: its serial.
    Window(u64),
    /// The time of a parked pop is up: its serial.
    Waiter(u64),
    /// A queue's pushes that wait for room: the number of the wait.
    Held(u64),
}

/// Something to look at, and when.
pub(super) type Entry = (Moment, Timer);

const _: () = assert!(size_of::<Entry>() <= 24);

/// Microseconds of a slice, as a power of two: 65 ms. What is put in order at once is small, and
/// those of an hour are few.
const SLICE_BITS: u32 = 16;

/// Entries above what can be current that are not worth looking through.
const STALE_KEPT: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The entries of the slices before `later_from`, earliest first.
    near: BinaryHeap<Reverse<Entry>>,
    later_from: u64,
    later: BTreeMap<u64, Vec<Entry>>,
    count: usize,
}

fn slice_of(at: Moment) -> u64 {
    at.as_us() >> SLICE_BITS
}

impl Timers {
    pub(super) fn insert(&mut self, at: Moment, timer: Timer) {
        if at == Moment::NEVER {
            return;
        }
        self.count += 1;
        let slice = slice_of(at);
        if slice < self.later_from {
            self.near.push(Reverse((at, timer)));
        } else {
            self.later.entry(slice).or_default().push((at, timer));
        }
    }

    /// The earliest entry, if there is one.
    pub(super) fn first(&mut self) -> Option<Entry> {
        if self.near.is_empty() {
            let (slice, entries) = self.later.pop_first()?;
            self.later_from = slice + 1;
            self.near = entries.into_iter().map(Reverse).collect();
        }
        self.near.peek().map(|&Reverse(entry)| entry)
    }

    /// Takes the earliest entry if it is due.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Entry> {
        self.first().filter(|&(at, _)| at <= now)?;
        self.count -= 1;
        self.near.pop().map(|Reverse(entry)| entry)
    }

    /// The moment of the earliest entry, after [`Timers::first`].
    pub(super) fn next(&self) -> Option<Moment> {
        self.near.peek().map(|Reverse((at, _))| *at)
    }

    /// Whether most entries must be stale where at most `current` are not.
    pub(super) fn is_crowded(&self, current: usize) -> bool {
        self.count > 2 * current + STALE_KEPT
    }

    /// Drops entries that are stale, and all but one of those that are the same: what is armed again for
    /// the same moment has left one behind each time.
    pub(super) fn retain(&mut self, is_current: impl Fn(&Entry) -> bool) {
        let clear = |entries: &mut Vec<Entry>| {
            entries.retain(&is_current);
            entries.sort_unstable();
            entries.dedup();
            entries.shrink_to(2 * entries.len());
        };
        let mut near = self.near.drain().map(|Reverse(entry)| entry).collect();
        clear(&mut near);
        self.near = near.into_iter().map(Reverse).collect();
        self.later.retain(|_, entries| {
            clear(entries);
            !entries.is_empty()
        });
        self.count = self.near.len() + self.later.values().map(Vec::len).sum::<usize>();
    }

    /// All entries, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let near = self.near.iter().map(|Reverse(entry)| entry);
        near.chain(self.later.values().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_us: u64, number: u64) -> Entry {
        (Moment::from_us(at_us), Timer::Held(number))
    }

    #[test]
    fn entries_come_in_the_order_of_their_moments() {
        let mut timers = Timers::default();
        let mut expected = Vec::new();
        for number in 0..1_000 {
            let (at, timer) = entry(number * 7_919_777 % 10_000_019, number);
            timers.insert(at, timer);
            expected.push((at, timer));
            if number % 3 == 0 {
                // What was looked at, and comes before what is looked at.
                expected.sort_unstable();
                assert_eq!(timers.first(), expected.first().copied());
            }
        }
        timers.insert(Moment::NEVER, Timer::Held(0));
        let taken: Vec<Entry> = std::iter::from_fn(|| timers.pop_due(Moment::NEVER)).collect();
        expected.sort_unstable();
        assert_eq!(taken, expected);
        assert_eq!((timers.next(), timers.count), (None, 0));
    }

    #[test]
    fn stale_entries_are_dropped_when_they_are_the_most() {
        let mut timers = Timers::default();
        for number in 0..10_000 {
            let (at, timer) = entry(number * 1_000, number);
            timers.insert(at, timer);
        }
        assert!(timers.is_crowded(4_000) && !timers.is_crowded(5_000));
        timers.first();
        timers.retain(|(_, timer)| matches!(timer, Timer::Held(number) if number % 100 == 0));
        assert_eq!((timers.count, timers.iter().count()), (100, 100));
        assert_eq!(timers.pop_due(Moment::NEVER), Some(entry(0, 0)));
        assert_eq!(timers.pop_due(Moment::NEVER), Some(entry(100_000, 100)));
    }

    #[test]
    fn one_entry_is_left_of_many_that_are_the_same() {
        let mut timers = Timers::default();
        for (at, timer) in [entry(0, 0), entry(3_600_000_000, 1)] {
            for _ in 0..1_000 {
                timers.insert(at, timer);
            }
        }
        timers.first();
        timers.retain(|_| true);
        assert!(!timers.is_crowded(0));
        let left: Vec<Entry> = std::iter::from_fn(|| timers.pop_due(Moment::NEVER)).collect();
        assert_eq!(left, [entry(0, 0), entry(3_600_000_000, 1)]);
    }
}
