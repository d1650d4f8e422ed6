//! The ring of one (queue, partition): its messages and every group's place in them.
//!
//! A ring knows nothing of budgets, waiters and other rings: what its operations change for them
//! stands in [`Changes`], which the shard settles.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::dropped::Dropped;
use super::group::{Group, Lease};
use super::slots::{LingerTotal, SlotState, Slots};
use crate::model::{AckOutcome, Delivered, EffectiveOptions, Moment, Verdict};

/// The options that a ring's operations depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) ttl_ms: Option<u64>,
    pub(super) lease_ms: u64,
    pub(super) retry_limit: u32,
    pub(super) linger: bool,
}

impl Terms {
    pub(super) fn new(options: &EffectiveOptions, linger: bool) -> Terms {
        Terms {
            ttl_ms: options.ttl_ms,
            lease_ms: options.lease_ms,
            retry_limit: options.retry_limit.max(1),
            linger,
        }
    }

    fn is_due(&self, pushed: Moment, now: Moment) -> bool {
        self.ttl_ms
            .is_some_and(|ttl_ms| pushed.after_ms(ttl_ms) <= now)
    }
}

/// What an operation changed beyond its ring.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Messages that are no longer counted, and their bytes.
    pub(super) released: u64,
    pub(super) released_bytes: u64,
    pub(super) dropped_bounds: u64,
    pub(super) dropped_ttl: u64,
    pub(super) dropped_retry: u64,
    /// Messages that linger from now on.
    pub(super) lingered: Vec<u64>,
    /// Groups that have something to take again.
    pub(super) redelivered: Vec<u32>,
}

/// A message at its TTL whose leases have not all ended (README, "TTL").
#[derive(Debug)]
struct Expiring {
    leases: u32,
    /// Some group did not get it: it counts as dropped when the last lease has ended.
    missed: bool,
    /// Every group had passed it before: those that lease it anew miss nothing that counts.
    lingered: bool,
}

#[derive(Debug)]
pub(super) struct Ring {
    pub(super) partition: Arc<str>,
    /// The queue it belongs to, in the shard's table.
    pub(super) queue: u32,
    /// Tells rings apart that had the same key in the shard's table.
    pub(super) serial: u32,
    pub(super) slots: Slots,
    pub(super) groups: SmallVec<[Group; 1]>,
    expiring: BTreeMap<u64, Expiring>,
    dropped: Dropped,
    deliveries: u64,
    /// No lease ends before it.
    next_lease_end: Moment,
    /// A give-back of anything below it is void: the ring was reset.
    reset_below: u64,
    pub(super) touched: Moment,
    /// The moment of the ring's entry among the shard's timers.
    pub(super) armed: Option<Moment>,
    /// Whether the ring stands among its queue's rings by age (see `room.rs`).
    pub(super) aged: bool,
}

/// What has to be kept of a ring without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seed {
    tail: u64,
    deliveries: u64,
    reset_below: u64,
}

/// A take of messages for one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Take {
    pub(super) group: u32,
    pub(super) auto_ack: bool,
    /// Messages at most in the whole batch.
    pub(super) batch: usize,
}

impl Ring {
    pub(super) fn new(partition: Arc<str>, queue: u32, serial: u32, base: u64) -> Ring {
        Ring {
            partition,
            queue,
            serial,
            slots: Slots::new(base),
            groups: SmallVec::new(),
            expiring: BTreeMap::new(),
            dropped: Dropped::default(),
            deliveries: 0,
            next_lease_end: Moment::NEVER,
            reset_below: base,
            touched: Moment::ZERO,
            armed: None,
            aged: false,
        }
    }

    /// The ring that this is the seed of, but for its groups, which all start at its tail.
    pub(super) fn of_seed(partition: Arc<str>, queue: u32, serial: u32, seed: Seed) -> Ring {
        Ring {
            deliveries: seed.deliveries,
            reset_below: seed.reset_below,
            ..Ring::new(partition, queue, serial, seed.tail)
        }
    }

    /// What is left of the ring where nothing else is: no message, nothing due to a group, nothing
    /// to remember.
    pub(super) fn seed(&self) -> Option<Seed> {
        let tail = self.slots.tail();
        let is_plain = self.slots.capacity() == 0
            && self.slots.live() == 0
            && self.expiring.is_empty()
            && self.dropped.is_empty()
            && self.groups.iter().all(|group| group.is_plain_at(tail));
        is_plain.then_some(Seed {
            tail,
            deliveries: self.deliveries,
            reset_below: self.reset_below,
        })
    }

