//! Everything in sums, for the routes that show the broker as a whole. They show what is stored now: no
//! history is kept, so each series has no point and each range of time is the moment of the answer.

use serde::Serialize;

use super::queues::Messages;
use super::{FineTime, Time, fine_seconds};
use crate::model::durable::read::{Counts, Lags, Overview, OverviewForm, QueueSummary};

/// Sums in the form of their route.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Sums {
    Overview(Box<Everything>),
    Status(Box<Status>),
    Analytics(Analytics),
    System(System),
    Workers(Box<Workers>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Everything {
    queues: usize,
    partitions: i64,
    namespaces: usize,
    tasks: usize,
    messages: Messages,
    lag: Lag,
    throughput: Throughput,
    timestamp: Time,
    stats_age: i64,
}

/// How far the slowest groups are behind: seconds and messages of a partition in which one is.
#[derive(Serialize)]
struct Lag {
    time: Spread,
    offset: Spread,
}

/// The median is that of the queues' averages.
#[derive(Serialize)]
struct Spread {
    avg: f64,
    median: f64,
    min: f64,
    max: f64,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Throughput {
    ingested_per_second: f64,
    processed_per_second: f64,
}

/// The numbers of all queues together.
struct Total {
    partitions: i64,
    counts: Counts,
    leases: i64,
}

impl Total {
    fn of(queues: &[QueueSummary]) -> Total {
        let mut total = Total {
            partitions: 0,
            counts: Counts::default(),
            leases: 0,
        };
        for queue in queues {
            total.partitions += queue.partitions;
            total.counts.add(&queue.counts);
            total.leases += queue.leases;
        }
        total
    }
}

/// Names that are there, without the one of what has none.
fn different<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    let names: std::collections::BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    names.len()
}

/// Of each queue in which some group is behind: partitions, sum, least, greatest.
fn spread(behind: &[(i64, f64, f64, f64)]) -> Spread {
    let partitions: i64 = behind.iter().map(|queue| queue.0).sum();
    let sum: f64 = behind.iter().map(|queue| queue.1).sum();
    let mut averages: Vec<f64> = behind
        .iter()
        .map(|queue| queue.1 / queue.0 as f64)
        .collect();
    averages.sort_by(f64::total_cmp);
    let least = behind.iter().map(|queue| queue.2);
    Spread {
        avg: rounded(sum / partitions.max(1) as f64),
        median: rounded(averages.get(averages.len() / 2).copied().unwrap_or(0.0)),
        min: rounded(least.min_by(f64::total_cmp).unwrap_or(0.0)),
        max: rounded(behind.iter().map(|queue| queue.3).fold(0.0, f64::max)),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn lag(queues: &[QueueSummary]) -> Lag {
    let behind = || queues.iter().filter(|queue| queue.lags.partitions > 0);
    let times: Vec<_> = behind()
        .map(|queue| {
            let Lags { time_us, .. } = queue.lags;
            (
                queue.lags.partitions,
                fine_seconds(time_us.0),
                fine_seconds(time_us.1),
                fine_seconds(time_us.2),
            )
        })
        .collect();
    let offsets: Vec<_> = behind()
        .map(|queue| {
            let (least, greatest) = queue.lags.messages;
            let pending = queue.counts.pending as f64;
            (
                queue.lags.partitions,
                pending,
                least as f64,
                greatest as f64,
            )
        })
        .collect();
    Lag {
        time: spread(&times),
        offset: spread(&offsets),
    }
}

/// A range of time: the moment of the answer.
#[derive(Serialize)]
struct TimeRange {
    from: Time,
    to: Time,
}

impl TimeRange {
    fn at(us: i64) -> TimeRange {
        TimeRange {
            from: Time(us),
            to: Time(us),
        }
    }
}

/// A series without a point.
type NoPoints = [(); 0];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    time_range: TimeRange,
    bucket_minutes: i64,
    point_count: i64,
    stats_age: i64,
    throughput: NoPoints,
    workers: NoPoints,
    queues: QueueTotals,
    messages: Messages,
    leases: Leases,
    dead_letter_queue: DeadLetters,
    errors: Errors,
}

#[derive(Serialize)]
struct QueueTotals {
    total: usize,
    partitions: i64,
    namespaces: usize,
    tasks: usize,
}

#[derive(Serialize)]
struct Leases {
    active: i64,
    messages: i64,
}

#[derive(Serialize)]
struct DeadLetters {
    total: i64,
}

/// Messages that are first in line and have failed before.
#[derive(Serialize)]
struct Errors {
    failing: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Analytics {
    interval: &'static str,
    from: FineTime,
    to: FineTime,
    data_points: NoPoints,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct System {
    time_range: TimeRange,
    bucket_minutes: i64,
    point_count: i64,
    replicas: NoPoints,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Workers {
    time_range: TimeRange,
    bucket_minutes: i64,
    point_count: i64,
    summary: WorkerSummary,
    time_series: NoPoints,
    workers: NoPoints,
    queues: Vec<WorkerQueue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkerSummary {
    queues: usize,
    partitions: i64,
    active_leases: i64,
    messages: Messages,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkerQueue {
    queue: Box<str>,
    active_leases: i64,
    messages: Messages,
    max_lag_seconds: f64,
}

/// Minutes that one point of a series stands for.
const BUCKET_MINUTES: i64 = 1;

pub(super) fn overview(overview: &Overview) -> Sums {
    let (queues, now_us) = (&overview.queues, overview.now_us);
    let total = Total::of(queues);
    let namespaces = different(queues.iter().map(|queue| &*queue.face.namespace));
    let tasks = different(queues.iter().map(|queue| &*queue.face.task));
    let messages = Messages::of(&total.counts);
    match overview.form {
        OverviewForm::Overview => Sums::Overview(Box::new(Everything {
            queues: queues.len(),
            partitions: total.partitions,
            namespaces,
            tasks,
            messages,
            lag: lag(queues),
            throughput: Throughput::default(),
            timestamp: Time(now_us),
            stats_age: 0,
        })),
        OverviewForm::Status => Sums::Status(Box::new(Status {
            time_range: TimeRange::at(now_us),
            bucket_minutes: BUCKET_MINUTES,
            point_count: 0,
            stats_age: 0,
            throughput: [],
            workers: [],
            queues: QueueTotals {
                total: queues.len(),
                partitions: total.partitions,
                namespaces,
                tasks,
            },
            messages,
            leases: Leases {
                active: total.leases,
                messages: total.counts.processing,
            },
            dead_letter_queue: DeadLetters {
                total: total.counts.dead_letters,
            },
            errors: Errors {
                failing: total.counts.failed,
            },
        })),
        OverviewForm::Analytics => Sums::Analytics(Analytics {
            interval: "minute",
            from: FineTime(now_us),
            to: FineTime(now_us),
            data_points: [],
        }),
        OverviewForm::System => Sums::System(System {
            time_range: TimeRange::at(now_us),
            bucket_minutes: BUCKET_MINUTES,
            point_count: 0,
            replicas: [],
        }),
        OverviewForm::Workers => Sums::Workers(Box::new(workers(overview, &total))),
    }
}

fn workers(overview: &Overview, total: &Total) -> Workers {
    let queues = overview.queues.iter().map(|queue| WorkerQueue {
        queue: queue.face.name.clone(),
        active_leases: queue.leases,
        messages: Messages::of(&queue.counts),
        max_lag_seconds: fine_seconds(queue.lags.time_us.2),
    });
    Workers {
        time_range: TimeRange::at(overview.now_us),
        bucket_minutes: BUCKET_MINUTES,
        point_count: 0,
        summary: WorkerSummary {
            queues: overview.queues.len(),
            partitions: total.partitions,
            active_leases: total.leases,
            messages: Messages::of(&total.counts),
        },
        time_series: [],
        workers: [],
        queues: queues.collect(),
    }
}

/// Queues summed up by a part of their names.
#[derive(Serialize)]
pub(super) struct ByName {
    queues: i64,
    partitions: i64,
    messages: Messages,
}

#[derive(Serialize)]
pub(super) struct Namespace<'a> {
    namespace: &'a str,
    #[serde(flatten)]
    sums: ByName,
}

#[derive(Serialize)]
pub(super) struct Task<'a> {
    task: &'a str,
    #[serde(flatten)]
    sums: ByName,
}

#[derive(Serialize)]
pub(super) struct Namespaces<'a> {
    namespaces: Vec<Namespace<'a>>,
}

#[derive(Serialize)]
pub(super) struct Tasks<'a> {
    tasks: Vec<Task<'a>>,
}

/// A name, its queues, partitions and messages.
type Row = (Box<str>, i64, i64, Counts);

fn by_name((_, queues, partitions, counts): &Row) -> ByName {
    ByName {
        queues: *queues,
        partitions: *partitions,
        messages: Messages::of(counts),
    }
}

pub(super) fn namespaces(rows: &[Row]) -> Namespaces<'_> {
    let rows = rows.iter().map(|row| Namespace {
        namespace: &row.0,
        sums: by_name(row),
    });
    Namespaces {
        namespaces: rows.collect(),
    }
}

pub(super) fn tasks(rows: &[Row]) -> Tasks<'_> {
    let rows = rows.iter().map(|row| Task {
        task: &row.0,
        sums: by_name(row),
    });
    Tasks {
        tasks: rows.collect(),
    }
}
