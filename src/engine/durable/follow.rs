//! What other brokers on the database have changed, and what is stored of it.

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
    take_over(memory, store, &changes)
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

/// Takes over what other brokers have changed.
pub(super) fn take_over(
    memory: &mut Memory,
    store: &mut dyn Store,
    changes: &DurableChanges,
) -> Result<(), SessionFault> {
    memory.take_changes(changes);
    let own: Vec<i64> = changes
        .partitions
        .iter()
        .copied()
        .filter(|id| memory.slot_of_partition(*id).is_some())
        .collect();
    if own.is_empty() {
        return Ok(());
    }
    let taken = refresh(memory, store, &own);
    if taken.is_err() {
        // It was told once and is told no more.
        memory.forget_all();
    }
    taken
}

/// Takes over what is stored of some partitions.
pub(super) fn refresh(
    memory: &mut Memory,
    store: &mut dyn Store,
    partitions: &[i64],
) -> Result<(), SessionFault> {
    let (rows, cursors) = store.refresh_partitions(partitions)?;
    memory.refresh(partitions, &rows, &cursors);
    Ok(())
}
