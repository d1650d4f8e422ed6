//! What the engine knows of a queue: as much as it takes to judge requests without asking. A hint only:
//! whatever is judged on it is checked again by the statement that stores the outcome.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;

use super::bounds::Mark;
use super::tail::Tail;
use super::window::Window;
use crate::model::TenantId;
use crate::model::durable::{QueueOptions, Source};
use crate::postgres::durable::{
    CursorRow, CursorState, GroupRow, PartitionRow, QueueLoad, QueueRow,
};

/// A queue's image, numbered anew whenever it is loaded: what refers to an earlier one finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct QueueSlot(pub(super) u64);

/// A group's place in a partition of a queue's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CursorRef {
    pub(super) queue: QueueSlot,
    pub(super) group: usize,
    pub(super) partition: usize,
}

/// A queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) tenant: TenantId,
    pub(super) name: Arc<str>,
    /// `None`: there is none of that name, but groups have popped from it.
    pub(super) row: Option<QueueRow>,
    pub(super) partitions: Vec<Partition>,
    pub(super) groups: Vec<Group>,
    /// When it was used last.
    pub(super) used_us: i64,
    /// Messages that some group has not passed; `None`: not counted. Only asked for where they are bounded.
    backlog: Option<i64>,
    partition_names: HashMap<Arc<str>, usize>,
    partition_ids: HashMap<i64, usize>,
    group_names: HashMap<Arc<str>, usize>,
}

/// A partition.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) id: i64,
    pub(super) name: Arc<str>,
    /// The oldest offset that may be there.
    pub(super) first_offset: i64,
    /// The offset of the next message.
    pub(super) next_offset: i64,
    /// When the last message was accepted; the next one is not older.
    pub(super) written_us: i64,
    /// Transaction ids that are remembered; `None`: not loaded.
    pub(super) window: Option<Window>,
    /// The offset up to which they are: behind it another broker has stored.
    pub(super) window_end: i64,
    /// The newest messages.
    pub(super) tail: Tail,
    /// The room that the newest messages and the transaction ids take.
    pub(super) tail_mark: Mark,
    pub(super) window_mark: Mark,
}

/// A consumer group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: i64,
    pub(super) name: Arc<str>,
    /// By partition; where there is none the group is at the beginning.
    pub(super) cursors: HashMap<usize, Cursor>,
    /// Partitions that may have something for it, in turn.
    ready: VecDeque<usize>,
    is_ready: Vec<bool>,
}

/// A group's place in a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    /// The version of its row; 0: it has none.
    pub(super) version: i64,
    pub(super) state: CursorState,
    /// When it is looked at again, if it is; 0: it is not.
    pub(super) armed_us: i64,
}

impl Queue {
    pub(super) fn new(tenant: TenantId, name: &str, load: QueueLoad) -> Queue {
        let mut queue = Queue {
            tenant,
            name: name.into(),
            row: load.queue,
            partitions: Vec::with_capacity(load.partitions.len()),
            groups: Vec::new(),
            used_us: 0,
            backlog: None,
            partition_names: HashMap::new(),
            partition_ids: HashMap::new(),
            group_names: HashMap::new(),
        };
        for row in load.partitions {
            queue.add_partition(Partition::of(&row));
        }
        let group_numbers: HashMap<i64, usize> = load
            .groups
            .into_iter()
            .map(|row| (row.id, queue.add_group(&row)))
            .collect();
        for row in load.cursors {
            if let Some(&group) = group_numbers.get(&row.group_id) {
                queue.put_cursor(group, &row);
            }
        }
        (0..queue.groups.len()).for_each(|group| queue.look_for_ready(group));
        queue
    }

    pub(super) fn add_partition(&mut self, partition: Partition) -> usize {
        let number = self.partitions.len();
        self.partition_names
            .insert(Arc::clone(&partition.name), number);
        self.partition_ids.insert(partition.id, number);
        self.partitions.push(partition);
        number
    }

    pub(super) fn add_group(&mut self, row: &GroupRow) -> usize {
        let number = self.groups.len();
        self.recount();
        let name: Arc<str> = (&*row.name).into();
        self.group_names.insert(Arc::clone(&name), number);
        self.groups.push(Group {
            id: row.id,
            name,
            cursors: HashMap::new(),
            ready: VecDeque::new(),
            is_ready: Vec::new(),
        });
        number
    }

    /// Takes over a stored place; false where its partition is not known.
    pub(super) fn put_cursor(&mut self, group: usize, row: &CursorRow) -> bool {
        let Some(&partition) = self.partition_ids.get(&row.partition_id) else {
            return false;
        };
        self.recount();
        let cursor = Cursor {
            version: row.version,
            state: row.state,
            armed_us: self.cursor(group, partition).armed_us,
        };
        self.groups[group].cursors.insert(partition, cursor);
        true
    }

    /// The options in force.
    pub(super) fn options(&self) -> &QueueOptions {
        static IMPLICIT: LazyLock<QueueOptions> = LazyLock::new(QueueOptions::implicit);
        self.row.as_ref().map_or(&IMPLICIT, |row| &row.options)
    }

