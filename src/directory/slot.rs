//! Room for a queue that is about to be declared, and queues whose declarations are stored.

use std::fmt;
use std::sync::Arc;

use super::key::{CellByName, Key, QueueKey};
use super::{Allowance, Directory, TenantCell, lock};
use crate::model::{QueueOptions, Refusal, TenantId, Tier};

/// Room for one queue under one name, counted like the queue itself, once however many hold it.
/// Whoever stores a declaration takes it first, so that what was stored can also be made. Dropping
/// it gives the room back unless the queue lives by then.
pub struct QueueSlot {
    directory: Arc<Directory>,
    tenant: Arc<TenantCell>,
    name: Arc<str>,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.directory.give_back_slot(&self.tenant, &self.name);
    }
}

impl fmt::Debug for QueueSlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("QueueSlot")
            .field("tenant", &self.tenant.id())
            .field("name", &self.name)
            .finish()
    }
}

impl Directory {
    /// Reserves room for a queue that is to be declared, as long as the slot is held: the queue can
    /// be made meanwhile whatever others make. `None` if it is declared already.
    ///
    /// # Errors
    /// The tenant's `maxQueues`, the tenants of the broker or its queues are used up.
    pub fn reserve_queue(
        self: &Arc<Directory>,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<QueueSlot>, Refusal> {
        self.reserve(tenant, name, Allowance::Asked)
    }

    /// The same for a queue whose declaration is stored already: `maxQueues` counts it and does not
    /// refuse it.
    ///
    /// # Errors
    /// The tenants of the broker or its queues are used up.
    pub fn reserve_stored_queue(
        self: &Arc<Directory>,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<QueueSlot>, Refusal> {
        self.reserve(tenant, name, Allowance::Passed)
    }

    fn reserve(
        self: &Arc<Directory>,
        tenant: TenantId,
        name: &str,
        allowance: Allowance,
    ) -> Result<Option<QueueSlot>, Refusal> {
        let tenant = self.tenant(tenant)?;
        let key = (tenant.id(), name);
        let mut stripe = lock(self.stripe(key));
        let cell = stripe.cells.get(&key as &dyn Key);
        if cell.is_some_and(|CellByName(cell)| cell.configuration().tier == Tier::Declared) {
            return Ok(None);
        }
        if !stripe.counts(key) {
            self.count_queue(&tenant, allowance)?;
        }
        let name: Arc<str> = Arc::from(name);
        let key = QueueKey(tenant.id(), Arc::clone(&name));
        *stripe.reserved.entry(key).or_default() += 1;
        drop(stripe);
        Ok(Some(QueueSlot {
            directory: Arc::clone(self),
            tenant,
            name,
        }))
    }

    fn give_back_slot(&self, tenant: &TenantCell, name: &str) {
        let key = (tenant.id(), name);
        let mut stripe = lock(self.stripe(key));
        let held = stripe.reserved.get_mut(&key as &dyn Key);
        let held = held.expect("a slot is held");
        *held -= 1;
        if *held == 0 {
            stripe.reserved.remove(&key as &dyn Key);
            if !stripe.counts(key) {
                self.uncount_queue(tenant);
            }
        }
    }

    /// Makes the slot's queue, declared with `options`, unless it lives: then its options are its
    /// home's to change. No shard knows the queue before it looks for it.
    pub fn create_reserved(&self, slot: QueueSlot, options: &QueueOptions) {
        let (tenant, name) = (&slot.tenant, &slot.name);
        let mut stripe = lock(self.stripe((tenant.id(), name)));
        let made = self.cell_in(&mut stripe, tenant, name, Allowance::Asked);
        let (cell, is_new) = made.expect("room is reserved");
        if is_new {
            self.declare_locked(&cell, self.bounds().effective(options));
        }
    }

    /// Declares what is stored, before any shard runs. `maxQueues` counts the queue and does not
    /// refuse it.
    ///
    /// # Errors
    /// The tenants of the broker or its queues are used up.
    pub fn load(
        &self,
        tenant: TenantId,
        name: &str,
        options: &QueueOptions,
    ) -> Result<(), Refusal> {
        let tenant = self.tenant(tenant)?;
        let mut stripe = lock(self.stripe((tenant.id(), name)));
        let (cell, _) = self.cell_in(&mut stripe, &tenant, name, Allowance::Passed)?;
        self.declare_locked(&cell, self.bounds().effective(options));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::directory::tests::{bounds, grant_of_queues};

    const TENANT: TenantId = TenantId::DEFAULT;

    fn directory(queues: u64) -> Arc<Directory> {
        let directory = Arc::new(Directory::new(bounds()));
        directory.set_grants(vec![(TENANT, grant_of_queues(queues))]);
        directory
    }

    fn counted(directory: &Directory) -> (u64, usize) {
        let tenant = directory.tenant(TENANT).expect("a tenant");
        (tenant.queues().used(), directory.queue_count())
    }

    fn slot(directory: &Arc<Directory>, name: &str) -> QueueSlot {
        let slot = directory.reserve_queue(TENANT, name).expect("room");
        slot.expect("it is not declared")
    }

    fn make(directory: &Directory, name: &str) -> Result<(), Refusal> {
        let tenant = directory.tenant(TENANT).expect("a tenant");
        directory.find_or_create(0, &tenant, name).map(drop)
    }

    #[test]
    fn a_slot_is_room_until_it_is_dropped() {
        let directory = directory(1);
        let held = slot(&directory, "q");
        assert_eq!(counted(&directory), (1, 1));
        let refused = directory.reserve_queue(TENANT, "other");
        assert!(matches!(refused, Err(Refusal::QuotaExceeded { .. })));
        assert!(make(&directory, "other").is_err());
        drop(held);
        assert_eq!(counted(&directory), (0, 0));
        assert_eq!(make(&directory, "other"), Ok(()));
    }

    #[test]
    fn a_name_is_counted_once_however_many_want_it() {
        let directory = directory(1);
        let (first, second) = (slot(&directory, "q"), slot(&directory, "q"));
        assert_eq!(make(&directory, "q"), Ok(()), "by a push meanwhile");
        assert_eq!(counted(&directory), (1, 1));
        let cell = directory.peek(TENANT, "q").expect("a queue");
        drop(first);
        assert!(directory.collect(&cell));
        assert_eq!(counted(&directory), (1, 1), "the second holds the room");
        assert!(make(&directory, "other").is_err());
        directory.create_reserved(second, &QueueOptions::default());
        assert_eq!(counted(&directory), (1, 1));
        let cell = directory.peek(TENANT, "q").expect("a queue");
        assert_eq!(cell.configuration().tier, Tier::Declared);
        assert!(matches!(directory.reserve_queue(TENANT, "q"), Ok(None)));
        assert!(directory.delete(&cell));
        assert_eq!(counted(&directory), (0, 0));
    }

    #[test]
    fn a_queue_that_lives_keeps_its_options_when_a_slot_is_used() {
        let directory = directory(1);
        let held = slot(&directory, "q");
        assert_eq!(make(&directory, "q"), Ok(()));
        directory.create_reserved(held, &QueueOptions::default());
        let cell = directory.peek(TENANT, "q").expect("a queue");
        assert_eq!(cell.configuration().tier, Tier::Implicit);
    }

    #[test]
    fn what_is_stored_counts_and_is_not_refused() {
        let directory = directory(1);
        let options = QueueOptions {
            max_length: Some(7),
            ..QueueOptions::default()
        };
        for name in ["a", "b", "b"] {
            assert_eq!(directory.load(TENANT, name, &options), Ok(()));
        }
        let stored = directory.reserve_stored_queue(TENANT, "c").expect("room");
        directory.create_reserved(stored.expect("a slot"), &options);
        assert_eq!(counted(&directory), (3, 3));
        let cell = directory.peek(TENANT, "c").expect("a queue");
        assert_eq!(cell.configuration().effective.max_length, 7);
        assert!(make(&directory, "d").is_err());
        for name in ["a", "b"] {
            let cell = directory.peek(TENANT, name).expect("a queue");
            assert!(directory.delete(&cell));
        }
        assert!(make(&directory, "d").is_err(), "the grant is still used up");
        let cell = directory.peek(TENANT, "c").expect("a queue");
        assert!(directory.delete(&cell));
        assert_eq!(make(&directory, "d"), Ok(()));
    }

    /// Threads make, reserve, delete and count the same few names; never are there more than the
    /// grant allows, and in the end nothing is left over.
    #[test]
    fn max_queues_is_exact_under_threads() {
        const ALLOWED: u64 = 5;
        const THREADS: usize = 8;
        const ROUNDS: usize = 4_000;
        let directory = directory(ALLOWED);
        let (made, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let note = |is_made: bool| {
            let counter = if is_made { &made } else { &refused };
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let run = |thread: usize| {
            for round in 0..ROUNDS {
                let name = format!("q{}", (thread * 7 + round * 3) % 12);
                match (thread + round) % 4 {
                    0 => note(make(&directory, &name).is_ok()),
                    1 => match directory.reserve_queue(TENANT, &name) {
                        Ok(Some(slot)) if round % 3 == 0 => drop(slot),
                        Ok(Some(slot)) => {
                            directory.create_reserved(slot, &QueueOptions::default());
                            note(true);
                        }
                        Ok(None) => {}
                        Err(_) => note(false),
                    },
                    _ => {
                        if let Some(cell) = directory.peek(TENANT, &name) {
                            let _ = directory.delete(&cell);
                        }
                    }
                }
                let (of_tenant, _) = counted(&directory);
                assert!(of_tenant <= ALLOWED, "{of_tenant} queues");
            }
        };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let run = &run;
                scope.spawn(move || run(thread));
            }
        });
        assert!(made.into_inner() > 0 && refused.into_inner() > 0);
        let (left, more) = directory.page(TENANT, None, "", 100);
        assert!(!more);
        assert_eq!(counted(&directory), (left.len() as u64, left.len()));
        for cell in left {
            assert!(directory.delete(&cell));
        }
        assert_eq!(counted(&directory), (0, 0));
        let room = (0..20).filter(|number| make(&directory, &format!("n{number}")).is_ok());
        assert_eq!(room.count() as u64, ALLOWED);
    }
}
