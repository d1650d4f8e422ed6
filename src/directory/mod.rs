//! Queue name to its cell, tenant to its budget. Shared by all cores; touched only when a queue is
//! first seen by a core, configured, deleted, collected or listed. The data path works on the cells
//! (atomics) and never takes the locks that stand here.

mod budget;
mod cell;
mod gate;
mod groups;
mod key;
mod rate;
mod slot;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub use budget::Budget;
pub use cell::{Configuration, DeadCell, DropCause, QueueCell, TenantCell};
pub use groups::GroupCell;
pub use rate::RateLimit;
pub use slot::QueueSlot;

use self::gate::Gate;
use self::key::{CellByName, Key, QueueKey};
use crate::limits;
use crate::model::{EffectiveOptions, Grant, Policy, QueueOptions, Refusal, TenantId, Tier};

/// Bounds and defaults of the class, frozen at start.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Payload bytes of the whole broker.
    pub broker_bytes: u64,
    /// Payload bytes of a queue: default and ceiling.
    pub queue_bytes: u64,
    /// Messages of a queue: default and ceiling.
    pub queue_length: u64,
    /// Milliseconds of a lease by default.
    pub lease_ms: u64,
    /// Deliveries by default.
    pub retry_limit: u32,
    /// Messages per second and burst of a tenant; `None`: no limit.
    pub rate: Option<RateLimit>,
    /// Whether a tenant needs a grant.
    pub require_grant: bool,
    /// Tenants at most.
    pub tenants: usize,
    /// Shards that the queues lie on.
    pub shards: u16,
}

impl Bounds {
    /// Fills in defaults and clamps to the ceilings (README, "Queue options").
    pub fn effective(&self, asked: &QueueOptions) -> EffectiveOptions {
        let clamp = |asked: Option<u64>, default: u64, ceiling: u64| match asked {
            None | Some(0) => default,
            Some(value) => value.clamp(1, ceiling),
        };
        let mut window_buffer = asked.window_buffer;
        window_buffer.ms = window_buffer.ms.min(limits::WINDOW_MS_MAX);
        window_buffer.count = window_buffer.count.min(limits::WINDOW_COUNT_MAX);
        EffectiveOptions {
            max_bytes: clamp(asked.max_bytes, self.queue_bytes, self.queue_bytes),
            max_length: clamp(asked.max_length, self.queue_length, self.queue_length),
            policy: asked.policy,
            ttl_ms: asked
                .ttl_ms
                .filter(|&ms| ms > 0)
                .map(|ms| ms.min(limits::TTL_MS_MAX)),
            lease_ms: clamp(asked.lease_ms, self.lease_ms, limits::LEASE_MS_MAX),
            retry_limit: asked.retry_limit.map_or(self.retry_limit, |limit| {
                limit.min(limits::RETRY_LIMIT_MAX) as u32
            }),
            window_buffer,
        }
    }
}

/// All queues and tenants of one broker.
#[derive(Debug)]
pub struct Directory {
    bounds: Bounds,
    /// What an undeclared queue has; shared, so that an inbox costs no configuration of its own.
    implicit: Arc<Configuration>,
    broker: Budget,
    tenants: Mutex<BTreeMap<TenantId, Arc<TenantCell>>>,
    /// Locked by the hash of the key, so that cores minting inboxes do not meet; ordered, so that a
    /// listing is built in bounded steps.
    stripes: Vec<Mutex<Stripe>>,
    hasher: RandomState,
    /// The declared ones among the cells.
    declared: Mutex<BTreeMap<QueueKey, Arc<QueueCell>>>,
    queues: Budget,
    cursors: AtomicUsize,
    generation: AtomicU64,
    gate: Gate,
}

const STRIPES: usize = 32;

/// The queues whose names have one of so many hashes. A name is counted, in its tenant and in the
/// broker, while it stands in one of the two maps.
#[derive(Debug, Default)]
struct Stripe {
    cells: BTreeSet<CellByName>,
    /// How many slots are held for a name.
    reserved: BTreeMap<QueueKey, u32>,
}

