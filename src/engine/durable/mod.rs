//! The durable class: queues, partitions, consumer groups and leases in PostgreSQL.
//!
//! What has gathered is judged request by request on what is remembered (`image`, `window`, `tail`), its
//! outcome is stored by one statement (`draft`), and only then everybody is answered. The statement
//! checks that every row is as it was judged on, so what is remembered may be wrong without harm: then
//! it is read anew and the batch judged again. That check is the only thing that keeps brokers on one
//! database apart (`postgres/sql/0003_durable.sql` has the argument).
//!
//! In reading order: `store` is what is asked of the database, `image`, `window` and `tail` what is
//! remembered of a queue, `state` of all queues, `bounds` how much of it, `waiters` who waits, `lease`
//! the ids of leases, `settle` the rules of acks, `judge` judges, `draft` is what comes of it, `answers`
//! what everybody is told, `follow` what other brokers change, `restore` stores what an outage has left,
//! `declare` makes and removes queues, `administer` is what operators ask for, `expire` gives up what is
//! too old.

mod administer;
mod answers;
mod bounds;
mod declare;
mod draft;
#[cfg(test)]
mod durable_test;
#[cfg(test)]
mod encryption_test;
mod expire;
#[cfg(test)]
mod expire_test;
mod follow;
#[cfg(test)]
mod gathering_test;
mod image;
mod judge;
mod lease;
#[cfg(test)]
mod leases_test;
#[cfg(test)]
mod replays_test;
mod restore;
mod settle;
mod state;
mod store;
#[cfg(test)]
mod store_test;
mod tail;
mod waiters;
mod window;

use std::time::Instant;

use hashbrown::HashSet;

use self::answers::{answers_of, gather};
use self::bounds::Bounds;
use self::declare::{configure_queue, delete_queue};
use self::draft::{Answer, Draft};
pub(super) use self::expire::Expiry;
use self::follow::{changes_of_others, take_over};
use self::judge::Judge;
pub use self::state::DurableRules;
pub(super) use self::state::Memory;
use self::store::Store;
pub(super) use self::window::hash_of;
use super::desk::UNCERTAIN;
use super::outage::Late;
use super::{Engine, Shards};
use crate::limits::{DURABLE_TAIL_BYTES, DURABLE_TRIES_MAX};
use crate::model::durable::{Command, Popped, Reply};
use crate::model::{Change, ClientRef, Job, Refusal, TenantId};
use crate::postgres::SessionFault;
use crate::postgres::durable::{Batch, Committed, CursorWrite, NewPartition, Tail};

/// One request of a batch.
struct Asked {
    client: ClientRef,
    tenant: TenantId,
    command: Command,
}

/// What became of a batch.
enum Served {
    /// It is stored; the answers to give.
    Done(Vec<(ClientRef, Answered)>),
    /// Other brokers were faster every time.
    Contended,
}

/// A full answer.
type Answered = Result<Reply, Refusal>;

impl<S: Shards> Engine<S> {
    /// Serves requests of the durable class, and whoever waits.
    pub(super) fn serve_durable(&mut self, jobs: Vec<Job>) {
        let mut batch = Vec::new();
        for job in jobs {
            let Change::Durable(command) = job.change else {
                unreachable!("only requests of the durable class are served here");
            };
            let asked = Asked {
                client: job.client,
                tenant: job.tenant,
                command: *command,
            };
            match asked.command {
                Command::Configure(_) | Command::Delete { .. } => {
                    // What came before it is stored before it.
                    self.serve_batch(std::mem::take(&mut batch));
                    self.administer(asked);
                }
                Command::Administer(_) => {
                    self.serve_batch(std::mem::take(&mut batch));
                    for asked in self.divert(vec![asked]) {
                        self.serve_operator(asked);
                    }
                }
                _ => batch.push(asked),
            }
        }
        self.serve_batch(batch);
        self.restore_spooled();
        if self.stop.is_ordered() {
            self.release_waiting();
        }
    }

