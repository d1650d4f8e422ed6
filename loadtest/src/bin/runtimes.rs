//! `runtimes`: the same broker on each of its runtimes, as ratios against monoio on epoll within one
//! run. Rounds alternate between them; every figure is the median of the rounds.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use queen_loadtest::cli::{self, Common};
use queen_loadtest::load::Load;
use queen_loadtest::pace::{Extent, seconds};
use queen_loadtest::report::{Report, median};
use queen_loadtest::scenario::{self, Settle};
use queen_loadtest::server::{Cpus, Server};
use queen_loadtest::{LoadError, programs};

/// The values of `QUEEN_IO` that are compared; the first is what the others are measured against.
const RUNTIMES: [&str; 3] = ["epoll", "uring", "glommio"];

const PERCENTILES: [f64; 2] = [50.0, 99.0];

/// Connections that push in the measurement of delivery: enough that no push waits for another.
const PUSHERS: usize = 8;

#[derive(Parser)]
#[command(about = "Compares the runtimes of a broker with glommio and prints tables of ratios.")]
struct Cli {
    #[command(flatten)]
    common: Common,
    /// Connections of the closed loops.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    connections: Vec<usize>,
    /// Values of `QUEEN_SPIN_US`.
    #[arg(long, value_delimiter = ',', default_value = "0,50")]
    spin_us: Vec<u64>,
    /// Seconds of one measurement of throughput.
    #[arg(long, default_value_t = 1.0)]
    duration_s: f64,
    /// Seconds before a measurement that are not measured.
    #[arg(long, default_value_t = 0.2)]
    warmup_s: f64,
    /// Messages a second in the measurement of delivery.
    #[arg(long, default_value_t = 2_000.0)]
    delivery_rate: f64,
    /// Seconds of one measurement of delivery.
    #[arg(long, default_value_t = 3.0)]
    delivery_duration_s: f64,
    /// Pops that are parked, each on a queue of its own.
    #[arg(long, default_value_t = 64)]
    parked: usize,
    /// Bytes of a payload.
    #[arg(long, default_value_t = 256)]
    payload_bytes: usize,
}

fn main() -> ExitCode {
    cli::end("runtimes", compare(&Cli::parse()))
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Push { connections: usize },
    Cycle { connections: usize },
    Delivery { parked: usize },
}

/// One line of measurements: the same work at the same setting on every runtime.
struct Row {
    work: Work,
    spin_us: u64,
    /// By round, then by runtime.
    rounds: Vec<Vec<Report>>,
}

/// The brokers of one value of `QUEEN_SPIN_US`, one for each runtime; all are held except the one
/// that is measured.
struct Brokers {
    spin_us: u64,
    servers: Vec<Server>,
}

/// Prints the tables; nothing is judged.
fn compare(cli: &Cli) -> Result<Vec<String>, LoadError> {
    let (cpus, given) = (cli.common.cpus()?, cli.common.broker.as_deref());
    let broker = programs::path_with(given, "queen", Some("queen/glommio"))?;
    let runtimes = runtimes_of_machine(&broker, cpus);
    let mut text = format!(
        "Shard on CPU {}, generator on CPU {}, payloads of {} bytes; medians of {} rounds. \
         Ratios are within a round.\n\n",
        cpus.server, cpus.load, cli.payload_bytes, cli.common.rounds
    );
    let mut brokers = Vec::new();
    for &spin_us in &cli.spin_us {
        let mut servers = Vec::new();
        for io in &runtimes {
            let server = start(&broker, io, spin_us, cpus)?;
            server.hold()?;
            servers.push(server);
        }
        brokers.push(Brokers { spin_us, servers });
    }
    let mut rows = rows_of(cli);
    for round in 0..cli.common.rounds {
        for row in &mut rows {
            let (work, spin_us) = (row.work, row.spin_us);
            eprintln!("round {round}: {work:?}, QUEEN_SPIN_US={spin_us}");
            let brokers = brokers.iter().find(|brokers| brokers.spin_us == spin_us);
            let servers = &brokers.expect("one for each value").servers;
            row.rounds.push(measure_all(cli, work, servers, round)?);
        }
    }
    write_tables(&mut text, &rows, &runtimes);
    io::stdout().write_all(text.as_bytes())?;
    Ok(Vec::new())
}

/// The runtimes on which a broker starts here; says which do not.
fn runtimes_of_machine(broker: &Path, cpus: Cpus) -> Vec<&'static str> {
    let starts = |io: &&str| match start(broker, io, 0, cpus) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("{io} does not run here: {error}");
            false
        }
    };
    let others = RUNTIMES[1..].iter().copied().filter(starts);
    std::iter::once(RUNTIMES[0]).chain(others).collect()
}

