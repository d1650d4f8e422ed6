//! What must be equal, or must hold, after every step.

use std::sync::Arc;

use queen::directory::Directory;
use queen::model::{
    Depth, GroupDepth, Moment, PartitionDepth, QUEUE_MODE_GROUP, QueuePage, TenantId,
};
use queen::shard::Statistics;

use crate::model::{Life, Model, Queue, Ring, State, Waiter, ensure};
use crate::settlement::wanted;

impl Model {
    /// Adopts what was collected, if it may have been. `true`: a partition is missing and must be
    /// looked for.
    pub(crate) fn adopt_collected(&mut self, directory: &Directory) -> Result<Vec<u64>, String> {
        let mut missing = Vec::new();
        let mut kept = Vec::new();
        for queue in std::mem::take(&mut self.queues) {
            if let Some(cell) = directory.peek(queue.tenant, &queue.name) {
                if queue.generation == Some(cell.generation())
                    && cell.partitions() < queue.rings.len() as u64
                {
                    missing.push(queue.life);
                }
                kept.push(queue);
            } else {
                ensure!(
                    self.may_collect(&queue),
                    "a queue was collected that is in use: {} at {:?}, touched {:?}, {} waiters",
                    queue.name,
                    self.now,
                    queue.touched,
                    self.waiters.len()
                );
                self.reached.queue_collected += 1;
            }
        }
        self.queues = kept;
        Ok(missing)
    }

    /// Adopts which partitions were collected, if they may have been.
    pub(crate) fn adopt_partitions(&mut self, life: u64, depth: &Depth) -> Result<(), String> {
        let at = self.by_life(life).expect("it was just seen");
        let mut queue = self.queues.remove(at);
        for ring in std::mem::take(&mut queue.rings) {
            if depth
                .partitions
                .iter()
                .any(|one| *one.partition == ring.partition)
            {
                queue.rings.push(ring);
            } else {
                ensure!(
                    self.may_collect_ring(&queue, &ring),
                    "a partition was collected that is in use: {ring:?}"
                );
                self.reached.partition_collected += 1;
            }
        }
        self.queues.insert(at, queue);
        Ok(())
    }

    /// What is due was done.
    pub(crate) fn check_after_tick(&self) -> Result<(), String> {
        for queue in &self.queues {
            ensure!(
                !self.must_collect(queue),
                "{} was not collected: {:?}",
                queue.name,
                self.now
            );
            for ring in &queue.rings {
                ensure!(
                    !self.must_collect_ring(queue, ring),
                    "a partition of {} of {} was not collected at {:?}: {ring:?}",
                    queue.name,
                    queue.tenant,
                    self.now
                );
            }
        }
        for waiter in &self.waiters {
            ensure!(waiter.deadline > self.now, "{waiter:?} waits for ever");
        }
        Ok(())
    }

    /// Adopts how many of the messages that may have lingered were dropped at their retry limit.
    pub(crate) fn adopt_retry_drops(&mut self, directory: &Directory) -> Result<(), String> {
        for queue in &mut self.queues {
            let cell = directory.peek(queue.tenant, &queue.name);
            let told = cell.map_or(queue.drops.retry, |cell| cell.drops().retry);
            let counted = told.saturating_sub(queue.drops.retry);
            ensure!(
                counted <= queue.retry_slack,
                "{}: {counted} more dropped by retry",
                queue.name
            );
            queue.retry_slack = 0;
            queue.drops.retry += counted;
            self.totals.dropped.retry += counted;
        }
        Ok(())
    }

    /// Figures that all cores share.
    pub(crate) fn check_cells(&mut self, directory: &Arc<Directory>) -> Result<(), String> {
        self.adopt_retry_drops(directory)?;
        ensure!(
            directory.queue_count() == self.queues.len(),
            "{} queues and not {}",
            directory.queue_count(),
            self.queues.len()
        );
        for at in 0..self.queues.len() {
            let queue = &self.queues[at];
            let Some(cell) = directory.peek(queue.tenant, &queue.name) else {
                return Err(format!("{} does not exist", queue.name));
            };
            let queue = &mut self.queues[at];
            if queue.generation.is_none() {
                queue.generation = Some(cell.generation());
                ensure!(
                    self.highest_generation < queue.generation,
                    "a generation comes back"
                );
                self.highest_generation = queue.generation;
            }
            let waiting = self.waiters.iter().filter(|one| one.life == queue.life);
            let figures = (
                (cell.generation(), cell.configuration().tier),
                (cell.length(), cell.bytes(), cell.waiters()),
                (cell.partitions(), cell.group_version() as usize),
                (cell.drops(), cell.configuration().effective),
            );
            let expected = (
                (queue.generation.unwrap_or(0), queue.tier),
                (queue.live(), queue.bytes(), waiting.count() as u64),
                (queue.rings.len() as u64, queue.groups.len()),
                (queue.drops, queue.options),
            );
            ensure!(
                figures == expected,
                "{}: {figures:?} and not {expected:?}",
                queue.name
            );
        }
        let bytes = self.broker_bytes();
        ensure!(
            directory.broker().used() == bytes,
            "the broker counts {} bytes and not {bytes}",
            directory.broker().used()
        );
        ensure!(
            bytes <= self.rules.broker_bytes,
            "the broker holds too much"
        );
        Ok(())
    }

