//! Who may use the class: the operator's pause, then the tenants' grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::ArcSwapOption;
use hashbrown::HashMap;

use crate::model::{Grant, Refusal, TenantId};

const OPEN: u8 = 0;
/// The operator has paused the class.
const PAUSED: u8 = 1;
/// A tenant may be kept out by its grant, or by having none.
const GRANTS: u8 = 2;

const NOT_LOADED: Refusal = Refusal::Unavailable {
    text: "the tenants' grants are not loaded yet, and QUEEN_EPHEMERAL_REQUIRE_GRANT asks for one; \
           retry once the broker has reached its database",
};

const NO_GRANT: Refusal = Refusal::FeatureGated {
    text: "the tenant has no grant for ephemeral queues, and QUEEN_EPHEMERAL_REQUIRE_GRANT asks \
           for one; have the operator add it to the table of grants",
};

const DISABLED: Refusal = Refusal::FeatureGated {
    text: "the tenant's grant for ephemeral queues is disabled; have the operator enable it in the \
           table of grants",
};

/// Pause and grants. Asked for every request, by one relaxed load while nobody is kept out.
#[derive(Debug)]
pub(super) struct Gate {
    state: AtomicU8,
    required: bool,
    /// `None` until they are loaded.
    grants: ArcSwapOption<HashMap<TenantId, Grant>>,
}

impl Gate {
    pub(super) fn new(required: bool) -> Gate {
        Gate {
            state: AtomicU8::new(if required { GRANTS } else { OPEN }),
            required,
            grants: ArcSwapOption::empty(),
        }
    }

    pub(super) fn paused(&self) -> bool {
        self.state.load(Ordering::Relaxed) & PAUSED != 0
    }

    pub(super) fn set_paused(&self, paused: bool) {
        self.set(PAUSED, paused);
    }

    fn set(&self, bit: u8, on: bool) {
        if on {
            self.state.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.state.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    pub(super) fn set_grants(&self, grants: Vec<(TenantId, Grant)>) {
        let grants: HashMap<TenantId, Grant> = grants.into_iter().collect();
        let in_force = self.required || grants.values().any(|grant| !grant.enabled);
        self.grants.store(Some(Arc::new(grants)));
        self.set(GRANTS, in_force);
    }

    pub(super) fn grant_of(&self, tenant: TenantId) -> Option<Grant> {
        self.grants.load().as_ref()?.get(&tenant).copied()
    }

    pub(super) fn admits(&self, tenant: TenantId) -> Result<(), Refusal> {
        match self.state.load(Ordering::Relaxed) {
            OPEN => Ok(()),
            state if state & PAUSED != 0 => Err(Refusal::Paused),
            _ => self.admits_by_grant(tenant),
        }
    }

    /// Neither locks nor allocates.
    fn admits_by_grant(&self, tenant: TenantId) -> Result<(), Refusal> {
        let grants = self.grants.load();
        let Some(grants) = grants.as_ref() else {
            return if self.required {
                Err(NOT_LOADED)
            } else {
                // The bit is relaxed: it may be seen before the grants that have set it.
                Ok(())
            };
        };
        match grants.get(&tenant) {
            Some(grant) if grant.enabled => Ok(()),
            Some(_) => Err(DISABLED),
            None if self.required => Err(NO_GRANT),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: TenantId = TenantId::from_u128(2);

    fn grant(enabled: bool) -> Grant {
        Grant {
            enabled,
            max_bytes: None,
            max_queues: None,
            messages_per_second: None,
        }
    }

    #[test]
    fn without_required_grants_only_a_disabled_one_keeps_out() {
        let gate = Gate::new(false);
        assert_eq!(gate.admits(OTHER), Ok(()));
        gate.set_grants(vec![(OTHER, grant(true))]);
        assert_eq!(gate.state.load(Ordering::Relaxed), OPEN, "nobody is asked");
        gate.set_grants(vec![(OTHER, grant(false))]);
        assert_eq!(gate.admits(OTHER), Err(DISABLED));
        assert_eq!(gate.admits(TenantId::DEFAULT), Ok(()));
        gate.set_grants(Vec::new());
        assert_eq!(gate.admits(OTHER), Ok(()));
    }

    #[test]
    fn required_grants_are_waited_for_and_then_asked_for() {
        let gate = Gate::new(true);
        assert_eq!(gate.admits(OTHER), Err(NOT_LOADED));
        gate.set_grants(vec![(OTHER, grant(true))]);
        assert_eq!(gate.admits(OTHER), Ok(()));
        assert_eq!(gate.admits(TenantId::DEFAULT), Err(NO_GRANT));
        gate.set_grants(Vec::new());
        assert_eq!(gate.admits(OTHER), Err(NO_GRANT));
    }

    #[test]
    fn the_pause_comes_first_and_outlives_a_change_of_grants() {
        let gate = Gate::new(true);
        gate.set_paused(true);
        assert_eq!(gate.admits(OTHER), Err(Refusal::Paused));
        gate.set_grants(vec![(OTHER, grant(true))]);
        assert!(gate.paused());
        assert_eq!(gate.admits(OTHER), Err(Refusal::Paused));
        gate.set_paused(false);
        assert_eq!(gate.admits(OTHER), Ok(()));
        assert_eq!(gate.admits(TenantId::DEFAULT), Err(NO_GRANT));
    }
}
