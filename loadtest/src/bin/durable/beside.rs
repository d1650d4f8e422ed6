//! The broker with something beside its work: much that is stored, retention, the other class.

use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use queen_loadtest::goal::Goal;
use queen_loadtest::load::Load;
use queen_loadtest::pace::Extent;
use queen_loadtest::report::Report;
use queen_loadtest::scenario::{self, Settle};
use queen_loadtest::{LoadError, control, pin};

use crate::rows::{
    BATCH, BULK_CLIENTS, Line, Pair, SINGLE_CLIENTS, Scene, SceneName, Size, Stands, take_some,
    with_queue,
};
use crate::stand::{Stand, of_database};
use crate::wire;
use crate::work::{Pushing, Spread, Taking, push};

/// The queue of the filled stand.
const STORED_QUEUE: &str = "stored";

/// Connections of the ephemeral class.
const EPHEMERAL_CLIENTS: usize = 16;

/// Cores below which the two classes and their generators are in each other's way whatever the broker
/// does.
const CPUS_MIN: usize = 4;

/// Rows that one step of retention may remove.
const STEP_ROWS_MAX: f64 = 1_000.0;

/// How long retention may take to begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);

/// Time between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

/// What a queue must say for its messages to be removed although nobody has taken them.
const REMOVED_AT_ONCE: &str = r#"{"maxWaitTimeSeconds":1,"dedupWindowSeconds":1}"#;

/// Notes how many rows each transaction removes from the segments.
const NOTE_REMOVED: &str = "
CREATE TABLE public.removed (transaction bigint NOT NULL, rows bigint NOT NULL);
CREATE FUNCTION public.note_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.removed SELECT txid_current(), count(*) FROM gone;
  RETURN NULL;
END $$;
CREATE TRIGGER bench_note_removed AFTER DELETE ON queen.durable_segment
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.note_removed();";

const NOTE_NO_MORE: &str = "
DROP TRIGGER IF EXISTS bench_note_removed ON queen.durable_segment;
DROP FUNCTION IF EXISTS public.note_removed;
DROP TABLE IF EXISTS public.removed;";

pub(crate) fn stored() -> Scene {
    let line = |work| Line::new(work, "messages/s", "an empty database").floor(Goal::AtLeast(0.8));
    Scene {
        name: SceneName::Stored,
        lines: vec![
            line("push of 1 message, 64 clients, 64 partitions, in the filled database")
                .goal(Goal::AtLeast(0.85)),
            line("push in requests of 100, 8 clients, there").goal(Goal::AtLeast(0.85)),
            line("pop 100 + ack, 8 workers, there").goal(Goal::AtLeast(0.9)),
        ],
        play: |stands, size| {
            let filled = match stands.filled.get() {
                Some(filled) => filled,
                None => {
                    let made = fill(stands, size)?;
                    stands.filled.get_or_init(|| made)
                }
            };
            let empty = with_queue(&stands.empty, size, |queue| {
                work(&stands.empty, size, queue)
            })?;
            stands.empty.server.hold()?;
            filled.server.release()?;
            let full = work(filled, size, STORED_QUEUE)?;
            filled.server.hold()?;
            stands.empty.server.release()?;
            let pairs = full.into_iter().zip(empty);
            Ok(pairs
                .map(|(broker, anchor)| Pair::new(broker, anchor))
                .collect())
        },
    }
}

/// A stand with many messages, held.
fn fill(stands: &Stands, size: &Size) -> Result<Stand, LoadError> {
    let stand = stands.plan.make("filled")?;
    eprintln!("storing {} messages", size.stored);
    let load = Load {
        extent: Extent::Units(size.stored / BATCH as u64),
        warmup: Duration::ZERO,
        ..size.closed(&stand, BULK_CLIENTS)
    };
    push(&load, pushing(STORED_QUEUE, BATCH))?;
    stand.rest()?;
    stand.server.hold()?;
    Ok(stand)
}

/// To as many partitions as there are clients at most, so that the backlog is in all of them.
fn pushing(queue: &str, batch: usize) -> Pushing<'_> {
    Pushing {
        queue,
        batch,
        partitions: SINGLE_CLIENTS,
        spread: Spread::Whole,
    }
}

/// Messages a second: pushed one by one, pushed by the hundred, taken by the hundred.
fn work(stand: &Stand, size: &Size, queue: &str) -> Result<[f64; 3], LoadError> {
    let single = push(&size.closed(stand, SINGLE_CLIENTS), pushing(queue, 1))?;
    let bulk = push(&size.closed(stand, BULK_CLIENTS), pushing(queue, BATCH))?;
    let taking = Taking {
        queue,
        batch: BATCH as u32,
        partitions: 1,
    };
    let pops = bulk.finished as usize;
    Ok([
        single.finished_per_s(),
        bulk.finished_per_s() * BATCH as f64,
        take_some(stand, size, BULK_CLIENTS, taking, pops)?,
    ])
}

