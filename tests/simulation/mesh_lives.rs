//! The lives of the queues of a run over several cores, as their cells show them.

use std::collections::BTreeMap;
use std::sync::Arc;

use queen::directory::{Directory, QueueCell};
use queen::model::{DropCounts, TenantId};

use crate::mesh_ledger::GROUPS;
use crate::model::ensure;

/// A queue's name.
pub(crate) type Name = (TenantId, &'static str);

/// One life of a queue.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) cell: Arc<QueueCell>,
    pub(crate) born_step: u64,
    pub(crate) died_step: Option<u64>,
    /// Messages it held when it ended.
    pub(crate) lost: u64,
    /// The step at which each group was registered.
    registered: [Option<u64>; GROUPS.len()],
    groups: u32,
    length: u64,
}

/// What is known of one name.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) lives: Vec<Life>,
    /// Messages that were told to be dropped by resets.
    pub(crate) reset: u64,
    /// Whether it was reset at all.
    pub(crate) resets: bool,
    /// Whether it was deleted at all.
    pub(crate) deletes: bool,
    /// Whether it may have dropped the oldest.
    pub(crate) evicts: bool,
    /// Messages that were stored and deleted at once.
    pub(crate) unseen: u64,
    /// The largest `maxLength` that may be in force.
    pub(crate) length_max: u64,
    /// The shortest lease that may be in force, in milliseconds.
    pub(crate) lease_ms: u64,
    /// Whether messages may have had a TTL.
    pub(crate) expires: bool,
}

/// All names of a run.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    pub(crate) names: BTreeMap<Name, Named>,
    /// Messages that all cores had stored when they were looked at last.
    stored: u64,
    /// A name that is being deleted.
    pub(crate) deleting: Option<Name>,
}

impl Life {
    /// Whether the group was known at `step`.
    pub(crate) fn knew(&self, group: usize, step: u64) -> bool {
        self.registered[group].is_some_and(|at| at <= step)
    }
}

impl Named {
    /// The life that is not over.
    pub(crate) fn current(&self) -> Option<&Life> {
        self.lives.last().filter(|life| life.died_step.is_none())
    }

    pub(crate) fn drops(&self) -> DropCounts {
        let mut sum = DropCounts::default();
        for drops in self.lives.iter().map(|life| life.cell.drops()) {
            sum.bounds += drops.bounds;
            sum.ttl += drops.ttl;
            sum.retry += drops.retry;
        }
        sum
    }

    /// Whether a life of it is over.
    pub(crate) fn ended(&self) -> bool {
        self.lives.iter().any(|life| life.died_step.is_some())
    }

    pub(crate) fn lost(&self) -> u64 {
        self.unseen + self.lives.iter().map(|life| life.lost).sum::<u64>()
    }
}

impl Lives {
    /// Looks at all queues after something was done, with the number of messages stored so far;
    /// bounds hold at any moment.
    pub(crate) fn watch(
        &mut self,
        directory: &Directory,
        (step, stored): (u64, u64),
    ) -> Result<(), String> {
        let stored_since = stored - std::mem::replace(&mut self.stored, stored);
        if let Some(named) = self
            .deleting
            .take()
            .and_then(|name| self.names.get_mut(&name))
        {
            // What was held may have been stored in a life that nobody saw before its end.
            named.unseen += stored_since;
        }
        for ((tenant, name), named) in &mut self.names {
            let cell = directory.peek(*tenant, name);
            let known = named
                .lives
                .last_mut()
                .filter(|life| life.died_step.is_none());
            if let Some(life) = known
                && cell
                    .as_ref()
                    .is_none_or(|cell| !Arc::ptr_eq(cell, &life.cell))
            {
                ensure!(life.cell.is_dead(), "{name} vanished alive");
                life.died_step = Some(step);
                life.lost = life.length;
            }
            let Some(cell) = cell else {
                continue;
            };
            ensure!(!cell.is_dead(), "{name} is dead and in the directory");
            if named.current().is_none() {
                named.lives.push(Life {
                    cell: Arc::clone(&cell),
                    born_step: step,
                    died_step: None,
                    lost: 0,
                    registered: Default::default(),
                    groups: 0,
                    length: 0,
                });
            }
            let life = named.lives.last_mut().expect("just added");
            life.length = cell.length();
            ensure!(
                life.length <= named.length_max,
                "{name} holds {} messages of {}",
                life.length,
                named.length_max
            );
            if cell.group_version() > life.groups {
                for group in cell.groups_since(life.groups) {
                    let at = GROUPS.iter().position(|known| *known == &**group.name());
                    let at = at.ok_or_else(|| format!("a group of nobody: {group:?}"))?;
                    ensure!(life.registered[at].is_none(), "{group:?} twice");
                    life.registered[at] = Some(step);
                }
                life.groups = cell.group_version();
            }
        }
        let bytes = directory.broker().used();
        ensure!(
            bytes <= directory.bounds().broker_bytes,
            "the broker holds {bytes} bytes"
        );
        Ok(())
    }
}
