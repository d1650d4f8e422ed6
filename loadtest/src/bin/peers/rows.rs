//! What is measured: each row is one kind of work, done by the broker and by those that a user would
//! pick instead, with the goals for it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use clap::ValueEnum;
use queen_loadtest::LoadError;
use queen_loadtest::goal::Goal;
use queen_loadtest::load::Load;
use queen_loadtest::pace::Extent;
use queen_loadtest::report::Report;
use queen_loadtest::scenario::{self, Exchanging, Inboxes, Taking};

use crate::comparison::{Spin, System};
use crate::nats;
use crate::redis::{self, Kept, Responders};

/// Messages of a batch that is pushed or taken.
pub(crate) const BATCH: u32 = 100;

/// Requests that a responder takes at once where it can.
const REQUESTS_MAX: u32 = 64;

/// Connections that publish in the measurement of delivery: enough that no message waits for another.
const PUBLISHERS: usize = 8;

/// Connections of the pushes that are all stored.
const STORING: usize = 8;

/// The names of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowName {
    RequestReply1,
    RequestReply16,
    RequestReply64,
    RequestReplyOneResponder,
    RequestReplyPlain,
    Delivery,
    Store,
    Take1,
    Take8,
    TakeAutoAck,
    Parked,
}

/// What the figures of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The median and the 99th percentile of a latency, in microseconds.
    Latency,
    /// Units of work a second, each of which is this many.
    Rate(u32),
    /// Bytes.
    Memory,
}

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// A closed loop for a time.
    pub(crate) load: Load,
    pub(crate) delivery_rate_per_s: f64,
    pub(crate) delivery: Extent,
    /// Consumers that messages are delivered to.
    pub(crate) consumers: usize,
    /// Batches that are stored, and taken.
    pub(crate) units_stored: u64,
    /// Consumers that wait while memory is measured.
    pub(crate) waiting: usize,
}

/// Loads the server at an address.
pub(crate) type Run = dyn Fn(&Size, SocketAddr) -> Result<Report, LoadError>;

/// What is done to a server in one measurement.
pub(crate) enum Work {
    /// It is loaded.
    Run(Rc<Run>),
    /// It is started anew, and consumers wait.
    Park,
}

/// One way to do the work.
pub(crate) struct Entry {
    pub(crate) system: System,
    /// What tells it from the others of the same system.
    pub(crate) way: &'static str,
    pub(crate) work: Work,
    /// For the ratio of the broker to it.
    pub(crate) goals: Vec<RatioGoal>,
    pub(crate) outcomes: Vec<Outcome>,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// As the row's measure says.
    pub(crate) figures: Vec<f64>,
    /// Part of the time in which the generator had nothing to do.
    pub(crate) idle_share: Option<f64>,
}

/// What the ratio of the broker to another system has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RatioGoal {
    /// Of which figure.
    pub(crate) figure: usize,
    /// How the broker polls.
    pub(crate) spin: Spin,
    pub(crate) goal: Goal,
}

/// One kind of work.
pub(crate) struct Row {
    pub(crate) name: RowName,
    pub(crate) work: String,
    pub(crate) measure: Measure,
    /// How the broker polls, in turn.
    pub(crate) spins: &'static [Spin],
    pub(crate) entries: Vec<Entry>,
}

const BOTH: &[Spin] = &[Spin::Polling, Spin::Default];
const ALL: &[Spin] = &[Spin::Off, Spin::Polling, Spin::Default];

impl Row {
    fn new(
        name: RowName,
        work: impl Into<String>,
        measure: Measure,
        spins: &'static [Spin],
    ) -> Row {
        Row {
            name,
            work: work.into(),
            measure,
            spins,
            entries: Vec::new(),
        }
    }

    /// Adds a way of the broker: an entry for each spin.
    fn broker(
        mut self,
        way: &'static str,
        run: impl Fn(&Size, SocketAddr) -> Result<Report, LoadError> + 'static,
    ) -> Row {
        let run: Rc<Run> = Rc::new(run);
        let entry = |&spin| Entry::new(System::Broker(spin), way, Work::Run(Rc::clone(&run)));
        self.entries.extend(self.spins.iter().map(entry));
        self
    }

    fn peer(mut self, entry: Entry) -> Row {
        self.entries.push(entry);
        self
    }
}