    /// Gives every group of the queue a place: at the oldest message still held.
    pub(super) fn sync_groups(&mut self, count: u32) {
        while self.groups.len() < count as usize {
            let cursor = self.slots.oldest_held().unwrap_or(self.slots.tail());
            self.groups.push(Group::new(cursor, self.slots.live()));
        }
    }

    fn group(&mut self, group: u32) -> &mut Group {
        &mut self.groups[group as usize]
    }

    pub(super) fn push(&mut self, payloads: Vec<Bytes>, pushed: Moment) {
        let count = payloads.len() as u64;
        self.slots.reserve(payloads.len());
        for payload in payloads {
            self.slots.push(payload, pushed);
        }
        for group in &mut self.groups {
            group.unread += count;
        }
    }

    /// Whether `group` may find something to take; a message past its TTL may still be counted in.
    pub(super) fn has_available(&self, group: u32) -> bool {
        let group = &self.groups[group as usize];
        !group.pending.is_empty() || self.slots.next_held(group.cursor).is_some()
    }

    /// How many messages `group` could take now, counted up to `most`.
    pub(super) fn available(&self, group: u32, most: usize) -> usize {
        let group = &self.groups[group as usize];
        // What lingered when it was to be given out again may be gone.
        let pending = group.pending.keys();
        let held = pending.filter(|&&sequence| self.slots.get(sequence).is_some());
        let mut count = held.take(most).count();
        let mut from = group.cursor;
        while count < most
            && let Some(sequence) = self.slots.next_held(from)
        {
            count += 1;
            from = sequence + 1;
        }
        count
    }

    /// Ends leases that are due and expires messages that are due; each takes one of `steps`.
    /// Whether none is left.
    pub(super) fn refresh(
        &mut self,
        now: Moment,
        terms: Terms,
        steps: &mut usize,
        changes: &mut Changes,
    ) -> bool {
        if self.next_lease_end <= now && !self.end_due_leases(now, terms, steps, changes) {
            return false;
        }
        let Some(ttl_ms) = terms.ttl_ms else {
            return true;
        };
        while let Some(sequence) = self.slots.oldest_held() {
            let pushed = self.slots.get(sequence).expect("a held message").pushed;
            if pushed.after_ms(ttl_ms) > now {
                break;
            }
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            self.expire(sequence, changes);
        }
        true
    }

    fn end_due_leases(
        &mut self,
        now: Moment,
        terms: Terms,
        steps: &mut usize,
        changes: &mut Changes,
    ) -> bool {
        let mut next = Moment::NEVER;
        for number in 0..self.groups.len() as u32 {
            while let Some((deadline, sequence)) = self.group(number).next_lease_end() {
                if deadline > now {
                    next = next.min(deadline);
                    break;
                }
                if *steps == 0 {
                    return false;
                }
                *steps -= 1;
                self.end_lease(now, terms, number, sequence, changes);
            }
        }
        self.next_lease_end = next;
        true
    }

    /// Ends a lease without an ack: by a nack or by time.
    fn end_lease(
        &mut self,
        now: Moment,
        terms: Terms,
        group: u32,
        sequence: u64,
        changes: &mut Changes,
    ) -> AckOutcome {
        // The deadline of the message is looked at before its retry limit.
        if let Some(slot) = self.slots.get(sequence)
            && terms.is_due(slot.pushed, now)
        {
            self.expire(sequence, changes);
        }
        let lease = self
            .group(group)
            .remove_lease(sequence)
            .expect("a lease that ends");
        if self.expiring.contains_key(&sequence) {
            self.end_expiring_lease(group, sequence, true, changes);
            return AckOutcome::Acked;
        }
        if self.slots.get(sequence).is_none() {
            // It lingered and has been let go: nothing is left to give out again.
            return AckOutcome::Unknown;
        }
        if lease.attempts >= terms.retry_limit {
            changes.dropped_retry += 1;
            self.pass(sequence, terms, changes);
            return AckOutcome::Acked;
        }
        self.return_to_pending(group, sequence, lease.attempts, changes);
        AckOutcome::Redelivered
    }

