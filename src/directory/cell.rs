//! What all cores share of one queue and of one tenant.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};

use super::budget::Budget;
use super::groups::{GroupCell, GroupList};
use super::rate::{Bucket, RateLimit};
use crate::model::{DropCounts, EffectiveOptions, Grant, Moment, Policy, Refusal, TenantId, Tier};

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// To make room.
    Bounds,
    /// Past its TTL.
    Ttl,
    /// Past its retry limit, for one group.
    Retry,
}

/// How a queue is configured; replaced as a whole.
#[derive(Debug)]
pub struct Configuration {
    /// Declared or not.
    pub tier: Tier,
    /// Options in force.
    pub effective: EffectiveOptions,
}

/// One tenant: its byte budget, how many queues it has, and its message rate.
#[derive(Debug)]
pub struct TenantCell {
    id: TenantId,
    budget: Budget,
    queues: Budget,
    /// What holds where the grant says nothing.
    default_rate: Option<RateLimit>,
    /// Messages a second, and at once, that the grant allows; [`NOT_GRANTED`]: it says nothing.
    granted_rate: AtomicU64,
    bucket: Bucket,
}

const NOT_GRANTED: u64 = u64::MAX;

impl TenantCell {
    pub(super) fn new(id: TenantId, default_rate: Option<RateLimit>) -> TenantCell {
        TenantCell {
            id,
            budget: Budget::new(None),
            queues: Budget::new(None),
            default_rate,
            granted_rate: AtomicU64::new(NOT_GRANTED),
            bucket: Bucket::default(),
        }
    }

    /// Puts the bounds of a grant in force, or the defaults. What is held above a lower bound
    /// stays; a changed rate begins with a full bucket.
    pub(super) fn set_grant(&self, grant: Option<&Grant>) {
        self.budget.set_cap(grant.and_then(|grant| grant.max_bytes));
        self.queues
            .set_cap(grant.and_then(|grant| grant.max_queues));
        let rate = grant.and_then(|grant| grant.messages_per_second);
        let rate = rate.unwrap_or(NOT_GRANTED);
        if self.granted_rate.swap(rate, Ordering::Relaxed) != rate {
            self.bucket.fill();
        }
    }

    /// Who it is.
    pub fn id(&self) -> TenantId {
        self.id
    }

    /// Payload bytes it holds.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Queues it has, declared and implicit, and names reserved for one.
    pub fn queues(&self) -> &Budget {
        &self.queues
    }

    /// Charges pushed messages, at least one, to the tenant's rate.
    pub fn charge(&self, messages: u64, now: Moment) -> Result<(), Refusal> {
        let limit = match self.granted_rate.load(Ordering::Relaxed) {
            NOT_GRANTED => self.default_rate,
            0 => {
                return Err(Refusal::QuotaExceeded {
                    text: "the tenant's grant allows 0 messages a second: it may not push",
                });
            }
            rate => Some(RateLimit {
                per_second: rate,
                burst: rate,
            }),
        };
        let Some(limit) = limit else {
            return Ok(());
        };
        self.bucket
            .charge(limit, messages, now)
            .map_err(|retry_after_s| Refusal::RateLimited { retry_after_s })
    }
}

/// What all cores share of one queue.
///
/// Its life is one word, `state`: live messages, parked pops, and whether it is dead. Only a cell
/// without messages and without parked pops is collected; a deleted one dies at once. A dead one
/// takes neither.
#[derive(Debug)]
pub struct QueueCell {
    tenant: Arc<TenantCell>,
    name: Arc<str>,
    generation: u64,
    state: AtomicU64,
    bytes: AtomicU64,
    partitions: AtomicU32,
    touched_us: AtomicU64,
    groups: GroupList,
    configuration: ArcSwap<Configuration>,
    /// Counts the configurations.
    configured: AtomicU32,
    /// Shards that know the cell, a bit each: whoever removes it tells them.
    shards: AtomicU64,
    /// What an inbox never needs, made when it is.
    seldom: OnceLock<Box<Seldom>>,
}

/// With the counts of its `Arc`.
const _: () = assert!(size_of::<QueueCell>() + 16 <= 160);

