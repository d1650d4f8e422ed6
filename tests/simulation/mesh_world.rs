//! Clients at several cores: what they asked, what they were answered, what of it goes back.

use std::collections::BTreeMap;

use queen::channel::{Forwarded, Frame};
use queen::core_loop::{Answer, Outcome};
use queen::model::{
    AckOutcome, ClientRef, Command, Depth, EffectiveOptions, Moment, PeerMessage, Popped, Refusal,
    Reply, TenantId, Verdict,
};

use crate::mesh::{Mesh, MeshRules};
use crate::mesh_ledger::{Ledger, Place, Popper};
use crate::mesh_lives::{Lives, Named};
use crate::model::ensure;

type Checked = Result<(), String>;

/// What a pop asked for.
#[derive(Clone, Debug)]
pub(crate) struct PopAsked {
    pub(crate) partition: Option<&'static str>,
    pub(crate) group: usize,
    pub(crate) batch: usize,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) auto_ack: bool,
}

/// One verdict of an ack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judged {
    Message(usize, Verdict),
    /// An id of an earlier process.
    Foreign,
    /// No id, or one that was never issued.
    Garbage,
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Push(usize),
    Pop(PopAsked),
    Ack { group: usize, acks: Vec<Judged> },
    Configure(EffectiveOptions),
    Reset,
    Delete,
    Depth,
    Queues,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) tenant: TenantId,
    pub(crate) queue: &'static str,
    pub(crate) kind: Kind,
    pub(crate) core: usize,
    pub(crate) issued: Moment,
    pub(crate) issued_step: u64,
    /// Other cores have a part in it.
    forwarded: bool,
    /// Its client has closed its half.
    pub(crate) hurried: bool,
    /// When everything sent before had arrived.
    pub(crate) rested: Option<Moment>,
}

/// An answer with messages whose fate is open.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) core: usize,
    pub(crate) group: usize,
    pub(crate) queue: &'static str,
    pub(crate) popped: Popped,
}

/// A lease that a client knows of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) tenant: TenantId,
    pub(crate) queue: &'static str,
    pub(crate) group: usize,
    pub(crate) message: usize,
}

/// Cores, their clients, and the books.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) mesh: Mesh,
    pub(crate) ledger: Ledger,
    pub(crate) lives: Lives,
    /// Requests that are not answered.
    pub(crate) open: BTreeMap<ClientRef, Asked>,
    /// Those whose client has gone before the answer, and how many answers came all the same.
    gone: BTreeMap<ClientRef, (Asked, u64)>,
    pub(crate) in_flight: Vec<InFlight>,
    /// The last depth that was told.
    pub(crate) depth: Option<Depth>,
    pub(crate) reached: BTreeMap<&'static str, u64>,
    /// Changes with everything that was answered, in order: equal runs have equal ones.
    pub(crate) fingerprint: u64,
    pub(crate) trace: bool,
    pub(crate) stopping: bool,
    step: u64,
    clients: u32,
}

