//! What is measured: each scene is played once a round, broker and anchor one after the other, and
//! gives the figures of one or more lines of the table.

use std::cell::OnceCell;
use std::time::Duration;

use clap::ValueEnum;
use queen_loadtest::goal::Goal;
use queen_loadtest::load::{Load, run_name};
use queen_loadtest::pace::Extent;
use queen_loadtest::{LoadError, control};

use crate::anchor;
use crate::stand::{Plan, Stand};
use crate::wire;
use crate::work::{Pushing, Spread, Taking, push, take};
use crate::{alone, beside};

/// Clients that push one message at a time, and sessions of `pgbench`.
pub(crate) const SINGLE_CLIENTS: usize = 64;

/// Clients that push by the hundred, and workers that take by the hundred.
pub(crate) const BULK_CLIENTS: usize = 8;

/// Messages of a request, and of a pop.
pub(crate) const BATCH: usize = anchor::ROWS;

/// The part of what is stored that is taken while it is measured: until then every worker has enough.
const TAKEN: f64 = 0.9;

/// The names of the scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SceneName {
    PushSingle,
    Bulk,
    Parked,
    Wide,
    Stored,
    Retention,
    Ephemeral,
}

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// Payload, warm-up and when to break off.
    pub(crate) load: Load,
    /// One measurement.
    pub(crate) duration: Duration,
    /// Messages that a filled database stores.
    pub(crate) stored: u64,
    /// Messages that retention has to remove.
    pub(crate) retained: u64,
    /// Partitions of a queue that has many.
    pub(crate) wide: usize,
    /// How often many partitions are filled and taken from in one round.
    pub(crate) wide_times: usize,
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
    pub(crate) play: fn(&Stands, &Size) -> Result<Vec<Pair>, LoadError>,
}

impl Pair {
    pub(crate) fn new(broker: f64, anchor: f64) -> Pair {
        Pair { broker, anchor }
    }
}

impl Line {
    pub(crate) fn new(work: &'static str, unit: &'static str, beside: &'static str) -> Line {
        Line {
            work,
            unit,
            beside,
            goal: None,
            floor: None,
            pairs: Vec::new(),
        }
    }

    pub(crate) fn goal(mut self, goal: Goal) -> Line {
        self.goal = Some(goal);
        self
    }

    pub(crate) fn floor(mut self, floor: Goal) -> Line {
        self.floor = Some(floor);
        self
    }
}

/// All scenes, in the order of the table.
pub(crate) fn scenes() -> Vec<Scene> {
    vec![
        alone::push_single(),
        alone::bulk(),
        alone::parked(),
        alone::wide(),
        beside::stored(),
        beside::retention(),
        beside::ephemeral(),
    ]
}

/// What there is to be measured.
#[derive(Debug)]
pub(crate) struct Stands {
    /// Stores nothing between two scenes.
    pub(crate) empty: Stand,
    /// Stores much; made when it is first asked for, and held while it is not measured.
    pub(crate) filled: OnceCell<Stand>,
    /// How it is made.
    pub(crate) plan: Plan,
}

impl Size {
    /// A closed loop for the usual time.
    pub(crate) fn closed(&self, stand: &Stand, connections: usize) -> Load {
        Load {
            address: stand.server.address,
            connections,
            extent: Extent::Time(self.duration),
            ..self.load.clone()
        }
    }
}

/// Declares queues, does something with them and removes them with all that is in them.
pub(crate) fn with_queues<T>(
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

pub(crate) fn with_queue<T>(
    stand: &Stand,
    size: &Size,
    work: impl FnOnce(&str) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    with_queues(stand, size, 1, |queues| work(&queues[0]))
}

/// One message to each of many partitions.
pub(crate) fn fill_wide(
    stand: &Stand,
    size: &Size,
    queue: &str,
    partitions: usize,
) -> Result<(), LoadError> {
    let load = Load {
        extent: Extent::Units((size.wide / BATCH) as u64),
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
pub(crate) fn take_some(
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
