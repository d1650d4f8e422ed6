//! Getting hold of a server, and letting go of it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::{Engine, Fault, Report, Shards, Source};
use crate::limits::{ENGINE_CLOSE_MARGIN_MS, REOPEN_MS_MAX, REOPEN_MS_MIN, SHUTDOWN_MS_MAX};
use crate::postgres::{ClusterFault, PrivateCluster, Progress, Session, SessionFault, Target};

/// When to try again: soon at first, then less often.
#[derive(Debug)]
pub(super) struct Backoff {
    until: Instant,
    pause: Duration,
}

impl Backoff {
    pub(super) fn new(now: Instant) -> Backoff {
        Backoff {
            until: now,
            pause: Duration::from_millis(REOPEN_MS_MIN),
        }
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.until = now + self.pause;
        self.pause = (self.pause * 2).min(Duration::from_millis(REOPEN_MS_MAX));
    }
}

impl<S: Shards> Engine<S> {
    /// Tries to get a session, everything loaded.
    pub(super) fn reopen(&mut self) {
        match self.open() {
            Ok(()) => {
                self.backoff = Backoff::new(Instant::now());
                self.desk.reopen();
                self.plan.status.connected();
                self.save_switch();
                self.report(Report::Loaded);
            }
            Err(fault) => {
                let reason = match &fault {
                    Fault::Cluster(fault) => fault.to_string(),
                    Fault::Session(fault) => fault.to_string(),
                };
                self.lose_session(&reason);
                self.desk.close(&reason);
                self.desk.tend();
                self.backoff.failed(Instant::now());
                match fault {
                    Fault::Cluster(fault) if self.cluster.is_none() && !heals(&fault) => {
                        self.report(Report::FolderUnusable(fault));
                    }
                    Fault::Cluster(_) => self.report(Report::ClusterFailed),
                    Fault::Session(SessionFault::Refused { reason }) => {
                        self.report(Report::ServerRefused(reason));
                    }
                    Fault::Session(_) => {}
                }
            }
        }
    }

    fn report(&self, report: Report) {
        // Once the broker serves nobody listens any more, and nothing is to gather for that.
        let _ = self.reports.try_send(report);
    }

    fn open(&mut self) -> Result<(), Fault> {
        let target = match self.plan.source.clone() {
            Source::Server(target) => *target,
            Source::Private(_) => self.start_cluster().map_err(Fault::Cluster)?,
        };
        let (desk, stop) = (&mut self.desk, &self.stop);
        let session = Session::open(
            &target,
            &self.plan.rules,
            &self.plan.incarnation,
            &mut || desk.tend_until(stop),
        );
        let mut session = session.map_err(Fault::Session)?;
        session.note_changes(self.plan.server.marks());
        self.session = Some(session);
        // Away for longer than removals are remembered: everything is read anew.
        self.revision = None;
        self.follow().map_err(Fault::Session)?;
        self.poll_at = Instant::now();
        // The others tell their changes only to who has signed.
        self.beat();
        self.follow_durable().map_err(Fault::Session)?;
        self.plan.server.found(target);
        Ok(())
    }

    /// Makes sure that the private cluster runs.
    fn start_cluster(&mut self) -> Result<Target, ClusterFault> {
        if self.cluster.is_none() {
            let Source::Private(plan) = self.plan.source.clone() else {
                unreachable!("only a private cluster is started");
            };
            self.cluster = Some(PrivateCluster::open(plan)?);
            self.desk.outage.take_over();
        }
        let cluster = self.cluster.as_mut().expect("it was just opened");
        if !cluster.is_running() || cluster.address().is_none() {
            let (desk, stop) = (&mut self.desk, &self.stop);
            let started = cluster.start(&mut |progress| {
                if let Progress::Step(step) = progress {
                    tracing::info!("private cluster: {step}");
                }
                match desk.tend_until(stop) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
            tracing::info!(?started, "the private cluster lets the broker in");
        }
        let address = cluster.address().expect("a started server has an address");
        self.report(Report::ClusterReady);
        Ok(Target::of_cluster(&address))
    }

    /// There is no session any more; the next one is tried for soon.
    pub(super) fn lose_session(&mut self, reason: &str) {
        self.session = None;
        self.plan.server.lost();
        self.lose_durable(reason);
        self.plan.status.away(reason);
    }

    /// Lets go of the server. A private cluster is stopped within what is left of the shutdown.
    pub(super) fn close(mut self) {
        self.session = None;
        let Some(mut cluster) = self.cluster.take() else {
            return;
        };
        let limit = Duration::from_millis(SHUTDOWN_MS_MAX - ENGINE_CLOSE_MARGIN_MS);
        let stopped = cluster.stop(self.stop.left_of(limit));
        tracing::info!(?stopped, "the private cluster is stopped");
    }
}

/// Whether trying again may help where the data folder could not be taken.
fn heals(fault: &ClusterFault) -> bool {
    matches!(fault, ClusterFault::DiskFull { .. })
}
