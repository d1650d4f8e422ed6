//! Several broker cores on one thread: their lanes, who sleeps, who stalls, and a fake clock.

use std::sync::Arc;

use queen::channel::{Frame, mesh};
use queen::core_loop::ShardCore;
use queen::directory::{Bounds, Directory};
use queen::model::{Incarnation, Moment};
use queen::shard::{Shard, ShardSettings};

/// What the cores of one run are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeshRules {
    pub(crate) cores: u16,
    pub(crate) request_slots: usize,
    pub(crate) reply_slots: usize,
    /// Whether a core that has nothing to do receives nothing until it is rung.
    pub(crate) sleeps: bool,
    /// Cores read their clocks before they act: the first one this much, others multiples of it.
    pub(crate) lag_us: u64,
    pub(crate) incarnation: u64,
    pub(crate) broker_bytes: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) queue_length: u64,
    pub(crate) lease_ms: u64,
    pub(crate) retry_limit: u32,
    pub(crate) ttl_tick_ms: u64,
    pub(crate) linger_ms: u64,
    pub(crate) idle_ms: u64,
}

/// The cores and their clock.
#[derive(Debug)]
pub(crate) struct Mesh {
    pub(crate) rules: MeshRules,
    pub(crate) now: Moment,
    pub(crate) cores: Vec<ShardCore>,
    pub(crate) directory: Arc<Directory>,
    /// By core: nothing is received until somebody rings.
    asleep: Vec<bool>,
    /// By core: it has no turn before.
    stalled_until: Vec<Moment>,
    /// Doorbells rung.
    pub(crate) rings: u64,
}

impl Mesh {
    pub(crate) fn new(rules: MeshRules) -> Mesh {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: rules.broker_bytes,
            queue_bytes: rules.queue_bytes,
            queue_length: rules.queue_length,
            lease_ms: rules.lease_ms,
            retry_limit: rules.retry_limit,
            rate: None,
            require_grant: false,
            tenants: 10,
            shards: rules.cores,
        }));
        let ports = mesh(rules.cores, rules.request_slots, rules.reply_slots);
        let core = |port: queen::channel::Port| {
            let settings = ShardSettings {
                incarnation: Incarnation(rules.incarnation),
                shard: port.core(),
                shards: rules.cores,
                ttl_tick_ms: rules.ttl_tick_ms,
                linger_ms: rules.linger_ms,
                implicit_idle_ms: rules.idle_ms,
            };
            let shard = Shard::new(settings, Arc::clone(&directory));
            ShardCore::new(port, shard, Arc::clone(&directory))
        };
        let cores: Vec<ShardCore> = ports.into_iter().map(core).collect();
        Mesh {
            rules,
            // Later than any lag.
            now: Moment::from_us(10_000),
            asleep: vec![false; cores.len()],
            stalled_until: vec![Moment::ZERO; cores.len()],
            cores,
            directory,
            rings: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.cores.len()
    }

    fn lag_us(&self, core: usize) -> u64 {
        [1, 3, 0, 2][core % 4] * self.rules.lag_us
    }

    /// What the clock of a core shows.
    pub(crate) fn now_of(&self, core: usize) -> Moment {
        Moment::from_us(self.now.as_us().saturating_sub(self.lag_us(core)))
    }

    /// The core has no turn for so long.
    pub(crate) fn stall(&mut self, core: usize, ms: u64) {
        self.stalled_until[core] = self.now.after_ms(ms);
    }

    pub(crate) fn end_stalls(&mut self) {
        self.stalled_until.fill(Moment::ZERO);
    }

    pub(crate) fn is_stalled(&self, core: usize) -> bool {
        self.stalled_until[core] > self.now
    }

    pub(crate) fn is_asleep(&self, core: usize) -> bool {
        self.asleep[core]
    }

    /// The next frame from `from`, if the core is awake.
    pub(crate) fn take_frame(&mut self, core: usize, from: usize) -> Option<Frame> {
        if self.asleep[core] || self.is_stalled(core) || core == from {
            return None;
        }
        self.cores[core].port_mut().receive_from(from as u16)
    }

    /// Ends the turn of a core and wakes whom it rings.
    pub(crate) fn end_turn(&mut self, core: usize) {
        let rung = self.cores[core].end_turn();
        for other in (0..self.len()).filter(|other| rung & (1 << other) != 0) {
            self.rings += 1;
            self.asleep[other] = false;
            self.cores[other].wake();
        }
    }

    /// Lets the core sleep if it may; whether it does.
    pub(crate) fn try_sleep(&mut self, core: usize) -> bool {
        if self.rules.sleeps && !self.asleep[core] {
            self.asleep[core] = self.cores[core].try_sleep();
        }
        self.asleep[core]
    }

    /// Frames on their way, and those that wait for room.
    pub(crate) fn on_their_way(&self) -> usize {
        let mut count = 0;
        for core in &self.cores {
            count += core.port().waiting();
            for from in 0..self.len() as u16 {
                count += core.port().queued(from);
            }
        }
        count
    }

    /// The core that has something due first by `until`, stalled ones aside.
    pub(crate) fn next_due(&self, until: Moment) -> Option<(usize, Moment)> {
        let due = |core: usize| {
            let next = self.cores[core].next_deadline()?.as_us();
            let next = Moment::from_us(next.saturating_add(self.lag_us(core)));
            (next <= until && !self.is_stalled(core)).then_some((core, next))
        };
        (0..self.len()).filter_map(due).min_by_key(|&(_, at)| at)
    }
}
