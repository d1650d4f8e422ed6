//! Reads stored messages and their transaction ids.

use bytes::Bytes;
use tokio_postgres::{Error, Row};

use super::{HashRow, Range, SegmentRow};
use crate::limits::{HASH_STEP_ROWS, SESSION_LOAD_STALL_MS};
use crate::postgres::patience::Patience;
use crate::postgres::{Session, SessionFault};

impl Session {
    /// The segments that hold messages of these runs, by partition and offset; the one that holds a
    /// run's first offset is among them. What retention has removed is missing.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn read_segments(&mut self, ranges: &[Range]) -> Result<Vec<SegmentRow>, SessionFault> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let partitions: Vec<i64> = ranges.iter().map(|range| range.partition_id).collect();
        let from: Vec<i64> = ranges.iter().map(|range| range.from).collect();
        let to: Vec<i64> = ranges.iter().map(|range| range.to).collect();
        let patience = Patience::of_ms(SESSION_LOAD_STALL_MS);
        let mut segments = self.run(&patience, &mut || true, async |line, statements| {
            let statement = &statements.durable.read_segments;
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&partitions, &from, &to];
            let rows = line.client.query(statement, &values).await?;
            let segments = rows.iter().map(segment_of);
            segments.collect::<Result<Vec<SegmentRow>, Error>>()
        })?;
        // The server gives them run by run: where the runs are in order, this only looks.
        segments.sort_by_key(|segment| (segment.partition_id, segment.base_offset));
        Ok(segments)
    }

    /// The transaction ids of a partition's segments that begin at `from` or behind it, newest first,
    /// down to the first segment whose last message was accepted before `since_us`.
    ///
    /// Bound: [`SESSION_LOAD_STALL_MS`] without a further row.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn read_hashes(
        &mut self,
        partition_id: i64,
        since_us: i64,
        from: i64,
    ) -> Result<Vec<HashRow>, SessionFault> {
        let patience = Patience::of_ms(SESSION_LOAD_STALL_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let statement = &statements.durable.read_hashes;
            let (mut hashes, mut behind) = (Vec::new(), i64::MAX);
            loop {
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                    [&partition_id, &behind, &HASH_STEP_ROWS];
                let rows = line.client.query(statement, &values).await?;
                patience.progress();
                for row in &rows {
                    let row = hash_of(row)?;
                    if row.created_us < since_us || row.base_offset < from {
                        return Ok(hashes);
                    }
                    behind = row.base_offset;
                    hashes.push(row);
                }
                if rows.len() < usize::try_from(HASH_STEP_ROWS).expect("a few") {
                    return Ok(hashes);
                }
            }
        })
    }
}

fn segment_of(row: &Row) -> Result<SegmentRow, Error> {
    Ok(SegmentRow {
        partition_id: row.try_get("partition_id")?,
        base_offset: row.try_get("base_offset")?,
        count: row.try_get("count")?,
        payload: Bytes::copy_from_slice(row.try_get("payload")?),
    })
}

fn hash_of(row: &Row) -> Result<HashRow, Error> {
    Ok(HashRow {
        partition_id: row.try_get("partition_id")?,
        base_offset: row.try_get("base_offset")?,
        created_us: row.try_get("created_us")?,
        hashes: Bytes::copy_from_slice(row.try_get("hashes")?),
    })
}
