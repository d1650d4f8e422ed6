//! Pushes: where a message goes, and whether it is there already.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashSet;

use super::{Judge, Judged};
use crate::engine::durable::draft::{Answer, Append};
use crate::engine::durable::image::QueueSlot;
use crate::engine::durable::window::hash_of;
use crate::engine::spool::Entry;
use crate::limits::SPOOL_CLOCK_US;
use crate::model::durable::{PushItem, PushOutcome, PushStatus, Record, Reply};
use crate::model::{Refusal, TenantId};

/// A message that is stored already.
pub(super) struct Known {
    pub(super) offset: i64,
    pub(super) record: Record,
}

impl Judge<'_> {
    pub(super) fn push_all(&mut self, tenant: TenantId, items: &[PushItem]) -> Judged<Answer> {
        if let Some(refusal) = self.find_full(tenant, &mut items.iter())? {
            return Ok(Answer::Refused(refusal));
        }
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            let slot = self.queue(tenant, &item.queue)?;
            outcomes.push(self.push(slot, item)?);
        }
        Ok(Answer::Reply(Reply::Pushed(outcomes)))
    }

    /// A queue whose bound (`maxSize`) some messages would exceed; repeated ones take no room.
    pub(super) fn find_full(
        &mut self,
        tenant: TenantId,
        items: &mut dyn Iterator<Item = &PushItem>,
    ) -> Judged<Option<Refusal>> {
        let mut wanted: BTreeMap<QueueSlot, i64> = BTreeMap::new();
        let mut seen = HashSet::new();
        for item in items {
            let slot = self.queue(tenant, &item.queue)?;
            let options = self.options(slot);
            let remembers = options.dedup_window_s > 0;
            if options.max_size == 0 || self.is_stored(tenant, item)? {
                continue;
            }
            let is_new = seen.insert((slot, &*item.partition, &*item.transaction_id));
            if is_new || !remembers {
                *wanted.entry(slot).or_default() += 1;
            }
        }
        let mut wanted = wanted.into_iter();
        Ok(wanted.find_map(|(slot, more)| self.refuse_full(slot, more)))
    }

    /// Whether so many more messages would exceed the queue's bound, now or ever.
    pub(super) fn refuse_full(&mut self, slot: QueueSlot, more: i64) -> Option<Refusal> {
        let limit = self.options(slot).max_size;
        if limit == 0 {
            return None;
        }
        let queue = self.memory.queue_mut(slot);
        let wanted = u64::try_from(more).unwrap_or(0);
        let bound = "maxSize";
        if wanted > limit {
            return Some(Refusal::NeverFits {
                queue: Arc::clone(&queue.name),
                bound,
                limit,
                wanted,
            });
        }
        let size = u64::try_from(queue.backlog() + more).unwrap_or(0);
        (size > limit).then(|| Refusal::QueueFull {
            queue: Arc::clone(&queue.name),
            bound,
            limit,
        })
    }

    /// Appends a message, or finds it there.
    pub(super) fn push(&mut self, slot: QueueSlot, item: &PushItem) -> Judged<PushOutcome> {
        let record = Record {
            message_id: item.message_id,
            transaction_id: Bytes::copy_from_slice(item.transaction_id.as_bytes()),
            created_us: self.now_us,
            trace_id: item.trace_id,
            producer: item
                .producer
                .as_ref()
                .map(|name| Bytes::copy_from_slice(name.as_bytes())),
            encrypted: false,
            payload: item.payload.clone(),
        };
        self.push_record(slot, &item.partition, record)
    }

    /// The same of a message that is made already. It is not older than the one before it.
    pub(super) fn push_record(
        &mut self,
        slot: QueueSlot,
        partition: &str,
        record: Record,
    ) -> Judged<PushOutcome> {
        let partition = self.make_partition(slot, partition)?;
        let hash = hash_of(&record.transaction_id);
        let transaction_id = String::from_utf8_lossy(&record.transaction_id).into_owned();
        let outcome = |queue: &Arc<str>, message_id, status| PushOutcome {
            queue: Arc::clone(queue),
            message_id,
            transaction_id: transaction_id.into(),
            status,
        };
        if let Some(known) = self.find_known(slot, partition, &record.transaction_id)? {
            let status = PushStatus::Duplicate {
                offset: known.offset,
            };
            let queue = &self.memory.queue(slot).name;
            return Ok(outcome(queue, known.record.message_id, status));
        }
        let queue = self.memory.queue_mut(slot);
        let kept = &mut queue.partitions[partition];
        let offset = kept.next_offset;
        let created_us = record.created_us.max(kept.written_us);
        let record = Record {
            created_us,
            ..record
        };
        let outcome = outcome(
            &queue.name,
            record.message_id,
            PushStatus::Queued { offset },
        );
        if let Some(window) = &mut kept.window {
            window.insert(hash, offset, created_us);
            kept.window_end = offset + 1;
        }
        kept.written_us = created_us;
        queue.appended(partition);
        let append = self.draft.appends.entry((slot, partition));
        let append = append.or_insert_with(|| Append {
            base_offset: offset,
            records: Vec::new(),
            hashes: Vec::new(),
        });
        append.records.push(record);
        append.hashes.push(hash);
        self.draft.stirred.insert(slot);
        Ok(outcome)
    }

    /// Stores what was spooled, unless it is stored already.
    pub(in crate::engine) fn restore(&mut self, entry: &Entry) -> Judged<()> {
        let slot = self.queue(entry.tenant, &entry.queue)?;
        let partition = self.make_partition(slot, &entry.partition)?;
        if entry.uncertain && self.is_stored_as(slot, partition, &entry.record)? {
            return Ok(());
        }
        self.push_record(slot, &entry.partition, entry.record.clone())?;
        Ok(())
    }

    /// Whether this very message is stored, whatever the queue's window.
    fn is_stored_as(&mut self, slot: QueueSlot, partition: usize, record: &Record) -> Judged<bool> {
        let id = self.memory.queue(slot).partitions[partition].id;
        // The machine's clock and the database's may differ.
        let since_us = record.created_us - SPOOL_CLOCK_US;
        let wanted = hash_of(&record.transaction_id).to_le_bytes();
        for row in self.store.read_hashes(id, since_us, 0)? {
            let hashes = row.hashes.chunks_exact(8).enumerate();
            let places: Vec<i64> = hashes
                .filter(|(_, hash)| *hash == wanted)
                .map(|(place, _)| row.base_offset + place as i64)
                .collect();
            for offset in places {
                let stored = self.record(slot, partition, offset)?;
                if stored.is_some_and(|stored| stored.message_id == record.message_id) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The message of a transaction id inside the queue's window.
    pub(super) fn find_known(
        &mut self,
        slot: QueueSlot,
        partition: usize,
        transaction_id: &[u8],
    ) -> Judged<Option<Known>> {
        let window_us = i64::from(self.options(slot).dedup_window_s) * 1_000_000;
        if window_us == 0 {
            // What is pushed meanwhile is not remembered: who needs it reads it.
            self.memory.queue_mut(slot).partitions[partition].window = None;
            return Ok(None);
        }
        self.load_window(slot, partition, window_us)?;
        let since_us = self.now_us - window_us;
        let kept = &mut self.memory.queue_mut(slot).partitions[partition];
        let window = kept.window.as_mut().expect("it was just loaded");
        window.forget_before(since_us);
        let hash = hash_of(transaction_id);
        let candidates: Vec<i64> = window.find(hash).collect();
        for offset in candidates {
            let record = self.record(slot, partition, offset)?;
            let same = |record: &Record| record.transaction_id == transaction_id;
            if let Some(record) = record.filter(same) {
                return Ok(Some(Known { offset, record }));
            }
        }
        Ok(None)
    }

    fn load_window(&mut self, slot: QueueSlot, partition: usize, window_us: i64) -> Judged<()> {
        let kept = &self.memory.queue(slot).partitions[partition];
        let known_end = kept.window.as_ref().map_or(0, |_| kept.window_end);
        if kept.window.is_some() && known_end == kept.next_offset {
            return Ok(());
        }
        let since_us = self.now_us - window_us;
        let rows = self.store.read_hashes(kept.id, since_us, known_end)?;
        let kept = &mut self.memory.queue_mut(slot).partitions[partition];
        let window = kept.window.get_or_insert_default();
        window.extend(&rows);
        // What is about to be stored is not there yet.
        if let Some(append) = self.draft.appends.get(&(slot, partition)) {
            let numbered = (append.base_offset..).zip(&append.hashes);
            for ((offset, &hash), record) in numbered.zip(&append.records) {
                window.insert(hash, offset, record.created_us);
            }
        }
        kept.window_end = kept.next_offset;
        self.memory.weigh((slot, partition), self.now_us);
        Ok(())
    }
}
