//! The broker as the connections of one core see it: requests in, answers out.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;

use super::bells::Bells;
use super::claim::Claim;
use super::durable::{DurableOutcome, without_engine};
use super::exchange::{ExchangeOutcome, popped_by};
use super::listing::Listing;
use super::reader_line::ReaderLine;
use super::shard_core::{Answer, Outcome, ShardCore};
use crate::api::{self, BodyBytes, Call, DecodeRules, DurableEcho, Echo};
use crate::auth::{Authenticator, TokenVerifier};
use crate::directory::Directory;
use crate::engine::{Database, Status};
use crate::http::{Fault, Head, ResponseStyle};
use crate::limits;
use crate::model::durable::read::Read;
use crate::model::{ClientRef, Command, Moment, Reply, TenantId, durable};
use crate::net::{Body, Called, Connections, Request, Service};
use crate::observe::{self, CoreCounters, Observed, ParkedQueue};
use crate::runtime::{self, Notify};

/// Media type of the text that the metrics library writes.
const PROMETHEUS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the broker of a core is made of.
pub struct BrokerParts {
    /// The shard and its turns.
    pub core: ShardCore,
    /// Shared by all cores.
    pub directory: Arc<Directory>,
    /// How the engine is.
    pub engine: Arc<Status>,
    /// The way to the reader, where there is one.
    pub reader: Option<ReaderLine>,
    /// Counters of all cores.
    pub observed: Observed,
    /// Which of them are this core's.
    pub number: u16,
    /// Wake the other cores.
    pub bells: Bells,
    /// Whether requests name their tenant.
    pub tenancy: bool,
    /// Which tokens hold; `None`: nobody is asked for one.
    pub tokens: Option<Arc<TokenVerifier>>,
    /// Milliseconds that a waiting pop waits if it does not say.
    pub pop_default_timeout_ms: u64,
    /// Microseconds that the core polls after the last event before it sleeps; 0: it does not.
    pub spin_us: u64,
}

/// One core's broker.
pub struct Broker {
    core: RefCell<ShardCore>,
    directory: Arc<Directory>,
    engine: Arc<Status>,
    reader: Option<ReaderLine>,
    connections: Connections<Broker>,
    observed: Observed,
    counters: Arc<CoreCounters>,
    bells: Bells,
    tenancy: bool,
    authenticator: Option<Authenticator>,
    pop_default_timeout_ms: u64,
    spin_us: u64,
    /// When something happened last.
    last_event: Cell<Moment>,
    /// Told of that while the core does not poll.
    stirred: Notify,
    /// The moment the clock task sleeps until.
    armed: Cell<Moment>,
    /// Told when something is due before that.
    pub(super) rearm: Notify,
    /// Told when another core has rung.
    pub(super) rung: Notify,
}

impl Broker {
    /// The broker behind `connections`.
    pub fn new(parts: BrokerParts, connections: &Connections<Broker>) -> Broker {
        Broker {
            core: RefCell::new(parts.core),
            directory: parts.directory,
            engine: parts.engine,
            reader: parts.reader,
            connections: connections.clone(),
            counters: Arc::clone(parts.observed.core(usize::from(parts.number))),
            observed: parts.observed,
            bells: parts.bells,
            tenancy: parts.tenancy,
            authenticator: parts.tokens.map(Authenticator::new),
            pop_default_timeout_ms: parts.pop_default_timeout_ms,
            spin_us: parts.spin_us,
            last_event: Cell::new(Moment::ZERO),
            stirred: Notify::new(),
            armed: Cell::new(Moment::NEVER),
            rearm: Notify::new(),
            rung: Notify::new(),
        }
    }

    /// Serves frames from other cores for a bounded number and time; whether more may have arrived.
    pub(super) fn receive(&self) -> bool {
        let started = runtime::now();
        let (mut now, end) = (started, started.after_ms(limits::FRAMES_STEP_MS));
        let mut left = limits::FRAMES_STEP_MAX;
        while left > 0 && now <= end && self.core.borrow_mut().receive_next(now) {
            left -= 1;
            now = runtime::now();
        }
        // It may have been rung for room alone, for frames that wait here.
        if left < limits::FRAMES_STEP_MAX || self.core.borrow().port().waiting() > 0 {
            self.end_turn();
        }
        left == 0 || now > end
    }

