//! What is measured: each row drives a broker of its own over real sockets.

use std::time::{Duration, Instant};

use queen_loadtest::goal::Goal;
use queen_loadtest::parked::{park, parked_pops, waiting_pop};
use queen_loadtest::pipe::Pipe;
use queen_loadtest::wire::{self, PopMode};
use queen_loadtest::{LoadError, report};

use crate::broker::{Broker, Start};

/// Bytes of a payload.
const PAYLOAD_BYTES: usize = 256;

/// Bytes of an inbox's name.
const NAME_BYTES: usize = 32;

/// Inboxes that are used before the first look at the size: what is allocated once is there.
const FIRST_INBOXES: usize = 1_000;

/// Messages in an inbox at most: fewer than the broker's bound.
const PORTION: usize = 1_000;

const TAKE: PopMode = PopMode {
    wait_ms: None,
    auto_ack: true,
};

/// A figure, what it has to be, and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) goal: Goal,
    pub(crate) measured: f64,
    pub(crate) unit: &'static str,
    pub(crate) note: String,
}

impl Row {
    pub(crate) fn is_met(&self) -> bool {
        self.goal.is_met(self.measured)
    }
}

/// A name of [`NAME_BYTES`].
fn inbox(number: usize) -> String {
    let name = format!("inbox-{number:026}");
    assert_eq!(name.len(), NAME_BYTES);
    name
}

fn payload() -> Vec<u8> {
    format!("\"{}\"", "x".repeat(PAYLOAD_BYTES - 2)).into_bytes()
}

/// Every inbox gets a message and is emptied.
fn use_inboxes(pipe: &mut Pipe, inboxes: std::ops::Range<usize>) -> Result<(), LoadError> {
    let payload = payload();
    let mut taken = 0;
    let first = inboxes.start;
    pipe.run(
        2 * inboxes.len(),
        |number, out| {
            let name = inbox(first + number / 2);
            match number % 2 {
                0 => wire::push(&name, &payload, out),
                _ => wire::pop(&name, TAKE, out),
            }
        },
        |body| taken += usize::from(wire::first_id(body).is_some()),
    )?;
    if taken != inboxes.len() {
        return Err(LoadError::text("not every message came back"));
    }
    Ok(())
}

/// Bytes that each of `count` idle inboxes costs.
pub(crate) fn idle_inboxes(start: &Start<'_>, count: usize) -> Result<Row, LoadError> {
    let broker = start.broker()?;
    let mut pipe = Pipe::open(broker.server.address)?;
    use_inboxes(&mut pipe, 0..FIRST_INBOXES)?;
    let before = broker.at_rest()?;
    use_inboxes(&mut pipe, FIRST_INBOXES..FIRST_INBOXES + count)?;
    let busy = broker.server.resident_bytes()?;
    let after = broker.at_rest()?;
    Ok(Row {
        what: format!("RSS of each of {count} idle inboxes"),
        goal: Goal::AtMost(512.0),
        measured: each(before, after, count),
        unit: "bytes",
        note: format!("{:.0} right after their use", each(before, busy, count)),
    })
}

fn each(before: u64, after: u64, count: usize) -> f64 {
    (after as f64 - before as f64) / count as f64
}

/// Bytes that each of `count` parked pops costs, every one on a connection and an inbox of its own.
pub(crate) fn parked(start: &Start<'_>, count: usize) -> Result<Row, LoadError> {
    let broker = start.broker()?;
    let mut pipe = Pipe::open(broker.server.address)?;
    use_inboxes(&mut pipe, 0..FIRST_INBOXES)?;
    let before = broker.at_rest()?;
    let address = broker.server.address;
    let wait = |number, out: &mut Vec<u8>| waiting_pop(&inbox(FIRST_INBOXES + number), out);
    let waiting = |_: &mut [Pipe]| parked_pops(address);
    let consumers = park(address, count, &start.interrupt, wait, waiting)?;
    let after = broker.at_rest()?;
    drop(consumers);
    Ok(Row {
        what: format!("RSS of each of {count} parked pops, connection and inbox included"),
        goal: Goal::AtMost(6.0),
        measured: each(before, after, count) / 1024.0,
        unit: "KiB",
        note: String::new(),
    })
}

/// Throughput over `count` inboxes as a ratio of that over one: of pushes and of pops.
pub(crate) fn many_against_one(
    start: &Start<'_>,
    count: usize,
    rounds: u32,
) -> Result<[Row; 2], LoadError> {
    let broker = start.broker()?;
    let mut crowd = Crowd::open(&broker)?;
    // Each inbox is visited in an order that no cache can guess.
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order);
    let one = vec![0; count];
    crowd.pass(&order, count)?;
    let (mut pushes, mut pops) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let alone = crowd.pass(&one, PORTION)?;
        let many = crowd.pass(&order, count)?;
        pushes.push(alone.push.as_secs_f64() / many.push.as_secs_f64());
        pops.push(alone.pop.as_secs_f64() / many.pop.as_secs_f64());
    }
    let row = |verb: &str, ratios: Vec<f64>| Row {
        what: format!("{verb} over {count} inboxes against 1"),
        goal: Goal::AtLeast(0.9),
        measured: report::median(ratios),
        unit: "x",
        note: format!("{CROWD} connections; median of {rounds} rounds"),
    };
    Ok([row("push", pushes), row("pop", pops)])
}

