//! The consumer groups of a queue: an append-only list with a version.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::lock;
use crate::limits;
use crate::model::Refusal;

/// Names in the order of registration. A group is known to the rings by its position.
#[derive(Debug, Default)]
pub(super) struct GroupList {
    /// Length of the list: a core that has seen this many has seen all.
    version: AtomicU32,
    names: Mutex<Vec<Arc<str>>>,
}

impl GroupList {
    /// How many names there are.
    pub(super) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The names from position `from` on.
    pub(super) fn since(&self, from: u32) -> Vec<Arc<str>> {
        lock(&self.names)[from as usize..].to_vec()
    }

    /// The group's position, appended if it is new; refused past [`limits::GROUPS_MAX`].
    pub(super) fn register(&self, name: &str) -> Result<u32, Refusal> {
        let mut names = lock(&self.names);
        if let Some(position) = names.iter().position(|known| known.as_ref() == name) {
            return Ok(position as u32);
        }
        if names.len() >= limits::GROUPS_MAX {
            return Err(Refusal::QuotaExceeded {
                text: "the queue has 4096 consumer groups, the most it can have; \
                       reuse one or delete the queue",
            });
        }
        names.push(Arc::from(name));
        self.version.store(names.len() as u32, Ordering::Release);
        Ok(names.len() as u32 - 1)
    }
}