    fn return_to_pending(
        &mut self,
        group: u32,
        sequence: u64,
        deliveries: u32,
        changes: &mut Changes,
    ) {
        let before = self.group(group).pending.insert(sequence, deliveries);
        assert!(before.is_none(), "{sequence} is pending twice");
        if changes.redelivered.last() != Some(&group) {
            changes.redelivered.push(group);
        }
    }

    fn end_expiring_lease(
        &mut self,
        group: u32,
        sequence: u64,
        missed: bool,
        changes: &mut Changes,
    ) {
        let expiring = self
            .expiring
            .get_mut(&sequence)
            .expect("an expiring message");
        expiring.leases -= 1;
        if missed && !expiring.lingered {
            expiring.missed = true;
            self.groups[group as usize].skipped += 1;
        }
        if expiring.leases == 0 {
            let missed = expiring.missed;
            self.expiring.remove(&sequence);
            if missed {
                self.note_dropped(sequence);
                changes.dropped_ttl += 1;
            }
        }
    }

    /// Takes a message out at its TTL. Groups that never got it, or were to get it again, count it
    /// as skipped now; those that lease it, when the lease ends without an ack.
    fn expire(&mut self, sequence: u64, changes: &mut Changes) {
        let slot = self.slots.get(sequence).expect("a held message");
        let lingered = slot.state == SlotState::Lingering;
        let (mut leases, mut missed) = (0, self.groups.is_empty());
        for group in &mut self.groups {
            if group.lease(sequence).is_some() {
                leases += 1;
            } else if lingered {
                group.pending.remove(&sequence);
            } else if group.cursor <= sequence {
                group.unread -= 1;
                group.skipped += 1;
                missed = true;
            } else if group.pending.remove(&sequence).is_some() {
                group.skipped += 1;
                missed = true;
            }
        }
        if lingered {
            self.slots.free_lingering(sequence);
        } else {
            changes.released += 1;
            changes.released_bytes += self.slots.free_live(sequence);
        }
        if leases > 0 {
            self.expiring.insert(
                sequence,
                Expiring {
                    leases,
                    missed,
                    lingered,
                },
            );
        } else if missed && !lingered {
            self.note_dropped(sequence);
            changes.dropped_ttl += 1;
        }
    }

    /// Remembers a dropped message if a group that passed it may still give it back.
    fn note_dropped(&mut self, sequence: u64) {
        if self.groups.len() > 1 {
            self.dropped.note(sequence);
        }
    }

    /// Notes that one more group is done with a message.
    fn pass(&mut self, sequence: u64, terms: Terms, changes: &mut Changes) {
        let Some(passed) = self.slots.add_passed(sequence) else {
            return;
        };
        assert!(passed as usize <= self.groups.len());
        if passed as usize == self.groups.len() {
            let (bytes, lingers) = self.slots.retire(sequence, terms.linger);
            changes.released += 1;
            changes.released_bytes += bytes;
            if lingers {
                changes.lingered.push(sequence);
            }
        }
    }

    /// Takes messages for a group until `delivered` has `take.batch` or nothing is left: pending
    /// redeliveries first, then forward from the cursor. Never a message past its TTL.
    pub(super) fn take(
        &mut self,
        now: Moment,
        terms: Terms,
        take: Take,
        delivered: &mut Vec<Delivered>,
        changes: &mut Changes,
    ) {
        while delivered.len() < take.batch {
            let group = self.group(take.group);
            let cursor = group.cursor;
            // A message whose only delivery was given back is pending with no delivery at all.
            let pending = group.pending.pop_first();
            let Some(sequence) = pending
                .map(|(sequence, _)| sequence)
                .or_else(|| self.slots.next_held(cursor))
            else {
                break;
            };
            let Some(slot) = self.slots.get(sequence) else {
                continue;
            };
            if terms.is_due(slot.pushed, now) {
                self.group(take.group).pending.extend(pending);
                self.expire(sequence, changes);
                continue;
            }
            let (pushed, payload) = (slot.pushed, slot.payload.clone());
            let live = slot.state != SlotState::Lingering;
            self.deliveries += 1;
            let delivery = self.deliveries;
            let attempts = pending.map_or(0, |(_, deliveries)| deliveries) + 1;
            let group = self.group(take.group);
            if pending.is_none() {
                group.cursor = sequence + 1;
                group.unread -= u64::from(live);
            }
            delivered.push(Delivered {
                partition: Arc::clone(&self.partition),
                sequence,
                attempts,
                delivery,
                pushed,
                payload,
            });
            if take.auto_ack {
                self.pass(sequence, terms, changes);
            } else {
                let deadline = now.after_ms(terms.lease_ms);
                self.next_lease_end = self.next_lease_end.min(deadline);
                self.group(take.group).add_lease(
                    sequence,
                    Lease {
                        deadline,
                        attempts,
                        delivery,
                    },
                );
            }
        }
    }

