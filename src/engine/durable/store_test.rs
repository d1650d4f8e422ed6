//! The simplest database of durable queues, for tests: everything in maps, every rule checked in the
//! plainest way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::store::Store;
use crate::model::TenantId;
use crate::postgres::SessionFault;
use crate::postgres::durable::{
    Batch, Committed, CursorRow, CursorState, DurableChanges, GroupRow, GroupStart, HashRow,
    LetterRow, Letters, LettersWanted, NewDeadLetter, NewSegment, PartitionRow, QueueLoad,
    QueueRow, Range as OffsetRange, SegmentRow,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Database {
    next_id: i64,
    queues: BTreeMap<i64, QueueRow>,
    partitions: BTreeMap<i64, (i64, PartitionRow)>,
    segments: BTreeMap<(i64, i64), NewSegment>,
    groups: BTreeMap<i64, (TenantId, Box<str>, GroupRow)>,
    cursors: BTreeMap<(i64, i64), (i64, CursorState)>,
    /// By age; the id of one is its place.
    pub(super) dead_letters: Vec<NewDeadLetter>,
    replayed: BTreeSet<i64>,
    /// Batches that were refused because something had changed.
    pub(super) stale: usize,
    /// What each write has changed.
    changes: Vec<DurableChanges>,
    /// Fails the next so many looks for changes.
    pub(super) failing_looks: usize,
    /// Fails the next so many commits, as a server does that goes away.
    pub(super) failures: usize,
}

impl Database {
    fn tail(&self, partition_id: i64) -> i64 {
        let mut segments = self
            .segments
            .range((partition_id, 0)..(partition_id + 1, 0));
        let last = segments.next_back();
        last.map_or(0, |(_, segment)| {
            segment.base_offset + i64::from(segment.count)
        })
    }

    /// What somebody else does to the stored messages.
    pub(super) fn damage(&mut self, change: impl FnMut(&mut NewSegment)) {
        self.segments.values_mut().for_each(change);
    }

    fn queue_id(&self, tenant: TenantId, name: &str) -> Option<i64> {
        let mut queues = self.queues.values();
        let found = queues.find(|row| row.tenant == tenant && &*row.name == name);
        found.map(|row| row.id)
    }

    fn row_of(&self, partition_id: i64) -> PartitionRow {
        let (_, row) = &self.partitions[&partition_id];
        let mut segments = self
            .segments
            .range((partition_id, 0)..(partition_id + 1, 0));
        let next_offset = self.tail(partition_id);
        let last = segments.clone().next_back();
        PartitionRow {
            first_offset: segments
                .next()
                .map_or(next_offset, |(_, first)| first.base_offset),
            next_offset,
            written_us: last.map_or(0, |(_, last)| last.created_us),
            ..row.clone()
        }
    }

    fn is_as_judged(&self, batch: &Batch) -> bool {
        let name_taken = |row: &QueueRow| self.queue_id(row.tenant, &row.name).is_some();
        let made = |id: i64| batch.partitions.iter().any(|partition| partition.id == id);
        let queue_there = |id: i64| {
            self.queues.contains_key(&id) || batch.queues.iter().any(|queue| queue.id == id)
        };
        let partition_taken = |partition: &crate::postgres::durable::NewPartition| {
            let mut all = self.partitions.values();
            all.any(|(queue, row)| *queue == partition.queue_id && row.name == partition.name)
        };
        let mut tails = batch.tails.iter();
        let mut cursors = batch.cursors.iter();
        !batch.queues.iter().any(name_taken)
            && !batch
                .replayed_letters
                .iter()
                .any(|id| self.replayed.contains(id))
            && !batch.partitions.iter().any(partition_taken)
            && batch
                .partitions
                .iter()
                .all(|partition| queue_there(partition.queue_id))
            && tails.all(|tail| {
                let there = self.partitions.contains_key(&tail.partition_id);
                made(tail.partition_id) || there && self.tail(tail.partition_id) == tail.next_offset
            })
            && cursors.all(|cursor| {
                let key = (cursor.group_id, cursor.partition_id);
                let version = self.cursors.get(&key).map_or(0, |(version, _)| *version);
                let there =
                    self.partitions.contains_key(&cursor.partition_id) || made(cursor.partition_id);
                there && self.groups.contains_key(&cursor.group_id) && version == cursor.version
            })
    }
}

fn away() -> SessionFault {
    SessionFault::Away {
        reason: "it went away".to_owned(),
    }
}

impl Store for Database {
    fn reserve_ids(&mut self) -> Result<Range<i64>, SessionFault> {
        let first = self.next_id + 1;
        self.next_id += 3;
        Ok(first..first + 3)
    }

    fn load_queue(&mut self, tenant: TenantId, name: &str) -> Result<QueueLoad, SessionFault> {
        let id = self.queue_id(tenant, name);
        let own = self
            .partitions
            .iter()
            .filter(|(_, (queue, _))| Some(*queue) == id);
        let partitions: Vec<PartitionRow> = own.map(|(&id, _)| self.row_of(id)).collect();
        let groups = self.groups.values();
        let own = groups.filter(|(owner, queue, _)| *owner == tenant && &**queue == name);
        let groups: Vec<GroupRow> = own.map(|(_, _, row)| row.clone()).collect();
        let cursors = self.cursors.iter().filter(|((_, partition_id), _)| {
            partitions
                .iter()
                .any(|partition| partition.id == *partition_id)
        });
        Ok(QueueLoad {
            queue: id.map(|id| self.queues[&id].clone()),
            cursors: cursors
                .map(|(&(group_id, partition_id), &(version, state))| CursorRow {
                    group_id,
                    partition_id,
                    version,
                    state,
                })
                .collect(),
            partitions,
            groups,
        })
    }

    fn register_group(
        &mut self,
        tenant: TenantId,
        queue: &str,
        group: &str,
        start: GroupStart,
    ) -> Result<(GroupRow, Vec<CursorRow>), SessionFault> {
        let load = self.load_queue(tenant, queue)?;
        if let Some(row) = load.groups.iter().find(|row| &*row.name == group) {
            let own = load
                .cursors
                .into_iter()
                .filter(|cursor| cursor.group_id == row.id);
            return Ok((row.clone(), own.collect()));
        }
        self.next_id += 1;
        let row = GroupRow {
            id: self.next_id,
            name: group.into(),
            mode: "all".into(),
            created_us: 0,
        };
        self.groups
            .insert(row.id, (tenant, queue.into(), row.clone()));
        self.changes.push(DurableChanges {
            queues: vec![(tenant, queue.into())],
            ..DurableChanges::default()
        });
        let mut cursors = Vec::new();
        for partition in &load.partitions {
            let state = CursorState {
                committed: match start {
                    GroupStart::All => continue,
                    GroupStart::New => partition.next_offset,
                    GroupStart::At(_) => unreachable!("not used in these tests"),
                },
                ..CursorState::default()
            };
            self.cursors.insert((row.id, partition.id), (1, state));
            cursors.push(CursorRow {
                group_id: row.id,
                partition_id: partition.id,
                version: 1,
                state,
            });
        }
        Ok((row, cursors))
    }

    fn commit_batch(&mut self, batch: &Batch) -> Result<Committed, SessionFault> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(away());
        }
        if !self.is_as_judged(batch) {
            self.stale += 1;
            return Ok(Committed::Stale);
        }
        for row in &batch.queues {
            self.queues.insert(row.id, row.clone());
        }
        for partition in &batch.partitions {
            let row = PartitionRow {
                id: partition.id,
                name: partition.name.clone(),
                created_us: partition.created_us,
                first_offset: 0,
                next_offset: 0,
                written_us: 0,
            };
            self.partitions
                .insert(partition.id, (partition.queue_id, row));
        }
        for segment in &batch.segments {
            assert_eq!(
                self.tail(segment.partition_id),
                segment.base_offset,
                "a gap or an overlap"
            );
            let key = (segment.partition_id, segment.base_offset);
            self.segments.insert(key, segment.clone());
        }
        for cursor in &batch.cursors {
            let key = (cursor.group_id, cursor.partition_id);
            self.cursors.insert(key, (cursor.version + 1, cursor.state));
        }
        let tails = batch.tails.iter().map(|tail| tail.partition_id);
        let cursors = batch.cursors.iter().map(|cursor| cursor.partition_id);
        let made = batch.partitions.iter();
        let queues = made.map(|made| {
            let row = &self.queues[&made.queue_id];
            (row.tenant, row.name.clone())
        });
        let changes = DurableChanges {
            queues: queues.collect(),
            partitions: tails.chain(cursors).collect(),
            number: 0,
        };
        self.changes.push(changes);
        self.dead_letters.extend(batch.dead_letters.iter().cloned());
        self.replayed.extend(&batch.replayed_letters);
        Ok(Committed::Stored)
    }

    fn read_segments(&mut self, ranges: &[OffsetRange]) -> Result<Vec<SegmentRow>, SessionFault> {
        let within = |segment: &&NewSegment| {
            ranges.iter().any(|range| {
                range.partition_id == segment.partition_id
                    && segment.base_offset < range.to
                    && segment.base_offset + i64::from(segment.count) > range.from
            })
        };
        let rows = self
            .segments
            .values()
            .filter(within)
            .map(|segment| SegmentRow {
                partition_id: segment.partition_id,
                base_offset: segment.base_offset,
                count: segment.count,
                payload: segment.payload.clone(),
            });
        Ok(rows.collect())
    }

    fn read_hashes(
        &mut self,
        partition_id: i64,
        since_us: i64,
        from: i64,
    ) -> Result<Vec<HashRow>, SessionFault> {
        let own = self.segments.values().rev();
        let own = own
            .filter(|segment| segment.partition_id == partition_id && segment.base_offset >= from);
        let young = own.filter(|segment| segment.created_us >= since_us);
        let rows = young.map(|segment| HashRow {
            partition_id,
            base_offset: segment.base_offset,
            created_us: segment.created_us,
            hashes: segment.hashes.clone(),
        });
        Ok(rows.collect())
    }

    fn refresh_partitions(
        &mut self,
        ids: &[i64],
    ) -> Result<(Vec<PartitionRow>, Vec<CursorRow>), SessionFault> {
        let there = ids.iter().filter(|id| self.partitions.contains_key(id));
        let rows = there.map(|&id| self.row_of(id)).collect();
        let cursors = self.cursors.iter().filter(|((_, id), _)| ids.contains(id));
        let cursors = cursors.map(|(&(group_id, partition_id), &(version, state))| CursorRow {
            group_id,
            partition_id,
            version,
            state,
        });
        Ok((rows, cursors.collect()))
    }

    fn durable_changes(&mut self, number: Option<i64>) -> Result<DurableChanges, SessionFault> {
        if self.failing_looks > 0 {
            self.failing_looks -= 1;
            return Err(away());
        }
        let mut changes = DurableChanges {
            number: self.changes.len() as i64,
            ..DurableChanges::default()
        };
        let since = number.map_or(self.changes.len(), |number| number as usize);
        for change in &self.changes[since..] {
            changes.queues.extend(change.queues.iter().cloned());
            changes.partitions.extend(&change.partitions);
        }
        Ok(changes)
    }

    fn save_queue(&mut self, row: &QueueRow) -> Result<bool, SessionFault> {
        let Some(stored) = self.queues.get_mut(&row.id) else {
            return Ok(false);
        };
        let was_encrypted = stored.options.may_hold_encrypted();
        *stored = row.clone();
        stored.options.was_encrypted = was_encrypted;
        Ok(true)
    }

    fn delete_queue(&mut self, tenant: TenantId, name: &str) -> Result<bool, SessionFault> {
        self.groups
            .retain(|_, (owner, queue, _)| *owner != tenant || &**queue != name);
        let groups = &self.groups;
        self.cursors
            .retain(|(group_id, _), _| groups.contains_key(group_id));
        let Some(id) = self.queue_id(tenant, name) else {
            return Ok(false);
        };
        self.queues.remove(&id);
        self.partitions.retain(|_, (queue, _)| *queue != id);
        let partitions = &self.partitions;
        self.segments
            .retain(|(partition_id, _), _| partitions.contains_key(partition_id));
        Ok(true)
    }

    fn find_home(&mut self, group_id: i64) -> Result<Option<(TenantId, Box<str>)>, SessionFault> {
        let group = self.groups.get(&group_id);
        Ok(group.map(|(tenant, queue, _)| (*tenant, queue.clone())))
    }

    fn find_leased(
        &mut self,
        tenant: TenantId,
        lease_id: uuid::Uuid,
        group_id: i64,
    ) -> Result<Vec<Box<str>>, SessionFault> {
        let group = self.groups.get(&group_id);
        let Some((_, _, one)) = group.filter(|(owner, ..)| *owner == tenant) else {
            return Ok(Vec::new());
        };
        let alike = self
            .groups
            .iter()
            .filter(|(_, (owner, _, row))| *owner == tenant && row.name == one.name);
        let holding = alike.filter(|(id, _)| {
            let mut places = self.cursors.range((**id, i64::MIN)..=(**id, i64::MAX));
            places.any(|(_, (_, state))| state.lease_id == Some(lease_id))
        });
        Ok(holding.map(|(_, (_, queue, _))| queue.clone()).collect())
    }

    fn find_partition(&mut self, id: i64) -> Result<Option<(TenantId, Box<str>)>, SessionFault> {
        let queue = self
            .partitions
            .get(&id)
            .map(|(queue, _)| &self.queues[queue]);
        Ok(queue.map(|row| (row.tenant, row.name.clone())))
    }

    fn discover_queues(
        &mut self,
        tenant: TenantId,
        namespace: Option<&str>,
        task: Option<&str>,
    ) -> Result<Vec<Box<str>>, SessionFault> {
        let own = self.queues.values().filter(|row| row.tenant == tenant);
        let meant = own.filter(|row| {
            namespace.is_none_or(|namespace| &*row.namespace == namespace)
                && task.is_none_or(|task| &*row.task == task)
        });
        Ok(meant.map(|row| row.name.clone()).collect())
    }

    fn find_letters(
        &mut self,
        tenant: TenantId,
        wanted: LettersWanted<'_>,
    ) -> Result<Letters, SessionFault> {
        let mut rows = Vec::new();
        for (place, letter) in self.dead_letters.iter().enumerate() {
            let id = place as i64;
            let owner = self.queues.get(&letter.queue_id);
            let Some(owner) = owner.filter(|owner| owner.tenant == tenant) else {
                continue;
            };
            let is_wanted = match wanted {
                LettersWanted::One(wanted) => wanted == id,
                LettersWanted::Newest(address) => {
                    address.partition_id == Some(letter.partition_id)
                        && address.transaction_id == letter.transaction_id
                }
                LettersWanted::Meant(filter) => filter
                    .queue
                    .as_ref()
                    .is_none_or(|queue| *queue == owner.name),
            };
            if is_wanted && !self.replayed.contains(&id) {
                rows.push(LetterRow {
                    id,
                    queue: owner.name.clone(),
                    partition: self.partitions[&letter.partition_id].1.name.clone(),
                    partition_id: letter.partition_id,
                    offset: letter.offset,
                    group: letter.group.clone(),
                    record: letter.record.clone(),
                });
            }
        }
        if matches!(wanted, LettersWanted::Newest(_)) {
            rows.reverse();
        }
        Ok(Letters { rows, more: false })
    }
}
