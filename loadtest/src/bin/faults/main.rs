//! `faults`: push, pop and ack while PostgreSQL is away, hangs, restarts, loses its sessions or has
//! a full disk, beside the same load without that. Rounds without and with a fault take turns; the
//! figures are medians of the rounds.

mod asker;
mod database;
mod disk;
mod fault;
mod round;
mod table;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;

use clap::{Parser, ValueEnum};
use database::{Database, stand_back};
use fault::Fault;
use queen_loadtest::cli::{self, Common};
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::load::Load;
use queen_loadtest::pace::seconds;
use queen_loadtest::server::{Cpus, Server};
use queen_loadtest::{LoadError, pin, programs};
use round::{Stage, Times, join};
use table::{Pair, Row};

/// Lines of the broker's log that are shown when something went wrong.
const LOG_LINES_SHOWN: usize = 20;

#[derive(Parser)]
#[command(about = "Measures push, pop and ack while PostgreSQL fails.")]
struct Cli {
    #[command(flatten)]
    common: Common,
    /// The broker's I/O driver: `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto")]
    io: String,
    /// CPU of the broker's engine and of PostgreSQL; the third usable one if not given, where there
    /// are only two that of the generator.
    #[arg(long)]
    database_cpu: Option<usize>,
    /// What befalls PostgreSQL.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Fault::value_variants().to_vec())]
    faults: Vec<Fault>,
    /// Cycles a second.
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
    /// Connections of the cycles.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Bytes of a payload.
    #[arg(long, default_value_t = 256)]
    payload_bytes: usize,
    /// Seconds of a round that are not measured.
    #[arg(long, default_value_t = 0.5)]
    warmup_s: f64,
    /// Seconds that a fault lasts.
    #[arg(long, default_value_t = 6.0)]
    fault_s: f64,
    /// Seconds that are measured after it.
    #[arg(long, default_value_t = 2.0)]
    tail_s: f64,
    /// Judge neither ratios nor times: for runs that are too short for that.
    #[arg(long)]
    no_verdict: bool,
}

fn main() -> ExitCode {
    cli::end("faults", measure(&Cli::parse()))
}

/// Prints the table and returns what is wrong.
fn measure(cli: &Cli) -> Result<Vec<String>, LoadError> {
    let times = Times {
        warmup: seconds(cli.warmup_s)?,
        fault: seconds(cli.fault_s)?,
        tail: seconds(cli.tail_s)?,
    };
    let broker = programs::path(cli.common.broker.as_deref(), "queen")?;
    let interrupt = Interrupt::by_signals()?;
    let placement = Placement::choose(cli)?;
    let mut database = create_database(placement, &interrupt)?;
    let top = database.disk().top();
    let log = top.join("broker.log");
    let server = start_broker(&broker, &cli.io, placement, &database)?;
    let load = load(cli, &server, &interrupt);
    let mut rows: Vec<Row> = Vec::new();
    for &fault in &cli.faults {
        if fault == Fault::DiskFull && !database.disk().is_small() {
            eprintln!("NOTE: mounting is not allowed: the full disk did not run");
            continue;
        }
        rows.push(Row {
            fault,
            pairs: Vec::new(),
        });
    }
    let played = load.with_queues("{}", |queues| {
        let mut stage = Stage {
            database: &mut database,
            database_cpu: placement.database,
            load: &load,
            queues,
            times,
            interrupt: &interrupt,
        };
        play(cli.common.rounds, &mut stage, &mut rows)
    });
    if let Err(error) = &played
        && !matches!(error, LoadError::Interrupted)
    {
        show_end(&log);
    }
    let text = head(cli, placement) + &table::table(&rows);
    io::stdout().write_all(text.as_bytes())?;
    played?;
    Ok(table::faults(&rows, !cli.no_verdict))
}

/// Fills the rows; ends early when the broker does not heal, as nothing would mean anything then.
fn play(rounds: u32, stage: &mut Stage<'_>, rows: &mut [Row]) -> Result<(), LoadError> {
    for round in 0..rounds {
        for row in &mut *rows {
            let name = row.fault.name();
            eprintln!("round {round}: without a fault");
            let without = stage.round(None)?;
            eprintln!("round {round}: {name}");
            let with = stage.round(Some(row.fault))?;
            let healed = with.seen.healed_after.is_some();
            eprintln!(
                "round {round}: {name}: p99 {:.0} us, without {:.0} us; {:?}",
                with.cycles.latency_us(99.0),
                without.cycles.latency_us(99.0),
                with.asked,
            );
            row.pairs.push(Pair { without, with });
            if !healed {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Which CPU is whose.
#[derive(Clone, Copy)]
struct Placement {
    shard: usize,
    load: usize,
    /// The broker's engine too: what blocks.
    database: usize,
}

impl Placement {
    fn choose(cli: &Cli) -> Result<Placement, LoadError> {
        let Cpus { server, load } = cli.common.cpus()?;
        let third = || {
            let usable = pin::usable_cpus();
            let free = |cpu: &usize| *cpu != server && *cpu != load;
            usable.into_iter().find(free)
        };
        Ok(Placement {
            shard: server,
            load,
            database: cli.database_cpu.or_else(third).unwrap_or(load),
        })
    }
}

/// On a thread of its own, as none can raise its priority again.
fn create_database(placement: Placement, interrupt: &Interrupt) -> Result<Database, LoadError> {
    let create = || {
        stand_back(placement.database)?;
        Database::create(interrupt)
    };
    thread::scope(|scope| join(scope.spawn(create)))
}

/// Starts the broker with one shard, on the database; the current thread ends up on the
/// generator's CPU.
fn start_broker(
    program: &Path,
    io: &str,
    placement: Placement,
    database: &Database,
) -> Result<Server, LoadError> {
    let top = database.disk().top();
    let log = top.join("broker.log");
    let pins = if placement.shard == placement.database {
        "off".to_owned()
    } else {
        format!("{},{}", placement.shard, placement.database)
    };
    let mut command = Command::new(program);
    command
        .env_remove("DATABASE_URL")
        .envs(database.variables())
        .env("QUEEN_DATA_DIR", top.join("broker"))
        .env("QUEEN_DURABLE", "on")
        .env("QUEEN_SHARDS", "1")
        .env("QUEEN_PIN", pins)
        .env("QUEEN_IO", io)
        .env("QUEEN_LOG", "info")
        .stderr(File::create(&log)?);
    let cores = [placement.shard, placement.database];
    let server = pin::start_on(&cores, placement.load, || Server::spawn(&mut command));
    server.inspect_err(|_| show_end(&log))
}

/// The rounds say how long.
fn load(cli: &Cli, server: &Server, interrupt: &Interrupt) -> Load {
    Load {
        rate_per_s: cli.rate,
        // On two cores the generator shares its own with PostgreSQL.
        spin: false,
        is_kernel_timed: true,
        interrupt: interrupt.clone(),
        ..Load::closed_loop(server.address, cli.connections, cli.payload_bytes)
    }
}

fn head(cli: &Cli, placement: Placement) -> String {
    format!(
        "Shard on CPU {}, generator on CPU {}, engine and PostgreSQL on CPU {}, `QUEEN_IO={}`, {} \
         cycles/s with payloads of {} bytes; each fault lasts {} s; medians of {} rounds.\n\n",
        placement.shard,
        placement.load,
        placement.database,
        cli.io,
        cli.rate,
        cli.payload_bytes,
        cli.fault_s,
        cli.common.rounds,
    )
}

/// Shows the last lines of the broker's log.
fn show_end(log: &Path) {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
        eprintln!("broker: {line}");
    }
}
