//! The simplest correct broker: vectors and scans, one struct per noun, written from what the class
//! promises and not from how the shard does it. Where the promise leaves a choice, the model checks
//! that the broker's choice is allowed and adopts it.

use bytes::Bytes;
use queen::model::{
    ClientRef, DropCounts, EffectiveOptions, Moment, Policy, QueueOptions, Refusal, TenantId, Tier,
};
use queen::shard::Statistics;

/// Fails the step with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use ensure;

/// What the broker was started with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) incarnation: u64,
    pub(crate) broker_bytes: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) queue_length: u64,
    pub(crate) lease_ms: u64,
    pub(crate) retry_limit: u32,
    pub(crate) ttl_tick_ms: u64,
    /// 0: nothing lingers.
    pub(crate) linger_ms: u64,
    /// 0: nothing is collected.
    pub(crate) idle_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) deadline: Moment,
    pub(crate) delivery: u64,
    pub(crate) attempts: u32,
}

/// Where one group stands with one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Unread,
    /// Unread or done: only the broker knows whether the group was past it.
    Maybe,
    Leased(Lease),
    Pending {
        deliveries: u32,
        /// The step in which a lease ended by time; 0: it came back otherwise.
        ended_in: u64,
    },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Counted in length and bytes.
    Live,
    /// Every group known then is done with it: it may linger for a group that appears later.
    Passed,
    /// Past its TTL while it was leased.
    Expired { missed: bool, counted: bool },
    /// Nowhere any more; kept while somebody may still name it.
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) payload: Bytes,
    /// Position among all that were pushed to the ring.
    pub(crate) index: u64,
    pub(crate) pushed: Moment,
    pub(crate) life: Life,
    /// It counts as dropped, which it does once.
    pub(crate) dropped: bool,
    /// By the group's position in the queue's list.
    pub(crate) states: Vec<State>,
    /// Answers on their way that settled it when they took it.
    pub(crate) pins: u32,
    pub(crate) last_delivery: u64,
}

#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) partition: String,
    pub(crate) messages: Vec<Message>,
    /// Messages pushed since the ring was made.
    pub(crate) count: u64,
    /// Sequence number of the first, once one was seen.
    pub(crate) base: Option<u64>,
    /// No sequence number of this ring may be below it.
    pub(crate) floor: u64,
    /// Messages below this position were dropped by a reset.
    pub(crate) reset_below: u64,
    pub(crate) skipped: Vec<u64>,
    /// The last push, pop or ack that named it.
    pub(crate) touched: Moment,
    /// When it last held anything.
    pub(crate) busy: Moment,
    /// By group: how often each other partition was served since this one was ready and passed over.
    pub(crate) passed_over: Vec<Vec<(String, u32)>>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    /// Tells apart queues that had the same name.
    pub(crate) life: u64,
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    pub(crate) generation: Option<u64>,
    pub(crate) tier: Tier,
    pub(crate) options: EffectiveOptions,
    pub(crate) groups: Vec<String>,
    pub(crate) rings: Vec<Ring>,
    pub(crate) drops: DropCounts,
    /// Retry drops that only the broker knows of: of messages that may linger or not.
    pub(crate) retry_slack: u64,
    /// Retry drops that the totals have not seen.
    pub(crate) retry_news: u64,
    pub(crate) touched: Moment,
    /// The last command of any kind: rings may have been touched by it.
    pub(crate) last_use: Moment,
    /// When it last held anything or was watched.
    pub(crate) busy: Moment,
    /// Since when the window is as it is.
    pub(crate) window_since: Moment,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) client: ClientRef,
    pub(crate) life: u64,
    pub(crate) partition: Option<String>,
    pub(crate) group: usize,
    pub(crate) batch: usize,
    pub(crate) auto_ack: bool,
    pub(crate) parked: Moment,
    pub(crate) deadline: Moment,
    /// When a first message was seen while it waited.
    pub(crate) first_seen: Option<Moment>,
    /// Since when it, and nobody before it, holds a window open.
    pub(crate) opened: Option<Moment>,
}

/// Situations that the runs must reach, or they prove little.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    pub(crate) lingering_read_late: u64,
    pub(crate) settled_given_back: u64,
    pub(crate) dropped_given_back: u64,
    pub(crate) lease_given_back: u64,
    pub(crate) oldest_evicted: u64,
    pub(crate) expired_under_lease: u64,
    pub(crate) window_closed_short: u64,
    pub(crate) window_filled: u64,
    pub(crate) parked_answered: u64,
    pub(crate) queue_collected: u64,
    pub(crate) partition_collected: u64,
}