fn start(broker: &Path, io: &str, spin_us: u64, cpus: Cpus) -> Result<Server, LoadError> {
    let settings = [("QUEEN_SPIN_US", spin_us.to_string())];
    Server::one_shard(broker, io, cpus, &settings)
}

fn rows_of(cli: &Cli) -> Vec<Row> {
    let loops = |work: fn(usize) -> Work| cli.connections.iter().map(move |&count| work(count));
    let pushes = loops(|connections| Work::Push { connections });
    let cycles = loops(|connections| Work::Cycle { connections });
    let works = pushes
        .chain(cycles)
        .chain([Work::Delivery { parked: cli.parked }]);
    let rows = works.flat_map(|work| {
        cli.spin_us.iter().map(move |&spin_us| Row {
            work,
            spin_us,
            rounds: Vec::new(),
        })
    });
    rows.collect()
}

/// One report for each runtime; which is measured first changes from round to round.
fn measure_all(
    cli: &Cli,
    work: Work,
    servers: &[Server],
    round: u32,
) -> Result<Vec<Report>, LoadError> {
    let first = round as usize % servers.len();
    let mut reports = Vec::new();
    for offset in 0..servers.len() {
        let at = (first + offset) % servers.len();
        let report = servers[at].measure(|address| measure(cli, work, address))?;
        reports.push((at, report));
    }
    reports.sort_by_key(|(at, _)| *at);
    Ok(reports.into_iter().map(|(_, report)| report).collect())
}

fn measure(cli: &Cli, work: Work, address: SocketAddr) -> Result<Report, LoadError> {
    let closed_loop = |connections| -> Result<Load, LoadError> {
        Ok(Load {
            warmup: seconds(cli.warmup_s)?,
            extent: Extent::Time(seconds(cli.duration_s)?),
            ..Load::closed_loop(address, connections, cli.payload_bytes)
        })
    };
    match work {
        Work::Push { connections } => scenario::push(&closed_loop(connections)?, 1),
        Work::Cycle { connections } => scenario::cycle(&closed_loop(connections)?, Settle::Ack),
        Work::Delivery { parked } => {
            let load = Load {
                queues: parked,
                rate_per_s: cli.delivery_rate,
                extent: Extent::Time(seconds(cli.delivery_duration_s)?),
                ..closed_loop(PUSHERS)?
            };
            scenario::delivery(&load, parked)
        }
    }
}

fn write_tables(text: &mut String, rows: &[Row], runtimes: &[&str]) {
    write_head(text, "Connections", "requests/s", runtimes);
    for row in rows {
        let (operation, connections) = match row.work {
            Work::Push { connections } => ("push", connections),
            Work::Cycle { connections } => ("push, pop, ack", connections),
            Work::Delivery { .. } => continue,
        };
        let label = format!("{operation} | {connections}");
        write_line(text, &label, row, Report::answers_per_s);
    }
    text.push('\n');
    write_head(text, "Parked", "us", runtimes);
    for percentile in PERCENTILES {
        for row in rows {
            let Work::Delivery { parked } = row.work else {
                continue;
            };
            let label = format!("delivery to a parked pop, p{percentile} | {parked}");
            write_line(text, &label, row, |report| report.latency_us(percentile));
        }
    }
}

fn write_head(text: &mut String, count: &str, unit: &str, runtimes: &[&str]) {
    let base = runtimes[0];
    *text += &format!("| Operation | {count} | `QUEEN_SPIN_US` | {base}, {unit} |");
    for other in &runtimes[1..] {
        *text += &format!(" {other} : {base} |");
    }
    text.push_str("\n|---|--:|--:|--:|");
    text.push_str(&"--:|".repeat(runtimes.len() - 1));
    text.push('\n');
}

fn write_line(text: &mut String, label: &str, row: &Row, figure: impl Fn(&Report) -> f64) {
    let of = |runtime: usize| row.rounds.iter().map(move |round| &round[runtime]);
    let base = median(of(0).map(&figure).collect());
    *text += &format!("| {label} | {} | {base:.0} |", row.spin_us);
    let runtimes = row.rounds.first().map_or(1, Vec::len);
    for other in 1..runtimes {
        let pairs = of(0).zip(of(other));
        let ratios = pairs.map(|(base, other)| figure(other) / figure(base));
        *text += &format!(" {:.2} |", median(ratios.collect()));
    }
    text.push('\n');
}
