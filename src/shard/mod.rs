//! The owner of rings. One per shard core; everything that changes a ring goes through
//! [`Shard::apply`] and its siblings, which are synchronous and pure: a command and a time go in,
//! [`Effect`]s come out. No I/O, no clock, no randomness, no channels, no HTTP.
//!
//! The files by noun: `slots`, `group` and `dropped` make up a `ring`; `queue` is what a shard knows of one
//! queue; `waiters`, `timers` and `linger` span all queues. The files by verb: `push` (with `room`),
//! `pop` (with `park`), `settle`, `admin`, `due`.

mod admin;
mod dropped;
mod due;
mod group;
mod linger;
mod park;
mod pop;
mod push;
mod queue;
mod ring;
mod room;
mod settle;
mod slots;
mod table;
mod timers;
mod waiters;

use std::sync::Arc;

use hashbrown::HashMap;
use slab::Slab;

use self::linger::Linger;
use self::queue::LocalQueue;
use self::ring::{Changes, Ring};
use self::timers::Timers;
use self::waiters::Waiters;
use crate::directory::{Directory, TenantCell};
use crate::limits;
use crate::model::{ClientRef, Command, DropCounts, Incarnation, Moment, Refusal, Reply, TenantId};

/// What a shard is made with.
#[derive(Clone, Copy, Debug)]
pub struct ShardSettings {
    /// The process, as it stands in message ids.
    pub incarnation: Incarnation,
    /// How many shards share the cap of lingering messages.
    pub shards: u16,
    /// Messages are expired on multiples of this many milliseconds.
    pub ttl_tick_ms: u64,
    /// Milliseconds after which the lingering messages of an idle ring go; 0: nothing lingers.
    pub linger_ms: u64,
    /// Milliseconds after which an idle implicit queue is collected; 0: never.
    pub implicit_idle_ms: u64,
}

/// Something the loop has to do.
#[derive(Debug)]
pub enum Effect {
    /// Answer a client. If the answer cannot be delivered, [`Shard::give_back`] what it took.
    Answer {
        /// Who is answered.
        client: ClientRef,
        /// The answer.
        reply: Reply,
    },
}

/// Totals since the shard was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages stored.
    pub pushed: u64,
    /// Messages delivered.
    pub popped: u64,
    /// Messages acknowledged as completed.
    pub acked: u64,
    /// Messages dropped.
    pub dropped: DropCounts,
}

/// The rings of one core.
#[derive(Debug)]
pub struct Shard {
    settings: ShardSettings,
    directory: Arc<Directory>,
    tenants: HashMap<TenantId, Arc<TenantCell>>,
    queues: Slab<LocalQueue>,
    names: HashMap<table::QueueName, u32>,
    rings: Slab<Ring>,
    ring_serial: u32,
    /// Cursors of all rings, one for each group in each.
    cursors: usize,
    waiters: Waiters,
    timers: Timers,
    linger: Linger,
    /// A new ring's numbers start above it, so that no id ever comes back.
    highest_sequence: u64,
    /// Push instants never repeat, so that the oldest message of a queue is one message.
    last_push: Moment,
    statistics: Statistics,
    /// Reused between operations.
    changes: Changes,
}

impl Shard {
    /// An empty shard.
    pub fn new(settings: ShardSettings, directory: Arc<Directory>) -> Shard {
        assert!(settings.shards > 0 && settings.ttl_tick_ms > 0);
        let cap_bytes =
            directory.bounds().broker_bytes / limits::LINGER_SHARE / u64::from(settings.shards);
        Shard {
            settings,
            directory,
            tenants: HashMap::new(),
            queues: Slab::new(),
            names: HashMap::new(),
            rings: Slab::new(),
            ring_serial: 0,
            cursors: 0,
            waiters: Waiters::default(),
            timers: Timers::default(),
            linger: Linger::new(cap_bytes),
            highest_sequence: 0,
            last_push: Moment::ZERO,
            statistics: Statistics::default(),
            changes: Changes::default(),
        }
    }

