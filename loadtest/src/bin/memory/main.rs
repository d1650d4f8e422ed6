//! `memory`: what idle inboxes, parked pops and bursts cost the broker, in memory of its process, and
//! what many inboxes cost in time. Every row has a goal; the exit status is 1 if one is missed.

mod broker;
mod pipe;
mod rows;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use broker::Start;
use clap::Parser;
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::server::Cpus;
use queen_loadtest::{LoadError, programs};
use rows::{Goal, Row};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long what a burst took may take to be given back.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(15);

/// Open files beside the connections of a row.
const OTHER_FILES: u64 = 64;

#[derive(Parser)]
#[command(about = "Measures what the broker's memory is used for, and judges it.")]
struct Cli {
    /// The broker; built if not given.
    #[arg(long)]
    broker: Option<PathBuf>,
    /// Its I/O driver: `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto")]
    io: String,
    /// CPU of the broker; the first usable one if not given.
    #[arg(long)]
    server_cpu: Option<usize>,
    /// CPU of the generator; the second usable one if not given.
    #[arg(long)]
    load_cpu: Option<usize>,
    /// Inboxes that are pushed to once, popped once and left alone.
    #[arg(long, default_value_t = 1_000_000)]
    idle_inboxes: usize,
    /// Pops that are parked, each on a connection and an inbox of its own.
    #[arg(long, default_value_t = 10_000)]
    parked: usize,
    /// Inboxes that are compared with one.
    #[arg(long, default_value_t = 100_000)]
    inboxes: usize,
    /// Rounds of that comparison of which the median is taken.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// MiB of messages that are pushed and taken at once; at most 150.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u16).range(1..=150))]
    burst_mib: u16,
    /// Connections that are opened, used and closed.
    #[arg(long, default_value_t = 10_000)]
    burst_connections: usize,
    /// Judge nothing: for sizes that are too small for that.
    #[arg(long)]
    no_verdict: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match measure(&cli) {
        Ok(rows) if cli.no_verdict || rows.iter().all(Row::is_met) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("memory: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(cli: &Cli) -> Result<Vec<Row>, LoadError> {
    allow_files(cli.parked.max(cli.burst_connections) as u64 + OTHER_FILES)?;
    let program = programs::path(cli.broker.as_deref(), "queen")?;
    let start = Start {
        interrupt: Interrupt::by_signals()?,
        program: &program,
        io: &cli.io,
        cpus: Cpus::choose(cli.server_cpu, cli.load_cpu)?,
        patience: if cli.no_verdict {
            Duration::ZERO
        } else {
            GIVEN_BACK_WITHIN
        },
    };
    let mut rows = Vec::new();
    eprintln!("idle inboxes");
    rows.push(rows::idle_inboxes(&start, cli.idle_inboxes)?);
    eprintln!("parked pops");
    rows.push(rows::parked_pops(&start, cli.parked)?);
    eprintln!("many inboxes against one");
    rows.extend(rows::many_against_one(&start, cli.inboxes, cli.rounds)?);
    eprintln!("burst of messages");
    rows.push(rows::burst_of_messages(&start, usize::from(cli.burst_mib))?);
    eprintln!("burst of connections");
    rows.push(rows::burst_of_connections(&start, cli.burst_connections)?);
    io::stdout().write_all(table(cli, &start, &rows).as_bytes())?;
    Ok(rows)
}

/// Every connection is an open file, here as in the broker, which takes the limit over.
fn allow_files(wanted: u64) -> Result<(), LoadError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(io::Error::from)?;
    match limit.maximum {
        Some(maximum) if maximum < wanted => Err(LoadError::text(format!(
            "{wanted} open files are needed and {maximum} allowed: raise the limit (ulimit -Hn) \
             or take fewer connections"
        ))),
        _ => Ok(()),
    }
}

fn table(cli: &Cli, start: &Start<'_>, rows: &[Row]) -> String {
    let mut text = format!(
        "Broker on CPU {}, one shard, nothing lingers; generator on CPU {}; `QUEEN_IO={}`.\n\n\
         | What | Goal | Measured | Verdict | |\n|---|--:|--:|---|---|\n",
        start.cpus.server, start.cpus.load, cli.io
    );
    for row in rows {
        let (word, bound) = match row.goal {
            Goal::AtMost(most) => ("at most", most),
            Goal::AtLeast(least) => ("at least", least),
        };
        let verdict = match row.is_met() {
            _ if cli.no_verdict => "not judged",
            true => "met",
            false => "MISSED",
        };
        let Row {
            what,
            measured,
            unit,
            note,
            ..
        } = row;
        let digits = if bound < 100.0 { 2 } else { 0 };
        writeln!(
            text,
            "| {what} | {word} {bound} {unit} | {measured:.digits$} {unit} | {verdict} | {note} |"
        )
        .expect("writing to memory does not fail");
    }
    text
}
