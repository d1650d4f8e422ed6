//! `memory`: what idle inboxes, parked pops and bursts cost the broker, in memory of its process, and
//! what many inboxes cost in time. Every row has a goal; the exit status is 1 if one is missed.

mod broker;
mod rows;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use broker::Start;
use clap::Parser;
use queen_loadtest::cli::{self, Common};
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::{LoadError, open_files, programs};
use rows::Row;

/// How long what a burst took may take to be given back.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(15);

#[derive(Parser)]
#[command(about = "Measures what the broker's memory is used for, and judges it.")]
struct Cli {
    #[command(flatten)]
    common: Common,
    /// The broker's I/O driver: `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto")]
    io: String,
    /// Inboxes that are pushed to once, popped once and left alone.
    #[arg(long, default_value_t = 1_000_000)]
    idle_inboxes: usize,
    /// Pops that are parked, each on a connection and an inbox of its own.
    #[arg(long, default_value_t = 10_000)]
    parked: usize,
    /// Inboxes that are compared with one.
    #[arg(long, default_value_t = 100_000)]
    inboxes: usize,
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
    cli::end("memory", measure(&Cli::parse()))
}

/// Prints the table and returns what is more or less than it should be.
fn measure(cli: &Cli) -> Result<Vec<String>, LoadError> {
    open_files::allow(cli.parked.max(cli.burst_connections))?;
    let program = programs::path(cli.common.broker.as_deref(), "queen")?;
    let start = Start {
        interrupt: Interrupt::by_signals()?,
        program: &program,
        io: &cli.io,
        cpus: cli.common.cpus()?,
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
    rows.push(rows::parked(&start, cli.parked)?);
    eprintln!("many inboxes against one");
    rows.extend(rows::many_against_one(
        &start,
        cli.inboxes,
        cli.common.rounds,
    )?);
    eprintln!("burst of messages");
    rows.push(rows::burst_of_messages(&start, usize::from(cli.burst_mib))?);
    eprintln!("burst of connections");
    rows.push(rows::burst_of_connections(&start, cli.burst_connections)?);
    io::stdout().write_all(table(cli, &start, &rows).as_bytes())?;
    let missed = rows
        .iter()
        .filter(|row| !cli.no_verdict && !row.is_met())
        .map(|row| format!("{}: {} missed", row.what, row.goal));
    Ok(missed.collect())
}

fn table(cli: &Cli, start: &Start<'_>, rows: &[Row]) -> String {
    let mut text = format!(
        "Broker on CPU {}, one shard, nothing lingers; generator on CPU {}; `QUEEN_IO={}`.\n\n\
         | What | Goal | Measured | Verdict | |\n|---|--:|--:|---|---|\n",
        start.cpus.server, start.cpus.load, cli.io
    );
    for row in rows {
        let verdict = match row.is_met() {
            _ if cli.no_verdict => "not judged",
            true => "met",
            false => "MISSED",
        };
        let Row {
            what,
            goal,
            measured,
            unit,
            note,
        } = row;
        let digits = if *unit == "bytes" { 0 } else { 2 };
        text += &format!(
            "| {what} | {goal} {unit} | {measured:.digits$} {unit} | {verdict} | {note} |\n"
        );
    }
    text
}