pub(crate) fn retention() -> Scene {
    Scene {
        name: SceneName::Retention,
        lines: vec![
            Line::new(
                "rows of the largest step of retention",
                "rows",
                "the most allowed",
            )
            .goal(Goal::AtMost(1.0)),
            Line::new(
                "push of 1 message, 64 clients, while retention removes",
                "messages/s",
                "without",
            )
            .goal(Goal::AtLeast(0.75)),
            Line::new("its p99.9", "us", "without").goal(Goal::AtMost(2.0)),
        ],
        play: |stands, size| {
            let stand = &stands.empty;
            with_queue(stand, size, |old| {
                let load = Load {
                    extent: Extent::Units(size.retained / BATCH as u64),
                    warmup: Duration::ZERO,
                    ..size.closed(stand, BULK_CLIENTS)
                };
                let scattered = Pushing {
                    queue: old,
                    batch: BATCH,
                    partitions: size.wide,
                    spread: Spread::Scattered,
                };
                push(&load, scattered)?;
                let single =
                    |queue: &str| push(&size.closed(stand, SINGLE_CLIENTS), pushing(queue, 1));
                let without = with_queue(stand, size, single)?;
                let mut session = stand.session()?;
                session.batch_execute(NOTE_REMOVED).map_err(of_database)?;
                let address = stand.server.address;
                control::request(address, &wire::configure(old, REMOVED_AT_ONCE))?;
                let begun = wait_for_removal(&mut session, size);
                let with = begun.and_then(|()| single(&format!("{old}-new")));
                let step = largest_step(&mut session);
                session.batch_execute(NOTE_NO_MORE).map_err(of_database)?;
                control::request(address, &wire::delete(&format!("{old}-new")))?;
                Ok(pairs_of(step?, &with?, &without))
            })
        },
    }
}

fn pairs_of(step: f64, with: &Report, without: &Report) -> Vec<Pair> {
    vec![
        Pair::new(step, STEP_ROWS_MAX),
        Pair::new(with.finished_per_s(), without.finished_per_s()),
        Pair::new(with.latency_us(99.9), without.latency_us(99.9)),
    ]
}

fn wait_for_removal(session: &mut Client, size: &Size) -> Result<(), LoadError> {
    let deadline = Instant::now() + BEGIN_LIMIT;
    while largest_step(session)? == 0.0 {
        if Instant::now() > deadline {
            return Err(LoadError::text("retention removes nothing"));
        }
        size.load.interrupt.wait_until(Instant::now() + LOOK)?;
    }
    Ok(())
}

/// The most rows that one transaction has removed; 0: none has.
fn largest_step(session: &mut Client) -> Result<f64, LoadError> {
    let text = "SELECT coalesce(max(step.rows), 0)::float8 FROM (
        SELECT sum(rows) AS rows FROM public.removed GROUP BY transaction) AS step";
    Ok(session.query_one(text, &[]).map_err(of_database)?.get(0))
}

pub(crate) fn ephemeral() -> Scene {
    let mut lines = [
        Line::new(
            "ephemeral push and pop, 16 clients, while durable pushes run at full load",
            "cycles/s",
            "without",
        ),
        Line::new("its p99", "us", "without"),
    ];
    if pin::usable_cpus().len() >= CPUS_MIN {
        let goals = [Goal::AtLeast(0.8), Goal::AtMost(2.0)];
        lines = [
            lines[0].clone().goal(goals[0]),
            lines[1].clone().goal(goals[1]),
        ];
    }
    Scene {
        name: SceneName::Ephemeral,
        lines: lines.into(),
        play: |stands, size| {
            let stand = &stands.empty;
            let cycles = || {
                let load = size.closed(stand, EPHEMERAL_CLIENTS);
                scenario::cycle(&load, Settle::AutoAck)?.clean()
            };
            let without = cycles()?;
            let with = with_queue(stand, size, |queue| {
                let load = Load {
                    // Longer than the cycles take, from before their beginning.
                    extent: Extent::Time(size.duration + size.load.warmup),
                    warmup: Duration::ZERO,
                    ..size.closed(stand, SINGLE_CLIENTS)
                };
                thread::scope(|scope| {
                    let pushes = scope.spawn(|| push(&load, pushing(queue, 1)));
                    let with = cycles();
                    let pushed = pushes.join();
                    pushed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                    with
                })
            })?;
            Ok(vec![
                Pair::new(with.finished_per_s(), without.finished_per_s()),
                Pair::new(with.latency_us(99.0), without.latency_us(99.0)),
            ])
        },
    }
}
