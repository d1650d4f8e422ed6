//! `compare`: the broker beside a null responder on the same runtime and core, as ratios within one
//! run. Rounds alternate between the two; every figure is the median of the rounds.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use queen_loadtest::cli::{self, Common};
use queen_loadtest::goal::Goal;
use queen_loadtest::load::Load;
use queen_loadtest::pace::{Extent, seconds};
use queen_loadtest::report::{Report, median};
use queen_loadtest::scenario::{self, FloorOf, Settle};
use queen_loadtest::server::Server;
use queen_loadtest::{LoadError, programs};

const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// What a single push has to be, as a part of the floor; a cycle and a delivery have no goal.
const PUSH_GOAL: Goal = Goal::AtLeast(0.85);

#[derive(Parser)]
#[command(about = "Compares the broker with a null responder and prints tables of ratios.")]
struct Cli {
    #[command(flatten)]
    common: Common,
    /// The null responder; built if not given.
    #[arg(long)]
    null_responder: Option<PathBuf>,
    /// What serves both: `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto")]
    io: String,
    /// Connections of the closed loops.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256")]
    connections: Vec<usize>,
    /// Seconds of one measurement of throughput.
    #[arg(long, default_value_t = 2.0)]
    duration_s: f64,
    /// Seconds before a measurement that are not measured.
    #[arg(long, default_value_t = 0.3)]
    warmup_s: f64,
    /// Messages a second in the measurement of delivery.
    #[arg(long, default_value_t = 2_000.0)]
    delivery_rate: f64,
    /// Seconds of one measurement of delivery.
    #[arg(long, default_value_t = 5.0)]
    delivery_duration_s: f64,
    /// Pops that are parked, each on a queue of its own.
    #[arg(long, default_value_t = 64)]
    parked: usize,
    /// Bytes of a payload.
    #[arg(long, default_value_t = 256)]
    payload_bytes: usize,
    /// Judge no ratio: for runs that are too short for that.
    #[arg(long)]
    no_verdict: bool,
}

fn main() -> ExitCode {
    cli::end("compare", compare(&Cli::parse()))
}

/// Prints the tables and returns the goals that were missed.
fn compare(cli: &Cli) -> Result<Vec<String>, LoadError> {
    let cpus = cli.common.cpus()?;
    let broker = programs::path(cli.common.broker.as_deref(), "queen")?;
    let null_responder = programs::path(cli.null_responder.as_deref(), "null_responder")?;
    let pair = Pair {
        broker: Server::start(&broker, &cli.io, cpus)?,
        floor: Server::start(&null_responder, &cli.io, cpus)?,
    };
    pair.broker.hold()?;
    pair.floor.hold()?;
    let mut text = format!(
        "Servers on CPU {}, generator on CPU {}, `QUEEN_IO={}`, payloads of {} bytes; medians of \
         {} rounds.\n\n",
        cpus.server, cpus.load, cli.io, cli.payload_bytes, cli.common.rounds
    );
    let lines = throughput(cli, &pair)?;
    text += &table(&lines);
    delivery(cli, &pair, &mut text)?;
    io::stdout().write_all(text.as_bytes())?;
    if cli.no_verdict {
        return Ok(Vec::new());
    }
    Ok(missed(&lines))
}

/// The two servers; both are held except while they are measured.
struct Pair {
    broker: Server,
    floor: Server,
}

impl Pair {
    /// Measures both, the broker first in every other round.
    fn round(
        &self,
        round: u32,
        broker: impl FnOnce(SocketAddr) -> Result<Report, LoadError>,
        floor: impl FnOnce(SocketAddr) -> Result<Report, LoadError>,
    ) -> Result<Measured, LoadError> {
        let broker = || self.broker.measure(broker);
        let floor = || self.floor.measure(floor);
        let (broker, floor) = if round.is_multiple_of(2) {
            let floor = floor()?;
            (broker()?, floor)
        } else {
            (broker()?, floor()?)
        };
        Ok(Measured { floor, broker })
    }
}

struct Measured {
    floor: Report,
    broker: Report,
}

/// What was measured of one operation.
struct Line {
    operation: &'static str,
    connections: usize,
    goal: Option<Goal>,
    /// Requests a second.
    floor: f64,
    broker: f64,
    ratio: f64,
    /// How idle the generator was, in percent.
    floor_idle: f64,
    broker_idle: f64,
}

fn throughput(cli: &Cli, pair: &Pair) -> Result<Vec<Line>, LoadError> {
    let pushes: Cell = (|load| scenario::push(load, 1), FloorOf::Push);
    let cycles: Cell = (|load| scenario::cycle(load, Settle::Ack), FloorOf::Cycle);
    let mut rows = Vec::new();
    for (operation, goal, of_broker) in [
        ("push", Some(PUSH_GOAL), pushes),
        ("push, pop, ack", None, cycles),
    ] {
        for &connections in &cli.connections {
            rows.push((operation, goal, of_broker, connections, Vec::new()));
        }
    }
    for round in 0..cli.common.rounds {
        for (operation, _, (of_broker, of_floor), connections, measured) in &mut rows {
            eprintln!("round {round}: {operation}, {connections} connections");
            let load = |address| closed_loop(cli, address, *connections);
            let broker = |address| of_broker(&load(address)?);
            let floor = |address| scenario::floor(&load(address)?, *of_floor);
            measured.push(pair.round(round, broker, floor)?);
        }
    }
    let lines = rows
        .iter()
        .map(|(operation, goal, _, connections, measured)| {
            let of = |figure: fn(&Report) -> f64| of_both(measured, figure);
            let (floor, broker, ratio) = of(Report::answers_per_s);
            let (floor_idle, broker_idle, _) =
                of(|report| report.idle_share().unwrap_or(0.0) * 100.0);
            Line {
                operation,
                connections: *connections,
                goal: *goal,
                floor,
                broker,
                ratio,
                floor_idle,
                broker_idle,
            }
        });
    Ok(lines.collect())
}

fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| Operation | Connections | Floor, requests/s | Broker, requests/s | Broker : floor | \
         Goal | Met | Generator idle, floor | Generator idle, broker |\n\
         |---|--:|--:|--:|--:|---|---|--:|--:|\n",
    );
    for line in lines {
        let goal = line.goal.map_or(String::new(), |goal| goal.to_string());
        let met = match line.is_met() {
            None => "",
            Some(true) => "yes",
            Some(false) => "no",
        };
        text += &format!(
            "| {} | {} | {:.0} | {:.0} | {:.2} | {goal} | {met} | {:.0} % | {:.0} % |\n",
            line.operation,
            line.connections,
            line.floor,
            line.broker,
            line.ratio,
            line.floor_idle,
            line.broker_idle,
        );
    }
    text
}

/// The goals that were missed, in words.
fn missed(lines: &[Line]) -> Vec<String> {
    let missed = lines.iter().filter(|line| line.is_met() == Some(false));
    let words = |line: &Line| {
        let goal = line.goal.expect("only a goal can be missed");
        format!(
            "{}, {} connections: {goal} x the floor, but measured {:.2}",
            line.operation, line.connections, line.ratio
        )
    };
    missed.map(words).collect()
}

impl Line {
    /// Whether the goal is met, if there is one.
    fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| goal.is_met(self.ratio))
    }
}

/// What is measured of the broker, and whose requests the floor gets.
type Cell = (fn(&Load) -> Result<Report, LoadError>, FloorOf);

fn delivery(cli: &Cli, pair: &Pair, text: &mut String) -> Result<(), LoadError> {
    let mut measured = Vec::new();
    for round in 0..cli.common.rounds {
        eprintln!("round {round}: delivery");
        let broker = |address| scenario::delivery(&open_loop(cli, address)?, cli.parked);
        let floor = |address| scenario::floor(&open_loop(cli, address)?, FloorOf::Push);
        measured.push(pair.round(round, broker, floor)?);
    }
    let (rate, parked) = (cli.delivery_rate, cli.parked);
    *text += &format!(
        "\nDelivery to {parked} parked pops, each on a queue of its own, at {rate:.0} messages/s \
         in open loop, beside one round trip to the floor at the same rate.\n\n\
         | Percentile | Floor round trip, us | Delivery, us | Delivery : floor |\n\
         |---|--:|--:|--:|\n"
    );
    for percentile in PERCENTILES {
        let (floor, broker, ratio) = of_both(&measured, |report| report.latency_us(percentile));
        *text += &format!("| p{percentile} | {floor:.0} | {broker:.0} | {ratio:.2} |\n");
    }
    Ok(())
}

fn closed_loop(cli: &Cli, address: SocketAddr, connections: usize) -> Result<Load, LoadError> {
    Ok(Load {
        warmup: seconds(cli.warmup_s)?,
        extent: Extent::Time(seconds(cli.duration_s)?),
        ..Load::closed_loop(address, connections, cli.payload_bytes)
    })
}

fn open_loop(cli: &Cli, address: SocketAddr) -> Result<Load, LoadError> {
    Ok(Load {
        queues: cli.parked,
        rate_per_s: cli.delivery_rate,
        extent: Extent::Time(seconds(cli.delivery_duration_s)?),
        ..closed_loop(cli, address, PUSHERS)?
    })
}

/// Connections that push in the measurement of delivery: enough that no push waits for another.
const PUSHERS: usize = 8;

/// Medians over the rounds: floor, broker, and the ratio within a round.
fn of_both(measured: &[Measured], figure: impl Fn(&Report) -> f64) -> (f64, f64, f64) {
    let floor = measured.iter().map(|round| figure(&round.floor)).collect();
    let broker = measured.iter().map(|round| figure(&round.broker)).collect();
    let ratio = measured
        .iter()
        .map(|round| figure(&round.broker) / figure(&round.floor))
        .collect();
    (median(floor), median(broker), median(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(operation: &'static str, goal: Option<Goal>, ratio: f64) -> Line {
        Line {
            operation,
            connections: 16,
            goal,
            floor: 1_000.0,
            broker: 1_000.0 * ratio,
            ratio,
            floor_idle: 5.0,
            broker_idle: 10.0,
        }
    }

    #[test]
    fn what_has_a_goal_is_judged() {
        let lines = [
            line("push", Some(PUSH_GOAL), 0.86),
            line("push", Some(PUSH_GOAL), 0.84),
            line("push, pop, ack", None, 0.5),
        ];
        assert_eq!(
            missed(&lines),
            ["push, 16 connections: at least 0.85 x the floor, but measured 0.84"]
        );
        let text = table(&lines);
        let cells: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            cells,
            [
                "| push | 16 | 1000 | 860 | 0.86 | at least 0.85 | yes | 5 % | 10 % |",
                "| push | 16 | 1000 | 840 | 0.84 | at least 0.85 | no | 5 % | 10 % |",
                "| push, pop, ack | 16 | 1000 | 500 | 0.50 |  |  | 5 % | 10 % |",
            ]
        );
    }
}
