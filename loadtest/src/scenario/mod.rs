//! What a run can do to a broker. Each scenario is one function, so that tests call it with a tiny
//! size.

mod cycle;
mod delivery;
mod exchange;
mod floor;
mod in_order;
mod inboxes;
mod push;
mod take;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use cycle::{Settle, cycle, cycle_in};
pub use delivery::delivery;
pub use exchange::{Exchanging, exchange};
pub use floor::{FloorOf, floor};
pub use inboxes::{Inboxes, inboxes};
pub use push::{push, store};
pub use take::{Taking, take};

use crate::LoadError;
use crate::control;
use crate::interrupt::Interrupt;
use crate::pace::Extent;
use crate::run::Plan;

/// Milliseconds that a parked pop waits before it asks again.
const PARK_MS: u64 = 30_000;

/// What all scenarios have in common.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// Connections that are given scheduled work.
    pub connections: usize,
    /// Units of work that are under way at the same time on each of them.
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
    /// How long late work may take to end after the last was due.
    pub drain: Duration,
    /// Never sleep: the generator has a core for itself.
    pub spin: bool,
    /// Notes the time in which each request is served ([`Report::served`]).
    ///
    /// [`Report::served`]: crate::report::Report::served
    pub is_stamped: bool,
    /// Breaks the run off.
    pub interrupt: Interrupt,
}

impl Load {
    pub(crate) fn plan(&self, standing: usize) -> Plan {
        Plan {
            address: self.address,
            connections: standing + self.connections,
            depth: self.depth,
            rate_per_s: self.rate_per_s,
            warmup: self.warmup,
            extent: self.extent,
            drain: self.drain,
            spin: self.spin,
            is_stamped: self.is_stamped,
            interrupt: self.interrupt.clone(),
        }
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
pub(crate) fn run_name() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let since_epoch = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    format!(
        "{:x}-{:x}-{run}",
        std::process::id(),
        since_epoch.as_millis()
    )
}
