//! Traces that are looked up.

use bytes::Bytes;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::{ReadSession, unreadable, uuid_of};
use crate::limits::{TRACE_ROWS_MAX, TRACE_SEGMENT_BYTES};
use crate::model::TenantId;
use crate::model::durable::{
    Address, FindTraces, FoundTraces, Record, TraceNameRow, TracePage, TraceRow, records,
};
use crate::postgres::SessionFault;
use crate::postgres::durable::batch::storable;

/// A statement of `sql/durable/reads/`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../sql/durable/reads/", $name, ".sql"))
    };
}

type Waiting<'a> = &'a mut dyn FnMut() -> bool;

/// The payload of a message from a partition and offset, if it can be had.
type Reveal<'a> = &'a mut dyn FnMut((i64, i64), Record) -> Option<Bytes>;

impl ReadSession {
    /// Looks traces of a tenant up; `reveal` gives the payload of a message from its partition and offset.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn find_traces(
        &mut self,
        tenant: TenantId,
        asked: &FindTraces,
        waiting: Waiting<'_>,
        reveal: Reveal<'_>,
    ) -> Result<FoundTraces, SessionFault> {
        match asked {
            FindTraces::Names(page) => self.trace_names(tenant, *page, waiting),
            FindTraces::Name { name, page } => {
                self.traces_named(tenant, (name, *page), waiting, reveal)
            }
            FindTraces::Message(address) => self.traces_of_message(tenant, address, waiting),
        }
    }

    fn trace_names(
        &mut self,
        tenant: TenantId,
        page: TracePage,
        waiting: Waiting<'_>,
    ) -> Result<FoundTraces, SessionFault> {
        let owner = uuid_of(tenant);
        let total = self.ask(sql!("count_trace_names"), &[&owner], waiting)?;
        let (limit, offset) = bounds(page);
        let values: [&(dyn ToSql + Sync); 3] = [&owner, &limit, &offset];
        let rows = self.ask(sql!("trace_names"), &values, waiting)?;
        let rows = rows.iter().map(|row| {
            Ok(TraceNameRow {
                name: row.try_get("name")?,
                traces: count(row, "traces")?,
                messages: count(row, "messages")?,
                last_seen_us: row.try_get("last_seen_us")?,
            })
        });
        let rows = rows.collect::<Result<_, Error>>().map_err(unreadable)?;
        let total = total_of(&total)?;
        Ok(FoundTraces::Names { page, total, rows })
    }

    fn traces_named(
        &mut self,
        tenant: TenantId,
        (name, page): (&str, TracePage),
        waiting: Waiting<'_>,
        reveal: Reveal<'_>,
    ) -> Result<FoundTraces, SessionFault> {
        let owner = uuid_of(tenant);
        let total = self.ask(sql!("count_traces_named"), &[&owner, &name], waiting)?;
        let (limit, offset) = bounds(page);
        let values: [&(dyn ToSql + Sync); 5] =
            [&owner, &name, &limit, &offset, &TRACE_SEGMENT_BYTES];
        let rows = self.ask(sql!("traces_named"), &values, waiting)?;
        let rows = rows.iter().map(|row| {
            let trace = trace_of(row)?;
            Ok(TraceRow {
                payload: message_of(row, &trace)?
                    .and_then(|(offset, record)| reveal((trace.partition_id, offset), record)),
                ..trace
            })
        });
        let rows = rows.collect::<Result<_, Error>>().map_err(unreadable)?;
        let total = total_of(&total)?;
        Ok(FoundTraces::Named { page, total, rows })
    }

    fn traces_of_message(
        &mut self,
        tenant: TenantId,
        message: &Address,
        waiting: Waiting<'_>,
    ) -> Result<FoundTraces, SessionFault> {
        let Some(partition_id) = message.partition_id else {
            return Ok(FoundTraces::OfMessage(Vec::new()));
        };
        let (owner, id) = (uuid_of(tenant), storable(&message.transaction_id));
        let limit = i64::from(TRACE_ROWS_MAX);
        let values: [&(dyn ToSql + Sync); 4] = [&owner, &partition_id, &id, &limit];
        let rows = self.ask(sql!("traces_of_message"), &values, waiting)?;
        let rows = rows.iter().map(trace_of).collect::<Result<_, _>>();
        Ok(FoundTraces::OfMessage(rows.map_err(unreadable)?))
    }
}

/// Limit and offset as PostgreSQL takes them.
fn bounds(page: TracePage) -> (i64, i64) {
    let offset = i64::try_from(page.offset).unwrap_or(i64::MAX);
    (i64::from(page.limit), offset)
}

/// A number that is never negative.
fn count(row: &Row, name: &str) -> Result<u64, Error> {
    let count: i64 = row.try_get(name)?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn total_of(rows: &[Row]) -> Result<u64, SessionFault> {
    let row = rows.first().expect("a count has a row");
    count(row, "total").map_err(unreadable)
}

fn trace_of(row: &Row) -> Result<TraceRow, Error> {
    let partition: Option<Box<str>> = row.try_get("partition")?;
    Ok(TraceRow {
        id: row.try_get("id")?,
        partition_id: row.try_get("partition_id")?,
        transaction_id: row.try_get("transaction_id")?,
        queue: row.try_get("queue")?,
        partition: partition.unwrap_or_default(),
        group: row.try_get("group_name")?,
        worker: row.try_get("worker")?,
        event: row.try_get("event")?,
        data: Bytes::from(row.try_get::<_, String>("data")?),
        names: row.try_get("names")?,
        created_us: row.try_get("created_us")?,
        payload: None,
    })
}

/// The message and its offset, if what lies there is the message that was meant.
fn message_of(row: &Row, trace: &TraceRow) -> Result<Option<(i64, Record)>, Error> {
    let offset: Option<i64> = row.try_get("message_offset")?;
    let base_offset: Option<i64> = row.try_get("base_offset")?;
    let segment: Option<&[u8]> = row.try_get("payload")?;
    let (Some(offset), Some(base_offset), Some(segment)) = (offset, base_offset, segment) else {
        return Ok(None);
    };
    let segment = Bytes::copy_from_slice(segment);
    let Ok(place) = usize::try_from(offset - base_offset) else {
        return Ok(None);
    };
    let is_meant = |record: &Record| {
        let id = String::from_utf8_lossy(&record.transaction_id);
        storable(&id) == *trace.transaction_id
    };
    let record = records(&segment).nth(place).filter(is_meant);
    Ok(record.map(|record| (offset, record)))
}
