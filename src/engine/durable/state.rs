//! Everything that the engine remembers of the durable class between two batches.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use uuid::Uuid;

use super::bounds::Recent;
use super::image::{CursorRef, Queue, QueueSlot};
use super::store::Store;
use super::waiters::Waiters;
use crate::engine::seal::Seal;
use crate::model::TenantId;
use crate::model::durable::Start;
use crate::postgres::SessionFault;
use crate::postgres::durable::{
    CursorRow, CursorState, DurableChanges, PartitionRow, QueueLoad, QueueRow, Removed,
};

/// What holds for all queues, and is not read from the database.
#[derive(Clone, Debug, Default)]
pub struct DurableRules {
    /// Encrypts payloads.
    pub seal: Seal,
    /// Where a group starts that is new to a queue and does not say.
    pub default_start: Start,
}

/// What is remembered. All of it can be forgotten and read anew, but the pops that wait and the rules.
#[derive(Debug, Default)]
pub(in crate::engine) struct Memory {
    pub(super) rules: DurableRules,
    pub(super) queues: HashMap<QueueSlot, Queue>,
    names: HashMap<TenantId, HashMap<Arc<str>, QueueSlot>>,
    pub(super) partitions: HashMap<i64, QueueSlot>,
    /// The newest messages of partitions, and the transaction ids that are remembered.
    pub(super) tails: Recent,
    pub(super) windows: Recent,
    /// When queues were looked for last that nobody uses.
    pub(super) swept_us: i64,
    /// Leases that may be live, with the places they hold in queues that are remembered.
    pub(super) leases: HashMap<Uuid, Vec<CursorRef>>,
    /// When a place has to be looked at again: its lease ends, or a delay is over.
    pub(super) timers: BinaryHeap<Reverse<(i64, CursorRef)>>,
    pub(super) waiters: Waiters,
    /// Queues that were changed otherwise than by a batch: whoever waits there is looked at anew.
    pub(super) changed: BTreeSet<(TenantId, Box<str>)>,
    /// Whether everything was forgotten, and with it what those who wait may have got.
    pub(super) look_at_all: bool,
    /// Ids that are reserved and not used.
    pub(super) ids: Range<i64>,
    /// Ids of queues in which something damaged was found, or encrypted that should not be.
    pub(super) suspects: HashSet<i64>,
    clock: Option<(Instant, i64)>,
    next_slot: u64,
    /// Up to which number other brokers' changes are taken over, and when they were looked for last.
    pub(super) followed: Option<(i64, Instant)>,
}

impl Memory {
    /// One that remembers nothing.
    pub(in crate::engine) fn new(rules: DurableRules) -> Memory {
        Memory {
            rules,
            ..Memory::default()
        }
    }

    /// An id that nobody else uses.
    pub(super) fn next_id(&mut self, store: &mut dyn Store) -> Result<i64, SessionFault> {
        if self.ids.is_empty() {
            self.ids = store.reserve_ids()?;
        }
        Ok(self.ids.next().expect("ids were just reserved"))
    }

    /// Sets the clock by the database's.
    pub(super) fn set_clock(&mut self, at: Instant, now_us: i64) {
        self.clock = Some((at, now_us));
    }

    /// Whether the clock was never set.
    pub(super) fn has_no_clock(&self) -> bool {
        self.clock.is_none()
    }

    /// Pops that wait.
    pub(in crate::engine) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// What the database's clock shows, in microseconds since 1970.
    pub(super) fn time_us(&self, now: Instant) -> i64 {
        let (at, time_us) = self.clock.expect("it is set before anything is judged");
        let passed = now.saturating_duration_since(at).as_micros();
        time_us + i64::try_from(passed).expect("no broker runs for that long")
    }

    /// When the clock will show `time_us`.
    pub(super) fn instant_of(&self, time_us: i64) -> Option<Instant> {
        let (at, from_us) = self.clock?;
        let until = u64::try_from(time_us - from_us).unwrap_or(0);
        Some(at + std::time::Duration::from_micros(until))
    }

    pub(super) fn slot(&self, tenant: TenantId, name: &str) -> Option<QueueSlot> {
        self.names.get(&tenant)?.get(name).copied()
    }

    pub(super) fn slot_of_partition(&self, id: i64) -> Option<QueueSlot> {
        self.partitions.get(&id).copied()
    }

    pub(super) fn queue(&self, slot: QueueSlot) -> &Queue {
        self.queues.get(&slot).expect("it was just looked up")
    }

    pub(super) fn queue_mut(&mut self, slot: QueueSlot) -> &mut Queue {
        self.queues.get_mut(&slot).expect("it was just looked up")
    }

