//! What is measured: each scene is played once a round, broker and anchor one after the other, and
//! gives the figures of one or more lines of the table.

use std::time::Duration;

use clap::ValueEnum;
use queen_loadtest::goal::Goal;
use queen_loadtest::load::{Load, run_name};
use queen_loadtest::pace::Extent;
use queen_loadtest::report::median;
use queen_loadtest::{LoadError, control};

use crate::anchor;
use crate::stand::Stand;
use crate::wire;
use crate::work::{Pushing, Spread, Taking, delivery, push, take};

/// Clients that push one message at a time, and sessions of `pgbench`.
const SINGLE_CLIENTS: usize = 64;

/// Clients that push by the hundred, and workers that take by the hundred.
const BULK_CLIENTS: usize = 8;

/// Messages of a request, and of a pop.
const BATCH: usize = anchor::ROWS;

/// Connections that push to a parked pop: enough that no push waits for another.
const PUSHERS: usize = 4;

/// Messages a second that are pushed to a parked pop, and rows that `pgbench` inserts beside it.
const PARKED_RATE: f64 = 300.0;

/// Workers that take from many partitions, and sessions of the `pgbench` beside them.
const WIDE_WORKERS: usize = 4;

/// How often many partitions are filled and taken from in one round, as that takes a moment only.
const WIDE_TIMES: usize = 5;

/// The part of what is stored that is taken while it is measured: until then every worker has enough.
const TAKEN: f64 = 0.9;

/// Partitions of a queue that has many.
const WIDE: usize = 10_000;

/// The names of the scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SceneName {
    PushSingle,
    Bulk,
    Parked,
    Wide,
}

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// Payload, warm-up and when to break off.
    pub(crate) load: Load,
    /// One measurement.
    pub(crate) duration: Duration,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) work: &'static str,
    pub(crate) unit: &'static str,
    /// What it is compared with.
    pub(crate) beside: &'static str,
    /// Of the ratio.
    pub(crate) goal: Option<Goal>,
    /// Of the ratio: what it must not fall short of even where the goal is missed.
    pub(crate) floor: Option<Goal>,
    pub(crate) pairs: Vec<Pair>,
}

/// What one round measured for a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) broker: f64,
    pub(crate) anchor: f64,
}

/// Some lines that are measured together.
pub(crate) struct Scene {
    pub(crate) name: SceneName,
    pub(crate) lines: Vec<Line>,
    /// Plays one round; a pair for each line.
    pub(crate) play: fn(&Stand, &Size) -> Result<Vec<Pair>, LoadError>,
}

impl Line {
    fn new(work: &'static str, unit: &'static str, beside: &'static str) -> Line {
        Line {
            work,
            unit,
            beside,
            goal: None,
            floor: None,
            pairs: Vec::new(),
        }
    }

    fn goal(mut self, goal: Goal) -> Line {
        self.goal = Some(goal);
        self
    }

    fn floor(mut self, floor: Goal) -> Line {
        self.floor = Some(floor);
        self
    }
}

/// All scenes, in the order of the table.
pub(crate) fn scenes() -> Vec<Scene> {
    vec![push_single(), bulk(), parked(), wide()]
}

impl Size {
    /// A closed loop for the usual time.
    fn closed(&self, stand: &Stand, connections: usize) -> Load {
        Load {
            address: stand.server.address,
            connections,
            extent: Extent::Time(self.duration),
            ..self.load.clone()
        }
    }
}

/// Declares queues, does something with them and removes them with all that is in them.
fn with_queues<T>(
    stand: &Stand,
    size: &Size,
    count: usize,
    work: impl FnOnce(&[String]) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let queues: Vec<String> = (0..count).map(|_| run_name()).collect();
    for queue in &queues {
        control::request(stand.server.address, &wire::configure(queue, "{}"))?;
    }
    let done = work(&queues)?;
    for queue in &queues {
        control::request(stand.server.address, &wire::delete(queue))?;
    }
    stand.sweep(&size.load.interrupt)?;
    Ok(done)
}

fn with_queue<T>(
    stand: &Stand,
    size: &Size,
    work: impl FnOnce(&str) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    with_queues(stand, size, 1, |queues| work(&queues[0]))
}

fn push_single() -> Scene {
    let work = "push of 1 message, 64 clients, 64 partitions";
    Scene {
        name: SceneName::PushSingle,
        lines: vec![
            Line::new(work, "messages/s", "`pgbench`, 64 clients, 1 row")
                .goal(Goal::AtLeast(2.5))
                .floor(Goal::AtLeast(2.0)),
            Line::new("its p99", "us", "mean of that `pgbench`").goal(Goal::AtMost(1.0)),
            Line::new(
                "the same over 10,000 partitions",
                "messages/s",
                "64 partitions",
            )
            .goal(Goal::AtLeast(0.8))
            .floor(Goal::AtLeast(0.7)),
        ],
        play: |stand, size| {
            let pgbench = anchor::single(
                stand,
                SINGLE_CLIENTS,
                size.load.payload_bytes,
                size.duration,
            )?;
            let pushed = |partitions| {
                with_queue(stand, size, |queue| {
                    let pushing = Pushing {
                        queue,
                        batch: 1,
                        partitions,
                        spread: Spread::Whole,
                    };
                    if partitions == WIDE {
                        fill_wide(stand, size, queue, WIDE)?;
                    }
                    push(&size.closed(stand, SINGLE_CLIENTS), pushing)
                })
            };
            let (narrow, wide) = (pushed(SINGLE_CLIENTS)?, pushed(WIDE)?);
            Ok(vec![
                Pair {
                    broker: narrow.finished_per_s(),
                    anchor: pgbench.tps,
                },
                Pair {
                    broker: narrow.latency_us(99.0),
                    anchor: pgbench.mean_ms * 1e3,
                },
                Pair {
                    broker: wide.finished_per_s(),
                    anchor: narrow.finished_per_s(),
                },
            ])
        },
    }
}

