//! What the sessions of this broker change, noted for whoever remembers what is stored.
//!
//! A change is noted before it is sent, and stays noted until it is over. So who first asks up to which
//! change all are over, then begins a snapshot, and then takes what is noted, has taken every change that
//! the snapshot sees, this time or an earlier one; and what may yet come to be seen is left for the next
//! time ([`Marks::take`]).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use crate::limits::{MARKS_LOST_MS, MARKS_MAX};
use crate::model::TenantId;
use crate::postgres::SessionFault;

/// Something that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A partition grows or shrinks, a group moves in it, or it goes.
    Partition(i64),
    /// A partition comes to be.
    Made {
        /// The partition.
        partition_id: i64,
        /// Its queue.
        queue_id: i64,
    },
    /// Anything of a queue.
    Queue(Box<(TenantId, Box<str>)>),
    /// Anything.
    All,
}

impl Mark {
    /// Anything of a queue.
    pub fn queue(tenant: TenantId, name: &str) -> Mark {
        Mark::Queue(Box::new((tenant, name.into())))
    }
}

/// A change from before it is sent until it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a change that is never over is never forgotten"]
pub struct Ticket(u64);

/// Partitions for which the table has room when nothing is noted.
const PARTITIONS_FEW: usize = 256;

/// What has been noted. Shared by the sessions of a broker and the one that reads.
#[derive(Debug, Default)]
pub struct Marks {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// Whether anybody takes what is noted: else it is noted only while the change goes on.
    is_wanted: bool,
    last: u64,
    /// Changes that go on: one for each session.
    open: Vec<u64>,
    /// The last change of each partition, and its queue if it was made.
    partitions: HashMap<i64, (u64, Option<i64>)>,
    /// All else, which is rare.
    wider: Vec<(u64, Mark)>,
    /// When it became unknown last what became of a change: the server may carry it out yet.
    lost_at: Option<Instant>,
}

impl Noted {
    fn add(&mut self, number: u64, mark: Mark) {
        let (id, made_in) = match mark {
            Mark::Partition(id) => (id, None),
            Mark::Made {
                partition_id,
                queue_id,
            } => (partition_id, Some(queue_id)),
            Mark::Queue(_) | Mark::All => return self.wider.push((number, mark)),
        };
        let entry = self.partitions.entry(id).or_default();
        *entry = (number.max(entry.0), made_in.or(entry.1));
    }

    fn retain(&mut self, is_kept: impl Fn(u64) -> bool) {
        self.partitions.retain(|_, (number, _)| is_kept(*number));
        self.wider.retain(|(number, _)| is_kept(*number));
    }

    /// Forgets all but what goes on.
    fn forget(&mut self) {
        // A younger change may have taken the place of one that goes on.
        let oldest = self.open.iter().copied().min().unwrap_or(u64::MAX);
        self.retain(|number| number >= oldest);
        // A look through the table takes as long as it once was large.
        self.partitions.shrink_to(PARTITIONS_FEW);
    }
}

impl Marks {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change is about to be sent.
    pub(super) fn begin(&self, marks: impl IntoIterator<Item = Mark>) -> Ticket {
        let mut noted = self.noted();
        noted.last += 1;
        let number = noted.last;
        noted.open.push(number);
        for mark in marks {
            noted.add(number, mark);
        }
        Ticket(number)
    }

    /// A change is over: nothing of it was stored, or what was can be seen. If that is not known, nothing
    /// that is remembered can be trusted for [`MARKS_LOST_MS`].
    pub(super) fn end(&self, Ticket(number): Ticket, is_known: bool) {
        let mut noted = self.noted();
        noted.open.retain(|open| *open != number);
        if !is_known {
            noted.lost_at = Some(Instant::now());
            noted.is_wanted = false;
        }
        noted.is_wanted &= noted.partitions.len() + noted.wider.len() <= MARKS_MAX;
        if !noted.is_wanted {
            noted.forget();
        }
    }

    /// Notes a change while it is made.
    pub(super) fn noting<T>(
        &self,
        marks: impl IntoIterator<Item = Mark>,
        change: impl FnOnce() -> Result<T, SessionFault>,
    ) -> Result<T, SessionFault> {
        let ticket = self.begin(marks);
        let done = change();
        let is_known = matches!(done, Ok(_) | Err(SessionFault::Write { .. }));
        self.end(ticket, is_known);
        done
    }

    /// From now on everything is noted, for who begins with a snapshot that is still to come. False: it
    /// became unknown too lately what became of a change.
    pub fn start(&self) -> bool {
        let mut noted = self.noted();
        let bound = Duration::from_millis(MARKS_LOST_MS);
        let is_lost = noted.lost_at.is_some_and(|at| at.elapsed() < bound);
        noted.forget();
        noted.is_wanted = !is_lost;
        !is_lost
    }

    /// Nobody takes what is noted any more.
    pub fn stop(&self) {
        let mut noted = self.noted();
        noted.is_wanted = false;
        noted.forget();
    }

    /// Up to which change all are over. To be asked for before a snapshot.
    pub fn over(&self) -> u64 {
        let noted = self.noted();
        let open = noted.open.iter().min();
        open.map_or(noted.last, |number| number - 1)
    }

