//! The durable class: queues, partitions, consumer groups and leases in PostgreSQL.
//!
//! What has gathered is judged request by request on what is remembered (`image`, `window`, `tail`), its
//! outcome is stored by one statement (`draft`), and only then everybody is answered. The statement
//! checks that every row is as it was judged on, so what is remembered may be wrong without harm: then
//! it is read anew and the batch judged again. That check is the only thing that keeps brokers on one
//! database apart (`postgres/sql/0003_durable.sql` has the argument).
//!
//! In reading order: `store` is what is asked of the database, `image`, `window` and `tail` what is
//! remembered of a queue, `state` of all queues, `waiters` who waits, `settle` the rules of acks,
//! `judge` judges, `draft` is what comes of it, `administer` is what operators ask for, `expire` gives up
//! what is too old.

mod administer;
mod draft;
#[cfg(test)]
mod durable_test;
mod expire;
#[cfg(test)]
mod expire_test;
mod image;
mod judge;
#[cfg(test)]
mod replays_test;
mod settle;
mod state;
mod store;
#[cfg(test)]
mod store_test;
mod tail;
mod waiters;
mod window;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashSet;

use self::draft::{Answer, Draft};
pub(super) use self::expire::Expiry;
use self::judge::Judge;
pub(super) use self::state::Memory;
use self::store::Store;
pub(super) use self::window::hash_of;
use super::desk::UNCERTAIN;
use super::outage::Late;
use super::spool::Entry;
use super::{Engine, Shards};
use crate::limits::{DURABLE_TAIL_BYTES, DURABLE_TRIES_MAX, FOLLOW_MS_MAX};
use crate::model::durable::{
    Claim, Command, Configure, Configured, OptionChange, Piece, Popped, QueueOptions, Reply, Start,
};
use crate::model::{Change, ClientRef, Job, Refusal, TenantId};
use crate::postgres::SessionFault;
use crate::postgres::durable::{
    Batch, Committed, CursorWrite, DurableChanges, NewPartition, QueueRow, Range, SpoolStep, Tail,
};

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
                    self.serve_operator(asked);
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

    /// While pushes wait to be stored, later ones wait behind them.
    fn divert(&mut self, batch: Vec<Asked>) -> Vec<Asked> {
        if !self.desk.outage.has_waiting() {
            return batch;
        }
        let (pushes, rest): (Vec<Asked>, Vec<Asked>) = batch
            .into_iter()
            .partition(|asked| matches!(asked.command, Command::Push(_)));
        let reason = "earlier pushes wait to be stored";
        pushes
            .into_iter()
            .for_each(|asked| self.refuse_or_spool(asked, reason, false));
        rest
    }

    /// Stores some of the pushes that were accepted while PostgreSQL did not answer.
    fn restore_spooled(&mut self) {
        // What has come is behind what waits.
        self.desk.spool_gathered();
        while self.desk.outage.has_waiting() && self.session.is_some() {
            if let Err(reason) = self.restore_some() {
                tracing::warn!("spooled pushes are not stored yet: {reason}");
                break;
            }
            self.desk.tend();
        }
    }

    fn restore_some(&mut self) -> Result<(), String> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let known = match (self.desk.outage.stored(), self.desk.outage.identity()) {
            (None, Some(identity)) => set_clock(&mut self.durable, session)
                .and_then(|()| session.spool_position(identity))
                .map(Some),
            (stored, _) => Ok(stored),
        };
        let done = match known {
            Ok(Some(stored)) => {
                self.desk.outage.set_stored(stored);
                if !self.desk.outage.has_waiting() {
                    return Ok(());
                }
                let next = self.desk.outage.next().map_err(|fault| fault.to_string())?;
                let Some((entries, step)) = next else {
                    return Err(
                        "the spool has nothing where the database says it goes on".to_owned()
                    );
                };
                restore(&mut self.durable, session, (&entries, step))
                    .map(|served| (served, entries, step))
            }
            Ok(None) => return Ok(()),
            Err(fault) => Err(fault),
        };
        match done {
            Ok((Served::Done(answers), entries, step)) => {
                for (client, answer) in answers {
                    self.answer_durable(client, answer);
                }
                let settled = self.desk.outage.settle(&entries, &step);
                settled.map_err(|fault| fault.to_string())
            }
            Ok((Served::Contended, ..)) => {
                // Another one may have stored them, or it was this one and the answer was lost.
                self.desk.outage.forget_stored();
                Err("the spool is stored up to somewhere else; it is looked up again".to_owned())
            }
            Err(fault) => {
                self.desk.outage.forget_stored();
                let reason = fault.to_string();
                self.note_fault(fault);
                Err(reason)
            }
        }
    }

    /// Takes over what other brokers have changed.
    pub(super) fn follow_durable(&mut self) -> Result<(), SessionFault> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        follow(&mut self.durable, session, Instant::now())
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

