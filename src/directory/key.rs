//! How queues are ordered: by tenant, then by name.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::QueueCell;
use crate::model::TenantId;

/// Tenant and name. Owns no text: the name is the cell's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueKey(pub(super) TenantId, pub(super) Arc<str>);

/// What both are compared by; can be asked by borrowed parts.
pub(super) trait Key {
    fn parts(&self) -> (TenantId, &str);
}

impl Key for QueueKey {
    fn parts(&self) -> (TenantId, &str) {
        (self.0, &self.1)
    }
}

/// A cell, ordered by tenant and name, which stand in it: a set of these is as small as it can be.
#[derive(Debug)]
pub(super) struct CellByName(pub(super) Arc<QueueCell>);

impl Key for CellByName {
    fn parts(&self) -> (TenantId, &str) {
        (self.0.tenant().id(), self.0.name())
    }
}

impl PartialEq for CellByName {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for CellByName {}

impl PartialOrd for CellByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CellByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl<'a> Borrow<dyn Key + 'a> for CellByName {
    fn borrow(&self) -> &(dyn Key + 'a) {
        self
    }
}

impl Key for (TenantId, &str) {
    fn parts(&self) -> (TenantId, &str) {
        (self.0, self.1)
    }
}

impl<'a> Borrow<dyn Key + 'a> for QueueKey {
    fn borrow(&self) -> &(dyn Key + 'a) {
        self
    }
}

impl PartialEq for dyn Key + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Key + '_ {}

impl PartialOrd for dyn Key + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Key + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}
