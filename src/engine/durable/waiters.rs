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
    /// Until when it gathers; 0: it never has.
    pub(super) gather_until_us: i64,
}

/// What a waiter waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) tenant: TenantId,
    /// `None`: a discovery.
    pub(super) queue: Option<Box<str>>,
    pub(super) group: Box<str>,
    /// `None`: any.
    pub(super) partition: Option<Box<str>>,
}

/// All pops that wait.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    all: BTreeMap<u64, Waiter>,
    by_key: BTreeMap<Key, BTreeSet<u64>>,
    by_client: HashMap<ClientRef, u64>,
    deadlines: BTreeSet<(i64, u64)>,
    /// When those that gather are looked at once more.
    gathering: BTreeSet<(i64, u64)>,
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
        if waiter.gather_until_us > 0 {
            self.gathering
                .insert((waiter.gather_until_us, waiter.number));
        }
        self.all.insert(waiter.number, waiter);
    }

    /// Takes one away.
    pub(super) fn take(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.all.remove(&number)?;
        self.by_client.remove(&waiter.client);
        self.deadlines.remove(&(waiter.deadline_us, number));
        self.gathering.remove(&(waiter.gather_until_us, number));
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

    /// The oldest of those that wait for the same and have come after the one of this number.
    pub(super) fn next_of(&self, key: &Key, after: u64) -> Option<&Waiter> {
        let number = self.by_key.get(key)?.range(after + 1..).next()?;
        self.all.get(number)
    }

    /// What is waited for in a queue, or by discoveries.
    pub(super) fn keys_of(&self, tenant: TenantId, queue: Option<&str>) -> Vec<Key> {
        let first = Key {
            tenant,
            queue: queue.map(Into::into),
            group: "".into(),
            partition: None,
        };
        let from_there = self.by_key.range(first..).map(|(key, _)| key);
        let same =
            from_there.take_while(|key| key.tenant == tenant && key.queue.as_deref() == queue);
        same.cloned().collect()
    }

    /// What is waited for at all.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.by_key.keys().cloned().collect()
    }

    /// Those who wait for whatever a discovery finds.
    pub(super) fn discoveries(&self) -> impl Iterator<Item = &Waiter> {
        let discoveries = self.by_key.iter().filter(|(key, _)| key.queue.is_none());
        let numbers = discoveries.flat_map(|(_, numbers)| numbers);
        numbers.filter_map(|number| self.all.get(number))
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether somebody waits for a queue, or for whatever a discovery finds.
    pub(super) fn wait_for(&self, tenant: TenantId, queue: &str) -> bool {
        let waits = |queue| !self.keys_of(tenant, queue).is_empty();
        waits(Some(queue)) || waits(None)
    }

    /// Takes one whose time is over.
    pub(super) fn take_over(&mut self, now_us: i64) -> Option<Waiter> {
        let &(deadline_us, number) = self.deadlines.first()?;
        (deadline_us <= now_us).then(|| self.take(number)).flatten()
    }

    /// The queue of one that has gathered for as long as it was to. It waits on.
    pub(super) fn take_gathered(&mut self, now_us: i64) -> Option<(TenantId, Box<str>)> {
        let &(until_us, number) = self.gathering.first()?;
        if until_us > now_us {
            return None;
        }
        self.gathering.pop_first();
        let waiter = self.all.get(&number).expect("who gathers waits");
        let key = key_of(waiter);
        Some((key.tenant, key.queue.expect("a discovery does not gather")))
    }

    /// When the time of the next one is over, or it has gathered.
    pub(super) fn next_deadline_us(&self) -> Option<i64> {
        let next = self.deadlines.first().into_iter();
        let next = next.chain(self.gathering.first());
        next.map(|&(time_us, _)| time_us).min()
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
    let (queue, partition) = match &waiter.pop.source {
        Source::Queue(queue) => (Some(queue), None),
        Source::Partition { queue, partition } => (Some(queue), Some(partition)),
        Source::Discovery { .. } => (None, None),
    };
    Key {
        tenant: waiter.tenant,
        queue: queue.cloned(),
        group: waiter.pop.group.clone(),
        partition: partition.cloned(),
    }
}