    /// Whether the core may sleep until another one rings.
    pub(super) fn sleep(&self) -> bool {
        self.core.borrow_mut().try_sleep()
    }

    /// Whether something happened so lately that more may come soon: the core polls for it.
    pub(super) fn is_lively(&self) -> bool {
        self.spin_us > 0 && {
            let idle = runtime::now().since(self.last_event.get());
            idle.as_micros() < u128::from(self.spin_us)
        }
    }

    /// Whether something has happened since the core stopped polling; only where it polls at all.
    pub(super) fn poll_stirred(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.spin_us == 0 {
            return Poll::Pending;
        }
        self.stirred.poll_notified(context)
    }

    fn note_event(&self) {
        if self.spin_us > 0 {
            self.last_event.set(runtime::now());
            self.stirred.notify();
        }
    }

    /// Another core has rung.
    pub(super) fn wake(&self) {
        self.core.borrow_mut().wake();
        self.rung.notify();
    }

    /// Wakes all cores.
    pub(super) fn ring_all(&self) {
        self.bells.ring_all();
    }

    /// Does what is due and says when to come back.
    pub(super) fn tick(&self) -> Moment {
        // Whoever sleeps until then is here: nobody has to be told of an earlier moment.
        self.armed.set(Moment::ZERO);
        self.core.borrow_mut().tick(runtime::now());
        self.end_turn();
        let next = self.core.borrow().next_deadline().unwrap_or(Moment::NEVER);
        self.armed.set(next);
        next
    }

    /// Answers everybody who is parked: the broker stops.
    pub(super) fn release_parked(&self) {
        self.core.borrow_mut().stop(runtime::now());
        self.end_turn();
    }

    /// Performs what a turn left to do: answers to others, counters, the next deadline.
    fn end_turn(&self) {
        loop {
            // Giving back what could not be delivered may leave further answers.
            let answer = self.core.borrow_mut().next_answer();
            let Some(answer) = answer else {
                break;
            };
            self.deliver(answer);
        }
        self.note_event();
        let rings = self.core.borrow_mut().end_turn();
        self.bells.ring(rings);
        self.counters.turns.add(1);
        self.publish();
        let core = self.core.borrow();
        if let Some(deadline) = core.next_deadline()
            && deadline < self.armed.get()
        {
            self.armed.set(deadline);
            self.rearm.notify();
        }
    }

    fn deliver(&self, answer: Answer) {
        let Answer {
            client,
            reply,
            command,
            durable,
        } = answer;
        if matches!(reply, Reply::Gone) {
            self.connections.drop_request(client);
            return;
        }
        let echo = match &durable {
            Some(durable) => Echo::Durable(durable),
            None => command.as_ref().map_or(Echo::Nothing, Echo::of),
        };
        let mut undelivered = Some(reply);
        self.connections.answer(client, |style, out| {
            let reply = undelivered.take().expect("called once");
            if matches!(reply, Reply::Refused(_)) {
                self.counters.refused.add(1);
            }
            api::encode_reply(echo, &reply, style, out);
            Claim::of(reply)
        });
        if let Some(claim) = undelivered.and_then(Claim::of) {
            self.give_back(claim);
        }
    }

    fn give_back(&self, claim: Claim) {
        let (now, mut core) = (runtime::now(), self.core.borrow_mut());
        match claim {
            Claim::Ephemeral(popped) => core.give_back(now, popped),
            Claim::Durable { lease_id } => core.release(now, lease_id),
        }
    }

    fn publish(&self) {
        let core = self.core.borrow();
        let totals = core.statistics();
        self.counters.pushed.set(totals.pushed);
        self.counters.popped.set(totals.popped);
        self.counters.acked.set(totals.acked);
        self.counters.dropped_bounds.set(totals.dropped.bounds);
        self.counters.dropped_ttl.set(totals.dropped.ttl);
        self.counters.dropped_retry.set(totals.dropped.retry);
        self.counters.parked.set(core.parked() as u64);
        self.counters.frames_sent.set(core.port().sent());
        self.counters
            .lane_overflow
            .set(core.port().waiting() as u64);
        let port = core.port();
        let shards = self.directory.bounds().shards;
        for other in (0..shards).filter(|&other| other != port.core()) {
            let lanes = usize::from(other);
            self.counters.sent_to(lanes).set(port.sent_to(other));
            self.counters.taken_from(lanes).set(port.taken_from(other));
        }
    }

