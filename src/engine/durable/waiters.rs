//! Pops that wait for a message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::model::durable::{Pop, Source};
use crate::model::{ClientRef, TenantId};

/// A pop that waits. Its number is its turn: the oldest is served first.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) number: u64,
    pub(super) client: ClientRef,
    pub(super) tenant: TenantId,
    pub(super) pop: Arc<Pop>,
    /// When it is answered with nothing, by the database's clock.
    pub(super) deadline_us: i64,
}

/// What a waiter waits for: a queue and a group, or, without a queue, a discovery.
type Key = (TenantId, Option<Box<str>>, Box<str>);

/// All pops that wait.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    all: BTreeMap<u64, Waiter>,
    by_key: BTreeMap<Key, BTreeSet<u64>>,
    by_client: HashMap<ClientRef, u64>,
    deadlines: BTreeSet<(i64, u64)>,
    next_number: u64,
}

impl Waiters {
    /// The number of one that begins to wait.
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Puts one where its number says.
    pub(super) fn park(&mut self, waiter: Waiter) {
        let numbers = self.by_key.entry(key_of(&waiter)).or_default();
        numbers.insert(waiter.number);
        self.by_client.insert(waiter.client, waiter.number);
        self.deadlines.insert((waiter.deadline_us, waiter.number));
        self.all.insert(waiter.number, waiter);
    }

    /// Takes one away.
    pub(super) fn take(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.all.remove(&number)?;
        self.by_client.remove(&waiter.client);
        self.deadlines.remove(&(waiter.deadline_us, number));
        let key = key_of(&waiter);
        if let Some(numbers) = self.by_key.get_mut(&key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some(waiter)
    }

    /// Takes that of a client away.
    pub(super) fn take_client(&mut self, client: ClientRef) -> Option<Waiter> {
        let number = *self.by_client.get(&client)?;
        self.take(number)
    }

    /// Those that wait for a queue and a group, or for a discovery by that group; oldest first.
    pub(super) fn of(&self, tenant: TenantId, queue: Option<&str>, group: &str) -> Vec<Waiter> {
        let key = (tenant, queue.map(Into::into), group.into());
        let numbers = self.by_key.get(&key).into_iter().flatten();
        numbers
            .filter_map(|number| self.all.get(number))
            .cloned()
            .collect()
    }

    /// The groups that somebody waits by for a queue, or for a discovery.
    pub(super) fn groups_of(&self, tenant: TenantId, queue: Option<&str>) -> Vec<Box<str>> {
        let first = (tenant, queue.map(Into::into), "".into());
        let from_there = self.by_key.range(first..);
        let same = from_there
            .take_while(|((other, wanted, _), _)| *other == tenant && wanted.as_deref() == queue);
        same.map(|((_, _, group), _)| group.clone()).collect()
    }

    /// Whether somebody waits for a queue, or for whatever a discovery finds.
    pub(super) fn wait_for(&self, tenant: TenantId, queue: &str) -> bool {
        let waits = |queue| !self.groups_of(tenant, queue).is_empty();
        waits(Some(queue)) || waits(None)
    }

    /// Takes one whose time is over.
    pub(super) fn take_over(&mut self, now_us: i64) -> Option<Waiter> {
        let &(deadline_us, number) = self.deadlines.first()?;
        (deadline_us <= now_us).then(|| self.take(number)).flatten()
    }

    /// When the next one's time is over.
    pub(super) fn next_deadline_us(&self) -> Option<i64> {
        self.deadlines.first().map(|&(deadline_us, _)| deadline_us)
    }

    /// Takes all away.
    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        let all = std::mem::take(&mut self.all);
        *self = Waiters {
            next_number: self.next_number,
            ..Waiters::default()
        };
        all.into_values().collect()
    }
}

fn key_of(waiter: &Waiter) -> Key {
    let queue = match &waiter.pop.source {
        Source::Queue(queue) | Source::Partition { queue, .. } => Some(queue.clone()),
        Source::Discovery { .. } => None,
    };
    (waiter.tenant, queue, waiter.pop.group.clone())
}