/// Takes over what other brokers have changed. Who has not looked for long may have been taken for dead,
/// so that nobody has told it anything: it remembers nothing.
fn follow(memory: &mut Memory, store: &mut dyn Store, now: Instant) -> Result<(), SessionFault> {
    let limit = Duration::from_millis(FOLLOW_MS_MAX);
    let known = memory
        .followed
        .filter(|(_, looked)| now.duration_since(*looked) < limit);
    if known.is_none() {
        memory.forget_all();
    }
    let changes = store.durable_changes(known.map(|(number, _)| number))?;
    memory.followed = Some((changes.number, now));
    take_over(memory, store, &changes)
}

/// What other brokers have changed since the last look, if anything.
fn changes_of_others(
    memory: &mut Memory,
    store: &mut dyn Store,
) -> Result<Option<DurableChanges>, SessionFault> {
    let Some((number, _)) = memory.followed else {
        return Ok(None);
    };
    let changes = store.durable_changes(Some(number))?;
    memory.followed = Some((changes.number, Instant::now()));
    let is_empty = changes.queues.is_empty() && changes.partitions.is_empty();
    Ok((!is_empty).then_some(changes))
}

/// Takes over what other brokers have changed.
fn take_over(
    memory: &mut Memory,
    store: &mut dyn Store,
    changes: &DurableChanges,
) -> Result<(), SessionFault> {
    memory.take_changes(changes);
    let own: Vec<i64> = changes
        .partitions
        .iter()
        .copied()
        .filter(|id| memory.slot_of_partition(*id).is_some())
        .collect();
    if !own.is_empty() {
        refresh(memory, store, &own)?;
    }
    Ok(())
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
        default_start: Start::New,
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

/// Stores spooled pushes.
fn restore(
    memory: &mut Memory,
    store: &mut dyn Store,
    (entries, step): (&[Entry], SpoolStep),
) -> Result<Served, SessionFault> {
    let mut judge_all = |judge: &mut Judge<'_>| {
        judge.draft.spooled = Some(step);
        entries.iter().try_for_each(|entry| judge.restore(entry))
    };
    store_judged(memory, store, &mut judge_all)
}

