//! The reader: a thread that blocks and answers questions about what is stored, on a session of its own,
//! so that a long look never stands in the way of a push. It opens the session when the first question
//! comes and a server answers, and another one after a fault. Knows no sockets, no HTTP and no JSON.
//!
//! Sums over partitions are remembered between the questions (`postgres/durable/reads/ledger`).
//!
//! In reading order: `answer` asks the database, for `messages` and by `offsets` with more than one
//! statement; `fetches` are reads that wait for messages. `retention` removes what is old, between the
//! questions.

mod answer;
mod fetches;
mod messages;
mod offsets;
mod retention;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};

use self::answer::{Asking, Source};
use self::fetches::{Fetches, Waiting};
use self::retention::Retention;
use super::connect::Backoff;
use super::{RetentionPlan, Seal, Status, StopOrder, Whereabouts};
use crate::limits::{ENGINE_FLUSH_MS, READ_PATIENCE_MS};
use crate::model::durable::read::{Question, Read, ReadReply};
use crate::model::{ClientRef, Refusal};
use crate::postgres::SessionFault;
use crate::postgres::durable::reads::{Ledger, ReadSession};
use crate::postgres::{ServerRules, Session, Target};

/// Said to whoever asks while the broker stops.
const STOPPING: &str = "the broker stops";

/// Who is answered, as the reader sees them. None of it waits.
pub trait Askers {
    /// Answers a client.
    fn answer(&mut self, client: ClientRef, reply: Result<ReadReply, Refusal>);

    /// Sends what has waited; to be called in every turn. Whether something still waits.
    fn flush(&mut self) -> bool;
}

/// What a reader is made with.
#[derive(Debug)]
pub struct ReaderPlan {
    /// Which servers are refused.
    pub rules: ServerRules,
    /// The process, as it stands in message ids.
    pub incarnation: String,
    /// Where the server is.
    pub server: Arc<Whereabouts>,
    /// How the engine is.
    pub status: Arc<Status>,
    /// How often and how much is removed because of its age.
    pub retention: RetentionPlan,
    /// Decrypts payloads.
    pub seal: Seal,
}

/// Its ends to the rest of the process.
#[derive(Debug)]
pub struct ReaderEnds {
    /// What arrives from the shard cores.
    pub inbox: Receiver<Question>,
    /// Closed when nobody is left who could ask.
    pub end: Receiver<()>,
    /// Given when the broker stops.
    pub stop: Arc<StopOrder>,
}

/// The reader. Made and run on its own thread.
#[derive(Debug)]
pub struct Reader<A: Askers> {
    plan: ReaderPlan,
    ends: ReaderEnds,
    askers: A,
    session: Option<ReadSession>,
    ledger: Ledger,
    backoff: Backoff,
    /// Why there is no session, if one was tried for.
    reason: Option<String>,
    fetches: Fetches,
    retention: Retention,
    is_flushed: bool,
}

impl<A: Askers> Reader<A> {
    /// A reader that serves what arrives until its end is closed.
    pub fn new(plan: ReaderPlan, ends: ReaderEnds, askers: A) -> Reader<A> {
        let now = Instant::now();
        Reader {
            retention: Retention::new(plan.retention, now),
            ledger: Ledger::new(Arc::clone(plan.server.marks())),
            plan,
            ends,
            askers,
            session: None,
            backoff: Backoff::new(now),
            reason: None,
            fetches: Fetches::default(),
            is_flushed: true,
        }
    }

    /// Serves until the end. Blocks the thread.
    pub fn run(mut self) {
        while self.turn() {}
    }

    /// Waits for a question or until something is due; false when nobody is left to ask.
    fn turn(&mut self) -> bool {
        let (inbox, end) = (self.ends.inbox.clone(), self.ends.end.clone());
        let wait = self
            .next_deadline()
            .saturating_duration_since(Instant::now());
        let arrived = select! {
            // The cores hold its other end for as long as they live, and may outlive the end.
            recv(inbox) -> question => question.ok(),
            recv(end) -> _ => return false,
            default(wait) => None,
        };
        if let Some(question) = arrived {
            self.serve(question);
        }
        self.look_for_fetches();
        self.remove_old();
        self.ledger.forget_old(Instant::now());
        self.is_flushed = !self.askers.flush();
        true
    }

    fn next_deadline(&self) -> Instant {
        let flush = || Instant::now() + Duration::from_millis(ENGINE_FLUSH_MS);
        let flush = (!self.is_flushed).then(flush);
        let due = self.fetches.next_look().into_iter().chain(flush);
        due.fold(self.retention.next(), Instant::min)
    }

