//! Pops that wait, where they take from, and those of them that are parked at this shard.

use hashbrown::HashMap;

use super::ring::Take;
use crate::model::{ClientRef, Moment};

/// Names a parked pop; a smaller one has waited longer. The moment comes first: a pop that comes back
/// from other shards, which had nothing for it, keeps its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WaiterNumber(Moment, u64);

/// One parked pop.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) client: ClientRef,
    pub(super) source: Source,
    pub(super) batch: u32,
    pub(super) auto_ack: bool,
    /// When it is answered with what there is.
    pub(super) deadline: Moment,
    /// When its window closes, once a first message was there.
    pub(super) window_closes: Option<Moment>,
}

impl WaiterNumber {
    /// What tells it from all others of its shard.
    pub(super) fn serial(self) -> u64 {
        self.1
    }

    /// Younger than every pop that is parked.
    pub(super) const YOUNGEST: WaiterNumber = WaiterNumber(Moment::NEVER, u64::MAX);
}

/// A place to take messages from: one ring, or any of a queue's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) queue: u32,
    pub(super) ring: Option<u32>,
    pub(super) group: u32,
}

/// Whose pop it is, and whether it waits on if nothing is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) client: ClientRef,
    pub(super) waits: bool,
    /// The shard to look at first; `None`: in turn.
    pub(super) first: Option<u16>,
}

impl Waiter {
    pub(super) fn take(&self) -> Take {
        Take {
            group: self.source.group,
            auto_ack: self.auto_ack,
            batch: self.batch as usize,
        }
    }
}

/// Parked pops that there is room for, however few there are.
const PARKED_KEPT: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_serial: HashMap<u64, (WaiterNumber, Waiter)>,
    by_client: HashMap<ClientRef, WaiterNumber>,
    next: u64,
}

impl Waiters {
    pub(super) fn next_number(&mut self, since: Moment) -> WaiterNumber {
        self.next += 1;
        WaiterNumber(since, self.next)
    }

    pub(super) fn insert(&mut self, number: WaiterNumber, waiter: Waiter) {
        let before = self.by_client.insert(waiter.client, number);
        assert!(before.is_none(), "a request was parked twice");
        self.by_serial.insert(number.1, (number, waiter));
    }

    pub(super) fn remove(&mut self, number: WaiterNumber) -> Option<Waiter> {
        let (_, waiter) = self.by_serial.remove(&number.1)?;
        self.by_client.remove(&waiter.client);
        let capacity = self.by_serial.capacity();
        if capacity > PARKED_KEPT && self.by_serial.len() * 8 < capacity {
            self.by_serial.shrink_to(capacity / 4);
            self.by_client.shrink_to(capacity / 4);
        }
        Some(waiter)
    }

    pub(super) fn get(&self, number: WaiterNumber) -> Option<&Waiter> {
        self.by_serial.get(&number.1).map(|(_, waiter)| waiter)
    }

    pub(super) fn get_mut(&mut self, number: WaiterNumber) -> Option<&mut Waiter> {
        self.by_serial.get_mut(&number.1).map(|(_, waiter)| waiter)
    }

    pub(super) fn of_serial(&self, serial: u64) -> Option<&(WaiterNumber, Waiter)> {
        self.by_serial.get(&serial)
    }

    pub(super) fn of_client(&self, client: ClientRef) -> Option<WaiterNumber> {
        self.by_client.get(&client).copied()
    }

    /// All of them, longest waiting first.
    pub(super) fn numbers(&self) -> Vec<WaiterNumber> {
        let numbers = self.by_serial.values().map(|&(number, _)| number);
        let mut numbers: Vec<WaiterNumber> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn len(&self) -> usize {
        self.by_serial.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_took_is_given_back_when_few_are_left() {
        let mut waiters = Waiters::default();
        let source = Source {
            queue: 0,
            ring: None,
            group: 0,
        };
        let park = |connection| {
            let number = waiters.next_number(Moment::ZERO);
            let client = ClientRef {
                connection,
                ..ClientRef::NOBODY
            };
            let waiter = Waiter {
                client,
                source,
                batch: 1,
                auto_ack: false,
                deadline: Moment::NEVER,
                window_closes: None,
            };
            waiters.insert(number, waiter);
            number
        };
        let numbers: Vec<WaiterNumber> = (0..100_000).map(park).collect();
        for &number in &numbers[10..] {
            assert!(waiters.remove(number).is_some());
        }
        let kept = (waiters.by_serial.capacity(), waiters.by_client.capacity());
        assert!(kept.0.max(kept.1) <= 2 * PARKED_KEPT, "{kept:?}");
        assert_eq!(waiters.numbers(), numbers[..10]);
    }
}
