//! What has gathered is stored as one transaction; then everybody is answered.

use std::time::{Duration, Instant};

use super::desk::{UNCERTAIN, Waiting};
use super::{Engine, Shards, Stored};
use crate::limits::{ENGINE_RETRY_MS, SESSION_STATEMENT_MS};
use crate::model::{Change, Configure, Declaration, Job, QueueName, Refusal, Reply, TenantId};
use crate::postgres::{SessionFault, StoreItem};

/// How long one transaction may take.
pub(super) fn statement_timeout() -> Duration {
    Duration::from_millis(SESSION_STATEMENT_MS)
}

/// A change for which there is room.
struct Accepted<P> {
    waiting: Waiting,
    slot: Option<P>,
}

impl<S: Shards> Engine<S> {
    /// Serves all that waits, as far as there is a session.
    pub(super) fn serve_waiting(&mut self) {
        if self.session.is_none() {
            self.desk.tend();
            return;
        }
        let (mut batch, mut durable) = (Vec::new(), Vec::new());
        for waiting in self.desk.take_all() {
            match waiting.job.change {
                Change::Switch { .. } => {
                    // What came before it is stored before it.
                    self.store(std::mem::take(&mut batch));
                    self.switch(waiting);
                }
                Change::Declare(_) | Change::Remove(_) => batch.push(waiting),
                Change::Durable(_) => durable.push(waiting.job),
            }
        }
        self.store(batch);
        self.serve_durable(durable);
    }

    /// Stores changes as one transaction; each gets its own answer. Whoever has come meanwhile is not
    /// forgotten: many transactions may follow upon each other, and each may take its time.
    fn store(&mut self, batch: Vec<Waiting>) {
        if batch.is_empty() {
            return;
        }
        self.desk.tend();
        let started = Instant::now();
        let batch = self.desk.in_time(batch);
        let accepted = self.accept(batch);
        if accepted.is_empty() {
            return;
        }
        let items: Vec<StoreItem> = accepted
            .iter()
            .map(|one| item_of(&one.waiting.job))
            .collect();
        let stored = match &mut self.session {
            Some(session) => session.store(&items, statement_timeout()),
            None => Err(SessionFault::Away {
                reason: "the session broke".to_owned(),
            }),
        };
        match stored {
            Ok(()) => {
                self.plan.status.stored(accepted.len());
                accepted.into_iter().for_each(|one| self.complete(one));
            }
            Err(SessionFault::Write { heals: false, .. }) if accepted.len() > 1 => {
                // One of them is at fault: by halves it is soon alone, and the others are served.
                let mut first: Vec<Waiting> = accepted.into_iter().map(|one| one.waiting).collect();
                let second = first.split_off(first.len() / 2);
                self.store(first);
                self.store(second);
            }
            Err(SessionFault::Write {
                reason,
                heals: false,
            }) => {
                for one in accepted {
                    self.refuse_for_good(one.waiting.job, &reason);
                }
            }
            Err(fault) => self.store_failed(accepted, fault, started),
        }
    }

    /// Reserves room for what is to be declared; whoever finds none is refused.
    fn accept(&mut self, batch: Vec<Waiting>) -> Vec<Accepted<S::Slot>> {
        let mut accepted = Vec::with_capacity(batch.len());
        for waiting in batch {
            let Job { client, tenant, .. } = waiting.job;
            let mut slot = None;
            if let Change::Declare(configure) = &waiting.job.change {
                match self.desk.shards.reserve(tenant, configure.queue.as_str()) {
                    Ok(reserved) => slot = reserved,
                    Err(refusal) => {
                        self.desk.shards.answer(client, Reply::Refused(refusal));
                        continue;
                    }
                }
            }
            accepted.push(Accepted { waiting, slot });
        }
        accepted
    }

    /// A change is stored.
    fn complete(&mut self, Accepted { waiting, slot }: Accepted<S::Slot>) {
        let Job {
            client,
            tenant,
            change,
            ..
        } = waiting.job;
        match change {
            Change::Declare(configure) => {
                self.declared.put(&declaration_of(tenant, &configure));
                let configure = Configure {
                    stored: true,
                    ..configure
                };
                let stored = Stored { configure, slot };
                self.desk.shards.declare(client, tenant, stored);
            }
            Change::Remove(queue) => {
                self.declared.remove(tenant, queue.as_str());
                self.desk.shards.remove(client, tenant, queue);
            }
            Change::Switch { .. } | Change::Durable(_) => {
                unreachable!("only declarations are stored here")
            }
        }
    }

    /// The environment was at fault. What was on its way when a session broke is tried once more:
    /// storing it twice does no harm.
    fn store_failed(
        &mut self,
        accepted: Vec<Accepted<S::Slot>>,
        fault: SessionFault,
        started: Instant,
    ) {
        let mut jobs: Vec<Waiting> = accepted.into_iter().map(|one| one.waiting).collect();
        let reason = fault.to_string();
        let broke = !matches!(fault, SessionFault::Write { .. });
        self.note_fault(fault);
        let quick = started.elapsed() < Duration::from_millis(ENGINE_RETRY_MS);
        if broke && quick && jobs.iter().all(|waiting| !waiting.tried) {
            jobs.iter_mut().for_each(|waiting| waiting.tried = true);
            self.desk.put_back(jobs);
            return;
        }
        let uncertain = if broke { UNCERTAIN } else { "" };
        let reason = reason + uncertain;
        for waiting in jobs {
            self.desk.refuse(waiting.job, reason.clone());
        }
    }

    fn refuse_for_good(&mut self, job: Job, reason: &str) {
        let refusal = Refusal::StoreFailed {
            removal: matches!(job.change, Change::Remove(_)),
            reason: reason.to_owned(),
        };
        self.desk.shards.answer(job.client, Reply::Refused(refusal));
    }

    /// The operator's switch: it holds here whatever becomes of it in the database.
    fn switch(&mut self, waiting: Waiting) {
        self.desk.tend();
        for Waiting { job, .. } in self.desk.in_time(vec![waiting]) {
            let Change::Switch { enabled } = job.change else {
                unreachable!("changes of declarations are stored in batches");
            };
            self.desk.shards.set_enabled(enabled);
            self.desk.unsaved_switch = Some(enabled);
            let mirrored = self.store_switch(enabled);
            let reply = Reply::Switched { enabled, mirrored };
            self.desk.shards.answer(job.client, reply);
        }
    }

    /// Stores the switch; false if it cannot be now.
    pub(super) fn store_switch(&mut self, enabled: bool) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        match session.set_ephemeral_enabled(enabled, statement_timeout()) {
            Ok(()) => {
                self.desk.unsaved_switch = None;
                self.plan.status.stored(1);
                self.plan.status.set_mirrored(true);
                true
            }
            Err(fault) => {
                self.plan.status.set_mirrored(false);
                self.note_fault(fault);
                false
            }
        }
    }
}

fn item_of(job: &Job) -> StoreItem {
    match &job.change {
        Change::Declare(configure) => StoreItem::Declare(declaration_of(job.tenant, configure)),
        Change::Remove(queue) => StoreItem::Remove {
            tenant: job.tenant,
            queue: name_of(queue),
        },
        Change::Switch { .. } | Change::Durable(_) => {
            unreachable!("only declarations are stored here")
        }
    }
}

fn name_of(queue: &QueueName<'_>) -> String {
    queue.as_str().to_owned()
}

fn declaration_of(tenant: TenantId, configure: &Configure<'_>) -> Declaration {
    Declaration {
        tenant,
        queue: name_of(&configure.queue),
        options: configure.options_as_sent.clone().into_owned(),
    }
}
