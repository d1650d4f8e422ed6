//! The goals that need no sockets, judged: `cargo bench --bench in_process`. The exit status is 1 if
//! one is missed.
//!
//! `--list` names the operations, `--repeat NAME COUNT` does one so often and nothing else: what
//! `bench/instructions.sh` counts the instructions of.

#[path = "../common/heads.rs"]
mod heads;
mod lanes;
mod operations;
#[path = "../common/rig.rs"]
mod rig;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use heads::HEADS;
use operations::{Work, all, one_of_many_partitions, parse_ours, parse_theirs};

/// The broker's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Rounds of which the median is taken.
const ROUNDS: usize = 11;

/// How often something is done.
#[derive(Clone, Copy)]
struct Size {
    lane_trips: usize,
    pops: u32,
    heads: u32,
}

const FULL: Size = Size {
    lane_trips: 200_000,
    pops: 20_000,
    heads: 200_000,
};

const TINY: Size = Size {
    lane_trips: 100,
    pops: 10,
    heads: 10,
};

struct Row {
    what: String,
    goal: String,
    measured: String,
    is_met: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["--list", ..] => list(),
        ["--repeat", name, count] => repeat(name, count),
        // As cargo bench calls it; cargo test does not say so.
        _ if arguments.contains(&"--bench") => judge(FULL, true),
        _ => judge(TINY, false),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("in_process: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> io::Result<bool> {
    for operation in all() {
        writeln!(io::stdout(), "{}", operation.name)?;
    }
    Ok(true)
}

fn repeat(name: &str, count: &str) -> io::Result<bool> {
    let operation = all().into_iter().find(|operation| operation.name == name);
    let operation = operation.ok_or_else(|| io::Error::other("no operation of this name"))?;
    let count: u32 = count.parse().map_err(io::Error::other)?;
    let mut work = (operation.prepare)();
    for _ in 0..count {
        work();
    }
    Ok(true)
}

/// Measures all goals; whether they are met, if that `counts`.
fn judge(size: Size, counts: bool) -> io::Result<bool> {
    let mut rows = Vec::new();
    match lanes::round_trip_ns(size.lane_trips) {
        Some((p50, p99)) => rows.push(Row {
            what: "request and reply through two lanes, p50".to_owned(),
            goal: "at most 2 us".to_owned(),
            measured: format!("{:.2} us (p99 {:.2})", p50 / 1e3, p99 / 1e3),
            is_met: p50 <= 2_000.0,
        }),
        None => writeln!(
            io::stdout(),
            "NOTE: one core only: no round trip between two"
        )?,
    }
    let (any, named) = (one_of_many_partitions(false), one_of_many_partitions(true));
    let slower = ratio(any, named, size.pops);
    rows.push(Row {
        what: "push and pop without partition over 10,000 : naming it, time".to_owned(),
        goal: "at most 1.2".to_owned(),
        measured: format!("{slower:.2}"),
        is_met: slower <= 1.2,
    });
    for (client, head) in HEADS {
        let faster = ratio(parse_theirs(head), parse_ours(head), size.heads);
        rows.push(Row {
            what: format!("head of {client}, speed : httparse"),
            goal: "at least 1.0".to_owned(),
            measured: format!("{faster:.2}"),
            is_met: faster >= 1.0,
        });
    }
    let mut out = io::stdout().lock();
    writeln!(out, "| What | Goal | Measured | |\n|---|--:|--:|---|")?;
    for row in &rows {
        let verdict = match row.is_met {
            _ if !counts => "not judged",
            true => "met",
            false => "MISSED",
        };
        let Row {
            what,
            goal,
            measured,
            ..
        } = row;
        writeln!(out, "| {what} | {goal} | {measured} | {verdict} |")?;
    }
    Ok(!counts || rows.iter().all(|row| row.is_met))
}

/// How many times longer the first work takes than the second: the median over rounds in which they
/// take turns.
fn ratio(mut first: Work, mut second: Work, count: u32) -> f64 {
    let time = |work: &mut Work| {
        let started = Instant::now();
        for _ in 0..count {
            work();
        }
        started.elapsed().as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..ROUNDS)
        .map(|_| time(&mut first) / time(&mut second))
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios[ROUNDS / 2]
}
