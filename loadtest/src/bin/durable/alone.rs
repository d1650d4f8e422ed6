//! The broker by itself, on a database that stores nothing else.

use queen_loadtest::LoadError;
use queen_loadtest::goal::Goal;
use queen_loadtest::load::Load;
use queen_loadtest::report::median;

use crate::anchor;
use crate::rows::{
    BATCH, BULK_CLIENTS, Line, Pair, SINGLE_CLIENTS, Scene, SceneName, Size, fill_wide, take_some,
    with_queue, with_queues,
};
use crate::stand::Stand;
use crate::work::{Pushing, Spread, Taking, delivery, push};

/// Connections that push to a parked pop: enough that no push waits for another.
const PUSHERS: usize = 4;

/// Messages a second that are pushed to a parked pop, and rows that `pgbench` inserts beside it.
const PARKED_RATE: f64 = 300.0;

/// Workers that take from many partitions, and sessions of the `pgbench` beside them.
const WIDE_WORKERS: usize = 4;

pub(crate) fn push_single() -> Scene {
    let work = "push of 1 message, 64 clients, 64 partitions";
    Scene {
        name: SceneName::PushSingle,
        lines: vec![
            Line::new(work, "messages/s", "`pgbench`, 64 clients, 1 row")
                .goal(Goal::AtLeast(2.5))
                .floor(Goal::AtLeast(2.0)),
            Line::new("its p99", "us", "mean of that `pgbench`").goal(Goal::AtMost(1.0)),
            Line::new(
                "the same over many partitions",
                "messages/s",
                "64 partitions",
            )
            .goal(Goal::AtLeast(0.8))
            .floor(Goal::AtLeast(0.7)),
        ],
        play: |stands, size| {
            let stand = &stands.empty;
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
                    if partitions == size.wide {
                        fill_wide(stand, size, queue, size.wide)?;
                    }
                    push(&size.closed(stand, SINGLE_CLIENTS), pushing)
                })
            };
            let (narrow, wide) = (pushed(SINGLE_CLIENTS)?, pushed(size.wide)?);
            Ok(vec![
                Pair::new(narrow.finished_per_s(), pgbench.tps),
                Pair::new(narrow.latency_us(99.0), pgbench.mean_ms * 1e3),
                Pair::new(wide.finished_per_s(), narrow.finished_per_s()),
            ])
        },
    }
}

pub(crate) fn bulk() -> Scene {
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
        play: |stands, size| {
            let stand = &stands.empty;
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
                Pair::new(pushed, rows_per_s),
                Pair::new(taken, pushed),
            ])
        },
    }
}

pub(crate) fn parked() -> Scene {
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
        play: |stands, size| {
            let stand = &stands.empty;
            let payload_bytes = size.load.payload_bytes;
            let row_us = anchor::paced(stand, payload_bytes, size.duration, PARKED_RATE)?;
            let delivered_us = with_queue(stand, size, |queue| {
                let load = Load {
                    rate_per_s: PARKED_RATE,
                    ..size.closed(stand, PUSHERS)
                };
                delivery(&load, queue)
            })?;
            Ok(vec![Pair::new(delivered_us, row_us)])
        },
    }
}

pub(crate) fn wide() -> Scene {
    Scene {
        name: SceneName::Wide,
        lines: vec![
            Line::new(
                "pop + ack of many partitions with one message each, `partitions=100&batch=100`, \
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
        play: |stands, size| {
            let stand = &stands.empty;
            let narrow = wide_taken(stand, size, BULK_CLIENTS, 100)?;
            let wide = wide_taken(stand, size, size.wide, 100)?;
            let single = wide_taken(stand, size, size.wide, 1)?;
            let pgbench =
                anchor::single(stand, WIDE_WORKERS, size.load.payload_bytes, size.duration)?;
            Ok(vec![
                Pair::new(wide, narrow),
                Pair::new(wide, 50_000.0),
                Pair::new(single, pgbench.tps / 2.0),
                Pair::new(single, 5_000.0),
            ])
        },
    }
}

/// Messages a second that are taken from queues that hold one for each of many partitions, each new and with so many
/// partitions.
fn wide_taken(
    stand: &Stand,
    size: &Size,
    partitions: usize,
    partitions_a_pop: u32,
) -> Result<f64, LoadError> {
    with_queues(stand, size, size.wide_times, |queues| {
        let mut rates = Vec::new();
        for queue in queues {
            fill_wide(stand, size, queue, partitions)?;
            let taking = Taking {
                queue,
                batch: BATCH as u32,
                partitions: partitions_a_pop,
            };
            let each = BATCH.min(size.wide / partitions * partitions_a_pop as usize);
            rates.push(take_some(
                stand,
                size,
                WIDE_WORKERS,
                taking,
                size.wide / each,
            )?);
        }
        Ok(median(rates))
    })
}
