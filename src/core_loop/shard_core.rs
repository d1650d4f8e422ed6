//! One turn of a shard core: a command or a frame in, answers and frames out. Runtime-free, so that
//! the simulation drives it too.

use std::collections::VecDeque;
use std::sync::Arc;

use super::durable::Untold;
use super::engine_line::EngineLine;
use super::exchange::Exchanges;
use super::open::{AckParts, Open, OpenRequests, Wait};
use crate::api::DurableEcho;
use crate::channel::{self, Forwarded, Frame, Port};
use crate::directory::Directory;
use crate::dispatch::{self, Route};
use crate::model::{
    Change, ClientRef, Command, Moment, PeerMessage, Pop, Popped, Refusal, Reply, TenantId,
    cores_of,
};
use crate::placement;
use crate::shard::{Effect, Shard, Statistics};

/// An answer to a client of this core that was not given at once.
#[derive(Debug)]
pub struct Answer {
    /// Who is answered.
    pub client: ClientRef,
    /// The answer; [`Reply::Gone`]: none, because the client has closed its half.
    pub reply: Reply,
    /// The command, if the answer repeats something of it.
    pub command: Option<Command<'static>>,
    /// What the answer to a request of the durable class repeats of it.
    pub durable: Option<DurableEcho>,
}

/// What became of a command.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack between two calls; most commands are answered at once"
)]
#[derive(Debug)]
pub enum Outcome<'a> {
    /// It is answered.
    Answered {
        /// The answer.
        reply: Reply,
        /// The command, of which the answer may repeat something.
        command: Command<'a>,
    },
    /// It waits for messages on this core; its answer is left in [`ShardCore::next_answer`] some time.
    Parked,
    /// Other cores have a part in its answer, which comes as that of a parked one does.
    Forwarded,
}

impl Outcome<'_> {
    /// The answer, if it was given at once.
    pub fn reply(self) -> Option<Reply> {
        match self {
            Outcome::Answered { reply, .. } => Some(reply),
            Outcome::Parked | Outcome::Forwarded => None,
        }
    }
}

/// The shard of a core, its lanes to the others, and what its turns have left to do.
#[derive(Debug)]
pub struct ShardCore {
    pub(super) core: u16,
    shards: u16,
    shard: Shard,
    port: Port,
    pub(super) directory: Arc<Directory>,
    pub(super) exchanges: Exchanges,
    /// The way to the engine, where there is one.
    pub(super) engine: Option<EngineLine>,
    pub(super) untold: Untold,
    pub(super) open: OpenRequests,
    /// Waiting pops for which other shards had nothing after all.
    missed: VecDeque<ClientRef>,
    /// Reused between turns.
    effects: Vec<Effect>,
    answers: VecDeque<Answer>,
    pub(super) stopping: bool,
}

const LANES_FULL: Reply = Reply::Refused(Refusal::Overloaded {
    text: "the core that owns the key has more to do than it can; try again in a moment",
});

const DECLARED_MEANWHILE: Reply = Reply::Refused(Refusal::Overloaded {
    text: "the queue was declared at the same moment; try again",
});

impl ShardCore {
    /// The core whose lanes `port` is the end of; one without an engine.
    pub fn new(port: Port, shard: Shard, directory: Arc<Directory>) -> ShardCore {
        ShardCore {
            core: port.core(),
            shards: directory.bounds().shards,
            shard,
            port,
            directory,
            exchanges: Exchanges::default(),
            engine: None,
            untold: Untold::default(),
            open: OpenRequests::default(),
            missed: VecDeque::new(),
            effects: Vec::new(),
            answers: VecDeque::new(),
            stopping: false,
        }
    }

    /// The core with a way to the engine: what is declared is stored first.
    pub fn with_engine(self, engine: EngineLine) -> ShardCore {
        ShardCore {
            engine: Some(engine),
            ..self
        }
    }