#[derive(Debug, Default)]
struct Seldom {
    dropped_bounds: AtomicU64,
    dropped_ttl: AtomicU64,
    dropped_retry: AtomicU64,
    /// By shard the age of its oldest message in microseconds, kept where the oldest goes first.
    /// May be older than what is there, never younger.
    oldest: OnceLock<Box<[AtomicU64]>>,
}

const NONE_US: u64 = u64::MAX;

const DEAD: u64 = 1;
const WAITER: u64 = 1 << 1;
const WAITERS: u64 = ((1 << 31) - 1) << 1;
const MESSAGE: u64 = 1 << 32;

impl QueueCell {
    pub(super) fn new(
        tenant: Arc<TenantCell>,
        name: Arc<str>,
        generation: u64,
        configuration: Arc<Configuration>,
    ) -> QueueCell {
        QueueCell {
            tenant,
            name,
            generation,
            state: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            partitions: AtomicU32::new(0),
            touched_us: AtomicU64::new(0),
            groups: GroupList::default(),
            configuration: ArcSwap::new(configuration),
            configured: AtomicU32::new(0),
            shards: AtomicU64::new(0),
            seldom: OnceLock::new(),
        }
    }

    fn seldom(&self) -> &Seldom {
        self.seldom.get_or_init(Box::default)
    }

    fn ages(&self) -> Option<&[AtomicU64]> {
        self.seldom.get()?.oldest.get().map(|ages| &**ages)
    }

    /// Whose queue it is.
    pub fn tenant(&self) -> &Arc<TenantCell> {
        &self.tenant
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Which life of the name this is.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How it is configured now.
    pub fn configuration(&self) -> Guard<Arc<Configuration>> {
        self.configuration.load()
    }

    pub(super) fn configure(&self, configuration: Arc<Configuration>, shards: u16) {
        let options = &configuration.effective;
        if shards > 1 && (options.policy == Policy::DropOldest || options.ttl_ms.is_some()) {
            self.seldom()
                .oldest
                .get_or_init(|| (0..shards).map(|_| AtomicU64::new(NONE_US)).collect());
        }
        self.configuration.store(configuration);
        self.configured.fetch_add(1, Ordering::Release);
    }

    /// How often it was configured: a shard that has seen this many knows how it is now.
    pub fn configuration_version(&self) -> u32 {
        self.configured.load(Ordering::Acquire)
    }

    /// Notes that a shard knows the cell. Under the lock of its name.
    pub(super) fn add_shard(&self, shard: u16) {
        self.shards.fetch_or(1 << shard, Ordering::SeqCst);
    }

    /// The shards that know the cell, a bit each.
    pub fn shards(&self) -> u64 {
        self.shards.load(Ordering::Relaxed)
    }

    /// Whether shards say how old their oldest messages are.
    pub fn has_ages(&self) -> bool {
        self.ages().is_some()
    }

    /// Says how old the oldest message of shard `shard` is.
    pub fn set_oldest(&self, shard: u16, pushed: Option<Moment>) {
        if let Some(oldest) = self.ages() {
            let us = pushed.map_or(NONE_US, Moment::as_us);
            oldest[usize::from(shard)].store(us, Ordering::Release);
        }
    }

    /// The shard other than `shard` that has the oldest message, and how old it is.
    pub fn oldest_elsewhere(&self, shard: u16) -> Option<(u16, Moment)> {
        let oldest = self.ages()?.iter().enumerate();
        oldest
            .map(|(other, us)| (other as u16, us.load(Ordering::Acquire)))
            .filter(|&(other, us)| other != shard && us != NONE_US)
            .min_by_key(|&(_, us)| us)
            .map(|(other, us)| (other, Moment::from_us(us)))
    }

    /// Takes room for messages; `Ok(false)` and no change if it would pass the bounds, `Err` if the
    /// cell is dead. What cannot fit takes nothing even for a moment: others could be refused for it.
    pub fn reserve(
        &self,
        messages: u64,
        bytes: u64,
        options: &EffectiveOptions,
    ) -> Result<bool, DeadCell> {
        let bytes_fit = |used: u64| {
            let next = used.checked_add(bytes)?;
            (next <= options.max_bytes).then_some(next)
        };
        let fits = |state: u64| {
            let length = (state / MESSAGE).checked_add(messages)?;
            let alive = state & DEAD == 0;
            (alive && length <= options.max_length.min(u64::from(u32::MAX)))
                .then(|| state + messages * MESSAGE)
        };
        let length_fits = fits(self.state.load(Ordering::Acquire)).is_some();
        if !length_fits
            || self
                .bytes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, bytes_fit)
                .is_err()
        {
            return if self.is_dead() {
                Err(DeadCell)
            } else {
                Ok(false)
            };
        }
        match self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
        {
            Ok(_) => Ok(true),
            Err(state) => {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                if state & DEAD == 0 {
                    Ok(false)
                } else {
                    Err(DeadCell)
                }
            }
        }
    }

