//! Whole queues: their options, their end, and how they are found.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::batch::options_text;
use super::{BATCH_LOCK, Mark, QueueRow, uuid_of};
use crate::limits::{SESSION_QUEUE_MS, SESSION_STATEMENT_MS};
use crate::model::TenantId;
use crate::postgres::patience::Patience;
use crate::postgres::{Session, SessionFault};

impl Session {
    /// Stores options, namespace and task of a queue that is there; false: it is not any more. No
    /// batch is judged on them, so they need no lock.
    ///
    /// # Errors
    /// `Write`: nothing was stored. `Away`: it is not known; it may be stored again.
    pub fn save_queue(&mut self, row: &QueueRow) -> Result<bool, SessionFault> {
        let options = options_text(row);
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            let saved = client
                .execute(
                    &statements.durable.save_queue,
                    &[&row.id, &row.namespace, &row.task, &options],
                )
                .await?;
            Ok(saved == 1)
        })
    }

    /// Deletes a queue with everything of it, and the groups of its name; false: there was none. From
    /// then on nothing of it can be found; its segments, cursors and dead letters are removed by
    /// [`Session::sweep_leftovers`], because there may be millions.
    ///
    /// Bound: [`SESSION_QUEUE_MS`].
    ///
    /// # Errors
    /// `Write`: nothing has changed. `Away`: it is not known; it may be deleted again.
    pub fn delete_queue(&mut self, tenant: TenantId, name: &str) -> Result<bool, SessionFault> {
        let owner = uuid_of(tenant);
        let timeout = Duration::from_millis(SESSION_QUEUE_MS);
        let noted = Arc::clone(&self.marks);
        let change = || {
            self.write(timeout, async |client, statements| {
                let statements = &statements.durable;
                client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
                let deleted = &statements.delete_queue;
                let deleted = client.execute(deleted, &[&owner, &name]).await?;
                client
                    .execute(&statements.delete_groups, &[&owner, &name])
                    .await?;
                Ok(deleted > 0)
            })
        };
        noted.noting([Mark::queue(tenant, name)], change)
    }

    /// Removes at most `rows_max` rows of deleted queues and groups, in one transaction; how many.
    /// Fewer than that: nothing is left that no other broker is at.
    ///
    /// # Errors
    /// As [`Session::save_queue`].
    pub fn sweep_leftovers(&mut self, rows_max: i32) -> Result<i32, SessionFault> {
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            let sweep = &statements.durable.sweep_leftovers;
            client.query_one(sweep, &[&rows_max]).await?.try_get(0)
        })
    }

    /// Whose queue a partition belongs to, and the queue's name; `None`: there is no such partition.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn find_partition(
        &mut self,
        id: i64,
    ) -> Result<Option<(TenantId, Box<str>)>, SessionFault> {
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let statement = &statements.durable.find_partition;
            let found = line.client.query_opt(statement, &[&id]).await?;
            found.map(|row| owner_of(&row)).transpose()
        })
    }

    /// Whose group it is, and the name of its queue; `None`: there is no such group.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn find_home(
        &mut self,
        group_id: i64,
    ) -> Result<Option<(TenantId, Box<str>)>, SessionFault> {
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let statement = &statements.durable.find_home;
            let found = line.client.query_opt(statement, &[&group_id]).await?;
            found.map(|row| owner_of(&row)).transpose()
        })
    }

    /// The tenant's queues in which a lease holds something, of all groups that have the name of this
    /// one; none where this one is another tenant's.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn find_leased(
        &mut self,
        tenant: TenantId,
        lease_id: Uuid,
        group_id: i64,
    ) -> Result<Vec<Box<str>>, SessionFault> {
        let owner = uuid_of(tenant);
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let statement = &statements.durable.find_leased;
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&lease_id, &group_id, &owner];
            let rows = line.client.query(statement, &values).await?;
            rows.iter().map(|row| row.try_get("name")).collect()
        })
    }

    /// The names of a tenant's queues with this namespace, this task, or both, in order; none where
    /// neither is named.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn discover_queues(
        &mut self,
        tenant: TenantId,
        namespace: Option<&str>,
        task: Option<&str>,
    ) -> Result<Vec<Box<str>>, SessionFault> {
        let owner = uuid_of(tenant);
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let statement = &statements.durable.discover_queues;
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&owner, &namespace, &task];
            let names = line.client.query(statement, &values).await?;
            let names = names.iter().map(|row| row.try_get("name"));
            names.collect::<Result<Vec<Box<str>>, Error>>()
        })
    }
}

/// The tenant and the name of a queue.
fn owner_of(row: &Row) -> Result<(TenantId, Box<str>), Error> {
    let tenant: Uuid = row.try_get("tenant")?;
    Ok((TenantId::from_u128(tenant.as_u128()), row.try_get("name")?))
}