    pub(crate) fn check_tenant(&self, tenant: TenantId, used: u64) -> Result<(), String> {
        let of_tenant = self.queues.iter().filter(|queue| queue.tenant == tenant);
        let bytes: u64 = of_tenant.map(Queue::bytes).sum();
        ensure!(
            used == bytes,
            "{tenant} counts {used} bytes and not {bytes}"
        );
        Ok(())
    }

    pub(crate) fn check_totals(&self, totals: Statistics, parked: usize) -> Result<(), String> {
        ensure!(
            totals == self.totals,
            "totals {totals:?} and not {:?}",
            self.totals
        );
        ensure!(parked == self.waiters.len(), "{parked} pops are parked");
        Ok(())
    }

    /// The loop sleeps until `next` and no longer than until something is due.
    pub(crate) fn check_deadline(&self, next: Option<Moment>) -> Result<(), String> {
        let due = self.next_due();
        ensure!(
            next.unwrap_or(Moment::NEVER) <= due.max(self.now),
            "the core sleeps until {next:?} past {due:?}"
        );
        Ok(())
    }

    /// Nobody waits beside a message that he may have, unless a window holds it.
    pub(crate) fn check_waiters(&mut self) -> Result<(), String> {
        for at in 0..self.waiters.len() {
            let waiter = self.waiters[at].clone();
            let (available, _) = self.available(&waiter);
            let queue = self.queue_of(&waiter);
            let window = queue.options.window_buffer;
            if available == 0 {
                self.waiters[at].opened = None;
                continue;
            }
            ensure!(
                queue.has_window(),
                "{waiter:?} waits beside {available} messages"
            );
            let overlaps = |older: &&Waiter| {
                older.life == waiter.life
                    && older.group == waiter.group
                    && (older.partition.is_none()
                        || waiter.partition.is_none()
                        || older.partition == waiter.partition)
                    && self.available(older).1 > 0
            };
            if self.waiters[..at].iter().any(|older| overlaps(&older)) {
                self.waiters[at].opened = None;
                continue;
            }
            let opened = waiter.opened.unwrap_or(self.now);
            let opened = opened.max(queue.window_since);
            self.waiters[at].opened = Some(opened);
            let wanted = wanted(&waiter, window.count);
            let open = window.ms == 0 || opened.after_ms(window.ms) > self.now;
            ensure!(
                available < wanted && open && waiter.deadline > self.now,
                "{waiter:?} waits beside {available} of {wanted} messages; window {window:?}"
            );
        }
        Ok(())
    }

    /// Notes for which parked pops a first message is there.
    pub(crate) fn note_windows(&mut self) {
        for at in 0..self.waiters.len() {
            let (certain, most) = self.available(&self.waiters[at]);
            let (now, waiter) = (self.now, &mut self.waiters[at]);
            if most > 0 && waiter.first_seen.is_none() {
                waiter.first_seen = Some(now);
            }
            if certain == 0 {
                waiter.opened = None;
            }
        }
    }

    /// After a late turn: a window may have closed upon nothing before something came back.
    pub(crate) fn forget_windows(&mut self) {
        for waiter in &mut self.waiters {
            waiter.opened = None;
        }
    }

    /// Forgets messages that nobody can name any more.
    pub(crate) fn prune(&mut self) {
        for ring in self.queues.iter_mut().flat_map(|queue| &mut queue.rings) {
            ring.messages
                .retain(|one| one.life != Life::Gone || one.pins > 0 || one.has_leases());
        }
    }

    /// The depth answer that is due.
    pub(crate) fn check_depth(
        &self,
        (tenant, name): (TenantId, &str),
        asked: Option<&str>,
        depth: &Depth,
    ) -> Result<(), String> {
        let Some(at) = self.find(tenant, name) else {
            return Err(format!("{name} has no depth: {depth:?}"));
        };
        let queue = &self.queues[at];
        let mut partitions: Vec<PartitionDepth> = queue
            .rings
            .iter()
            .map(|ring| PartitionDepth {
                partition: ring.partition.as_str().into(),
                pending: pending(queue, ring, asked),
                bytes: ring.live_bytes(),
            })
            .collect();
        partitions.sort_by(|left, right| left.partition.cmp(&right.partition));
        let of_group = |(group, name): (usize, &String)| GroupDepth {
            group: name.as_str().into(),
            pending: queue.rings.iter().map(|ring| ring.backlog(group)).sum(),
            skipped: queue.rings.iter().map(|ring| ring.skipped[group]).sum(),
        };
        let mut groups: Vec<GroupDepth> = Vec::new();
        if !queue.rings.is_empty() {
            groups = queue.groups.iter().enumerate().map(of_group).collect();
        }
        groups.sort_by(|left, right| left.group.cmp(&right.group));
        let waiting = self.waiters.iter().filter(|one| one.life == queue.life);
        let pending_sum: u64 = partitions.iter().map(|one| one.pending).sum();
        let pending_partitions = partitions.iter().filter(|one| one.pending > 0).count();
        let expected = (
            (queue.tier, pending_sum, pending_partitions as u64),
            (queue.bytes(), queue.drops, waiting.count() as u64),
        );
        let figures = (
            (depth.tier, depth.pending, depth.partitions_pending),
            (depth.bytes, depth.drops, depth.waiting),
        );
        ensure!(
            depth.partitions == partitions,
            "{name} for {asked:?}: {:?} and not {partitions:?}",
            depth.partitions
        );
        ensure!(
            depth.groups == groups,
            "{name}: {:?} and not {groups:?}",
            depth.groups
        );
        ensure!(
            figures == expected,
            "{name}: {figures:?} and not {expected:?}"
        );
        Ok(())
    }