/// Stores what is judged, and whoever waits is served; judged again where another broker was faster.
fn store_judged(
    memory: &mut Memory,
    store: &mut dyn Store,
    judge_all: &mut dyn FnMut(&mut Judge<'_>) -> Result<(), SessionFault>,
) -> Result<Served, SessionFault> {
    for _ in 0..DURABLE_TRIES_MAX {
        let mut judge = judge_of(memory, store);
        let judged = judge_all(&mut judge).and_then(|()| judge.wake());
        let mut draft = judge.draft;
        if judged.is_ok() && draft.refuses {
            // Nobody is refused by what another broker may have changed.
            let changes = changes_of_others(memory, store)?;
            if let Some(changes) = changes {
                undo(memory, draft);
                take_over(memory, store, &changes)?;
                continue;
            }
        }
        let committed = match judged {
            Ok(()) if draft.is_empty() => Ok(Committed::Stored),
            Ok(()) => {
                let stored = batch_of(memory, &draft);
                store.commit_batch(&stored)
            }
            Err(fault) => Err(fault),
        };
        match committed {
            Ok(Committed::Stored) => {
                settle_draft(memory, &mut draft);
                return Ok(Served::Done(answers_of(memory, store, draft)));
            }
            Ok(Committed::Stale) => {
                let partitions = undo(memory, draft);
                refresh(memory, store, &partitions)?;
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
        let partition = &mut memory.queue_mut(slot).partitions[partition];
        // What comes to be in this batch ends nowhere yet.
        if !made.contains(&partition.id) {
            batch.tails.push(Tail {
                partition_id: partition.id,
                next_offset: append.base_offset,
            });
        }
        for (row, tail) in append.pack(partition.id) {
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

/// A draft is stored.
fn settle_draft(memory: &mut Memory, draft: &mut Draft) {
    memory.changed.clear();
    for cursor in draft.cursors.keys() {
        let group = &mut memory.queue_mut(cursor.queue).groups[cursor.group];
        let place = group
            .cursors
            .get_mut(&cursor.partition)
            .expect("it was moved");
        place.version += 1;
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
    for slot in draft.changed_queues() {
        memory.forget(slot);
    }
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
    for slot in draft.looked_at {
        memory.look_again_at(slot);
    }
    ids
}

/// Takes over what is stored of some partitions.
fn refresh(
    memory: &mut Memory,
    store: &mut dyn Store,
    partitions: &[i64],
) -> Result<(), SessionFault> {
    let (rows, cursors) = store.refresh_partitions(partitions)?;
    memory.refresh(partitions, &rows, &cursors);
    Ok(())
}

/// The answers of a draft, with the messages that pops have taken.
fn answers_of(
    memory: &mut Memory,
    store: &mut dyn Store,
    draft: Draft,
) -> Vec<(ClientRef, Answered)> {
    let mut missing = Vec::new();
    let mut answers = Vec::with_capacity(draft.answers.len());
    for (client, answer) in draft.answers {
        let answer = match answer {
            Answer::Reply(reply) => Ok(reply),
            Answer::Refused(refusal) => Err(refusal),
            Answer::Popped(popped) => {
                let popped = popped_of(memory, popped, &mut missing);
                Ok(Reply::Popped(Box::new(popped)))
            }
        };
        answers.push((client, answer));
    }
    if !missing.is_empty() {
        match store.read_segments(&missing) {
            Ok(rows) => fill(&mut answers, &rows),
            Err(fault) => refuse_unread(&mut answers, &fault),
        }
    }
    for &(slot, partition) in draft.appends.keys() {
        let partition = &mut memory.queue_mut(slot).partitions[partition];
        partition.tail.shrink_to(DURABLE_TAIL_BYTES);
    }
    answers
}

/// What was taken cannot be read: it comes again when its lease ends. The rest is stored and holds.
fn refuse_unread(answers: &mut [(ClientRef, Answered)], fault: &SessionFault) {
    for (_, answer) in answers {
        let Ok(Reply::Popped(popped)) = answer else {
            continue;
        };
        let mut pieces = popped.claims.iter().flat_map(|claim| &claim.pieces);
        if pieces.any(|piece| piece.segment.is_empty()) {
            *answer = Err(Refusal::DurableAway {
                reason: fault.to_string(),
                uncertain: true,
            });
        }
    }
}

/// A pop's answer; what is not kept is noted as missing and left empty.
fn popped_of(memory: &Memory, popped: draft::Popped, missing: &mut Vec<Range>) -> Popped {
    let claims = popped.claims.iter().map(|claim| {
        let queue = memory.queue(claim.cursor.queue);
        let partition = &queue.partitions[claim.cursor.partition];
        let pieces = partition
            .tail
            .pieces(claim.from, claim.to)
            .unwrap_or_else(|| {
                missing.push(Range {
                    partition_id: partition.id,
                    from: claim.from,
                    to: claim.to,
                });
                // Told from what is there by its empty segment.
                vec![Piece {
                    segment: bytes::Bytes::new(),
                    base_offset: claim.from,
                    from: claim.from,
                    to: claim.to,
                }]
            });
        Claim {
            queue: Arc::clone(&queue.name),
            partition: Arc::clone(&partition.name),
            partition_id: partition.id,
            attempt: claim.attempt,
            pieces,
        }
    });
    Popped {
        queue: popped.queue,
        group: popped.group,
        lease_id: popped.lease_id,
        claims: claims.collect(),
    }
}

/// Puts what was read where it was missing.
fn fill(answers: &mut [(ClientRef, Answered)], rows: &[crate::postgres::durable::SegmentRow]) {
    for (_, answer) in answers {
        let Ok(Reply::Popped(popped)) = answer else {
            continue;
        };
        for claim in &mut popped.claims {
            let [piece] = &*claim.pieces else {
                continue;
            };
            if !piece.segment.is_empty() {
                continue;
            }
            let (from, to) = (piece.from, piece.to);
            let own = rows
                .iter()
                .filter(|row| row.partition_id == claim.partition_id);
            let within = own.filter(|row| {
                row.base_offset < to && row.base_offset + i64::from(row.count) > from
            });
            claim.pieces = within
                .map(|row| Piece {
                    segment: row.payload.clone(),
                    base_offset: row.base_offset,
                    from: from.max(row.base_offset),
                    to: to.min(row.base_offset + i64::from(row.count)),
                })
                .collect();
        }
    }
}

/// Declares a queue or changes its options.
fn configure_queue(
    memory: &mut Memory,
    store: &mut dyn Store,
    tenant: TenantId,
    configure: &Configure,
) -> Result<Answered, SessionFault> {
    for _ in 0..DURABLE_TRIES_MAX {
        let load = store.load_queue(tenant, &configure.queue)?;
        let now_us = memory.time_us(Instant::now());
        let is_new = load.queue.is_none();
        let row = match load.queue {
            Some(row) => row,
            None => QueueRow {
                options: QueueOptions::default(),
                ..judge::new_queue(next_id(memory, store)?, tenant, &configure.queue, now_us)
            },
        };
        let row = configured(row, configure);
        let stored = if is_new {
            let batch = Batch {
                queues: vec![row.clone()],
                ..Batch::default()
            };
            store.commit_batch(&batch)? == Committed::Stored
        } else {
            store.save_queue(&row)?
        };
        if !stored {
            continue;
        }
        if let Some(slot) = memory.slot(tenant, &configure.queue) {
            memory.forget(slot);
        }
        let unencrypted = row.options.encryption;
        return Ok(Ok(Reply::Configured(Box::new(Configured {
            queue_id: row.id,
            queue: row.name,
            namespace: row.namespace,
            task: row.task,
            options: row.options,
            unencrypted,
        }))));
    }
    let text = "other brokers change the same queue; try again in a moment";
    Ok(Err(Refusal::Overloaded { text }))
}

fn next_id(memory: &mut Memory, store: &mut dyn Store) -> Result<i64, SessionFault> {
    if memory.ids.is_empty() {
        memory.ids = store.reserve_ids()?;
    }
    Ok(memory.ids.next().expect("ids were just reserved"))
}

/// A queue as a configure leaves it.
fn configured(row: QueueRow, configure: &Configure) -> QueueRow {
    let changes = &configure.changes;
    let (namespace, task) = judge::parts_of(&row.name);
    let text = |change: &OptionChange<Box<str>>, stored: &str, default: &str| -> Box<str> {
        match change {
            OptionChange::Keep if !configure.replace => stored.into(),
            OptionChange::Keep | OptionChange::Reset => default.into(),
            OptionChange::Set(value) => value.clone(),
        }
    };
    let base = if configure.replace {
        QueueOptions::default()
    } else {
        row.options.clone()
    };
    QueueRow {
        namespace: text(&changes.namespace, &row.namespace, namespace),
        task: text(&changes.task, &row.task, task),
        options: changes.applied_to(&base),
        ..row
    }
}

/// Removes a queue with everything of it. Who waits for it waits on: it may come back.
fn delete_queue(
    memory: &mut Memory,
    store: &mut dyn Store,
    tenant: TenantId,
    queue: &str,
) -> Result<Answered, SessionFault> {
    let existed = store.delete_queue(tenant, queue)?;
    memory.changed(tenant, queue);
    Ok(Ok(Reply::Deleted { existed }))
}