impl Reached {
    pub(crate) fn by_name(&self) -> [(&'static str, u64); 11] {
        [
            (
                "lingering message read by a late group",
                self.lingering_read_late,
            ),
            ("settled message given back", self.settled_given_back),
            ("dropped message given back", self.dropped_given_back),
            ("lease given back", self.lease_given_back),
            ("oldest message evicted", self.oldest_evicted),
            ("message expired under a lease", self.expired_under_lease),
            ("window closed short", self.window_closed_short),
            ("window filled", self.window_filled),
            ("parked pop answered with messages", self.parked_answered),
            ("queue collected", self.queue_collected),
            ("partition collected", self.partition_collected),
        ]
    }
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) rules: Rules,
    pub(crate) now: Moment,
    /// Counts turns of the clock and commands.
    pub(crate) step: u64,
    pub(crate) queues: Vec<Queue>,
    /// Longest waiting first.
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) totals: Statistics,
    /// Above every sequence number that is known to have been issued.
    pub(crate) highest: u64,
    pub(crate) highest_generation: Option<u64>,
    pub(crate) reached: Reached,
    next_life: u64,
}

/// The refusal that a push must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    NeverFits(&'static str),
    QueueFull(&'static str),
    Broker,
}

impl Refused {
    pub(crate) fn matches(self, refusal: &Refusal) -> bool {
        match (self, refusal) {
            (Refused::NeverFits(wanted), Refusal::NeverFits { bound, .. })
            | (Refused::QueueFull(wanted), Refusal::QueueFull { bound, .. }) => wanted == *bound,
            (Refused::Broker, Refusal::Unavailable { .. }) => true,
            _ => false,
        }
    }
}

impl Message {
    pub(crate) fn is_live(&self) -> bool {
        self.life == Life::Live
    }

    pub(crate) fn has_leases(&self) -> bool {
        self.states
            .iter()
            .any(|state| matches!(state, State::Leased(_)))
    }

    pub(crate) fn is_due(&self, options: &EffectiveOptions, now: Moment) -> bool {
        options
            .ttl_ms
            .is_some_and(|ttl_ms| self.pushed.after_ms(ttl_ms) <= now)
    }
}

impl Ring {
    pub(crate) fn live(&self) -> u64 {
        self.messages.iter().filter(|one| one.is_live()).count() as u64
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        let live = self.messages.iter().filter(|one| one.is_live());
        live.map(|one| one.payload.len() as u64).sum()
    }

    /// Live messages that the group still has to take.
    pub(crate) fn backlog(&self, group: usize) -> u64 {
        let waiting = |one: &&Message| {
            matches!(
                one.states[group],
                State::Unread | State::Maybe | State::Pending { .. }
            )
        };
        let live = self.messages.iter().filter(|one| one.is_live());
        live.filter(waiting).count() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages
            .iter()
            .all(|one| !one.is_live() && !one.has_leases())
    }

    /// What may linger up to `index` does not.
    pub(crate) fn let_go(&mut self, index: u64) {
        for one in &mut self.messages {
            if one.index <= index && one.life == Life::Passed {
                one.life = Life::Gone;
                for state in &mut one.states {
                    if matches!(state, State::Pending { .. }) {
                        *state = State::Done;
                    }
                }
            }
        }
    }

    pub(crate) fn by_sequence(&mut self, sequence: u64) -> Option<&mut Message> {
        let index = sequence.checked_sub(self.base?)?;
        self.messages.iter_mut().find(|one| one.index == index)
    }
}

impl Queue {
    pub(crate) fn live(&self) -> u64 {
        self.rings.iter().map(Ring::live).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.rings.iter().map(Ring::live_bytes).sum()
    }

    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| group == name)
    }

    pub(crate) fn ring(&mut self, partition: &str) -> Option<&mut Ring> {
        self.rings
            .iter_mut()
            .find(|ring| ring.partition == partition)
    }

    pub(crate) fn has_window(&self) -> bool {
        self.options.window_buffer.ms > 0 || self.options.window_buffer.count > 0
    }

    /// Moves what every group is done with from counted to passed.
    pub(crate) fn retire(&mut self, lingers: bool) {
        for ring in &mut self.rings {
            for one in &mut ring.messages {
                let done = one.states.iter().all(|state| *state == State::Done);
                if one.is_live() && done && !one.states.is_empty() {
                    one.life = if lingers { Life::Passed } else { Life::Gone };
                }
            }
        }
    }
}

