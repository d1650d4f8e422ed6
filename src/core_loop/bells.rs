//! Ringing other cores.

use std::sync::Arc;

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
        let mut left = cores;
        while left != 0 {
            let core = left.trailing_zeros();
            self.0[core as usize].ring();
            left &= left - 1;
        }
    }

    /// Rings all.
    pub(super) fn ring_all(&self) {
        for bell in &*self.0 {
            bell.ring();
        }
    }
}