/// One message to each of many partitions.
fn fill_wide(stand: &Stand, size: &Size, queue: &str, partitions: usize) -> Result<(), LoadError> {
    let load = Load {
        extent: Extent::Units((WIDE / BATCH) as u64),
        warmup: Duration::ZERO,
        ..size.closed(stand, BULK_CLIENTS)
    };
    let pushing = Pushing {
        queue,
        batch: BATCH,
        partitions,
        spread: Spread::Scattered,
    };
    push(&load, pushing).map(drop)
}

/// Takes by so many pops, for which there is enough; messages a second.
fn take_some(
    stand: &Stand,
    size: &Size,
    workers: usize,
    taking: Taking<'_>,
    pops: usize,
) -> Result<f64, LoadError> {
    let load = Load {
        extent: Extent::Units((pops as f64 * TAKEN) as u64),
        warmup: Duration::ZERO,
        ..size.closed(stand, workers)
    };
    take(&load, taking)
}

fn bulk() -> Scene {
    Scene {
        name: SceneName::Bulk,
        lines: vec![
            Line::new(
                "push in requests of 100, 8 clients, 8 partitions",
                "messages/s",
                "1 session, arrays of 100 rows",
            )
            .goal(Goal::AtLeast(1.5))
            .floor(Goal::AtLeast(1.0)),
            Line::new("pop 100 + ack, 8 workers", "messages/s", "that push")
                .goal(Goal::AtLeast(1.0))
                .floor(Goal::AtLeast(0.75)),
        ],
        play: |stand, size| {
            let rows_per_s = anchor::bulk(stand, size.load.payload_bytes, size.duration)?;
            let (pushed, taken) = with_queue(stand, size, |queue| {
                let pushing = Pushing {
                    queue,
                    batch: BATCH,
                    partitions: BULK_CLIENTS,
                    spread: Spread::Whole,
                };
                let pushed = push(&size.closed(stand, BULK_CLIENTS), pushing)?;
                let taking = Taking {
                    queue,
                    batch: BATCH as u32,
                    partitions: 1,
                };
                let pops = pushed.finished as usize;
                let taken = take_some(stand, size, BULK_CLIENTS, taking, pops)?;
                Ok((pushed.finished_per_s() * BATCH as f64, taken))
            })?;
            Ok(vec![
                Pair {
                    broker: pushed,
                    anchor: rows_per_s,
                },
                Pair {
                    broker: taken,
                    anchor: pushed,
                },
            ])
        },
    }
}

fn parked() -> Scene {
    Scene {
        name: SceneName::Parked,
        lines: vec![
            Line::new(
                "push to the answer of a parked pop, 300 messages/s, p50",
                "us",
                "`pgbench`, 1 client, 300 rows/s, p50",
            )
            .goal(Goal::AtMost(1.5))
            .floor(Goal::AtMost(2.5)),
        ],
        play: |stand, size| {
            let payload_bytes = size.load.payload_bytes;
            let row_us = anchor::paced(stand, payload_bytes, size.duration, PARKED_RATE)?;
            let delivered_us = with_queue(stand, size, |queue| {
                let load = Load {
                    rate_per_s: PARKED_RATE,
                    ..size.closed(stand, PUSHERS)
                };
                delivery(&load, queue)
            })?;
            Ok(vec![Pair {
                broker: delivered_us,
                anchor: row_us,
            }])
        },
    }
}

fn wide() -> Scene {
    Scene {
        name: SceneName::Wide,
        lines: vec![
            Line::new(
                "pop + ack of 10,000 partitions with one message each, `partitions=100&batch=100`, \
                 4 workers",
                "messages/s",
                "8 partitions with as many",
            )
            .goal(Goal::AtLeast(0.5))
            .floor(Goal::AtLeast(0.3)),
            Line::new("the same", "messages/s", "the goal").goal(Goal::AtLeast(1.0)),
            Line::new(
                "the same with one partition for each pop",
                "messages/s",
                "half the commits of `pgbench`, 4 clients, 1 row",
            )
            .floor(Goal::AtLeast(0.8)),
            Line::new("the same", "messages/s", "the goal").goal(Goal::AtLeast(1.0)),
        ],
        play: |stand, size| {
            let narrow = wide_taken(stand, size, BULK_CLIENTS, 100)?;
            let wide = wide_taken(stand, size, WIDE, 100)?;
            let single = wide_taken(stand, size, WIDE, 1)?;
            let pgbench =
                anchor::single(stand, WIDE_WORKERS, size.load.payload_bytes, size.duration)?;
            let pair = |broker, anchor| Pair { broker, anchor };
            Ok(vec![
                pair(wide, narrow),
                pair(wide, 50_000.0),
                pair(single, pgbench.tps / 2.0),
                pair(single, 5_000.0),
            ])
        },
    }
}

/// Messages a second that are taken from queues of [`WIDE`] messages, each new and with so many
/// partitions.
fn wide_taken(
    stand: &Stand,
    size: &Size,
    partitions: usize,
    partitions_a_pop: u32,
) -> Result<f64, LoadError> {
    with_queues(stand, size, WIDE_TIMES, |queues| {
        let mut rates = Vec::new();
        for queue in queues {
            fill_wide(stand, size, queue, partitions)?;
            let taking = Taking {
                queue,
                batch: BATCH as u32,
                partitions: partitions_a_pop,
            };
            let each = BATCH.min(WIDE / partitions * partitions_a_pop as usize);
            rates.push(take_some(stand, size, WIDE_WORKERS, taking, WIDE / each)?);
        }
        Ok(median(rates))
    })
}
