//! `compare`: the broker beside a null responder on the same runtime and core, as ratios within one
//! run. Rounds alternate between the two; every figure is the median of the rounds.

use std::env;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use queen_loadtest::pace::Extent;
use queen_loadtest::report::Report;
use queen_loadtest::scenario::{self, FloorOf, Load, Settle};
use queen_loadtest::server::{Cpus, Server};
use queen_loadtest::{LoadError, pin};

const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

#[derive(Parser)]
#[command(about = "Compares the broker with a null responder and prints tables of ratios.")]
struct Cli {
    /// The broker; built if not given.
    #[arg(long)]
    broker: Option<PathBuf>,
    /// The null responder; built if not given.
    #[arg(long)]
    null_responder: Option<PathBuf>,
    /// What serves both: `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto")]
    io: String,
    /// CPU of the servers; the first usable one if not given.
    #[arg(long)]
    server_cpu: Option<usize>,
    /// CPU of the generator; the second usable one if not given.
    #[arg(long)]
    load_cpu: Option<usize>,
    /// Rounds of which the median is taken.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
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
}

fn main() -> ExitCode {
    let outcome = compare(&Cli::parse()).and_then(|text| {
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(cli: &Cli) -> Result<String, LoadError> {
    let cpus = choose_cpus(cli)?;
    let (broker, null_responder) = programs(cli)?;
    let pair = Pair {
        broker: Server::start(&broker, &cli.io, cpus)?,
        floor: Server::start(&null_responder, &cli.io, cpus)?,
    };
    pair.broker.hold()?;
    pair.floor.hold()?;
    let mut text = String::new();
    let io = &cli.io;
    let (rounds, bytes) = (cli.rounds, cli.payload_bytes);
    append(
        &mut text,
        format_args!(
            "Servers on CPU {}, generator on CPU {}, `QUEEN_IO={io}`, payloads of {bytes} bytes; \
             medians of {rounds} rounds.\n\n",
            cpus.server, cpus.load
        ),
    );
    throughput(cli, &pair, &mut text)?;
    delivery(cli, &pair, &mut text)?;
    Ok(text)
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
        broker: impl Fn(&Server) -> Result<Report, LoadError>,
        floor: impl Fn(&Server) -> Result<Report, LoadError>,
    ) -> Result<Measured, LoadError> {
        if round.is_multiple_of(2) {
            let floor = measure(&self.floor, floor)?;
            Ok(Measured {
                floor,
                broker: measure(&self.broker, broker)?,
            })
        } else {
            let broker = measure(&self.broker, broker)?;
            Ok(Measured {
                floor: measure(&self.floor, floor)?,
                broker,
            })
        }
    }
}

struct Measured {
    floor: Report,
    broker: Report,
}

fn measure(
    server: &Server,
    run: impl Fn(&Server) -> Result<Report, LoadError>,
) -> Result<Report, LoadError> {
    server.release()?;
    let report = run(server)?;
    server.hold()?;
    if report.is_clean() {
        return Ok(report);
    }
    let (refused, given_up) = (&report.refused, report.given_up);
    Err(other(format!(
        "a run was not clean: refused {refused:?}, given up {given_up}"
    )))
}

fn throughput(cli: &Cli, pair: &Pair, text: &mut String) -> Result<(), LoadError> {
    let pushes: Cell = (|load| scenario::push(load), FloorOf::Push);
    let cycles: Cell = (|load| scenario::cycle(load, Settle::Ack), FloorOf::Cycle);
    let mut rows = Vec::new();
    for (operation, of_broker) in [("push", pushes), ("push, pop, ack", cycles)] {
        for &connections in &cli.connections {
            rows.push((operation, of_broker, connections, Vec::new()));
        }
    }
    for round in 0..cli.rounds {
        for (operation, (of_broker, of_floor), connections, measured) in &mut rows {
            progress(format_args!(
                "round {round}: {operation}, {connections} connections"
            ));
            let load = |server: &Server| closed_loop(cli, server, *connections);
            let broker = |server: &Server| of_broker(&load(server)?);
            let floor = |server: &Server| scenario::floor(&load(server)?, *of_floor);
            measured.push(pair.round(round, broker, floor)?);
        }
    }
    text.push_str(
        "| Operation | Connections | Floor, requests/s | Broker, requests/s | Broker : floor | \
         Generator idle, floor | Generator idle, broker |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for (operation, _, connections, measured) in &rows {
        let of = |figure: fn(&Report) -> f64| of_both(measured, figure);
        let (floor, broker, ratio) = of(Report::answers_per_s);
        let (floor_idle, broker_idle, _) = of(|report| report.idle_share().unwrap_or(0.0) * 100.0);
        append(
            text,
            format_args!(
                "| {operation} | {connections} | {floor:.0} | {broker:.0} | {ratio:.2} | \
                 {floor_idle:.0} % | {broker_idle:.0} % |\n"
            ),
        );
    }
    Ok(())
}

/// What is measured of the broker, and whose requests the floor gets.
type Cell = (fn(&Load) -> Result<Report, LoadError>, FloorOf);

fn delivery(cli: &Cli, pair: &Pair, text: &mut String) -> Result<(), LoadError> {
    let mut measured = Vec::new();
    for round in 0..cli.rounds {
        progress(format_args!("round {round}: delivery"));
        let broker = |server: &Server| scenario::delivery(&open_loop(cli, server)?, cli.parked);
        let floor = |server: &Server| scenario::floor(&open_loop(cli, server)?, FloorOf::Push);
        measured.push(pair.round(round, broker, floor)?);
    }
    let (rate, parked) = (cli.delivery_rate, cli.parked);
    append(
        text,
        format_args!(
            "\nDelivery to {parked} parked pops, each on a queue of its own, at {rate:.0} \
             messages/s in open loop, beside one round trip to the floor at the same rate.\n\n\
             | Percentile | Floor round trip, us | Delivery, us | Delivery : floor |\n\
             |---|--:|--:|--:|\n"
        ),
    );
    for percentile in PERCENTILES {
        let (floor, broker, ratio) = of_both(&measured, |report| report.latency_us(percentile));
        append(
            text,
            format_args!("| p{percentile} | {floor:.0} | {broker:.0} | {ratio:.2} |\n"),
        );
    }
    Ok(())
}

fn closed_loop(cli: &Cli, server: &Server, connections: usize) -> Result<Load, LoadError> {
    Ok(Load {
        address: server.address,
        connections,
        queues: 1,
        payload_bytes: cli.payload_bytes,
        rate_per_s: 0.0,
        warmup: seconds(cli.warmup_s)?,
        extent: Extent::Time(seconds(cli.duration_s)?),
        drain: Duration::from_secs(10),
        spin: true,
    })
}

fn open_loop(cli: &Cli, server: &Server) -> Result<Load, LoadError> {
    Ok(Load {
        queues: cli.parked,
        rate_per_s: cli.delivery_rate,
        extent: Extent::Time(seconds(cli.delivery_duration_s)?),
        ..closed_loop(cli, server, PUSHERS)?
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

fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "there is at least one round");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        return f64::midpoint(values[middle - 1], values[middle]);
    }
    values[middle]
}

fn choose_cpus(cli: &Cli) -> Result<Cpus, LoadError> {
    let usable = pin::usable_cpus();
    let first = *usable
        .first()
        .ok_or_else(|| other("no CPU can be pinned to".to_owned()))?;
    let cpus = Cpus {
        server: cli.server_cpu.unwrap_or(first),
        load: cli
            .load_cpu
            .unwrap_or(usable.get(1).copied().unwrap_or(first)),
    };
    if cpus.server == cpus.load {
        progress(format_args!(
            "servers and generator share one CPU: the ratios say little"
        ));
    }
    Ok(cpus)
}

/// The broker and the null responder, built where no path was given.
fn programs(cli: &Cli) -> Result<(PathBuf, PathBuf), LoadError> {
    if let (Some(broker), Some(null_responder)) = (&cli.broker, &cli.null_responder) {
        return Ok((broker.clone(), null_responder.clone()));
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--package",
            "queen",
            "--package",
            "queen-loadtest",
        ])
        .args([
            "--bin",
            "queen",
            "--bin",
            "null_responder",
            "--manifest-path",
        ])
        .arg(manifest)
        .status()?;
    if !built.success() {
        return Err(other("the servers cannot be built".to_owned()));
    }
    // This program is in the folder of its profile, which lies beside that of the others.
    let own = env::current_exe()?;
    let folder = own
        .parent()
        .and_then(Path::parent)
        .unwrap_or(Path::new("target"));
    let release = folder.join("release");
    let path =
        |given: &Option<PathBuf>, name: &str| given.clone().unwrap_or_else(|| release.join(name));
    Ok((
        path(&cli.broker, "queen"),
        path(&cli.null_responder, "null_responder"),
    ))
}

fn seconds(value: f64) -> Result<Duration, LoadError> {
    Duration::try_from_secs_f64(value).map_err(|error| other(format!("{value} s: {error}")))
}

fn other(text: String) -> LoadError {
    io::Error::other(text).into()
}

fn append(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part)
        .expect("writing to memory does not fail");
}

fn progress(text: std::fmt::Arguments<'_>) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
