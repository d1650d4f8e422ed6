//! Taking over what the database says: everything at first, then what has changed.

use hashbrown::HashMap;

use super::{Engine, Shards};
use crate::model::{ClientRef, Declaration, QueueName, TenantId};
use crate::postgres::{Changes, SessionFault};

/// The declarations as they were last stored or read: tenant, then queue, then options.
#[derive(Debug, Default)]
pub(super) struct Declared {
    tenants: HashMap<TenantId, HashMap<String, String>>,
}

impl Declared {
    /// Notes a declaration; false if it was known exactly so.
    pub(super) fn put(&mut self, declaration: &Declaration) -> bool {
        let queues = self.tenants.entry(declaration.tenant).or_default();
        if queues.get(&declaration.queue) == Some(&declaration.options) {
            return false;
        }
        queues.insert(declaration.queue.clone(), declaration.options.clone());
        true
    }

    /// Notes a removal; false if it was not known.
    pub(super) fn remove(&mut self, tenant: TenantId, queue: &str) -> bool {
        let Some(queues) = self.tenants.get_mut(&tenant) else {
            return false;
        };
        let known = queues.remove(queue).is_some();
        if queues.is_empty() {
            self.tenants.remove(&tenant);
        }
        known
    }

    /// Those that are not among `all`.
    fn missing_in(&self, all: &[Declaration]) -> Vec<(TenantId, String)> {
        let mut left: HashMap<TenantId, hashbrown::HashSet<&str>> = HashMap::new();
        for declaration in all {
            let queues = left.entry(declaration.tenant).or_default();
            queues.insert(&declaration.queue);
        }
        let stays = |tenant: TenantId, queue: &str| {
            left.get(&tenant)
                .is_some_and(|queues| queues.contains(queue))
        };
        let of_tenant = |(&tenant, queues): (&TenantId, &HashMap<String, String>)| {
            let gone = queues.keys().filter(|queue| !stays(tenant, queue));
            gone.map(|queue| (tenant, queue.clone()))
                .collect::<Vec<_>>()
        };
        self.tenants.iter().flat_map(of_tenant).collect()
    }
}

impl<S: Shards> Engine<S> {
    /// Reads what has changed in the database since the last time, and takes it over.
    pub(super) fn follow(&mut self) -> Result<(), SessionFault> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let (desk, stop) = (&mut self.desk, &self.stop);
        let mut waiting = || desk.tend_until(stop);
        if let Some(changes) = session.changes(self.revision, &mut waiting)? {
            self.take_over(changes);
        }
        Ok(())
    }

    fn take_over(&mut self, changes: Changes) {
        let mut removed = changes.removed;
        if changes.complete {
            removed.extend(self.declared.missing_in(&changes.declared));
        }
        for (tenant, queue) in removed {
            if self.declared.remove(tenant, &queue) {
                tracing::debug!(%tenant, queue, "a declaration is gone from the database");
                let queue = QueueName::new(queue).expect("it was declared by this name");
                self.desk.shards.remove(ClientRef::NOBODY, tenant, queue);
            }
        }
        for declaration in changes.declared {
            match self.desk.shards.read_declaration(&declaration) {
                Ok(configure) => {
                    if self.declared.put(&declaration) {
                        self.desk.shards.take_over(declaration, configure);
                    }
                }
                Err(refusal) => tracing::warn!(
                    tenant = %declaration.tenant,
                    queue = declaration.queue,
                    ?refusal,
                    "a declaration in the database is left out: it cannot be read"
                ),
            }
        }
        self.desk.shards.set_grants(changes.grants);
        self.follow_switch(changes.ephemeral_enabled);
        self.desk.flush();
        self.revision = Some(changes.revision);
    }

    /// The switch as it stands in the database holds, unless this broker's operator has switched
    /// since and it could not be stored.
    fn follow_switch(&mut self, enabled: bool) {
        let unsaved = self.desk.unsaved_switch.is_some();
        if !unsaved {
            self.desk.shards.set_enabled(enabled);
        }
        self.plan.status.set_mirrored(!unsaved);
    }

    /// Stores what the operator has switched while that was not possible.
    pub(super) fn save_switch(&mut self) {
        if let Some(enabled) = self.desk.unsaved_switch {
            self.store_switch(enabled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declaration(tenant: u128, queue: &str, options: &str) -> Declaration {
        Declaration {
            tenant: TenantId::from_u128(tenant),
            queue: queue.into(),
            options: options.into(),
        }
    }

    #[test]
    fn only_what_differs_is_news() {
        let mut declared = Declared::default();
        assert!(declared.put(&declaration(1, "q", "{}")));
        assert!(!declared.put(&declaration(1, "q", "{}")));
        assert!(declared.put(&declaration(1, "q", "{\"maxLength\":1}")));
        assert!(declared.put(&declaration(2, "q", "{}")));
        assert!(declared.remove(TenantId::from_u128(1), "q"));
        assert!(!declared.remove(TenantId::from_u128(1), "q"));
    }

    #[test]
    fn what_a_complete_reading_does_not_name_is_gone() {
        let mut declared = Declared::default();
        for (tenant, queue) in [(1, "a"), (1, "b"), (2, "a")] {
            declared.put(&declaration(tenant, queue, "{}"));
        }
        let all = [declaration(1, "b", "{}"), declaration(3, "a", "{}")];
        let mut gone = declared.missing_in(&all);
        gone.sort_unstable();
        let tenant = TenantId::from_u128;
        assert_eq!(gone, [(tenant(1), "a".into()), (tenant(2), "a".into())]);
    }
}