    /// Whether the messages of a queue are looked into before they are taken: they may be encrypted, or
    /// some were found to be what they should not.
    pub(super) fn must_open(&self, slot: QueueSlot) -> bool {
        let queue = self.queue(slot);
        let is_suspect = |row: &QueueRow| self.suspects.contains(&row.id);
        queue.options().may_hold_encrypted() || queue.row.as_ref().is_some_and(is_suspect)
    }

    /// What encrypts the messages of a queue, if they are to be.
    pub(super) fn seal_of(&self, slot: QueueSlot) -> Option<Seal> {
        let encrypts = self.queue(slot).options().encryption && self.rules.seal.has_key();
        encrypts.then(|| self.rules.seal.clone())
    }

    /// Takes in what was read of a queue.
    pub(super) fn load(&mut self, tenant: TenantId, name: &str, load: QueueLoad) -> QueueSlot {
        let queue = Queue::new(tenant, name, load);
        self.next_slot += 1;
        let slot = QueueSlot(self.next_slot);
        for partition in &queue.partitions {
            self.partitions.insert(partition.id, slot);
        }
        for (group, consumer) in queue.groups.iter().enumerate() {
            for (&partition, cursor) in &consumer.cursors {
                if let Some(lease_id) = cursor.state.lease_id {
                    let held = CursorRef {
                        queue: slot,
                        group,
                        partition,
                    };
                    self.leases.entry(lease_id).or_default().push(held);
                }
            }
        }
        let names = self.names.entry(tenant).or_default();
        names.insert(Arc::clone(&queue.name), slot);
        self.queues.insert(slot, queue);
        slot
    }

    /// Notes a partition that was made.
    pub(super) fn note_partition(&mut self, id: i64, slot: QueueSlot) {
        self.partitions.insert(id, slot);
    }

    /// Forgets a queue: it is read anew when it is needed.
    pub(super) fn forget(&mut self, slot: QueueSlot) {
        let Some(queue) = self.queues.remove(&slot) else {
            return;
        };
        for partition in &queue.partitions {
            self.partitions.remove(&partition.id);
            self.tails.forget(partition.tail_mark);
            self.windows.forget(partition.window_mark);
        }
        if let Some(names) = self.names.get_mut(&queue.tenant) {
            names.remove(&queue.name);
            if names.is_empty() {
                self.names.remove(&queue.tenant);
            }
        }
        for (group, consumer) in queue.groups.iter().enumerate() {
            for (&partition, place) in &consumer.cursors {
                let cursor = CursorRef {
                    queue: slot,
                    group,
                    partition,
                };
                self.change_lease(cursor, place.state.lease_id, None);
            }
        }
    }

    /// A queue was changed otherwise than by a batch: it is read anew, also for those who wait there.
    pub(super) fn changed(&mut self, tenant: TenantId, name: &str) {
        if let Some(slot) = self.slot(tenant, name) {
            self.forget(slot);
        }
        if self.waiters.wait_for(tenant, name) {
            self.changed.insert((tenant, name.into()));
        }
    }

    /// Whoever waits in a queue is looked at once more.
    pub(super) fn look_again_at(&mut self, slot: QueueSlot) {
        let Some(queue) = self.queues.get(&slot) else {
            return;
        };
        if self.waiters.wait_for(queue.tenant, &queue.name) {
            let changed = (queue.tenant, (&*queue.name).into());
            self.changed.insert(changed);
        }
    }

    /// Takes over what other brokers have changed, but for what is stored of the partitions.
    pub(super) fn take_changes(&mut self, changes: &DurableChanges) {
        for (tenant, name) in &changes.queues {
            self.changed(*tenant, name);
        }
        for id in &changes.partitions {
            if let Some(slot) = self.slot_of_partition(*id) {
                self.look_again_at(slot);
            }
        }
    }

    /// The beginning of a partition was removed, or all of it.
    pub(super) fn begin_later(&mut self, removed: Removed) {
        let Some(slot) = self.slot_of_partition(removed.partition_id) else {
            return;
        };
        let Some(first_offset) = removed.first_offset else {
            self.look_again_at(slot);
            return self.forget(slot);
        };
        let queue = self.queue_mut(slot);
        let partition = queue
            .partition_of_id(removed.partition_id)
            .expect("the queue is the partition's");
        let kept = &mut queue.partitions[partition];
        kept.first_offset = kept.first_offset.max(first_offset);
        if queue.groups.is_empty() {
            queue.recount();
        }
    }

    /// Forgets all queues.
    pub(super) fn forget_all(&mut self) {
        *self = Memory {
            rules: self.rules.clone(),
            waiters: std::mem::take(&mut self.waiters),
            clock: self.clock,
            next_slot: self.next_slot,
            look_at_all: true,
            ..Memory::default()
        };
    }

