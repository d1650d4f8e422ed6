//! Queues at rest: what is left of one that holds nothing, that nobody waits for and that was left
//! alone for as long as messages may linger. A million inboxes are mostly that.
//!
//! Going to rest and waking change nothing that can be seen from outside: the next use of the name
//! finds queue, ring and groups as they were.

use std::sync::Arc;

use super::Shard;
use super::names::Place;
use super::queue::LocalQueue;
use super::ring::{Ring, Seed};
use super::timers::Timer;
use crate::directory::QueueCell;
use crate::model::Moment;

/// A queue with one ring, both without content.
#[derive(Debug)]
pub(super) struct Resting {
    pub(super) cell: Arc<QueueCell>,
    partition: Arc<str>,
    seed: Seed,
    /// Cursors that count for it: groups that its ring had.
    pub(super) cursors: u32,
    /// Whether this shard collects the queue.
    collects: bool,
}

const _: () = assert!(size_of::<Option<Resting>>() <= 64);

impl Shard {
    /// Whether a ring and its queue could go to rest.
    pub(super) fn may_rest(&self, key: u32) -> bool {
        let ring = &self.rings[key];
        let queue = &self.queues[ring.queue];
        queue.partitions.only() == Some(key)
            && !queue.changed
            && queue.groups.iter().all(|group| group.waiters.is_empty())
            && ring.seed().is_some()
    }

    /// Puts a queue to rest, if it may.
    pub(super) fn rest(&mut self, key: u32) -> bool {
        if !self.may_rest(key) {
            return false;
        }
        let place = self.rings[key].queue;
        // Nothing is there, so this takes away what says otherwise.
        for group in 0..self.queues[place].groups.len() as u32 {
            assert!(!self.has_ready(place, group));
        }
        let (ring, queue) = (self.rings.remove(key), self.queues.remove(place));
        let seed = ring.seed().expect("just seen");
        let generation = queue.cell.generation();
        let key = self.resting.insert(Resting {
            partition: ring.partition,
            seed,
            cursors: ring.groups.len() as u32,
            collects: queue.armed.is_some(),
            cell: queue.cell,
        });
        let cell = &self.resting[key].cell;
        self.names
            .replace(cell, Place::awake(place), Place::resting(key));
        let at = self.wakes_at(&self.resting[key]);
        self.timers.insert(at, Timer::Resting(key, generation));
        true
    }

    /// The moment of its entry among the timers: it is woken to be collected.
    pub(super) fn wakes_at(&self, resting: &Resting) -> Moment {
        self.collection_at(resting.seed.touched)
    }

    /// Makes queue and ring again; the queue's place in the table.
    pub(super) fn wake(&mut self, now: Moment, place: u32) -> u32 {
        let resting = self.resting.remove(place);
        let home = self.home_of(&resting.cell);
        let touched = resting.cell.touched();
        let mut queue = LocalQueue::new(resting.cell, home);
        queue.sync_groups();
        let groups = queue.groups.len() as u32;
        let key = self.queues.insert(queue);
        self.ring_serial = self.ring_serial.wrapping_add(1);
        let partition = Arc::clone(&resting.partition);
        let mut ring = Ring::of_seed(resting.partition, key, self.ring_serial, resting.seed);
        ring.sync_groups(groups);
        self.directory
            .add_cursors((groups - resting.cursors) as usize);
        let ring = self.rings.insert(ring);
        let queue = &mut self.queues[key];
        queue.partitions.insert(partition, ring);
        let (before, after) = (Place::resting(place), Place::awake(key));
        self.names.replace(&queue.cell, before, after);
        if resting.collects {
            self.arm_queue(touched, key);
        }
        self.arm_ring(now, ring);
        key
    }
}
