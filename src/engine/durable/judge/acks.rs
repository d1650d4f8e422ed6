//! Acks: which message is meant, and what they do to the group's place.

use std::collections::BTreeMap;

use super::{Judge, Judged};
use crate::engine::durable::image::{CursorRef, QueueSlot};
use crate::engine::durable::settle::{Fence, GivenUp, Item, Settled, settle};
use crate::engine::durable::window::hash_of;
use crate::engine::seal::Place;
use crate::model::TenantId;
use crate::model::durable::{Ack, AckOutcome, AckRefused, Record, Reply, SegmentWriter};
use crate::postgres::durable::NewDeadLetter;

/// The acks of one group in one partition, by their numbers in the request.
pub(super) type Parts<'a> = BTreeMap<(Option<i64>, &'a str), Vec<usize>>;

/// What the acks of one part come to.
pub(super) enum Judgement {
    /// There is no such place.
    NoConsumer,
    /// What they do to it.
    Settled(CursorRef, Settled),
}

impl Judge<'_> {
    pub(super) fn ack_all(&mut self, tenant: TenantId, acks: &[Ack]) -> Judged<Reply> {
        let mut outcomes: Vec<Option<AckOutcome>> = vec![None; acks.len()];
        for (_, numbers) in parts_of(acks) {
            let part: Vec<&Ack> = numbers.iter().map(|&number| &acks[number]).collect();
            let judged = self.judge_part(tenant, &part)?;
            for (place, &number) in numbers.iter().enumerate() {
                outcomes[number] = Some(outcome_of(&acks[number], &judged, place));
            }
            self.note_refusals(&judged);
            if let Judgement::Settled(cursor, settled) = judged {
                self.carry_out(cursor, settled)?;
            }
        }
        let outcomes = outcomes
            .into_iter()
            .map(|one| one.expect("each ack has its part"));
        Ok(Reply::Acked(outcomes.collect()))
    }

    fn note_refusals(&mut self, judged: &Judgement) {
        self.draft.refuses |= match judged {
            Judgement::NoConsumer => true,
            Judgement::Settled(_, settled) => {
                let mut outcomes = settled.outcomes.iter();
                outcomes.any(|outcome| outcome.refused.is_some())
            }
        };
    }

    /// Judges the acks of one group in one partition; nothing changes.
    pub(super) fn judge_part(&mut self, tenant: TenantId, acks: &[&Ack]) -> Judged<Judgement> {
        let Some(cursor) = self.place_of(tenant, acks[0])? else {
            return Ok(Judgement::NoConsumer);
        };
        let mut items = Vec::with_capacity(acks.len());
        let offsets = self.resolve(cursor, acks)?;
        for (ack, offset) in acks.iter().zip(offsets) {
            items.push(Item {
                offset,
                verdict: ack.verdict,
                lease: Fence::of(ack.lease_id.as_deref()),
                error: ack.error.as_deref(),
            });
        }
        let options = self.options(cursor.queue);
        let state = self.cursor_state(cursor);
        let settled = settle(&state, options, self.now_us, &items);
        Ok(Judgement::Settled(cursor, settled))
    }

    /// The group's place in the partition that an ack names.
    fn place_of(&mut self, tenant: TenantId, ack: &Ack) -> Judged<Option<CursorRef>> {
        let Some((queue, partition)) = self.partition_of(tenant, ack.partition_id)? else {
            return Ok(None);
        };
        let group = self.memory.queue(queue).group(&ack.group);
        Ok(group.map(|group| CursorRef {
            queue,
            group,
            partition,
        }))
    }

    /// A partition of the tenant's.
    pub(super) fn partition_of(
        &mut self,
        tenant: TenantId,
        id: Option<i64>,
    ) -> Judged<Option<(QueueSlot, usize)>> {
        let Some(id) = id else {
            return Ok(None);
        };
        let slot = match self.memory.slot_of_partition(id) {
            Some(slot) => slot,
            None => match self.store.find_partition(id)? {
                Some((owner, name)) if owner == tenant => self.queue(tenant, &name)?,
                _ => return Ok(None),
            },
        };
        if self.memory.queue(slot).tenant != tenant {
            return Ok(None);
        }
        self.memory.use_queue(slot, self.now_us);
        let partition = self.memory.queue(slot).partition_of_id(id);
        Ok(partition.map(|partition| (slot, partition)))
    }

    /// The offsets of the messages that are meant.
    fn resolve(&mut self, cursor: CursorRef, acks: &[&Ack]) -> Judged<Vec<Option<i64>>> {
        let mut offsets = self.resolve_near(cursor, acks)?;
        if !offsets.iter().all(Option::is_some) {
            self.resolve_by_all(cursor, acks, &mut offsets)?;
        }
        Ok(offsets)
    }

    /// The same for those that are remembered or taken.
    pub(super) fn resolve_near(
        &mut self,
        cursor: CursorRef,
        acks: &[&Ack],
    ) -> Judged<Vec<Option<i64>>> {
        let state = self.cursor_state(cursor);
        let mut offsets = vec![None; acks.len()];
        let queue = self.memory.queue(cursor.queue);
        if let Some(window) = &queue.partitions[cursor.partition].window {
            for (ack, offset) in acks.iter().zip(&mut offsets) {
                let hash = hash_of(ack.transaction_id.as_bytes());
                // Of two messages of one id the one that was taken is meant.
                let taken = |offset: &i64| (state.committed..state.batch_end).contains(offset);
                let found = window
                    .find(hash)
                    .find(taken)
                    .or_else(|| window.find(hash).next());
                *offset = found;
            }
        }
        if offsets.iter().all(Option::is_some) {
            return Ok(offsets);
        }
        let taken = state.committed..state.batch_end;
        let records = self.records(cursor.queue, cursor.partition, taken)?;
        fill(&mut offsets, acks, &records);
        Ok(offsets)
    }

    /// The long way: through all messages that are stored.
    fn resolve_by_all(
        &mut self,
        cursor: CursorRef,
        acks: &[&Ack],
        offsets: &mut [Option<i64>],
    ) -> Judged<()> {
        let id = self.memory.queue(cursor.queue).partitions[cursor.partition].id;
        let rows = self.store.read_hashes(id, i64::MIN, 0)?;
        for (ack, offset) in acks.iter().zip(offsets) {
            if offset.is_some() {
                continue;
            }
            let wanted = hash_of(ack.transaction_id.as_bytes()).to_le_bytes();
            let places = rows.iter().flat_map(|row| {
                let hashes = row.hashes.chunks_exact(8).enumerate();
                let same = hashes.filter(|(_, hash)| *hash == wanted);
                same.map(|(place, _)| row.base_offset + place as i64)
            });
            for candidate in places.collect::<Vec<_>>() {
                let record = self.record(cursor.queue, cursor.partition, candidate)?;
                if record.is_some_and(|record| is_of(&record, ack)) {
                    *offset = Some(candidate);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Lets a judgement come true.
    pub(super) fn carry_out(&mut self, cursor: CursorRef, settled: Settled) -> Judged<()> {
        for given_up in &settled.given_up {
            self.give_up(cursor, given_up)?;
        }
        self.move_cursor(cursor, settled.state);
        Ok(())
    }

    fn give_up(&mut self, cursor: CursorRef, given_up: &GivenUp) -> Judged<()> {
        let record = self.record(cursor.queue, cursor.partition, given_up.offset)?;
        // What retention has removed meanwhile needs no dead letter: nobody could read it.
        if let Some(record) = record {
            self.bury(cursor, given_up, &record);
        }
        Ok(())
    }

    /// A message becomes a dead letter.
    pub(super) fn bury(&mut self, cursor: CursorRef, given_up: &GivenUp, record: &Record) {
        let mut writer = SegmentWriter::default();
        let queue = self.memory.queue(cursor.queue);
        let place = Place::Stored {
            partition_id: queue.partitions[cursor.partition].id,
            offset: given_up.offset,
        };
        match self.memory.seal_of(cursor.queue) {
            // It is not encrypted yet if this very batch stores it, or an earlier one has without it.
            Some(seal) if !record.encrypted => writer.push(&seal.close(place, record.clone())),
            _ => writer.push(record),
        }
        let row = queue.row.as_ref().expect("a queue with messages is there");
        self.draft.dead_letters.push(NewDeadLetter {
            queue_id: row.id,
            partition_id: queue.partitions[cursor.partition].id,
            group: (&*queue.groups[cursor.group].name).into(),
            offset: given_up.offset,
            error: given_up.error.as_str().into(),
            retries: given_up.retries,
            failed_us: self.now_us,
            transaction_id: String::from_utf8_lossy(&record.transaction_id).into(),
            record: writer.finish(),
        });
    }
}

pub(super) fn parts_of(acks: &[Ack]) -> Parts<'_> {
    let mut parts = Parts::new();
    for (number, ack) in acks.iter().enumerate() {
        let key = (ack.partition_id, &*ack.group);
        parts.entry(key).or_default().push(number);
    }
    parts
}

fn outcome_of(ack: &Ack, judged: &Judgement, place: usize) -> AckOutcome {
    let none = AckOutcome {
        transaction_id: ack.transaction_id.clone(),
        refused: Some(AckRefused::NoConsumer),
        lease_released: false,
        dead_lettered: false,
        noop: false,
    };
    match judged {
        Judgement::NoConsumer => none,
        Judgement::Settled(_, settled) => {
            let outcome = settled.outcomes[place];
            AckOutcome {
                refused: outcome.refused,
                lease_released: settled.released && outcome.refused.is_none(),
                dead_lettered: outcome.dead_lettered,
                noop: outcome.noop,
                ..none
            }
        }
    }
}

fn fill(offsets: &mut [Option<i64>], acks: &[&Ack], records: &[(i64, Record)]) {
    for (ack, offset) in acks.iter().zip(offsets) {
        if offset.is_none() {
            let found = records.iter().find(|(_, record)| is_of(record, ack));
            *offset = found.map(|&(offset, _)| offset);
        }
    }
}

fn is_of(record: &Record, ack: &Ack) -> bool {
    record.transaction_id == ack.transaction_id.as_bytes()
}
