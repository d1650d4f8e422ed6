//! Requests of several legs: acks, pushes and a pop that are answered together. A leg is served as a
//! request of its own, of a client that is no connection; what comes back for it is gathered here.

use std::ops::Range;

use hashbrown::HashMap;
use slab::Slab;

use super::shard_core::{Answer, Outcome, ShardCore};
use crate::model::{
    ClientRef, Command, Exchange, Exchanged, Moment, Pop, Popped, Refusal, Reply, TenantId,
};

/// The connection that clients of legs name; no connection has this key.
const LEG: u32 = u32::MAX;

/// What became of an exchange.
#[derive(Debug)]
pub enum ExchangeOutcome<'a> {
    /// All legs are answered.
    Answered(Exchanged<'a>),
    /// Its pop waits on this core, everything else is done; the answer comes as that of a parked pop.
    Parked,
    /// Other cores have a part in its answer.
    Forwarded,
}

/// The place of a leg in its exchange.
#[derive(Clone, Copy, Debug)]
enum Place {
    Ack(usize),
    Push(usize),
    Pop,
}

/// The pop of an exchange that is not answered.
#[derive(Debug)]
enum PopLeg {
    /// There is none, or it is answered.
    Over,
    /// It is served once the other legs are done: they may change what it finds.
    Later(Pop<'static>),
    /// It waits, here or elsewhere.
    Waits(ClientRef),
}

/// An exchange that is not answered.
#[derive(Debug)]
struct OpenExchange {
    client: ClientRef,
    tenant: TenantId,
    acks: Vec<Option<(Command<'static>, Reply)>>,
    pushes: Vec<Option<Reply>>,
    pop: Option<Reply>,
    pop_leg: PopLeg,
    /// Numbers of its legs, but for a pop that is served later.
    legs: Range<u64>,
    /// Legs that are not answered, one that is served later among them.
    left: usize,
    /// Its client has closed its half: its pop does not wait.
    is_hurried: bool,
}

/// All of a core's clients that are not answered.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    open: Slab<OpenExchange>,
    by_client: HashMap<ClientRef, usize>,
    /// Exchange and place of each leg that is not answered, by its number.
    legs: HashMap<u64, (usize, Place)>,
    last: u64,
    /// The last leg before those of the exchange that is being begun, if one is.
    begun_behind: Option<u64>,
    /// Answers to legs of that one: to begin a leg may answer one before it.
    early: Vec<Answer>,
    /// Those whose pop is next.
    pub(super) pops_next: Vec<usize>,
}

impl Exchanges {
    fn new_leg(&mut self, core: u16) -> ClientRef {
        self.last += 1;
        ClientRef {
            core,
            connection: LEG,
            request: self.last,
            generation: 0,
        }
    }

    /// Takes the answer to a leg; what is left of it is for somebody else: the answer to the whole, or
    /// that of a leg whose exchange is gone.
    pub(super) fn gather(&mut self, answer: Answer) -> Option<Answer> {
        if answer.client.connection != LEG {
            return Some(answer);
        }
        let leg = answer.client.request;
        if self.begun_behind.is_some_and(|before| leg > before) {
            self.early.push(answer);
            return None;
        }
        let Some((key, place)) = self.legs.remove(&leg) else {
            return Some(answer);
        };
        let exchange = &mut self.open[key];
        match place {
            Place::Ack(at) => {
                let command = answer.command.expect("acks are repeated in the answer");
                exchange.acks[at] = Some((command, answer.reply));
            }
            Place::Push(at) => exchange.pushes[at] = Some(answer.reply),
            Place::Pop => {
                exchange.pop_leg = PopLeg::Over;
                exchange.pop = Some(answer.reply);
            }
        }
        exchange.left -= 1;
        match exchange.left {
            0 => Some(self.close(key)),
            1 if matches!(exchange.pop_leg, PopLeg::Later(_)) => {
                self.pops_next.push(key);
                None
            }
            _ => None,
        }
    }

    fn close(&mut self, key: usize) -> Answer {
        let exchange = self.open.remove(key);
        self.by_client.remove(&exchange.client);
        let reply = match exchange.pop {
            // Whoever has closed its half gets nothing at all.
            Some(Reply::Gone) => Reply::Gone,
            pop => {
                let acks = exchange.acks.into_iter();
                let pushes = exchange.pushes.into_iter();
                Reply::Exchanged(Box::new(Exchanged {
                    acks: acks.map(|ack| ack.expect("answered")).collect(),
                    pushes: pushes.map(|push| push.expect("answered")).collect(),
                    pop,
                }))
            }
        };
        Answer {
            client: exchange.client,
            reply,
            command: None,
            durable: None,
        }
    }