    /// The broker stops: nobody waits on.
    fn release_waiting(&mut self) {
        for waiter in self.durable.waiters.take_all() {
            let popped = Popped {
                queue: None,
                group: (&*waiter.pop.group).into(),
                lease_id: None,
                claims: Vec::new(),
            };
            self.answer_durable(waiter.client, Ok(Reply::Popped(Box::new(popped))));
        }
    }

    /// Serves a batch; an empty one where something is due.
    fn serve_batch(&mut self, batch: Vec<Asked>) {
        let batch = self.divert(batch);
        let Some(session) = &mut self.session else {
            let reason = "PostgreSQL does not answer";
            for asked in batch {
                self.refuse_or_spool(asked, reason, false);
            }
            return;
        };
        if let Err(fault) = set_clock(&mut self.durable, session) {
            return self.durable_failed(batch, fault);
        }
        let now_us = self.durable.time_us(Instant::now());
        if batch.is_empty() && !self.durable.is_due(now_us) {
            return;
        }
        match serve(&mut self.durable, session, &batch) {
            Ok(Served::Done(answers)) => {
                for (client, answer) in answers {
                    self.answer_durable(client, answer);
                }
            }
            Ok(Served::Contended) => {
                let text = "other brokers change the same partitions; try again in a moment";
                for asked in batch {
                    let refusal = Refusal::Overloaded { text };
                    self.answer_durable(asked.client, Err(refusal));
                }
            }
            Err(SessionFault::Write { heals: false, .. }) if batch.len() > 1 => {
                // One of them is at fault: by halves it is soon alone, and the others are served.
                let mut first = batch;
                let second = first.split_off(first.len() / 2);
                self.serve_batch(first);
                self.serve_batch(second);
            }
            Err(fault) => self.durable_failed(batch, fault),
        }
    }

    fn answer_durable(&mut self, client: ClientRef, answer: Answered) {
        let reply = match answer {
            Ok(reply) => crate::model::Reply::Durable(Box::new(reply)),
            Err(refusal) => crate::model::Reply::Refused(refusal),
        };
        self.desk.shards.answer(client, reply);
    }

    fn refuse_durable(&mut self, client: ClientRef, reason: &str, uncertain: bool) {
        let reason = reason.to_owned();
        self.answer_durable(client, Err(Refusal::DurableAway { reason, uncertain }));
    }

    /// The database was at fault.
    fn durable_failed(&mut self, batch: Vec<Asked>, fault: SessionFault) {
        let mut reason = fault.to_string();
        let heals_not = matches!(fault, SessionFault::Write { heals: false, .. });
        let uncertain = !matches!(fault, SessionFault::Write { .. });
        if uncertain {
            reason.push_str(UNCERTAIN);
        }
        self.note_fault(fault);
        for asked in batch {
            if heals_not {
                let reason = reason.clone();
                self.answer_durable(asked.client, Err(Refusal::DurableFailed { reason }));
            } else {
                self.refuse_or_spool(asked, &reason, uncertain);
            }
        }
    }

    /// A push is accepted all the same; whoever asks for anything else is refused.
    fn refuse_or_spool(&mut self, asked: Asked, reason: &str, uncertain: bool) {
        match asked.command {
            Command::Push(items) => {
                let tenant = asked.tenant;
                let late = Late {
                    tenant,
                    items,
                    uncertain,
                };
                self.desk.spool_later(asked.client, late);
            }
            _ => self.refuse_durable(asked.client, reason, uncertain),
        }
    }

    /// There is no session any more: nobody waits for a message that cannot come.
    pub(super) fn lose_durable(&mut self, reason: &str) {
        self.durable.forget_all();
        for waiter in self.durable.waiters.take_all() {
            self.refuse_durable(waiter.client, reason, false);
        }
    }

