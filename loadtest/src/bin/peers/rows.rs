//! What is measured: each row is one kind of work, done by the broker and by those that a user would
//! pick instead, with the goals for it.

use std::net::SocketAddr;

use clap::ValueEnum;
use queen_loadtest::LoadError;
use queen_loadtest::pace::Extent;
use queen_loadtest::peer::nats;
use queen_loadtest::peer::parked::Consumers;
use queen_loadtest::peer::redis::{self, Kept, Responders};
use queen_loadtest::report::Report;
use queen_loadtest::scenario::{self, Exchanging, Inboxes, Load, Taking};

use crate::contest::{Host, Spin};

/// Messages of a batch that is pushed or taken.
pub(crate) const BATCH: u32 = 100;

/// Requests that a responder takes at once where it can.
const REQUESTS_MAX: u32 = 64;

/// Connections that publish in the measurement of delivery: enough that no message waits for another.
const PUBLISHERS: usize = 8;

/// The names of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowName {
    Ask1,
    Ask16,
    Ask64,
    AskOneResponder,
    AskPlain,
    Delivery,
    Store,
    Take1,
    Take8,
    TakeSettled,
    Waiting,
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
pub(crate) type LoadIt = dyn Fn(&Size, SocketAddr) -> Result<Report, LoadError>;

/// What a server does in one measurement.
pub(crate) enum Deed {
    /// It is loaded.
    Run(Box<LoadIt>),
    /// It is started anew, and consumers wait.
    Park(Consumers),
}

/// One way to do the work.
pub(crate) struct Entry {
    pub(crate) host: Host,
    /// What tells it from the others of the same server.
    pub(crate) way: &'static str,
    pub(crate) deed: Deed,
    pub(crate) outcomes: Vec<Outcome>,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Of the broker, how long it polled.
    pub(crate) spin: Spin,
    /// As the row's measure says.
    pub(crate) figures: Vec<f64>,
    /// Part of the time in which the generator had nothing to do.
    pub(crate) idle_share: Option<f64>,
}

/// What a figure of the broker must not miss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// Which figure.
    pub(crate) figure: usize,
    pub(crate) spin: Spin,
    pub(crate) bound: Bound,
    /// The server and its way; none: the figure itself is bounded.
    pub(crate) against: Option<(Host, &'static str)>,
}

/// A bound for a figure, or for its ratio to that of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One kind of work.
pub(crate) struct Row {
    pub(crate) name: RowName,
    pub(crate) work: &'static str,
    pub(crate) measure: Measure,
    /// How long the broker polls, in turn.
    pub(crate) spins: &'static [Spin],
    pub(crate) entries: Vec<Entry>,
    pub(crate) goals: Vec<Goal>,
}

const BOTH: &[Spin] = &[Spin::Polling, Spin::Default];
const ALL: &[Spin] = &[Spin::Off, Spin::Polling, Spin::Default];

fn entry(
    host: Host,
    way: &'static str,
    run: impl Fn(&Size, SocketAddr) -> Result<Report, LoadError> + 'static,
) -> Entry {
    Entry {
        host,
        way,
        deed: Deed::Run(Box::new(run)),
        outcomes: Vec::new(),
    }
}

