//! Room for a push: the bounds of the queue, of the tenant and of the broker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::RingRef;
use super::{Effect, Shard};
use crate::model::{EffectiveOptions, Moment, Policy, Refusal};

impl Shard {
    /// Refuses what the queue could not hold even if it were empty.
    pub(super) fn check_fits_empty(
        &self,
        queue: Option<u32>,
        name: &str,
        count: u64,
        bytes: u64,
    ) -> Result<(), Refusal> {
        let options = match queue {
            Some(queue) => self.options(queue),
            None => *self.directory.implicit_options(),
        };
        let never = |bound, limit, wanted| {
            Err(Refusal::NeverFits {
                queue: name.into(),
                bound,
                limit,
                wanted,
            })
        };
        if bytes > options.max_bytes {
            return never("maxBytes", options.max_bytes, bytes);
        }
        if count > options.max_length {
            return never("maxLength", options.max_length, count);
        }
        Ok(())
    }

    pub(super) fn options(&self, queue: u32) -> EffectiveOptions {
        self.queues[queue as usize].cell.configuration().effective
    }

    /// Reserves room in the queue, the tenant and the broker, in this order; a refusal takes
    /// nothing. A queue that drops the oldest makes room once the other two are known to have it.
    pub(super) fn reserve(
        &mut self,
        now: Moment,
        queue: u32,
        count: u64,
        bytes: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let options = self.options(queue);
        let mut in_queue = self.reserve_in_queue(queue, count, bytes, &options);
        if !in_queue && options.ttl_ms.is_some() {
            // What is past its TTL is no reason to refuse or to drop anything else.
            self.expire_queue(now, queue, options.ttl_ms, effects);
            in_queue = self.reserve_in_queue(queue, count, bytes, &options);
        }
        if !in_queue && options.policy == Policy::Reject {
            return Err(self.queue_full(queue, bytes, &options));
        }
        if let Err(refusal) = self.reserve_outside(queue, bytes) {
            if in_queue {
                self.queues[queue as usize].cell.release(count, bytes);
            }
            return Err(refusal);
        }
        while !in_queue {
            let evicted = self.evict_oldest(queue);
            assert!(
                evicted,
                "a push that fits an empty queue found no room in one"
            );
            in_queue = self.reserve_in_queue(queue, count, bytes, &options);
        }
        Ok(())
    }

    fn reserve_in_queue(
        &self,
        queue: u32,
        count: u64,
        bytes: u64,
        options: &EffectiveOptions,
    ) -> bool {
        let cell = &self.queues[queue as usize].cell;
        cell.reserve(count, bytes, options)
            .expect("a queue in the table is alive")
    }

    fn queue_full(&self, queue: u32, bytes: u64, options: &EffectiveOptions) -> Refusal {
        let cell = &self.queues[queue as usize].cell;
        let (bound, limit) = if cell.bytes() + bytes > options.max_bytes {
            ("maxBytes", options.max_bytes)
        } else {
            ("maxLength", options.max_length)
        };
        Refusal::QueueFull {
            queue: cell.name().clone(),
            bound,
            limit,
        }
    }

    pub(super) fn reserve_outside(&self, queue: u32, bytes: u64) -> Result<(), Refusal> {
        let tenant = self.queues[queue as usize].cell.tenant();
        if !tenant.budget().reserve(bytes) {
            return Err(Refusal::QuotaExceeded {
                text: "the tenant's allowance of payload bytes is used up; \
                       consume, reset or delete queues to free it",
            });
        }
        if !self.directory.broker().reserve(bytes) {
            tenant.budget().release(bytes);
            return Err(Refusal::Unavailable {
                text: "the broker holds as many payload bytes as QUEEN_EPHEMERAL_MAX_BYTES allows; \
                       consume messages or raise it",
            });
        }
        Ok(())
    }

    /// Expires what is due in a queue; looks only at rings that have something due.
    fn expire_queue(
        &mut self,
        now: Moment,
        queue: u32,
        ttl_ms: Option<u64>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ttl_ms) = ttl_ms else {
            return;
        };
        let terms = self.terms(queue);
        let mut steps = usize::MAX;
        while let Some((_, key)) = self.pop_oldest(queue, |age| age.after_ms(ttl_ms) <= now) {
            let (_, redelivered) = self.on_ring(key, |ring, changes| {
                ring.refresh(now, terms, &mut steps, changes)
            });
            for group in redelivered {
                self.serve(now, key, group, effects);
            }
            self.note_age(key);
        }
    }

    /// Enters a ring among its queue's rings by age, if the queue keeps them so.
    pub(super) fn note_age(&mut self, key: u32) {
        let ring = &mut self.rings[key as usize];
        let queue = &mut self.queues[ring.queue as usize];
        let Some(by_age) = &mut queue.by_age else {
            return;
        };
        if !ring.aged
            && let Some(pushed) = ring.oldest_live_pushed()
        {
            by_age.push(Reverse((
                pushed,
                RingRef {
                    key,
                    serial: ring.serial,
                },
            )));
            ring.aged = true;
            queue.bound_by_age();
        }
    }

    /// Takes the ring that is known for the oldest message of the queue, with its age, out of the
    /// rings by age, if there is one and `wanted` says yes to it.
    fn pop_oldest(&mut self, queue: u32, wanted: impl Fn(Moment) -> bool) -> Option<(Moment, u32)> {
        if self.queues[queue as usize].by_age.is_none() {
            self.queues[queue as usize].by_age = Some(BinaryHeap::new());
            for ring in self.queues[queue as usize].rings() {
                self.rings[ring as usize].aged = false;
                self.note_age(ring);
            }
        }
        loop {
            let by_age = &mut self.queues[queue as usize].by_age;
            let by_age = by_age.as_mut().expect("made above");
            let &Reverse((age, entry)) = by_age.peek()?;
            if !wanted(age) {
                return None;
            }
            by_age.pop();
            if let Some(key) = self.ring_of(entry) {
                self.rings[key as usize].aged = false;
                return Some((age, key));
            }
        }
    }

    /// Drops the queue's oldest message, whatever partition it is in; `false` if there is none.
    fn evict_oldest(&mut self, queue: u32) -> bool {
        while let Some((age, key)) = self.pop_oldest(queue, |_| true) {
            let oldest = self.rings[key as usize].oldest_live_pushed();
            let evict = oldest.is_some_and(|oldest| oldest <= age);
            if evict {
                self.on_ring(key, |ring, changes| ring.evict_oldest(changes));
            }
            self.note_age(key);
            if evict {
                return true;
            }
        }
        false
    }
}