impl Entry {
    pub(crate) fn new(system: System, way: &'static str, work: Work) -> Entry {
        Entry {
            system,
            way,
            work,
            goals: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    fn run(
        system: System,
        way: &'static str,
        run: impl Fn(&Size, SocketAddr) -> Result<Report, LoadError> + 'static,
    ) -> Entry {
        Entry::new(system, way, Work::Run(Rc::new(run)))
    }

    /// A goal for the first figure while the broker polls.
    fn goal(self, goal: Goal) -> Entry {
        self.goal_of(0, Spin::Polling, goal)
    }

    pub(crate) fn goal_of(mut self, figure: usize, spin: Spin, goal: Goal) -> Entry {
        let goal = RatioGoal { figure, spin, goal };
        self.goals.push(goal);
        self
    }
}

impl Size {
    /// A closed loop for a time.
    fn closed(&self, address: SocketAddr, connections: usize) -> Load {
        Load {
            address,
            connections,
            ..self.load.clone()
        }
    }

    /// A closed loop of as many units as are stored; all of it is measured.
    fn counted(&self, address: SocketAddr, connections: usize) -> Load {
        Load {
            extent: Extent::Units(self.units_stored),
            warmup: Duration::ZERO,
            ..self.closed(address, connections)
        }
    }

    /// Messages at a rate.
    fn delivered(&self, address: SocketAddr) -> Load {
        Load {
            queues: self.consumers,
            rate_per_s: self.delivery_rate_per_s,
            extent: self.delivery,
            ..self.closed(address, PUBLISHERS)
        }
    }
}

/// All rows, in the order of the table.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = request_reply();
    rows.extend([delivery(), store()]);
    rows.extend([take(RowName::Take1, 1), take(RowName::Take8, 8)]);
    rows.extend([take_auto_ack(), parked()]);
    rows
}

fn request_reply() -> Vec<Row> {
    vec![
        by_exchange(RowName::RequestReply1, Measure::Latency, 1, 1)
            .peer(nats_request_reply(1, 1).goal(Goal::AtMost(0.5)).goal_of(
                1,
                Spin::Polling,
                Goal::AtMost(0.6),
            ))
            .peer(redis_request_reply(1, 1, 1)),
        by_exchange(RowName::RequestReply16, Measure::Rate(1), 16, 4)
            .peer(nats_request_reply(16, 4).goal(Goal::AtLeast(1.3)))
            .peer(redis_request_reply(16, 4, 1)),
        by_exchange(RowName::RequestReply64, Measure::Rate(1), 64, 16)
            .peer(nats_request_reply(64, 16))
            .peer(nats_multiplexed(64, 16).goal(Goal::AtLeast(0.75)))
            .peer(redis_request_reply(64, 16, 1).goal(Goal::AtLeast(1.5))),
        by_exchange(RowName::RequestReplyOneResponder, Measure::Rate(1), 64, 1)
            .peer(nats_request_reply(64, 1).goal(Goal::AtLeast(1.0)))
            .peer(redis_request_reply(64, 1, 1))
            .peer(redis_request_reply(64, 1, REQUESTS_MAX)),
        by_push_and_pop(RowName::RequestReplyPlain, 16, 4)
            .peer(redis_request_reply(16, 4, 1).goal(Goal::AtLeast(1.0))),
    ]
}

/// The broker does it by exchange.
fn by_exchange(name: RowName, measure: Measure, requesters: usize, responders: usize) -> Row {
    let exchanging = Exchanging {
        responders,
        batch: REQUESTS_MAX,
        acked: false,
    };
    let who = parties(requesters, responders);
    let work = format!("request/reply by exchange, {who}");
    Row::new(name, work, measure, BOTH).broker("", move |size, address| {
        scenario::exchange(&size.closed(address, requesters), exchanging)
    })
}

/// The broker does it by single pushes and pops.
fn by_push_and_pop(name: RowName, requesters: usize, responders: usize) -> Row {
    let inboxes = Inboxes {
        responders,
        // As a peer's requester keeps its own.
        requests_per_inbox: u64::MAX,
        pipelined: true,
    };
    let who = parties(requesters, responders);
    let work = format!("request/reply by plain push and pop, {who}");
    Row::new(name, work, Measure::Rate(1), BOTH).broker("", move |size, address| {
        scenario::inboxes(&size.closed(address, requesters), inboxes)
    })
}

fn parties(requesters: usize, responders: usize) -> String {
    match (requesters, responders) {
        (1, 1) => "1 requester".to_owned(),
        (_, 1) => format!("{requesters} requesters, 1 batching responder"),
        _ => format!("{requesters} requesters, {responders} responders"),
    }
}

fn nats_request_reply(requesters: usize, responders: usize) -> Entry {
    Entry::run(System::Nats, "", move |size, address| {
        nats::request_reply(&size.closed(address, requesters), responders)
    })
}

/// The same on one connection, as a client library shares it.
fn nats_multiplexed(requesters: usize, responders: usize) -> Entry {
    Entry::run(System::Nats, "multiplexed", move |size, address| {
        let load = Load {
            depth: requesters,
            ..size.closed(address, 1)
        };
        nats::request_reply(&load, responders)
    })
}

fn redis_request_reply(requesters: usize, connections: usize, batch: u32) -> Entry {
    let way = if batch == 1 { "BLPOP" } else { "BLMPOP" };
    Entry::run(System::Redis, way, move |size, address| {
        let responders = Responders { connections, batch };
        redis::request_reply(&size.closed(address, requesters), responders)
    })
}

fn delivery() -> Row {
    let work = "delivery to a parked consumer";
    Row::new(RowName::Delivery, work, Measure::Latency, ALL)
        .broker("", |size, address| {
            scenario::delivery(&size.delivered(address), size.consumers)
        })
        .peer(
            Entry::run(System::Nats, "", |size, address| {
                nats::delivery(&size.delivered(address))
            })
            .goal_of(0, Spin::Off, Goal::AtMost(1.1))
            .goal(Goal::AtMost(0.5)),
        )
        .peer(Entry::run(System::Redis, "", |size, address| {
            redis::delivery(&size.delivered(address))
        }))
}

/// The second of two equal runs: in the first a server touches memory that it then reuses, and what
/// that costs depends on the machine and on whose memory it was before.
fn warmed(
    run: impl Fn(&Load) -> Result<Report, LoadError> + 'static,
) -> impl Fn(&Size, SocketAddr) -> Result<Report, LoadError> + 'static {
    move |size, address| {
        let load = size.counted(address, STORING);
        run(&load)?;
        run(&load)
    }
}

