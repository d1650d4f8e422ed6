//! The engine: one thread that blocks, owns the PostgreSQL sessions and stores what has to outlive
//! the process. Lives on a core of its own. Knows no sockets, no HTTP and no rings; what it tells
//! the shard cores it tells through [`Shards`].
//!
//! In reading order: `desk` is where jobs wait, `connect` gets hold of a server, `store` runs what
//! has gathered as one transaction, `follow` takes over what other brokers have changed, `status`
//! is what everybody may know, `stop` the order to end. `durable` is the durable class, `outage` and
//! `spool` take its pushes while no server answers, `seal` encrypts payloads. `reader` answers questions
//! and removes what is old.

mod connect;
mod desk;
mod durable;
mod follow;
mod outage;
mod reader;
mod retention;
mod seal;
mod shards;
mod spool;
mod status;
mod stop;
mod store;
mod whereabouts;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use self::connect::Backoff;
use self::desk::{Arrival, Desk};
use self::follow::Declared;
use self::outage::Outage;
use crate::limits::{BEAT_MS, POLL_MS, WRITE_RETRY_MS};
use crate::model::Job;
use crate::postgres::{
    ClusterFault, ClusterPlan, PrivateCluster, ServerRules, Session, SessionFault, Target,
};

pub use durable::DurableRules;
pub use outage::SpoolPlan;
pub use reader::{Askers, Reader, ReaderEnds, ReaderPlan};
pub use retention::RetentionPlan;
pub use seal::Seal;
pub use shards::{Shards, Stored};
pub use status::{Database, State, Status, Totals};
pub use stop::StopOrder;
pub use whereabouts::Whereabouts;

/// Which PostgreSQL the engine uses.
#[derive(Clone, Debug)]
pub enum Source {
    /// A server that is there already.
    Server(Box<Target>),
    /// A cluster of this broker alone.
    Private(ClusterPlan),
}

/// What an engine is to do.
#[derive(Debug)]
pub struct EnginePlan {
    /// The server.
    pub source: Source,
    /// Which servers are refused.
    pub rules: ServerRules,
    /// The process, as it stands in message ids.
    pub incarnation: String,
    /// How other brokers on the database are told of this one, for their logs.
    pub name: String,
    /// What everybody may know of it.
    pub status: Arc<Status>,
    /// What holds for all durable queues.
    pub durable: DurableRules,
    /// Where pushes go while PostgreSQL does not answer.
    pub spool: SpoolPlan,
    /// How often and how much is given up because of its age.
    pub retention: RetentionPlan,
    /// Where it tells that the server is.
    pub server: Arc<Whereabouts>,
}

/// What connects an engine with the rest of the process.
#[derive(Debug)]
pub struct EngineEnds {
    /// What arrives from the shard cores.
    pub inbox: Receiver<Job>,
    /// Closed when nobody is left who could ask.
    pub end: Receiver<()>,
    /// Told how the start goes on, as long as somebody listens.
    pub reports: SyncSender<Report>,
    /// Given when the broker stops.
    pub stop: Arc<StopOrder>,
}

/// How the start of the engine goes on.
#[derive(Debug)]
pub enum Report {
    /// The private cluster lets clients in.
    ClusterReady,
    /// Declarations, grants and switches are loaded.
    Loaded,
    /// The private cluster could not be created or started; it will be tried again.
    ClusterFailed,
    /// The data folder cannot be used.
    FolderUnusable(ClusterFault),
    /// The server must not be used; says what to do.
    ServerRefused(String),
}

/// Why there is no session.
#[derive(Debug)]
enum Fault {
    Cluster(ClusterFault),
    Session(SessionFault),
}

/// The engine. Made and run on its own thread.
#[derive(Debug)]
pub struct Engine<S: Shards> {
    plan: EnginePlan,
    reports: SyncSender<Report>,
    stop: Arc<StopOrder>,
    desk: Desk<S>,
    cluster: Option<PrivateCluster>,
    session: Option<Session>,
    backoff: Backoff,
    /// What is remembered of the durable class.
    durable: durable::Memory,
    expiry: durable::Expiry,
    /// What is declared, as it was last stored or read.
    declared: Declared,
    /// How much of the database's changes has been taken over.
    revision: Option<u64>,
    poll_at: Instant,
    beat_at: Instant,
    /// Other brokers that were seen last, to log a change only.
    others: Vec<String>,
}