    /// Whether a discovery finds it.
    pub(super) fn is_found_by(&self, source: &Source) -> bool {
        let (Source::Discovery { namespace, task }, Some(row)) = (source, &self.row) else {
            return false;
        };
        let is = |wanted: &Option<Box<str>>, own: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == own)
        };
        is(namespace, &row.namespace) && is(task, &row.task)
    }

    pub(super) fn partition(&self, name: &str) -> Option<usize> {
        self.partition_names.get(name).copied()
    }

    pub(super) fn partition_of_id(&self, id: i64) -> Option<usize> {
        self.partition_ids.get(&id).copied()
    }

    pub(super) fn group(&self, name: &str) -> Option<usize> {
        self.group_names.get(name).copied()
    }

    pub(super) fn group_of_id(&self, id: i64) -> Option<usize> {
        self.groups.iter().position(|group| group.id == id)
    }

    pub(super) fn cursor(&self, group: usize, partition: usize) -> Cursor {
        let cursors = &self.groups[group].cursors;
        cursors.get(&partition).copied().unwrap_or_default()
    }

    /// Sets a place that is judged, or puts it back; its version is that of its row.
    pub(super) fn set_cursor(&mut self, group: usize, partition: usize, state: CursorState) {
        let before = self.backlog.map(|_| self.backlog_of(partition));
        let cursors = &mut self.groups[group].cursors;
        cursors.entry(partition).or_default().state = state;
        if let Some(before) = before {
            let change = self.backlog_of(partition) - before;
            self.backlog = self.backlog.map(|backlog| backlog + change);
        }
    }

    /// Messages that some group has not passed; all of them where there is no group.
    pub(super) fn backlog(&mut self) -> i64 {
        if let Some(backlog) = self.backlog {
            return backlog;
        }
        let backlog = (0..self.partitions.len())
            .map(|partition| self.backlog_of(partition))
            .sum();
        self.backlog = Some(backlog);
        backlog
    }

    fn backlog_of(&self, partition: usize) -> i64 {
        let committed = |group: usize| self.cursor(group, partition).state.committed;
        let passed = (0..self.groups.len()).map(committed).min().unwrap_or(0);
        let kept = &self.partitions[partition];
        kept.next_offset - passed.max(kept.first_offset)
    }

    /// A message is appended.
    pub(super) fn appended(&mut self, partition: usize) {
        self.partitions[partition].next_offset += 1;
        self.backlog = self.backlog.map(|backlog| backlog + 1);
        self.put_in_turn_for_all(partition);
    }

    /// What is counted has changed at once: it is counted anew.
    pub(super) fn recount(&mut self) {
        self.backlog = None;
    }

    /// Whether the group has not passed everything in the partition.
    pub(super) fn has_more(&self, group: usize, partition: usize) -> bool {
        let committed = self.cursor(group, partition).state.committed;
        self.partitions[partition].next_offset > committed
    }

    /// Puts every partition that may have something for the group in turn.
    pub(super) fn look_for_ready(&mut self, group: usize) {
        for partition in 0..self.partitions.len() {
            if self.has_more(group, partition) {
                self.groups[group].put_in_turn(partition);
            }
        }
    }

    /// A partition has something new for all groups.
    pub(super) fn put_in_turn_for_all(&mut self, partition: usize) {
        for group in &mut self.groups {
            group.put_in_turn(partition);
        }
    }
}

impl Partition {
    pub(super) fn of(row: &PartitionRow) -> Partition {
        Partition {
            id: row.id,
            name: (&*row.name).into(),
            first_offset: row.first_offset,
            next_offset: row.next_offset,
            written_us: row.written_us,
            window: (row.next_offset == 0).then(Window::default),
            window_end: row.next_offset,
            tail: Tail::default(),
            tail_mark: Mark::default(),
            window_mark: Mark::default(),
        }
    }

    /// What was appended at or behind an offset was not stored after all.
    pub(super) fn roll_back(&mut self, offset: i64) {
        self.next_offset = offset;
        if let Some(window) = &mut self.window {
            window.forget_from(offset);
        }
        self.window_end = self.window_end.min(offset);
        self.tail.forget_from(offset);
    }

    /// Takes over what is stored. What is remembered stays: a partition only grows at its end.
    pub(super) fn refresh(&mut self, row: &PartitionRow) {
        self.first_offset = row.first_offset;
        self.next_offset = row.next_offset;
        self.written_us = row.written_us;
    }
}

impl Group {
    /// The partition is to be looked at, in its turn.
    pub(super) fn put_in_turn(&mut self, partition: usize) {
        if self.is_ready.len() <= partition {
            self.is_ready.resize(partition + 1, false);
        }
        if !std::mem::replace(&mut self.is_ready[partition], true) {
            self.ready.push_back(partition);
        }
    }

    /// The next partition to look at.
    pub(super) fn next_in_turn(&mut self) -> Option<usize> {
        let partition = self.ready.pop_front()?;
        self.is_ready[partition] = false;
        Some(partition)
    }

    /// The partitions to look at, in their turn.
    pub(super) fn turns(&self) -> impl Iterator<Item = usize> {
        self.ready.iter().copied()
    }

    /// How many are in turn.
    pub(super) fn in_turn(&self) -> usize {
        self.ready.len()
    }
}

impl Cursor {
    /// Whether somebody holds what follows.
    pub(super) fn is_leased(&self, now_us: i64) -> bool {
        self.state.lease_id.is_some() && self.state.lease_until_us > now_us
    }
}
