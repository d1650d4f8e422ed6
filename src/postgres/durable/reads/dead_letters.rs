//! Dead letters.

use tokio_postgres::{Error, Row};

use super::{ReadSession, unreadable, uuid_of};
use crate::limits::READ_BYTES_MAX;
use crate::model::TenantId;
use crate::model::durable::read::{DeadLetter, DeadLetterFilter};
use crate::postgres::SessionFault;

impl ReadSession {
    /// Dead letters, newest first, and how many match. Of a page as many as an answer has room for.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn dead_letters(
        &mut self,
        tenant: TenantId,
        filter: &DeadLetterFilter,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<(Vec<DeadLetter>, i64), SessionFault> {
        let (limit, offset) = (i64::from(filter.limit), i64::from(filter.offset));
        let rows = self.ask(
            include_str!("../../sql/durable/reads/dead_letters.sql"),
            &[
                &uuid_of(tenant),
                &filter.queue.as_deref(),
                &filter.group.as_deref(),
                &filter.partition.as_deref(),
                &filter.from_us,
                &filter.to_us,
                &limit,
                &offset,
                &READ_BYTES_MAX.cast_signed(),
            ],
            waiting,
        )?;
        page_of(&rows).map_err(unreadable)
    }
}

/// Every row has the number of all; the only one of an empty page has nothing else.
fn page_of(rows: &[Row]) -> Result<(Vec<DeadLetter>, i64), Error> {
    let mut letters = Vec::with_capacity(rows.len());
    let mut total = 0;
    for row in rows {
        total = row.try_get("total")?;
        if let Some(id) = row.try_get("id")? {
            letters.push(letter_of(id, row)?);
        }
    }
    Ok((letters, total))
}

fn letter_of(id: i64, row: &Row) -> Result<DeadLetter, Error> {
    let record: &[u8] = row.try_get("record")?;
    Ok(DeadLetter {
        id,
        partition_id: row.try_get("partition_id")?,
        queue: row.try_get("queue")?,
        partition: row.try_get("partition")?,
        group: row.try_get("group_name")?,
        error: row.try_get("error")?,
        retries: row.try_get("retries")?,
        failed_us: row.try_get("failed_us")?,
        transaction_id: row.try_get("transaction_id")?,
        offset: row.try_get("message_offset")?,
        record: bytes::Bytes::copy_from_slice(record),
    })
}