    /// Settles a lease by a client's verdict.
    pub(super) fn settle(
        &mut self,
        now: Moment,
        terms: Terms,
        (group, sequence): (u32, u64),
        verdict: Verdict,
        changes: &mut Changes,
    ) -> AckOutcome {
        let Some(lease) = self.group(group).lease(sequence) else {
            return AckOutcome::Unknown;
        };
        if lease.deadline <= now {
            self.end_lease(now, terms, group, sequence, changes);
            return AckOutcome::Unknown;
        }
        if verdict == Verdict::Retry {
            return self.end_lease(now, terms, group, sequence, changes);
        }
        self.group(group).remove_lease(sequence);
        if self.expiring.contains_key(&sequence) {
            self.end_expiring_lease(group, sequence, false, changes);
        } else {
            self.pass(sequence, terms, changes);
        }
        AckOutcome::Acked
    }

    /// Takes back a leased message that could not be delivered, without spending an attempt. Void
    /// if the lease is no longer the one that was given.
    pub(super) fn give_back_lease(
        &mut self,
        group: u32,
        message: &Delivered,
        changes: &mut Changes,
    ) {
        let lease = self.group(group).lease(message.sequence);
        if lease.is_none_or(|lease| lease.delivery != message.delivery) {
            return;
        }
        self.group(group).remove_lease(message.sequence);
        if self.expiring.contains_key(&message.sequence) {
            self.end_expiring_lease(group, message.sequence, true, changes);
        } else if self.slots.get(message.sequence).is_some() {
            self.return_to_pending(group, message.sequence, message.attempts - 1, changes);
        }
    }

    /// Whether a message that was settled at its delivery, but not delivered, is still live because
    /// other groups need it. If so it is pending again.
    pub(super) fn give_back_live(
        &mut self,
        group: u32,
        message: &Delivered,
        changes: &mut Changes,
    ) -> bool {
        let live = self.slots.get(message.sequence);
        if !live.is_some_and(|slot| slot.state != SlotState::Lingering) {
            return false;
        }
        self.slots.remove_passed(message.sequence);
        self.return_to_pending(group, message.sequence, message.attempts - 1, changes);
        true
    }

    /// Whether a message that was settled at its delivery, but not delivered, was dropped meanwhile
    /// for other groups, or has expired under a lease of one. It stays so, whatever room and TTL are
    /// now, and counts as dropped once: the latter when the last lease has ended.
    pub(super) fn give_back_dropped(&mut self, group: u32, sequence: u64) -> bool {
        if let Some(expiring) = self.expiring.get_mut(&sequence) {
            expiring.missed = true;
        } else if !self.dropped.contains(sequence) {
            return false;
        }
        self.group(group).skipped += 1;
        true
    }

    /// Whether a give-back of this message is void: reset since, or leased or pending anew.
    pub(super) fn is_void(&self, group: u32, sequence: u64) -> bool {
        sequence < self.reset_below || self.groups[group as usize].needs(sequence)
    }

    /// Puts back a message that was settled at its delivery but not delivered. Its room has been
    /// reserved anew.
    pub(super) fn revive(&mut self, group: u32, message: Delivered, changes: &mut Changes) {
        let sequence = message.sequence;
        let mut passed = 0;
        for (number, other) in self.groups.iter_mut().enumerate() {
            if number as u32 == group || !other.needs(sequence) {
                passed += u32::from(number as u32 != group);
            } else if other.cursor <= sequence {
                other.unread += 1;
                // It may have registered meanwhile and found nothing behind its cursor.
                changes.redelivered.push(number as u32);
            }
        }
        self.slots
            .revive(sequence, message.payload, message.pushed, passed);
        self.return_to_pending(group, sequence, message.attempts - 1, changes);
    }

