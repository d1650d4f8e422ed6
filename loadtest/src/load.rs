//! What all scenarios have in common: where the work is done, how much of it, and when it is due.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::interrupt::Interrupt;
use crate::pace::Extent;
use crate::{LoadError, control};

/// Messages of one batch while a queue is filled.
pub const FILL_BATCH: u32 = 100;

/// Connections that fill it.
const FILL_CONNECTIONS: usize = 8;

/// How a workload is run.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// Connections that are given scheduled work; those that do standing work come beside them.
    pub connections: usize,
    /// Units of work that are under way at the same time on each of them; more than 1 for a client
    /// that does not wait for one answer before the next request.
    pub depth: usize,
    /// Queues over which the connections are spread.
    pub queues: usize,
    /// Bytes of a payload, at least [`crate::wire::PAYLOAD_BYTES_MIN`].
    pub payload_bytes: usize,
    /// Units of work a second; 0: closed loop.
    pub rate_per_s: f64,
    /// Time at the beginning that is not measured.
    pub warmup: Duration,
    /// How much is measured.
    pub extent: Extent,
    /// How long late work may take to end after the last was due; in a closed loop of a number of
    /// units, after the last answer.
    pub drain: Duration,
    /// Never sleep: the generator has a core for itself.
    pub spin: bool,
    /// Notes the time in which each request is served ([`Report::served`]); for a depth of 1.
    ///
    /// [`Report::served`]: crate::report::Report::served
    pub is_kernel_timed: bool,
    /// Breaks the run off.
    pub interrupt: Interrupt,
}

impl Load {
    /// One request after the other on each connection, all to one queue, by a generator that has a
    /// core for itself. How much is measured remains to be said.
    pub fn closed_loop(address: SocketAddr, connections: usize, payload_bytes: usize) -> Load {
        Load {
            address,
            connections,
            depth: 1,
            queues: 1,
            payload_bytes,
            rate_per_s: 0.0,
            warmup: Duration::ZERO,
            extent: Extent::Units(0),
            drain: Duration::from_secs(10),
            spin: true,
            is_kernel_timed: false,
            interrupt: Interrupt::default(),
        }
    }

    /// The same for a workload whose answers are waited for: one unit of work at a time and connection.
    #[must_use]
    pub fn in_turn(&self) -> Load {
        Load {
            depth: 1,
            ..self.clone()
        }
    }

    /// The same for taking what [`Load::filling`] has left. Whatever is taken before the measured part
    /// was to be measured, so there is none.
    #[must_use]
    pub fn taking(&self) -> Load {
        Load {
            warmup: Duration::ZERO,
            ..self.in_turn()
        }
    }

    /// What fills the one queue that this load takes from, `batch` messages by each unit of work: the
    /// units are pushes of [`FILL_BATCH`] messages, and the last is whole.
    ///
    /// # Errors
    /// It is not said how many are taken, or the load is spread over several queues.
    pub fn filling(&self, batch: u32) -> Result<Load, LoadError> {
        let Extent::Units(units) = self.extent else {
            return Err(LoadError::text("a number of units must be given"));
        };
        if self.queues != 1 {
            return Err(LoadError::text("messages are taken from one queue"));
        }
        let messages = units * u64::from(batch);
        Ok(Load {
            connections: FILL_CONNECTIONS,
            rate_per_s: 0.0,
            extent: Extent::Units(messages.div_ceil(u64::from(FILL_BATCH))),
            ..self.taking()
        })
    }

    /// Declares queues that no other run has, runs `work` with their names and removes them.
    pub fn with_queues<T>(
        &self,
        options: &str,
        work: impl FnOnce(&[String]) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        let run = run_name();
        let queues: Vec<String> = (0..self.queues.max(1))
            .map(|index| format!("load-{run}-{index}"))
            .collect();
        for queue in &queues {
            control::configure(self.address, queue, options)?;
        }
        let outcome = work(&queues)?;
        for queue in &queues {
            control::delete(self.address, queue)?;
        }
        Ok(outcome)
    }
}

/// A name that no other run against the same broker has: a message of an earlier one would be
/// measured as if it were of this one.
pub fn run_name() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let since_epoch = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    format!(
        "{:x}-{:x}-{run}",
        std::process::id(),
        since_epoch.as_millis()
    )
}