impl Model {
    pub(crate) fn new(rules: Rules) -> Model {
        Model {
            rules,
            now: Moment::ZERO,
            step: 0,
            queues: Vec::new(),
            waiters: Vec::new(),
            totals: Statistics::default(),
            highest: 0,
            highest_generation: None,
            reached: Reached::default(),
            next_life: 0,
        }
    }

    pub(crate) fn find(&self, tenant: TenantId, name: &str) -> Option<usize> {
        self.queues
            .iter()
            .position(|queue| queue.tenant == tenant && queue.name == name)
    }

    pub(crate) fn by_life(&self, life: u64) -> Option<usize> {
        self.queues.iter().position(|queue| queue.life == life)
    }

    pub(crate) fn broker_bytes(&self) -> u64 {
        self.queues.iter().map(Queue::bytes).sum()
    }

    pub(crate) fn lingers(&self) -> bool {
        self.rules.linger_ms > 0
    }

    /// Options in force for what a client asked.
    pub(crate) fn effective(&self, asked: &QueueOptions) -> EffectiveOptions {
        let bounded = |value: Option<u64>, default: u64, ceiling: u64| match value.unwrap_or(0) {
            0 => default,
            value => value.min(ceiling),
        };
        EffectiveOptions {
            max_bytes: bounded(
                asked.max_bytes,
                self.rules.queue_bytes,
                self.rules.queue_bytes,
            ),
            max_length: bounded(
                asked.max_length,
                self.rules.queue_length,
                self.rules.queue_length,
            ),
            policy: asked.policy,
            ttl_ms: asked.ttl_ms.filter(|ttl_ms| *ttl_ms > 0),
            lease_ms: bounded(asked.lease_ms, self.rules.lease_ms, 86_400_000),
            retry_limit: asked
                .retry_limit
                .map_or(self.rules.retry_limit, |limit| limit as u32),
            window_buffer: asked.window_buffer,
        }
    }

    pub(crate) fn find_or_create(&mut self, tenant: TenantId, name: &str) -> usize {
        if let Some(found) = self.find(tenant, name) {
            return found;
        }
        self.next_life += 1;
        let options = self.effective(&QueueOptions::default());
        self.queues.push(Queue {
            life: self.next_life,
            tenant,
            name: name.to_owned(),
            generation: None,
            tier: Tier::Implicit,
            options,
            groups: Vec::new(),
            rings: Vec::new(),
            drops: DropCounts::default(),
            retry_slack: 0,
            retry_news: 0,
            touched: self.now,
            last_use: self.now,
            busy: self.now,
            window_since: Moment::ZERO,
        });
        self.queues.len() - 1
    }

    /// The group's position. A new one is to get everything that is held.
    pub(crate) fn register(&mut self, queue: usize, name: &str) -> usize {
        let queue = &mut self.queues[queue];
        if let Some(found) = queue.group(name) {
            return found;
        }
        queue.groups.push(name.to_owned());
        for ring in &mut queue.rings {
            ring.skipped.push(0);
            ring.passed_over.push(Vec::new());
            for one in &mut ring.messages {
                one.states.push(State::Unread);
            }
        }
        queue.groups.len() - 1
    }

    pub(crate) fn find_or_create_ring(&mut self, queue: usize, partition: &str) -> usize {
        let (floor, now) = (self.highest, self.now);
        let queue = &mut self.queues[queue];
        let found = queue
            .rings
            .iter()
            .position(|ring| ring.partition == partition);
        if let Some(found) = found {
            return found;
        }
        queue.rings.push(Ring {
            partition: partition.to_owned(),
            messages: Vec::new(),
            count: 0,
            base: None,
            floor,
            reset_below: 0,
            skipped: vec![0; queue.groups.len()],
            touched: now,
            busy: now,
            passed_over: vec![Vec::new(); queue.groups.len()],
        });
        queue.rings.len() - 1
    }

    /// What a push must answer. Changes nothing.
    pub(crate) fn judge_push(
        &self,
        tenant: TenantId,
        name: &str,
        count: u64,
        bytes: u64,
    ) -> Result<(), Refused> {
        let found = self.find(tenant, name);
        let options = match found {
            Some(queue) => self.queues[queue].options,
            None => self.effective(&QueueOptions::default()),
        };
        if bytes > options.max_bytes {
            return Err(Refused::NeverFits("maxBytes"));
        }
        if count > options.max_length {
            return Err(Refused::NeverFits("maxLength"));
        }
        let (live, live_bytes) = found.map_or((0, 0), |queue| {
            (self.queues[queue].live(), self.queues[queue].bytes())
        });
        if options.policy == Policy::Reject {
            if live_bytes + bytes > options.max_bytes {
                return Err(Refused::QueueFull("maxBytes"));
            }
            if live + count > options.max_length {
                return Err(Refused::QueueFull("maxLength"));
            }
        }
        if self.broker_bytes() + bytes > self.rules.broker_bytes {
            return Err(Refused::Broker);
        }
        Ok(())
    }