    /// Configures or removes a queue.
    fn administer(&mut self, asked: Asked) {
        let Some(session) = &mut self.session else {
            let reason = "PostgreSQL does not answer";
            return self.refuse_durable(asked.client, reason, false);
        };
        let done = match set_clock(&mut self.durable, session) {
            Err(fault) => Err(fault),
            Ok(()) => match &asked.command {
                Command::Configure(configure) => {
                    configure_queue(&mut self.durable, session, asked.tenant, configure)
                }
                Command::Delete { queue } => {
                    delete_queue(&mut self.durable, session, asked.tenant, queue)
                }
                other => unreachable!("{other:?} is judged"),
            },
        };
        match done {
            Ok(answer) => self.answer_durable(asked.client, answer),
            Err(fault) => self.durable_failed(vec![asked], fault),
        }
    }
}

/// Sets the clock by the database's where it was never set.
fn set_clock(
    memory: &mut Memory,
    session: &mut crate::postgres::Session,
) -> Result<(), SessionFault> {
    if memory.has_no_clock() {
        let time_us = session.database_time_us()?;
        memory.set_clock(Instant::now(), time_us);
    }
    Ok(())
}

fn judge_of<'a>(memory: &'a mut Memory, store: &'a mut dyn Store) -> Judge<'a> {
    Judge {
        now_us: memory.time_us(Instant::now()),
        memory,
        store,
        draft: Draft::default(),
    }
}

/// Judges a batch and stores what comes of it.
fn serve(
    memory: &mut Memory,
    store: &mut dyn Store,
    batch: &[Asked],
) -> Result<Served, SessionFault> {
    let mut judge_all = |judge: &mut Judge<'_>| {
        let mut batch = batch.iter();
        batch.try_for_each(|asked| judge.serve(asked.client, asked.tenant, &asked.command))
    };
    store_judged(memory, store, &mut judge_all)
}

