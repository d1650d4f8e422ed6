//! Counters of one core and their sum.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::process::thread_cpu_time;
use crate::limits;
use crate::model::DropCounts;

/// Cores that can be told apart.
const CORES_MAX: usize = limits::CORES_MAX as usize;

/// A number that one core writes and anybody reads: no locked instruction on the data path.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// Adds `count`. Only the core that owns the figure may call this.
    pub fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// The figure is `value`. Only the core that owns the figure may call this.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one core has done. On cache lines of its own, so that cores do not disturb each other.
#[derive(Debug)]
#[repr(align(128))]
pub struct CoreCounters {
    /// Which core it is, of how many.
    core: usize,
    cores: usize,
    /// Requests read, whatever their answer.
    pub requests: Figure,
    /// Requests refused with a 4xx or 5xx status.
    pub refused: Figure,
    /// Connections accepted.
    pub accepted: Figure,
    /// Connections open.
    pub connections: Figure,
    /// Pops parked.
    pub parked: Figure,
    /// Messages stored.
    pub pushed: Figure,
    /// Messages delivered, redeliveries included.
    pub popped: Figure,
    /// Acks with the verdict completed that found their lease.
    pub acked: Figure,
    /// Messages dropped to make room.
    pub dropped_bounds: Figure,
    /// Messages dropped at their TTL.
    pub dropped_ttl: Figure,
    /// Messages dropped at their retry limit, once per group.
    pub dropped_retry: Figure,
    /// Turns of the core's loop.
    pub turns: Figure,
    /// The thread that the core runs on, as the kernel numbers it; 0: none yet.
    thread: AtomicU64,
    /// Frames sent to other cores: hops.
    pub frames_sent: Figure,
    /// Frames for other cores that wait at this one for room in a lane.
    pub lane_overflow: Figure,
    /// Frames sent to each core and taken from each. Inline, so that the writes of two cores never
    /// meet on one cache line.
    sent_to: [Figure; CORES_MAX],
    taken_from: [Figure; CORES_MAX],
}

impl CoreCounters {
    fn new(core: usize, cores: usize) -> CoreCounters {
        assert!(core < cores);
        CoreCounters {
            core,
            cores,
            requests: Figure::default(),
            refused: Figure::default(),
            accepted: Figure::default(),
            connections: Figure::default(),
            parked: Figure::default(),
            pushed: Figure::default(),
            popped: Figure::default(),
            acked: Figure::default(),
            dropped_bounds: Figure::default(),
            dropped_ttl: Figure::default(),
            dropped_retry: Figure::default(),
            turns: Figure::default(),
            thread: AtomicU64::new(0),
            frames_sent: Figure::default(),
            lane_overflow: Figure::default(),
            sent_to: std::array::from_fn(|_| Figure::default()),
            taken_from: std::array::from_fn(|_| Figure::default()),
        }
    }

    /// The core runs on the calling thread.
    pub fn run_on_this_thread(&self) {
        let thread = rustix::thread::gettid().as_raw_pid();
        self.thread.store(thread as u64, Ordering::Relaxed);
    }

    /// Time that the core's thread was on a CPU: all that it did not sleep or wait for one.
    pub(super) fn busy(&self) -> Duration {
        match self.thread.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            thread => thread_cpu_time(thread),
        }
    }

    /// Frames that this core has sent to another one, requests and answers together.
    pub fn sent_to(&self, to: usize) -> &Figure {
        self.check_other(to);
        &self.sent_to[to]
    }

    /// Frames that this core has taken from the lanes of another one.
    pub fn taken_from(&self, from: usize) -> &Figure {
        self.check_other(from);
        &self.taken_from[from]
    }

    fn check_other(&self, other: usize) {
        assert!(other < self.cores, "core {other} of {}", self.cores);
        assert_ne!(other, self.core, "a core has no lane to itself");
    }
}

