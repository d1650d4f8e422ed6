//! Ringing other cores.

use std::sync::Arc;

use crate::model::cores_of;
use crate::runtime::Bell;

/// The doorbells of all cores, by number.
#[derive(Clone, Debug)]
pub struct Bells(Arc<[Bell]>);

impl Bells {
    /// Those of `bells`, one for each core, in order.
    pub fn new(bells: Vec<Bell>) -> Bells {
        Bells(bells.into())
    }

    /// Rings those of `cores`, a bit each.
    pub(super) fn ring(&self, cores: u64) {
        for core in cores_of(cores) {
            self.0[usize::from(core)].ring();
        }
    }

    /// Rings all.
    pub(super) fn ring_all(&self) {
        for bell in &*self.0 {
            bell.ring();
        }
    }
}