    /// Serves one command. Its answer is among the effects, unless it parked; answers to others
    /// may be among them too. A push's payloads are taken out of the command.
    pub fn apply(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        command: &mut Command<'_>,
        effects: &mut Vec<Effect>,
    ) {
        self.run_due(now, effects);
        let answered = match command {
            Command::Push(push) => self.push(now, tenant, push, effects).map(Some),
            Command::Pop(pop) => self.pop(now, client, tenant, pop, effects),
            Command::Ack(ack) => self.ack(now, tenant, ack, effects).map(Some),
            Command::Configure(configure) => {
                self.configure(now, tenant, configure, effects).map(Some)
            }
            Command::Reset(queue) => Ok(Some(self.reset(now, tenant, queue.as_str()))),
            Command::Delete(queue) => self.delete(now, tenant, queue.as_str(), effects).map(Some),
            Command::Queues(list) => Ok(Some(self.list(tenant, list))),
            Command::Depth { queue, group } => {
                let group = group.as_ref().map(|group| group.as_str());
                self.depth(now, tenant, queue.as_str(), group, effects)
                    .map(Some)
            }
        };
        match answered {
            Ok(None) => {}
            Ok(Some(reply)) => effects.push(Effect::Answer { client, reply }),
            Err(refusal) => {
                effects.push(Effect::Answer {
                    client,
                    reply: Reply::Refused(refusal),
                });
            }
        }
    }

    /// When [`Shard::run_due`] has something to do.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// Totals since the shard was made.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Pops that are parked now.
    pub fn parked(&self) -> usize {
        self.waiters.len()
    }

    /// The tenant's cell, remembered once it was asked for.
    fn tenant(&mut self, tenant: TenantId) -> Result<Arc<TenantCell>, Refusal> {
        if let Some(cell) = self.tenants.get(&tenant) {
            return Ok(Arc::clone(cell));
        }
        let cell = self.directory.tenant(tenant)?;
        self.tenants.insert(tenant, Arc::clone(&cell));
        Ok(cell)
    }

    /// Charges a push to its tenant's rate. Called on the core of the connection, before placement.
    pub fn charge(&mut self, now: Moment, tenant: TenantId, messages: u64) -> Result<(), Refusal> {
        self.tenant(tenant)?.charge(messages, now)
    }

    /// What must hold between turns, by looking at everything. For the simulation.
    pub fn check(&self) {
        let mut lingering = slots::LingerTotal::default();
        for (_, ring) in &self.rings {
            ring.check();
            lingering.messages += ring.lingering().messages;
            lingering.bytes += ring.lingering().bytes;
            let queue = &self.queues[ring.queue as usize];
            assert!(ring.groups.len() <= queue.groups.len());
            assert!(
                ring.armed.is_some(),
                "a ring without a timer is never looked at again"
            );
            for (number, group) in ring.groups.iter().enumerate() {
                let available = ring.has_available(number as u32);
                assert!(
                    !available || group.ready,
                    "an available ring that is not ready"
                );
            }
        }
        assert_eq!(lingering, self.linger.total());
        let cursors: usize = self.rings.iter().map(|(_, ring)| ring.groups.len()).sum();
        assert_eq!(cursors, self.cursors);
        for (key, queue) in &self.queues {
            let rings = || {
                queue
                    .partitions
                    .values()
                    .map(|&ring| &self.rings[ring as usize])
            };
            assert!(rings().all(|ring| ring.queue as usize == key));
            assert!(!queue.cell.is_dead(), "a dead cell stays in the cache");
            if self.settings.shards == 1 {
                let length: u64 = rings().map(|ring| ring.slots.live()).sum();
                let bytes: u64 = rings().map(|ring| ring.slots.live_bytes()).sum();
                assert_eq!((length, bytes), (queue.cell.length(), queue.cell.bytes()));
            }
        }
        let mut timers = self.rings.len();
        timers += self
            .queues
            .iter()
            .filter(|(_, queue)| queue.armed.is_some())
            .count();
        for number in self.waiters.numbers() {
            self.check_waiter(number);
            let waiter = self.waiters.get(number).expect("it is parked");
            timers += 1 + usize::from(waiter.window_closes.is_some());
        }
        assert_eq!(timers, self.timers.len(), "a timer of nothing");
    }
}
