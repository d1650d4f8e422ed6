//! What other brokers on the database have changed, and what is stored of it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::state::Memory;
use super::store::Store;
use crate::engine::{Engine, Shards};
use crate::limits::FOLLOW_MS_MAX;
use crate::postgres::SessionFault;
use crate::postgres::durable::DurableChanges;

impl<S: Shards> Engine<S> {
    /// Takes over what other brokers have changed.
    pub(in crate::engine) fn follow_durable(&mut self) -> Result<(), SessionFault> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        follow(&mut self.durable, session, Instant::now())
    }
}

/// Takes over what other brokers have changed. Who has not looked for long may have been taken for dead,
/// so that nobody has told it anything: it remembers nothing.
pub(super) fn follow(
    memory: &mut Memory,
    store: &mut dyn Store,
    now: Instant,
) -> Result<(), SessionFault> {
    let limit = Duration::from_millis(FOLLOW_MS_MAX);
    let known = memory
        .followed
        .filter(|(_, looked)| now.duration_since(*looked) < limit);
    if known.is_none() {
        memory.forget_all();
    }
    let changes = store.durable_changes(known.map(|(number, _)| number))?;
    memory.followed = Some((changes.number, now));
    take_over(memory, store, &changes, &[])
}

/// What other brokers have changed since the last look, if anything.
pub(super) fn changes_of_others(
    memory: &mut Memory,
    store: &mut dyn Store,
) -> Result<Option<DurableChanges>, SessionFault> {
    let Some((number, _)) = memory.followed else {
        return Ok(None);
    };
    let changes = store.durable_changes(Some(number))?;
    memory.followed = Some((changes.number, Instant::now()));
    let is_empty = changes.queues.is_empty() && changes.partitions.is_empty();
    Ok((!is_empty).then_some(changes))
}

/// Takes over what other brokers have changed, and what is stored of partitions on which something was
/// judged that is not so any more.
pub(super) fn take_over(
    memory: &mut Memory,
    store: &mut dyn Store,
    changes: &DurableChanges,
    stale: &[i64],
) -> Result<(), SessionFault> {
    memory.take_changes(changes);
    let named = changes.partitions.iter().chain(stale).copied();
    let known: BTreeSet<i64> = named
        .filter(|id| memory.slot_of_partition(*id).is_some())
        .collect();
    if known.is_empty() {
        return Ok(());
    }
    let known = Vec::from_iter(known);
    match store.refresh_partitions(&known) {
        Ok((rows, cursors)) => {
            memory.refresh(&known, &rows, &cursors);
            Ok(())
        }
        Err(fault) => {
            // What others have changed is told only once: without it nothing that is remembered can be
            // trusted.
            memory.forget_all();
            Err(fault)
        }
    }
}
