//! What PostgreSQL does without a broker: single rows by `pgbench`, and rows by the hundred.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use queen_loadtest::LoadError;
use queen_loadtest::report::median;

use crate::stand::{Stand, of_database};

/// The bare table of all anchors: no key, no index.
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS public.anchor (payload bytea); TRUNCATE public.anchor";

/// Rows of one bound array.
pub(crate) const ROWS: usize = 100;

/// Seconds that `pgbench` runs at least: its sessions connect in them.
const SECONDS_MIN: f64 = 2.0;

/// What `pgbench` measured of single-row inserts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single {
    /// Transactions a second.
    pub(crate) tps: f64,
    /// Mean latency in milliseconds; at a rate with the lag behind its schedule.
    pub(crate) mean_ms: f64,
}

/// Single-row inserts of `payload_bytes` by `clients` sessions, as fast as they go.
pub(crate) fn single(
    stand: &Stand,
    clients: usize,
    payload_bytes: usize,
    duration: Duration,
) -> Result<Single, LoadError> {
    let text = pgbench(stand, clients, payload_bytes, duration, &[])?;
    let figure = |before: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(before));
        let word = line.and_then(|line| line.split_whitespace().next());
        let figure = word.and_then(|word| word.parse::<f64>().ok());
        figure.ok_or_else(|| LoadError::text(format!("pgbench does not say {before:?}:\n{text}")))
    };
    Ok(Single {
        tps: figure("tps = ")?,
        mean_ms: figure("latency average = ")?,
    })
}

/// The median time in microseconds that one session takes for a single-row insert, `rate_per_s` of
/// which are begun a second. How far it lags behind its schedule is not counted.
pub(crate) fn paced(
    stand: &Stand,
    payload_bytes: usize,
    duration: Duration,
    rate_per_s: f64,
) -> Result<f64, LoadError> {
    let prefix = stand.folder().join("paced");
    let flags = [
        format!("--rate={rate_per_s}"),
        "--log".to_owned(),
        format!("--log-prefix={}", prefix.display()),
    ];
    pgbench(stand, 1, payload_bytes, duration, &flags)?;
    let mut times_us = Vec::new();
    for entry in fs::read_dir(stand.folder())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("paced.") {
            continue;
        }
        // client, transaction, time, script, second, microsecond, lag behind the schedule.
        for line in fs::read_to_string(&path)?.lines() {
            let words: Vec<f64> = line
                .split(' ')
                .filter_map(|word| word.parse().ok())
                .collect();
            if let [_, _, time_us, _, _, _, lag_us] = words[..] {
                times_us.push(time_us - lag_us);
            }
        }
        fs::remove_file(path)?;
    }
    if times_us.is_empty() {
        return Err(LoadError::text("pgbench logged no transaction"));
    }
    Ok(median(times_us))
}

/// Runs it; what it prints.
fn pgbench(
    stand: &Stand,
    clients: usize,
    payload_bytes: usize,
    duration: Duration,
    flags: &[String],
) -> Result<String, LoadError> {
    stand.session()?.batch_execute(TABLE).map_err(of_database)?;
    let script: PathBuf = stand.folder().join("single.sql");
    let payload = "x".repeat(payload_bytes);
    fs::write(
        &script,
        format!("INSERT INTO public.anchor VALUES ('{payload}');\n"),
    )?;
    let threads = clients.min(std::thread::available_parallelism()?.get());
    let seconds = duration.as_secs_f64().ceil().max(SECONDS_MIN);
    let output = stand
        .pgbench()
        .arg(format!("--file={}", script.display()))
        .arg(format!("--client={clients}"))
        .arg(format!("--jobs={threads}"))
        .arg(format!("--time={seconds:.0}"))
        .args(flags)
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(LoadError::text(format!("pgbench: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Rows a second that one session inserts, [`ROWS`] in a bound array at a time.
pub(crate) fn bulk(
    stand: &Stand,
    payload_bytes: usize,
    duration: Duration,
) -> Result<f64, LoadError> {
    let mut session = stand.session()?;
    session.batch_execute(TABLE).map_err(of_database)?;
    let insert = session
        .prepare("INSERT INTO public.anchor SELECT unnest($1::bytea[])")
        .map_err(of_database)?;
    let payload = vec![b'x'; payload_bytes];
    let rows: Vec<&[u8]> = vec![&payload; ROWS];
    let begun = Instant::now();
    let mut inserted = 0;
    while begun.elapsed() < duration {
        inserted += session.execute(&insert, &[&rows]).map_err(of_database)?;
    }
    Ok(inserted as f64 / begun.elapsed().as_secs_f64())
}