    fn command(
        &self,
        tenant: TenantId,
        command: Command<'_>,
        client: ClientRef,
        style: ResponseStyle,
        out: &mut BytesMut,
    ) -> Called<Claim, Listing> {
        let (reply, command) = match self.serve(tenant, command, client) {
            Outcome::Answered { reply, command } => (reply, command),
            Outcome::Parked => return Called::Parked,
            Outcome::Forwarded => return Called::Forwarded,
        };
        if matches!(reply, Reply::Refused(_)) {
            self.counters.refused.add(1);
        }
        api::encode_reply(Echo::of(&command), &reply, style, out);
        Called::Answered(Claim::of(reply))
    }

    fn serve<'a>(
        &self,
        tenant: TenantId,
        mut command: Command<'a>,
        client: ClientRef,
    ) -> Outcome<'a> {
        let now = runtime::now();
        let mut core = self.core.borrow_mut();
        if let Some(reply) = core.prepare(now, tenant, &mut command) {
            return Outcome::Answered { reply, command };
        }
        let outcome = core.command(now, client, tenant, command);
        drop(core);
        self.end_turn();
        outcome
    }

    fn exchange(
        &self,
        request: api::ExchangeRequest<'_>,
        client: ClientRef,
        style: ResponseStyle,
        out: &mut BytesMut,
    ) -> Called<Claim, Listing> {
        let now = runtime::now();
        let refused = self.directory.admits(request.tenant).err();
        let asker = (client, request.tenant);
        let mut core = self.core.borrow_mut();
        let outcome = core.exchange(now, asker, request.exchange, refused.as_ref());
        drop(core);
        self.end_turn();
        match outcome {
            ExchangeOutcome::Answered(exchanged) => {
                api::encode_exchanged(&exchanged, style, out);
                Called::Answered(popped_by(exchanged).map(Claim::Ephemeral))
            }
            ExchangeOutcome::Parked => Called::Parked,
            ExchangeOutcome::Forwarded => Called::Forwarded,
        }
    }

    fn durable(
        &self,
        tenant: TenantId,
        command: durable::Command,
        client: ClientRef,
        style: ResponseStyle,
        out: &mut BytesMut,
    ) -> Called<Claim, Listing> {
        let echo = DurableEcho::of(&command);
        let mut core = self.core.borrow_mut();
        let outcome = if core.has_engine() {
            core.durable((client, tenant), command)
        } else {
            DurableOutcome::Answered(without_engine(self.engine.get().reason.as_deref()))
        };
        drop(core);
        self.end_turn();
        match outcome {
            DurableOutcome::Answered(reply) => {
                if matches!(reply, Reply::Refused(_)) {
                    self.counters.refused.add(1);
                }
                api::encode_reply(Echo::Durable(&echo), &reply, style, out);
                Called::Answered(None)
            }
            DurableOutcome::Waits => Called::Parked,
            DurableOutcome::Forwarded => Called::Forwarded,
        }
    }

    /// Hands a question to the reader.
    fn read(
        &self,
        (client, tenant): (ClientRef, TenantId),
        read: Read,
        style: ResponseStyle,
        out: &mut BytesMut,
    ) -> Called<Claim, Listing> {
        let refused = match &self.reader {
            None => without_engine(self.engine.get().reason.as_deref()),
            Some(reader) => match reader.ask(client, tenant, read) {
                Ok(()) => return Called::Forwarded,
                Err(refusal) => Reply::Refused(refusal),
            },
        };
        self.counters.refused.add(1);
        api::encode_reply(Echo::Nothing, &refused, style, out);
        Called::Answered(None)
    }

    fn buffers(&self) -> api::Buffers {
        let database = self.engine.get().database;
        api::Buffers {
            database_answers: database == Database::Connected,
            worker: match database {
                Database::Off => "off",
                Database::Connected => "idle",
                Database::Away => "waiting",
            },
            pending: self.engine.spooled().0,
            bytes: self.engine.spooled().1,
            failed: 0,
        }
    }

    /// Sets the operator's switch.
    fn switch(
        &self,
        enabled: bool,
        client: ClientRef,
        style: ResponseStyle,
        out: &mut BytesMut,
    ) -> Called<Claim, Listing> {
        let asked = self.core.borrow().switch(client, enabled);
        let reply = match asked {
            Some(Ok(())) => return Called::Forwarded,
            Some(Err(refusal)) => Reply::Refused(refusal),
            None => {
                self.directory.set_paused(!enabled);
                if !enabled {
                    self.core.borrow_mut().refuse_all_parked(runtime::now());
                    self.end_turn();
                }
                let mirrored = false;
                Reply::Switched { enabled, mirrored }
            }
        };
        api::encode_reply(Echo::Nothing, &reply, style, out);
        Called::Answered(None)
    }

    fn health(&self) -> api::Health {
        let state = self.engine.get();
        api::Health {
            stopping: self.connections.is_stopping(),
            degraded: state.is_degraded(),
            database: match state.database {
                Database::Off => "off",
                Database::Connected => "connected",
                Database::Away => "away",
            },
            reason: state.reason.clone(),
            buffered: self.engine.spooled().0,
        }
    }

    fn prometheus(&self) -> String {
        let (parked, parked_total) = self.parked_by_queue();
        let gauges = observe::Gauges {
            bytes: self.directory.broker().used(),
            queues: self.directory.queue_count() as u64,
            parked,
            parked_total,
            parked_durable: self.engine.waiting(),
            database: self.database(),
        };
        observe::prometheus_text(&self.observed, &observe::ProcessFigures::read(), &gauges)
    }

    fn database(&self) -> observe::DatabaseFigures {
        let totals = self.engine.totals();
        observe::DatabaseFigures {
            open: u64::from(self.engine.get().database == Database::Connected),
            sessions: totals.sessions,
            transactions: totals.transactions,
            changes: totals.changes,
        }
    }

    /// Parked pops of declared queues, one by one up to a bound, and of all queues together. With
    /// tenancy no queue is named: names are the tenants' own.
    fn parked_by_queue(&self) -> (Vec<ParkedQueue>, u64) {
        let total = self.observed.totals().parked;
        if self.tenancy {
            return (Vec::new(), total);
        }
        let declared = self
            .directory
            .declared(TenantId::DEFAULT, limits::PARKED_SERIES_MAX);
        let series = declared.iter().map(|cell| ParkedQueue {
            queue: cell.name().to_string(),
            parked: cell.waiters(),
        });
        (series.collect(), total)
    }

    fn metrics(&self) -> api::ProcessFigures {
        let totals = self.observed.totals();
        let process = observe::ProcessFigures::read();
        api::ProcessFigures {
            uptime_s: self.observed.uptime().as_secs(),
            requests: totals.requests,
            request_rate_milli: (self.observed.request_rate() * 1_000.0) as u64,
            pushed: totals.pushed,
            popped: totals.popped,
            acked: totals.acked,
            dropped: totals.dropped.bounds + totals.dropped.ttl + totals.dropped.retry,
            held_bytes: self.directory.broker().used(),
            resident_bytes: process.resident_bytes,
            cpu_user_us: (process.cpu_user_s * 1e6) as u64,
            cpu_system_us: (process.cpu_system_s * 1e6) as u64,
            database_sessions: self.database().open,
        }
    }

    fn system(&self, call: &Call<'_>, style: ResponseStyle, out: &mut BytesMut) {
        self.publish();
        match call {
            Call::PauseGet => {
                let reply = Reply::Switched {
                    enabled: !self.directory.paused(),
                    mirrored: self.engine.get().mirrored,
                };
                api::encode_reply(Echo::Nothing, &reply, style, out);
            }
            Call::Buffers => api::encode_buffers(&self.buffers(), style, out),
            Call::Health => api::encode_health(&self.health(), style, out),
            Call::Metrics => api::encode_metrics(&self.metrics(), style, out),
            Call::Prometheus => api::encode_text(PROMETHEUS_TYPE, style, out, |out| {
                out.extend_from_slice(self.prometheus().as_bytes());
            }),
            Call::Options { allow } => api::encode_options(allow, style, out),
            Call::Ephemeral { .. }
            | Call::Durable { .. }
            | Call::Read { .. }
            | Call::Exchange(_)
            | Call::Listing { .. }
            | Call::PauseSet(_) => unreachable!("served elsewhere"),
        }
    }
}

