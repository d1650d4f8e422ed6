//! Bounds the time of whatever waits for the server.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::limits::SESSION_WAITING_MS;

/// Why something was not waited for to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// The patience is over.
    Late,
    /// The caller does not want it any more.
    BrokenOff,
}

/// How long something may take, or may show no progress.
pub(super) struct Patience {
    limit: Duration,
    since: Cell<Instant>,
}

impl Patience {
    /// Patience from now on.
    pub(super) fn of(limit: Duration) -> Patience {
        Patience {
            limit,
            since: Cell::new(Instant::now()),
        }
    }

    pub(super) fn of_ms(limit_ms: u64) -> Patience {
        Patience::of(Duration::from_millis(limit_ms))
    }

    /// Something has come: the limit begins anew.
    pub(super) fn progress(&self) {
        self.since.set(Instant::now());
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Runs `work` and asks `waiting` meanwhile whether to go on.
    ///
    /// # Errors
    /// The patience is over, or `waiting` was false.
    pub(super) async fn bound<T>(
        &self,
        work: impl Future<Output = T>,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<T, Unfinished> {
        let mut work = pin!(work);
        loop {
            let until = self.since.get() + self.limit;
            let left = until.saturating_duration_since(Instant::now());
            let step = left.min(Duration::from_millis(SESSION_WAITING_MS));
            if let Ok(done) = timeout(step, work.as_mut()).await {
                return Ok(done);
            }
            if !waiting() {
                return Err(Unfinished::BrokenOff);
            }
            if Instant::now() >= self.since.get() + self.limit {
                return Err(Unfinished::Late);
            }
        }
    }
}