impl Stripe {
    fn counts(&self, key: (TenantId, &str)) -> bool {
        let key = &key as &dyn Key;
        self.cells.contains(key) || self.reserved.contains_key(key)
    }
}

/// Whether a grant's `maxQueues` has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    Asked,
    /// What is stored is made whatever the grant has become since.
    Passed,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the whole process (fatal.rs), so nobody ever sees a poisoned lock.
    mutex.lock().expect("a lock holder panicked")
}

impl Directory {
    /// An empty directory.
    pub fn new(bounds: Bounds) -> Directory {
        let asked = QueueOptions {
            policy: Policy::Reject,
            ..QueueOptions::default()
        };
        let effective = bounds.effective(&asked);
        Directory {
            bounds,
            implicit: Arc::new(Configuration {
                tier: Tier::Implicit,
                effective,
            }),
            broker: Budget::new(Some(bounds.broker_bytes)),
            tenants: Mutex::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            declared: Mutex::default(),
            queues: Budget::new(Some(limits::QUEUES_MAX as u64)),
            cursors: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            gate: Gate::new(bounds.require_grant),
        }
    }

    /// The bounds it was made with.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Options of a queue that nobody declared.
    pub fn implicit_options(&self) -> &EffectiveOptions {
        &self.implicit.effective
    }

    /// Payload bytes of the whole broker.
    pub fn broker(&self) -> &Budget {
        &self.broker
    }

    /// Queues, declared and implicit, and names reserved for one.
    pub fn queue_count(&self) -> usize {
        self.queues.used() as usize
    }

    /// Whether the operator has paused the class.
    pub fn paused(&self) -> bool {
        self.gate.paused()
    }

    /// Pauses or resumes the class.
    pub fn set_paused(&self, paused: bool) {
        self.gate.set_paused(paused);
    }

    /// Puts the grants in force: all that there are. A tenant that has none is back at the defaults.
    pub fn set_grants(&self, grants: Vec<(TenantId, Grant)>) {
        // Whoever makes a tenant's cell holds this lock, so that no cell misses its grant.
        let tenants = lock(&self.tenants);
        self.gate.set_grants(grants);
        for (id, cell) in tenants.iter() {
            cell.set_grant(self.gate.grant_of(*id).as_ref());
        }
    }

    /// Whether a request of the tenant may be served: the pause is looked at first, then the grant.
    /// Costs one relaxed load while nobody is kept out, else a look-up without lock or allocation.
    ///
    /// It is asked once for each request, where it arrives. A pop that is parked when its tenant's
    /// grant is taken away stays parked and is answered with what comes, or with nothing at its
    /// deadline; the next request is refused.
    pub fn admits(&self, tenant: TenantId) -> Result<(), Refusal> {
        self.gate.admits(tenant)
    }

    /// The tenant's cell, made at its first request; refused past [`Bounds::tenants`].
    pub fn tenant(&self, tenant: TenantId) -> Result<Arc<TenantCell>, Refusal> {
        let mut tenants = lock(&self.tenants);
        if let Some(cell) = tenants.get(&tenant) {
            return Ok(Arc::clone(cell));
        }
        if tenants.len() >= self.bounds.tenants {
            return Err(Refusal::Unavailable {
                text: "the broker serves as many tenants as QUEEN_KV_MAX_TENANTS allows; raise it",
            });
        }
        let cell = Arc::new(TenantCell::new(tenant, self.bounds.rate));
        cell.set_grant(self.gate.grant_of(tenant).as_ref());
        tenants.insert(tenant, Arc::clone(&cell));
        Ok(cell)
    }

    fn stripe(&self, key: (TenantId, &str)) -> &Mutex<Stripe> {
        &self.stripes[self.hasher.hash_one(key) as usize % STRIPES]
    }

