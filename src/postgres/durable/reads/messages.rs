//! Where messages lie, and how they stand.

use bytes::Bytes;
use tokio_postgres::{Error, Row};

use super::queues::face_of;
use super::{ReadSession, SegmentKey, unreadable, uuid_of};
use crate::limits::MESSAGES_LOOK_MAX;
use crate::model::TenantId;
use crate::model::durable::read::{GivenUp, MessageFilter, QueueFace};
use crate::postgres::SessionFault;

/// A partition, its queue, and where the groups of the queue stand in it.
#[derive(Debug)]
pub struct MessagePartition {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: Box<str>,
    /// Its queue.
    pub queue: QueueFace,
    /// The database's time, in microseconds since 1970.
    pub now_us: i64,
    /// The groups, by name.
    pub groups: Vec<GroupState>,
}

/// Where a group stands in a partition.
#[derive(Clone, Debug)]
pub struct GroupState {
    /// Its name.
    pub name: Box<str>,
    /// The first offset that is not settled.
    pub committed: i64,
    /// Behind the last offset of the lease, or of the last one.
    pub batch_end: i64,
    /// Failures of the message at `committed`.
    pub retries: i32,
    /// When it settled something last, in microseconds since 1970; 0: never.
    pub settled_us: i64,
    /// When the lease ends, in microseconds since 1970; 0: there is none.
    pub lease_until_us: i64,
}

/// A message that was given up.
#[derive(Debug)]
pub struct GivenUpAt {
    /// The partition.
    pub partition_id: i64,
    /// Its offset.
    pub offset: i64,
    /// What is told of it.
    pub given_up: GivenUp,
}

impl ReadSession {
    /// The newest segments that may hold messages of a filter, newest first, until they hold `messages`
    /// of them; with their sizes.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn message_segments(
        &mut self,
        tenant: TenantId,
        (filter, messages): (&MessageFilter, u32),
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(SegmentKey, i64)>, SessionFault> {
        let rows = self.ask(
            include_str!("../../sql/durable/reads/message_segments.sql"),
            &[
                &uuid_of(tenant),
                &filter.queue.as_deref(),
                &filter.partition.as_deref(),
                &filter.namespace.as_deref(),
                &filter.task.as_deref(),
                &filter.from_us.unwrap_or(0),
                &filter.to_us,
                &i64::from(messages),
            ],
            waiting,
        )?;
        let key_of = |row: &Row| {
            let key = SegmentKey {
                partition_id: row.try_get("partition_id")?,
                base_offset: row.try_get("base_offset")?,
            };
            Ok((key, row.try_get("bytes")?))
        };
        let keys: Result<_, Error> = rows.iter().map(key_of).collect();
        keys.map_err(unreadable)
    }

    /// Partitions of a tenant, and where groups stand in them; one that is not there is missing.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn message_partitions(
        &mut self,
        tenant: TenantId,
        ids: &[i64],
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<MessagePartition>, SessionFault> {
        let rows = self.ask(
            include_str!("../../sql/durable/reads/message_partitions.sql"),
            &[&uuid_of(tenant), &ids],
            waiting,
        )?;
        let mut partitions: Vec<MessagePartition> = Vec::new();
        for row in &rows {
            let id: i64 = row.try_get("partition_id").map_err(unreadable)?;
            if partitions.last().is_none_or(|last| last.id != id) {
                partitions.push(MessagePartition {
                    id,
                    name: row.try_get("partition").map_err(unreadable)?,
                    queue: face_of(row)?,
                    now_us: row.try_get("now_us").map_err(unreadable)?,
                    groups: Vec::new(),
                });
            }
            let group = group_of(row).map_err(unreadable)?;
            let last = partitions.last_mut().expect("one was just pushed");
            last.groups.extend(group);
        }
        Ok(partitions)
    }

    /// Messages of some partitions from an offset on that were given up, newest first.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn given_up(
        &mut self,
        ids: &[i64],
        from_offset: i64,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<GivenUpAt>, SessionFault> {
        let rows = self.ask(
            include_str!("../../sql/durable/reads/message_letters.sql"),
            &[&ids, &from_offset, &i64::from(MESSAGES_LOOK_MAX)],
            waiting,
        )?;
        let letter_of = |row: &Row| {
            Ok(GivenUpAt {
                partition_id: row.try_get("partition_id")?,
                offset: row.try_get("message_offset")?,
                given_up: given_up_of(row)?,
            })
        };
        let letters: Result<_, Error> = rows.iter().map(letter_of).collect();
        letters.map_err(unreadable)
    }

    /// The newest segments of a partition before an offset in which eight bytes stand that may be the
    /// hash of a transaction id; with all hashes of each.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn find_hash(
        &mut self,
        (partition_id, before): (i64, i64),
        hash: &[u8; 8],
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(i64, Bytes)>, SessionFault> {
        let rows = self.ask(
            include_str!("../../sql/durable/reads/find_message.sql"),
            &[&partition_id, &before, &hash.as_slice(), &HASH_ROWS],
            waiting,
        )?;
        let found_of = |row: &Row| {
            let hashes: &[u8] = row.try_get("hashes")?;
            Ok((row.try_get("base_offset")?, Bytes::copy_from_slice(hashes)))
        };
        let found: Result<_, Error> = rows.iter().map(found_of).collect();
        found.map_err(unreadable)
    }

    /// The newest dead letter of an address, with its offset and the message as a segment of one.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn dead_letter_of(
        &mut self,
        partition_id: i64,
        transaction_id: &str,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Option<(GivenUpAt, Bytes)>, SessionFault> {
        let rows = self.ask(
            include_str!("../../sql/durable/reads/dead_letter_of.sql"),
            &[&partition_id, &transaction_id],
            waiting,
        )?;
        let letter_of = |row: &Row| {
            let record: &[u8] = row.try_get("record")?;
            let letter = GivenUpAt {
                partition_id,
                offset: row.try_get("message_offset")?,
                given_up: given_up_of(row)?,
            };
            Ok((letter, Bytes::copy_from_slice(record)))
        };
        let letter = rows.first().map(letter_of).transpose();
        letter.map_err(|fault: Error| unreadable(fault))
    }
}

/// Segments that one step of a search for a hash tells of: nearly always the first has it.
const HASH_ROWS: i64 = 4;

fn group_of(row: &Row) -> Result<Option<GroupState>, Error> {
    let Some(name) = row.try_get("group_name")? else {
        return Ok(None);
    };
    Ok(Some(GroupState {
        name,
        committed: row.try_get("committed")?,
        batch_end: row.try_get("batch_end")?,
        retries: row.try_get("retries")?,
        settled_us: row.try_get("settled_us")?,
        lease_until_us: row.try_get("lease_until_us")?,
    }))
}

fn given_up_of(row: &Row) -> Result<GivenUp, Error> {
    Ok(GivenUp {
        group: row.try_get("group_name")?,
        error: row.try_get("error")?,
        retries: row.try_get("retries")?,
    })
}
