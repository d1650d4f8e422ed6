//! What other brokers have changed.

use std::time::Duration;

use uuid::Uuid;

use super::BATCH_LOCK;
use crate::limits::SESSION_STATEMENT_MS;
use crate::model::TenantId;
use crate::postgres::patience::Patience;
use crate::postgres::{Session, SessionFault};

/// What other brokers have changed since a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurableChanges {
    /// To be named in the next question.
    pub number: i64,
    /// Queues of which anything may have changed.
    pub queues: Vec<(TenantId, Box<str>)>,
    /// Partitions that have grown or in which a group has moved.
    pub partitions: Vec<i64>,
}

impl Session {
    /// What others have changed since `number`; without one only the number of now, from which on nothing
    /// is missed by a broker that has signed.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn durable_changes(&mut self, number: Option<i64>) -> Result<DurableChanges, SessionFault> {
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let statements = &statements.durable;
            let mut changes = DurableChanges::default();
            let Some(number) = number else {
                // A batch that began before this broker had signed notes nothing for it: let it end.
                line.client
                    .execute(&statements.lock, &[&BATCH_LOCK])
                    .await?;
                let row = line.client.query_one(&statements.last_change, &[]).await?;
                changes.number = row.try_get("number")?;
                return Ok(changes);
            };
            changes.number = number;
            for row in line.client.query(&statements.changes, &[&number]).await? {
                changes.number = row.try_get("number")?;
                let tenant: Option<Uuid> = row.try_get("tenant")?;
                let queue: Option<Box<str>> = row.try_get("queue")?;
                let queue = tenant.zip(queue);
                let queue =
                    queue.map(|(tenant, queue)| (TenantId::from_u128(tenant.as_u128()), queue));
                changes.queues.extend(queue);
                let partitions: Option<Vec<i64>> = row.try_get("partition_ids")?;
                changes.partitions.extend(partitions.into_iter().flatten());
            }
            changes.queues.sort();
            changes.queues.dedup();
            changes.partitions.sort_unstable();
            changes.partitions.dedup();
            Ok(changes)
        })
    }

    /// The number of the first entry of a spool that is not stored; the spool is noted if it is new.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn spool_position(&mut self, identity: Uuid) -> Result<u64, SessionFault> {
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            let statement = &statements.durable.spool_position;
            let row = client.query_one(statement, &[&identity]).await?;
            let stored: i64 = row.try_get("stored")?;
            Ok(u64::try_from(stored).unwrap_or(0))
        })
    }

    /// Forgets changes of long ago.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn forget_changes(&mut self) -> Result<(), SessionFault> {
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            client
                .execute(&statements.durable.forget_changes, &[])
                .await?;
            Ok(())
        })
    }
}
