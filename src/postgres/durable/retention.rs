//! What goes with age, in bounded steps; how far it has come is the caller's to keep.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::Mark;
use crate::limits::{
    EXPIRED_STEP_BYTES, RETENTION_STEP_PARTITIONS, RETENTION_STEP_ROWS_MAX, SESSION_STATEMENT_MS,
};
use crate::model::TenantId;
use crate::postgres::patience::Patience;
use crate::postgres::{Session, SessionFault};

/// How far a round over all partitions has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    queue_id: i64,
    partition: String,
}

/// A partition that begins later now, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The partition.
    pub partition_id: i64,
    /// The oldest offset that may be there; `None`: the partition is gone.
    pub first_offset: Option<i64>,
}

/// What one step has removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainStep {
    /// Segments.
    pub rows: i32,
    /// Where.
    pub partitions: Vec<Removed>,
    /// Whether all partitions were looked at.
    pub is_over: bool,
}

/// Messages that are too old for a group which has not passed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Whose queue.
    pub tenant: TenantId,
    /// The queue.
    pub queue: Box<str>,
    /// The group.
    pub group_id: i64,
    /// The partition.
    pub partition_id: i64,
    /// The offset behind the last one of them, as far as one step goes.
    pub offset: i64,
}

/// What one step has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredStep {
    /// What is to be given up.
    pub expired: Vec<Expired>,
    /// Whether all partitions were looked at.
    pub is_over: bool,
}

impl Session {
    /// Goes one step further round the partitions and removes what is old enough, at most `rows_max`
    /// segments, without the lock of the batches.
    ///
    /// # Errors
    /// `Write`: nothing was removed. `Away`: it is not known.
    pub fn retain(&mut self, round: &mut Round, rows_max: i32) -> Result<RetainStep, SessionFault> {
        assert!(
            (1..=RETENTION_STEP_ROWS_MAX).contains(&rows_max),
            "a step is bounded"
        );
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        let place = round.clone();
        let done = self.write(timeout, async |client, statements| {
            let statement = &statements.durable.retain;
            let row = client
                .query_one(
                    statement,
                    &[
                        &place.queue_id,
                        &place.partition,
                        &rows_max,
                        &RETENTION_STEP_PARTITIONS,
                    ],
                )
                .await?;
            let ids: Vec<i64> = row.try_get("partition_ids")?;
            let firsts: Vec<i64> = row.try_get("first_offsets")?;
            let partitions = ids.into_iter().zip(firsts);
            let step = RetainStep {
                rows: row.try_get("removed")?,
                partitions: partitions
                    .map(|(partition_id, first_offset)| Removed {
                        partition_id,
                        first_offset: Some(first_offset),
                    })
                    .collect(),
                is_over: row.try_get("is_over")?,
            };
            Ok((step, round_of(&row)?))
        });
        self.note_removed(done.as_ref().map(|(step, _)| &*step.partitions));
        let (step, place) = done?;
        assert!(step.rows <= rows_max, "a step removed {} rows", step.rows);
        *round = place;
        Ok(step)
    }

    /// Goes one step further round the partitions and removes those that are empty and were not used for
    /// a time, at most `rows_max` rows and at least one partition; which, and whether the round is over.
    ///
    /// # Errors
    /// `Write`: nothing was removed. `Away`: it is not known.
    pub fn remove_idle(
        &mut self,
        round: &mut Round,
        idle: Duration,
        rows_max: i32,
    ) -> Result<(Vec<Removed>, bool), SessionFault> {
        let idle_us = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        let from = round.clone();
        let done = self.write(timeout, async |client, statements| {
            let values: [&(dyn ToSql + Sync); 5] = [
                &from.queue_id,
                &from.partition,
                &idle_us,
                &rows_max,
                &RETENTION_STEP_PARTITIONS,
            ];
            let row = client
                .query_one(&statements.durable.remove_idle, &values)
                .await?;
            let gone: Vec<i64> = row.try_get("removed")?;
            let gone = gone.into_iter().map(|partition_id| Removed {
                partition_id,
                first_offset: None,
            });
            let done: (Vec<Removed>, bool) = (gone.collect(), row.try_get("is_over")?);
            Ok((done, round_of(&row)?))
        });
        self.note_removed(done.as_ref().map(|((gone, _), _)| &**gone));
        let (done, place) = done?;
        *round = place;
        Ok(done)
    }

    /// Notes what a step has removed, which is known only behind it: whoever takes what is noted does it on
    /// the same thread.
    fn note_removed(&self, removed: Result<&[Removed], &SessionFault>) {
        let partitions = removed.unwrap_or_default().iter();
        let partitions = partitions.map(|one| Mark::Partition(one.partition_id));
        let ticket = self.marks.begin(partitions);
        let is_known = matches!(removed, Ok(_) | Err(SessionFault::Write { .. }));
        self.marks.end(ticket, is_known);
    }

    /// Goes one step further round the partitions and finds what is to be given up.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn find_expired(
        &mut self,
        round: &mut Round,
        rows_max: i32,
    ) -> Result<ExpiredStep, SessionFault> {
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        let place = round.clone();
        let (step, place) = self.run(&patience, &mut || true, async |line, statements| {
            let statement = &statements.durable.expired;
            let row = line
                .client
                .query_one(
                    statement,
                    &[
                        &place.queue_id,
                        &place.partition,
                        &rows_max,
                        &EXPIRED_STEP_BYTES,
                        &RETENTION_STEP_PARTITIONS,
                    ],
                )
                .await?;
            let step = ExpiredStep {
                expired: expired_of(&row)?,
                is_over: row.try_get("is_over")?,
            };
            Ok((step, round_of(&row)?))
        })?;
        *round = place;
        Ok(step)
    }
}

fn round_of(row: &Row) -> Result<Round, Error> {
    Ok(Round {
        queue_id: row.try_get("at_queue")?,
        partition: row.try_get("at_partition")?,
    })
}

fn expired_of(row: &Row) -> Result<Vec<Expired>, Error> {
    let tenants: Vec<Uuid> = row.try_get("tenants")?;
    let queues: Vec<Box<str>> = row.try_get("queues")?;
    let group_ids: Vec<i64> = row.try_get("group_ids")?;
    let partition_ids: Vec<i64> = row.try_get("partition_ids")?;
    let offsets: Vec<i64> = row.try_get("offsets")?;
    if queues.len() != group_ids.len() {
        // One of the queues was deleted meanwhile: the next round finds what is left.
        return Ok(Vec::new());
    }
    let owners = tenants.iter().zip(queues);
    let places = group_ids.into_iter().zip(partition_ids).zip(offsets);
    let expired = owners.zip(places);
    let expired = expired.map(
        |((tenant, queue), ((group_id, partition_id), offset))| Expired {
            tenant: TenantId::from_u128(tenant.as_u128()),
            queue,
            group_id,
            partition_id,
            offset,
        },
    );
    Ok(expired.collect())
}