impl Service for Broker {
    type Claim = Claim;
    type Listing = Listing;

    fn call(
        &self,
        request: &Request<'_>,
        client: ClientRef,
        out: &mut BytesMut,
    ) -> Called<Claim, Listing> {
        self.counters.requests.add(1);
        let rules = DecodeRules {
            tenancy: self.tenancy,
            admits: &|tenant| self.directory.admits(tenant),
            pop_default_timeout_ms: self.pop_default_timeout_ms,
            authenticator: self.authenticator.as_ref(),
        };
        let body = match &request.body {
            Body::Borrowed(bytes) => BodyBytes::borrowed(bytes),
            Body::Owned(bytes) => BodyBytes::owned(bytes),
        };
        match api::decode(request.head, body, &rules) {
            Err(fault) => {
                self.counters.refused.add(1);
                api::encode_api_fault(&fault, request.style, out);
                Called::Answered(None)
            }
            Ok(Call::Ephemeral { tenant, command }) => {
                self.command(tenant, command, client, request.style, out)
            }
            Ok(Call::Durable { tenant, command }) => {
                self.durable(tenant, command, client, request.style, out)
            }
            Ok(Call::Read { tenant, read }) => {
                self.read((client, tenant), read, request.style, out)
            }
            Ok(Call::Listing { tenant, listing }) => {
                let mut listing = Listing::begin(client, tenant, listing, request.style, out);
                let more = !request.style.head_only && self.advance(&mut listing, out);
                Called::Streaming(more.then_some(listing))
            }
            Ok(Call::Exchange(exchange)) => self.exchange(exchange, client, request.style, out),
            Ok(Call::PauseSet(enabled)) => self.switch(enabled, client, request.style, out),
            Ok(call) => {
                self.system(&call, request.style, out);
                Called::Answered(None)
            }
        }
    }

