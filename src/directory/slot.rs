//! Room for a queue that is about to be declared.

use std::fmt;
use std::sync::Arc;

use super::{Directory, TenantCell};

/// Room for one queue under one name, counted like the queue itself, once however many hold it.
/// Whoever stores a declaration takes it first, so that what was stored can also be made. Dropping
/// it gives the room back unless the queue lives by then.
pub struct QueueSlot {
    pub(super) directory: Arc<Directory>,
    pub(super) tenant: Arc<TenantCell>,
    pub(super) name: Arc<str>,
}

impl QueueSlot {
    /// Whose queue it is for.
    pub fn tenant(&self) -> &Arc<TenantCell> {
        &self.tenant
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }
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
