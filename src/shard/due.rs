//! What is due by the clock: leases, TTL, windows, waiting pops, idle rings and queues.

use std::sync::Arc;

use super::timers::{Entry, Timer};
use super::{Effect, Shard};
use crate::limits;
use crate::model::{Moment, Tier};

impl Shard {
    /// Does what is due, in bounded steps over all rings: what is left stays due, and
    /// [`Shard::next_deadline`] says so.
    pub fn run_due(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.run_due_steps(now, effects);
        self.end_turn(effects);
    }

    pub(super) fn run_due_steps(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let mut steps = limits::EXPIRE_STEP_MAX;
        for _ in 0..limits::DUE_STEP_MAX {
            // It is of something that is armed: the last turn and the last step have seen to it.
            let Some((_, timer)) = self.timers.pop_due(now) else {
                return;
            };
            match timer {
                Timer::Window(serial) => {
                    if let Some(&(number, _)) = self.waiters.of_serial(serial) {
                        self.close_window(now, number, effects);
                    }
                }
                Timer::Waiter(serial) => {
                    if let Some(&(number, _)) = self.waiters.of_serial(serial) {
                        self.time_out(now, number, effects);
                    }
                }
                Timer::Held(token) => {
                    if !self.go_on(now, token, effects) {
                        return;
                    }
                }
                Timer::Queue(key, _) => self.look_at_queue(now, key, effects),
                Timer::Resting(key, _) => {
                    self.wake(now, key);
                }
                Timer::Ring(key, _) => {
                    self.rings[key].armed = None;
                    if !self.look_at_ring(now, key, &mut steps, effects) {
                        self.set_ring_timer(key, now);
                        return;
                    }
                }
            }
            self.drop_stale_timers();
        }
    }

    /// Whether nothing due is left in the ring; every message and lease takes one of `steps`.
    fn look_at_ring(
        &mut self,
        now: Moment,
        key: u32,
        steps: &mut usize,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let terms = self.terms(self.rings[key].queue);
        let (finished, redelivered) = self.on_ring(key, |ring, changes| {
            ring.refresh(now, terms, steps, changes)
        });
        for group in redelivered {
            self.serve(now, key, group, effects);
        }
        if !finished {
            return false;
        }
        let ring = &self.rings[key];
        let (queue, idle_since) = (ring.queue, ring.touched);
        if self.collection_at(idle_since) <= now && ring.is_idle() {
            self.collect_ring(now, key);
            return true;
        }
        if self.shrink_at(idle_since) <= now && self.shrinks(key) {
            self.on_ring(key, |ring, _| ring.shrink());
        }
        if !self.rest(now, queue) {
            self.arm_ring(now, key);
        }
        true
    }

    pub(super) fn collection_at(&self, touched: Moment) -> Moment {
        match self.settings.implicit_idle_ms {
            0 => Moment::NEVER,
            idle_ms => touched.after_ms(idle_ms),
        }
    }

    /// An idle ring gives its memory back when its lingering messages go, and without them as well.
    pub(super) fn shrink_at(&self, touched: Moment) -> Moment {
        touched.after_ms(self.settings.linger_ms.max(1_000))
    }

    fn shrinks(&self, key: u32) -> bool {
        let ring = &self.rings[key];
        ring.lingering().messages > 0 || (ring.slots.live() == 0 && ring.slots.capacity() > 0)
    }

    /// Makes sure that what lingers since an ack is let go in time.
    pub(super) fn arm_shrinking(&mut self, now: Moment, key: u32) {
        let armed = self.rings[key].armed;
        if armed.is_none_or(|at| at > self.shrink_at(now)) {
            self.arm_ring(now, key);
        }
    }