/// Every message is kept by all of them.
fn store() -> Row {
    const MESSAGES: usize = BATCH as usize;
    let of_redis = |way, kept| {
        let run = warmed(move |load| redis::push(load, MESSAGES, kept));
        Entry::run(System::Redis, way, run)
    };
    let work = format!("push, batches of {BATCH}, {STORING} connections, all stored");
    Row::new(RowName::Store, work, Measure::Rate(BATCH), BOTH)
        .broker("", warmed(|load| scenario::store(load, MESSAGES)))
        .peer(Entry::run(
            System::JetStream,
            "",
            warmed(|load| nats::push(load, MESSAGES)),
        ))
        .peer(of_redis("RPUSH", Kept::List).goal(Goal::AtLeast(0.8)))
        .peer(of_redis("XADD", Kept::Stream))
}

fn take(name: RowName, connections: usize) -> Row {
    let by = move |taking| {
        move |size: &Size, address: SocketAddr| {
            scenario::take(&size.counted(address, connections), BATCH, taking)
        }
    };
    let ending = if connections == 1 { "" } else { "s" };
    let work = format!("pop {BATCH} + ack, {connections} connection{ending}");
    Row::new(name, work, Measure::Rate(BATCH), BOTH)
        .broker("exchange", by(Taking::Exchange))
        .broker("pipelined", by(Taking::Pipelined))
        .peer(Entry::run(System::JetStream, "", move |size, address| {
            nats::take(&size.counted(address, connections), BATCH)
        }))
        .peer(
            Entry::run(System::Redis, "XREADGROUP + XACK", move |size, address| {
                let load = size.counted(address, connections);
                redis::take(&load, BATCH, redis::Taking::ReadAndAck)
            })
            .goal(Goal::AtLeast(2.0)),
        )
}

fn take_auto_ack() -> Row {
    let work = format!("pop {BATCH} with `autoAck`, 1 connection");
    Row::new(RowName::TakeAutoAck, work, Measure::Rate(BATCH), BOTH)
        .broker("", |size, address| {
            scenario::take(&size.counted(address, 1), BATCH, Taking::AutoAck)
        })
        .peer(
            Entry::run(System::Redis, "LPOP 100", |size, address| {
                redis::take(&size.counted(address, 1), BATCH, redis::Taking::Pop)
            })
            .goal(Goal::AtLeast(0.7)),
        )
}

/// What the broker's figure has to be is judged by `memory`.
fn parked() -> Row {
    let work = "RSS of a parked consumer, connection included";
    let mut row = Row::new(RowName::Parked, work, Measure::Memory, &[Spin::Default]);
    let systems = [System::Broker(Spin::Default), System::Nats, System::Redis];
    row.entries = systems
        .map(|system| Entry::new(system, "", Work::Park))
        .into();
    row
}

impl Measure {
    /// The figures of a run.
    pub(crate) fn of(self, report: &Report) -> Vec<f64> {
        match self {
            Measure::Latency => vec![report.latency_us(50.0), report.latency_us(99.0)],
            Measure::Rate(each) => vec![report.finished_per_s() * f64::from(each)],
            Measure::Memory => Vec::new(),
        }
    }

    /// What each figure is.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Measure::Latency => &["p50, us", "p99, us"],
            Measure::Rate(1) => &["round trips/s"],
            Measure::Rate(_) => &["messages/s"],
            Measure::Memory => &["bytes"],
        }
    }

    /// Whether more is better.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Measure::Rate(_))
    }
}