    /// The live cell of a queue, if there is one; `shard` knows it from now on.
    pub fn find(&self, shard: u16, tenant: TenantId, name: &str) -> Option<Arc<QueueCell>> {
        let stripe = lock(self.stripe((tenant, name)));
        let CellByName(cell) = stripe.cells.get(&(tenant, name) as &dyn Key)?;
        cell.add_shard(shard);
        Some(Arc::clone(cell))
    }

    /// The live cell of a queue, if there is one, for somebody who only looks.
    pub fn peek(&self, tenant: TenantId, name: &str) -> Option<Arc<QueueCell>> {
        let stripe = lock(self.stripe((tenant, name)));
        let cell = stripe.cells.get(&(tenant, name) as &dyn Key);
        cell.map(|CellByName(cell)| Arc::clone(cell))
    }

    /// The live cell of a queue, made as an implicit one if there is none.
    pub fn find_or_create(
        &self,
        shard: u16,
        tenant: &Arc<TenantCell>,
        name: &str,
    ) -> Result<Arc<QueueCell>, Refusal> {
        let key = (tenant.id(), name);
        let mut stripe = lock(self.stripe(key));
        let (cell, _) = self.cell_in(&mut stripe, tenant, name, Allowance::Asked)?;
        cell.add_shard(shard);
        Ok(cell)
    }

    /// The live cell in the stripe of its name, and whether it was made just now.
    fn cell_in(
        &self,
        stripe: &mut Stripe,
        tenant: &Arc<TenantCell>,
        name: &str,
        allowance: Allowance,
    ) -> Result<(Arc<QueueCell>, bool), Refusal> {
        let key = (tenant.id(), name);
        if let Some(CellByName(cell)) = stripe.cells.get(&key as &dyn Key) {
            return Ok((Arc::clone(cell), false));
        }
        if !stripe.counts(key) {
            self.count_queue(tenant, allowance)?;
        }
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let cell = Arc::new(QueueCell::new(
            Arc::clone(tenant),
            Arc::from(name),
            generation,
            Arc::clone(&self.implicit),
        ));
        stripe.cells.insert(CellByName(Arc::clone(&cell)));
        Ok((cell, true))
    }

    /// Counts one more queue, or changes nothing.
    fn count_queue(&self, tenant: &TenantCell, allowance: Allowance) -> Result<(), Refusal> {
        match allowance {
            Allowance::Passed => tenant.queues().reserve_anyway(1),
            Allowance::Asked if tenant.queues().reserve(1) => {}
            Allowance::Asked => {
                return Err(Refusal::QuotaExceeded {
                    text: "the tenant has as many ephemeral queues as its grant allows, declared \
                           ones and live implicit ones together; delete queues that are not used, \
                           or have the operator raise the grant",
                });
            }
        }
        if self.queues.reserve(1) {
            return Ok(());
        }
        tenant.queues().release(1);
        Err(Refusal::Unavailable {
            text: "the broker holds as many queues as it can; delete queues that are not used",
        })
    }

    fn uncount_queue(&self, tenant: &TenantCell) {
        tenant.queues().release(1);
        self.queues.release(1);
    }

    /// Removes a cell if it is empty and unwatched: afterwards it is dead, its name is free, and no
    /// further shard comes to know it. Those that do must be told.
    #[must_use = "the shards that know a removed cell must be told"]
    pub fn collect(&self, cell: &Arc<QueueCell>) -> bool {
        self.remove(cell, QueueCell::kill)
    }

    /// Removes a cell whatever it holds; `false` if it was removed before. The shards that know it
    /// must be told: they let go of what it holds.
    #[must_use = "the shards that know a removed cell must be told"]
    pub fn delete(&self, cell: &Arc<QueueCell>) -> bool {
        self.remove(cell, QueueCell::kill_anyway)
    }

    fn remove(&self, cell: &Arc<QueueCell>, kill: impl Fn(&QueueCell) -> bool) -> bool {
        let key = (cell.tenant().id(), cell.name().as_ref());
        let mut stripe = lock(self.stripe(key));
        if !kill(cell) {
            return false;
        }
        let removed = stripe.cells.take(&key as &dyn Key);
        assert!(
            removed.is_some_and(|CellByName(removed)| Arc::ptr_eq(&removed, cell)),
            "a dead cell was live"
        );
        if cell.configuration().tier == Tier::Declared {
            lock(&self.declared).remove(&key as &dyn Key);
        }
        if !stripe.counts(key) {
            self.uncount_queue(cell.tenant());
        }
        true
    }

