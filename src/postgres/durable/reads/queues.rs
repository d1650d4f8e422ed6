//! Queues and partitions, and what is left to do in them.

use tokio_postgres::{Error, Row};

use super::{ReadSession, unreadable, uuid_of};
use crate::model::TenantId;
use crate::model::durable::read::{
    Counts, Lags, Page, PartitionRow, PartitionSummary, QueueFace, QueueFilter, QueueSummary,
};
use crate::postgres::SessionFault;

/// Which queues are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueQuery<'a> {
    /// Only this one.
    pub name: Option<&'a str>,
    /// Only these.
    pub filter: Option<&'a QueueFilter>,
    /// As this group sees them; `None`: as the slowest does.
    pub group: Option<&'a str>,
    /// How many; `None`: all.
    pub page: Option<&'a Page>,
    /// Whether to look how old what waits is, which is a further look into each partition.
    pub with_ages: bool,
}

/// The part of a query that is a page, as a statement takes it.
pub(super) struct PageValues<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) task: Option<&'a str>,
    pub(super) after: Option<&'a str>,
    pub(super) limit: Option<i64>,
    pub(super) offset: i64,
}

impl<'a> QueueQuery<'a> {
    pub(super) fn page_values(&self) -> PageValues<'a> {
        let (filter, page) = (self.filter, self.page);
        PageValues {
            namespace: filter.and_then(|filter| filter.namespace.as_deref()),
            task: filter.and_then(|filter| filter.task.as_deref()),
            after: page.and_then(|page| page.after.as_deref()),
            limit: page.map(|page| i64::from(page.limit)),
            offset: page.map_or(0, |page| i64::from(page.offset)),
        }
    }
}

/// Queues, each in sums.
#[derive(Debug, Default)]
pub struct QueueSums {
    /// By name.
    pub rows: Vec<QueueSummary>,
    /// Of each: partitions with pending messages, and those of them of which nothing is leased.
    pub pending_partitions: Vec<(i64, i64)>,
    /// The database's time, in microseconds since 1970; `None`: there are no rows.
    pub now_us: Option<i64>,
}

impl ReadSession {
    /// Queues of a tenant, each in sums.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn queues(
        &mut self,
        tenant: TenantId,
        query: QueueQuery<'_>,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<QueueSums, SessionFault> {
        let owner = uuid_of(tenant);
        let page = query.page_values();
        let rows = self.ask(
            include_str!("../../sql/durable/reads/queues.sql"),
            &[
                &owner,
                &query.name,
                &page.namespace,
                &page.task,
                &query.group,
                &page.after,
                &page.limit,
                &page.offset,
                &query.with_ages,
            ],
            waiting,
        )?;
        let mut sums = QueueSums::default();
        for row in &rows {
            sums.rows.push(summary_of(row)?);
            let pending = pending_partitions_of(row).map_err(unreadable)?;
            sums.pending_partitions.push(pending);
            sums.now_us = Some(row.try_get("now_us").map_err(unreadable)?);
        }
        Ok(sums)
    }

    /// Partitions of a queue by name, as a group sees them or the slowest one does.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn partitions(
        &mut self,
        tenant: TenantId,
        queue: &QueueFace,
        (group, page): (Option<&str>, &Page),
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<PartitionSummary>, SessionFault> {
        let owner = uuid_of(tenant);
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let after = page.after.as_deref();
        let rows = self.ask(
            include_str!("../../sql/durable/reads/partitions.sql"),
            &[
                &owner,
                &&*queue.name,
                &group,
                &queue.id,
                &after,
                &limit,
                &offset,
            ],
            waiting,
        )?;
        let partitions: Result<_, Error> = rows.iter().map(partition_of).collect();
        partitions.map_err(unreadable)
    }

    /// The partitions in which the slowest group has most to do.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn partition_ranks(
        &mut self,
        tenant: TenantId,
        queue: Option<&str>,
        limit: u32,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<PartitionRow>, SessionFault> {
        let (owner, limit) = (uuid_of(tenant), i64::from(limit));
        let rows = self.ask(
            include_str!("../../sql/durable/reads/ranks.sql"),
            &[&owner, &queue, &limit],
            waiting,
        )?;
        let ranks: Result<_, Error> = rows.iter().map(rank_of).collect();
        ranks.map_err(unreadable)
    }
}

fn summary_of(row: &Row) -> Result<QueueSummary, SessionFault> {
    let face = face_of(row)?;
    let numbers = |row: &Row| {
        Ok(QueueSummary {
            face,
            partitions: row.try_get("partitions")?,
            counts: counts_of(row)?,
            segments: row.try_get("segments")?,
            bytes: row.try_get("bytes")?,
            leases: row.try_get("leases")?,
            lags: Lags {
                partitions: row.try_get("partitions_pending")?,
                time_us: (
                    row.try_get("lag_sum_us")?,
                    row.try_get("lag_min_us")?,
                    row.try_get("lag_max_us")?,
                ),
                messages: (row.try_get("pending_min")?, row.try_get("pending_max")?),
            },
        })
    };
    numbers(row).map_err(unreadable)
}

fn pending_partitions_of(row: &Row) -> Result<(i64, i64), Error> {
    let pending = row.try_get("partitions_pending")?;
    Ok((pending, row.try_get("partitions_ready")?))
}

/// A queue's own columns. Options that somebody has spoiled by hand are told, not guessed.
pub(super) fn face_of(row: &Row) -> Result<QueueFace, SessionFault> {
    let columns = |row: &Row| -> Result<(QueueFace, String), Error> {
        let face = QueueFace {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            namespace: row.try_get("namespace")?,
            task: row.try_get("task")?,
            options: Default::default(),
            created_us: row.try_get("created_us")?,
        };
        Ok((face, row.try_get("options")?))
    };
    let (face, text) = columns(row).map_err(unreadable)?;
    match serde_json::from_str(&text) {
        Ok(options) => Ok(QueueFace { options, ..face }),
        Err(fault) => Err(SessionFault::Write {
            reason: format!("the stored options of queue {}: {fault}", face.name),
            heals: false,
        }),
    }
}

fn counts_of(row: &Row) -> Result<Counts, Error> {
    Ok(Counts {
        stored: row.try_get("stored")?,
        pending: row.try_get("pending")?,
        processing: row.try_get("processing")?,
        failed: row.try_get("failed")?,
        dead_letters: row.try_get("dead_letters")?,
    })
}

fn partition_of(row: &Row) -> Result<PartitionSummary, Error> {
    let first_bytes: Option<&[u8]> = row.try_get("first_bytes")?;
    let oldest_us = first_bytes.and_then(|bytes| bytes.try_into().ok());
    Ok(PartitionSummary {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        created_us: row.try_get("created_us")?,
        counts: counts_of(row)?,
        oldest_us: oldest_us.map(i64::from_le_bytes),
        newest_us: row.try_get("newest_us")?,
    })
}

fn rank_of(row: &Row) -> Result<PartitionRow, Error> {
    Ok(PartitionRow {
        queue: row.try_get("queue")?,
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        pending: row.try_get("pending")?,
        processing: row.try_get("processing")?,
        lag_us: row.try_get("lag_us")?,
    })
}