    /// Makes sure that the ring is looked at in time. An entry that is too early is left: looking
    /// at the ring then costs less than moving the entry at every lease.
    pub(super) fn arm_ring(&mut self, now: Moment, key: u32) {
        let queue = self.rings[key].queue;
        let terms = self.terms(queue);
        let ring = &mut self.rings[key];
        let mut at = ring.next_lease_end();
        if let Some(ttl_ms) = terms.ttl_ms
            && let Some(pushed) = ring.oldest_held_pushed()
        {
            let tick_us = self.settings.ttl_tick_ms * 1_000;
            let due_us = pushed.after_ms(ttl_ms).as_us();
            let ticked_us = due_us.checked_next_multiple_of(tick_us).unwrap_or(u64::MAX);
            at = at.min(Moment::from_us(ticked_us));
        }
        let touched = ring.touched;
        if self.shrinks(key) {
            at = at.min(self.shrink_at(touched));
        } else if self.may_rest(queue) {
            at = at.min(self.rests_at(queue));
        }
        // What is busy now is looked at when it may have become idle.
        let collection = self.collection_at(touched);
        at = at.min(if collection > now {
            collection
        } else {
            self.collection_at(now)
        });
        let far = now.after_ms(86_400_000);
        let at = at.min(far);
        let armed = self.rings[key].armed;
        if armed.is_none_or(|armed| at < armed) {
            self.set_ring_timer(key, at);
        }
    }

    /// Moves the timer of a ring: it never has two.
    fn set_ring_timer(&mut self, key: u32, at: Moment) {
        let ring = &mut self.rings[key];
        ring.armed = Some(at);
        self.timers.insert(at, Timer::Ring(key, ring.serial));
    }

    /// Whether what an entry is about is armed for its moment.
    pub(super) fn is_current(&self, &(at, timer): &Entry) -> bool {
        let armed = match timer {
            Timer::Ring(key, serial) => {
                let ring = self.rings.get(key);
                ring.filter(|ring| ring.serial == serial)
                    .and_then(|ring| ring.armed)
            }
            Timer::Queue(key, generation) => {
                let queue = self.queues.get(key);
                queue
                    .filter(|queue| queue.cell.generation() == generation)
                    .and_then(|queue| queue.armed)
            }
            Timer::Resting(key, generation) => {
                let resting = self.resting.get(key);
                resting
                    .filter(|resting| resting.cell.generation() == generation)
                    .map(|resting| self.wakes_at(resting))
            }
            Timer::Window(serial) => {
                let waiter = self.waiters.of_serial(serial);
                waiter.and_then(|(_, waiter)| waiter.window_closes)
            }
            Timer::Waiter(serial) => {
                let waiter = self.waiters.of_serial(serial);
                waiter.map(|(_, waiter)| waiter.deadline)
            }
            Timer::Held(token) => self.held.again(token),
        };
        armed == Some(at)
    }

    /// Sees to it that the first timer is of something that is armed, and that those that are not do
    /// not gather behind it.
    pub(super) fn drop_stale_timers(&mut self) {
        if self.has_stale_timers() {
            let mut timers = std::mem::take(&mut self.timers);
            timers.retain(|entry| self.is_current(entry));
            self.timers = timers;
        }
        while let Some(first) = self.timers.first()
            && !self.is_current(&first)
        {
            self.timers.pop_due(first.0);
        }
    }

    /// Whether most of the timers must be of what is not armed, or the same.
    pub(super) fn has_stale_timers(&self) -> bool {
        let tables = self.rings.len() + self.queues.len() + self.resting.len();
        let most = tables + 2 * self.waiters.len() + self.held.len();
        self.timers.is_crowded(most)
    }

    /// Collects an implicit queue that was empty and unpolled for long enough; puts one without a
    /// ring to rest.
    fn look_at_queue(&mut self, now: Moment, key: u32, effects: &mut Vec<Effect>) {
        let queue = &mut self.queues[key];
        queue.armed = None;
        if queue.cell.is_dead() {
            // The word of it is on its way.
            return;
        }
        // A declared one stays until it is deleted.
        queue.collects &= queue.cell.configuration().tier != Tier::Declared;
        let (collects, touched) = (queue.collects, queue.cell.touched());
        let is_due = collects && self.collection_at(touched) <= now;
        if is_due && self.remove_queue(key, effects) {
            return;
        }
        if self.queues[key].partitions.len() > 0 || !self.rest(now, key) {
            self.arm_queue(if is_due { now } else { touched }, key);
        }
    }

    /// Removes a queue everywhere if it is empty and nobody waits for it.
    pub(super) fn remove_queue(&mut self, key: u32, effects: &mut Vec<Effect>) -> bool {
        let local = &self.queues[key];
        let (cell, life) = (Arc::clone(&local.cell), local.reference());
        if !self.directory.collect(&cell) {
            return false;
        }
        self.forget_queue(key);
        self.tell_to_look(&life, cell.shards(), effects);
        true
    }
}