/// Stores what is judged, and whoever waits is served; judged again where another broker was faster.
fn store_judged(
    memory: &mut Memory,
    store: &mut dyn Store,
    judge_all: &mut dyn FnMut(&mut Judge<'_>) -> Result<(), SessionFault>,
) -> Result<Served, SessionFault> {
    let mut tries = 0;
    while tries < DURABLE_TRIES_MAX {
        let mut judge = judge_of(memory, store);
        let now_us = judge.now_us;
        let judged = judge_all(&mut judge).and_then(|()| judge.wake());
        let mut draft = judge.draft;
        // Nobody is refused by what another broker may have changed.
        let changes = judged.and_then(|()| match draft.refuses {
            true => changes_of_others(memory, store),
            false => Ok(None),
        });
        let committed = match changes {
            Ok(Some(changes)) => {
                undo(memory, draft);
                take_over(memory, store, &changes, &[])?;
                tries += 1;
                continue;
            }
            Ok(None) if draft.is_empty() => Ok(Committed::Stored),
            Ok(None) => {
                let stored = batch_of(memory, &draft);
                match gather(memory, store, &mut draft) {
                    Ok(suspects) if suspects.is_empty() => store.commit_batch(&stored),
                    Ok(suspects) => {
                        // Each is a queue more whose messages are opened: it comes to an end.
                        undo(memory, draft);
                        memory.suspects.extend(suspects);
                        continue;
                    }
                    Err(fault) => Err(fault),
                }
            }
            Err(fault) => Err(fault),
        };
        match committed {
            Ok(Committed::Stored) => {
                settle_draft(memory, &draft, now_us);
                let answers = answers_of(memory, draft);
                memory.keep_within(&Bounds::BROKER, now_us);
                return Ok(Served::Done(answers));
            }
            Ok(Committed::Stale) => {
                let partitions = undo(memory, draft);
                // Messages come with the options under which they were pushed.
                let changes = changes_of_others(memory, store)?;
                if memory.followed.is_none() {
                    memory.forget_all();
                }
                take_over(memory, store, &changes.unwrap_or_default(), &partitions)?;
                tries += 1;
            }
            Err(fault) => {
                undo(memory, draft);
                return Err(fault);
            }
        }
    }
    Ok(Served::Contended)
}

/// What a draft stores. Packs what is appended, and keeps it for whoever takes it next.
fn batch_of(memory: &mut Memory, draft: &Draft) -> Batch {
    let mut batch = Batch::default();
    for &slot in &draft.queues {
        batch.queues.extend(memory.queue(slot).row.clone());
    }
    for &(slot, partition, created_us) in &draft.partitions {
        let queue = memory.queue(slot);
        let partition = &queue.partitions[partition];
        batch.partitions.push(NewPartition {
            id: partition.id,
            queue_id: queue.row.as_ref().expect("it was made").id,
            name: (&*partition.name).into(),
            created_us,
        });
    }
    let made: HashSet<i64> = batch.partitions.iter().map(|made| made.id).collect();
    for (&(slot, partition), append) in &draft.appends {
        let seal = memory.seal_of(slot);
        let partition = &mut memory.queue_mut(slot).partitions[partition];
        // What comes to be in this batch ends nowhere yet.
        if !made.contains(&partition.id) {
            batch.tails.push(Tail {
                partition_id: partition.id,
                next_offset: append.base_offset,
            });
        }
        for (row, tail) in append.pack(partition.id, seal.as_ref()) {
            batch.segments.push(row);
            partition.tail.push(tail);
        }
    }
    for &cursor in draft.cursors.keys() {
        let queue = memory.queue(cursor.queue);
        let place = queue.cursor(cursor.group, cursor.partition);
        batch.cursors.push(CursorWrite {
            group_id: queue.groups[cursor.group].id,
            partition_id: queue.partitions[cursor.partition].id,
            version: place.version,
            state: place.state,
        });
    }
    batch.dead_letters.clone_from(&draft.dead_letters);
    batch.spooled = draft.spooled;
    batch.replayed_letters.extend(&draft.replayed);
    batch
}

/// A draft is stored: cursors count on, and of what was appended only the newest is kept in memory.
fn settle_draft(memory: &mut Memory, draft: &Draft, now_us: i64) {
    memory.changed.clear();
    for cursor in draft.cursors.keys() {
        let group = &mut memory.queue_mut(cursor.queue).groups[cursor.group];
        let place = group
            .cursors
            .get_mut(&cursor.partition)
            .expect("it was moved");
        place.version += 1;
    }
    for &(slot, partition) in draft.appends.keys() {
        let kept = &mut memory.queue_mut(slot).partitions[partition];
        kept.tail.shrink_to(DURABLE_TAIL_BYTES);
        memory.weigh((slot, partition), now_us);
    }
}

/// A draft is not stored: what is remembered is as it was before, and who has waited waits on. Answers
/// with the partitions that it would have changed.
fn undo(memory: &mut Memory, draft: Draft) -> Vec<i64> {
    for (&cursor, before) in &draft.cursors {
        memory.put_back(cursor, before);
    }
    for (&(slot, partition), append) in &draft.appends {
        let queue = memory.queue_mut(slot);
        queue.partitions[partition].roll_back(append.base_offset);
        queue.recount();
    }
    let changed = draft.changed_partitions();
    let ids = changed
        .iter()
        .map(|&(slot, partition)| memory.queue(slot).partitions[partition].id)
        .collect();
    let forgotten = draft.changed_queues();
    for (_, answer) in draft.answers {
        if let Answer::Popped(popped) = answer
            && let Some(waiter) = popped.waiter
        {
            memory.waiters.park(waiter);
        }
    }
    // Whoever asked is judged again or refused: nobody is answered twice.
    for number in draft.parked {
        memory.waiters.take(number);
    }
    for slot in draft.looked_at.into_iter().chain(draft.stirred) {
        memory.look_again_at(slot);
    }
    for slot in forgotten {
        memory.forget(slot);
    }
    memory.look_at_all |= draft.looked_at_all;
    ids
}