    /// Removes some of what is old, when it is time.
    fn remove_old(&mut self) {
        if self.retention.next() > Instant::now() {
            return;
        }
        let (plan, stop) = (&self.plan, &self.ends.stop);
        self.retention.step(&plan.server, || {
            let Some(target) = plan.server.get().filter(|_| !stop.is_ordered()) else {
                return Ok(None);
            };
            let waiting = &mut || !stop.is_ordered();
            let session = Session::open(&target, &plan.rules, &plan.incarnation, waiting);
            session.map(|mut session| {
                session.note_changes(plan.server.marks());
                Some(session)
            })
        });
    }

    fn serve(&mut self, question: Question) {
        let patience = Duration::from_millis(READ_PATIENCE_MS);
        if self.ends.stop.is_ordered() {
            return self.refuse(question.client, STOPPING.to_owned());
        }
        if question.since.elapsed() >= patience {
            let reason = "too many questions were asked before this one".to_owned();
            return self.refuse(question.client, reason);
        }
        let asked = Asking {
            tenant: question.tenant,
            read: &question.read,
        };
        match self.ask(asked) {
            Ok(reply) => match (question.read, reply) {
                (Read::Fetch(fetch), ReadReply::Fetched(answer))
                    if fetches::may_wait(&fetch, &answer) && self.fetches.has_room() =>
                {
                    self.fetches.park(Waiting {
                        client: question.client,
                        tenant: question.tenant,
                        until: question.since + Duration::from_millis(fetch.wait_ms),
                        fetch,
                    });
                }
                (_, reply) => self.askers.answer(question.client, Ok(reply)),
            },
            Err(refusal) => self.askers.answer(question.client, Err(refusal)),
        }
    }

    fn refuse(&mut self, client: ClientRef, reason: String) {
        self.askers.answer(client, Err(away(reason)));
    }

    /// Looks again for those who wait.
    fn look_for_fetches(&mut self) {
        for waiting in self.fetches.take_due(Instant::now()) {
            let read = Read::Fetch(waiting.fetch);
            let asked = Asking {
                tenant: waiting.tenant,
                read: &read,
            };
            let answer = self.ask(asked);
            let Read::Fetch(fetch) = read else {
                unreachable!("it was put in above");
            };
            let is_over = self.ends.stop.is_ordered() || waiting.until <= Instant::now();
            match answer {
                Ok(ReadReply::Fetched(answer))
                    if !is_over && fetches::may_wait(&fetch, &answer) =>
                {
                    self.fetches.park(Waiting { fetch, ..waiting });
                }
                answer => self.askers.answer(waiting.client, answer),
            }
        }
    }

    /// Asks the database, in a new session if there is none.
    fn ask(&mut self, asked: Asking<'_>) -> Result<ReadReply, Refusal> {
        self.open()?;
        let session = self.session.as_mut().expect("it was just opened");
        let (plan, stop) = (&self.plan, &self.ends.stop);
        let mut source = Source {
            session,
            ledger: &mut self.ledger,
            seal: &plan.seal,
            waiting: &mut || !stop.is_ordered(),
        };
        let answered = asked.answer(&mut source);
        answered.map_err(|fault| self.note_fault(fault))
    }

    /// Makes sure that there is a session.
    fn open(&mut self) -> Result<(), Refusal> {
        if self.session.is_some() {
            return Ok(());
        }
        let Some(target) = self.plan.server.get() else {
            let state = self.plan.status.get();
            let reason = state.reason.as_deref();
            return Err(away(reason.unwrap_or("it has not answered yet").to_owned()));
        };
        if !self.backoff.is_over(Instant::now()) {
            return Err(away(self.reason.clone().unwrap_or_default()));
        }
        match self.connect(&target) {
            Ok(session) => {
                // It may be another server.
                self.ledger.forget();
                self.session = Some(session);
                self.backoff = Backoff::new(Instant::now());
                Ok(())
            }
            Err(fault) => {
                self.backoff.failed(Instant::now());
                Err(self.note_fault(fault))
            }
        }
    }

    fn connect(&self, target: &Target) -> Result<ReadSession, SessionFault> {
        let (plan, stop) = (&self.plan, &self.ends.stop);
        ReadSession::open(target, &plan.rules, &plan.incarnation, &mut || {
            !stop.is_ordered()
        })
    }

    /// What a fault means for the session and for who has asked.
    fn note_fault(&mut self, fault: SessionFault) -> Refusal {
        match fault {
            SessionFault::Write {
                reason,
                heals: false,
            } => Refusal::DurableFailed { reason },
            SessionFault::Write { reason, .. } => away(reason),
            SessionFault::Away { reason } | SessionFault::Refused { reason } => {
                self.session = None;
                self.reason = Some(reason.clone());
                away(reason)
            }
        }
    }
}

fn away(reason: String) -> Refusal {
    let uncertain = false;
    Refusal::DurableAway { reason, uncertain }
}
