//! Judges requests one after another on what is remembered, and drafts what comes of them. Nothing that
//! is judged here holds before the draft is stored; what is remembered runs ahead until then.

mod acks;
mod ages;
mod gathering;
mod opening;
mod pops;
mod pushes;
mod replays;
mod steps;
mod traces;

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::answers::end_of;
use super::draft::{Answer, Draft};
use super::image::{CursorRef, Partition, QueueSlot};
use super::state::Memory;
use super::store::Store;
use super::waiters::Waiter;
use crate::model::durable::{Command, QueueOptions, Record, is_whole, records};
use crate::model::{ClientRef, TenantId};
use crate::postgres::SessionFault;
use crate::postgres::durable::{CursorState, PartitionRow, QueueRow, Range, SegmentRow};

/// One batch being judged.
pub(super) struct Judge<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) store: &'a mut dyn Store,
    pub(super) draft: Draft,
    /// The database's time of this batch.
    pub(super) now_us: i64,
}

type Judged<T> = Result<T, SessionFault>;

/// What is there of a range of messages.
#[derive(Default)]
struct Found {
    /// The messages, with their offsets.
    records: Vec<(i64, Record)>,
    /// The first offset at which the database holds something else than what was stored there.
    damaged: Option<i64>,
}

impl Judge<'_> {
    /// Judges one request. Configure and delete are not judged: they are carried out one by one.
    pub(super) fn serve(
        &mut self,
        client: ClientRef,
        tenant: TenantId,
        command: &Command,
    ) -> Judged<()> {
        match command {
            Command::Push(items) => {
                let answer = self.push_all(tenant, items)?;
                self.draft.answers.push((client, answer));
            }
            Command::Pop(pop) => self.pop((client, tenant), Arc::new(pop.clone()))?,
            Command::Ack(acks) => {
                let reply = self.ack_all(tenant, acks)?;
                self.draft.answers.push((client, Answer::Reply(reply)));
            }
            Command::Extend(extend) => {
                let reply = self.extend(tenant, extend)?;
                self.draft.answers.push((client, Answer::Reply(reply)));
            }
            Command::Step(step) => {
                let answer = self.step(tenant, step)?;
                self.draft.answers.push((client, answer));
            }
            Command::Release { lease_id } => self.release(tenant, *lease_id)?,
            Command::Abandon { client } => {
                self.memory.waiters.take_client(*client);
            }
            Command::Administer(administer) => {
                let answer = self.administer(tenant, administer)?;
                self.draft.answers.push((client, answer));
            }
            Command::Configure(_) | Command::Delete { .. } => {
                unreachable!("carried out one by one")
            }
        }
        Ok(())
    }

    /// Gives whoever waits what has become ready, and ends the waits that are over.
    pub(super) fn wake(&mut self) -> Judged<()> {
        if std::mem::take(&mut self.memory.look_at_all) {
            self.draft.looked_at_all = true;
            for key in self.memory.waiters.keys() {
                self.wake_key(&key)?;
            }
        }
        while let Some(gathered) = self.memory.waiters.take_gathered(self.now_us) {
            self.memory.changed.insert(gathered);
        }
        for (tenant, name) in self.memory.changed.clone() {
            let slot = self.queue(tenant, &name)?;
            self.draft.stirred.insert(slot);
        }
        let due = self.memory.take_due(self.now_us);
        self.draft.stirred.extend(due);
        while let Some(slot) = self.draft.stirred.pop_first() {
            self.draft.looked_at.insert(slot);
            self.wake_for(slot)?;
        }
        while let Some(waiter) = self.memory.waiters.take_over(self.now_us) {
            self.answer_empty(waiter);
        }
        Ok(())
    }

    /// The queue's image, read where it is not known.
    fn queue(&mut self, tenant: TenantId, name: &str) -> Judged<QueueSlot> {
        let slot = match self.memory.slot(tenant, name) {
            Some(slot) => slot,
            None => {
                let load = self.store.load_queue(tenant, name)?;
                self.memory.load(tenant, name, load)
            }
        };
        self.memory.use_queue(slot, self.now_us);
        Ok(slot)
    }

    fn options(&self, slot: QueueSlot) -> &QueueOptions {
        self.memory.queue(slot).options()
    }

    /// Makes the queue if there is none.
    fn make_queue(&mut self, slot: QueueSlot) -> Judged<i64> {
        if let Some(row) = &self.memory.queue(slot).row {
            return Ok(row.id);
        }
        let id = self.memory.next_id(self.store)?;
        let queue = self.memory.queue_mut(slot);
        queue.row = Some(new_queue(id, queue.tenant, &queue.name, self.now_us));
        self.draft.queues.push(slot);
        self.register_discoverers(slot)?;
        Ok(id)
    }

    /// The partition, made if there is none.
    fn make_partition(&mut self, slot: QueueSlot, name: &str) -> Judged<usize> {
        self.make_queue(slot)?;
        if let Some(partition) = self.memory.queue(slot).partition(name) {
            return Ok(partition);
        }
        let id = self.memory.next_id(self.store)?;
        let row = PartitionRow {
            id,
            name: name.into(),
            created_us: self.now_us,
            first_offset: 0,
            next_offset: 0,
            written_us: 0,
        };
        let queue = self.memory.queue_mut(slot);
        let partition = queue.add_partition(Partition::of(&row));
        self.memory.note_partition(id, slot);
        self.draft.partitions.push((slot, partition, self.now_us));
        Ok(partition)
    }

    /// One message, wherever it is.
    fn record(&mut self, slot: QueueSlot, partition: usize, offset: i64) -> Judged<Option<Record>> {
        let found = self.records(slot, partition, offset..offset + 1)?;
        Ok(found.into_iter().next().map(|(_, record)| record))
    }

    /// The messages of a range that are there, with their offsets.
    fn records(
        &mut self,
        slot: QueueSlot,
        partition: usize,
        range: std::ops::Range<i64>,
    ) -> Judged<Vec<(i64, Record)>> {
        Ok(self.find(slot, partition, range)?.records)
    }

    /// What is there of a range.
    fn find(
        &mut self,
        slot: QueueSlot,
        partition: usize,
        range: std::ops::Range<i64>,
    ) -> Judged<Found> {
        let mut found = Found::default();
        let kept = &self.memory.queue(slot).partitions[partition];
        let stored_end = match self.draft.appends.get(&(slot, partition)) {
            Some(append) => append.base_offset,
            None => kept.next_offset,
        };
        let end = range.end.min(stored_end);
        if range.start < end {
            match kept.tail.pieces(range.start, end) {
                Some(pieces) => {
                    for piece in pieces {
                        cut(
                            &piece.segment,
                            piece.base_offset,
                            piece.from..piece.to,
                            &mut found.records,
                        );
                    }
                }
                None => {
                    let asked = Range {
                        partition_id: kept.id,
                        from: range.start,
                        to: end,
                    };
                    let rows = self.store.read_segments(&[asked])?;
                    found.damaged = first_damaged(&rows, range.start..end);
                    for row in rows.iter().filter(|row| is_whole(&row.payload, row.count)) {
                        let range = range.start..end;
                        cut(&row.payload, row.base_offset, range, &mut found.records);
                    }
                }
            }
        }
        for offset in range.start.max(stored_end)..range.end {
            if let Some(record) = self.draft.record(slot, partition, offset) {
                found.records.push((offset, record));
            }
        }
        Ok(found)
    }

    /// The group has a new place.
    fn move_cursor(&mut self, cursor: CursorRef, state: CursorState) {
        let before = self.cursor_state(cursor);
        if before == state {
            return;
        }
        self.memory
            .change_lease(cursor, before.lease_id, state.lease_id);
        let queue = self.memory.queue_mut(cursor.queue);
        queue.set_cursor(cursor.group, cursor.partition, state);
        if state.lease_id.is_none() && queue.has_more(cursor.group, cursor.partition) {
            queue.groups[cursor.group].put_in_turn(cursor.partition);
            self.draft.stirred.insert(cursor.queue);
        }
        self.draft.cursors.entry(cursor).or_insert(before);
    }

    fn cursor_state(&self, cursor: CursorRef) -> CursorState {
        let queue = self.memory.queue(cursor.queue);
        queue.cursor(cursor.group, cursor.partition).state
    }

    fn answer_empty(&mut self, waiter: Waiter) {
        let popped = super::draft::Popped {
            queue: None,
            group: (&*waiter.pop.group).into(),
            lease_id: None,
            claims: Vec::new(),
            refusals: 0,
            unopened: None,
            waiter: None,
        };
        let client = waiter.client;
        let answer = Answer::Popped(super::draft::Popped {
            // It waits on where nothing comes of this.
            waiter: Some(waiter),
            ..popped
        });
        self.draft.answers.push((client, answer));
    }
}

