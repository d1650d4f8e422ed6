//! Finding queues and rings by name, making and forgetting them.

use std::sync::Arc;

use super::linger::LingerEntry;
use super::names::QueueKey;
use super::queue::{LocalQueue, RingRef};
use super::ring::{Changes, Ring, Terms};
use super::slots::SlotState;
use super::timers::Timer;
use super::{Effect, Shard};
use crate::directory::{DropCause, QueueCell};
use crate::limits;
use crate::model::{DEFAULT_PARTITION, Moment, QueueRef, Refusal, TenantId};
use crate::placement;

impl Shard {
    /// The queue's key in this shard's table, if the queue exists.
    pub(super) fn find_queue(
        &mut self,
        now: Moment,
        tenant: TenantId,
        name: &str,
        effects: &mut Vec<Effect>,
    ) -> Option<u32> {
        if let Some(known) = self.known_queue(now, tenant, name, effects) {
            return Some(known);
        }
        let cell = self.directory.find(self.settings.shard, tenant, name)?;
        Some(self.add_queue(cell, false))
    }

    /// The queue's key in this shard's table, if this shard knows it. What has happened to it on
    /// other cores since is taken over: its end, its options, its groups.
    pub(super) fn known_queue(
        &mut self,
        now: Moment,
        tenant: TenantId,
        name: &str,
        effects: &mut Vec<Effect>,
    ) -> Option<u32> {
        let key = self.awake(now, tenant, name)?;
        let queue = &mut self.queues[key];
        if queue.cell.is_dead() {
            self.bury(now, key, effects);
            // Its parked pops may have made the next life known.
            return self.awake(now, tenant, name);
        }
        self.learn_groups(key);
        let queue = &self.queues[key];
        if queue.configured != queue.cell.configuration_version() {
            self.take_over_options(now, key, effects);
        }
        Some(key)
    }

    /// The queue's key among those that are awake, if this shard knows it.
    fn awake(&mut self, now: Moment, tenant: TenantId, name: &str) -> Option<u32> {
        let known = self.names.find((tenant, name), |known| match known {
            QueueKey::Awake(key) => &self.queues[key].cell,
            QueueKey::Resting(key) => &self.resting[key].cell,
        })?;
        Some(match known {
            QueueKey::Awake(key) => key,
            QueueKey::Resting(key) => self.wake(now, key),
        })
    }

    /// The key of this very life of a queue.
    pub(super) fn find_life(
        &mut self,
        now: Moment,
        queue: &QueueRef,
        effects: &mut Vec<Effect>,
    ) -> Option<u32> {
        let key = self.find_queue(now, queue.tenant, &queue.name, effects)?;
        (self.queues[key].cell.generation() == queue.generation).then_some(key)
    }