    /// A place is as it was before after all.
    pub(super) fn put_back(&mut self, cursor: CursorRef, before: &CursorState) {
        let queue = self
            .queues
            .get_mut(&cursor.queue)
            .expect("it was just judged");
        let place = queue.cursor(cursor.group, cursor.partition).state;
        queue.set_cursor(cursor.group, cursor.partition, *before);
        queue.groups[cursor.group].put_in_turn(cursor.partition);
        self.change_lease(cursor, place.lease_id, before.lease_id);
    }

    /// A place is under another lease.
    pub(super) fn change_lease(
        &mut self,
        cursor: CursorRef,
        before: Option<Uuid>,
        after: Option<Uuid>,
    ) {
        if before == after {
            return;
        }
        if let Some(lease_id) = before
            && let Some(held) = self.leases.get_mut(&lease_id)
        {
            held.retain(|other| *other != cursor);
            if held.is_empty() {
                self.leases.remove(&lease_id);
            }
        }
        if let Some(lease_id) = after {
            self.leases.entry(lease_id).or_default().push(cursor);
        }
    }

    /// Takes over what is stored of partitions; one that is not stored any more has its queue forgotten.
    pub(super) fn refresh(&mut self, ids: &[i64], rows: &[PartitionRow], cursors: &[CursorRow]) {
        let found: HashMap<i64, &PartitionRow> = rows.iter().map(|row| (row.id, row)).collect();
        for id in ids {
            let Some(slot) = self.slot_of_partition(*id) else {
                continue;
            };
            let Some(row) = found.get(id) else {
                self.look_again_at(slot);
                self.forget(slot);
                continue;
            };
            let queue = self.queue_mut(slot);
            let partition = queue
                .partition_of_id(*id)
                .expect("the queue is the partition's");
            if row.next_offset < queue.partitions[partition].next_offset {
                // A partition only grows, but for one that somebody has put back to what it was.
                self.look_again_at(slot);
                self.forget(slot);
                continue;
            }
            queue.partitions[partition].refresh(row);
            queue.recount();
            queue.put_in_turn_for_all(partition);
        }
        for row in cursors {
            let Some(slot) = self.slot_of_partition(row.partition_id) else {
                continue;
            };
            let queue = self.queue_mut(slot);
            let place = queue.group_of_id(row.group_id);
            let Some((group, partition)) = place.zip(queue.partition_of_id(row.partition_id))
            else {
                continue;
            };
            let before = queue.cursor(group, partition).state.lease_id;
            queue.put_cursor(group, row);
            let cursor = CursorRef {
                queue: slot,
                group,
                partition,
            };
            self.change_lease(cursor, before, row.state.lease_id);
        }
    }

    /// The place has to be looked at when the clock shows `time_us`.
    pub(super) fn look_again(&mut self, time_us: i64, cursor: CursorRef) {
        let group = &mut self.queue_mut(cursor.queue).groups[cursor.group];
        let place = group.cursors.entry(cursor.partition).or_default();
        // Who looks earlier finds out when to look again: one timer a place is enough.
        if place.armed_us == 0 || time_us < place.armed_us {
            place.armed_us = time_us;
            self.timers.push(Reverse((time_us, cursor)));
        }
    }

    /// Puts the places whose time has come in turn; says in which queues.
    pub(super) fn take_due(&mut self, now_us: i64) -> BTreeSet<QueueSlot> {
        let mut stirred = BTreeSet::new();
        while let Some(&Reverse((time_us, cursor))) = self.timers.peek()
            && time_us <= now_us
        {
            self.timers.pop();
            let Some(queue) = self.queues.get_mut(&cursor.queue) else {
                continue;
            };
            let places = &mut queue.groups[cursor.group].cursors;
            if let Some(place) = places.get_mut(&cursor.partition)
                && place.armed_us == time_us
            {
                place.armed_us = 0;
            }
            if queue.has_more(cursor.group, cursor.partition) {
                queue.groups[cursor.group].put_in_turn(cursor.partition);
                stirred.insert(cursor.queue);
            }
        }
        stirred
    }

    #[cfg(test)]
    pub(super) fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Whether something is due.
    pub(super) fn is_due(&self, now_us: i64) -> bool {
        let timer = self
            .timers
            .peek()
            .is_some_and(|Reverse((time_us, _))| *time_us <= now_us);
        timer
            || !self.changed.is_empty()
            || self.look_at_all && !self.waiters.is_empty()
            || self
                .waiters
                .next_deadline_us()
                .is_some_and(|time_us| time_us <= now_us)
    }

    /// When something is due next.
    pub(in crate::engine) fn next_deadline(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|&Reverse((time_us, _))| time_us);
        let next = timer
            .into_iter()
            .chain(self.waiters.next_deadline_us())
            .min()?;
        self.instant_of(next)
    }
}
