//! `peers`: the broker beside Redis and NATS, driven by one client loop, as ratios within one run.
//! Rounds take turns between all of them; every figure is the median of the rounds.

mod comparison;
mod nats;
mod parked;
mod program;
mod redis;
mod rows;
mod server;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use comparison::Comparison;
use program::Program;
use queen_loadtest::cli::{self, Common};
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::load::Load;
use queen_loadtest::pace::{Extent, seconds};
use queen_loadtest::server::Cpus;
use queen_loadtest::{LoadError, open_files, programs};
use rows::{BATCH, RowName, Size};

#[derive(Parser)]
#[command(about = "Compares the broker with Redis and NATS and prints a table of ratios.")]
struct Cli {
    #[command(flatten)]
    common: Common,
    /// The server of Redis; the one that is installed if not given, installed where there is none.
    #[arg(long)]
    redis_server: Option<PathBuf>,
    /// The server of NATS; installed into the folder of what is built if not given.
    #[arg(long)]
    nats_server: Option<PathBuf>,
    /// The broker's I/O driver: `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto")]
    io: String,
    /// What is measured; all if not given.
    #[arg(long, value_enum, value_delimiter = ',')]
    rows: Vec<RowName>,
    /// Seconds of one measurement of requests and replies.
    #[arg(long, default_value_t = 1.5)]
    duration_s: f64,
    /// Seconds before a measurement that are not measured.
    #[arg(long, default_value_t = 0.3)]
    warmup_s: f64,
    /// Messages a second in the measurement of delivery.
    #[arg(long, default_value_t = 2_000.0)]
    delivery_rate: f64,
    /// Seconds of one measurement of delivery.
    #[arg(long, default_value_t = 3.0)]
    delivery_duration_s: f64,
    /// Consumers of that measurement, each waiting at a name of its own.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    consumers: u32,
    /// Messages that are stored, and taken, in one measurement of that.
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(100..))]
    messages: u64,
    /// Consumers that wait while the memory of a server is measured.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    waiting: u32,
    /// Microseconds that the broker polls before it sleeps, where a row is measured with polling: longer
    /// than the gaps between messages.
    #[arg(long, default_value_t = 1_000)]
    spin_us: u32,
    /// Bytes of a payload.
    #[arg(long, default_value_t = 256)]
    payload_bytes: usize,
    /// Judge no ratio: for runs that are too short for that.
    #[arg(long)]
    no_verdict: bool,
}

fn main() -> ExitCode {
    cli::end("peers", measure(&Cli::parse()))
}

/// Prints the table and returns the goals that were missed.
fn measure(cli: &Cli) -> Result<Vec<String>, LoadError> {
    let interrupt = Interrupt::by_signals()?;
    let cpus = cli.common.cpus()?;
    open_files::allow(cli.waiting as usize)?;
    let redis = Program::redis(cli.redis_server.as_deref())?;
    let nats = Program::nats(cli.nats_server.as_deref())?;
    let broker = programs::path(cli.common.broker.as_deref(), "queen")?;
    let size = size(cli, interrupt)?;
    let mut rows = rows::rows();
    if !cli.rows.is_empty() {
        rows.retain(|row| cli.rows.contains(&row.name));
    }
    let versions = format!("{}; {}", redis.version, nats.version);
    let comparison = Comparison {
        broker,
        redis,
        nats,
        io: cli.io.clone(),
        cpus,
        size,
        polling_us: cli.spin_us,
    };
    comparison.run(cli.common.rounds, &mut rows)?;
    let text = head(cli, cpus, &versions) + &table::table(&rows, cli.spin_us);
    io::stdout().write_all(text.as_bytes())?;
    if cli.no_verdict {
        return Ok(Vec::new());
    }
    Ok(table::missed(&rows))
}

/// How much is measured. The address, the connections and what depends on them are a row's.
fn size(cli: &Cli, interrupt: Interrupt) -> Result<Size, LoadError> {
    let load = Load {
        warmup: seconds(cli.warmup_s)?,
        extent: Extent::Time(seconds(cli.duration_s)?),
        interrupt,
        ..Load::closed_loop(([127, 0, 0, 1], 0).into(), 1, cli.payload_bytes)
    };
    Ok(Size {
        load,
        delivery_rate_per_s: cli.delivery_rate,
        delivery: Extent::Time(seconds(cli.delivery_duration_s)?),
        consumers: cli.consumers as usize,
        units_stored: cli.messages / u64::from(BATCH),
        waiting: cli.waiting as usize,
    })
}

fn head(cli: &Cli, cpus: Cpus, versions: &str) -> String {
    format!(
        "Servers on CPU {}, generator on CPU {}, `QUEEN_IO={}`; {versions}; payloads of {} bytes; \
         medians of {} rounds.\n\n",
        cpus.server, cpus.load, cli.io, cli.payload_bytes, cli.common.rounds,
    )
}
