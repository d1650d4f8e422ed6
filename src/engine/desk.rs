//! Where jobs wait. Whatever the engine blocks on, it tends the desk meanwhile, so that nobody waits
//! longer than a client should.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};

use super::outage::{Late, Outage};
use super::{Shards, StopOrder};
use crate::limits::{ENGINE_BEGIN_MS, ENGINE_FLUSH_MS, ENGINE_JOBS_MAX, ENGINE_PATIENCE_MS};
use crate::model::{Change, ClientRef, Job, Refusal, Reply, durable};

/// Jobs that wait, and who is told what became of them.
#[derive(Debug)]
pub(super) struct Desk<S> {
    inbox: Receiver<Job>,
    /// Closed when nobody is left who could ask.
    end: Receiver<()>,
    waiting: VecDeque<Waiting>,
    pub(super) shards: S,
    /// Why no server answers, if none does: whoever comes is told so at once.
    closed: Option<String>,
    /// What the operator has switched and nobody has stored.
    pub(super) unsaved_switch: Option<bool>,
    /// Where pushes go that cannot be stored now.
    pub(super) outage: Outage,
    /// Those that have gathered: they are spooled together.
    late: Vec<(ClientRef, Late)>,
    is_flushed: bool,
}

/// Said of what was on its way when a session broke.
pub(super) const UNCERTAIN: &str = "; it is not known whether this one was stored";

/// A job that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) job: Job,
    /// Whether it was on its way to the database when a session broke.
    pub(super) tried: bool,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A job, or the deadline.
    Due,
    /// Nobody is left who could send one.
    Over,
}

impl<S: Shards> Desk<S> {
    pub(super) fn new(
        inbox: Receiver<Job>,
        end: Receiver<()>,
        shards: S,
        outage: Outage,
    ) -> Desk<S> {
        Desk {
            inbox,
            end,
            waiting: VecDeque::new(),
            shards,
            closed: None,
            unsaved_switch: None,
            outage,
            late: Vec::new(),
            is_flushed: true,
        }
    }

    /// Waits for a job or until `deadline`, and takes what has arrived.
    pub(super) fn wait_until(&mut self, deadline: Instant) -> Arrival {
        if self.waiting.is_empty() {
            let timeout = deadline.saturating_duration_since(Instant::now());
            select! {
                // The cores hold its other end for as long as they live, and may outlive the end.
                recv(self.inbox) -> job => job.into_iter().for_each(|job| self.put(job)),
                recv(self.end) -> _ => return Arrival::Over,
                default(timeout) => {}
            }
        }
        self.take_in();
        Arrival::Due
    }

    /// When frames that wait for room have to be looked at again, at most `deadline`.
    pub(super) fn next_flush(&self, deadline: Instant) -> Instant {
        if self.is_flushed {
            return deadline;
        }
        deadline.min(Instant::now() + Duration::from_millis(ENGINE_FLUSH_MS))
    }

    fn take_in(&mut self) {
        while self.waiting.len() < ENGINE_JOBS_MAX
            && let Ok(job) = self.inbox.try_recv()
        {
            self.put(job);
        }
    }

    fn put(&mut self, job: Job) {
        self.waiting.push_back(Waiting { job, tried: false });
    }

    /// Takes all that waits.
    pub(super) fn take_all(&mut self) -> Vec<Waiting> {
        self.waiting.drain(..).collect()
    }

    /// Puts back what is to be tried once more.
    pub(super) fn put_back(&mut self, jobs: Vec<Waiting>) {
        for job in jobs.into_iter().rev() {
            self.waiting.push_front(job);
        }
    }

    /// While the engine blocks: refuses whoever has waited for too long, and at once whoever comes
    /// while no server answers.
    pub(super) fn tend(&mut self) {
        self.take_in();
        let patience = Duration::from_millis(ENGINE_PATIENCE_MS);
        let is_closed = self.closed.is_some();
        let over = |waiting: &Waiting| is_closed || waiting.job.since.elapsed() >= patience;
        while self.waiting.front().is_some_and(over) {
            let waiting = self.waiting.pop_front().expect("just seen");
            self.refuse_late(waiting);
        }
        self.flush();
    }

    /// The same; false once the broker stops, which waits for no server.
    pub(super) fn tend_until(&mut self, stop: &StopOrder) -> bool {
        self.tend();
        !stop.is_ordered()
    }

    /// Refuses a job that has waited for too long, or that waits for nothing.
    fn refuse_late(&mut self, waiting: Waiting) {
        let late = || "PostgreSQL did not answer in time".to_owned();
        let mut reason = self.closed.clone().unwrap_or_else(late);
        if waiting.tried {
            reason.push_str(UNCERTAIN);
        }
        self.refuse(waiting.job, reason);
    }

    /// Leaves those of a batch that can still be answered in time, and refuses the others.
    pub(super) fn in_time(&mut self, batch: Vec<Waiting>) -> Vec<Waiting> {
        let limit = Duration::from_millis(ENGINE_BEGIN_MS);
        let is_late = |waiting: &Waiting| waiting.job.since.elapsed() >= limit;
        let (late, rest): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_late);
        late.into_iter()
            .for_each(|waiting| self.refuse_late(waiting));
        rest
    }

    /// No server answers: nobody waits for one.
    pub(super) fn close(&mut self, reason: &str) {
        self.closed = Some(reason.to_owned());
    }

    /// A server answers.
    pub(super) fn reopen(&mut self) {
        self.closed = None;
    }

    /// Answers a job that could not be stored. The operator's switch holds on this broker all the
    /// same, and is stored as soon as it can be.
    pub(super) fn refuse(&mut self, job: Job, reason: String) {
        let reply = match job.change {
            Change::Switch { enabled } => {
                self.unsaved_switch = Some(enabled);
                self.shards.set_enabled(enabled);
                Reply::Switched {
                    enabled,
                    mirrored: false,
                }
            }
            Change::Declare(_) | Change::Remove(_) => {
                Reply::Refused(Refusal::DatabaseAway { reason })
            }
            Change::Durable(command) => match *command {
                durable::Command::Push(items) => {
                    let late = Late {
                        tenant: job.tenant,
                        items,
                        uncertain: false,
                    };
                    return self.spool_later(job.client, late);
                }
                _ => {
                    let uncertain = false;
                    Reply::Refused(Refusal::DurableAway { reason, uncertain })
                }
            },
        };
        self.shards.answer(job.client, reply);
    }

    /// A push that cannot be stored now is spooled, with all others that have gathered.
    pub(super) fn spool_later(&mut self, client: ClientRef, late: Late) {
        self.late.push((client, late));
    }

    /// Spools what has gathered, and answers.
    pub(super) fn spool_gathered(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let (clients, late): (Vec<ClientRef>, Vec<Late>) = self.late.drain(..).unzip();
        let accepted = self.outage.accept(&late);
        for (client, accepted) in clients.into_iter().zip(accepted) {
            let reply = match accepted {
                Ok(reply) => Reply::Durable(Box::new(reply)),
                Err(reason) => Reply::Refused(Refusal::DurableAway {
                    reason: format!("PostgreSQL does not answer, and {reason}"),
                    uncertain: false,
                }),
            };
            self.shards.answer(client, reply);
        }
    }

    /// Sends what waits for room at the cores.
    pub(super) fn flush(&mut self) {
        self.spool_gathered();
        self.is_flushed = !self.shards.flush();
    }
}