    /// The queue's key in this shard's table; the queue is made if it does not exist.
    pub(super) fn find_or_create_queue(
        &mut self,
        now: Moment,
        tenant: TenantId,
        name: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<u32, Refusal> {
        if let Some(key) = self.find_queue(now, tenant, name, effects) {
            return Ok(key);
        }
        let tenant_cell = self.tenant(tenant)?;
        let shard = self.settings.shard;
        let cell = self.directory.find_or_create(shard, &tenant_cell, name)?;
        cell.touch(now);
        Ok(self.add_queue(cell, true))
    }

    fn add_queue(&mut self, cell: Arc<QueueCell>, collects: bool) -> u32 {
        let (home, touched) = (self.home_of(&cell), cell.touched());
        let mut queue = LocalQueue::new(cell, home);
        queue.collects = collects;
        queue.sync_groups();
        let key = self.queues.insert(queue);
        self.arm_queue(touched, key);
        self.names
            .insert(&self.queues[key].cell, QueueKey::Awake(key));
        key
    }

    /// Where pops that name no partition of the queue park.
    pub(super) fn home_of(&self, cell: &QueueCell) -> u16 {
        let tenant = cell.tenant().id();
        placement::owner(tenant, cell.name(), DEFAULT_PARTITION, self.settings.shards)
    }

    /// Lets go of a queue that is dead. Pops that wait for it stay parked, at the next life of the
    /// name.
    pub(super) fn bury(&mut self, now: Moment, key: u32, effects: &mut Vec<Effect>) {
        let cell = Arc::clone(&self.queues[key].cell);
        assert!(cell.is_dead());
        let parked = self.unpark_all(now, key);
        for ring in self.queues[key].rings() {
            self.on_ring(ring, |ring, changes| ring.reset(changes));
        }
        self.forget_queue(key);
        for parked in parked {
            self.park_again(now, (cell.tenant().id(), cell.name()), parked, effects);
        }
    }

    /// Makes sure that the queue is looked at when it may have been idle since `from` for long
    /// enough, or when it may rest without a ring.
    pub(super) fn arm_queue(&mut self, from: Moment, key: u32) {
        let queue = &self.queues[key];
        let mut at = Moment::NEVER;
        if queue.collects {
            at = self.collection_at(from);
        }
        if queue.partitions.len() == 0 && self.may_rest(key) {
            at = at.min(self.rests_at(key));
        }
        let queue = &mut self.queues[key];
        if at < queue.armed.unwrap_or(Moment::NEVER) {
            queue.armed = Some(at);
            self.timers
                .insert(at, Timer::Queue(key, queue.cell.generation()));
        }
    }

    /// Drops a queue and its rings from this shard. What they held has been released.
    pub(super) fn forget_queue(&mut self, key: u32) {
        let queue = self.queues.remove(key);
        for ring in queue.rings() {
            self.forget_ring(ring);
            queue.cell.remove_partition();
        }
        self.names.remove(&queue.cell, QueueKey::Awake(key));
    }

    fn forget_ring(&mut self, key: u32) {
        let ring = self.rings.remove(key);
        assert_eq!(ring.slots.live(), 0, "a ring with messages is forgotten");
        self.directory.release_cursors(ring.groups.len());
        self.linger.account(ring.lingering(), Default::default());
    }

    /// Removes one empty, idle ring of a live queue.
    pub(super) fn collect_ring(&mut self, now: Moment, key: u32) {
        let ring = &self.rings[key];
        assert!(ring.is_idle());
        let queue = &mut self.queues[ring.queue];
        queue.partitions.remove(&ring.partition);
        queue.cell.remove_partition();
        for (group, place) in queue.groups.iter_mut().zip(&ring.groups) {
            group.stale += u32::from(place.ready);
        }
        let queue = ring.queue;
        self.forget_ring(key);
        self.drop_stale_entries(queue);
        self.arm_rest(now, queue);
    }

    /// Forgets entries of collected rings when they are the most.
    fn drop_stale_entries(&mut self, queue: u32) {
        let rings = &self.rings;
        let exists = |entry: &RingRef| {
            rings
                .get(entry.key)
                .is_some_and(|ring| ring.serial == entry.serial)
        };
        let queue = &mut self.queues[queue];
        for group in &mut queue.groups {
            if group.stale as usize * 2 > group.ready.len() {
                group.ready.retain(exists);
                group.stale = 0;
            }
        }
        queue.bound_by_age();
    }

    /// The ring of a partition, with a place for every group; `None` if it does not exist.
    pub(super) fn find_ring(&mut self, queue: u32, partition: &str) -> Option<u32> {
        let local = &self.queues[queue];
        let key = local.partitions.get(partition)?;
        self.sync_ring(key);
        Some(key)
    }

    /// Gives every group of the queue a place in the ring.
    pub(super) fn sync_ring(&mut self, key: u32) {
        let ring = &mut self.rings[key];
        let queue = &self.queues[ring.queue];
        let known = ring.groups.len();
        if known < queue.groups.len() {
            ring.sync_groups(queue.groups.len() as u32);
            self.directory.add_cursors(queue.groups.len() - known);
            for group in known..queue.groups.len() {
                self.mark_ready(key, group as u32);
            }
        }
    }

    /// Refuses a new partition if it would be one too many.
    pub(super) fn check_partition_fits(&self, queue: u32) -> Result<(), Refusal> {
        let local = &self.queues[queue];
        if local.partitions.len() >= limits::PARTITIONS_MAX {
            return Err(Refusal::QuotaExceeded {
                text: "the queue has as many partitions as it can; use fewer partition names",
            });
        }
        self.check_cursors_fit(local, local.groups.len())
    }

    /// Refuses a partition or a group that would bring `added` cursors too many.
    pub(super) fn check_cursors_fit(
        &self,
        queue: &LocalQueue,
        added: usize,
    ) -> Result<(), Refusal> {
        let in_queue = queue.cell.partitions() as usize * queue.groups.len();
        if in_queue + added > limits::QUEUE_CURSORS_MAX {
            return Err(Refusal::QuotaExceeded {
                text: "the queue has as many partitions times consumer groups as it can; use \
                       fewer names of either",
            });
        }
        if self.directory.cursors() + added > limits::CURSORS_MAX {
            return Err(Refusal::Unavailable {
                text: "the broker holds as many partitions times consumer groups as it can; \
                       delete queues that are not used",
            });
        }
        Ok(())
    }

    /// What tells the next ring from those that had its key before.
    pub(super) fn next_serial(&mut self) -> u32 {
        self.ring_serial = self.ring_serial.wrapping_add(1);
        self.ring_serial
    }

    /// Makes the ring of a new partition, which must fit.
    pub(super) fn create_ring(&mut self, now: Moment, queue: u32, partition: &str) -> u32 {
        let serial = self.next_serial();
        let local = &mut self.queues[queue];
        assert!(local.partitions.len() < limits::PARTITIONS_MAX);
        let partition = match partition {
            DEFAULT_PARTITION => Arc::clone(&self.default_partition),
            other => Arc::from(other),
        };
        let base = self.highest_sequence + 1;
        let mut ring = Ring::new(Arc::clone(&partition), queue, serial, base);
        ring.sync_groups(local.groups.len() as u32);
        self.directory.add_cursors(ring.groups.len());
        ring.touched = now;
        let key = self.rings.insert(ring);
        local.partitions.insert(partition, key);
        local.cell.add_partition();
        self.arm_ring(now, key);
        key
    }

    /// Puts the ring in the queue's list for `group` if it may have something for it.
    pub(super) fn mark_ready(&mut self, key: u32, group: u32) {
        let ring = &mut self.rings[key];
        if ring.groups[group as usize].ready || !ring.has_available(group) {
            return;
        }
        ring.groups[group as usize].ready = true;
        let entry = RingRef {
            key,
            serial: ring.serial,
        };
        let key = ring.queue;
        let queue = &mut self.queues[key];
        queue.groups[group as usize].ready.push_back(entry);
        if self.settings.shards > 1 && !queue.has_window() {
            self.tell_mark(key, group);
        }
    }

    /// The ring that an entry names, if it still exists.
    pub(super) fn ring_of(&self, entry: RingRef) -> Option<u32> {
        let ring = self.rings.get(entry.key)?;
        (ring.serial == entry.serial).then_some(entry.key)
    }

    /// The terms of a queue's rings.
    pub(super) fn terms(&self, queue: u32) -> Terms {
        Terms::new(self.options(queue), self.settings.linger_ms > 0)
    }

    /// Runs an operation on a ring and settles what it changed for the queue, the budgets, the
    /// counters and the lingering messages. Returns the operation's result and the groups that have
    /// something to take again.
    pub(super) fn on_ring<R>(
        &mut self,
        key: u32,
        operation: impl FnOnce(&mut Ring, &mut Changes) -> R,
    ) -> (R, Vec<u32>) {
        self.learn_groups(self.rings[key].queue);
        let mut changes = std::mem::take(&mut self.changes);
        let ring = &mut self.rings[key];
        let lingering = ring.lingering();
        let result = operation(ring, &mut changes);
        self.linger.account(lingering, ring.lingering());
        let (queue, serial) = (ring.queue, ring.serial);
        for &sequence in &changes.lingered {
            let ring = RingRef { key, serial };
            self.linger.push(LingerEntry { ring, sequence });
        }
        self.settle_changes(queue, &changes);
        let redelivered = std::mem::take(&mut changes.redelivered);
        let lingered = !changes.lingered.is_empty();
        changes.lingered.clear();
        self.changes = Changes {
            lingered: changes.lingered,
            ..Changes::default()
        };
        for &group in &redelivered {
            self.mark_ready(key, group);
        }
        if lingered {
            self.bound_lingering();
        }
        self.note_change(queue);
        (result, redelivered)
    }

    /// Gives groups that were registered on other cores their places: they may need what a ring is
    /// about to free, and what is here is theirs too.
    pub(super) fn learn_groups(&mut self, key: u32) {
        let queue = &mut self.queues[key];
        let known = queue.groups.len();
        if queue.cell.group_version() as usize == known {
            return;
        }
        queue.sync_groups();
        for ring in queue.rings() {
            self.sync_ring(ring);
        }
        for group in known..self.queues[key].groups.len() {
            if self.queues[key].groups[group].ready.is_empty() {
                self.clear_mark(key, group as u32);
            }
        }
        self.note_change(key);
    }

    fn settle_changes(&mut self, queue: u32, changes: &Changes) {
        let cell = &self.queues[queue].cell;
        if changes.released > 0 {
            cell.release(changes.released, changes.released_bytes);
            cell.tenant().budget().release(changes.released_bytes);
            self.directory.broker().release(changes.released_bytes);
        }
        for (cause, count) in [
            (DropCause::Bounds, changes.dropped_bounds),
            (DropCause::Ttl, changes.dropped_ttl),
            (DropCause::Retry, changes.dropped_retry),
        ] {
            if count > 0 {
                cell.count_drops(cause, count);
            }
        }
        self.statistics.dropped.bounds += changes.dropped_bounds;
        self.statistics.dropped.ttl += changes.dropped_ttl;
        self.statistics.dropped.retry += changes.dropped_retry;
    }

    /// Lets go of lingering messages, oldest first, until they fit their cap.
    fn bound_lingering(&mut self) {
        while let Some(entry) = self.linger.pop_excess() {
            let ring = self.rings.get_mut(entry.ring.key);
            if let Some(ring) = ring.filter(|ring| ring.serial == entry.ring.serial) {
                let before = ring.lingering();
                ring.slots.free_lingering_through(entry.sequence);
                self.linger.account(before, ring.lingering());
            }
        }
        let rings = &self.rings;
        self.linger.compact(|entry| {
            let ring = rings.get(entry.ring.key);
            let ring = ring.filter(|ring| ring.serial == entry.ring.serial);
            let slot = ring.and_then(|ring| ring.slots.get(entry.sequence));
            slot.is_some_and(|slot| slot.state == SlotState::Lingering)
        });
    }
}