    /// Counts cursors, one for each group in each partition.
    pub fn add_cursors(&self, count: usize) {
        self.cursors.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts cursors that are gone.
    pub fn release_cursors(&self, count: usize) {
        let before = self.cursors.fetch_sub(count, Ordering::Relaxed);
        assert!(before >= count, "{count} cursors gone of {before}");
    }

    /// Cursors of all rings.
    pub fn cursors(&self) -> usize {
        self.cursors.load(Ordering::Relaxed)
    }

    /// Declares a queue: its options are replaced, not merged. `None` if the cell is dead.
    pub fn declare(&self, cell: &Arc<QueueCell>, asked: &QueueOptions) -> Option<EffectiveOptions> {
        let effective = self.bounds.effective(asked);
        // Whoever removes it holds this lock.
        let _stripe = lock(self.stripe((cell.tenant().id(), cell.name())));
        if cell.is_dead() {
            return None;
        }
        self.declare_locked(cell, effective);
        Some(effective)
    }

    /// Under the lock of its name.
    fn declare_locked(&self, cell: &Arc<QueueCell>, effective: EffectiveOptions) {
        let key = QueueKey(cell.tenant().id(), Arc::clone(cell.name()));
        lock(&self.declared).insert(key, Arc::clone(cell));
        let configuration = Configuration {
            tier: Tier::Declared,
            effective,
        };
        cell.configure(Arc::new(configuration), self.bounds.shards);
    }

    /// Up to `limit` declared queues of a tenant.
    pub fn declared(&self, tenant: TenantId, limit: usize) -> Vec<Arc<QueueCell>> {
        let declared = lock(&self.declared);
        let of_tenant = declared
            .values()
            .filter(|cell| cell.tenant().id() == tenant);
        of_tenant.take(limit).map(Arc::clone).collect()
    }

    /// Up to `limit` cells of a tenant by ascending name, after `after` and with `prefix`, and
    /// whether more follow. At least one if there is one; fewer than there are where one stripe has
    /// more than its share, because beyond its share nothing is known of the order. So a page costs
    /// a small multiple of its rows, and no stripe's lock is held for longer than a share.
    pub fn page(
        &self,
        tenant: TenantId,
        after: Option<&str>,
        prefix: &str,
        limit: usize,
    ) -> (Vec<Arc<QueueCell>>, bool) {
        let after_key = after.map(|after| (tenant, after));
        let prefix_key = (tenant, prefix);
        let start: Bound<&dyn Key> = match &after_key {
            Some(key) if key.1 >= prefix => Bound::Excluded(key),
            _ => Bound::Included(&prefix_key),
        };
        let share = page_share(limit);
        let mut found = Vec::new();
        // Names after it may be missing in `found`.
        let mut known_through: Option<Arc<str>> = None;
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            let mut of_stripe = stripe
                .cells
                .range::<dyn Key, _>((start, Bound::Unbounded))
                .map(|CellByName(cell)| cell)
                .take_while(|cell| cell.tenant().id() == tenant && cell.name().starts_with(prefix))
                .map(Arc::clone);
            found.extend(of_stripe.by_ref().take(share));
            if of_stripe.next().is_some() {
                let last = found.last().map(|cell: &Arc<QueueCell>| cell.name());
                let earlier =
                    last.filter(|last| known_through.as_ref().is_none_or(|at| *last < at));
                known_through = earlier.map(Arc::clone).or(known_through);
            }
        }
        found.sort_unstable_by(|left, right| left.name().cmp(right.name()));
        let known = match &known_through {
            None => found.len(),
            Some(last) => found.partition_point(|cell| cell.name() <= last),
        };
        let more = known_through.is_some() || known > limit;
        found.truncate(known.min(limit));
        (found, more)
    }
}