/// Connections of the comparison, each with one request under way.
const CROWD: usize = 16;

struct Crowd {
    pipes: Vec<Pipe>,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    push: Duration,
    pop: Duration,
}

impl Crowd {
    fn open(broker: &Broker) -> Result<Crowd, LoadError> {
        let address = broker.server.address;
        let pipes = (0..CROWD).map(|_| Pipe::open(address));
        Ok(Crowd {
            pipes: pipes.collect::<Result<_, _>>()?,
            payload: payload(),
        })
    }

    /// Pushes to each of `inboxes` and pops from each, so many of one before the other.
    fn pass(&mut self, inboxes: &[usize], portion: usize) -> Result<Pass, LoadError> {
        let mut pass = Pass::default();
        for inboxes in inboxes.chunks(portion) {
            let started = Instant::now();
            let payload = std::mem::take(&mut self.payload);
            self.each(inboxes, |name, out| wire::push(name, &payload, out))?;
            self.payload = payload;
            pass.push += started.elapsed();
            let started = Instant::now();
            self.each(inboxes, |name, out| wire::pop(name, TAKE, out))?;
            pass.pop += started.elapsed();
        }
        Ok(pass)
    }

    fn each(
        &mut self,
        inboxes: &[usize],
        write: impl Fn(&str, &mut Vec<u8>),
    ) -> Result<(), LoadError> {
        for some in inboxes.chunks(CROWD) {
            for (&number, pipe) in some.iter().zip(&mut self.pipes) {
                write(&inbox(number), &mut pipe.requests);
                pipe.send()?;
            }
            for (_, pipe) in some.iter().zip(&mut self.pipes) {
                pipe.body(|_| ())?;
            }
        }
        Ok(())
    }
}

/// By a generator of Marsaglia's (xorshift), always the same way.
fn shuffle(order: &mut [usize]) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for at in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
}

/// Queues over which the messages of a burst are spread.
const BURST_QUEUES: usize = 64;

/// How much of a burst may be left.
const LEFT_SHARE: f64 = 0.1;

/// Share of the memory of a burst of messages that is left after they were taken.
pub(crate) fn burst_of_messages(start: &Start<'_>, mebibytes: usize) -> Result<Row, LoadError> {
    let broker = start.broker()?;
    let mut pipe = Pipe::open(broker.server.address)?;
    use_inboxes(&mut pipe, 0..FIRST_INBOXES)?;
    let before = broker.at_rest()?;
    let payload = payload();
    let messages = mebibytes * 1024 * 1024 / payload.len();
    pipe.run(
        messages,
        |number, out| wire::push(&inbox(number % BURST_QUEUES), &payload, out),
        |_| (),
    )?;
    let peak = broker.server.resident_bytes()?;
    pipe.run(
        messages,
        |number, out| wire::pop(&inbox(number % BURST_QUEUES), TAKE, out),
        |_| (),
    )?;
    let what = format!("RSS left of {mebibytes} MiB of messages, pushed and taken");
    left_over(start, &broker, what, (before, peak))
}

/// Share of the memory of a burst of connections that is left after they were closed.
pub(crate) fn burst_of_connections(start: &Start<'_>, count: usize) -> Result<Row, LoadError> {
    let broker = start.broker()?;
    let mut pipe = Pipe::open(broker.server.address)?;
    use_inboxes(&mut pipe, 0..FIRST_INBOXES)?;
    let before = broker.at_rest()?;
    let payload = payload();
    let mut pipes = Vec::with_capacity(count);
    for number in 0..count {
        let mut pipe = Pipe::open(broker.server.address)?;
        let name = inbox(number % FIRST_INBOXES);
        wire::push(&name, &payload, &mut pipe.requests);
        wire::pop(&name, TAKE, &mut pipe.requests);
        pipe.send()?;
        pipe.body(|_| ())?;
        pipe.body(|_| ())?;
        pipes.push(pipe);
    }
    let peak = broker.server.resident_bytes()?;
    drop(pipes);
    let what = format!("RSS left of {count} connections, used and closed");
    left_over(start, &broker, what, (before, peak))
}

fn left_over(
    start: &Start<'_>,
    broker: &Broker,
    what: String,
    (before, peak): (u64, u64),
) -> Result<Row, LoadError> {
    let started = Instant::now();
    let held = peak.saturating_sub(before) as f64;
    let share = |now: u64| now.saturating_sub(before) as f64 / held.max(1.0);
    let mut left = share(broker.server.resident_bytes()?);
    while left > LEFT_SHARE && started.elapsed() < start.patience {
        broker.pause()?;
        left = share(broker.server.resident_bytes()?);
    }
    let seconds = started.elapsed().as_secs_f64();
    let mebibytes = held / 1024.0 / 1024.0;
    Ok(Row {
        what,
        goal: Goal::AtMost(LEFT_SHARE),
        measured: left,
        unit: "of it",
        note: format!("it took {mebibytes:.0} MiB; looked at after {seconds:.1} s"),
    })
}
