//! What a batch of requests comes to: what is to be stored, and what everybody is answered once it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use uuid::Uuid;

use super::image::{CursorRef, QueueSlot};
use super::tail::TailSegment;
use super::waiters::Waiter;
use crate::engine::seal::{Place, Seal};
use crate::limits::{SEGMENT_BYTES, SEGMENT_MESSAGES_MAX};
use crate::model::durable::{Piece, Record, Reply, SegmentWriter};
use crate::model::{ClientRef, Refusal};
use crate::postgres::durable::{CursorState, NewDeadLetter, NewSegment, SpoolStep};

/// The outcome of a batch, as it was judged.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Queues that come to be.
    pub(super) queues: Vec<QueueSlot>,
    /// Partitions that come to be, with when.
    pub(super) partitions: Vec<(QueueSlot, usize, i64)>,
    /// What is appended, by partition.
    pub(super) appends: BTreeMap<(QueueSlot, usize), Append>,
    /// Places that change, and what they were.
    pub(super) cursors: BTreeMap<CursorRef, CursorState>,
    pub(super) dead_letters: Vec<NewDeadLetter>,
    /// The spooled pushes that it stores, if it does.
    pub(super) spooled: Option<SpoolStep>,
    /// Dead letters that are pushed once more.
    pub(super) replayed: BTreeSet<i64>,
    pub(super) answers: Vec<(ClientRef, Answer)>,
    /// Whether somebody is refused by what is remembered alone: nothing that is stored would notice if
    /// that was not so any more.
    pub(super) refuses: bool,
    /// Pops that have begun to wait: they wait no more where nothing comes of this.
    pub(super) parked: Vec<u64>,
    /// Whether all who wait were looked at.
    pub(super) looked_at_all: bool,
    /// Queues in which those who wait were looked at.
    pub(super) looked_at: BTreeSet<QueueSlot>,
    /// Queues in which something may have become ready for somebody who waits.
    pub(super) stirred: BTreeSet<QueueSlot>,
}

/// What one client is answered.
#[derive(Debug)]
pub(super) enum Answer {
    Reply(Reply),
    Refused(Refusal),
    Popped(Popped),
}

/// What a pop takes; the messages are looked up before it is stored.
#[derive(Debug)]
pub(super) struct Popped {
    pub(super) queue: Option<Arc<str>>,
    pub(super) group: Arc<str>,
    pub(super) lease_id: Option<Uuid>,
    pub(super) claims: Vec<Claim>,
    /// Partitions of which nothing could be taken where something is ready.
    pub(super) refusals: usize,
    /// Why nothing was taken where something is ready: it is answered where there is nothing else.
    pub(super) unopened: Option<Refusal>,
    /// The waiter, if it has waited: it waits on where nothing comes of this.
    pub(super) waiter: Option<Waiter>,
}

/// What is taken from one partition.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) cursor: CursorRef,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) attempt: u32,
    /// The messages; `None`: not looked up yet.
    pub(super) pieces: Option<Vec<Piece>>,
}

/// Messages that follow upon a partition's end.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) base_offset: i64,
    pub(super) records: Vec<Record>,
    pub(super) hashes: Vec<u64>,
}

impl Draft {
    /// Whether nothing is to be stored.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
            && self.partitions.is_empty()
            && self.appends.is_empty()
            && self.cursors.is_empty()
            && self.dead_letters.is_empty()
            && self.spooled.is_none()
            && self.replayed.is_empty()
    }

    /// The queues that have something new but for messages and places.
    pub(super) fn changed_queues(&self) -> BTreeSet<QueueSlot> {
        let made = self.partitions.iter().map(|&(queue, ..)| queue);
        self.queues.iter().copied().chain(made).collect()
    }

    /// The partitions in which messages or places are new.
    pub(super) fn changed_partitions(&self) -> BTreeSet<(QueueSlot, usize)> {
        let moved = self
            .cursors
            .keys()
            .map(|cursor| (cursor.queue, cursor.partition));
        self.appends.keys().copied().chain(moved).collect()
    }

    /// A message that is about to be stored.
    pub(super) fn record(&self, queue: QueueSlot, partition: usize, offset: i64) -> Option<Record> {
        let append = self.appends.get(&(queue, partition))?;
        let place = usize::try_from(offset - append.base_offset).ok()?;
        append.records.get(place).cloned()
    }
}

impl Append {
    /// Packs the messages into segments: as many in each as lie in one page of the database.
    pub(super) fn pack(
        &self,
        partition_id: i64,
        seal: Option<&Seal>,
    ) -> Vec<(NewSegment, TailSegment)> {
        let mut segments = Vec::new();
        let mut packer = Packer::new(self.base_offset);
        for (record, &hash) in self.records.iter().zip(&self.hashes) {
            let place = Place::Stored {
                partition_id,
                offset: packer.end(),
            };
            let record = match seal {
                Some(seal) => &seal.close(place, record.clone()),
                None => record,
            };
            if packer.is_full_for(record) {
                let next = Packer::new(packer.end());
                segments.push(std::mem::replace(&mut packer, next).finish(partition_id));
            }
            packer.push(record, hash);
        }
        segments.push(packer.finish(partition_id));
        segments
    }
}

struct Packer {
    base_offset: i64,
    created_us: i64,
    writer: SegmentWriter,
    hashes: BytesMut,
}

impl Packer {
    fn new(base_offset: i64) -> Packer {
        Packer {
            base_offset,
            created_us: 0,
            writer: SegmentWriter::default(),
            hashes: BytesMut::new(),
        }
    }

    fn is_full_for(&self, record: &Record) -> bool {
        let bytes = self.writer.len() + record.payload.len() + record.transaction_id.len();
        !self.writer.is_empty()
            && (bytes > SEGMENT_BYTES || self.writer.count() >= SEGMENT_MESSAGES_MAX)
    }

    fn push(&mut self, record: &Record, hash: u64) {
        self.writer.push(record);
        self.hashes.put_u64_le(hash);
        self.created_us = self.created_us.max(record.created_us);
    }

    fn end(&self) -> i64 {
        self.base_offset + i64::from(self.writer.count())
    }

    fn finish(self, partition_id: i64) -> (NewSegment, TailSegment) {
        let count = self.writer.count();
        let payload = self.writer.finish();
        let tail = TailSegment {
            base_offset: self.base_offset,
            count: i64::from(count),
            payload: payload.clone(),
        };
        let row = NewSegment {
            partition_id,
            base_offset: self.base_offset,
            count: i32::try_from(count).expect("a segment holds a few hundred"),
            created_us: self.created_us,
            hashes: self.hashes.freeze(),
            payload,
        };
        (row, tail)
    }
}
