//! What is remembered is bounded: what was used longest ago goes first. All of it can be read anew, so
//! nothing is lost but the time that takes. Only between two batches: what is judged stays.
//!
//! - The newest messages go whenever they take more room than they may.
//! - Transaction ids, and whole queues, stay as long as they are used: a broker that has too little
//!   room for what it is asked for would otherwise read the same again for each batch.
//! - A queue in which somebody waits stays: who waits is found by what is remembered of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::image::QueueSlot;
use super::state::Memory;
use crate::limits::{
    DURABLE_PLACES_MAX, DURABLE_TAILS_BYTES, DURABLE_UNUSED_S, DURABLE_WINDOWS_BYTES,
};
use crate::model::TenantId;
use crate::model::durable::Source;

/// Parts of partitions that take room, in the order of their last use.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by_turn: BTreeMap<u64, Part>,
    bytes: usize,
    next_turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    place: (QueueSlot, usize),
    used_us: i64,
}

/// How a part was noted last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    turn: u64,
    bytes: usize,
}

impl Recent {
    /// Notes that a part was used and what room it takes; none at all forgets it.
    fn note(&mut self, part: Part, mark: Mark, bytes: usize) -> Mark {
        self.forget(mark);
        if bytes == 0 {
            return Mark::default();
        }
        self.next_turn += 1;
        self.bytes += bytes;
        self.by_turn.insert(self.next_turn, part);
        Mark {
            turn: self.next_turn,
            bytes,
        }
    }

    /// A part is gone.
    pub(super) fn forget(&mut self, mark: Mark) {
        if self.by_turn.remove(&mark.turn).is_some() {
            self.bytes -= mark.bytes;
        }
    }

    /// The part that was used longest ago, if all together take more than `bytes_max`.
    fn excess(&self, bytes_max: usize) -> Option<Part> {
        let over = self.bytes > bytes_max;
        let (_, part) = self.by_turn.first_key_value().filter(|_| over)?;
        Some(*part)
    }
}

/// How much may be remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) tails_bytes: usize,
    pub(super) windows_bytes: usize,
    pub(super) places: usize,
}

impl Bounds {
    /// Those of a broker.
    pub(super) const BROKER: Bounds = Bounds {
        tails_bytes: DURABLE_TAILS_BYTES,
        windows_bytes: DURABLE_WINDOWS_BYTES,
        places: DURABLE_PLACES_MAX,
    };
}

/// Before that nothing counts as used.
fn unused_since(now_us: i64) -> i64 {
    now_us - DURABLE_UNUSED_S * 1_000_000
}

impl Memory {
    /// A partition's transaction ids or newest messages are others than before.
    pub(super) fn weigh(&mut self, (slot, number): (QueueSlot, usize), now_us: i64) {
        let Some(queue) = self.queues.get_mut(&slot) else {
            return;
        };
        let part = Part {
            place: (slot, number),
            used_us: now_us,
        };
        let kept = &mut queue.partitions[number];
        let bytes = kept.tail.memory_bytes();
        kept.tail_mark = self.tails.note(part, kept.tail_mark, bytes);
        let bytes = kept
            .window
            .as_ref()
            .map_or(0, super::window::Window::memory_bytes);
        kept.window_mark = self.windows.note(part, kept.window_mark, bytes);
    }

    /// A queue is used.
    pub(super) fn use_queue(&mut self, slot: QueueSlot, now_us: i64) {
        self.queue_mut(slot).used_us = now_us;
    }

    /// Forgets what is beyond the bounds. Nothing may be judged and not stored.
    pub(super) fn keep_within(&mut self, bounds: &Bounds, now_us: i64) {
        while let Some(part) = self.tails.excess(bounds.tails_bytes) {
            let (slot, number) = part.place;
            let queue = self.queues.get_mut(&slot);
            let kept = &mut queue.expect("its parts go with it").partitions[number];
            kept.tail.clear();
            self.tails.forget(std::mem::take(&mut kept.tail_mark));
        }
        while let Some(part) = self.windows.excess(bounds.windows_bytes)
            && part.used_us < unused_since(now_us)
        {
            let (slot, number) = part.place;
            let queue = self.queues.get_mut(&slot);
            let kept = &mut queue.expect("its parts go with it").partitions[number];
            kept.window = None;
            self.windows.forget(std::mem::take(&mut kept.window_mark));
        }
        // Those that are used may be too many: no look at all of them in each batch.
        if self.places() > bounds.places && self.swept_us < unused_since(now_us) {
            self.swept_us = now_us;
            self.forget_unused(bounds.places / 4 * 3, now_us);
        }
    }