    /// Takes what is noted, for a snapshot that was begun when all up to `over` were over. `None`: there was
    /// more than is kept, or nobody has started.
    pub fn take(&self, over: u64) -> Option<Vec<Mark>> {
        let mut noted = self.noted();
        if !noted.is_wanted {
            return None;
        }
        // Whoever stores waits meanwhile: rows are made of it behind.
        let partitions = std::mem::take(&mut noted.partitions);
        let left = partitions.iter().filter(|(_, (number, _))| *number > over);
        noted
            .partitions
            .extend(left.map(|(id, noted)| (*id, *noted)));
        let wider: Vec<Mark> = noted.wider.iter().map(|(_, mark)| mark.clone()).collect();
        noted.wider.retain(|(number, _)| *number > over);
        drop(noted);
        let partitions = partitions.iter().map(|(id, (_, made_in))| match made_in {
            Some(queue_id) => Mark::Made {
                partition_id: *id,
                queue_id: *queue_id,
            },
            None => Mark::Partition(*id),
        });
        let marks = partitions.chain(wider).collect();
        Some(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(marks: &Marks, over: u64) -> Vec<i64> {
        let ids = marks.take(over).expect("it is started").into_iter();
        let ids = ids.map(|mark| match mark {
            Mark::Partition(id) => id,
            other => panic!("{other:?}"),
        });
        let mut ids = Vec::from_iter(ids);
        ids.sort_unstable();
        ids
    }

    #[test]
    fn what_a_snapshot_may_not_have_seen_is_left_for_the_next() {
        let marks = Marks::default();
        assert!(marks.start());
        let before = marks.begin([Mark::Partition(1)]);
        marks.end(before, true);
        let during = marks.begin([Mark::Partition(2)]);
        let over = marks.over();
        // Here the snapshot begins.
        marks.end(during, true);
        let behind = marks.begin([Mark::Partition(3)]);
        marks.end(behind, true);
        assert_eq!(taken(&marks, over), [1, 2, 3]);
        let over = marks.over();
        assert_eq!(taken(&marks, over), [2, 3]);
        assert_eq!(taken(&marks, over), [0i64; 0]);
    }

    #[test]
    fn what_goes_on_when_somebody_starts_is_noted() {
        let marks = Marks::default();
        let over = marks.begin([Mark::Partition(1)]);
        marks.end(over, true);
        assert_eq!(marks.take(0), None, "nobody has started");
        let ticket = marks.begin([Mark::Partition(2)]);
        assert!(marks.start());
        let over = marks.over();
        assert_eq!(taken(&marks, over), [2]);
        marks.end(ticket, true);
        assert_eq!(taken(&marks, over), [2], "it may have been stored since");
    }

    #[test]
    fn what_may_be_stored_at_any_time_lets_nothing_be_remembered() {
        let marks = Marks::default();
        assert!(marks.start());
        let refused = || {
            let reason = String::new();
            Err(SessionFault::Write {
                reason,
                heals: true,
            })
        };
        let done: Result<(), _> = marks.noting([Mark::Partition(2)], refused);
        assert!(done.is_err());
        assert_eq!(taken(&marks, marks.over()), [2]);
        let away = || Err(SessionFault::away("no answer"));
        let done: Result<(), _> = marks.noting([Mark::Partition(1)], away);
        assert!(done.is_err());
        assert_eq!(marks.take(marks.over()), None);
        assert!(!marks.start());
        assert_eq!(marks.take(marks.over()), None);
        let bound = Duration::from_millis(MARKS_LOST_MS);
        marks.noted().lost_at = Instant::now().checked_sub(bound);
        assert!(marks.start());
        assert_eq!(taken(&marks, marks.over()), [0i64; 0]);
    }

    #[test]
    fn a_change_that_goes_on_is_kept_behind_a_younger_one_of_its_partition() {
        let marks = Marks::default();
        let older = marks.begin([Mark::Partition(1)]);
        let younger = marks.begin([Mark::Partition(1)]);
        marks.end(younger, true);
        assert!(marks.start());
        marks.end(older, true);
        assert_eq!(taken(&marks, marks.over()), [1]);
    }

    #[test]
    fn a_partition_is_noted_once_and_not_forgotten_for_an_older_change() {
        let marks = Marks::default();
        assert!(marks.start());
        let made = Mark::Made {
            partition_id: 1,
            queue_id: 7,
        };
        let ticket = marks.begin([made.clone()]);
        marks.end(ticket, true);
        let over = marks.over();
        let ticket = marks.begin([Mark::Partition(1)]);
        marks.end(ticket, true);
        assert_eq!(marks.take(over), Some(vec![made.clone()]));
        assert_eq!(marks.take(over + 1), Some(vec![made]));
        assert_eq!(marks.take(over + 1), Some(Vec::new()));
    }

    #[test]
    fn more_than_is_kept_is_not_taken() {
        let marks = Marks::default();
        assert!(marks.start());
        let ticket = marks.begin((0..=MARKS_MAX as i64).map(Mark::Partition));
        marks.end(ticket, true);
        assert_eq!(marks.take(u64::MAX - 1), None);
        assert!(marks.noted().partitions.is_empty());
        assert!(marks.start());
        assert_eq!(taken(&marks, marks.over()), [0i64; 0]);
    }
}