impl<S: Shards> Engine<S> {
    /// An engine that serves what arrives in its inbox until its end is closed.
    pub fn new(plan: EnginePlan, ends: EngineEnds, shards: S) -> Engine<S> {
        let now = Instant::now();
        let outage = Outage::new(plan.spool.clone(), plan.durable.seal.clone());
        let memory = durable::Memory::new(plan.durable.clone());
        let expiry = durable::Expiry::new(plan.retention, now);
        Engine {
            plan,
            reports: ends.reports,
            stop: ends.stop,
            desk: Desk::new(ends.inbox, ends.end, shards, outage),
            cluster: None,
            session: None,
            backoff: Backoff::new(now),
            durable: memory,
            expiry,
            declared: Declared::default(),
            revision: None,
            poll_at: now,
            beat_at: now,
            others: Vec::new(),
        }
    }

    /// Serves until the end, then lets go of the server and stops the private cluster. Blocks the
    /// thread.
    pub fn run(mut self) {
        // With a cluster of its own the broker has to have the data folder first: a second one on it is
        // to be told that, and not that it may not use the spool in there.
        if let Source::Server(_) = self.plan.source {
            self.desk.outage.take_over();
        }
        while self.turn() {}
        self.close();
    }

    /// Waits for a job or a deadline and does what there is to do; false when nobody is left to ask.
    fn turn(&mut self) -> bool {
        if self.desk.wait_until(self.next_deadline()) == Arrival::Over {
            return false;
        }
        if self.session.is_none() && self.backoff.is_over(Instant::now()) && !self.stop.is_ordered()
        {
            self.reopen();
        }
        self.take_removed();
        self.serve_waiting();
        let now = Instant::now();
        if self.session.is_some() && self.poll_at <= now {
            self.poll();
        }
        if self.session.is_some() && self.beat_at <= now {
            self.desk.tend();
            self.beat();
        }
        if self.session.is_some() && self.expiry.next() <= now && !self.stop.is_ordered() {
            self.expire();
        }
        self.desk.flush();
        self.plan.status.set_spooled(self.desk.outage.size());
        self.plan.status.set_waiting(self.durable.waiting());
        true
    }

    fn next_deadline(&self) -> Instant {
        let next = if self.session.is_some() {
            let mut next = self.poll_at.min(self.beat_at);
            if !self.stop.is_ordered() {
                next = next.min(self.expiry.next());
            }
            next.min(self.durable.next_deadline().unwrap_or(next))
        } else if self.stop.is_ordered() {
            // No session is opened any more: only the end is waited for.
            Instant::now() + Duration::from_millis(POLL_MS)
        } else {
            self.backoff.until()
        };
        self.desk.next_flush(next)
    }

    /// Says that it is there, finds out who else is, and whether writing works.
    fn beat(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        let outcome = session
            .beat(&self.plan.name, store::statement_timeout())
            .and_then(|others| session.forget_changes().map(|()| others));
        let mut next = BEAT_MS;
        match outcome {
            Ok(others) => {
                self.plan.status.writes();
                self.note_others(others);
                self.desk.outage.take_over_late();
                self.desk.tend();
                self.save_switch();
            }
            Err(fault) => {
                next = WRITE_RETRY_MS;
                self.note_fault(fault);
            }
        }
        self.beat_at = Instant::now() + Duration::from_millis(next);
    }

    fn note_others(&mut self, mut others: Vec<String>) {
        // One of its own name has been here before it.
        others.retain(|other| *other != self.plan.name);
        if others != self.others && !others.is_empty() {
            tracing::warn!(
                others = others.join(", "),
                "other brokers use this database: declared queues, grants and the pause switch \
                 hold for all of them, but what an ephemeral queue holds is each broker's own"
            );
        }
        self.others = others;
    }

    /// Takes over what has changed in the database.
    fn poll(&mut self) {
        if let Err(fault) = self.follow().and_then(|()| self.follow_durable()) {
            self.note_fault(fault);
        }
        self.poll_at = Instant::now() + Duration::from_millis(POLL_MS);
    }

    /// What a fault of the session means from now on.
    fn note_fault(&mut self, fault: SessionFault) {
        match fault {
            SessionFault::Write { reason, .. } => {
                self.plan.status.write_fault(&reason);
                self.beat_at = Instant::now() + Duration::from_millis(WRITE_RETRY_MS);
            }
            fault => self.lose_session(&fault.to_string()),
        }
    }
}