    /// Stores what [`Model::judge_push`] let through; the oldest make room.
    pub(crate) fn push(
        &mut self,
        tenant: TenantId,
        name: &str,
        partition: &str,
        payloads: &[Bytes],
    ) {
        let queue = self.find_or_create(tenant, name);
        let bytes: u64 = payloads.iter().map(|one| one.len() as u64).sum();
        let fits = |queue: &Queue| {
            queue.live() + payloads.len() as u64 <= queue.options.max_length
                && queue.bytes() + bytes <= queue.options.max_bytes
        };
        while !fits(&self.queues[queue]) {
            self.evict_oldest(queue);
        }
        let at = self.find_or_create_ring(queue, partition);
        let now = self.now;
        let queue = &mut self.queues[queue];
        let groups = queue.groups.len();
        queue.touched = now;
        queue.last_use = now;
        let ring = &mut queue.rings[at];
        ring.touched = now;
        for payload in payloads {
            ring.messages.push(Message {
                payload: payload.clone(),
                index: ring.count,
                pushed: now,
                life: Life::Live,
                dropped: false,
                states: vec![State::Unread; groups],
                pins: 0,
                last_delivery: 0,
            });
            ring.count += 1;
        }
        if let Some(base) = ring.base {
            self.highest = self.highest.max(base + ring.count);
        }
        self.totals.pushed += payloads.len() as u64;
    }

    fn evict_oldest(&mut self, queue: usize) {
        let queue = &mut self.queues[queue];
        let oldest = queue
            .rings
            .iter_mut()
            .flat_map(|ring| {
                let skipped = &mut ring.skipped;
                let live = ring.messages.iter_mut().filter(|one| one.is_live());
                let oldest = live.min_by_key(|one| (one.pushed, one.index));
                oldest.map(|oldest| (oldest, skipped))
            })
            .min_by_key(|(oldest, _)| (oldest.pushed, oldest.index));
        let (oldest, skipped) = oldest.expect("a push that fits an empty queue");
        oldest.life = Life::Gone;
        oldest.dropped = true;
        for (state, skipped) in oldest.states.iter_mut().zip(skipped) {
            if *state == State::Unread {
                *skipped += 1;
            } else {
                *state = State::Done;
            }
        }
        queue.drops.bounds += 1;
        self.totals.dropped.bounds += 1;
        self.reached.oldest_evicted += 1;
    }

    pub(crate) fn configure(
        &mut self,
        tenant: TenantId,
        name: &str,
        asked: &QueueOptions,
    ) -> EffectiveOptions {
        let queue = self.find_or_create(tenant, name);
        let effective = self.effective(asked);
        let now = self.now;
        let queue = &mut self.queues[queue];
        if queue.options.window_buffer != effective.window_buffer {
            queue.window_since = now;
        }
        queue.tier = Tier::Declared;
        queue.options = effective;
        queue.last_use = now;
        effective
    }

    /// Drops everything a queue holds; how much that was.
    pub(crate) fn reset(&mut self, tenant: TenantId, name: &str) -> u64 {
        let Some(queue) = self.find(tenant, name) else {
            return 0;
        };
        let now = self.now;
        let queue = &mut self.queues[queue];
        let dropped = queue.live();
        queue.touched = now;
        queue.last_use = now;
        for ring in &mut queue.rings {
            ring.messages.clear();
            ring.reset_below = ring.count;
        }
        dropped
    }

    /// Removes a queue: whether it was there, and declared. Who waits for it waits on, at a new one.
    pub(crate) fn delete(&mut self, tenant: TenantId, name: &str) -> (bool, bool) {
        let Some(found) = self.find(tenant, name) else {
            return (false, false);
        };
        let old = self.queues.remove(found);
        for at in 0..self.waiters.len() {
            if self.waiters[at].life != old.life {
                continue;
            }
            let queue = self.find_or_create(tenant, name);
            let group = self.register(queue, &old.groups[self.waiters[at].group]);
            if let Some(partition) = self.waiters[at].partition.clone() {
                self.find_or_create_ring(queue, &partition);
            }
            let waiter = &mut self.waiters[at];
            waiter.life = self.queues[queue].life;
            waiter.group = group;
            waiter.opened = None;
        }
        (true, old.tier == Tier::Declared)
    }
}