fn goal(bound: Bound, host: Host, way: &'static str) -> Goal {
    Goal {
        figure: 0,
        spin: Spin::Polling,
        bound,
        against: Some((host, way)),
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
            warmup: std::time::Duration::ZERO,
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

/// Requesters and responders of the broker, by exchange.
fn exchange(requesters: usize, responders: usize) -> Entry {
    let exchanging = Exchanging {
        responders,
        batch: REQUESTS_MAX,
        acked: false,
    };
    entry(Host::Broker, "", move |size, address| {
        scenario::exchange(&size.closed(address, requesters), exchanging)
    })
}

/// The same by single pushes and pops.
fn plain(requesters: usize, responders: usize) -> Entry {
    let inboxes = Inboxes {
        responders,
        // As a peer's requester keeps its own.
        requests_per_inbox: u64::MAX,
        pipelined: true,
    };
    entry(Host::Broker, "", move |size, address| {
        scenario::inboxes(&size.closed(address, requesters), inboxes)
    })
}

fn nats_request_reply(requesters: usize, responders: usize) -> Entry {
    entry(Host::Nats, "", move |size, address| {
        nats::request_reply(&size.closed(address, requesters), responders)
    })
}

/// The same on one connection, as a client library shares it.
fn nats_multiplexed(requesters: usize, responders: usize) -> Entry {
    entry(Host::Nats, "multiplexed", move |size, address| {
        let load = Load {
            depth: requesters,
            ..size.closed(address, 1)
        };
        nats::request_reply(&load, responders)
    })
}

fn redis_request_reply(requesters: usize, connections: usize, batch: u32) -> Entry {
    let way = if batch == 1 { "BLPOP" } else { "BLMPOP" };
    entry(Host::Redis, way, move |size, address| {
        let responders = Responders { connections, batch };
        redis::request_reply(&size.closed(address, requesters), responders)
    })
}

/// All rows, in the order of the table.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = request_reply();
    rows.extend([delivery(), store()]);
    rows.extend([take(RowName::Take1, 1), take(RowName::Take8, 8)]);
    rows.extend([take_settled(), waiting()]);
    rows
}

fn request_reply() -> Vec<Row> {
    let row = |name, work, entries, goals| Row {
        name,
        work,
        measure: Measure::Rate(1),
        spins: BOTH,
        entries,
        goals,
    };
    let nats = |bound| goal(bound, Host::Nats, "");
    let redis = |bound| goal(bound, Host::Redis, "BLPOP");
    let both = |requesters, responders| {
        vec![
            exchange(requesters, responders),
            nats_request_reply(requesters, responders),
            redis_request_reply(requesters, responders, 1),
        ]
    };
    let tail = Goal {
        figure: 1,
        ..nats(Bound::AtMost(0.6))
    };
    let mut alone = row(
        RowName::Ask1,
        "request/reply by exchange, 1 requester",
        both(1, 1),
        vec![nats(Bound::AtMost(0.5)), tail],
    );
    alone.measure = Measure::Latency;
    let mut crowd = both(64, 16);
    crowd.insert(2, nats_multiplexed(64, 16));
    let mut one_responder = both(64, 1);
    one_responder.push(redis_request_reply(64, 1, REQUESTS_MAX));
    vec![
        alone,
        row(
            RowName::Ask16,
            "request/reply by exchange, 16 requesters, 4 responders",
            both(16, 4),
            vec![nats(Bound::AtLeast(1.3))],
        ),
        row(
            RowName::Ask64,
            "request/reply by exchange, 64 requesters, 16 responders",
            crowd,
            vec![
                redis(Bound::AtLeast(1.5)),
                goal(Bound::AtLeast(0.75), Host::Nats, "multiplexed"),
            ],
        ),
        row(
            RowName::AskOneResponder,
            "request/reply by exchange, 64 requesters, 1 batching responder",
            one_responder,
            vec![nats(Bound::AtLeast(1.0))],
        ),
        row(
            RowName::AskPlain,
            "request/reply by plain push and pop, 16 requesters, 4 responders",
            vec![plain(16, 4), redis_request_reply(16, 4, 1)],
            vec![redis(Bound::AtLeast(1.0))],
        ),
    ]
}

fn delivery() -> Row {
    let asleep = Goal {
        spin: Spin::Off,
        ..goal(Bound::AtMost(1.1), Host::Nats, "")
    };
    Row {
        name: RowName::Delivery,
        work: "delivery to a parked consumer",
        measure: Measure::Latency,
        spins: ALL,
        entries: vec![
            entry(Host::Broker, "", |size, address| {
                scenario::delivery(&size.delivered(address), size.consumers)
            }),
            entry(Host::Nats, "", |size, address| {
                nats::delivery(&size.delivered(address))
            }),
            entry(Host::Redis, "", |size, address| {
                redis::delivery(&size.delivered(address))
            }),
        ],
        goals: vec![asleep, goal(Bound::AtMost(0.5), Host::Nats, "")],
    }
}

/// The second of two equal runs: in the first a server touches memory that it then reuses, and what
/// that costs depends on the machine and on whose memory it was before.
fn warmed(
    host: Host,
    way: &'static str,
    run: impl Fn(&Size, SocketAddr) -> Result<Report, LoadError> + 'static,
) -> Entry {
    entry(host, way, move |size, address| {
        run(size, address)?;
        run(size, address)
    })
}

/// Every message is kept by all of them.
fn store() -> Row {
    const CONNECTIONS: usize = 8;
    let of_redis = |way, kept| {
        warmed(Host::Redis, way, move |size, address| {
            redis::push(&size.counted(address, CONNECTIONS), BATCH as usize, kept)
        })
    };
    Row {
        name: RowName::Store,
        work: "push, batches of 100, 8 connections, all stored",
        measure: Measure::Rate(BATCH),
        spins: BOTH,
        entries: vec![
            warmed(Host::Broker, "", |size, address| {
                scenario::store(&size.counted(address, CONNECTIONS), BATCH as usize)
            }),
            warmed(Host::JetStream, "", |size, address| {
                nats::push(&size.counted(address, CONNECTIONS), BATCH as usize)
            }),
            of_redis("RPUSH", Kept::List),
            of_redis("XADD", Kept::Stream),
        ],
        goals: vec![goal(Bound::AtLeast(0.8), Host::Redis, "RPUSH")],
    }
}

fn take(name: RowName, connections: usize) -> Row {
    let of_broker = |way, taking| {
        entry(Host::Broker, way, move |size, address| {
            scenario::take(&size.counted(address, connections), BATCH, taking)
        })
    };
    Row {
        name,
        work: match connections {
            1 => "pop 100 + ack, 1 connection",
            _ => "pop 100 + ack, 8 connections",
        },
        measure: Measure::Rate(BATCH),
        spins: BOTH,
        entries: vec![
            of_broker("exchange", Taking::Exchange),
            of_broker("pipelined", Taking::Pipelined),
            entry(Host::JetStream, "", move |size, address| {
                nats::take(&size.counted(address, connections), BATCH)
            }),
            entry(Host::Redis, "XREADGROUP + XACK", move |size, address| {
                let load = size.counted(address, connections);
                redis::take(&load, BATCH, redis::Taking::ReadAndAck)
            }),
        ],
        goals: vec![goal(Bound::AtLeast(2.0), Host::Redis, "XREADGROUP + XACK")],
    }
}

fn take_settled() -> Row {
    Row {
        name: RowName::TakeSettled,
        work: "pop 100 with `autoAck`, 1 connection",
        measure: Measure::Rate(BATCH),
        spins: BOTH,
        entries: vec![
            entry(Host::Broker, "", |size, address| {
                scenario::take(&size.counted(address, 1), BATCH, Taking::AutoAck)
            }),
            entry(Host::Redis, "LPOP 100", |size, address| {
                redis::take(&size.counted(address, 1), BATCH, redis::Taking::Pop)
            }),
        ],
        goals: vec![goal(Bound::AtLeast(0.7), Host::Redis, "LPOP 100")],
    }
}

fn waiting() -> Row {
    let parked = |host, consumers| Entry {
        host,
        way: "",
        deed: Deed::Park(consumers),
        outcomes: Vec::new(),
    };
    Row {
        name: RowName::Waiting,
        work: "RSS of a parked consumer, connection included",
        measure: Measure::Memory,
        spins: &[Spin::Default],
        entries: vec![
            parked(Host::Broker, Consumers::Broker),
            parked(Host::Nats, Consumers::Nats),
            parked(Host::Redis, Consumers::Redis),
        ],
        goals: vec![Goal {
            figure: 0,
            spin: Spin::Default,
            bound: Bound::AtMost(6.0 * 1024.0),
            against: None,
        }],
    }
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
