//! What a broker takes into its memory: ids, the time, whole queues, and parts of them anew.

use std::ops;

use tokio_postgres::{Client, Error, IsolationLevel, Row, Transaction};

use super::{
    CursorRow, CursorState, GroupRow, PartitionRow, QueueLoad, QueueRow, Statements, uuid_of,
};
use crate::limits::{DURABLE_IDS_STEP, SESSION_LOAD_STALL_MS, SESSION_STATEMENT_MS};
use crate::model::TenantId;
use crate::postgres::changes::Reading;
use crate::postgres::patience::Patience;
use crate::postgres::{Session, SessionFault};

/// A queue whose options are still text.
type Found = (QueueRow, String);

impl Session {
    /// Ids for queues and partitions that nobody else has or will have.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn reserve_ids(&mut self) -> Result<ops::Range<i64>, SessionFault> {
        let first = self.number(|statements| &statements.reserve_ids)?;
        Ok(first..first + DURABLE_IDS_STEP)
    }

    /// The time of the database's clock, in microseconds since 1970.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn database_time_us(&mut self) -> Result<i64, SessionFault> {
        self.number(|statements| &statements.database_time)
    }

    fn number(
        &mut self,
        choose: impl FnOnce(&Statements) -> &tokio_postgres::Statement,
    ) -> Result<i64, SessionFault> {
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let row = line.client.query_one(choose(&statements.durable), &[]);
            row.await?.try_get(0)
        })
    }

    /// Everything of a queue that is needed to judge requests on it, of one moment.
    ///
    /// Bound: [`SESSION_LOAD_STALL_MS`] without a further row.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn load_queue(&mut self, tenant: TenantId, name: &str) -> Result<QueueLoad, SessionFault> {
        let patience = Patience::of_ms(SESSION_LOAD_STALL_MS);
        let (found, mut load) = self.run(&patience, &mut || true, async |line, statements| {
            let snapshot = snapshot(&mut line.client).await?;
            let reading = Reading::new(&snapshot, &patience);
            let loaded = load(&reading, &statements.durable, (tenant, name)).await?;
            snapshot.commit().await?;
            Ok(loaded)
        })?;
        load.queue = found.map(read_options).transpose()?;
        Ok(load)
    }

    /// Partitions and all cursors in them, of one moment. What is not among the rows is gone.
    ///
    /// Bound: [`SESSION_LOAD_STALL_MS`] without a further row.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn refresh_partitions(
        &mut self,
        ids: &[i64],
    ) -> Result<(Vec<PartitionRow>, Vec<CursorRow>), SessionFault> {
        let patience = Patience::of_ms(SESSION_LOAD_STALL_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let snapshot = snapshot(&mut line.client).await?;
            let reading = Reading::new(&snapshot, &patience);
            let statements = &statements.durable;
            let (mut partitions, mut cursors) = (Vec::new(), Vec::new());
            let asked = &statements.partitions;
            reading
                .read_all(asked, &[&ids], &mut partitions, partition_of)
                .await?;
            let asked = &statements.cursors_of_partitions;
            reading
                .read_all(asked, &[&ids], &mut cursors, cursor_of)
                .await?;
            snapshot.commit().await?;
            Ok((partitions, cursors))
        })
    }
}

async fn snapshot(client: &mut Client) -> Result<Transaction<'_>, Error> {
    client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await
}

async fn load(
    reading: &Reading<'_>,
    statements: &Statements,
    (tenant, name): (TenantId, &str),
) -> Result<(Option<Found>, QueueLoad), Error> {
    let owner = uuid_of(tenant);
    let mut queues = Vec::new();
    let read = |row: &Row| queue_of(row, tenant, name);
    let asked = &statements.find_queue;
    reading
        .read_all(asked, &[&owner, &name], &mut queues, read)
        .await?;
    let found: Option<Found> = queues.pop();
    let mut load = QueueLoad {
        queue: None,
        partitions: Vec::new(),
        groups: Vec::new(),
        cursors: Vec::new(),
    };
    if let Some((queue, _)) = &found {
        let asked = &statements.partitions_of_queue;
        let rows = &mut load.partitions;
        reading
            .read_all(asked, &[&queue.id], rows, partition_of)
            .await?;
    }
    let asked = &statements.groups_of_queue;
    reading
        .read_all(asked, &[&owner, &name], &mut load.groups, group_of)
        .await?;
    let asked = &statements.cursors_of_queue;
    reading
        .read_all(asked, &[&owner, &name], &mut load.cursors, cursor_of)
        .await?;
    Ok((found, load))
}

fn queue_of(row: &Row, tenant: TenantId, name: &str) -> Result<Found, Error> {
    let queue = QueueRow {
        id: row.try_get("id")?,
        tenant,
        name: name.into(),
        namespace: row.try_get("namespace")?,
        task: row.try_get("task")?,
        options: Default::default(),
        created_us: row.try_get("created_us")?,
    };
    Ok((queue, row.try_get("options")?))
}

/// Options that somebody has spoiled by hand are told, not guessed.
fn read_options((queue, text): Found) -> Result<QueueRow, SessionFault> {
    match serde_json::from_str(&text) {
        Ok(options) => Ok(QueueRow { options, ..queue }),
        Err(fault) => Err(SessionFault::Write {
            reason: format!("the stored options of queue {}: {fault}", queue.name),
            heals: false,
        }),
    }
}

fn partition_of(row: &Row) -> Result<PartitionRow, Error> {
    Ok(PartitionRow {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        created_us: row.try_get("created_us")?,
        first_offset: row.try_get("first_offset")?,
        next_offset: row.try_get("next_offset")?,
        written_us: row.try_get("written_us")?,
    })
}

pub(super) fn group_of(row: &Row) -> Result<GroupRow, Error> {
    Ok(GroupRow {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        mode: row.try_get("mode")?,
        created_us: row.try_get("created_us")?,
    })
}

pub(super) fn cursor_of(row: &Row) -> Result<CursorRow, Error> {
    Ok(CursorRow {
        group_id: row.try_get("group_id")?,
        partition_id: row.try_get("partition_id")?,
        version: row.try_get("version")?,
        state: CursorState {
            committed: row.try_get("committed")?,
            batch_end: row.try_get("batch_end")?,
            lease_id: row.try_get("lease_id")?,
            lease_until_us: row.try_get("lease_until_us")?,
            retries: row.try_get("retries")?,
            attempts: row.try_get("attempts")?,
            held_until_us: row.try_get("held_until_us")?,
            settled_us: row.try_get("settled_us")?,
            settled_count: row.try_get("settled_count")?,
        },
    })
}
