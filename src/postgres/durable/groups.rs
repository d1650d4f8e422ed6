//! Registers groups.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Client, Error};

use super::load::{cursor_of, group_of};
use super::{BATCH_LOCK, CursorRow, GroupRow, GroupStart, Mark, Statements, uuid_of};
use crate::limits::SESSION_QUEUE_MS;
use crate::model::TenantId;
use crate::postgres::{Session, SessionFault};

impl Session {
    /// Registers a group of a queue, which need not be there, and puts it in its place in each partition
    /// that is. One that is registered already is left as it is. What is stored of it is the answer.
    ///
    /// Bound: [`SESSION_QUEUE_MS`].
    ///
    /// # Errors
    /// `Write`: nothing was stored. `Away`: it is not known; it may be registered again.
    pub fn register_group(
        &mut self,
        tenant: TenantId,
        queue: &str,
        group: &str,
        start: GroupStart,
    ) -> Result<(GroupRow, Vec<CursorRow>), SessionFault> {
        let timeout = Duration::from_millis(SESSION_QUEUE_MS);
        let noted = Arc::clone(&self.marks);
        let change = || {
            self.write(timeout, async |client, statements| {
                let statements = &statements.durable;
                client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
                let owner = uuid_of(tenant);
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                    [&owner, &queue, &group];
                let found = client.query_opt(&statements.find_group, &values).await?;
                let group = match found {
                    Some(row) => group_of(&row)?,
                    None => {
                        let made = New {
                            tenant,
                            queue,
                            group,
                            start,
                        };
                        made.store(client, statements).await?
                    }
                };
                let asked = &statements.cursors_of_group;
                let rows = client.query(asked, &[&group.id]).await?;
                let cursors = rows.iter().map(cursor_of);
                Ok((group, cursors.collect::<Result<_, Error>>()?))
            })
        };
        noted.noting([Mark::queue(tenant, queue)], change)
    }
}

/// A group that is new to its queue.
struct New<'a> {
    tenant: TenantId,
    queue: &'a str,
    group: &'a str,
    start: GroupStart,
}

impl New<'_> {
    async fn store(&self, client: &Client, statements: &Statements) -> Result<GroupRow, Error> {
        let owner = uuid_of(self.tenant);
        let (mode, from_us) = match self.start {
            GroupStart::All => ("all", None),
            GroupStart::New => ("new", None),
            GroupStart::At(from_us) => ("from", Some(from_us)),
        };
        let inserted = client
            .query_one(
                &statements.insert_group,
                &[&owner, &self.queue, &self.group, &mode, &from_us],
            )
            .await?;
        let group = group_of(&inserted)?;
        // Who starts at the oldest message stands there without a row.
        if self.start != GroupStart::All {
            client
                .execute(
                    &statements.place_group,
                    &[&group.id, &owner, &self.queue, &from_us],
                )
                .await?;
        }
        Ok(group)
    }
}