    /// A listing that is due.
    pub(crate) fn check_list(
        &self,
        tenant: TenantId,
        (after, prefix, limit): (Option<&str>, &str, usize),
        page: &QueuePage,
    ) -> Result<(), String> {
        let mut names: Vec<&str> = self
            .queues
            .iter()
            .filter(|queue| queue.tenant == tenant && queue.name.starts_with(prefix))
            .map(|queue| queue.name.as_str())
            .filter(|name| after.is_none_or(|after| *name > after))
            .collect();
        names.sort_unstable();
        let more = names.len() > limit;
        names.truncate(limit);
        let listed: Vec<&str> = page.rows.iter().map(|row| &*row.queue).collect();
        ensure!(
            listed == names && page.more == more,
            "listed {listed:?} and not {names:?}"
        );
        ensure!(
            page.broker_bytes == self.broker_bytes(),
            "bytes of the list"
        );
        for row in &page.rows {
            let queue = &self.queues[self.find(tenant, &row.queue).expect("named above")];
            let figures = (
                (row.tier, row.depth, row.bytes, row.drops),
                (row.partitions, row.groups, row.options),
            );
            let expected = (
                (queue.tier, queue.live(), queue.bytes(), queue.drops),
                (
                    queue.rings.len() as u64,
                    queue.groups.len() as u64,
                    queue.options,
                ),
            );
            ensure!(
                figures == expected,
                "row of {}: {figures:?} and not {expected:?}",
                queue.name
            );
        }
        Ok(())
    }

    /// Queues and groups for which only the broker knows whether something is unread.
    pub(crate) fn undecided(&self) -> Vec<(TenantId, String, String)> {
        let mut undecided = Vec::new();
        for queue in &self.queues {
            for (group, name) in queue.groups.iter().enumerate() {
                let mut messages = queue.rings.iter().flat_map(|ring| &ring.messages);
                if messages.any(|one| one.is_live() && one.states[group] == State::Maybe) {
                    undecided.push((queue.tenant, queue.name.clone(), name.clone()));
                }
            }
        }
        undecided
    }

    /// Decides by the backlogs that the broker reports: the newest are unread.
    pub(crate) fn decide(
        &mut self,
        (tenant, name): (TenantId, &str),
        group: &str,
        depth: &Depth,
    ) -> Result<(), String> {
        let lingers = self.lingers();
        let at = self.find(tenant, name).expect("it was undecided");
        let queue = &mut self.queues[at];
        let group = queue.group(group).expect("it was undecided");
        for ring in &mut queue.rings {
            let told = depth
                .partitions
                .iter()
                .find(|one| *one.partition == ring.partition)
                .map_or(0, |one| one.pending);
            let is_maybe = |one: &&mut crate::model::Message| {
                one.is_live() && one.states[group] == State::Maybe
            };
            let maybe = ring.messages.iter_mut().filter(is_maybe).count() as u64;
            let certain = ring.backlog(group) - maybe;
            ensure!(
                (certain..=certain + maybe).contains(&told),
                "{name}, {}: backlog {told}, not {certain} to {}",
                ring.partition,
                certain + maybe
            );
            let mut unread = told - certain;
            for one in ring.messages.iter_mut().rev().filter(is_maybe) {
                one.states[group] = if unread > 0 {
                    State::Unread
                } else {
                    State::Done
                };
                unread = unread.saturating_sub(1);
            }
        }
        queue.retire(lingers);
        Ok(())
    }
}

/// A partition's backlog for the asked group; everything for an unknown one. Without a group the
/// worst named one speaks, the shared cursor only alone.
fn pending(queue: &Queue, ring: &Ring, asked: Option<&str>) -> u64 {
    if let Some(asked) = asked {
        return match queue.group(asked) {
            Some(group) => ring.backlog(group),
            None => ring.live(),
        };
    }
    let backlogs = |named: bool| {
        let groups = queue.groups.iter().enumerate();
        let wanted = groups.filter(move |(_, name)| (*name != QUEUE_MODE_GROUP) == named);
        wanted.map(|(group, _)| ring.backlog(group)).max()
    };
    backlogs(true)
        .or_else(|| backlogs(false))
        .unwrap_or_else(|| ring.live())
}
