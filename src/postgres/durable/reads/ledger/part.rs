//! A partition as it is remembered, and what is to be done in it.

use hashbrown::HashSet;

use crate::model::durable::read::{Counts, Lags};

/// What a partition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) first: i64,
    pub(super) newest_base: i64,
    pub(super) newest_count: i64,
    pub(super) newest_us: i64,
    pub(super) newest_bytes: i64,
}

impl Tail {
    /// The offset behind its newest message.
    fn behind(&self) -> i64 {
        self.newest_base + self.newest_count
    }
}

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group_id: i64,
    pub(super) committed: i64,
    pub(super) batch_end: i64,
    /// Zero: nobody holds anything.
    pub(super) lease_until_us: i64,
    pub(super) has_failed: bool,
}

/// A partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// `None`: nothing was ever pushed.
    pub(super) tail: Option<Tail>,
    pub(super) places: Vec<Place>,
    /// When the message at an offset was accepted, which never changes.
    pub(super) waiting: Option<(i64, i64)>,
}

/// Which groups a question is about, and when it is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) groups: &'a HashSet<i64>,
    pub(super) now_us: i64,
    pub(super) with_ages: bool,
}

/// What is left to do to the slowest of some groups.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    since: i64,
    processing: i64,
    leases: i64,
    failed: i64,
}

impl Part {
    /// What it takes of the rows that may be remembered.
    pub(super) fn rows(&self) -> usize {
        1 + self.places.len()
    }

    fn left(&self, view: View<'_>) -> Left {
        let mut left = Left::default();
        let (mut groups, mut committed) = (0, i64::MAX);
        let seen = |place: &&Place| view.groups.contains(&place.group_id);
        for place in self.places.iter().filter(seen) {
            groups += 1;
            committed = committed.min(place.committed);
            left.failed += i64::from(place.has_failed);
            if place.lease_until_us > view.now_us {
                left.leases += 1;
                left.processing = left.processing.max(place.batch_end - place.committed);
            }
        }
        // A group without a place there stands at the beginning.
        left.since = match groups == view.groups.len() && groups > 0 {
            true => committed,
            false => 0,
        };
        if let Some(tail) = &self.tail {
            left.since = left.since.max(tail.first).min(tail.behind());
        }
        left
    }

    /// The offset whose age is asked for and not known.
    pub(super) fn unknown_age(&self, view: View<'_>) -> Option<i64> {
        let tail = self.tail.filter(|_| view.with_ages)?;
        let since = self.left(view).since;
        let is_known = self.waiting.is_some_and(|(offset, _)| offset == since);
        (since < tail.newest_base && !is_known).then_some(since)
    }
}

/// Partitions in sums.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) partitions: i64,
    pub(super) counts: Counts,
    pub(super) segments: i64,
    pub(super) bytes: i64,
    pub(super) leases: i64,
    pub(super) lags: Lags,
    /// Partitions with pending messages of which nothing is leased.
    pub(super) ready: i64,
}

impl Sums {
    pub(super) fn add(&mut self, part: &Part, view: View<'_>) {
        let left = part.left(view);
        self.partitions += 1;
        self.counts.failed += left.failed;
        self.leases += left.leases;
        let Some(tail) = &part.tail else {
            self.counts.processing += left.processing;
            return;
        };
        let stored = tail.behind() - tail.first;
        let pending = tail.behind() - left.since;
        self.counts.stored += stored;
        self.counts.pending += pending;
        self.counts.processing += left.processing.min(pending);
        self.segments += (stored + tail.newest_count - 1) / tail.newest_count;
        self.bytes += stored * tail.newest_bytes / tail.newest_count;
        if pending == 0 {
            return;
        }
        self.ready += i64::from(left.processing == 0);
        let is_first = self.lags.partitions == 0;
        self.lags.partitions += 1;
        let (least, most) = &mut self.lags.messages;
        *least = if is_first {
            pending
        } else {
            pending.min(*least)
        };
        *most = pending.max(*most);
        if view.with_ages {
            let waiting = part.waiting.filter(|(offset, _)| *offset == left.since);
            let time_us = match left.since < tail.newest_base {
                true => waiting.map_or(tail.newest_us, |(_, time_us)| time_us),
                false => tail.newest_us,
            };
            let age_us = (view.now_us - time_us).max(0);
            let (sum, least, most) = &mut self.lags.time_us;
            *sum += age_us;
            *least = if is_first { age_us } else { age_us.min(*least) };
            *most = age_us.max(*most);
        }
    }
}
