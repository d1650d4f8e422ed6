//! What the reader remembers of partitions, so that a listing looks only at those that have changed since
//! the last one: two looks for each of 100,000 take a second.
//!
//! What is remembered is what one snapshot after the other has shown, and is brought up to the snapshot of
//! each question. What has changed between the two is told by what the sessions of this broker note (`Marks`)
//! and by what other brokers tell (`queen.durable_change`, `feed`). What nobody tells, because it is changed by
//! hand, is seen when everything is counted anew, which is at least every [`LEDGER_MS`].
//!
//! In reading order: `part` is a partition and the rules of its sums, `feed` what is known of other brokers,
//! `answer` asks the database.

mod answer;
mod feed;
mod part;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};

use self::feed::Feed;
use self::part::{Part, Place, Tail};
use crate::limits::{LEDGER_MS, LEDGER_ROWS_MAX};
use crate::model::TenantId;
use crate::postgres::durable::{Mark, Marks};

/// The partitions of queues that were listed lately.
#[derive(Debug)]
pub struct Ledger {
    marks: Arc<Marks>,
    rows_max: usize,
    /// `None`: nothing is remembered.
    kept: Option<Kept>,
    /// Tenants that have asked for more than may be remembered: not tried again before. They are few, as each
    /// has so much.
    too_large: Vec<(TenantId, Instant)>,
    looked: usize,
}

#[derive(Debug)]
struct Kept {
    until: Instant,
    feed: Feed,
    queues: HashMap<i64, Queue>,
    /// The queue of each partition.
    homes: HashMap<i64, i64>,
    rows: usize,
}

/// A queue with all its partitions.
#[derive(Debug)]
struct Queue {
    tenant: TenantId,
    name: Box<str>,
    /// The groups whose places are remembered.
    groups: HashSet<i64>,
    parts: HashMap<i64, Part>,
    /// Partitions that may have changed.
    stale: HashSet<i64>,
}

impl Ledger {
    /// One that remembers nothing yet, for a broker whose sessions note what they change in `marks`.
    pub fn new(marks: Arc<Marks>) -> Ledger {
        Ledger::of_size(marks, LEDGER_ROWS_MAX)
    }

    /// The same with another bound.
    pub fn of_size(marks: Arc<Marks>, rows_max: usize) -> Ledger {
        Ledger {
            marks,
            rows_max,
            kept: None,
            too_large: Vec::new(),
            looked: 0,
        }
    }

    /// Forgets everything: the session was lost, or somebody wants to see what was changed by hand.
    pub fn forget(&mut self) {
        self.marks.stop();
        self.kept = None;
    }

    /// Forgets what is to be counted anew.
    pub fn forget_old(&mut self, now: Instant) {
        if self.kept.as_ref().is_some_and(|kept| kept.until <= now) {
            self.forget();
        }
    }

    /// Partitions that were looked at for the last answer.
    pub fn looked(&self) -> usize {
        self.looked
    }

    fn is_too_large(&mut self, tenant: TenantId, now: Instant) -> bool {
        self.too_large.retain(|(_, until)| now < *until);
        self.too_large.iter().any(|(known, _)| *known == tenant)
    }

    fn note_too_large(&mut self, tenant: TenantId, now: Instant) {
        let until = now + Duration::from_millis(LEDGER_MS);
        self.too_large.push((tenant, until));
    }
}

impl Kept {
    fn new(feed: Feed) -> Kept {
        Kept {
            until: Instant::now() + Duration::from_millis(LEDGER_MS),
            feed,
            queues: HashMap::new(),
            homes: HashMap::new(),
            rows: 0,
        }
    }

    /// Takes note of what may have changed.
    fn take(&mut self, marks: impl IntoIterator<Item = Mark>) {
        for mark in marks {
            match mark {
                Mark::Partition(id) => {
                    // One that is not known is of a queue that is not, or is marked as made, too.
                    let home = self.homes.get(&id);
                    if let Some(queue) = home.and_then(|home| self.queues.get_mut(home)) {
                        queue.stale.insert(id);
                    }
                }
                Mark::Made {
                    partition_id,
                    queue_id,
                } => {
                    if let Some(queue) = self.queues.get_mut(&queue_id) {
                        queue.stale.insert(partition_id);
                        self.homes.insert(partition_id, queue_id);
                    }
                }
                Mark::Queue(named) => {
                    self.drop_queues(|_, queue| (queue.tenant, &queue.name) == (named.0, &named.1))
                }
                Mark::All => self.drop_queues(|_, _| true),
            }
        }
    }

    fn drop_queues(&mut self, is_meant: impl Fn(i64, &Queue) -> bool) {
        let (rows, homes) = (&mut self.rows, &mut self.homes);
        self.queues.retain(|id, queue| {
            if !is_meant(*id, queue) {
                return true;
            }
            for (id, part) in &queue.parts {
                *rows -= part.rows();
                homes.remove(id);
            }
            for id in &queue.stale {
                homes.remove(id);
            }
            false
        });
    }

    /// A queue of the page that was caught up with.
    fn queue(&self, id: i64) -> &Queue {
        &self.queues[&id]
    }

    /// Takes over when messages at some places were accepted: partition, offset, time.
    fn note_ages(&mut self, ages: impl Iterator<Item = [i64; 3]>) {
        for [id, offset, time_us] in ages {
            let home = self.homes.get(&id);
            let queue = home.and_then(|home| self.queues.get_mut(home));
            if let Some(part) = queue.and_then(|queue| queue.parts.get_mut(&id)) {
                part.waiting = Some((offset, time_us));
            }
        }
    }

    /// Takes partitions over as they are stored now; those of `looked` that are not among them are gone.
    fn put(
        &mut self,
        looked: &[i64],
        tails: Vec<(i64, i64, Option<Tail>)>,
        places: Vec<(i64, Place)>,
    ) {
        for id in looked {
            self.remove(*id);
        }
        for (id, queue_id, tail) in tails {
            let Some(queue) = self.queues.get_mut(&queue_id) else {
                continue;
            };
            let part = Part {
                tail,
                ..Part::default()
            };
            self.rows += part.rows();
            queue.parts.insert(id, part);
            self.homes.insert(id, queue_id);
        }
        for (id, place) in places {
            let home = self.homes.get(&id);
            let queue = home.and_then(|home| self.queues.get_mut(home));
            // A place in a partition that is gone is no place.
            if let Some(part) = queue.and_then(|queue| queue.parts.get_mut(&id)) {
                part.places.push(place);
                self.rows += 1;
            }
        }
    }

    fn remove(&mut self, id: i64) {
        let Some(home) = self.homes.remove(&id) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&home) else {
            return;
        };
        queue.stale.remove(&id);
        if let Some(part) = queue.parts.remove(&id) {
            self.rows -= part.rows();
        }
    }
}