/// A queue that comes to be by use.
pub(super) fn new_queue(id: i64, tenant: TenantId, name: &str, created_us: i64) -> QueueRow {
    let (namespace, task) = parts_of(name);
    QueueRow {
        id,
        tenant,
        name: name.into(),
        namespace: namespace.into(),
        task: task.into(),
        options: QueueOptions::implicit(),
        created_us,
    }
}

/// Namespace and task as a name with dots says: before the first dot, and between it and the next.
pub(super) fn parts_of(name: &str) -> (&str, &str) {
    let Some((namespace, rest)) = name.split_once('.') else {
        return ("", "");
    };
    (namespace, rest.split('.').next().unwrap_or_default())
}

/// The first offset of a range at which the rows of a partition hold no message. That its beginning is
/// missing is no damage: retention was faster.
fn first_damaged(rows: &[SegmentRow], range: std::ops::Range<i64>) -> Option<i64> {
    let mut behind = rows.first()?.base_offset;
    for row in rows {
        if row.base_offset != behind || !is_whole(&row.payload, row.count) {
            return Some(behind.max(range.start));
        }
        behind = end_of(row);
    }
    (behind < range.end).then(|| behind.max(range.start))
}

/// Appends the messages of a segment that lie in a range.
fn cut(
    segment: &Bytes,
    base_offset: i64,
    range: std::ops::Range<i64>,
    found: &mut Vec<(i64, Record)>,
) {
    let numbered = (base_offset..).zip(records(segment));
    let wanted = numbered.filter(|(offset, _)| range.contains(offset));
    found.extend(wanted);
}

/// An id of a message or a step: by time, so that an index of them grows at its end.
fn new_id() -> Uuid {
    Uuid::now_v7()
}
