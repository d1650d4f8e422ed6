//! A bounded count of bytes, reserved by compare-and-swap.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in use against a cap. Reserving up to the cap exactly is allowed.
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

    /// Takes `bytes`, or changes nothing and says `false`.
    pub fn reserve(&self, bytes: u64) -> bool {
        let next = |used| self.next(used, bytes);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }

    /// Whether `bytes` would fit now.
    pub fn fits(&self, bytes: u64) -> bool {
        self.next(self.used(), bytes).is_some()
    }

    fn next(&self, used: u64, bytes: u64) -> Option<u64> {
        let next = used.checked_add(bytes)?;
        (next <= self.cap.load(Ordering::Relaxed)).then_some(next)
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes given back of {before}");
    }

    /// Bytes in use.
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