/// Cells that one stripe may contribute to a page: names are spread evenly, so that twice the
/// average and a margin seldom cuts a page short.
fn page_share(limit: usize) -> usize {
    (2 * limit / STRIPES + 8).min(limit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Moment;

    pub(super) fn bounds() -> Bounds {
        Bounds {
            broker_bytes: 1_000,
            queue_bytes: 100,
            queue_length: 10,
            lease_ms: 30_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 2,
            shards: 1,
        }
    }

    fn directory() -> Directory {
        Directory::new(bounds())
    }

    pub(super) fn grant_of_queues(max_queues: u64) -> Grant {
        Grant {
            enabled: true,
            max_bytes: None,
            max_queues: Some(max_queues),
            messages_per_second: None,
        }
    }

    #[test]
    fn a_grant_bounds_its_tenant_alone_and_lowering_it_takes_nothing_away() {
        let directory = directory();
        let other = directory.tenant(TenantId::from_u128(2)).expect("a tenant");
        let grant = |bytes: u64, queues: u64, rate: u64| {
            let bounds = Grant {
                enabled: true,
                max_bytes: Some(bytes),
                max_queues: Some(queues),
                messages_per_second: Some(rate),
            };
            directory.set_grants(vec![(TenantId::DEFAULT, bounds)]);
        };
        grant(200, 2, 10);
        // Made after its grant came.
        let tenant = directory.tenant(TenantId::DEFAULT).expect("a tenant");
        assert!(tenant.budget().reserve(200) && !tenant.budget().reserve(1));
        for name in ["a", "b"] {
            assert!(directory.find_or_create(0, &tenant, name).is_ok());
        }
        let third = directory.find_or_create(0, &tenant, "c");
        assert!(matches!(third, Err(Refusal::QuotaExceeded { .. })));
        assert!(
            directory.find_or_create(0, &tenant, "a").is_ok(),
            "it is there"
        );
        assert_eq!(tenant.charge(10, Moment::ZERO), Ok(()));
        let wait = Err(Refusal::RateLimited { retry_after_s: 1 });
        assert_eq!(tenant.charge(1, Moment::ZERO), wait);
        assert!(other.budget().fits(1_000_000) && other.charge(1_000, Moment::ZERO).is_ok());
        grant(100, 1, 20);
        assert_eq!((tenant.budget().used(), tenant.queues().used()), (200, 2));
        assert!(!tenant.budget().fits(1));
        assert_eq!(tenant.charge(20, Moment::ZERO), Ok(()), "a full bucket");
        assert_eq!(tenant.charge(1, Moment::ZERO), wait);
        grant(100, 1, 0);
        let none = tenant.charge(1, Moment::ZERO);
        assert!(matches!(none, Err(Refusal::QuotaExceeded { .. })));
        directory.set_grants(Vec::new());
        assert!(tenant.budget().fits(1_000_000), "back at the defaults");
        assert!(tenant.charge(1_000, Moment::ZERO).is_ok());
        assert!(directory.find_or_create(0, &tenant, "c").is_ok());
    }

    #[test]
    fn a_required_grant_is_asked_for_by_the_directory() {
        let directory = Directory::new(Bounds {
            require_grant: true,
            ..bounds()
        });
        let refused = directory.admits(TenantId::DEFAULT);
        assert!(matches!(refused, Err(Refusal::Unavailable { .. })));
        directory.set_grants(vec![(TenantId::DEFAULT, grant_of_queues(1))]);
        assert_eq!(directory.admits(TenantId::DEFAULT), Ok(()));
        let refused = directory.admits(TenantId::from_u128(2));
        assert!(matches!(refused, Err(Refusal::FeatureGated { .. })));
    }

    #[test]
    fn a_default_rate_holds_where_the_grant_has_none() {
        let directory = Directory::new(Bounds {
            rate: Some(RateLimit {
                per_second: 1,
                burst: 2,
            }),
            ..bounds()
        });
        let tenant = directory.tenant(TenantId::DEFAULT).expect("a tenant");
        directory.set_grants(vec![(TenantId::DEFAULT, grant_of_queues(1))]);
        assert_eq!(tenant.charge(2, Moment::ZERO), Ok(()));
        assert!(tenant.charge(1, Moment::ZERO).is_err());
    }

    #[test]
    fn pages_are_sorted_bounded_and_exclusive() {
        let directory = directory();
        let tenant = directory.tenant(TenantId::DEFAULT).expect("room");
        for number in 0..100 {
            directory
                .find_or_create(0, &tenant, &format!("q{number:03}"))
                .expect("room");
        }
        directory.find_or_create(0, &tenant, "zebra").expect("room");
        let (page, more) = directory.page(TenantId::DEFAULT, None, "q", 40);
        assert_eq!((page.len(), more), (40, true));
        assert_eq!(page[0].name().as_ref(), "q000");
        let (page, more) = directory.page(TenantId::DEFAULT, Some("q089"), "q", 40);
        assert_eq!((page.len(), more), (10, false));
        assert_eq!(page[0].name().as_ref(), "q090");
        let (page, _) = directory.page(TenantId::DEFAULT, Some("a"), "z", 40);
        assert_eq!(page.len(), 1);
    }

    #[test]
    fn pages_together_are_the_whole_listing_at_a_bounded_cost() {
        let directory = directory();
        let tenant = directory.tenant(TenantId::DEFAULT).expect("a tenant");
        let names: Vec<String> = (0..1_000).map(|number| format!("q{number:04}")).collect();
        for name in &names {
            directory.find_or_create(0, &tenant, name).expect("a queue");
        }
        for limit in [1, 7, 256, 5_000] {
            assert!(page_share(limit) * STRIPES <= 2 * limit + 8 * STRIPES);
            let mut listed: Vec<String> = Vec::new();
            loop {
                let after = listed.last().map(String::as_str);
                let (page, more) = directory.page(TenantId::DEFAULT, after, "", limit);
                assert!(page.len() <= limit && (!page.is_empty() || !more));
                listed.extend(page.iter().map(|cell| cell.name().to_string()));
                if !more {
                    break;
                }
            }
            assert_eq!(listed, names, "{limit}");
        }
    }

    #[test]
    fn only_an_empty_unwatched_cell_dies() {
        let directory = directory();
        let tenant = directory.tenant(TenantId::DEFAULT).expect("room");
        let cell = directory.find_or_create(0, &tenant, "q").expect("room");
        assert!(cell.add_waiter());
        assert!(!directory.collect(&cell));
        cell.remove_waiter();
        assert!(directory.collect(&cell));
        assert!(!cell.add_waiter(), "a dead cell takes nobody");
        let next = directory.find_or_create(0, &tenant, "q").expect("room");
        assert!(next.generation() > cell.generation());
    }

    #[test]
    fn options_are_clamped_and_zero_means_default() {
        let bounds = *directory().bounds();
        let asked = QueueOptions {
            max_bytes: Some(1_000_000),
            max_length: Some(0),
            retry_limit: Some(0),
            ttl_ms: Some(0),
            lease_ms: Some(u64::MAX),
            ..QueueOptions::default()
        };
        let effective = bounds.effective(&asked);
        assert_eq!((effective.max_bytes, effective.max_length), (100, 10));
        assert_eq!((effective.retry_limit, effective.ttl_ms), (0, None));
        assert_eq!(effective.lease_ms, limits::LEASE_MS_MAX);
    }

    #[test]
    fn tenants_are_bounded() {
        let directory = directory();
        for text in [
            "00000000-0000-0000-0000-000000000002",
            "00000000-0000-0000-0000-000000000003",
        ] {
            assert!(
                directory
                    .tenant(TenantId::parse(text).expect("a UUID"))
                    .is_ok()
            );
        }
        assert!(directory.tenant(TenantId::DEFAULT).is_err());
    }
}
