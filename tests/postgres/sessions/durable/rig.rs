//! A queue to work on, and the rows that tests put into it.

use std::ops;

use bytes::Bytes;
use queen::model::durable::{QueueOptions, Record, SegmentWriter};
use queen::postgres::Session;
use queen::postgres::durable::{
    Batch, Committed, CursorState, CursorWrite, GroupStart, NewDeadLetter, NewPartition,
    NewSegment, QueueRow, Range, Tail,
};
use uuid::Uuid;

use crate::sessions::server::{Database, Server};
use crate::sessions::store::TENANT;

/// When the first message of all tests was accepted; each later one of a segment a second later.
pub(crate) const START_US: i64 = 1_700_000_000_000_000;

/// The queue that tests work on.
pub(crate) const QUEUE: &str = "orders";

/// A database with a session of a broker.
pub(crate) struct Rig {
    pub(crate) database: Database,
    pub(crate) session: Session,
    ids: ops::Range<i64>,
}

impl Rig {
    pub(crate) fn empty() -> Rig {
        Rig::on(Server::shared().database())
    }

    fn on(database: Database) -> Rig {
        let mut session = database.open();
        let ids = session.reserve_ids().expect("ids");
        Rig {
            database,
            session,
            ids,
        }
    }

    /// With the queue and these partitions; their ids.
    pub(crate) fn with_partitions(count: usize) -> (Rig, Vec<i64>) {
        Rig::with_partitions_on(Server::shared().database(), count)
    }

    pub(crate) fn with_partitions_on(database: Database, count: usize) -> (Rig, Vec<i64>) {
        let mut rig = Rig::on(database);
        let mut batch = Batch::default();
        let queue_id = rig.id();
        batch.queues.push(queue(queue_id, QUEUE));
        let mut ids = Vec::new();
        for number in 0..count {
            let id = rig.id();
            ids.push(id);
            let name = format!("partition {number}");
            batch.partitions.push(partition(id, queue_id, &name));
        }
        rig.stored(&batch);
        (rig, ids)
    }

    /// An id that nothing has yet.
    pub(crate) fn id(&mut self) -> i64 {
        if self.ids.is_empty() {
            self.ids = self.session.reserve_ids().expect("ids");
        }
        self.ids.next().expect("there are some")
    }

    #[track_caller]
    pub(crate) fn stored(&mut self, batch: &Batch) {
        commits(&mut self.session, batch, Committed::Stored);
    }

    /// Appends a segment of so many messages at the right tail.
    #[track_caller]
    pub(crate) fn append(&mut self, partition_id: i64, count: usize) {
        let at = self.tail_of(partition_id);
        self.stored(&append(partition_id, at, count));
    }

    #[track_caller]
    pub(crate) fn tail_of(&mut self, partition_id: i64) -> i64 {
        let (partitions, _) = self
            .session
            .refresh_partitions(&[partition_id])
            .expect("rows");
        partitions[0].next_offset
    }

    /// Registers a group of the queue; its id and the queue's.
    #[track_caller]
    pub(crate) fn register(&mut self, name: &str) -> (i64, i64) {
        let registered = self
            .session
            .register_group(TENANT, QUEUE, name, GroupStart::All);
        let load = self.session.load_queue(TENANT, QUEUE).expect("a queue");
        let queue = load.queue.expect("it is there");
        (registered.expect("a group").0.id, queue.id)
    }

    /// How many rows there are in all tables of the durable class.
    pub(crate) fn counts(&self) -> String {
        self.database.value(
            "SELECT concat_ws(' ', (SELECT count(*) FROM queen.durable_queue),
               (SELECT count(*) FROM queen.durable_partition),
               (SELECT count(*) FROM queen.durable_segment),
               (SELECT count(*) FROM queen.durable_cursor),
               (SELECT sum(version) FROM queen.durable_cursor),
               (SELECT count(*) FROM queen.dead_letter))",
        )
    }

    /// The offsets of the segments that hold messages of a run.
    #[track_caller]
    pub(crate) fn bases(&mut self, partition_id: i64, run: ops::Range<i64>) -> Vec<i64> {
        let asked = Range {
            partition_id,
            from: run.start,
            to: run.end,
        };
        let rows = self.session.read_segments(&[asked]).expect("segments");
        rows.iter().map(|row| row.base_offset).collect()
    }
}

/// Lets a session store a batch, and says what must become of it.
#[track_caller]
pub(crate) fn commits(session: &mut Session, batch: &Batch, expected: Committed) {
    assert_eq!(session.commit_batch(batch), Ok(expected));
}

pub(crate) fn queue(id: i64, name: &str) -> QueueRow {
    QueueRow {
        id,
        tenant: TENANT,
        name: name.into(),
        namespace: "".into(),
        task: "".into(),
        options: QueueOptions::default(),
        created_us: START_US,
    }
}

pub(crate) fn partition(id: i64, queue_id: i64, name: &str) -> NewPartition {
    NewPartition {
        id,
        queue_id,
        name: name.into(),
        created_us: START_US,
    }
}

pub(crate) fn tail(partition_id: i64, next_offset: i64) -> Tail {
    Tail {
        partition_id,
        next_offset,
    }
}

/// The message at an offset: accepted so many seconds after the start.
pub(crate) fn record(offset: i64) -> Record {
    Record {
        message_id: Uuid::from_u128(offset.cast_unsigned().into()),
        transaction_id: Bytes::from(format!("transaction {offset}")),
        created_us: START_US + offset * 1_000_000,
        trace_id: None,
        producer: None,
        encrypted: false,
        payload: Bytes::from_static(b"{}"),
    }
}

/// A segment of so many messages.
pub(crate) fn segment(partition_id: i64, base_offset: i64, count: usize) -> NewSegment {
    let mut writer = SegmentWriter::default();
    let mut hashes = Vec::new();
    let mut created_us = 0;
    for offset in (base_offset..).take(count) {
        let record = record(offset);
        created_us = record.created_us;
        hashes.extend_from_slice(&offset.to_le_bytes());
        writer.push(&record);
    }
    NewSegment {
        partition_id,
        base_offset,
        count: i32::try_from(count).expect("a few"),
        created_us,
        hashes: hashes.into(),
        payload: writer.finish(),
    }
}

/// A batch that appends one segment.
pub(crate) fn append(partition_id: i64, at: i64, count: usize) -> Batch {
    Batch {
        tails: vec![tail(partition_id, at)],
        segments: vec![segment(partition_id, at, count)],
        ..Batch::default()
    }
}

/// A cursor that moves.
pub(crate) fn moved(group_id: i64, partition_id: i64, version: i64, to: i64) -> CursorWrite {
    CursorWrite {
        group_id,
        partition_id,
        version,
        state: CursorState {
            committed: to,
            batch_end: to,
            settled_count: to,
            ..CursorState::default()
        },
    }
}

/// A batch that moves cursors only.
pub(crate) fn moves(cursors: &[CursorWrite]) -> Batch {
    Batch {
        cursors: cursors.to_vec(),
        ..Batch::default()
    }
}

pub(crate) fn dead_letter(queue_id: i64, partition_id: i64, offset: i64) -> NewDeadLetter {
    NewDeadLetter {
        queue_id,
        partition_id,
        group: "workers".into(),
        offset,
        error: "it failed".into(),
        retries: 3,
        failed_us: START_US,
        transaction_id: format!("transaction {offset}").into(),
        record: segment(partition_id, offset, 1).payload,
    }
}
