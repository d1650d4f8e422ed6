//! Taking messages.

use std::sync::Arc;

use super::ring::Take;
use super::waiters::{Asker, Source, Waiter, WaiterNumber};
use super::{Effect, Shard};
use crate::limits;
use crate::model::{ClientRef, Delivered, Moment, Pop, Popped, Refusal, Reply, TenantId};

impl Shard {
    /// Answers with messages or with none, or leaves the answer to later (`None`): the pop parks, or
    /// it goes on to other shards.
    pub(super) fn pop(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        pop: &Pop<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<Option<Reply>, Refusal> {
        let partition = pop.partition.as_ref().map(|partition| partition.as_str());
        let names = (pop.queue.as_str(), pop.group.as_str());
        for _ in 0..limits::LIVES_TRIED_MAX {
            let source = self.source(now, tenant, names, partition, effects)?;
            if let Some(answered) = self.pop_from(now, client, source, pop, effects) {
                return Ok(answered);
            }
        }
        Err(Shard::TOO_MANY_LIVES)
    }

    /// `None`: the queue died before the pop could park.
    fn pop_from(
        &mut self,
        now: Moment,
        client: ClientRef,
        source: Source,
        pop: &Pop<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Option<Reply>> {
        self.queues[source.queue].cell.touch(now);
        if let Some(ring) = source.ring {
            self.refresh_ring(now, ring, effects);
        }
        let take = Take {
            group: source.group,
            auto_ack: pop.auto_ack,
            batch: pop.batch as usize,
        };
        let wait_ms = pop.wait_ms.unwrap_or(0);
        let windowed = pop.wait_ms.is_some() && self.queues[source.queue].has_window();
        if !windowed {
            let marked = self.marks_elsewhere(source);
            if marked != 0 {
                let asker = Asker {
                    client,
                    waits: wait_ms > 0,
                    first: None,
                };
                return Some(self.pass_round(now, (source, take), marked, asker, effects));
            }
            let messages = self.take(now, source, take, None);
            if wait_ms == 0 || !messages.is_empty() {
                return Some(Some(Reply::Popped(self.popped(source, take, messages))));
            }
        }
        let waiter = Waiter {
            client,
            source,
            batch: pop.batch,
            auto_ack: pop.auto_ack,
            deadline: now.after_ms(wait_ms),
            window_closes: None,
        };
        let number = self.waiters.next_number(pop.since.unwrap_or(now));
        if !self.park(number, waiter) {
            return None;
        }
        if windowed {
            self.serve_source(now, source, effects);
            return Some(None);
        }
        let marked = self.marks_elsewhere(source);
        if marked != 0 {
            // Something came to another shard before it could see that somebody waits.
            self.pass_waiter(now, (number, marked), None, effects);
        }
        Some(None)
    }

    /// Finds the queue, the group and the ring of a pop; whatever is missing is made.
    pub(super) fn source(
        &mut self,
        now: Moment,
        tenant: TenantId,
        (queue, group): (&str, &str),
        partition: Option<&str>,
        effects: &mut Vec<Effect>,
    ) -> Result<Source, Refusal> {
        let existing = self.find_queue(now, tenant, queue, effects);
        let queue = match existing {
            Some(queue) => queue,
            None => self.find_or_create_queue(now, tenant, queue, effects)?,
        };
        let source = self.source_in(now, queue, (group, partition), effects);
        // A refusal leaves no trace: what was made for the pop goes again.
        if source.is_err() && existing.is_none() {
            self.remove_queue(queue, effects);
        }
        source
    }

    fn source_in(
        &mut self,
        now: Moment,
        queue: u32,
        (group, partition): (&str, Option<&str>),
        effects: &mut Vec<Effect>,
    ) -> Result<Source, Refusal> {
        let known = partition.and_then(|partition| self.find_ring(queue, partition));
        if partition.is_some() && known.is_none() {
            self.check_partition_fits(queue)?;
        }
        let group = self.register_group(queue, group, effects)?;
        let create = |partition| known.unwrap_or_else(|| self.create_ring(now, queue, partition));
        let ring = partition.map(create);
        Ok(Source { queue, ring, group })
    }

    /// The group's position; a new one gets its place in every ring, at the oldest message held.
    fn register_group(
        &mut self,
        queue: u32,
        name: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<u32, Refusal> {
        let local = &self.queues[queue];
        if let Some(group) = local.group(name) {
            return Ok(group);
        }
        self.check_cursors_fit(local, local.cell.partitions() as usize)?;
        let group = local.cell.register_group(name)?;
        if local.has_window() {
            // Its window counts what other shards have, which they have to say.
            self.tell_to_look(&local.reference(), local.cell.shards(), effects);
        }
        self.learn_groups(queue);
        Ok(group)
    }

    /// Takes up to a batch from a source, for a parked pop nothing that an older one waits for.
    pub(super) fn take(
        &mut self,
        now: Moment,
        source: Source,
        take: Take,
        waiter: Option<WaiterNumber>,
    ) -> Vec<Delivered> {
        let mut delivered = Vec::new();
        match source.ring {
            Some(ring) => {
                self.take_from_ring(now, ring, take, &mut delivered);
                if self.settings.shards > 1 {
                    // A mark with nothing behind it would cost a pop without partition a hop.
                    self.has_ready(source.queue, source.group);
                }
            }
            None => self.take_round_robin(now, source.queue, (take, waiter), &mut delivered),
        }
        self.statistics.popped += delivered.len() as u64;
        delivered
    }

    fn take_from_ring(
        &mut self,
        now: Moment,
        ring: u32,
        take: Take,
        delivered: &mut Vec<Delivered>,
    ) {
        let terms = self.terms(self.rings[ring].queue);
        self.on_ring(ring, |ring, changes| {
            ring.touched = now;
            ring.take(now, terms, take, delivered, changes);
        });
        self.arm_ring(now, ring);
    }

    /// Each ready ring in turn fills what is left of the batch; one that has more goes to the end
    /// of the line, so that a busy partition cannot starve the others.
    pub(super) fn take_round_robin(
        &mut self,
        now: Moment,
        queue: u32,
        (take, waiter): (Take, Option<WaiterNumber>),
        delivered: &mut Vec<Delivered>,
    ) {
        let group = take.group as usize;
        let visits = self.queues[queue].groups[group].ready.len();
        for _ in 0..visits {
            if delivered.len() >= take.batch {
                break;
            }
            let place = &mut self.queues[queue].groups[group];
            let entry = place.ready.pop_front().expect("a visit per entry");
            let Some(ring) = self.ring_of(entry) else {
                let place = &mut self.queues[queue].groups[group];
                place.stale = place.stale.saturating_sub(1);
                continue;
            };
            if !self.is_awaited_longer(ring, take.group, waiter) {
                self.take_from_ring(now, ring, take, delivered);
            }
            self.rings[ring].groups[group].ready = false;
            self.mark_ready(ring, take.group);
        }
        let place = &self.queues[queue].groups[group];
        if place.ready.is_empty() {
            self.clear_mark(queue, take.group);
        }
    }

    /// The answer to a pop that found nothing, of a queue that need not exist.
    pub fn nothing(&self, tenant: TenantId, pop: &Pop<'_>) -> Popped {
        Popped {
            queue: Arc::from(pop.queue.as_str()),
            tenant,
            generation: 0,
            group: 0,
            incarnation: self.settings.incarnation,
            auto_ack: pop.auto_ack,
            messages: Vec::new(),
        }
    }

    /// What was taken, as an answer.
    pub(super) fn popped(&self, source: Source, take: Take, messages: Vec<Delivered>) -> Popped {
        let cell = &self.queues[source.queue].cell;
        Popped {
            queue: Arc::clone(cell.name()),
            tenant: cell.tenant().id(),
            generation: cell.generation(),
            group: source.group,
            incarnation: self.settings.incarnation,
            auto_ack: take.auto_ack,
            messages,
        }
    }

    /// Ends due leases and expires due messages of a ring, then serves who waits for what came
    /// back.
    pub(super) fn refresh_ring(&mut self, now: Moment, ring: u32, effects: &mut Vec<Effect>) {
        let terms = self.terms(self.rings[ring].queue);
        let mut steps = limits::EXPIRE_STEP_MAX;
        let (_, redelivered) = self.on_ring(ring, |ring, changes| {
            ring.refresh(now, terms, &mut steps, changes)
        });
        for group in redelivered {
            self.serve(now, ring, group, effects);
        }
    }
}
