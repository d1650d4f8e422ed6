//! One round: cycles at a fixed rate while the second client asks and, if it is a round with a
//! fault, the database is under it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::load::Load;
use queen_loadtest::pace::Extent;
use queen_loadtest::report::Report;
use queen_loadtest::scenario::{self, Settle};
use queen_loadtest::{LoadError, control};

use crate::asker::{Asked, ask};
use crate::database::{Database, stand_back};
use crate::fault::Fault;

/// Time between two looks at the broker's health.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long the broker may take to heal once the fault is over.
const HEAL_LIMIT: Duration = Duration::from_secs(30);

/// A queue that is declared to see that declaring works again.
const HEALED_QUEUE: &str = "faults-healed";

/// How a round goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Before it is measured.
    pub(crate) warmup: Duration,
    /// From the beginning of the fault to its end.
    pub(crate) fault: Duration,
    /// Measured after its end.
    pub(crate) tail: Duration,
}

/// What a round measured.
#[derive(Debug)]
pub(crate) struct Round {
    /// The cycles.
    pub(crate) cycles: Report,
    /// The second client's requests.
    pub(crate) asked: Asked,
    /// What was seen of the fault.
    pub(crate) seen: Seen,
}

/// What the broker's health said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The part of the fault in which it was not healthy, 0 to 1.
    pub(crate) unhealthy: f64,
    /// Time from the end of the fault until it was healthy and declared a queue; `None`: it did not
    /// come to that.
    pub(crate) healed_after: Option<Duration>,
}

/// What the rounds are played with.
pub(crate) struct Stage<'a> {
    pub(crate) database: &'a mut Database,
    /// CPU of the server and of what starts it.
    pub(crate) database_cpu: usize,
    pub(crate) load: &'a Load,
    /// Where the cycles go.
    pub(crate) queues: &'a [String],
    pub(crate) times: Times,
    pub(crate) interrupt: &'a Interrupt,
}

impl Stage<'_> {
    /// Plays one round, with a fault or without.
    pub(crate) fn round(&mut self, fault: Option<Fault>) -> Result<Round, LoadError> {
        let over = AtomicBool::new(false);
        let (address, interrupt) = (self.load.address, self.interrupt);
        let load = Load {
            warmup: self.times.warmup,
            extent: Extent::Time(self.times.fault + self.times.tail),
            ..self.load.clone()
        };
        let queues = self.queues;
        let (cycles, seen, asked) = thread::scope(|scope| {
            let asker = scope.spawn(|| ask(address, &over, interrupt));
            let injector = scope.spawn(|| self.inject(fault, &over));
            let cycles = scenario::cycle_in(&load, queues, Settle::Ack);
            if cycles.is_err() {
                over.store(true, Ordering::Relaxed);
            }
            let seen = join(injector);
            over.store(true, Ordering::Relaxed);
            (cycles, seen, join(asker))
        });
        let cycles = cycles?;
        let round = Round {
            seen: seen?,
            asked: asked?,
            cycles: cycles.clean()?,
        };
        if fault.is_none() && round.asked.refused > 0 {
            return Err(LoadError::text(
                "configure or delete was refused although nothing was wrong",
            ));
        }
        Ok(round)
    }

    /// Looks on while there is no fault, or brings one about, keeps it up and ends it. Returns once the
    /// broker is well.
    fn inject(&mut self, fault: Option<Fault>, over: &AtomicBool) -> Result<Seen, LoadError> {
        stand_back(self.database_cpu)?;
        let begun = Instant::now() + self.times.warmup;
        self.interrupt.wait_until(begun)?;
        if let Some(fault) = fault {
            fault.begin(self.database)?;
        }
        let until = begun + self.times.fault;
        let (mut looks, mut unhealthy) = (0_u32, 0_u32);
        let mut turned = Instant::now();
        while Instant::now() < until && !over.load(Ordering::Relaxed) {
            if let Some(fault) = fault {
                fault.go_on(self.database, &mut turned)?;
            }
            looks += 1;
            unhealthy += u32::from(!control::is_healthy(self.load.address)?);
            self.interrupt.wait_until(Instant::now() + LOOK_EVERY)?;
        }
        if let Some(fault) = fault {
            fault.end(self.database)?;
        }
        Ok(Seen {
            unhealthy: f64::from(unhealthy) / f64::from(looks.max(1)),
            healed_after: self.wait_until_healed(over)?,
        })
    }

    fn wait_until_healed(&self, over: &AtomicBool) -> Result<Option<Duration>, LoadError> {
        let address = self.load.address;
        let begun = Instant::now();
        while begun.elapsed() < HEAL_LIMIT && !over.load(Ordering::Relaxed) {
            if control::is_healthy(address)?
                && control::configure(address, HEALED_QUEUE, "{}").is_ok()
            {
                return Ok(Some(begun.elapsed()));
            }
            self.interrupt.wait_until(Instant::now() + LOOK_EVERY)?;
        }
        Ok(None)
    }
}

/// A panic of the thread goes on here.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
