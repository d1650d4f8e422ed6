//! Queues that are configured and deleted, one by one and not in batches.

use std::time::Instant;

use super::state::Memory;
use super::store::Store;
use super::{Answered, judge};
use crate::limits::DURABLE_TRIES_MAX;
use crate::model::durable::{Configure, Configured, OptionChange, QueueOptions, Reply};
use crate::model::{Refusal, TenantId};
use crate::postgres::SessionFault;
use crate::postgres::durable::{Batch, Committed, QueueRow};

/// Declares a queue or changes its options.
pub(super) fn configure_queue(
    memory: &mut Memory,
    store: &mut dyn Store,
    tenant: TenantId,
    configure: &Configure,
) -> Result<Answered, SessionFault> {
    for _ in 0..DURABLE_TRIES_MAX {
        let load = store.load_queue(tenant, &configure.queue)?;
        let now_us = memory.time_us(Instant::now());
        let is_new = load.queue.is_none();
        let row = match load.queue {
            Some(row) => row,
            None => QueueRow {
                options: QueueOptions::default(),
                ..judge::new_queue(memory.next_id(store)?, tenant, &configure.queue, now_us)
            },
        };
        let row = configured(row, configure);
        let stored = if is_new {
            let batch = Batch {
                queues: vec![row.clone()],
                ..Batch::default()
            };
            store.commit_batch(&batch)? == Committed::Stored
        } else {
            store.save_queue(&row)?
        };
        if !stored {
            continue;
        }
        memory.changed(tenant, &configure.queue);
        let unencrypted = row.options.encryption && !memory.rules.seal.has_key();
        if unencrypted {
            tracing::warn!(
                queue = &*row.name,
                "the queue has encryptionEnabled and the broker has no QUEEN_ENCRYPTION_KEY: its \
                 messages are stored as plain text"
            );
        }
        return Ok(Ok(Reply::Configured(Box::new(Configured {
            queue_id: row.id,
            queue: row.name,
            namespace: row.namespace,
            task: row.task,
            options: row.options,
            unencrypted,
        }))));
    }
    let text = "other brokers change the same queue; try again in a moment";
    Ok(Err(Refusal::Overloaded { text }))
}

/// A queue as a configure leaves it.
fn configured(row: QueueRow, configure: &Configure) -> QueueRow {
    let changes = &configure.changes;
    let (namespace, task) = judge::parts_of(&row.name);
    let text = |change: &OptionChange<Box<str>>, stored: &str, default: &str| -> Box<str> {
        match change {
            OptionChange::Keep if !configure.replace => stored.into(),
            OptionChange::Keep | OptionChange::Reset => default.into(),
            OptionChange::Set(value) => value.clone(),
        }
    };
    let base = if configure.replace {
        &QueueOptions::default()
    } else {
        &row.options
    };
    QueueRow {
        namespace: text(&changes.namespace, &row.namespace, namespace),
        task: text(&changes.task, &row.task, task),
        options: changes.applied_to(base),
        ..row
    }
}

/// Removes a queue with everything of it. Who waits for it waits on: it may come back.
pub(super) fn delete_queue(
    memory: &mut Memory,
    store: &mut dyn Store,
    tenant: TenantId,
    queue: &str,
) -> Result<Answered, SessionFault> {
    let existed = store.delete_queue(tenant, queue)?;
    memory.changed(tenant, queue);
    Ok(Ok(Reply::Deleted { existed }))
}