/// Frames that `from` has sent to `to`, which has not taken them. Each end counts for itself, so that
/// a core which stands still shows what gathers.
pub(super) fn queued(from: &CoreCounters, to: &CoreCounters) -> u64 {
    // In this order: what is taken meanwhile was sent before.
    let taken = to.taken_from(from.core).get();
    from.sent_to(to.core).get().saturating_sub(taken)
}

/// The sum over all cores at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests read.
    pub requests: u64,
    /// Requests refused with a 4xx or 5xx status.
    pub refused: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open.
    pub connections: u64,
    /// Pops parked.
    pub parked: u64,
    /// Messages stored.
    pub pushed: u64,
    /// Messages delivered.
    pub popped: u64,
    /// Completed acks.
    pub acked: u64,
    /// Messages dropped.
    pub dropped: DropCounts,
}

/// All cores' counters and the start of the process.
#[derive(Clone, Debug)]
pub struct Observed {
    cores: Vec<Arc<CoreCounters>>,
    started: Instant,
}

impl Observed {
    /// Counters for `cores` cores, at least 1 and at most [`CORES_MAX`](limits::CORES_MAX); the
    /// uptime counts from now.
    pub fn new(cores: usize) -> Observed {
        assert!(cores > 0, "a broker has at least one core");
        assert!(cores <= CORES_MAX, "{cores} cores");
        let counters = |core| Arc::new(CoreCounters::new(core, cores));
        Observed {
            cores: (0..cores).map(counters).collect(),
            started: Instant::now(),
        }
    }

    /// The counters of one core.
    pub fn core(&self, core: usize) -> &Arc<CoreCounters> {
        &self.cores[core]
    }

    /// The counters of all cores, in the order of their numbers.
    pub fn cores(&self) -> &[Arc<CoreCounters>] {
        &self.cores
    }

    /// Time since the process started.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The sum over all cores.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for core in &self.cores {
            totals.requests += core.requests.get();
            totals.refused += core.refused.get();
            totals.accepted += core.accepted.get();
            totals.connections += core.connections.get();
            totals.parked += core.parked.get();
            totals.pushed += core.pushed.get();
            totals.popped += core.popped.get();
            totals.acked += core.acked.get();
            totals.dropped.bounds += core.dropped_bounds.get();
            totals.dropped.ttl += core.dropped_ttl.get();
            totals.dropped.retry += core.dropped_retry.get();
        }
        totals
    }

    /// Requests per second since the start.
    pub fn request_rate(&self) -> f64 {
        let seconds = self.uptime().as_secs_f64();
        if seconds > 0.0 {
            self.totals().requests as f64 / seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_summed_over_cores() {
        let observed = Observed::new(2);
        observed.core(0).pushed.add(3);
        observed.core(1).pushed.add(4);
        observed.core(0).connections.set(5);
        observed.core(0).connections.set(1);
        observed.core(1).dropped_retry.add(3);
        let totals = observed.totals();
        assert_eq!(totals.pushed, 7);
        assert_eq!(totals.connections, 1);
        assert_eq!(totals.dropped.retry, 3);
    }

    #[test]
    fn what_was_sent_and_not_taken_is_queued() {
        let observed = Observed::new(3);
        let (sender, receiver) = (observed.core(0), observed.core(2));
        sender.sent_to(2).set(7);
        assert_eq!(queued(sender, receiver), 7);
        receiver.taken_from(0).set(5);
        assert_eq!(queued(sender, receiver), 2);
        assert_eq!(queued(receiver, sender), 0);
    }

    #[test]
    fn a_core_is_busy_while_its_thread_works() {
        let observed = Observed::new(2);
        assert_eq!(observed.core(0).busy(), Duration::ZERO);
        observed.core(0).run_on_this_thread();
        let before = observed.core(0).busy();
        let deadline = Instant::now() + Duration::from_secs(10);
        while observed.core(0).busy() == before {
            assert!(Instant::now() < deadline, "busy for nothing");
        }
        assert_eq!(observed.core(1).busy(), Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "no lane to itself")]
    fn a_core_has_no_lane_to_itself() {
        Observed::new(2).core(1).sent_to(1);
    }
}
