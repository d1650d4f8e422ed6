//! Messages that are given up because they are too old (`maxWaitTimeSeconds`): looked for in steps, and
//! stored as any other batch is.

use std::time::{Duration, Instant};

use super::state::Memory;
use super::store::Store;
use super::{Served, judge, set_clock, store_judged};
use crate::engine::{Engine, RetentionPlan, Shards};
use crate::limits::RETENTION_PAUSE_MS;
use crate::postgres::SessionFault;
use crate::postgres::durable::{Expired, Round};

/// When the engine looks for what is too old, and how far it has come.
#[derive(Debug)]
pub(in crate::engine) struct Expiry {
    plan: RetentionPlan,
    round: Round,
    next: Instant,
}

impl Expiry {
    pub(in crate::engine) fn new(plan: RetentionPlan, now: Instant) -> Expiry {
        Expiry {
            plan,
            round: Round::default(),
            next: now + plan.interval,
        }
    }

    /// When to look next.
    pub(in crate::engine) fn next(&self) -> Instant {
        self.next
    }

    fn look_again(&mut self, is_over: bool) {
        let pause = Duration::from_millis(RETENTION_PAUSE_MS);
        let wait = if is_over { self.plan.interval } else { pause };
        self.next = Instant::now() + wait;
    }
}

impl<S: Shards> Engine<S> {
    /// Goes one step further and gives up what is too old.
    pub(in crate::engine) fn expire(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        let (memory, expiry) = (&mut self.durable, &mut self.expiry);
        let found = set_clock(memory, session)
            .and_then(|()| session.find_expired(&mut expiry.round, expiry.plan.rows_max));
        let done = found.and_then(|step| {
            let served = give_up(memory, session, &step.expired)?;
            Ok((served, step.is_over))
        });
        match done {
            Ok((Served::Done(answers), is_over)) => {
                self.expiry.look_again(is_over);
                for (client, answer) in answers {
                    self.answer_durable(client, answer);
                }
            }
            // The next round finds it once more.
            Ok((Served::Contended, _)) => self.expiry.look_again(true),
            Err(fault) => {
                tracing::warn!("messages that are too old are not given up yet: {fault}");
                self.expiry.look_again(true);
                self.note_fault(fault);
            }
        }
    }

    /// Takes over what the reader has removed.
    pub(in crate::engine) fn take_removed(&mut self) {
        for removed in self.plan.server.take_removed() {
            self.durable.begin_later(removed);
        }
    }
}

/// Gives up what is too old, all of it or nothing.
pub(super) fn give_up(
    memory: &mut Memory,
    store: &mut dyn Store,
    expired: &[Expired],
) -> Result<Served, SessionFault> {
    if expired.is_empty() {
        return Ok(Served::Done(Vec::new()));
    }
    let mut judge_all = |judge: &mut judge::Judge<'_>| {
        let mut expired = expired.iter();
        expired.try_for_each(|expired| judge.expire(expired))
    };
    store_judged(memory, store, &mut judge_all)
}
