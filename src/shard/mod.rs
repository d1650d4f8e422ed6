//! The owner of rings. One per shard core; everything that changes a ring goes through
//! [`Shard::apply`] and its siblings, which are synchronous and pure: a command and a time go in,
//! [`Effect`]s come out. No I/O, no clock, no randomness, no channels, no HTTP.
//!
//! The files by noun: `slots`, `group` and `dropped` make up a `ring`; `queue` is what a shard knows
//! of one queue, `rest` what is left of one that is idle; `names`, `waiters`, `timers` and `linger`
//! span all queues; a `chunked_slab` is the table of each. The files by verb: `push` (with `room` and
//! `held`), `pop` (with `park`), `settle`, `admin`, `due`. What concerns a queue that lies on several
//! shards: `pass` hands a pop from owner to owner, `gather` joins their parts of a command.

mod admin;
mod check;
mod chunked_slab;
mod dropped;
mod due;
mod gather;
mod group;
mod held;
mod linger;
mod names;
mod park;
mod partitions;
mod pass;
mod pop;
mod push;
mod queue;
mod rest;
mod ring;
mod room;
mod settle;
mod slots;
mod table;
mod timers;
mod waiters;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use self::chunked_slab::ChunkedSlab;
use self::gather::Gathers;
use self::held::Held;
use self::linger::Linger;
use self::names::Names;
use self::queue::LocalQueue;
use self::rest::Resting;
use self::ring::{Changes, Ring};
use self::timers::Timers;
use self::waiters::Waiters;
use crate::directory::{Directory, TenantCell};
use crate::limits;
use crate::model::{
    ClientRef, Command, DEFAULT_PARTITION, DropCounts, Incarnation, Moment, PeerMessage, Refusal,
    Reply, TenantId,
};

/// What a shard is made with.
#[derive(Clone, Copy, Debug)]
pub struct ShardSettings {
    /// The process, as it stands in message ids.
    pub incarnation: Incarnation,
    /// Which shard it is.
    pub shard: u16,
    /// How many there are.
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
    /// Tell another shard.
    Tell {
        /// Which one.
        shard: u16,
        /// What.
        message: PeerMessage,
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
    queues: ChunkedSlab<LocalQueue>,
    /// Queues that are idle: they stand in neither of the two tables around this one.
    resting: ChunkedSlab<Resting>,
    /// The shard whose turn it is next at queues at rest, where that is not the first, by generation
    /// and group.
    resting_turns: BTreeMap<(u64, u32), u16>,
    names: Names,
    rings: ChunkedSlab<Ring>,
    ring_serial: u32,
    /// The name of most rings.
    default_partition: Arc<str>,
    waiters: Waiters,
    timers: Timers,
    linger: Linger,
    held: Held,
    gathers: Gathers,
    /// Groups that have something for pops without partition at another shard, to be told at the end
    /// of the turn: (queue's key, its generation, group).
    ready: Vec<(u32, u64, u32)>,
    /// Queues whose windows are to be told at the end of the turn: (key, generation).
    changed: Vec<(u32, u64)>,
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
        assert!(settings.shard < settings.shards && settings.ttl_tick_ms > 0);
        assert_eq!(settings.shards, directory.bounds().shards);
        let cap_bytes =
            directory.bounds().broker_bytes / limits::LINGER_SHARE / u64::from(settings.shards);
        Shard {
            settings,
            directory,
            tenants: HashMap::new(),
            queues: ChunkedSlab::new(),
            resting: ChunkedSlab::new(),
            resting_turns: BTreeMap::new(),
            names: Names::default(),
            rings: ChunkedSlab::new(),
            ring_serial: 0,
            default_partition: Arc::from(DEFAULT_PARTITION),
            waiters: Waiters::default(),
            timers: Timers::default(),
            linger: Linger::new(cap_bytes),
            held: Held::default(),
            gathers: Gathers::default(),
            ready: Vec::new(),
            changed: Vec::new(),
            highest_sequence: 0,
            last_push: Moment::ZERO,
            statistics: Statistics::default(),
            changes: Changes::default(),
        }
    }

    /// Serves one command. Its answer is among the effects, unless it parked, waits for room, or is
    /// left to other shards; answers to others may be among them too. A push's payloads are taken out
    /// of the command.
    pub fn apply(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        command: &mut Command<'_>,
        effects: &mut Vec<Effect>,
    ) {
        self.run_due_steps(now, effects);
        let answered = match command {
            Command::Push(push) => self.push(now, client, tenant, push, effects),
            Command::Pop(pop) => self.pop(now, client, tenant, pop, effects),
            Command::Ack(ack) => self.ack(now, tenant, ack, effects).map(Some),
            Command::Configure(configure) => {
                self.configure(now, client, tenant, configure, effects)
            }
            Command::Reset(queue) => Ok(self.reset(now, client, tenant, queue.as_str(), effects)),
            Command::Delete(queue) => Ok(self.delete(now, client, tenant, queue.as_str(), effects)),
            Command::Queues(list) => Ok(Some(self.list(tenant, list))),
            Command::Depth { queue, group } => {
                let group = group.as_ref().map(|group| group.as_str());
                self.depth(now, client, tenant, (queue.as_str(), group), effects)
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
        self.end_turn(effects);
    }

    /// Does what another shard asks for, or goes on with what it has done.
    pub fn on_peer(
        &mut self,
        now: Moment,
        from: u16,
        message: PeerMessage,
        effects: &mut Vec<Effect>,
    ) {
        self.run_due_steps(now, effects);
        match message {
            PeerMessage::Take(take) => self.on_take(now, take, effects),
            PeerMessage::Ready { queue, group } => {
                self.on_ready(now, from, (queue, group), effects)
            }
            PeerMessage::MakeRoom(asked) => self.on_make_room(now, from, &asked, effects),
            PeerMessage::RoomMade { token } => {
                self.go_on(now, token, effects);
            }
            PeerMessage::Part { queue, token, part } => {
                let result = self.do_part(now, &queue, &part, effects);
                let message = PeerMessage::PartDone { token, result };
                effects.push(Effect::Tell {
                    shard: from,
                    message,
                });
            }
            PeerMessage::PartDone { token, result } => self.on_part_done(token, result, effects),
            PeerMessage::Look(queue) => {
                if let Some(key) = self.known_queue(now, queue.tenant, &queue.name, effects) {
                    self.note_change(key);
                }
            }
        }
        self.end_turn(effects);
    }

    /// Tells other shards what has changed for them.
    fn end_turn(&mut self, effects: &mut Vec<Effect>) {
        self.drop_stale_timers();
        if self.settings.shards > 1 {
            self.tell_windows(effects);
            self.tell_ready(effects);
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

    /// Whether it holds on to a queue that is gone: not for longer than the word of it travels.
    pub fn holds_dead_queue(&self) -> bool {
        let resting = self.resting.iter().map(|(_, resting)| &resting.cell);
        let mut cells = self
            .queues
            .iter()
            .map(|(_, queue)| &queue.cell)
            .chain(resting);
        cells.any(|cell| cell.is_dead())
    }

    /// Whether a pop of this client is parked here.
    pub fn is_parked(&self, client: ClientRef) -> bool {
        self.waiters.of_client(client).is_some()
    }
}
