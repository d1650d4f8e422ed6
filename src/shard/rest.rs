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
        // Groups and windows that came or went meanwhile were told to queues that are awake.
        self.renew_marks(key);
        key
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::directory::{Bounds, Directory};
    use crate::model::{
        ClientRef, Command, GroupName, Incarnation, PartitionName, Pop, Push, QueueName, Reply,
        TenantId,
    };
    use crate::shard::{Effect, ShardSettings};

    const IDLE_MS: u64 = 300_000;

    fn shard() -> Shard {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: 1 << 20,
            queue_bytes: 1 << 20,
            queue_length: 100,
            lease_ms: 30_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 1,
            shards: 1,
        }));
        let settings = ShardSettings {
            incarnation: Incarnation(1),
            shard: 0,
            shards: 1,
            ttl_tick_ms: 100,
            linger_ms: 0,
            implicit_idle_ms: IDLE_MS,
        };
        Shard::new(settings, directory)
    }

    fn apply(shard: &mut Shard, at_ms: u64, mut command: Command<'_>) -> Option<Reply> {
        let mut effects = Vec::new();
        let now = Moment::ZERO.after_ms(at_ms);
        let tenant = TenantId::DEFAULT;
        shard.apply(now, ClientRef::NOBODY, tenant, &mut command, &mut effects);
        shard.check();
        effects.pop().map(|effect| match effect {
            Effect::Answer { reply, .. } => reply,
            Effect::Tell { .. } => panic!("a lone shard has nobody to tell"),
        })
    }

    fn push(shard: &mut Shard, at_ms: u64, partition: &'static str) {
        let pushed = Command::Push(Push {
            queue: QueueName::new("inbox").expect("a valid name"),
            partition: PartitionName::new(partition).expect("a valid name"),
            payloads: vec![Bytes::from_static(b"1")],
        });
        let reply = apply(shard, at_ms, pushed);
        assert!(matches!(reply, Some(Reply::Pushed { count: 1 })));
    }

    /// The numbers of the messages that a pop takes, settled at once or leased.
    fn pop(shard: &mut Shard, at_ms: u64, auto_ack: bool) -> Vec<u64> {
        let pop = Command::Pop(Pop {
            queue: QueueName::new("inbox").expect("a valid name"),
            partition: None,
            group: GroupName::QUEUE_MODE,
            batch: 10,
            wait_ms: None,
            since: None,
            auto_ack,
        });
        match apply(shard, at_ms, pop) {
            Some(Reply::Popped(popped)) => {
                let messages = popped.messages.iter();
                messages.map(|message| message.sequence).collect()
            }
            other => panic!("a pop is answered: {other:?}"),
        }
    }

    fn run_due(shard: &mut Shard, at_ms: u64) -> (usize, usize) {
        shard.run_due(Moment::ZERO.after_ms(at_ms), &mut Vec::new());
        shard.check();
        assert_eq!(shard.queues.len(), shard.rings.len());
        (shard.queues.len(), shard.resting.len())
    }

    #[test]
    fn an_emptied_inbox_rests_and_wakes_as_it_was() {
        let mut shard = shard();
        push(&mut shard, 0, "Default");
        assert_eq!(pop(&mut shard, 1, true), [1]);
        assert_eq!(run_due(&mut shard, 900), (1, 0));
        assert_eq!(run_due(&mut shard, 1_100), (0, 1));
        assert_eq!(shard.directory.cursors(), 1);
        push(&mut shard, 5_000, "Default");
        assert_eq!((shard.queues.len(), shard.resting.len()), (1, 0));
        assert_eq!(pop(&mut shard, 5_001, true), [2], "the numbers go on");
        assert_eq!(run_due(&mut shard, 7_000), (0, 1));
        // A look at it wakes it too, and does not keep it awake.
        assert!(pop(&mut shard, 8_000, true).is_empty());
        assert_eq!(run_due(&mut shard, 9_100), (0, 1));
        // What is at rest is collected like what is not.
        run_due(&mut shard, 8_001 + IDLE_MS);
        assert_eq!(run_due(&mut shard, 8_001 + 2 * IDLE_MS), (0, 0));
        assert_eq!(
            (shard.directory.queue_count(), shard.directory.cursors()),
            (0, 0)
        );
        assert_eq!(shard.next_deadline(), None);
    }

    #[test]
    fn what_is_still_needed_does_not_rest() {
        let mut shard = shard();
        push(&mut shard, 0, "Default");
        assert_eq!(run_due(&mut shard, 2_000), (1, 0), "a message is there");
        assert_eq!(pop(&mut shard, 2_001, false), [1]);
        assert_eq!(run_due(&mut shard, 5_000), (1, 0), "it is leased");
        run_due(&mut shard, 32_002);
        assert_eq!(pop(&mut shard, 32_003, true), [1]);
        push(&mut shard, 32_004, "other");
        assert_eq!(pop(&mut shard, 32_005, true).len(), 1);
        shard.run_due(Moment::ZERO.after_ms(40_000), &mut Vec::new());
        shard.check();
        let counts = (shard.queues.len(), shard.rings.len(), shard.resting.len());
        assert_eq!(counts, (1, 2, 0), "a queue with two partitions stays awake");
    }
}
