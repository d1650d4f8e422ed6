//! `queen-loadtest`: runs one scenario against a server and prints what it measured.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use queen_loadtest::load::Load;
use queen_loadtest::pace::Extent;
use queen_loadtest::report::Report;
use queen_loadtest::scenario::{self, Exchanging, FloorOf, Inboxes, Settle, Taking};
use queen_loadtest::{LoadError, cli, pin, wire};

#[derive(Parser)]
#[command(about = "Loads a running broker and prints latencies and rates.")]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum Scenario {
    /// Pushes into queues that drop their oldest message.
    Push {
        /// Messages of one push.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        batch: u32,
    },
    /// Push, pop and ack on one connection.
    Cycle {
        /// Settle with the pop instead of an ack.
        #[arg(long)]
        auto_ack: bool,
    },
    /// From the scheduled push to the arrival of the parked pop's answer. `--connections` push.
    Delivery {
        /// Pops that are parked.
        #[arg(long, default_value_t = 64)]
        parked: usize,
    },
    /// Pops of messages that stand in one queue; with `--requests`.
    Take {
        /// Messages of one pop.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        batch: u32,
        /// How what was taken is settled.
        #[arg(long, value_enum, default_value_t = Taking::Exchange)]
        settle: Taking,
    },
    /// Request and reply, each side in one round trip. `--connections` request.
    Exchange {
        /// Connections that answer requests.
        #[arg(long, default_value_t = 4)]
        responders: usize,
        /// Requests that a responder takes at once, at most.
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
        batch: u32,
        /// Settle a request at delivery instead of leasing and acking it.
        #[arg(long)]
        auto_ack: bool,
    },
    /// The same requests against a null responder.
    Floor {
        /// Whose requests.
        #[arg(long, value_enum, default_value_t = FloorOf::Push)]
        of: FloorOf,
    },
    /// Request and reply over minted inbox queues. `--connections` request.
    Inboxes {
        /// Connections that answer requests.
        #[arg(long, default_value_t = 4)]
        responders: usize,
        /// Requests that name one inbox before the next is minted.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        requests_per_inbox: u64,
        /// Send a push and the pop that follows it together.
        #[arg(long)]
        pipelined: bool,
    },
}

#[derive(Args)]
struct Common {
    /// Host and port of the server.
    #[arg(long, global = true, default_value = "127.0.0.1:6632")]
    address: String,
    /// Connections that are given work.
    #[arg(long, global = true, default_value_t = 16)]
    connections: usize,
    /// Requests that each connection sends before the first is answered; for `push`, `cycle` and `floor`.
    #[arg(long, global = true, default_value_t = 1)]
    depth: usize,
    /// Queues over which the connections are spread.
    #[arg(long, global = true, default_value_t = 1)]
    queues: usize,
    /// Bytes of a payload.
    #[arg(long, global = true, default_value_t = 256)]
    payload_bytes: usize,
    /// Units of work a second (open loop); 0: as fast as they are answered (closed loop).
    #[arg(long, global = true, default_value_t = 0.0)]
    rate: f64,
    /// Seconds that are measured.
    #[arg(
        long,
        global = true,
        default_value_t = 10.0,
        conflicts_with = "requests"
    )]
    duration_s: f64,
    /// Units of work that are measured, instead of a time.
    #[arg(long, global = true)]
    requests: Option<u64>,
    /// Seconds before that which are not measured.
    #[arg(long, global = true, default_value_t = 1.0)]
    warmup_s: f64,
    /// Seconds that late work may take after the last was due.
    #[arg(long, global = true, default_value_t = 10.0)]
    drain_s: f64,
    /// CPU to run on.
    #[arg(long, global = true)]
    cpu: Option<usize>,
    /// Sleep while nothing happens, instead of keeping a core busy. Latencies grow by the time the
    /// kernel takes to wake the generator.
    #[arg(long, global = true)]
    sleep: bool,
    /// File for the distribution of latencies, in the text format of HdrHistogram.
    #[arg(long, global = true)]
    histogram: Option<PathBuf>,
}

fn main() -> ExitCode {
    cli::end("queen-loadtest", work(&Cli::parse()))
}

/// Prints what was measured, which must be clean; nothing else is judged.
fn work(cli: &Cli) -> Result<Vec<String>, LoadError> {
    if let Some(cpu) = cli.common.cpu {
        pin::pin(&[cpu])?;
    }
    let load = load(&cli.common)?;
    let report = run(&cli.scenario, &load)?;
    report.write(&mut io::stdout().lock())?;
    if let Some(path) = &cli.common.histogram {
        report.write_percentiles(&mut BufWriter::new(File::create(path)?))?;
    }
    report.clean().map(|_| Vec::new())
}

fn run(scenario: &Scenario, load: &Load) -> Result<Report, LoadError> {
    match *scenario {
        Scenario::Push { batch } => scenario::push(load, batch as usize),
        Scenario::Cycle { auto_ack: false } => scenario::cycle(load, Settle::Ack),
        Scenario::Cycle { auto_ack: true } => scenario::cycle(load, Settle::AutoAck),
        Scenario::Delivery { parked } => scenario::delivery(load, at_least(parked, load.queues)),
        Scenario::Take { batch, settle } => scenario::take(load, batch, settle),
        Scenario::Exchange {
            responders,
            batch,
            auto_ack,
        } => {
            let exchanging = Exchanging {
                responders: at_least(responders, load.queues),
                batch,
                acked: !auto_ack,
            };
            scenario::exchange(load, exchanging)
        }
        Scenario::Floor { of } => scenario::floor(load, of),
        Scenario::Inboxes {
            responders,
            requests_per_inbox,
            pipelined,
        } => {
            let responders = at_least(responders, load.queues);
            scenario::inboxes(
                load,
                Inboxes {
                    responders,
                    requests_per_inbox,
                    pipelined,
                },
            )
        }
    }
}

/// Every queue needs somebody who pops from it.
fn at_least(consumers: usize, queues: usize) -> usize {
    consumers.max(queues)
}

fn load(common: &Common) -> Result<Load, LoadError> {
    let seconds = |value: f64, name: &str| {
        Duration::try_from_secs_f64(value).map_err(|_| bad(&format!("--{name} is not a time")))
    };
    if !(common.rate >= 0.0 && common.rate.is_finite()) {
        return Err(bad("--rate must be 0 or more"));
    }
    if common.connections == 0 || common.queues == 0 || common.depth == 0 {
        return Err(bad(
            "--connections, --queues and --depth must be at least 1",
        ));
    }
    if common.payload_bytes < wire::PAYLOAD_BYTES_MIN {
        let least = wire::PAYLOAD_BYTES_MIN;
        return Err(bad(&format!("--payload-bytes must be at least {least}")));
    }
    let address = resolve(&common.address)?;
    Ok(Load {
        depth: common.depth,
        queues: common.queues,
        rate_per_s: common.rate,
        warmup: seconds(common.warmup_s, "warmup-s")?,
        extent: match common.requests {
            Some(units) => Extent::Units(units),
            None => Extent::Time(seconds(common.duration_s, "duration-s")?),
        },
        drain: seconds(common.drain_s, "drain-s")?,
        spin: !common.sleep,
        ..Load::closed_loop(address, common.connections, common.payload_bytes)
    })
}

fn resolve(address: &str) -> Result<SocketAddr, LoadError> {
    let found = address.to_socket_addrs()?.next();
    found.ok_or_else(|| bad("--address names no host"))
}

fn bad(text: &str) -> LoadError {
    io::Error::new(io::ErrorKind::InvalidInput, text).into()
}