    /// Counts a message that could be neither delivered nor put back. It may linger: a group that
    /// appears later may lose it once more.
    pub(super) fn count_lost(&mut self, group: u32, sequence: u64) {
        self.group(group).skipped += 1;
        self.dropped.note(sequence);
    }

    /// Drops the oldest live message to make room; its bytes. Groups that had not reached it count
    /// it as skipped; leases and redeliveries of it are void.
    pub(super) fn evict_oldest(&mut self, changes: &mut Changes) -> Option<u64> {
        let sequence = self.slots.oldest_live()?;
        for group in &mut self.groups {
            if group.remove_lease(sequence).is_some() || group.pending.remove(&sequence).is_some() {
                continue;
            }
            if group.cursor <= sequence {
                group.unread -= 1;
                group.skipped += 1;
            }
        }
        let bytes = self.slots.free_live(sequence);
        self.note_dropped(sequence);
        changes.released += 1;
        changes.released_bytes += bytes;
        changes.dropped_bounds += 1;
        Some(bytes)
    }

    /// When the oldest live message was pushed.
    pub(super) fn oldest_live_pushed(&mut self) -> Option<Moment> {
        let sequence = self.slots.oldest_live()?;
        self.slots.get(sequence).map(|slot| slot.pushed)
    }

    /// When the oldest held message was pushed.
    pub(super) fn oldest_held_pushed(&mut self) -> Option<Moment> {
        let sequence = self.slots.oldest_held()?;
        self.slots.get(sequence).map(|slot| slot.pushed)
    }

    /// Drops everything; live messages are released in `changes` and not counted as drops.
    pub(super) fn reset(&mut self, changes: &mut Changes) {
        let (messages, bytes) = self.slots.clear();
        changes.released += messages;
        changes.released_bytes += bytes;
        let tail = self.slots.tail();
        self.reset_below = tail;
        self.expiring.clear();
        self.next_lease_end = Moment::NEVER;
        for group in &mut self.groups {
            group.reset(tail);
        }
    }

    pub(super) fn next_lease_end(&self) -> Moment {
        self.next_lease_end
    }

    pub(super) fn lingering(&self) -> LingerTotal {
        self.slots.lingering()
    }

    /// Whether nothing would be lost with this ring but what lingers.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.live() == 0
            && self.expiring.is_empty()
            && self
                .groups
                .iter()
                .all(|group| group.lease_count() == 0 && group.waiters.is_empty())
    }

    /// Frees what lingers and gives unused memory back.
    pub(super) fn shrink(&mut self) {
        self.slots.shrink();
        self.groups.iter_mut().for_each(Group::shrink);
    }

    /// A group's backlog: live messages it still has to take.
    pub(super) fn pending(&self, group: u32) -> u64 {
        let group = &self.groups[group as usize];
        let live = |sequence: &&u64| {
            self.slots
                .get(**sequence)
                .is_some_and(|slot| slot.state != SlotState::Lingering)
        };
        group.unread + group.pending.keys().filter(live).count() as u64
    }

    /// What must hold between turns, by looking at everything.
    pub(super) fn check(&self) {
        self.slots.check();
        for (number, group) in self.groups.iter().enumerate() {
            let mut unread = 0;
            let mut from = group.cursor;
            while let Some(sequence) = self.slots.next_held(from) {
                let slot = self.slots.get(sequence).expect("a held message");
                unread += u64::from(slot.state != SlotState::Lingering);
                from = sequence + 1;
            }
            assert_eq!(group.unread, unread, "unread of group {number}");
            assert!(
                group
                    .pending
                    .keys()
                    .all(|&sequence| group.lease(sequence).is_none())
            );
            assert!(
                group
                    .pending
                    .keys()
                    .all(|&sequence| sequence < group.cursor)
            );
        }
        let mut from = 0;
        while let Some(sequence) = self.slots.next_held(from) {
            if let SlotState::Live { passed } = self.slots.get(sequence).expect("held").state {
                let done = self
                    .groups
                    .iter()
                    .filter(|group| !group.needs(sequence))
                    .count();
                assert_eq!(passed as usize, done, "groups that passed {sequence}");
                assert!(done < self.groups.len() || self.groups.is_empty());
            }
            from = sequence + 1;
        }
    }
}
