//! Declaring, emptying, removing and measuring queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::queue::options_of;
use super::ring::Ring;
use super::waiters::{Source, Waiter, WaiterNumber};
use super::{Effect, Shard};
use crate::limits;
use crate::model::{
    ClientRef, Configure, Depth, GroupDepth, ListQueues, Moment, Part, PartitionDepth,
    QUEUE_MODE_GROUP, QueuePage, QueueRow, Refusal, Reply, TenantId, Tier,
};

impl Shard {
    /// Declares a queue. Its contents stay. A window that changed holds nobody by its old terms.
    pub(super) fn configure(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        configure: &Configure<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<Option<Reply>, Refusal> {
        let name = configure.queue.as_str();
        // What is stored is declared here as well, whatever the bounds say by now.
        let place = configure
            .stored
            .then(|| self.directory.reserve_stored_queue(tenant, name));
        let _held = place.transpose()?;
        for _ in 0..limits::LIVES_TRIED_MAX {
            let queue = self.find_or_create_queue(now, tenant, name, effects)?;
            let cell = Arc::clone(&self.queues[queue].cell);
            let declared = self.directory.declare(&cell, &configure.options);
            let Some(effective) = declared else {
                continue;
            };
            self.take_over_options(now, queue, effects);
            let reply = Reply::Configured {
                effective,
                durable: configure.stored,
            };
            return Ok(self.gather(client, &cell, &Part::Configure, reply, effects));
        }
        Err(Shard::TOO_MANY_LIVES)
    }

    /// Goes by the options that the cell has now.
    pub(super) fn take_over_options(&mut self, now: Moment, queue: u32, effects: &mut Vec<Effect>) {
        let local = &self.queues[queue];
        let before = local.options;
        let (version, after) = options_of(&local.cell);
        if after.ttl_ms != before.ttl_ms {
            // What is past its TTL does not come back by a longer one.
            self.refresh_rings(now, queue, effects);
        }
        let local = &mut self.queues[queue];
        local.configured = version;
        local.options = after;
        if after.ttl_ms != before.ttl_ms {
            self.refresh_rings(now, queue, effects);
        }
        for ring in self.queues[queue].rings() {
            self.arm_ring(now, ring);
        }
        self.tell_age(queue);
        // Pops may have parked by options that were replaced before this shard saw them.
        self.renew_marks(queue);
        if after.window_buffer != before.window_buffer {
            self.reopen_windows(now, queue, effects);
        }
    }

    /// Drops all messages of a queue; leases and redeliveries are void, every cursor is at the tail.
    pub(super) fn reset(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        name: &str,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        let Some(queue) = self.find_queue(now, tenant, name, effects) else {
            return Some(Reply::Reset { dropped: 0 });
        };
        let cell = Arc::clone(&self.queues[queue].cell);
        cell.touch(now);
        let dropped = self.reset_rings(now, queue);
        let reply = Reply::Reset { dropped };
        self.gather(client, &cell, &Part::Reset, reply, effects)
    }

    /// Drops all messages that this shard has of a queue; how many.
    pub(super) fn reset_rings(&mut self, now: Moment, queue: u32) -> u64 {
        let mut dropped = 0;
        for ring in self.queues[queue].rings() {
            dropped += self.rings[ring].slots.live();
            self.on_ring(ring, |ring, changes| ring.reset(changes));
            self.arm_ring(now, ring);
        }
        self.tell_age(queue);
        dropped
    }

    /// Removes a queue. Pops that wait for it stay parked, at a new life of the name.
    pub(super) fn delete(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        name: &str,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        let nothing = Reply::Deleted {
            deleted: false,
            declared: false,
        };
        let Some(queue) = self.find_queue(now, tenant, name, effects) else {
            return Some(nothing);
        };
        let cell = Arc::clone(&self.queues[queue].cell);
        let declared = cell.configuration().tier == Tier::Declared;
        let deleted = self.directory.delete(&cell);
        self.bury(now, queue, effects);
        if !deleted {
            // It was collected on another core just now.
            return Some(nothing);
        }
        let reply = Reply::Deleted {
            deleted: true,
            declared,
        };
        self.gather(client, &cell, &Part::Delete, reply, effects)
    }

    fn refresh_rings(&mut self, now: Moment, queue: u32, effects: &mut Vec<Effect>) {
        for ring in self.queues[queue].rings() {
            self.refresh_ring(now, ring, effects);
        }
    }

    /// All pops that are parked at a queue, longest waiting first.
    fn waiters_of(&self, queue: u32) -> Vec<WaiterNumber> {
        let local = &self.queues[queue];
        let mut numbers: Vec<WaiterNumber> = local
            .groups
            .iter()
            .flat_map(|group| group.waiters.iter().copied())
            .collect();
        for ring in local.partitions.rings() {
            let groups = &self.rings[ring].groups;
            numbers.extend(
                groups
                    .iter()
                    .flat_map(|group| group.waiters.iter().copied()),
            );
        }
        numbers.sort_unstable();
        numbers
    }

    fn reopen_windows(&mut self, now: Moment, queue: u32, effects: &mut Vec<Effect>) {
        for number in self.waiters_of(queue) {
            self.forget_window(number);
        }
        for ring in self.queues[queue].rings() {
            for group in 0..self.rings[ring].groups.len() as u32 {
                self.serve(now, ring, group, effects);
            }
        }
        // Other shards may have what they wait for.
        for group in 0..self.queues[queue].groups.len() as u32 {
            self.serve_everywhere(now, queue, group, effects);
        }
    }

    pub(super) fn unpark_all(&mut self, now: Moment, queue: u32) -> Vec<Parked> {
        let numbers = self.waiters_of(queue);
        let mut parked = Vec::with_capacity(numbers.len());
        for number in numbers {
            let waiter = self.unpark(now, number).expect("it is parked");
            let group = Arc::clone(self.queues[queue].groups[waiter.source.group as usize].name());
            let partition = waiter
                .source
                .ring
                .map(|ring| Arc::clone(&self.rings[ring].partition));
            parked.push(Parked {
                number,
                waiter,
                group,
                partition,
            });
        }
        parked
    }

    pub(super) fn park_again(
        &mut self,
        now: Moment,
        (tenant, name): (TenantId, &str),
        parked: Parked,
        effects: &mut Vec<Effect>,
    ) {
        let Parked {
            number,
            waiter,
            group,
            partition,
        } = parked;
        let names = (name, &*group);
        let mut refused = Shard::TOO_MANY_LIVES;
        for _ in 0..limits::LIVES_TRIED_MAX {
            let source = match self.source(now, tenant, names, partition.as_deref(), effects) {
                Ok(source) => source,
                Err(refusal) => {
                    refused = refusal;
                    break;
                }
            };
            let waiter = Waiter {
                source,
                window_closes: None,
                ..waiter
            };
            if self.park(number, waiter) {
                self.look_at_new_life(now, source, number, effects);
                return;
            }
        }
        let reply = Reply::Refused(refused);
        effects.push(Effect::Answer {
            client: waiter.client,
            reply,
        });
    }

    /// On other cores the next life of a queue may have begun, with messages, before its parked pops
    /// came to it.
    fn look_at_new_life(
        &mut self,
        now: Moment,
        source: Source,
        number: WaiterNumber,
        effects: &mut Vec<Effect>,
    ) {
        let windowed = self.queues[source.queue].has_window();
        let marked = self.marks_elsewhere(source);
        if !windowed && marked != 0 {
            self.pass_waiter(now, (number, marked), None, effects);
        } else {
            self.serve_parked(now, source, effects);
        }
    }

    /// One step of a listing.
    pub(super) fn list(&self, tenant: TenantId, list: &ListQueues<'_>) -> Reply {
        let after = list.after.as_deref();
        let (cells, more) = self
            .directory
            .page(tenant, after, &list.prefix, list.limit as usize);
        let row = |cell: &Arc<crate::directory::QueueCell>| {
            let configuration = cell.configuration();
            QueueRow {
                queue: Arc::clone(cell.name()),
                tier: configuration.tier,
                depth: cell.length(),
                bytes: cell.bytes(),
                partitions: cell.partitions(),
                groups: u64::from(cell.group_version()),
                drops: cell.drops(),
                options: configuration.effective,
            }
        };
        let rows = cells.iter().map(row).collect();
        Reply::Queues(QueuePage {
            rows,
            more,
            broker_bytes: self.directory.broker().used(),
        })
    }

    /// How much a queue holds. Does not delay its collection.
    pub(super) fn depth(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        (name, asked): (&str, Option<&str>),
        effects: &mut Vec<Effect>,
    ) -> Result<Option<Reply>, Refusal> {
        let Some(queue) = self.find_queue(now, tenant, name, effects) else {
            return Err(Refusal::QueueNotFound { queue: name.into() });
        };
        let depth = self.measure(now, queue, asked, effects);
        let cell = Arc::clone(&self.queues[queue].cell);
        let part = Part::Depth {
            group: asked.map(Arc::from),
        };
        let reply = Reply::Depth(Box::new(depth));
        Ok(self.gather(client, &cell, &part, reply, effects))
    }

    /// How much this shard holds of a queue, and what the cell says of the whole.
    pub(super) fn measure(
        &mut self,
        now: Moment,
        queue: u32,
        asked: Option<&str>,
        effects: &mut Vec<Effect>,
    ) -> Depth {
        let mut keys = self.queues[queue].rings();
        for &ring in &keys {
            self.sync_ring(ring);
            self.refresh_ring(now, ring, effects);
        }
        keys.sort_unstable_by(|&left, &right| {
            self.rings[left].partition.cmp(&self.rings[right].partition)
        });
        let local = &self.queues[queue];
        let asked = asked.map(|name| local.group(name));
        let mut partitions = Vec::with_capacity(keys.len());
        let mut groups = BTreeMap::new();
        for key in keys {
            let ring = &self.rings[key];
            for (number, group) in local.groups.iter().enumerate() {
                let sum: &mut (u64, u64) = groups.entry(group.name()).or_default();
                sum.0 += ring.pending(number as u32);
                sum.1 += ring.groups[number].skipped;
            }
            partitions.push(PartitionDepth {
                partition: Arc::clone(&ring.partition),
                pending: pending_for(ring, asked, |number| {
                    &**local.groups[number as usize].name() == QUEUE_MODE_GROUP
                }),
                bytes: ring.slots.live_bytes(),
            });
        }
        let group_depth = |(name, (pending, skipped)): (&Arc<str>, (u64, u64))| GroupDepth {
            group: Arc::clone(name),
            pending,
            skipped,
        };
        let cell = &local.cell;
        Depth {
            tier: cell.configuration().tier,
            pending: partitions.iter().map(|partition| partition.pending).sum(),
            partitions_pending: partitions.iter().filter(|one| one.pending > 0).count() as u64,
            bytes: cell.bytes(),
            drops: cell.drops(),
            waiting: cell.waiters(),
            groups: groups.into_iter().map(group_depth).collect(),
            partitions,
        }
    }
}

pub(super) struct Parked {
    number: WaiterNumber,
    waiter: Waiter,
    group: Arc<str>,
    partition: Option<Arc<str>>,
}

/// A ring's backlog for the asked group; an unknown one has everything before it. Without a group
/// the worst named one speaks; the shared cursor only if there is no other.
fn pending_for(
    ring: &Ring,
    asked: Option<Option<u32>>,
    is_queue_mode: impl Fn(u32) -> bool,
) -> u64 {
    let count = ring.groups.len() as u32;
    match asked {
        Some(Some(group)) => ring.pending(group),
        Some(None) => ring.slots.live(),
        None if count == 0 => ring.slots.live(),
        None => {
            let named = (0..count).filter(|&group| !is_queue_mode(group));
            let worst = named.map(|group| ring.pending(group)).max();
            worst.unwrap_or_else(|| ring.pending(0))
        }
    }
}
