//! A bounded count, of bytes or of queues, reserved by compare-and-swap.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is in use against a cap. Reserving up to the cap exactly is allowed.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    cap: AtomicU64,
}

/// No cap: a count never gets there.
const NONE: u64 = u64::MAX;

impl Budget {
    /// An unused budget.
    pub fn new(cap: Option<u64>) -> Budget {
        Budget {
            used: AtomicU64::new(0),
            cap: AtomicU64::new(cap.unwrap_or(NONE)),
        }
    }

    /// Replaces the cap. What is in use above a lower one stays.
    pub fn set_cap(&self, cap: Option<u64>) {
        self.cap.store(cap.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// Takes `amount`, or changes nothing and says `false`.
    pub fn reserve(&self, amount: u64) -> bool {
        let next = |used| self.next(used, amount);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }

    /// Takes `amount` whatever the cap is.
    pub(super) fn reserve_anyway(&self, amount: u64) {
        let before = self.used.fetch_add(amount, Ordering::Relaxed);
        assert!(before.checked_add(amount).is_some(), "a count wraps");
    }

    /// Whether `amount` would fit now.
    pub fn fits(&self, amount: u64) -> bool {
        self.next(self.used(), amount).is_some()
    }

    fn next(&self, used: u64, amount: u64) -> Option<u64> {
        let next = used.checked_add(amount)?;
        (next <= self.cap.load(Ordering::Relaxed)).then_some(next)
    }

    /// Gives `amount` back.
    pub fn release(&self, amount: u64) {
        if amount == 0 {
            return;
        }
        let before = self.used.fetch_sub(amount, Ordering::Relaxed);
        assert!(before >= amount, "{amount} given back of {before}");
    }

    /// What is in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_fits_and_a_refusal_changes_nothing() {
        let budget = Budget::new(Some(100));
        assert!(budget.reserve(60));
        assert!(!budget.reserve(41));
        assert_eq!(budget.used(), 60);
        assert!(budget.reserve(40));
        budget.set_cap(Some(50));
        budget.release(40);
        assert!(!budget.reserve(1), "it holds more than it may");
        budget.release(60);
        assert!(budget.reserve(50));
        budget.release(50);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn without_a_cap_everything_fits() {
        let budget = Budget::new(None);
        assert!(budget.reserve(u64::MAX));
        assert!(!budget.reserve(1), "a count never wraps");
    }
}