    fn turn_away(&self, head: &Head<'_>, style: ResponseStyle, out: &mut BytesMut) -> bool {
        let Some(authenticator) = &self.authenticator else {
            return false;
        };
        let Err(fault) = api::check_token(head, authenticator) else {
            return false;
        };
        self.counters.requests.add(1);
        self.counters.refused.add(1);
        api::encode_api_fault(&fault, style, out);
        true
    }

    fn advance(&self, listing: &mut Listing, out: &mut BytesMut) -> bool {
        let client = listing.client();
        let tenant = listing.tenant();
        let page = match self.serve(tenant, listing.command(), client) {
            Outcome::Answered {
                reply: Reply::Queues(page),
                ..
            } => page,
            other => panic!("{other:?} is no step of a listing"),
        };
        listing.step(&page, out)
    }

    fn abandon(&self, client: ClientRef) {
        self.core.borrow_mut().abandon(runtime::now(), client);
        self.end_turn();
    }

    fn hurry(&self, client: ClientRef) {
        self.core.borrow_mut().hurry(runtime::now(), client);
        self.end_turn();
    }

    fn connections_changed(&self, open: usize, accepted: u64) {
        self.counters.connections.set(open as u64);
        self.counters.accepted.set(accepted);
    }

    fn undelivered(&self, claim: Claim) {
        self.give_back(claim);
        self.end_turn();
    }

    fn refuse(&self, fault: &Fault, style: ResponseStyle, out: &mut BytesMut) {
        self.counters.refused.add(1);
        api::encode_fault(fault, style, out);
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Broker")
            .field("tenancy", &self.tenancy)
            .finish_non_exhaustive()
    }
}