impl World {
    pub(crate) fn new(rules: MeshRules, trace: bool) -> World {
        World {
            mesh: Mesh::new(rules),
            ledger: Ledger::default(),
            lives: Lives::default(),
            open: BTreeMap::new(),
            gone: BTreeMap::new(),
            in_flight: Vec::new(),
            depth: None,
            reached: BTreeMap::new(),
            fingerprint: 0,
            trace,
            stopping: false,
            step: 0,
            clients: 0,
        }
    }

    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>12} us  {}", self.mesh.now.as_us(), text());
        }
    }

    pub(crate) fn reach(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    fn note(&mut self, text: &str) {
        for byte in text.bytes() {
            let mixed = (self.fingerprint ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            self.fingerprint = mixed.rotate_left(5);
        }
    }

    /// What is known of a name.
    pub(crate) fn named(&mut self, tenant: TenantId, queue: &'static str) -> &mut Named {
        let rules = self.mesh.rules;
        let named = self.lives.names.entry((tenant, queue));
        named.or_insert_with(|| Named {
            lives: Vec::new(),
            reset: 0,
            length_max: rules.queue_length,
            lease_ms: rules.lease_ms,
            expires: false,
            resets: false,
            deletes: false,
            evicts: false,
            unseen: 0,
        })
    }

    /// A client at `core` asks; who it is.
    pub(crate) fn ask(
        &mut self,
        core: usize,
        (tenant, queue): (TenantId, &'static str),
        kind: Kind,
        command: Command<'_>,
    ) -> Result<ClientRef, String> {
        let named = self.named(tenant, queue);
        named.resets |= matches!(kind, Kind::Reset);
        named.deletes |= matches!(kind, Kind::Delete);
        self.lives.deleting = matches!(kind, Kind::Delete).then_some((tenant, queue));
        if let Kind::Ack { group, acks } = &kind {
            for judged in acks {
                if let Judged::Message(message, _) = judged {
                    self.ledger.ack_asked((*message, *group));
                }
            }
        }
        self.step += 1;
        self.clients += 1;
        let client = ClientRef {
            core: core as u16,
            connection: self.clients,
            request: 0,
            generation: 0,
        };
        let mut asked = Asked {
            tenant,
            queue,
            kind,
            core,
            issued: self.mesh.now,
            issued_step: self.step,
            forwarded: false,
            hurried: false,
            rested: None,
        };
        self.tell(|| format!("{} at {core}: {command:?}", self.clients));
        let now = self.mesh.now_of(core);
        match self.mesh.cores[core].command(now, client, tenant, command) {
            Outcome::Answered { reply, .. } => {
                // Whoever was answered besides came first.
                self.answered(core, &asked, reply, true)?;
            }
            Outcome::Parked => {
                self.open.insert(client, asked);
            }
            Outcome::Forwarded => {
                asked.forwarded = true;
                self.open.insert(client, asked);
            }
        }
        self.end_turn(core)?;
        Ok(client)
    }

    /// Delivers what a turn has left to answer, rings, and looks at what all cores share.
    fn end_turn(&mut self, core: usize) -> Checked {
        while let Some(answer) = self.mesh.cores[core].next_answer() {
            self.take_answer(core, answer)?;
        }
        if self.mesh.cores[core].port().waiting() > 0 {
            self.reach("frames that wait for room in a lane");
        }
        self.mesh.end_turn(core);
        let cores = self.mesh.cores.iter();
        let stored = cores.map(|core| core.statistics().pushed).sum();
        self.lives.watch(&self.mesh.directory, (self.step, stored))
    }

    fn take_answer(&mut self, core: usize, answer: Answer) -> Checked {
        let Answer {
            client,
            reply,
            command,
            ..
        } = answer;
        ensure!(
            usize::from(client.core) == core,
            "{client:?} is not of core {core}"
        );
        if let Some(asked) = self.open.remove(&client) {
            if matches!(reply, Reply::Gone) {
                ensure!(asked.hurried, "{asked:?} is told to be gone");
                self.reach("a half-closed client that got nothing");
                return Ok(());
            }
            let echoes = !matches!(asked.kind, Kind::Push(_) | Kind::Pop(_));
            ensure!(
                !echoes || command.is_some(),
                "nothing to echo for {asked:?}"
            );
            return self.answered(core, &asked, reply, false);
        }
        let Some((asked, answers)) = self.gone.get_mut(&client) else {
            return Err(format!("{client:?} is answered twice: {reply:?}"));
        };
        *answers += 1;
        let asked = asked.clone();
        if matches!(reply, Reply::Gone) && asked.hurried {
            return Ok(());
        }
        let most = match asked.kind {
            Kind::Ack { .. } => self.mesh.cores.len() as u64,
            _ => 1,
        };
        ensure!(*answers <= most, "{asked:?} is answered twice: {reply:?}");
        if matches!(asked.kind, Kind::Ack { .. }) {
            return Ok(());
        }
        self.reach("an answer to a client that has gone");
        let before = self.in_flight.len();
        self.answered(core, &asked, reply, false)?;
        if self.in_flight.len() > before {
            self.return_popped(before);
        }
        Ok(())
    }

    /// Judges an answer and notes what it says.
    fn answered(&mut self, core: usize, asked: &Asked, reply: Reply, at_once: bool) -> Checked {
        self.tell(|| format!("    core {core}, {:?}: {reply:?}", asked.kind));
        self.note(&format!("{core} {reply:?}"));
        if let Reply::Refused(refusal) = &reply {
            return self.refused(asked, refusal, at_once);
        }
        let step = self.step;
        match (&asked.kind, reply) {
            (Kind::Push(push), Reply::Pushed { count }) => {
                let wanted = self.ledger.pushes[*push].count;
                ensure!(count as usize == wanted, "{asked:?}: {count} are stored");
                self.ledger.pushed(*push, step, true);
            }
            (Kind::Pop(pop), Reply::Popped(popped)) => {
                let pop = pop.clone();
                self.popped(core, asked, &pop, popped)?;
            }
            (Kind::Ack { group, acks }, Reply::Acked(outcomes)) => {
                ensure!(outcomes.len() == acks.len(), "not one outcome per ack");
                for (judged, outcome) in acks.iter().zip(outcomes) {
                    match judged {
                        Judged::Message(message, verdict) => {
                            let unknown = outcome == AckOutcome::Unknown;
                            ensure!(
                                !unknown
                                    || *verdict == Verdict::Retry
                                    || !self.must_be_leased(asked, *message, *group),
                                "no lease of message {message}: {asked:?}"
                            );
                            self.ledger
                                .acked((*message, *group), *verdict, outcome, step)?;
                        }
                        Judged::Foreign => ensure!(outcome == AckOutcome::Stale, "{asked:?}"),
                        Judged::Garbage => ensure!(outcome == AckOutcome::Unknown, "{asked:?}"),
                    }
                }
            }
            (Kind::Configure(wanted), Reply::Configured { effective, .. }) => {
                ensure!(effective == *wanted, "{effective:?} and not {wanted:?}");
            }
            (Kind::Reset, Reply::Reset { dropped }) => {
                self.named(asked.tenant, asked.queue).reset += dropped;
            }
            (Kind::Delete, Reply::Deleted { .. }) | (Kind::Queues, Reply::Queues(_)) => {}
            (Kind::Depth, Reply::Depth(depth)) => {
                self.depth = Some(*depth);
            }
            (_, reply) => return Err(format!("{asked:?}: {reply:?}")),
        }
        Ok(())
    }

    /// Whether an ack must find a lease. (To nack what lingers may be too late.)
    fn must_be_leased(&self, asked: &Asked, message: usize, group: usize) -> bool {
        let named = &self.lives.names[&(asked.tenant, asked.queue)];
        // An empty queue is collected also while a late group leases what lingers there.
        let collects = self.mesh.rules.idle_ms > 0;
        let ends = named.resets || named.deletes || collects;
        let calm = !ends && !named.expires && !named.evicts;
        let at = (self.mesh.now, asked.issued_step);
        calm && self
            .ledger
            .must_be_leased((message, group), at, named.lease_ms)
    }

    fn refused(&mut self, asked: &Asked, refusal: &Refusal, at_once: bool) -> Checked {
        match refusal {
            Refusal::Overloaded { .. } => {
                self.reach("a refusal for want of room in a lane or time")
            }
            Refusal::Paused => ensure!(!at_once, "paused at once: {asked:?}"),
            Refusal::QueueFull { .. } | Refusal::NeverFits { .. } | Refusal::Unavailable { .. } => {
                ensure!(matches!(asked.kind, Kind::Push(_)), "{asked:?} {refusal:?}");
            }
            Refusal::QueueNotFound { .. } => {
                ensure!(matches!(asked.kind, Kind::Depth), "{asked:?} {refusal:?}");
            }
            other => return Err(format!("{asked:?}: {other:?}")),
        }
        match &asked.kind {
            Kind::Push(push) => self.ledger.pushed(*push, self.step, false),
            // Some owners may have done their part.
            Kind::Ack { .. } if !at_once => self.ack_untold(&asked.clone()),
            _ => {}
        }
        Ok(())
    }

    fn ack_untold(&mut self, asked: &Asked) {
        if let Kind::Ack { group, acks } = &asked.kind {
            for judged in acks {
                if let Judged::Message(message, _) = judged {
                    self.ledger.ack_untold((*message, *group));
                }
            }
        }
    }

    fn popped(&mut self, core: usize, asked: &Asked, pop: &PopAsked, popped: Popped) -> Checked {
        let now = self.mesh.now;
        if popped.messages.is_empty() {
            let over = asked.issued.after_ms(pop.wait_ms.unwrap_or(0)) <= now;
            ensure!(
                over || self.stopping,
                "{asked:?} was answered with nothing too early"
            );
            return Ok(());
        }
        let at_place = popped
            .messages
            .iter()
            .all(|one| pop.partition.is_none_or(|asked| asked == &*one.partition));
        ensure!(
            at_place && popped.messages.len() <= pop.batch && popped.auto_ack == pop.auto_ack,
            "{popped:?} is no answer to {asked:?}"
        );
        let popper = Popper {
            group: pop.group,
            issued: asked.issued,
            issued_step: asked.issued_step,
        };
        self.ledger.take(popper, &popped, (now, self.step))?;
        self.in_flight.push(InFlight {
            core,
            group: pop.group,
            queue: asked.queue,
            popped,
        });
        Ok(())
    }

    /// One frame arrives; whether there was one.
    pub(crate) fn receive(&mut self, core: usize, from: usize) -> Result<bool, String> {
        let Some(frame) = self.mesh.take_frame(core, from) else {
            return Ok(false);
        };
        self.step += 1;
        self.tell(|| format!("core {core} from {from}: {frame:?}"));
        self.reach(kind_of(&frame));
        if let Frame::Request(request) = &frame {
            self.note_request(request);
        }
        let before = self.mesh.cores[core].statistics();
        let now = self.mesh.now_of(core);
        let makes_room = kind_of(&frame) == "room asked of another core";
        self.mesh.cores[core].receive(now, from as u16, frame);
        let after = self.mesh.cores[core].statistics();
        if makes_room && after.dropped.bounds > before.dropped.bounds {
            self.reach("an eviction on another core");
        }
        self.end_turn(core)?;
        Ok(true)
    }

    /// A command reaches its owner.
    fn note_request(&mut self, request: &Forwarded) {
        match &request.command {
            Command::Delete(_) => {
                let asked = self.open.get(&request.client);
                let asked =
                    asked.or_else(|| self.gone.get(&request.client).map(|(asked, _)| asked));
                self.lives.deleting = asked.map(|asked| (asked.tenant, asked.queue));
            }
            Command::Pop(pop) if pop.since.is_some() => {
                // What is left to it is counted from its return.
                if let Some(asked) = self.open.get_mut(&request.client) {
                    asked.rested = None;
                }
            }
            _ => {}
        }
    }

    /// A core does what is due.
    pub(crate) fn tick(&mut self, core: usize) -> Checked {
        self.step += 1;
        let now = self.mesh.now_of(core);
        self.mesh.cores[core].tick(now);
        self.end_turn(core)
    }

    /// The client of an open request is gone.
    pub(crate) fn vanish(&mut self, client: ClientRef) -> Checked {
        let asked = self.open.remove(&client).expect("it is open");
        self.step += 1;
        self.tell(|| format!("{} vanishes", client.connection));
        self.ack_untold(&asked);
        let (core, now) = (asked.core, self.mesh.now_of(asked.core));
        self.gone.insert(client, (asked, 0));
        self.mesh.cores[core].abandon(now, client);
        self.end_turn(core)
    }

    /// The client of an open pop closes its half.
    pub(crate) fn half_close(&mut self, client: ClientRef) -> Checked {
        let asked = self.open.get_mut(&client).expect("it is open");
        if !asked.forwarded {
            return self.vanish(client);
        }
        asked.hurried = true;
        let (core, now) = (asked.core, self.mesh.now_of(asked.core));
        self.step += 1;
        self.tell(|| format!("{} closes its half", client.connection));
        self.mesh.cores[core].hurry(now, client);
        self.end_turn(core)
    }

    /// An answer could not be delivered.
    pub(crate) fn give_back(&mut self, at: usize) -> Checked {
        self.step += 1;
        let core = self.in_flight[at].core;
        self.return_popped(at);
        self.end_turn(core)
    }

    fn return_popped(&mut self, at: usize) {
        let InFlight {
            core,
            group,
            popped,
            ..
        } = self.in_flight.swap_remove(at);
        self.tell(|| format!("core {core} gives back {popped:?}"));
        self.ledger.give_back(group, &popped);
        let now = self.mesh.now_of(core);
        self.mesh.cores[core].give_back(now, popped);
    }

    /// An answer arrived; the leases that its client holds now.
    pub(crate) fn deliver(&mut self, at: usize) -> Vec<Held> {
        let InFlight {
            group,
            queue,
            popped,
            ..
        } = self.in_flight.swap_remove(at);
        let held = popped.messages.iter().filter_map(|one| {
            let text = std::str::from_utf8(&one.payload).ok()?;
            Some(Held {
                tenant: popped.tenant,
                queue,
                group,
                message: text.trim_end().parse().ok()?,
            })
        });
        held.collect()
    }

    /// The class is paused at a core.
    pub(crate) fn pause(&mut self, core: usize) -> Checked {
        self.step += 1;
        self.tell(|| format!("paused at {core}"));
        self.mesh.directory.set_paused(true);
        let now = self.mesh.now_of(core);
        self.mesh.cores[core].refuse_all_parked(now);
        self.end_turn(core)
    }

    /// A core stops.
    pub(crate) fn stop(&mut self, core: usize) -> Checked {
        self.stopping = true;
        self.step += 1;
        let now = self.mesh.now_of(core);
        self.mesh.cores[core].stop(now);
        self.end_turn(core)
    }

    /// Everything that was sent arrives, and everything that is due is done.
    pub(crate) fn settle_lanes(&mut self) -> Checked {
        self.mesh.end_stalls();
        for _ in 0..100_000 {
            let mut idle = true;
            for core in 0..self.mesh.len() {
                idle &= !self.serve_lanes(core)?;
            }
            if let Some((core, _)) = self.mesh.next_due(self.mesh.now) {
                self.tick(core)?;
                idle = false;
            }
            if idle {
                let left = self.mesh.on_their_way();
                ensure!(left == 0, "{left} frames are left and nobody is rung");
                return Ok(());
            }
        }
        Err("the cores never come to rest".to_owned())
    }

    /// What the loop of a core does with its lanes until it sleeps; whether it did anything.
    fn serve_lanes(&mut self, core: usize) -> Result<bool, String> {
        if self.mesh.is_asleep(core) {
            return Ok(false);
        }
        let mut served = false;
        for from in 0..self.mesh.len() {
            while self.receive(core, from)? {
                served = true;
            }
        }
        let waiting = self.mesh.cores[core].port().waiting();
        self.end_turn(core)?;
        served |= self.mesh.cores[core].port().waiting() < waiting;
        if self.mesh.rules.sleeps {
            return Ok(!self.mesh.try_sleep(core) || served);
        }
        Ok(served)
    }

    /// Time passes; every core but stalled ones does what is due on the way.
    pub(crate) fn sleep_ms(&mut self, ms: u64) -> Checked {
        let until = self.mesh.now.after_ms(ms);
        let mut ticks = 0;
        while let Some((core, at)) = self.mesh.next_due(until) {
            self.mesh.now = self.mesh.now.max(at);
            self.tick(core)?;
            ticks += 1;
            ensure!(ticks < 100_000, "the clock does not get on at {at:?}");
        }
        self.mesh.now = until;
        Ok(())
    }

    /// The place of a message.
    pub(crate) fn place_of(&self, message: usize) -> Place {
        self.ledger.pushes[self.ledger.messages[message].push].place
    }
}

fn kind_of(frame: &Frame) -> &'static str {
    match frame {
        Frame::Request(_) => "a command sent to another core",
        Frame::Abandon(_) => "a vanished client of another core",
        Frame::Hurry(_) => "a half-closed client of another core",
        Frame::GiveBack(_) => "a give-back to another core",
        Frame::Reply(answer) => match answer.reply {
            Reply::Missed => "a travelling pop that missed",
            _ => "an answer from another core",
        },
        Frame::Peer(message) => match **message {
            PeerMessage::Take(_) => "a travelling pop",
            PeerMessage::Ready { .. } => "a ready notice",
            PeerMessage::MakeRoom(_) => "room asked of another core",
            PeerMessage::RoomMade { .. } => "room made by another core",
            PeerMessage::Part { .. } => "a part of a command",
            PeerMessage::PartDone { .. } => "a part that is done",
            PeerMessage::Look(_) => "a queue to look at",
        },
        Frame::Pause => "a pause from another core",
    }
}