    fn places(&self) -> usize {
        self.queues.len() + self.partitions.len()
    }

    /// Forgets queues until so many queues and partitions are left.
    fn forget_unused(&mut self, places: usize, now_us: i64) {
        let is_unused = |used_us: i64| used_us < unused_since(now_us);
        let queues = self.queues.iter();
        let unused = queues.filter(|(_, queue)| is_unused(queue.used_us));
        let mut unused: Vec<(i64, QueueSlot)> =
            unused.map(|(&slot, queue)| (queue.used_us, slot)).collect();
        unused.sort_unstable();
        let found = self.found_by_waiters();
        for (_, slot) in unused {
            if self.places() <= places {
                break;
            }
            if !self.is_waited_for(slot, &found) {
                self.forget(slot);
            }
        }
        let queues = &self.queues;
        self.timers
            .retain(|Reverse((_, cursor))| queues.contains_key(&cursor.queue));
    }

    /// What is waited for by discoveries.
    fn found_by_waiters(&self) -> HashSet<(TenantId, Source)> {
        let waiters = self.waiters.discoveries();
        waiters
            .map(|waiter| (waiter.tenant, waiter.pop.source.clone()))
            .collect()
    }

    fn is_waited_for(&self, slot: QueueSlot, found: &HashSet<(TenantId, Source)>) -> bool {
        let queue = self.queue(slot);
        let named = self.waiters.keys_of(queue.tenant, Some(&queue.name));
        let mut found = found.iter();
        !named.is_empty()
            || found.any(|(tenant, source)| *tenant == queue.tenant && queue.is_found_by(source))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::engine::durable::durable_test::{Broker, ack_of, item, messages, pop_of};
    use crate::engine::durable::store_test::Database;
    use crate::model::durable::{Ack, Command, Extend, Pop, PushItem, PushStatus, Reply, Verdict};

    const TIGHT: Bounds = Bounds {
        tails_bytes: 2_000,
        windows_bytes: 2_000,
        places: 20,
    };

    fn now_us(broker: &Broker) -> i64 {
        broker.memory.time_us(Instant::now())
    }

    fn later_us(broker: &Broker) -> i64 {
        now_us(broker) + (DURABLE_UNUSED_S + 5) * 1_000_000
    }

    fn push_to(broker: &mut Broker, database: &mut Database, queue: &str) -> PushStatus {
        let item = PushItem {
            queue: queue.into(),
            ..item("p", "1")
        };
        let Reply::Pushed(outcomes) = broker.one(database, Command::Push(vec![item])) else {
            panic!("a push is answered as one");
        };
        outcomes[0].status
    }

    fn pop_from(queue: &str) -> Pop {
        Pop {
            source: Source::Queue(queue.into()),
            ..pop_of(10, 10)
        }
    }

    #[test]
    fn the_newest_messages_stay_within_their_room_and_are_read_where_they_are_gone() {
        let (mut database, mut broker) = (Database::default(), Broker::new());
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        for name in &names {
            broker.push(&mut database, &[(name, "1"), (name, "2")]);
        }
        let now_us = now_us(&broker);
        assert!(broker.memory.tails.bytes > TIGHT.tails_bytes);
        broker.memory.keep_within(&TIGHT, now_us);
        assert!(broker.memory.tails.bytes <= TIGHT.tails_bytes);
        assert!(!broker.memory.tails.by_turn.is_empty());
        assert_eq!(broker.pop(&mut database, pop_of(1_000, 1_000)).len(), 200);
        broker.memory.forget_all();
        assert_eq!(broker.memory.tails.bytes, 0);
    }

    #[test]
    fn transaction_ids_go_when_they_are_not_used_and_are_known_again() {
        let (mut database, mut broker) = (Database::default(), Broker::new());
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        for name in &names {
            broker.push(&mut database, &[(name, "1")]);
        }
        let all = broker.memory.windows.bytes;
        let now_us = now_us(&broker);
        broker.memory.keep_within(&TIGHT, now_us);
        assert_eq!(broker.memory.windows.bytes, all, "they are used");
        let later_us = later_us(&broker);
        broker.memory.keep_within(&TIGHT, later_us);
        assert!(broker.memory.windows.bytes <= TIGHT.windows_bytes);
        for name in &names {
            let status = broker.push(&mut database, &[(name, "1"), (name, "2")]);
            let (known, queued) = (
                PushStatus::Duplicate { offset: 0 },
                PushStatus::Queued { offset: 1 },
            );
            assert_eq!(status, [known, queued]);
        }
        // Nothing is counted twice or not at all.
        let slot = broker.memory.slot(TenantId::DEFAULT, "orders");
        broker.memory.forget(slot.expect("it is remembered"));
        let left = (broker.memory.tails.bytes, broker.memory.windows.bytes);
        assert_eq!(left, (0, 0));
    }

    #[test]
    fn queues_that_nobody_uses_are_forgotten_and_what_holds_there_holds() {
        let (mut database, mut broker) = (Database::default(), Broker::new());
        let names: Vec<String> = (0..50).map(|number| format!("q{number}")).collect();
        let mut taken = Vec::new();
        for name in &names {
            push_to(&mut broker, &mut database, name);
            taken.extend(broker.pop(&mut database, pop_from(name)));
        }
        assert_eq!(broker.memory.leases.len(), 50);
        let (used_us, unused_us) = (now_us(&broker), later_us(&broker));
        broker.memory.keep_within(&TIGHT, used_us);
        assert_eq!(broker.memory.places(), 100, "all of them are used");
        broker.memory.keep_within(&TIGHT, unused_us);
        assert!(broker.memory.places() <= TIGHT.places);
        assert_eq!(broker.memory.leases.len(), broker.memory.queues.len());
        assert_eq!(broker.memory.timers(), broker.memory.queues.len());
        for (name, message) in names.iter().zip(&taken) {
            let extend = Extend {
                lease_id: message.lease_id.expect("a lease").to_string().into(),
                seconds: 60,
            };
            let reply = broker.one(&mut database, Command::Extend(extend));
            assert!(matches!(reply, Reply::Extended(extended) if extended.renewed == 1));
            let known = PushStatus::Duplicate { offset: 0 };
            assert_eq!(push_to(&mut broker, &mut database, name), known);
            assert!(broker.pop(&mut database, pop_from(name)).is_empty());
            let ack: Ack = ack_of(message, Verdict::Completed);
            let Reply::Acked(outcomes) = broker.one(&mut database, Command::Ack(vec![ack])) else {
                panic!("an ack is answered as one");
            };
            assert_eq!(outcomes[0].refused, None);
        }
    }

    #[test]
    fn a_queue_in_which_somebody_waits_stays() {
        let (mut database, mut broker) = (Database::default(), Broker::new());
        let sources = [
            Source::Queue("q0".into()),
            Source::Discovery {
                namespace: Some("found".into()),
                task: None,
            },
        ];
        for name in ["q0", "found.q"] {
            push_to(&mut broker, &mut database, name);
            assert_eq!(broker.pop(&mut database, pop_from(name)).len(), 1);
        }
        for source in sources {
            let waiting = Pop {
                source,
                wait_ms: Some(30_000),
                ..pop_of(1, 1)
            };
            let answers = broker.serve(&mut database, vec![Command::Pop(waiting)]);
            assert!(answers.is_empty());
        }
        for number in 1..50 {
            push_to(&mut broker, &mut database, &format!("q{number}"));
        }
        let later_us = later_us(&broker);
        broker.memory.keep_within(&TIGHT, later_us);
        for name in ["q0", "found.q"] {
            assert!(broker.memory.slot(TenantId::DEFAULT, name).is_some());
        }
        // Both are woken.
        let pushed = ["q0", "found.q"].map(|queue| PushItem {
            queue: queue.into(),
            ..item("other", "2")
        });
        let answers = broker.serve(&mut database, vec![Command::Push(pushed.into())]);
        let woken = answers.iter().filter(|(_, reply)| match reply {
            Reply::Popped(_) => messages(reply).len() == 1,
            _ => false,
        });
        assert_eq!(woken.count(), 2);
    }
}
