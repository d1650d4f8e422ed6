//! Settling deliveries: acks, and give-backs of what could not be delivered.

use super::{Effect, Shard};
use crate::model::{
    Ack, AckOutcome, Delivered, MessageId, Moment, Popped, Refusal, Reply, TenantId, Verdict,
};

impl Shard {
    /// One outcome per ack, in order. Never creates anything.
    pub(super) fn ack(
        &mut self,
        now: Moment,
        tenant: TenantId,
        ack: &Ack<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        let queue = self.find_queue(now, tenant, ack.queue.as_str(), effects);
        if let Some(queue) = queue {
            self.queues[queue].cell.touch(now);
        }
        let group = queue.and_then(|queue| self.queues[queue].group(ack.group.as_str()));
        let mut outcomes = Vec::with_capacity(ack.acks.len());
        for item in &ack.acks {
            let outcome = match MessageId::parse(&item.id) {
                None => AckOutcome::Unknown,
                Some(id) if id.incarnation != self.settings.incarnation => AckOutcome::Stale,
                Some(id) => match (queue, group) {
                    (Some(queue), Some(group)) => {
                        self.settle(now, (queue, group), id, item.verdict, effects)
                    }
                    _ => AckOutcome::Unknown,
                },
            };
            outcomes.push(outcome);
        }
        Ok(Reply::Acked(outcomes))
    }

    fn settle(
        &mut self,
        now: Moment,
        (queue, group): (u32, u32),
        id: MessageId<'_>,
        verdict: Verdict,
        effects: &mut Vec<Effect>,
    ) -> AckOutcome {
        let Some(ring) = self.find_ring(queue, id.partition) else {
            return AckOutcome::Unknown;
        };
        let terms = self.terms(queue);
        let (outcome, redelivered) = self.on_ring(ring, |ring, changes| {
            ring.touched = now;
            ring.settle(now, terms, (group, id.sequence), verdict, changes)
        });
        if outcome == AckOutcome::Acked && verdict == Verdict::Completed {
            self.statistics.acked += 1;
        }
        for group in redelivered {
            self.serve(now, ring, group, effects);
        }
        self.arm_shrinking(now, ring);
        outcome
    }

    /// Takes back what was taken for an answer that could not be delivered. No attempt is spent,
    /// and the next one who waits is served. Void for a queue that was deleted or reset since, and
    /// for leases that are no longer the ones that were given.
    pub fn give_back(&mut self, now: Moment, popped: Popped, effects: &mut Vec<Effect>) {
        let Some(queue) = self.find_life(now, &popped.life(), effects) else {
            return self.end_turn(effects);
        };
        for message in popped.messages {
            let Some(ring) = self.find_ring(queue, &message.partition) else {
                // Collected: nothing of it was live, so nobody can have waited for more.
                continue;
            };
            let redelivered = if popped.auto_ack {
                self.give_back_settled(now, ring, popped.group, message)
            } else {
                let give_back = |ring: &mut super::ring::Ring, changes: &mut _| {
                    ring.give_back_lease(popped.group, &message, changes);
                };
                self.on_ring(ring, give_back).1
            };
            for group in redelivered {
                self.serve(now, ring, group, effects);
            }
            self.tell_age(queue);
            self.arm_ring(now, ring);
        }
        self.end_turn(effects);
    }

    /// Takes back a message that was settled when it was taken.
    fn give_back_settled(
        &mut self,
        now: Moment,
        key: u32,
        group: u32,
        message: Delivered,
    ) -> Vec<u32> {
        let ring = &self.rings[key];
        if ring.is_void(group, message.sequence) {
            return Vec::new();
        }
        let queue = ring.queue;
        let (live, redelivered) = self.on_ring(key, |ring, changes| {
            ring.give_back_live(group, &message, changes)
        });
        if live {
            return redelivered;
        }
        if self.rings[key].give_back_dropped(group, message.sequence) {
            return Vec::new();
        }
        let options = self.options(queue);
        let due = options
            .ttl_ms
            .is_some_and(|ttl_ms| message.pushed.after_ms(ttl_ms) <= now);
        let bytes = message.payload.len() as u64;
        if due || !self.reserve_again(queue, bytes) {
            self.on_ring(key, |ring, changes| {
                ring.count_lost(group, message.sequence);
                changes.dropped_ttl += u64::from(due);
                changes.dropped_bounds += u64::from(!due);
            });
            return Vec::new();
        }
        let (_, redelivered) =
            self.on_ring(key, |ring, changes| ring.revive(group, message, changes));
        // It may be older than what its ring is known for.
        self.rings[key].aged = false;
        self.note_age(key);
        redelivered
    }

    fn reserve_again(&self, queue: u32, bytes: u64) -> bool {
        let queue_of = &self.queues[queue];
        // In a queue that has died meanwhile there is no room either.
        let in_queue = queue_of.cell.reserve(1, bytes, &queue_of.options);
        if in_queue != Ok(true) {
            return false;
        }
        let outside = self.reserve_outside(queue, bytes).is_ok();
        if !outside {
            queue_of.cell.release(1, bytes);
        }
        outside
    }
}
