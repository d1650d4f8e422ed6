//! Pops: which partitions have something for a group, and what is taken from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::{Found, Judge, Judged};
use crate::engine::durable::draft::{Answer, Claim, Popped};
use crate::engine::durable::image::{CursorRef, QueueSlot};
use crate::engine::durable::lease::{Home, home_of, new_lease_id};
use crate::engine::durable::waiters::{Key, Waiter};
use crate::limits::{DURABLE_REFUSALS_MAX, DURABLE_WAIT_MS_MAX};
use crate::model::durable::{Extend, Extended, Pop, QUEUE_MODE_GROUP, Reply, Source, Start};
use crate::model::{ClientRef, TenantId};
use crate::postgres::durable::{CursorState, GroupStart};

/// What a group finds at its place in a partition.
pub(super) enum Look {
    /// Messages it may take.
    Ready { from: i64, to: i64 },
    /// Something at this time at the earliest.
    Later(i64),
    /// Nothing.
    Nothing,
}

impl Judge<'_> {
    pub(super) fn pop(
        &mut self,
        (client, tenant): (ClientRef, TenantId),
        pop: Arc<Pop>,
    ) -> Judged<()> {
        let wait_us = |wait_ms: u64| {
            i64::try_from(wait_ms.min(DURABLE_WAIT_MS_MAX)).expect("bounded") * 1_000
        };
        let deadline_us = pop.wait_ms.map(|wait_ms| self.now_us + wait_us(wait_ms));
        let gather_until_us = match deadline_us {
            Some(deadline_us) => self.gather_until(tenant, &pop, deadline_us)?,
            None => 0,
        };
        let popped = self.take(tenant, &pop, gather_until_us)?;
        if popped.claims.is_empty()
            && popped.unopened.is_none()
            && let Some(deadline_us) = deadline_us
        {
            let number = self.memory.waiters.next_number();
            self.draft.parked.push(number);
            self.memory.waiters.park(Waiter {
                number,
                client,
                tenant,
                pop,
                deadline_us,
                gather_until_us,
            });
            return Ok(());
        }
        self.draft.answers.push((client, Answer::Popped(popped)));
        Ok(())
    }

    /// Takes what is there for a pop; nothing while it gathers and there is less than it asks for.
    fn take(&mut self, tenant: TenantId, pop: &Pop, gather_until_us: i64) -> Judged<Popped> {
        let names = self.names_of(tenant, &pop.source)?;
        let mut popped = Popped {
            queue: None,
            group: (&*pop.group).into(),
            lease_id: None,
            claims: Vec::new(),
            refusals: 0,
            unopened: None,
            waiter: None,
        };
        let is_wide = matches!(pop.source, Source::Discovery { .. });
        for name in names {
            let slot = self.queue(tenant, &name)?;
            if !is_wide {
                popped.queue = Some(Arc::clone(&self.memory.queue(slot).name));
            }
            let group = self.group(slot, pop)?;
            if gather_until_us > self.now_us && !self.has_enough((slot, group), pop)? {
                continue;
            }
            if popped.lease_id.is_none() && !pop.auto_ack {
                let group_id = self.memory.queue(slot).groups[group].id;
                popped.lease_id = Some(new_lease_id(Home { group_id, is_wide }));
            }
            self.take_from(slot, group, pop, &mut popped)?;
        }
        if popped.claims.is_empty() {
            popped.lease_id = None;
            self.draft.refuses |= popped.unopened.is_some();
        }
        Ok(popped)
    }

    /// The queues that a pop takes from.
    fn names_of(&mut self, tenant: TenantId, source: &Source) -> Judged<Vec<Box<str>>> {
        let (namespace, task) = match source {
            Source::Queue(queue) | Source::Partition { queue, .. } => {
                return Ok(vec![queue.clone()]);
            }
            Source::Discovery { namespace, task } => (namespace.as_deref(), task.as_deref()),
        };
        let mut names = self.store.discover_queues(tenant, namespace, task)?;
        let made = self
            .draft
            .queues
            .iter()
            .map(|&slot| self.memory.queue(slot));
        let found = made.filter(|queue| queue.tenant == tenant && queue.is_found_by(source));
        names.extend(found.map(|queue| Box::from(&*queue.name)));
        Ok(names)
    }

    /// The groups of discoveries that wait begin before the first message of a queue that comes to be.
    pub(super) fn register_discoverers(&mut self, slot: QueueSlot) -> Judged<()> {
        let tenant = self.memory.queue(slot).tenant;
        for key in self.memory.waiters.keys_of(tenant, None) {
            let mut number = 0;
            while let Some(waiter) = self.memory.waiters.next_of(&key, number) {
                number = waiter.number;
                let pop = Arc::clone(&waiter.pop);
                if self.memory.queue(slot).is_found_by(&pop.source) {
                    self.group(slot, &pop)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// The group's number in the queue's image; noted in the database if it is new.
    fn group(&mut self, slot: QueueSlot, pop: &Pop) -> Judged<usize> {
        let queue = self.memory.queue(slot);
        if let Some(group) = queue.group(&pop.group) {
            return Ok(group);
        }
        let start = if &*pop.group == QUEUE_MODE_GROUP {
            Start::All
        } else {
            pop.start.unwrap_or(self.memory.rules.default_start)
        };
        let start = match start {
            Start::All => GroupStart::All,
            Start::New => GroupStart::New,
            Start::At(time_us) => GroupStart::At(time_us),
        };
        let (tenant, name) = (queue.tenant, Arc::clone(&queue.name));
        let (row, cursors) = self
            .store
            .register_group(tenant, &name, &pop.group, start)?;
        let queue = self.memory.queue_mut(slot);
        let group = queue.add_group(&row);
        for cursor in &cursors {
            queue.put_cursor(group, cursor);
        }
        queue.look_for_ready(group);
        Ok(group)
    }

    fn take_from(
        &mut self,
        slot: QueueSlot,
        group: usize,
        pop: &Pop,
        popped: &mut Popped,
    ) -> Judged<()> {
        if let Source::Partition { partition, .. } = &pop.source {
            if let Some(partition) = self.memory.queue(slot).partition(partition) {
                self.look_and_take((slot, group, partition), pop, popped)?;
            }
            return Ok(());
        }
        let turns = self.memory.queue(slot).groups[group].in_turn();
        for _ in 0..turns {
            // Those that are left are looked at by later pops.
            if popped.claims.len() >= pop.partitions as usize
                || left_of(pop, popped) == 0
                || popped.refusals >= DURABLE_REFUSALS_MAX
            {
                break;
            }
            let consumer = &mut self.memory.queue_mut(slot).groups[group];
            let Some(partition) = consumer.next_in_turn() else {
                break;
            };
            self.look_and_take((slot, group, partition), pop, popped)?;
        }
        Ok(())
    }

    fn look_and_take(
        &mut self,
        (queue, group, partition): (QueueSlot, usize, usize),
        pop: &Pop,
        popped: &mut Popped,
    ) -> Judged<()> {
        let cursor = CursorRef {
            queue,
            group,
            partition,
        };
        match self.look(cursor, left_of(pop, popped))? {
            Look::Nothing => {}
            Look::Later(time_us) => self.memory.look_again(time_us, cursor),
            Look::Ready { from, to } if self.memory.must_open(queue) => {
                match self.open(cursor, from..to)? {
                    Ok(opened) => {
                        let to = opened.as_ref().map_or(to, |piece| piece.to);
                        let claim = self.claim(cursor, from..to, pop, popped.lease_id);
                        let pieces = Some(Vec::from_iter(opened));
                        popped.claims.push(Claim { pieces, ..claim });
                    }
                    Err(refusal) => {
                        // It stays in turn: nobody is told that there is nothing.
                        self.memory.queue_mut(queue).groups[group].put_in_turn(partition);
                        popped.refusals += 1;
                        popped.unopened.get_or_insert(refusal);
                    }
                }
            }
            Look::Ready { from, to } => {
                let claim = self.claim(cursor, from..to, pop, popped.lease_id);
                popped.claims.push(claim);
            }
        }
        Ok(())
    }

    /// What the group may take at its place, at most `budget` messages.
    pub(super) fn look(&mut self, cursor: CursorRef, budget: i64) -> Judged<Look> {
        let queue = self.memory.queue(cursor.queue);
        let place = queue.cursor(cursor.group, cursor.partition);
        let kept = &queue.partitions[cursor.partition];
        let from = place.state.committed.max(kept.first_offset);
        if from >= kept.next_offset {
            return Ok(Look::Nothing);
        }
        if place.is_leased(self.now_us) {
            return Ok(Look::Later(place.state.lease_until_us));
        }
        if place.state.held_until_us > self.now_us {
            return Ok(Look::Later(place.state.held_until_us));
        }
        let to = kept.next_offset.min(from + budget);
        let options = self.options(cursor.queue);
        let (delay_us, window_us) = (
            i64::from(options.delay_s) * 1_000_000,
            i64::from(options.window_s) * 1_000_000,
        );
        if delay_us == 0 && window_us == 0 {
            return Ok(Look::Ready { from, to });
        }
        let Found { records, damaged } = self.find(cursor.queue, cursor.partition, from..to)?;
        let found: Vec<_> = records
            .into_iter()
            .filter(|(offset, _)| damaged.is_none_or(|damaged| *offset < damaged))
            .collect();
        let Some((_, first)) = found.first() else {
            // Who takes what is damaged is told.
            return Ok(match damaged {
                Some(_) => Look::Ready { from, to },
                None => Look::Nothing,
            });
        };
        let ready_us = first.created_us + delay_us.max(window_us);
        if ready_us > self.now_us {
            return Ok(Look::Later(ready_us));
        }
        let is_due =
            |record: &crate::model::durable::Record| record.created_us + delay_us <= self.now_us;
        let due = found.iter().take_while(|(_, record)| is_due(record)).last();
        let to = due.map_or(from, |(offset, _)| offset + 1);
        Ok(Look::Ready { from, to })
    }

    /// Takes a range for a group, under a lease or for good.
    fn claim(
        &mut self,
        cursor: CursorRef,
        range: std::ops::Range<i64>,
        pop: &Pop,
        lease_id: Option<Uuid>,
    ) -> Claim {
        let queue_lease_s = self.options(cursor.queue).lease_s;
        let before = self.cursor_state(cursor);
        let attempts = before.attempts + 1;
        let claimed = CursorState {
            committed: range.start,
            batch_end: range.end,
            attempts,
            held_until_us: 0,
            ..before
        };
        let state = match lease_id {
            Some(lease_id) => {
                let lease_s = pop.lease_s.unwrap_or(queue_lease_s);
                CursorState {
                    lease_id: Some(lease_id),
                    lease_until_us: self.now_us + i64::from(lease_s) * 1_000_000,
                    ..claimed
                }
            }
            None => CursorState {
                committed: range.end,
                lease_id: None,
                lease_until_us: 0,
                attempts: 0,
                retries: 0,
                settled_us: self.now_us,
                settled_count: before.settled_count + range.end - range.start,
                ..claimed
            },
        };
        self.move_cursor(cursor, state);
        if lease_id.is_some() {
            self.memory.look_again(state.lease_until_us, cursor);
        }
        Claim {
            cursor,
            from: range.start,
            to: range.end,
            attempt: u32::try_from(attempts).unwrap_or(u32::MAX),
            pieces: None,
        }
    }

    /// Serves those who wait for a queue, oldest first, as far as something is there.
    pub(super) fn wake_for(&mut self, slot: QueueSlot) -> Judged<()> {
        let queue = self.memory.queue(slot);
        let (tenant, name) = (queue.tenant, Arc::clone(&queue.name));
        // Not the groups of the queue: one that was deleted meanwhile is registered anew.
        let named = self.memory.waiters.keys_of(tenant, Some(&name));
        let discoveries = self.memory.waiters.keys_of(tenant, None);
        let mut keys = named.iter().chain(&discoveries);
        keys.try_for_each(|key| self.wake_key(key))
    }

    /// Serves those who wait for the same, oldest first, until there is nothing left for them.
    pub(super) fn wake_key(&mut self, key: &Key) -> Judged<()> {
        let mut number = 0;
        while let Some(waiter) = self.memory.waiters.next_of(key, number) {
            number = waiter.number;
            let (client, pop) = (waiter.client, Arc::clone(&waiter.pop));
            let gather_until_us = waiter.gather_until_us;
            let mut popped = self.take(key.tenant, &pop, gather_until_us)?;
            if !popped.claims.is_empty() || popped.unopened.is_some() {
                popped.waiter = self.memory.waiters.take(number);
                self.draft.answers.push((client, Answer::Popped(popped)));
            } else if key.queue.is_some() && gather_until_us <= self.now_us {
                break;
            }
            // Who gathers leaves what is there to those who do not, and those who discover wait for other
            // namespaces and tasks each.
        }
        Ok(())
    }

    /// Holds a lease for longer, never for shorter.
    pub(super) fn extend(&mut self, tenant: TenantId, extend: &Extend) -> Judged<Reply> {
        let lease_id = Uuid::try_parse(&extend.lease_id).ok();
        let held = match lease_id {
            Some(lease_id) => self.held_by(tenant, lease_id)?,
            None => Vec::new(),
        };
        let mut extended = Extended {
            lease_id: extend.lease_id.clone(),
            renewed: 0,
            expires_us: None,
        };
        for cursor in held {
            let state = self.cursor_state(cursor);
            if state.lease_id != lease_id || state.lease_until_us <= self.now_us {
                continue;
            }
            let until_us = self.now_us + i64::from(extend.seconds) * 1_000_000;
            let state = CursorState {
                lease_until_us: state.lease_until_us.max(until_us),
                ..state
            };
            self.move_cursor(cursor, state);
            extended.renewed += 1;
            let earliest = extended.expires_us.unwrap_or(i64::MAX);
            extended.expires_us = Some(earliest.min(state.lease_until_us));
        }
        self.draft.refuses |= extended.renewed == 0;
        Ok(Reply::Extended(extended))
    }

    /// What a lease holds has reached nobody: it is as if it had not been taken.
    pub(super) fn release(&mut self, tenant: TenantId, lease_id: Uuid) -> Judged<()> {
        let held = self.held_by(tenant, lease_id)?;
        self.draft.refuses |= held.is_empty();
        for cursor in held {
            let state = self.cursor_state(cursor);
            if state.lease_id != Some(lease_id) {
                continue;
            }
            let state = CursorState {
                lease_id: None,
                lease_until_us: 0,
                attempts: (state.attempts - 1).max(0),
                ..state
            };
            self.move_cursor(cursor, state);
        }
        Ok(())
    }

    /// What a lease holds of the tenant's. An id can be made up: those of other tenants are left alone.
    pub(super) fn held_by(&mut self, tenant: TenantId, lease_id: Uuid) -> Judged<Vec<CursorRef>> {
        let Some(home) = home_of(lease_id) else {
            return Ok(Vec::new());
        };
        if home.is_wide {
            return self.held_widely(tenant, lease_id, home);
        }
        // It is of one queue, so it is known whole or not at all.
        if !self.memory.leases.contains_key(&lease_id)
            && let Some((owner, queue)) = self.store.find_home(home.group_id)?
            && owner == tenant
        {
            self.queue(tenant, &queue)?;
        }
        Ok(self.remembered_of(tenant, lease_id))
    }

    /// The same of a discovery's lease, all of it or nothing. It is looked up each time: whatever is
    /// remembered of it, there may be more in queues that are not.
    fn held_widely(
        &mut self,
        tenant: TenantId,
        lease_id: Uuid,
        home: Home,
    ) -> Judged<Vec<CursorRef>> {
        let mut stored = BTreeSet::new();
        for queue in self.store.find_leased(tenant, lease_id, home.group_id)? {
            stored.insert(self.queue(tenant, &queue)?);
        }
        let mut held = self.remembered_of(tenant, lease_id);
        let remembered: BTreeSet<QueueSlot> = held.iter().map(|cursor| cursor.queue).collect();
        // Another broker has changed what is remembered, or the group that the id names is gone.
        self.draft.refuses |= stored != remembered;
        held.retain(|cursor| stored.contains(&cursor.queue));
        Ok(held)
    }

    /// As much of what a lease holds as is remembered.
    pub(super) fn remembered_of(&self, tenant: TenantId, lease_id: Uuid) -> Vec<CursorRef> {
        let held = self.memory.leases.get(&lease_id).into_iter().flatten();
        let own = held.filter(|cursor| self.memory.queue(cursor.queue).tenant == tenant);
        own.copied().collect()
    }
}

/// Messages that a pop may still take.
fn left_of(pop: &Pop, popped: &Popped) -> i64 {
    let taken: i64 = popped
        .claims
        .iter()
        .map(|claim| claim.to - claim.from)
        .sum();
    i64::from(pop.batch) - taken
}
