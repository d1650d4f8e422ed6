//! Queues at rest: what is left of one that holds nothing, that nobody waits for and that was left
//! alone for as long as messages may linger. A million inboxes are mostly that.
//!
//! Going to rest and waking change nothing that can be seen from outside: the next use of the name
//! finds queue, ring and groups as they were.

use std::sync::Arc;

use super::Shard;
use super::names::QueueKey;
use super::queue::LocalQueue;
use super::ring::{Ring, Seed};
use super::timers::Timer;
use crate::directory::QueueCell;
use crate::model::Moment;

/// A queue of which this shard has one ring without content, or none.
#[derive(Debug)]
pub(super) struct Resting {
    pub(super) cell: Arc<QueueCell>,
    ring: Option<RestingRing>,
    /// Since when the ring may have been idle, or the queue if it has none.
    touched: Moment,
    /// Cursors that count for it: groups that its ring had.
    pub(super) cursors: u32,
    /// Whether this shard collects the queue.
    collects: bool,
}

#[derive(Debug)]
struct RestingRing {
    partition: Arc<str>,
    seed: Seed,
}

const _: () = assert!(size_of::<Option<Resting>>() <= 64);

impl Shard {
    /// Whether a queue could go to rest, once it was left alone for long enough.
    pub(super) fn may_rest(&self, key: u32) -> bool {
        let queue = &self.queues[key];
        let is_plain = match queue.partitions.only() {
            Some(ring) => self.rings[ring].seed().is_some(),
            None => queue.partitions.len() == 0,
        };
        is_plain && queue.groups.iter().all(|group| group.waiters.is_empty())
    }

    /// When a queue goes to rest if it may. Whoever asks for messages that are not there uses the
    /// queue, not its ring: it would wake the queue each time.
    pub(super) fn rests_at(&self, key: u32) -> Moment {
        let queue = &self.queues[key];
        let ring = queue.partitions.only().map(|ring| &self.rings[ring]);
        let touched = ring.map_or(Moment::ZERO, |ring| ring.touched);
        self.shrink_at(touched.max(queue.cell.touched()))
    }

    /// Makes sure that a queue that may rest from now on does so in time.
    pub(super) fn arm_rest(&mut self, now: Moment, key: u32) {
        if !self.may_rest(key) {
            return;
        }
        let Some(ring) = self.queues[key].partitions.only() else {
            return self.arm_queue(now, key);
        };
        let armed = self.rings[ring].armed;
        if armed.is_none_or(|at| at > self.rests_at(key)) {
            self.arm_ring(now, ring);
        }
    }

    /// Puts a queue to rest, if it may and it is time.
    pub(super) fn rest(&mut self, now: Moment, key: u32) -> bool {
        if !self.may_rest(key) || self.rests_at(key) > now {
            return false;
        }
        self.withdraw(key);
        let queue = self.queues.remove(key);
        let generation = queue.cell.generation();
        for (number, group) in (0..).zip(&queue.groups) {
            if group.next_shard != 0 {
                let turn = (generation, number);
                self.resting_turns.insert(turn, group.next_shard);
            }
        }
        let ring = queue.partitions.only().map(|ring| self.rings.remove(ring));
        let resting = self.resting.insert(Resting {
            touched: match &ring {
                Some(ring) => ring.touched,
                // Other shards have something of it: it could not be collected just now.
                None if self.collection_at(queue.cell.touched()) <= now => now,
                None => queue.cell.touched(),
            },
            cursors: ring.as_ref().map_or(0, |ring| ring.groups.len() as u32),
            collects: queue.collects,
            cell: queue.cell,
            ring: ring.map(|ring| RestingRing {
                seed: ring.seed().expect("just seen"),
                partition: ring.partition,
            }),
        });
        let entry = &self.resting[resting];
        let (before, after) = (QueueKey::Awake(key), QueueKey::Resting(resting));
        self.names.replace(&entry.cell, before, after);
        let timer = Timer::Resting(resting, generation);
        self.timers.insert(self.wakes_at(entry), timer);
        true
    }

    /// Takes away whatever still says that a queue has something here.
    fn withdraw(&mut self, key: u32) {
        let (shard, shards) = (self.settings.shard, self.settings.shards);
        self.queues[key].cell.set_oldest(shard, None);
        for group in 0..self.queues[key].groups.len() as u32 {
            assert!(!self.has_ready(key, group));
            let queue = &self.queues[key];
            if queue.changed {
                let cell = &queue.groups[group as usize].cell;
                cell.set_available(shard, shards, 0);
            }
        }
    }

    /// The moment of its entry among the timers: it is woken to be collected.
    pub(super) fn wakes_at(&self, resting: &Resting) -> Moment {
        if resting.ring.is_none() && !resting.collects {
            return Moment::NEVER;
        }
        self.collection_at(resting.touched)
    }

    /// Makes queue and ring again; the queue's key.
    pub(super) fn wake(&mut self, now: Moment, resting_key: u32) -> u32 {
        let resting = self.resting.remove(resting_key);
        let home = self.home_of(&resting.cell);
        let (touched, generation) = (resting.cell.touched(), resting.cell.generation());
        let mut queue = LocalQueue::new(resting.cell, home);
        queue.collects = resting.collects;
        queue.sync_groups();
        for (number, group) in (0..).zip(&mut queue.groups) {
            let turn = self.resting_turns.remove(&(generation, number));
            group.next_shard = turn.unwrap_or(0);
        }
        let key = self.queues.insert(queue);
        let (before, after) = (QueueKey::Resting(resting_key), QueueKey::Awake(key));
        self.names.replace(&self.queues[key].cell, before, after);
        if let Some(RestingRing { partition, seed }) = resting.ring {
            let mut ring = Ring::of_seed(Arc::clone(&partition), key, self.next_serial(), seed);
            ring.touched = resting.touched;
            let ring = self.rings.insert(ring);
            let queue = &mut self.queues[key];
            queue.partitions.insert(partition, ring);
            let groups = queue.groups.len();
            self.rings[ring].sync_groups(groups as u32);
            self.directory
                .add_cursors(groups - resting.cursors as usize);
            self.arm_ring(now, ring);
        }
        self.arm_queue(touched, key);
        // Groups and windows that came or went meanwhile were told to queues that are awake.
        self.renew_marks(key);
        key
    }
}

#[cfg(test)]
#[path = "rest_test.rs"]
mod tests;
