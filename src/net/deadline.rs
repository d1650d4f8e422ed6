//! Deadlines of all connections of a core: one heap, one timer task, no timer per request.
//!
//! A connection has one deadline at a time. Moving it to a later moment costs a store: its entry in
//! the heap is left where it is and put in order when it comes up.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::Moment;
use crate::runtime::Notify;

/// What lasted too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// A head was begun and is not complete, or a body paused.
    Request,
    /// No request came.
    Idle,
    /// A write made no progress.
    Write,
    /// The peer does not close.
    Linger,
    /// The core is stopping.
    Drain,
}

/// The deadline of one connection.
#[derive(Debug)]
pub(super) struct Deadline {
    at: Cell<Moment>,
    limit: Cell<Limit>,
    /// Moment of the heap entry that counts; [`Moment::NEVER`] without one.
    armed: Cell<Moment>,
}

impl Deadline {
    /// None.
    pub(super) fn new() -> Deadline {
        Deadline {
            at: Cell::new(Moment::NEVER),
            limit: Cell::new(Limit::Idle),
            armed: Cell::new(Moment::NEVER),
        }
    }

    /// Where its entry is that counts.
    pub(super) fn armed(&self) -> Moment {
        self.armed.get()
    }

    /// None any more.
    pub(super) fn clear(&self) {
        self.at.set(Moment::NEVER);
    }
}

/// Entries of the heap that are not worth looking through.
const ENTRIES_KEPT: usize = 1_024;

/// Names a connection for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionKey {
    /// Its place in the registry.
    pub(super) slot: u32,
    /// Distinguishes those that had the same place.
    pub(super) generation: u64,
}

/// The heap of a core.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    entries: RefCell<BinaryHeap<Reverse<(Moment, ConnectionKey)>>>,
    /// The earliest entry is earlier than it was.
    earlier: Notify,
}

impl Deadlines {
    /// Sets the deadline of a connection, in place of the one it has.
    pub(super) fn set(&self, key: ConnectionKey, deadline: &Deadline, limit: Limit, at: Moment) {
        deadline.at.set(at);
        deadline.limit.set(limit);
        if at >= deadline.armed.get() {
            return;
        }
        deadline.armed.set(at);
        let mut entries = self.entries.borrow_mut();
        let is_earliest = entries.peek().is_none_or(|Reverse((first, _))| at < *first);
        entries.push(Reverse((at, key)));
        drop(entries);
        if is_earliest {
            self.earlier.notify();
        }
    }

    /// The earliest moment at which something may be due.
    pub(super) fn next(&self) -> Moment {
        let entries = self.entries.borrow();
        entries.peek().map_or(Moment::NEVER, |Reverse((at, _))| *at)
    }

    /// Told when [`Deadlines::next`] became earlier.
    pub(super) fn earlier(&self) -> &Notify {
        &self.earlier
    }

    /// Forgets entries that do not count, once they are the most of those of `connections`:
    /// connections that came and went leave theirs behind. `armed_at` is where the entry of a
    /// connection is that counts, if the connection is still there.
    pub(super) fn forget_gone(
        &self,
        connections: usize,
        armed_at: impl Fn(ConnectionKey) -> Option<Moment>,
    ) {
        let mut entries = self.entries.borrow_mut();
        if entries.len() > 4 * connections + ENTRIES_KEPT {
            entries.retain(|Reverse((at, key))| armed_at(*key) == Some(*at));
        }
    }

    /// Takes the first entry that is not later than `now`.
    pub(super) fn pop(&self, now: Moment) -> Option<(Moment, ConnectionKey)> {
        let mut entries = self.entries.borrow_mut();
        if entries.peek()?.0.0 > now {
            return None;
        }
        entries.pop().map(|Reverse(entry)| entry)
    }

    /// Judges the entry of `entry_at` of a live connection: what is due, or nothing; a deadline
    /// that was moved gets a new entry.
    pub(super) fn judge(
        &self,
        key: ConnectionKey,
        deadline: &Deadline,
        entry_at: Moment,
        now: Moment,
    ) -> Option<Limit> {
        if deadline.armed.get() != entry_at {
            return None;
        }
        deadline.armed.set(Moment::NEVER);
        let at = deadline.at.get();
        if at <= now {
            deadline.clear();
            return Some(deadline.limit.get());
        }
        if at < Moment::NEVER {
            self.set(key, deadline, deadline.limit.get(), at);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ConnectionKey = ConnectionKey {
        slot: 1,
        generation: 2,
    };

    fn due(deadlines: &Deadlines, deadline: &Deadline, now_us: u64) -> Option<Limit> {
        let now = Moment::from_us(now_us);
        let mut due = None;
        while let Some((at, key)) = deadlines.pop(now) {
            assert_eq!(key, KEY);
            due = due.or(deadlines.judge(KEY, deadline, at, now));
        }
        due
    }

    #[test]
    fn a_deadline_that_moves_keeps_one_entry() {
        let deadlines = Deadlines::default();
        let deadline = Deadline::new();
        for at in 10..1_000 {
            deadlines.set(KEY, &deadline, Limit::Idle, Moment::from_us(at));
        }
        assert_eq!(deadlines.entries.borrow().len(), 1);
        assert_eq!(due(&deadlines, &deadline, 500), None);
        assert_eq!(deadlines.entries.borrow().len(), 1);
        assert_eq!(due(&deadlines, &deadline, 999), Some(Limit::Idle));
        assert_eq!(deadlines.next(), Moment::NEVER);
    }

    #[test]
    fn connections_that_came_and_went_leave_nothing_behind() {
        let deadlines = Deadlines::default();
        let stays = Deadline::new();
        deadlines.set(KEY, &stays, Limit::Idle, Moment::from_us(1_000_000));
        for generation in 3..100_000 {
            let key = ConnectionKey {
                slot: 2,
                generation,
            };
            let at = Moment::from_us(generation);
            deadlines.set(key, &Deadline::new(), Limit::Idle, at);
            deadlines.forget_gone(1, |key| (key == KEY).then(|| stays.armed()));
            assert!(deadlines.entries.borrow().len() <= ENTRIES_KEPT + 4);
        }
        deadlines.forget_gone(0, |key| (key == KEY).then(|| stays.armed()));
        assert_eq!(due(&deadlines, &stays, 0), None);
        let entries = deadlines.entries.borrow();
        assert!(entries.iter().any(|Reverse((_, key))| *key == KEY));
    }

    #[test]
    fn an_earlier_deadline_comes_first_and_a_cleared_one_never() {
        let deadlines = Deadlines::default();
        let deadline = Deadline::new();
        deadlines.set(KEY, &deadline, Limit::Idle, Moment::from_us(100));
        deadlines.set(KEY, &deadline, Limit::Request, Moment::from_us(50));
        assert_eq!(deadlines.next(), Moment::from_us(50));
        assert_eq!(due(&deadlines, &deadline, 50), Some(Limit::Request));
        deadlines.set(KEY, &deadline, Limit::Write, Moment::from_us(200));
        deadline.clear();
        assert_eq!(due(&deadlines, &deadline, 1_000), None);
        assert!(deadlines.entries.borrow().is_empty());
    }
}