    /// Gives room back.
    pub fn release(&self, messages: u64, bytes: u64) {
        let state = self.state.fetch_sub(messages * MESSAGE, Ordering::AcqRel);
        assert!(
            state / MESSAGE >= messages,
            "{messages} messages given back of {state:#x}"
        );
        let used = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(used >= bytes, "{bytes} bytes given back of {used}");
    }

    /// Counts a pop that parks; `false` if the cell is dead.
    pub fn add_waiter(&self) -> bool {
        let add = |state: u64| (state & DEAD == 0).then_some(state + WAITER);
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
            .is_ok()
    }

    /// Counts a pop that no longer parks.
    pub fn remove_waiter(&self) {
        let state = self.state.fetch_sub(WAITER, Ordering::AcqRel);
        assert!(state & WAITERS != 0, "no waiter to remove");
    }

    /// Ends its life if it is empty and unwatched.
    pub(super) fn kill(&self) -> bool {
        self.state
            .compare_exchange(0, DEAD, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Ends its life whatever it holds; `false` if it was over. What shards still hold of it they
    /// let go when they learn of it.
    pub(super) fn kill_anyway(&self) -> bool {
        self.state.fetch_or(DEAD, Ordering::AcqRel) & DEAD == 0
    }

    /// Whether its name is free again.
    pub fn is_dead(&self) -> bool {
        self.state.load(Ordering::Acquire) & DEAD != 0
    }

    /// Messages held.
    pub fn length(&self) -> u64 {
        self.state.load(Ordering::Acquire) / MESSAGE
    }

    /// Pops parked now.
    pub fn waiters(&self) -> u64 {
        (self.state.load(Ordering::Acquire) & WAITERS) / WAITER
    }

    /// Payload bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Live partitions over all shards.
    pub fn partitions(&self) -> u64 {
        u64::from(self.partitions.load(Ordering::Relaxed))
    }

    /// Counts a new partition.
    pub fn add_partition(&self) {
        self.partitions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a collected partition.
    pub fn remove_partition(&self) {
        let before = self.partitions.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "no partition to remove");
    }

    /// Counts dropped messages.
    pub fn count_drops(&self, cause: DropCause, messages: u64) {
        let seldom = self.seldom();
        let counter = match cause {
            DropCause::Bounds => &seldom.dropped_bounds,
            DropCause::Ttl => &seldom.dropped_ttl,
            DropCause::Retry => &seldom.dropped_retry,
        };
        counter.fetch_add(messages, Ordering::Relaxed);
    }

    /// Messages dropped since the queue was created.
    pub fn drops(&self) -> DropCounts {
        let Some(seldom) = self.seldom.get() else {
            return DropCounts::default();
        };
        DropCounts {
            bounds: seldom.dropped_bounds.load(Ordering::Relaxed),
            ttl: seldom.dropped_ttl.load(Ordering::Relaxed),
            retry: seldom.dropped_retry.load(Ordering::Relaxed),
        }
    }

    /// Notes a push, pop, ack or reset: it delays collection.
    pub fn touch(&self, now: Moment) {
        self.touched_us.store(now.as_us(), Ordering::Relaxed);
    }

    /// The last push, pop, ack or reset.
    pub fn touched(&self) -> Moment {
        Moment::from_us(self.touched_us.load(Ordering::Relaxed))
    }

    /// How many groups are known.
    pub fn group_version(&self) -> u32 {
        self.groups.version()
    }

    /// The groups from position `from` on.
    pub fn groups_since(&self, from: u32) -> Vec<Arc<GroupCell>> {
        self.groups.since(from)
    }

    /// The group's position, registered if it is new.
    pub fn register_group(&self, name: &str) -> Result<u32, Refusal> {
        self.groups.register(name, &self.shards)
    }
}

/// The cell died before it could be used: look the name up anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadCell;
