//! `durable`: durable queues of the broker beside what PostgreSQL does on the same machine without a
//! broker, as ratios within one run. Anchor and broker take turns; every figure is the median of the
//! rounds.

mod alone;
mod anchor;
mod beside;
mod rows;
mod stand;
mod table;
mod wire;
mod work;

use std::cell::OnceCell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::load::Load;
use queen_loadtest::pace::seconds;
use queen_loadtest::{LoadError, cli, pin, programs};
use rows::{Scene, SceneName, Size, Stands};
use stand::Plan;

#[derive(Parser)]
#[command(about = "Compares durable queues with PostgreSQL alone and prints a table of ratios.")]
struct Cli {
    /// The broker; built if not given.
    #[arg(long)]
    broker: Option<PathBuf>,
    /// Rounds of which the median is taken.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The broker's I/O driver: `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto")]
    io: String,
    /// What is measured; all if not given.
    #[arg(long, value_enum, value_delimiter = ',')]
    scenes: Vec<SceneName>,
    /// Where the databases are made and removed again; the folder of temporary files if not given.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 10.0)]
    duration_s: f64,
    /// Seconds before a measurement that are not measured.
    #[arg(long, default_value_t = 0.5)]
    warmup_s: f64,
    /// Bytes of a payload.
    #[arg(long, default_value_t = 256)]
    payload_bytes: usize,
    /// Messages that the filled database stores.
    #[arg(long, default_value_t = 5_000_000)]
    stored: u64,
    /// Messages that retention has to remove: enough for one measurement.
    #[arg(long, default_value_t = 500_000)]
    retained: u64,
    /// Partitions of a queue that has many, at least 100.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..))]
    partitions: u32,
    /// How often many partitions are filled and taken from in a round, as that takes a moment only.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    wide_times: u32,
    /// Judge no ratio: for runs that are too short for that.
    #[arg(long)]
    no_verdict: bool,
}

fn main() -> ExitCode {
    cli::end("durable", measure(&Cli::parse()))
}

/// Prints the table and returns what was missed.
fn measure(cli: &Cli) -> Result<Vec<String>, LoadError> {
    let interrupt = Interrupt::by_signals()?;
    let plan = Plan {
        broker: programs::path(cli.broker.as_deref(), "queen")?,
        io: cli.io.clone(),
        folder: cli.folder.clone().unwrap_or_else(std::env::temp_dir),
        interrupt: interrupt.clone(),
    };
    let size = size(cli, interrupt)?;
    let mut scenes = rows::scenes();
    if !cli.scenes.is_empty() {
        scenes.retain(|scene| cli.scenes.contains(&scene.name));
    }
    let played = play(cli.rounds, &plan, &size, &mut scenes);
    let text = head(cli) + &table::table(&scenes);
    io::stdout().write_all(text.as_bytes())?;
    played?;
    if cli.no_verdict {
        return Ok(Vec::new());
    }
    Ok(table::missed(&scenes))
}

fn play(rounds: u32, plan: &Plan, size: &Size, scenes: &mut [Scene]) -> Result<(), LoadError> {
    let stands = Stands {
        empty: plan.make("empty")?,
        filled: OnceCell::new(),
        plan: plan.clone(),
    };
    for round in 0..rounds {
        for scene in &mut *scenes {
            size.load.interrupt.check()?;
            let pairs = (scene.play)(&stands, size).inspect_err(|_| stands.empty.show_log())?;
            assert_eq!(pairs.len(), scene.lines.len(), "a pair for each line");
            for (line, pair) in scene.lines.iter_mut().zip(pairs) {
                let (work, ratio) = (line.work, pair.broker / pair.anchor);
                eprintln!("round {round}: {work}: {pair:.0?}, {ratio:.2}");
                line.pairs.push(pair);
            }
        }
    }
    Ok(())
}

/// How much is measured. The address and the connections are a scene's.
fn size(cli: &Cli, interrupt: Interrupt) -> Result<Size, LoadError> {
    Ok(Size {
        load: Load {
            warmup: seconds(cli.warmup_s)?,
            drain: Duration::from_secs(30),
            // It shares its cores with the broker and the database.
            spin: false,
            interrupt,
            ..Load::closed_loop(([127, 0, 0, 1], 0).into(), 1, cli.payload_bytes)
        },
        duration: seconds(cli.duration_s)?,
        stored: cli.stored,
        retained: cli.retained,
        wide: cli.partitions as usize,
        wide_times: cli.wide_times as usize,
    })
}

fn head(cli: &Cli) -> String {
    format!(
        "Broker, PostgreSQL, `pgbench` and the generator share {} CPUs, none is pinned but what the \
         broker pins by itself, `QUEEN_IO={}`; payloads of {} bytes; {} partitions where there are many, \
         {} messages in the filled database; {} s a measurement, medians of {} rounds.\n\n",
        pin::usable_cpus().len(),
        cli.io,
        cli.payload_bytes,
        cli.partitions,
        cli.stored,
        cli.duration_s,
        cli.rounds,
    )
}