    fn pop_leg_of(&self, client: ClientRef) -> Option<ClientRef> {
        let key = self.by_client.get(&client)?;
        match self.open[*key].pop_leg {
            PopLeg::Waits(leg) => Some(leg),
            PopLeg::Over | PopLeg::Later(_) => None,
        }
    }

    /// Exchanges that are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

/// An exchange while its legs are begun.
struct Begun<'a> {
    acks: Vec<Option<(Command<'a>, Reply)>>,
    pushes: Vec<Option<Reply>>,
    pop: Option<Reply>,
    pop_leg: PopLeg,
    /// Legs that are answered later.
    open: Vec<(ClientRef, Place)>,
    is_parked: bool,
}

impl Begun<'_> {
    fn is_done(&self) -> bool {
        self.open.is_empty() && matches!(self.pop_leg, PopLeg::Over)
    }
}

impl ShardCore {
    /// Serves an exchange: the acks, the pushes, then the pop, so that each partition sees them in
    /// this order. `refused`: what every leg is refused for.
    pub fn exchange<'a>(
        &mut self,
        now: Moment,
        (client, tenant): (ClientRef, TenantId),
        exchange: Exchange<'a>,
        refused: Option<&Refusal>,
    ) -> ExchangeOutcome<'a> {
        let mut begun = Begun {
            acks: Vec::with_capacity(exchange.acks.len()),
            pushes: Vec::with_capacity(exchange.pushes.len()),
            pop: None,
            pop_leg: PopLeg::Over,
            open: Vec::new(),
            is_parked: false,
        };
        self.exchanges.begun_behind = Some(self.exchanges.last);
        // A pop waits for what is open of its queue. One without partition goes to its queue's home
        // first, and may come to a partition before what was sent straight there; one with a partition
        // would overtake a push that is held until there is room.
        let mut waits_for_legs = false;
        let is_of_pop = |queue: &str| {
            let pop = exchange.pop.as_ref();
            pop.is_some_and(|pop| pop.queue.as_str() == queue)
        };
        for (at, ack) in exchange.acks.into_iter().enumerate() {
            let is_of_pop = is_of_pop(ack.queue.as_str());
            let leg = self.exchanges.new_leg(self.core);
            let done = match self.leg(now, (leg, tenant), Command::Ack(ack), refused) {
                Outcome::Answered { reply, command } => Some((command, reply)),
                Outcome::Parked | Outcome::Forwarded => {
                    begun.open.push((leg, Place::Ack(at)));
                    waits_for_legs |= is_of_pop;
                    None
                }
            };
            begun.acks.push(done);
        }
        for (at, push) in exchange.pushes.into_iter().enumerate() {
            let is_of_pop = is_of_pop(push.queue.as_str());
            let leg = self.exchanges.new_leg(self.core);
            let reply = self.leg(now, (leg, tenant), Command::Push(push), refused);
            let reply = reply.reply();
            if reply.is_none() {
                begun.open.push((leg, Place::Push(at)));
                waits_for_legs |= is_of_pop;
            }
            begun.pushes.push(reply);
        }
        match exchange.pop {
            None => {}
            Some(pop) if waits_for_legs => begun.pop_leg = PopLeg::Later(pop.into_owned()),
            Some(pop) => self.begin_pop(now, tenant, pop, refused, &mut begun),
        }
        self.leave_open(client, tenant, begun)
    }

    fn begin_pop(
        &mut self,
        now: Moment,
        tenant: TenantId,
        pop: Pop<'_>,
        refused: Option<&Refusal>,
        begun: &mut Begun<'_>,
    ) {
        let leg = self.exchanges.new_leg(self.core);
        match self.leg(now, (leg, tenant), Command::Pop(pop), refused) {
            Outcome::Answered { reply, .. } => begun.pop = Some(reply),
            outcome => {
                begun.is_parked = matches!(outcome, Outcome::Parked) && begun.open.is_empty();
                begun.pop_leg = PopLeg::Waits(leg);
                begun.open.push((leg, Place::Pop));
            }
        }
    }

    /// Serves one leg.
    fn leg<'a>(
        &mut self,
        now: Moment,
        (leg, tenant): (ClientRef, TenantId),
        mut command: Command<'a>,
        refused: Option<&Refusal>,
    ) -> Outcome<'a> {
        // A push of nothing is answered before anything is asked.
        let is_nothing = matches!(&command, Command::Push(push) if push.payloads.is_empty());
        if let Some(refusal) = refused.filter(|_| !is_nothing) {
            let reply = Reply::Refused(refusal.clone());
            return Outcome::Answered { reply, command };
        }
        if let Some(reply) = self.prepare(now, tenant, &mut command) {
            return Outcome::Answered { reply, command };
        }
        self.command(now, leg, tenant, command)
    }

    fn leave_open<'a>(
        &mut self,
        client: ClientRef,
        tenant: TenantId,
        begun: Begun<'a>,
    ) -> ExchangeOutcome<'a> {
        let before = self.exchanges.begun_behind.take();
        if begun.is_done() {
            return ExchangeOutcome::Answered(Exchanged {
                acks: begun.acks.into_iter().flatten().collect(),
                pushes: begun.pushes.into_iter().flatten().collect(),
                pop: begun.pop,
            });
        }
        let owned = |(command, reply): (Command<'_>, Reply)| (command.into_owned(), reply);
        let later = usize::from(matches!(begun.pop_leg, PopLeg::Later(_)));
        let is_parked = begun.is_parked;
        let key = self.exchanges.open.insert(OpenExchange {
            client,
            tenant,
            acks: begun.acks.into_iter().map(|ack| ack.map(owned)).collect(),
            pushes: begun.pushes,
            pop: begun.pop,
            pop_leg: begun.pop_leg,
            legs: before.expect("it was begun") + 1..self.exchanges.last + 1,
            left: begun.open.len() + later,
            is_hurried: false,
        });
        for (leg, place) in begun.open {
            self.exchanges.legs.insert(leg.request, (key, place));
        }
        let before = self.exchanges.by_client.insert(client, key);
        assert!(before.is_none(), "a request is open twice");
        for answer in std::mem::take(&mut self.exchanges.early) {
            self.give(answer);
        }
        if is_parked {
            ExchangeOutcome::Parked
        } else {
            ExchangeOutcome::Forwarded
        }
    }

    /// Serves the pops of exchanges whose other legs are done.
    pub(super) fn serve_next_pops(&mut self, now: Moment) {
        while let Some(key) = self.exchanges.pops_next.pop() {
            let Some(exchange) = self.exchanges.open.get_mut(key) else {
                continue;
            };
            let PopLeg::Later(pop) = std::mem::replace(&mut exchange.pop_leg, PopLeg::Over) else {
                continue;
            };
            let (client, tenant) = (exchange.client, exchange.tenant);
            let is_hurried = exchange.is_hurried;
            let leg = self.exchanges.new_leg(self.core);
            self.exchanges.open[key].pop_leg = PopLeg::Waits(leg);
            self.exchanges.legs.insert(leg.request, (key, Place::Pop));
            // The class may have been paused meanwhile.
            let refused = self.directory.admits(tenant).err();
            let outcome = self.leg(now, (leg, tenant), Command::Pop(pop), refused.as_ref());
            if let Outcome::Answered { reply, .. } = outcome {
                self.give(Answer {
                    client: leg,
                    reply,
                    command: None,
                    durable: None,
                });
            } else if is_hurried {
                self.hurry_exchange(now, client);
            }
        }
    }

    /// The client of an exchange is gone: nobody waits for it. What its pop has taken is given back.
    /// False if the client has no exchange open.
    pub(super) fn abandon_exchange(&mut self, now: Moment, client: ClientRef) -> bool {
        let Some(key) = self.exchanges.by_client.remove(&client) else {
            return false;
        };
        let exchange = self.exchanges.open.remove(key);
        for leg in exchange.legs {
            self.exchanges.legs.remove(&leg);
        }
        self.exchanges.pops_next.retain(|next| *next != key);
        match exchange.pop_leg {
            PopLeg::Waits(leg) => {
                self.exchanges.legs.remove(&leg.request);
                self.abandon(now, leg);
            }
            PopLeg::Over | PopLeg::Later(_) => {}
        }
        if let Some(Reply::Popped(popped)) = exchange.pop
            && !popped.messages.is_empty()
        {
            self.give_back(now, popped);
        }
        true
    }

    /// The client of an exchange has closed its half: its pop does not wait. False if the client has
    /// no exchange open.
    pub(super) fn hurry_exchange(&mut self, now: Moment, client: ClientRef) -> bool {
        let Some(&key) = self.exchanges.by_client.get(&client) else {
            return false;
        };
        self.exchanges.open[key].is_hurried = true;
        if let Some(leg) = self.exchanges.pop_leg_of(client) {
            if self.has_open(leg) {
                self.hurry(now, leg);
            } else if self.shard().is_parked(leg) {
                self.abandon(now, leg);
                self.give(Answer {
                    client: leg,
                    reply: Reply::Gone,
                    command: None,
                    durable: None,
                });
            }
        }
        true
    }
}

/// What the answer to an exchange took, if its pop took something.
pub(super) fn popped_by(exchanged: Exchanged<'_>) -> Option<Popped> {
    match exchanged.pop {
        Some(Reply::Popped(popped)) if !popped.messages.is_empty() => Some(popped),
        _ => None,
    }
}
