//! Reads by offset that wait for messages. They are looked at again from time to time: who waits stands
//! in nobody's way.

use std::time::{Duration, Instant};

use crate::limits::{FETCH_LOOK_MS, FETCHES_WAITING_MAX};
use crate::model::durable::read::{Fetch, FetchAnswer};
use crate::model::{ClientRef, TenantId};

/// A read that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) client: ClientRef,
    pub(super) tenant: TenantId,
    pub(super) fetch: Fetch,
    /// When it is answered with what there is.
    pub(super) until: Instant,
}

/// Reads that wait.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    waiting: Vec<Waiting>,
    /// When they are looked at again; only where there are some.
    look_at: Option<Instant>,
}

/// Whether a read has not got what it waits for.
pub(super) fn may_wait(fetch: &Fetch, answer: &FetchAnswer) -> bool {
    fetch.wait_ms > 0
        && !fetch.entries.is_empty()
        && !answer.has_fault()
        && answer.payload_bytes() < fetch.bytes_min
}

impl Fetches {
    /// Whether one more may wait.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < FETCHES_WAITING_MAX
    }

    pub(super) fn park(&mut self, waiting: Waiting) {
        let look = Instant::now() + Duration::from_millis(FETCH_LOOK_MS);
        self.look_at.get_or_insert(look);
        self.waiting.push(waiting);
    }

    /// When something is due.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let ends = self.waiting.iter().map(|waiting| waiting.until);
        self.look_at.into_iter().chain(ends).min()
    }

    /// Takes those that are to be looked at now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Waiting> {
        if self.look_at.is_some_and(|look| look <= now) {
            self.look_at = None;
            return std::mem::take(&mut self.waiting);
        }
        let is_over = |waiting: &mut Waiting| waiting.until <= now;
        self.waiting.extract_if(.., is_over).collect()
    }
}
