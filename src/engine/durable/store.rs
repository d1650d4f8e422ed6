//! What the durable class asks of its database. Behind a trait, so that the rules are tested against
//! the simplest database there is.

use std::ops::Range;

use uuid::Uuid;

use crate::model::TenantId;
use crate::postgres::durable::{
    Batch, Committed, CursorRow, DurableChanges, GroupRow, GroupStart, HashRow, Letters,
    LettersWanted, PartitionRow, QueueLoad, QueueRow, Range as OffsetRange, SegmentRow,
};
use crate::postgres::{Session, SessionFault};

/// A database of durable queues. Every call blocks.
pub(super) trait Store {
    /// Ids that nobody else uses.
    fn reserve_ids(&mut self) -> Result<Range<i64>, SessionFault>;
    /// What is needed to judge requests on a queue.
    fn load_queue(&mut self, tenant: TenantId, name: &str) -> Result<QueueLoad, SessionFault>;
    /// Notes that a group pops from a queue, there or not; what was noted before stays.
    fn register_group(
        &mut self,
        tenant: TenantId,
        queue: &str,
        group: &str,
        start: GroupStart,
    ) -> Result<(GroupRow, Vec<CursorRow>), SessionFault>;
    /// Stores a batch if everything is as it was judged on.
    fn commit_batch(&mut self, batch: &Batch) -> Result<Committed, SessionFault>;
    /// The segments that hold some offsets.
    fn read_segments(&mut self, ranges: &[OffsetRange]) -> Result<Vec<SegmentRow>, SessionFault>;
    /// The transaction ids of a partition from an offset on and not older than a time, newest first.
    fn read_hashes(
        &mut self,
        partition_id: i64,
        since_us: i64,
        from: i64,
    ) -> Result<Vec<HashRow>, SessionFault>;
    /// Partitions as they are stored, with the places of all groups in them.
    fn refresh_partitions(
        &mut self,
        ids: &[i64],
    ) -> Result<(Vec<PartitionRow>, Vec<CursorRow>), SessionFault>;
    /// What other brokers have changed since a number; without one only the number of now.
    fn durable_changes(&mut self, number: Option<i64>) -> Result<DurableChanges, SessionFault>;
    /// Changes the options of a queue; false: it is gone.
    fn save_queue(&mut self, row: &QueueRow) -> Result<bool, SessionFault>;
    /// Removes a queue with everything of it; false: there was none.
    fn delete_queue(&mut self, tenant: TenantId, name: &str) -> Result<bool, SessionFault>;
    /// Whose queue a partition belongs to.
    fn find_partition(&mut self, id: i64) -> Result<Option<(TenantId, Box<str>)>, SessionFault>;
    /// The queue of a group.
    fn find_home(&mut self, group_id: i64) -> Result<Option<(TenantId, Box<str>)>, SessionFault>;
    /// The tenant's queues in which a lease holds something, of all groups that have the name of one of
    /// the tenant's.
    fn find_leased(
        &mut self,
        tenant: TenantId,
        lease_id: Uuid,
        group_id: i64,
    ) -> Result<Vec<Box<str>>, SessionFault>;
    /// The queues of a namespace, a task, or both.
    fn discover_queues(
        &mut self,
        tenant: TenantId,
        namespace: Option<&str>,
        task: Option<&str>,
    ) -> Result<Vec<Box<str>>, SessionFault>;
    /// Dead letters that are to be pushed once more.
    fn find_letters(
        &mut self,
        tenant: TenantId,
        wanted: LettersWanted<'_>,
    ) -> Result<Letters, SessionFault>;
}

impl Store for Session {
    fn reserve_ids(&mut self) -> Result<Range<i64>, SessionFault> {
        Session::reserve_ids(self)
    }

    fn load_queue(&mut self, tenant: TenantId, name: &str) -> Result<QueueLoad, SessionFault> {
        Session::load_queue(self, tenant, name)
    }

    fn register_group(
        &mut self,
        tenant: TenantId,
        queue: &str,
        group: &str,
        start: GroupStart,
    ) -> Result<(GroupRow, Vec<CursorRow>), SessionFault> {
        Session::register_group(self, tenant, queue, group, start)
    }

    fn commit_batch(&mut self, batch: &Batch) -> Result<Committed, SessionFault> {
        Session::commit_batch(self, batch)
    }

    fn read_segments(&mut self, ranges: &[OffsetRange]) -> Result<Vec<SegmentRow>, SessionFault> {
        Session::read_segments(self, ranges)
    }

    fn read_hashes(
        &mut self,
        partition_id: i64,
        since_us: i64,
        from: i64,
    ) -> Result<Vec<HashRow>, SessionFault> {
        Session::read_hashes(self, partition_id, since_us, from)
    }

    fn refresh_partitions(
        &mut self,
        ids: &[i64],
    ) -> Result<(Vec<PartitionRow>, Vec<CursorRow>), SessionFault> {
        Session::refresh_partitions(self, ids)
    }

    fn durable_changes(&mut self, number: Option<i64>) -> Result<DurableChanges, SessionFault> {
        Session::durable_changes(self, number)
    }

    fn save_queue(&mut self, row: &QueueRow) -> Result<bool, SessionFault> {
        Session::save_queue(self, row)
    }

    fn delete_queue(&mut self, tenant: TenantId, name: &str) -> Result<bool, SessionFault> {
        Session::delete_queue(self, tenant, name)
    }

    fn find_home(&mut self, group_id: i64) -> Result<Option<(TenantId, Box<str>)>, SessionFault> {
        Session::find_home(self, group_id)
    }

    fn find_leased(
        &mut self,
        tenant: TenantId,
        lease_id: Uuid,
        group_id: i64,
    ) -> Result<Vec<Box<str>>, SessionFault> {
        Session::find_leased(self, tenant, lease_id, group_id)
    }

    fn find_partition(&mut self, id: i64) -> Result<Option<(TenantId, Box<str>)>, SessionFault> {
        Session::find_partition(self, id)
    }

    fn discover_queues(
        &mut self,
        tenant: TenantId,
        namespace: Option<&str>,
        task: Option<&str>,
    ) -> Result<Vec<Box<str>>, SessionFault> {
        Session::discover_queues(self, tenant, namespace, task)
    }

    fn find_letters(
        &mut self,
        tenant: TenantId,
        wanted: LettersWanted<'_>,
    ) -> Result<Letters, SessionFault> {
        Session::find_letters(self, tenant, wanted)
    }
}
