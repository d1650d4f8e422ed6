//! Stored messages by their offsets, and partitions that were written to.

use bytes::Bytes;
use tokio_postgres::{Error, Row};

use super::{ReadSession, unreadable, uuid_of};
use crate::model::TenantId;
use crate::model::durable::read::{ChangedPartition, FetchEntry};
use crate::postgres::SessionFault;

/// Where a partition that was named begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct FetchPlace {
    /// Its id.
    pub partition_id: i64,
    /// The oldest offset that is kept.
    pub first_offset: i64,
    /// The offset of the next message.
    pub next_offset: i64,
}

/// A segment by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentKey {
    /// The partition.
    pub partition_id: i64,
    /// The offset of its first message.
    pub base_offset: i64,
}

/// What is to be read of a partition.
#[derive(Clone, Copy, Debug)]
pub struct SizeQuery {
    /// The partition.
    pub partition_id: i64,
    /// The first offset.
    pub first_offset: i64,
    /// Bytes; the first segment is told of, whatever it has.
    pub room: i64,
}

impl ReadSession {
    /// Where the partitions of some entries begin and end; `None`: there is no such one.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn fetch_places(
        &mut self,
        tenant: TenantId,
        entries: &[FetchEntry],
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Option<FetchPlace>>, SessionFault> {
        let queues: Vec<&str> = entries.iter().map(|entry| &*entry.queue).collect();
        let partitions: Vec<&str> = entries.iter().map(|entry| &*entry.partition).collect();
        let rows = self.ask(
            include_str!("../../sql/durable/reads/fetch_places.sql"),
            &[&uuid_of(tenant), &queues, &partitions],
            waiting,
        )?;
        let mut places = vec![None; entries.len()];
        let mut put = |row: &Row| -> Result<(), Error> {
            let first_offset: Option<i64> = row.try_get("first_offset")?;
            let next_offset: Option<i64> = row.try_get("next_offset")?;
            places[place_of(row)?] = Some(FetchPlace {
                partition_id: row.try_get("id")?,
                first_offset: first_offset.unwrap_or(0),
                next_offset: next_offset.unwrap_or(0),
            });
            Ok(())
        };
        rows.iter().try_for_each(&mut put).map_err(unreadable)?;
        Ok(places)
    }

    /// The segments behind some offsets, at most `segments_max` for each, with their sizes.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn segment_sizes(
        &mut self,
        asked: &[SizeQuery],
        segments_max: i64,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<(SegmentKey, i64)>>, SessionFault> {
        let ids: Vec<i64> = asked.iter().map(|query| query.partition_id).collect();
        let offsets: Vec<i64> = asked.iter().map(|query| query.first_offset).collect();
        let rooms: Vec<i64> = asked.iter().map(|query| query.room).collect();
        let rows = self.ask(
            include_str!("../../sql/durable/reads/fetch_sizes.sql"),
            &[&ids, &offsets, &rooms, &segments_max],
            waiting,
        )?;
        let mut sizes = vec![Vec::new(); asked.len()];
        let mut put = |row: &Row| -> Result<(), Error> {
            let place = place_of(row)?;
            let key = SegmentKey {
                partition_id: asked[place].partition_id,
                base_offset: row.try_get("base_offset")?,
            };
            sizes[place].push((key, row.try_get("bytes")?));
            Ok(())
        };
        rows.iter().try_for_each(&mut put).map_err(unreadable)?;
        Ok(sizes)
    }

    /// Segments by their keys, with how many messages each should hold; `None`: removed meanwhile.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn segments(
        &mut self,
        keys: &[SegmentKey],
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Option<(Bytes, i32)>>, SessionFault> {
        let ids: Vec<i64> = keys.iter().map(|key| key.partition_id).collect();
        let offsets: Vec<i64> = keys.iter().map(|key| key.base_offset).collect();
        let rows = self.ask(
            include_str!("../../sql/durable/reads/segments.sql"),
            &[&ids, &offsets],
            waiting,
        )?;
        let mut segments = vec![None; keys.len()];
        let mut put = |row: &Row| -> Result<(), Error> {
            let payload: &[u8] = row.try_get("payload")?;
            let segment = (Bytes::copy_from_slice(payload), row.try_get("count")?);
            segments[place_of(row)?] = Some(segment);
            Ok(())
        };
        rows.iter().try_for_each(&mut put).map_err(unreadable)?;
        Ok(segments)
    }

    /// Partitions of a queue by name behind a name, those only that were written to since; `None`: there
    /// is no such queue.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn changed_partitions(
        &mut self,
        (tenant, queue): (TenantId, &str),
        (after, since_us): (Option<&str>, Option<i64>),
        limit: u32,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<ChangedPartition>>, SessionFault> {
        let rows = self.ask(
            include_str!("../../sql/durable/reads/changed.sql"),
            &[
                &uuid_of(tenant),
                &queue,
                &after,
                &since_us,
                &i64::from(limit),
            ],
            waiting,
        )?;
        let mut partitions = Vec::with_capacity(rows.len());
        for row in &rows {
            if !row.try_get("is_known").map_err(unreadable)? {
                return Ok(None);
            }
            partitions.extend(changed_of(row).map_err(unreadable)?);
        }
        Ok(Some(partitions))
    }
}

/// The place of a row in what was asked, which the server counts from 1.
fn place_of(row: &Row) -> Result<usize, Error> {
    let place: i64 = row.try_get("place")?;
    Ok(usize::try_from(place - 1).expect("the server counts from 1"))
}

/// The only row of a queue without such partitions has none.
fn changed_of(row: &Row) -> Result<Option<ChangedPartition>, Error> {
    let Some(id) = row.try_get("id")? else {
        return Ok(None);
    };
    let first_offset: Option<i64> = row.try_get("first_offset")?;
    let next_offset: Option<i64> = row.try_get("next_offset")?;
    Ok(Some(ChangedPartition {
        name: row.try_get("name")?,
        id,
        next_offset: next_offset.unwrap_or(0),
        first_offset: first_offset.unwrap_or(0),
        written_us: row.try_get("written_us")?,
    }))
}
