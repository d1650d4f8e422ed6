//! Where the server is that the engine has found, and where partitions of it begin since the reader has
//! removed something.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use crate::postgres::Target;
use crate::postgres::durable::{Marks, Removed};

/// Where the server is, as long as it answers: told by the engine, asked by who needs a session too. And
/// back what has been removed there, so that the engine delivers nothing of it.
#[derive(Debug, Default)]
pub struct Whereabouts {
    target: ArcSwapOption<Target>,
    /// Looked at in every turn of the engine, so that it stays short.
    removed: Mutex<Vec<Removed>>,
    /// What the sessions of this broker change there.
    marks: Arc<Marks>,
}

impl Whereabouts {
    /// The server, if it answers.
    pub(super) fn get(&self) -> Option<Arc<Target>> {
        self.target.load_full()
    }

    /// It answers.
    pub(super) fn found(&self, target: Target) {
        self.target.store(Some(Arc::new(target)));
    }

    /// It does not answer any more.
    pub(super) fn lost(&self) {
        self.target.store(None);
    }

    /// Where its sessions note what they change.
    pub(super) fn marks(&self) -> &Arc<Marks> {
        &self.marks
    }

    /// Something has been removed there.
    pub(super) fn add_removed(&self, removed: &[Removed]) {
        let mut kept = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(removed);
    }

    /// What has been removed since the last call.
    pub(super) fn take_removed(&self) -> Vec<Removed> {
        let mut kept = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept)
    }
}
