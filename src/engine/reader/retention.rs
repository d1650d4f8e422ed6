//! Removes what is old enough and what belonged to deleted queues, in bounded steps on a session of its
//! own, apart from the one that stores: a push waits for none of it.

use std::time::{Duration, Instant};

use crate::engine::{RetentionPlan, Whereabouts};
use crate::limits::{IDLE_PARTITIONS_MS, RETENTION_PAUSE_MS};
use crate::postgres::durable::Round;
use crate::postgres::{Session, SessionFault};

/// When the reader removes what is old, and how far it has come.
#[derive(Debug)]
pub(super) struct Retention {
    plan: RetentionPlan,
    session: Option<Session>,
    round: Round,
    next: Instant,
    /// The same for partitions that nobody uses any more.
    idle_round: Round,
    idle_next: Instant,
    /// The two take turns: neither holds the other one up.
    is_idle_turn: bool,
}

impl Retention {
    pub(super) fn new(plan: RetentionPlan, now: Instant) -> Retention {
        Retention {
            plan,
            session: None,
            round: Round::default(),
            next: now + plan.interval,
            idle_round: Round::default(),
            idle_next: now,
            is_idle_turn: false,
        }
    }

    /// When the next step is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// One step, in a session that is opened where there is none.
    pub(super) fn step(
        &mut self,
        server: &Whereabouts,
        open: impl FnOnce() -> Result<Option<Session>, SessionFault>,
    ) {
        let outcome = match self.session.take() {
            Some(session) => Ok(Some(session)),
            None => open(),
        };
        let is_over = match outcome {
            Ok(None) => true,
            Ok(Some(mut session)) => match self.remove(&mut session, server) {
                Ok(is_over) => {
                    self.session = Some(session);
                    is_over
                }
                Err(fault) => {
                    if matches!(fault, SessionFault::Write { .. }) {
                        self.session = Some(session);
                    }
                    self.failed(&fault)
                }
            },
            Err(fault) => self.failed(&fault),
        };
        let pause = Duration::from_millis(RETENTION_PAUSE_MS);
        let wait = if is_over { self.plan.interval } else { pause };
        self.next = Instant::now() + wait;
    }

    /// What could not be removed is tried again in the next round.
    fn failed(&mut self, fault: &SessionFault) -> bool {
        tracing::warn!("old messages are not removed yet: {fault}");
        self.round = Round::default();
        self.idle_round = Round::default();
        true
    }

    /// Whether nothing is left until the next round.
    fn remove(
        &mut self,
        session: &mut Session,
        server: &Whereabouts,
    ) -> Result<bool, SessionFault> {
        let rows_max = self.plan.rows_max;
        let idle = self.plan.idle;
        let idle = idle.filter(|_| self.idle_next <= Instant::now());
        self.is_idle_turn = !self.is_idle_turn && idle.is_some();
        if let Some(idle) = idle.filter(|_| self.is_idle_turn) {
            let (removed, is_over) = session.remove_idle(&mut self.idle_round, idle, rows_max)?;
            if !removed.is_empty() {
                let partitions = removed.len();
                tracing::info!(partitions, "partitions that nobody used are gone");
                server.add_removed(&removed);
            }
            if is_over {
                self.idle_next = Instant::now() + Duration::from_millis(IDLE_PARTITIONS_MS);
            }
            return Ok(false);
        }
        let swept = session.sweep_leftovers(rows_max)?;
        assert!(swept <= rows_max, "a step swept {swept} rows");
        if swept == rows_max {
            return Ok(false);
        }
        let step = session.retain(&mut self.round, rows_max - swept)?;
        server.add_removed(&step.partitions);
        Ok(step.is_over && idle.is_none())
    }
}