    /// Serves one command of a client of this core, here or by sending it to its owner. Answers to
    /// others are left in [`ShardCore::next_answer`].
    pub fn command<'a>(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        command: Command<'a>,
    ) -> Outcome<'a> {
        if self.is_stored_first(tenant, &command) {
            return self.store_first((client, tenant), command);
        }
        match dispatch::route(tenant, &command, self.shards) {
            Route::To(owner) if owner != self.core => {
                self.forward(now, owner, (client, tenant), command)
            }
            Route::Split => self.split_acks(now, (client, tenant), command),
            Route::To(_) | Route::Anywhere => self.serve(now, (client, tenant), command),
        }
    }

    fn is_stored_first(&self, tenant: TenantId, command: &Command<'_>) -> bool {
        let engine = self.engine.as_ref();
        engine.is_some_and(|engine| engine.stores_first(&self.directory, tenant, command))
    }

    /// Has a command stored; the engine sends it on to its queue's home, which answers.
    fn store_first<'a>(
        &mut self,
        (client, tenant): (ClientRef, TenantId),
        command: Command<'a>,
    ) -> Outcome<'a> {
        let change = match command.clone().into_owned() {
            Command::Configure(configure) => Change::Declare(configure),
            Command::Delete(queue) => Change::Remove(queue),
            other => panic!("{other:?} is nothing to be stored"),
        };
        if let Err(refusal) = self.send_to_engine(client, tenant, change) {
            let reply = Reply::Refused(refusal);
            return Outcome::Answered { reply, command };
        }
        let before = self.open.insert(client, Open::Echo(command.into_owned()));
        assert!(before.is_none(), "a request is open twice");
        Outcome::Forwarded
    }

    pub(super) fn send_to_engine(
        &self,
        client: ClientRef,
        tenant: TenantId,
        change: Change,
    ) -> Result<(), Refusal> {
        let engine = self.engine.as_ref().expect("there is an engine");
        engine.send(client, tenant, change)
    }

    /// Sets the operator's switch: where there is an engine, it does so and answers some time, unless
    /// it refuses; `None`: there is none, and the caller does it.
    pub fn switch(&self, client: ClientRef, enabled: bool) -> Option<Result<(), Refusal>> {
        self.engine.as_ref()?;
        let change = Change::Switch { enabled };
        Some(self.send_to_engine(client, TenantId::DEFAULT, change))
    }

    fn serve<'a>(
        &mut self,
        now: Moment,
        (client, tenant): (ClientRef, TenantId),
        mut command: Command<'a>,
    ) -> Outcome<'a> {
        if self.lanes_are_full_for(tenant, &command) {
            let reply = LANES_FULL;
            return Outcome::Answered { reply, command };
        }
        self.shard
            .apply(now, client, tenant, &mut command, &mut self.effects);
        let answered = self.perform(Some(client));
        self.go_on(now);
        if let Some(reply) = answered {
            return Outcome::Answered { reply, command };
        }
        // A pop that stays at its partition needs nobody else.
        let stays = matches!(&command, Command::Pop(pop) if pop.partition.is_some());
        if self.shards > 1 && !stays {
            self.keep_open(now, self.core, (client, tenant), command);
        }
        if self.shard.is_parked(client) {
            Outcome::Parked
        } else {
            Outcome::Forwarded
        }
    }

    /// A command in which several shards have a part is not begun unless all of them can be asked.
    fn lanes_are_full_for(&self, tenant: TenantId, command: &Command<'_>) -> bool {
        let queue = dispatch::whole_queue(command).filter(|_| self.shards > 1);
        let cell = queue.and_then(|queue| self.directory.peek(tenant, queue));
        let asked = cell.map_or(0, |cell| cell.shards() & !(1 << self.core));
        cores_of(asked).any(|core| !self.port.has_room(core))
    }

    fn forward<'a>(
        &mut self,
        now: Moment,
        owner: u16,
        (client, tenant): (ClientRef, TenantId),
        command: Command<'a>,
    ) -> Outcome<'a> {
        if !self.port.has_room(owner) {
            let reply = LANES_FULL;
            return Outcome::Answered { reply, command };
        }
        let owned = command.into_owned();
        if !matches!(owned, Command::Push(_)) {
            self.keep_open(now, owner, (client, tenant), owned.clone());
        }
        self.send_request(owner, client, tenant, owned);
        Outcome::Forwarded
    }

    fn send_request(
        &mut self,
        owner: u16,
        client: ClientRef,
        tenant: TenantId,
        command: Command<'static>,
    ) {
        let forwarded = Forwarded {
            client,
            tenant,
            command,
        };
        self.port.send(owner, Frame::Request(Box::new(forwarded)));
    }

    /// Remembers what is needed of a command that is answered later.
    fn keep_open(
        &mut self,
        now: Moment,
        core: u16,
        (client, tenant): (ClientRef, TenantId),
        command: Command<'_>,
    ) {
        let open = match command {
            Command::Push(_) | Command::Queues(_) => return,
            Command::Pop(pop) => {
                let Some(wait_ms) = pop.wait_ms else {
                    return;
                };
                Open::Wait(Wait {
                    core,
                    pop: pop.partition.is_none().then(|| (tenant, pop.into_owned())),
                    since: now,
                    deadline: now.after_ms(wait_ms),
                    hurried: false,
                })
            }
            other => Open::Echo(other.into_owned()),
        };
        let before = self.open.insert(client, open);
        assert!(before.is_none(), "a request is open twice");
    }

    /// Sends each owner its part of the acks, if all can be asked.
    fn split_acks<'a>(
        &mut self,
        now: Moment,
        (client, tenant): (ClientRef, TenantId),
        command: Command<'a>,
    ) -> Outcome<'a> {
        let Command::Ack(ack) = command else {
            panic!("{command:?} was split");
        };
        let (core, shards) = (self.core, self.shards);
        let queue = ack.queue.as_str().to_owned();
        let owner = |id: &str| dispatch::owner_of_id(tenant, &queue, id, shards);
        let full = |id: &str| owner(id) != core && !self.port.has_room(owner(id));
        if ack.acks.iter().any(|item| full(&item.id)) {
            let (reply, command) = (LANES_FULL, Command::Ack(ack));
            return Outcome::Answered { reply, command };
        }
        let (open, parts) = AckParts::split(ack.into_owned(), owner);
        self.open.insert(client, Open::Acks(open));
        for (owner, part) in parts {
            let mut part = Command::Ack(part);
            if owner == core {
                self.shard
                    .apply(now, client, tenant, &mut part, &mut self.effects);
                self.perform(None);
            } else {
                self.send_request(owner, client, tenant, part);
            }
        }
        Outcome::Forwarded
    }

    /// Takes one frame from another core.
    pub fn receive(&mut self, now: Moment, from: u16, frame: Frame) {
        match frame {
            Frame::Request(request) => self.serve_other(now, from, *request),
            Frame::Abandon(client) => {
                self.run(|shard, effects| shard.abandon(now, client, effects))
            }
            Frame::Hurry(client) => self.run(|shard, effects| shard.hurry(now, client, effects)),
            Frame::GiveBack(popped) => {
                self.run(|shard, effects| shard.give_back(now, *popped, effects));
            }
            Frame::Reply(answer) => self.settle(from, answer.client, answer.reply),
            Frame::Peer(message) => {
                self.run(|shard, effects| shard.on_peer(now, from, *message, effects));
            }
            Frame::Pause => self.run(|shard, effects| shard.refuse_all_parked(now, effects)),
        }
        self.go_on(now);
    }

    /// Takes the next frame that has arrived, if there is one.
    pub fn receive_next(&mut self, now: Moment) -> bool {
        let Some((from, frame)) = self.port.receive() else {
            return false;
        };
        self.receive(now, from, frame);
        true
    }

    /// Serves a command that another core sends. What the engine sends is stored already: nothing is
    /// in its way any more.
    fn serve_other(&mut self, now: Moment, from: u16, request: Forwarded) {
        let Forwarded {
            client,
            tenant,
            mut command,
        } = request;
        if let Command::Pop(pop) = &mut command
            && self.stopping
        {
            pop.wait_ms = None;
        }
        let refused = if from >= self.shards {
            None
        } else if self.directory.paused() {
            // It may have left before the pause.
            Some(Reply::Refused(Refusal::Paused))
        } else if self.is_stored_first(tenant, &command) {
            Some(DECLARED_MEANWHILE)
        } else {
            self.lanes_are_full_for(tenant, &command)
                .then_some(LANES_FULL)
        };
        match refused {
            Some(reply) => self.effects.push(Effect::Answer { client, reply }),
            None => self
                .shard
                .apply(now, client, tenant, &mut command, &mut self.effects),
        }
        self.perform(None);
    }

    /// Performs the effects of a turn; the answer to `own`, if there is one.
    fn perform(&mut self, own: Option<ClientRef>) -> Option<Reply> {
        let mut answered = None;
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Answer { client, reply } if Some(client) == own => match reply {
                    Reply::Missed => self.missed.push_back(client),
                    reply => {
                        assert!(answered.is_none(), "a request was answered twice");
                        answered = Some(reply);
                    }
                },
                Effect::Answer { client, .. } if client == ClientRef::NOBODY => {}
                Effect::Answer { client, reply } if client.core == self.core => {
                    self.settle(self.core, client, reply);
                }
                Effect::Answer { client, reply } => {
                    let answer = Box::new(channel::Answer { client, reply });
                    self.port.reply(client.core, Frame::Reply(answer));
                }
                Effect::Tell { shard, message } => self.tell(shard, message),
            }
        }
        self.effects = effects;
        answered
    }

    fn tell(&mut self, shard: u16, message: PeerMessage) {
        let answers = matches!(
            message,
            PeerMessage::RoomMade { .. } | PeerMessage::PartDone { .. }
        );
        let frame = Frame::Peer(Box::new(message));
        if answers {
            self.port.reply(shard, frame);
        } else {
            self.port.send(shard, frame);
        }
    }

    /// An answer, or a part of one, to a client of this core.
    fn settle(&mut self, from: u16, client: ClientRef, reply: Reply) {
        if matches!(reply, Reply::Missed) {
            self.missed.push_back(client);
            return;
        }
        let mut durable = None;
        let (reply, command) = match self.open.remove(&client) {
            Some(Open::Acks(mut parts)) => {
                if !parts.join(from, reply) {
                    self.open.insert(client, Open::Acks(parts));
                    return;
                }
                let (reply, command) = parts.finish();
                (reply, Some(command))
            }
            Some(Open::Echo(command)) => (reply, Some(command)),
            Some(Open::Durable(open)) => {
                durable = Some(open.echo);
                (reply, None)
            }
            Some(Open::Wait(_)) | None => (reply, None),
        };
        self.give(Answer {
            client,
            reply,
            command,
            durable,
        });
    }

    /// Leaves an answer, or its part of one to an exchange.
    pub(super) fn give(&mut self, answer: Answer) {
        self.answers.extend(self.exchanges.gather(answer));
    }

    /// Does what a turn has left to do: waiting pops for which other shards had nothing go home, pops
    /// that waited for the other legs of their exchange are served.
    fn go_on(&mut self, now: Moment) {
        self.send_missed_home(now);
        while !self.exchanges.pops_next.is_empty() {
            self.serve_next_pops(now);
            self.send_missed_home(now);
        }
    }

    /// Waiting pops for which other shards had nothing go back to where they park, unless their time
    /// is up or their client has gone.
    fn send_missed_home(&mut self, now: Moment) {
        while let Some(client) = self.missed.pop_front() {
            let Some(Open::Wait(wait)) = self.open.get(&client) else {
                continue;
            };
            let (core, hurried) = (wait.core, wait.hurried);
            let over = self.stopping || wait.deadline <= now;
            let (tenant, pop) = wait.again(now).expect("only such a pop travels");
            if hurried || over {
                let reply = if hurried {
                    Reply::Gone
                } else {
                    Reply::Popped(self.shard.nothing(tenant, &pop))
                };
                self.settle(self.core, client, reply);
            } else if core == self.core {
                self.park_again(now, (client, tenant), pop);
            } else {
                self.send_request(core, client, tenant, Command::Pop(pop));
            }
        }
    }

    fn park_again(
        &mut self,
        now: Moment,
        (client, tenant): (ClientRef, TenantId),
        pop: Pop<'static>,
    ) {
        if self.directory.paused() {
            self.settle(self.core, client, Reply::Refused(Refusal::Paused));
            return;
        }
        let mut command = Command::Pop(pop);
        self.run(|shard, effects| shard.apply(now, client, tenant, &mut command, effects));
    }

    /// Judges a client's command before it is placed: a push of nothing is answered, another one is
    /// charged to its tenant's rate, and nobody parks at a broker that stops. The answer, if that is
    /// all.
    pub fn prepare(
        &mut self,
        now: Moment,
        tenant: TenantId,
        command: &mut Command<'_>,
    ) -> Option<Reply> {
        match command {
            Command::Push(push) if push.payloads.is_empty() => Some(Reply::Pushed { count: 0 }),
            Command::Push(push) => {
                let messages = push.payloads.len() as u64;
                let charged = self.shard.charge(now, tenant, messages);
                charged.err().map(Reply::Refused)
            }
            Command::Pop(pop) if self.stopping => {
                pop.wait_ms = None;
                None
            }
            _ => None,
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment) {
        self.run(|shard, effects| shard.run_due(now, effects));
        self.go_on(now);
        if self.untold.next_deadline().is_some_and(|at| at <= now) {
            self.tell_untold(now);
        }
    }

    /// When [`ShardCore::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Moment> {
        let untold = self.untold.next_deadline();
        untold.into_iter().chain(self.shard.next_deadline()).min()
    }

    /// The client of a request that is not answered is gone.
    pub fn abandon(&mut self, now: Moment, client: ClientRef) {
        if self.abandon_exchange(now, client) {
            return;
        }
        match self.open.remove(&client) {
            Some(Open::Wait(wait)) if wait.core != self.core => {
                self.port.send(wait.core, Frame::Abandon(client));
            }
            Some(Open::Durable(open)) => self.abandon_durable(now, client, &open),
            _ => self.run(|shard, effects| shard.abandon(now, client, effects)),
        }
        self.go_on(now);
    }

    /// The client of a request that other cores answer has closed its half: it does not wait.
    pub fn hurry(&mut self, now: Moment, client: ClientRef) {
        if self.hurry_exchange(now, client) {
            return;
        }
        let Some(Open::Wait(wait)) = self.open.get_mut(&client) else {
            return;
        };
        wait.hurried = true;
        if wait.core == self.core {
            self.run(|shard, effects| shard.hurry(now, client, effects));
        } else {
            self.port.send(wait.core, Frame::Hurry(client));
        }
        self.go_on(now);
    }

    /// What an answer took could not be delivered: each owner gets its own back.
    pub fn give_back(&mut self, now: Moment, mut popped: Popped) {
        while let Some(first) = popped.messages.first() {
            let (tenant, queue) = (popped.tenant, Arc::clone(&popped.queue));
            let owner = |partition: &str| placement::owner(tenant, &queue, partition, self.shards);
            let owner_of_first = owner(&first.partition);
            let (own, rest) = popped
                .messages
                .into_iter()
                .partition(|message| owner(&message.partition) == owner_of_first);
            let part = Popped {
                queue: Arc::clone(&queue),
                messages: own,
                ..popped
            };
            if owner_of_first == self.core {
                self.run(|shard, effects| shard.give_back(now, part, effects));
            } else {
                self.port
                    .send(owner_of_first, Frame::GiveBack(Box::new(part)));
            }
            popped.messages = rest;
            popped.queue = queue;
        }
        self.go_on(now);
    }

    /// The class is paused: nobody stays parked, here or elsewhere.
    pub fn refuse_all_parked(&mut self, now: Moment) {
        for core in (0..self.shards).filter(|&core| core != self.core) {
            self.port.send(core, Frame::Pause);
        }
        self.run(|shard, effects| shard.refuse_all_parked(now, effects));
    }

    /// The broker stops: nobody stays parked, nor parks from now on.
    pub fn stop(&mut self, now: Moment) {
        self.stopping = true;
        self.run(|shard, effects| shard.answer_all_empty(now, effects));
        self.answer_durable_waits(now);
        self.go_on(now);
    }

    /// The oldest answer that a turn has left.
    pub fn next_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Sends what waited for room, and says which cores have to be woken, a bit each. To be called at
    /// the end of every turn.
    pub fn end_turn(&mut self) -> u64 {
        self.port.flush();
        self.port.take_rings()
    }

    /// Whether the core may sleep: nothing has arrived. Others wake it from then on.
    pub fn try_sleep(&mut self) -> bool {
        self.port.try_sleep()
    }

    /// The core is awake again.
    pub fn wake(&mut self) {
        self.port.wake();
    }

    /// Its end of the lanes.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The same, for the simulation, which decides what arrives when.
    pub fn port_mut(&mut self) -> &mut Port {
        &mut self.port
    }

    /// Totals since the start.
    pub fn statistics(&self) -> Statistics {
        self.shard.statistics()
    }

    /// Pops that are parked now.
    pub fn parked(&self) -> usize {
        self.shard.parked()
    }

    /// Requests of its clients that are open because of other cores.
    pub fn open_requests(&self) -> usize {
        self.open.len() + self.exchanges.len()
    }

    pub(super) fn has_open(&self, client: ClientRef) -> bool {
        self.open.contains_key(&client)
    }

    /// Its shard, to be looked at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    fn run(&mut self, turn: impl FnOnce(&mut Shard, &mut Vec<Effect>)) {
        turn(&mut self.shard, &mut self.effects);
        self.perform(None);
    }
}
