//! Groups: forgotten, put back to their start, moved.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use crate::limits::{SESSION_QUEUE_MS, SESSION_STATEMENT_MS};
use crate::model::TenantId;
use crate::model::durable::{DeleteGroup, Seek, SeekTo, Subscribe};
use crate::postgres::durable::{BATCH_LOCK, Mark, Statements, uuid_of};
use crate::postgres::{Session, SessionFault};

/// Groups of one name, of one queue or of several, that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupsChanged {
    /// Their queues.
    pub queues: Vec<Box<str>>,
    /// Places that they had.
    pub cursors: u64,
}

/// What goes into the question for groups of a name.
type Named<'a> = [&'a (dyn ToSql + Sync); 3];

impl Session {
    /// Forgets groups of a name, or puts them back to where they started.
    ///
    /// Bound: [`SESSION_QUEUE_MS`].
    ///
    /// # Errors
    /// `Write`: nothing has changed. `Away`: it is not known; it may be done again.
    pub fn delete_group(
        &mut self,
        tenant: TenantId,
        asked: &DeleteGroup,
    ) -> Result<GroupsChanged, SessionFault> {
        let owner = uuid_of(tenant);
        let timeout = Duration::from_millis(SESSION_QUEUE_MS);
        let noted = Arc::clone(&self.marks);
        let change = || {
            self.write(timeout, async |client, statements| {
                let statements = &statements.durable;
                client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
                let statement = match asked.registration {
                    true => &statements.admin.delete_groups_named,
                    false => &statements.admin.reset_groups_named,
                };
                let named: Named<'_> = [&owner, &asked.group, &asked.queue];
                let rows = client.query(statement, &named).await?;
                let mut changed = GroupsChanged::default();
                for row in &rows {
                    changed.queues.push(row.try_get("queue")?);
                    changed.cursors += count(row, "cursors")?;
                }
                if !asked.registration {
                    // A registration that goes is noted by itself.
                    for queue in &changed.queues {
                        let note = &statements.note_queue;
                        client.execute(note, &[&owner, queue]).await?;
                    }
                }
                Ok(changed)
            })
        };
        noted.noting(
            [asked
                .queue
                .as_deref()
                .map_or(Mark::All, |queue| Mark::queue(tenant, queue))],
            change,
        )
    }

    /// Moves a group in a queue or in one partition of it, and registers it if it is new; in how many
    /// partitions. In none: there is no such queue or partition, and nothing has changed.
    ///
    /// Bound: [`SESSION_QUEUE_MS`].
    ///
    /// # Errors
    /// As [`Session::delete_group`].
    pub fn seek_group(&mut self, tenant: TenantId, asked: &Seek) -> Result<u64, SessionFault> {
        let owner = uuid_of(tenant);
        let timeout = Duration::from_millis(SESSION_QUEUE_MS);
        let noted = Arc::clone(&self.marks);
        let change = || {
            self.write(timeout, async |client, statements| {
                let statements = &statements.durable;
                client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
                let meant: Named<'_> = [&owner, &asked.queue, &asked.partition];
                let found = client.query_opt(&statements.admin.partitions_meant, &meant);
                let Some(found) = found.await? else {
                    return Ok(0);
                };
                if count(&found, "partitions")? == 0 {
                    return Ok(0);
                }
                let queue: i64 = found.try_get("id")?;
                let group = group_id(client, statements, (tenant, asked)).await?;
                let (time_us, offset) = match &asked.to {
                    SeekTo::End => (None, None),
                    SeekTo::Time(time) => (Some(time.time_us), None),
                    SeekTo::Offset(offset) => (None, Some(*offset)),
                };
                let moved = client
                    .execute(
                        &statements.admin.seek,
                        &[&group, &queue, &asked.partition, &time_us, &offset],
                    )
                    .await?;
                client
                    .execute(&statements.note_queue, &[&owner, &asked.queue])
                    .await?;
                Ok(moved)
            })
        };
        noted.noting([Mark::queue(tenant, &asked.queue)], change)
    }

    /// Notes from when on the groups of a name count; how many there are. No place moves.
    ///
    /// # Errors
    /// As [`Session::delete_group`].
    pub fn set_group_start(
        &mut self,
        tenant: TenantId,
        asked: &Subscribe,
    ) -> Result<u64, SessionFault> {
        let owner = uuid_of(tenant);
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            let statements = &statements.durable;
            client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
            let values: Named<'_> = [&owner, &asked.group, &asked.from.time_us];
            client
                .execute(&statements.admin.set_group_start, &values)
                .await
        })
    }
}

/// The group of a queue; registered, if it is new, as one that starts where it is put.
async fn group_id(
    client: &Client,
    statements: &Statements,
    (tenant, asked): (TenantId, &Seek),
) -> Result<i64, Error> {
    let owner = uuid_of(tenant);
    let named: Named<'_> = [&owner, &asked.queue, &asked.group];
    if let Some(row) = client.query_opt(&statements.find_group, &named).await? {
        return row.try_get("id");
    }
    let (mode, from_us) = match &asked.to {
        SeekTo::End => ("new", None),
        SeekTo::Time(time) => ("from", Some(time.time_us)),
        SeekTo::Offset(_) => ("all", None),
    };
    let values: [&(dyn ToSql + Sync); 5] = [&owner, &asked.queue, &asked.group, &mode, &from_us];
    let made = client.query_one(&statements.insert_group, &values).await?;
    made.try_get("id")
}

/// A number that is never negative.
pub(super) fn count(row: &Row, name: &str) -> Result<u64, Error> {
    let count: i64 = row.try_get(name)?;
    Ok(u64::try_from(count).unwrap_or(0))
}
