//! Consumer groups, and where they are behind.

use tokio_postgres::{Error, Row};

use super::{ReadSession, time_of, unreadable, uuid_of};
use crate::model::TenantId;
use crate::model::durable::read::{GroupPlace, GroupRow, GroupSummary, LagRow, Page};
use crate::postgres::SessionFault;

impl ReadSession {
    /// The groups of a tenant by queue and name, each in sums.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn groups(
        &mut self,
        tenant: TenantId,
        page: &Page,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<GroupSummary>, SessionFault> {
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let rows = self.ask(
            include_str!("../../sql/durable/reads/groups.sql"),
            &[&uuid_of(tenant), &limit, &offset],
            waiting,
        )?;
        let groups: Result<_, Error> = rows.iter().map(summary_of).collect();
        groups.map_err(unreadable)
    }

    /// Where groups have messages to take that are older than so many microseconds, oldest first.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn lagging(
        &mut self,
        tenant: TenantId,
        (min_lag_us, page): (i64, &Page),
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<LagRow>, SessionFault> {
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let rows = self.ask(
            include_str!("../../sql/durable/reads/lagging.sql"),
            &[&uuid_of(tenant), &min_lag_us, &limit, &offset],
            waiting,
        )?;
        let lags: Result<_, Error> = rows.iter().map(lag_of).collect();
        lags.map_err(unreadable)
    }

    /// The places of a group, by queue and partition.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn group_places(
        &mut self,
        tenant: TenantId,
        (group, page): (&str, &Page),
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<GroupRow>, SessionFault> {
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let rows = self.ask(
            include_str!("../../sql/durable/reads/group_places.sql"),
            &[&uuid_of(tenant), &group, &limit, &offset],
            waiting,
        )?;
        let places: Result<_, Error> = rows.iter().map(place_of).collect();
        places.map_err(unreadable)
    }
}

fn summary_of(row: &Row) -> Result<GroupSummary, Error> {
    Ok(GroupSummary {
        name: row.try_get("name")?,
        queue: row.try_get("queue")?,
        members: row.try_get("members")?,
        cursors: row.try_get("cursors")?,
        partitions_behind: row.try_get("partitions_behind")?,
        lag: row.try_get("lag")?,
        lag_us: row.try_get("lag_us")?,
        mode: row.try_get("mode")?,
        from_us: row.try_get("from_us")?,
        created_us: row.try_get("created_us")?,
    })
}

fn lag_of(row: &Row) -> Result<LagRow, Error> {
    let settled_us: Option<i64> = row.try_get("settled_us")?;
    Ok(LagRow {
        group: row.try_get("group_name")?,
        queue: row.try_get("queue")?,
        partition: row.try_get("partition")?,
        partition_id: row.try_get("partition_id")?,
        lease_id: row.try_get("lease_id")?,
        lag: row.try_get("lag")?,
        lag_us: row.try_get("lag_us")?,
        oldest_us: row.try_get("oldest_us")?,
        settled_us: settled_us.and_then(time_of),
    })
}

fn place_of(row: &Row) -> Result<GroupRow, Error> {
    let partition: Option<Box<str>> = row.try_get("partition")?;
    let place = |partition| {
        Ok(GroupPlace {
            partition,
            lease_id: row.try_get("lease_id")?,
            settled_us: time_of(row.try_get("settled_us")?),
            settled_count: row.try_get("settled_count")?,
            lag: row.try_get("lag")?,
            lag_us: row.try_get("lag_us")?,
        })
    };
    Ok(GroupRow {
        queue: row.try_get("queue")?,
        place: partition.map(place).transpose()?,
    })
}
