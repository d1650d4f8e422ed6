//! What must hold between turns, by looking at everything. For the simulation.

use std::collections::BTreeSet;

use super::Shard;
use super::names::QueueKey;
use super::slots::LingerTotal;
use super::timers::Entry;
use crate::model::Moment;

impl Shard {
    /// Fails if something does not hold that must hold between turns.
    pub fn check(&self) {
        let mut lingering = LingerTotal::default();
        for (_, ring) in self.rings.iter() {
            ring.check();
            lingering.messages += ring.lingering().messages;
            lingering.bytes += ring.lingering().bytes;
            let queue = &self.queues[ring.queue];
            assert!(ring.groups.len() <= queue.groups.len());
            assert!(
                ring.armed.is_some(),
                "a ring without a timer is never looked at again"
            );
            for (number, group) in ring.groups.iter().enumerate() {
                let available = ring.has_available(number as u32);
                assert!(
                    !available || group.ready,
                    "an available ring that is not ready"
                );
            }
        }
        assert_eq!(lingering, self.linger.total());
        if self.settings.shards == 1 {
            let awake = self.rings.iter().map(|(_, ring)| ring.groups.len());
            let resting = self.resting.iter();
            let resting = resting.map(|(_, resting)| resting.cursors as usize);
            let cursors: usize = awake.chain(resting).sum();
            assert_eq!(cursors, self.directory.cursors());
        }
        self.check_queues();
        self.check_timers();
    }

    fn check_queues(&self) {
        let alone = self.settings.shards == 1;
        for (key, queue) in self.queues.iter() {
            assert!(self.names.has(&queue.cell, QueueKey::Awake(key)));
            self.check_may_rest(key);
            let rings = || queue.partitions.rings().map(|ring| &self.rings[ring]);
            assert!(rings().all(|ring| ring.queue == key));
            if alone {
                let length: u64 = rings().map(|ring| ring.slots.live()).sum();
                let bytes: u64 = rings().map(|ring| ring.slots.live_bytes()).sum();
                assert_eq!((length, bytes), (queue.cell.length(), queue.cell.bytes()));
                assert!(!queue.cell.is_dead(), "a dead cell stays in the cache");
            }
        }
        for (key, resting) in self.resting.iter() {
            let cell = &resting.cell;
            assert!(self.names.has(cell, QueueKey::Resting(key)));
            if alone {
                assert_eq!((cell.length(), cell.waiters(), cell.bytes()), (0, 0, 0));
                assert!(!cell.is_dead(), "a dead cell stays in the cache");
            }
        }
        assert_eq!(self.names.len(), self.queues.len() + self.resting.len());
    }

    /// What may rest does so in time.
    fn check_may_rest(&self, key: u32) {
        let queue = &self.queues[key];
        if !self.may_rest(key) || queue.cell.is_dead() {
            return;
        }
        let armed = match queue.partitions.only() {
            Some(ring) => self.rings[ring].armed,
            None => queue.armed,
        };
        // Other cores say when they use the queue, by clocks that differ a little.
        let latest = self.rests_at(key).after_ms(1_000);
        assert!(
            armed.is_some_and(|at| at <= latest),
            "a queue that may rest is looked at late: {armed:?}, not {latest:?}"
        );
    }

    /// Whatever is armed has an entry among the timers.
    fn check_timers(&self) {
        let mut armed = self.rings.len() + self.held.len();
        let queues = self.queues.iter();
        armed += queues.filter(|(_, queue)| queue.armed.is_some()).count();
        let resting = self.resting.iter();
        armed += resting
            .filter(|(_, one)| self.wakes_at(one) < Moment::NEVER)
            .count();
        for number in self.waiters.numbers() {
            self.check_waiter(number);
            let waiter = self.waiters.get(number).expect("it is parked");
            armed += 1 + usize::from(waiter.window_closes.is_some());
        }
        let current = self.timers.iter().filter(|entry| self.is_current(entry));
        let current: BTreeSet<&Entry> = current.collect();
        assert_eq!(armed, current.len(), "something armed without a timer");
        assert!(!self.has_stale_timers(), "stale timers gather");
    }
}
