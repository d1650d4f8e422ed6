//! What everybody may know of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

/// Whether there is a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// None is wanted, or none can be had.
    Off,
    /// It answers.
    Connected,
    /// It is wanted and does not answer.
    Away,
}

/// The engine's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether there is a database.
    pub database: Database,
    /// What is wrong with it, or why there is none.
    pub reason: Option<String>,
    /// Whether declarations were loaded once.
    pub loaded: bool,
    /// Whether the operator's switch stands in the database as it stands here.
    pub mirrored: bool,
}

impl State {
    /// Whether something is wrong that should not be.
    pub fn is_degraded(&self) -> bool {
        match self.database {
            Database::Off => false,
            Database::Away => true,
            Database::Connected => self.reason.is_some(),
        }
    }
}

/// What the engine has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sessions that were opened.
    pub sessions: u64,
    /// Transactions that stored something.
    pub transactions: u64,
    /// Changes that were stored.
    pub changes: u64,
}

/// State and totals, written by the engine and read by anybody.
#[derive(Debug)]
pub struct Status {
    state: ArcSwap<State>,
    sessions: AtomicU64,
    transactions: AtomicU64,
    changes: AtomicU64,
    spooled: AtomicU64,
    spooled_bytes: AtomicU64,
    waiting: AtomicU64,
}

impl Status {
    /// Without a database, for the reason given.
    pub fn off(reason: &str) -> Status {
        Status::new(Database::Off, reason)
    }

    /// With a database that has not answered yet.
    pub fn starting() -> Status {
        Status::new(Database::Away, "it has not answered yet")
    }

    fn new(database: Database, reason: &str) -> Status {
        let state = State {
            database,
            reason: Some(reason.to_owned()),
            loaded: false,
            mirrored: false,
        };
        Status {
            state: ArcSwap::from_pointee(state),
            sessions: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            spooled: AtomicU64::new(0),
            spooled_bytes: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        }
    }

    /// The state now.
    pub fn get(&self) -> Guard<Arc<State>> {
        self.state.load()
    }

    /// Pushes that wait on disk to be stored, and the bytes of their files.
    pub fn spooled(&self) -> (u64, u64) {
        (
            self.spooled.load(Ordering::Relaxed),
            self.spooled_bytes.load(Ordering::Relaxed),
        )
    }

    pub(super) fn set_spooled(&self, (pushes, bytes): (u64, u64)) {
        self.spooled.store(pushes, Ordering::Relaxed);
        self.spooled_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Pops of durable queues that wait for a message.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn set_waiting(&self, pops: usize) {
        self.waiting.store(pops as u64, Ordering::Relaxed);
    }

    /// The totals now.
    pub fn totals(&self) -> Totals {
        Totals {
            sessions: self.sessions.load(Ordering::Relaxed),
            transactions: self.transactions.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        }
    }

    fn change(&self, change: impl Fn(&mut State)) {
        let before = self.get();
        let mut after = State::clone(&before);
        change(&mut after);
        if after == **before {
            return;
        }
        match (before.is_degraded(), after.is_degraded()) {
            (true, false) => tracing::info!("the database is connected"),
            (_, true) if before.reason != after.reason => {
                let reason = after.reason.as_deref().unwrap_or_default();
                tracing::warn!(reason, database = ?after.database, "the broker is degraded");
            }
            _ => {}
        }
        self.state.store(Arc::new(after));
    }

    /// Everything was loaded in a new session.
    pub fn connected(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
        self.change(|state| {
            state.database = Database::Connected;
            state.reason = None;
            state.loaded = true;
        });
    }

    pub(super) fn away(&self, reason: &str) {
        self.change(|state| {
            state.database = Database::Away;
            state.reason = Some(reason.to_owned());
            state.mirrored = false;
        });
    }

    /// The database answers, but takes nothing.
    pub(super) fn write_fault(&self, reason: &str) {
        self.change(|state| state.reason = Some(reason.to_owned()));
    }

    /// A transaction has stored changes.
    pub(super) fn stored(&self, changes: usize) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(changes as u64, Ordering::Relaxed);
        self.writes();
    }

    /// Something was written. Whether everything is loaded is another matter.
    pub(super) fn writes(&self) {
        self.change(|state| {
            if state.database == Database::Connected {
                state.reason = None;
            }
        });
    }

    pub(super) fn set_mirrored(&self, mirrored: bool) {
        self.change(|state| state.mirrored = mirrored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_healthy_and_what_is_wrong_is_told() {
        let off = Status::off("not wanted");
        assert!(!off.get().is_degraded());
        let status = Status::starting();
        assert!(status.get().is_degraded());
        status.writes();
        assert!(status.get().reason.is_some(), "it is not loaded yet");
        status.connected();
        assert!(!status.get().is_degraded() && status.get().loaded);
        status.write_fault("disk full");
        assert!(status.get().is_degraded());
        assert_eq!(status.get().reason.as_deref(), Some("disk full"));
        assert_eq!(status.get().database, Database::Connected);
        status.writes();
        assert!(!status.get().is_degraded());
        status.set_mirrored(true);
        status.away("gone");
        let state = status.get();
        assert!(state.is_degraded() && state.loaded && !state.mirrored);
    }
}
