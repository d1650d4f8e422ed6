//! The order to end.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Given once, seen by the engine wherever it waits.
#[derive(Debug, Default)]
pub struct StopOrder {
    given: OnceLock<Instant>,
}

impl StopOrder {
    /// The broker stops: nothing new is begun.
    pub fn give(&self) {
        // A second one changes nothing: time counts from the first.
        self.given.get_or_init(Instant::now);
    }

    /// Whether it was given.
    pub fn is_ordered(&self) -> bool {
        self.given.get().is_some()
    }

    /// What is left of `limit` since it was given.
    pub fn left_of(&self, limit: Duration) -> Duration {
        let since = self.given.get().map_or(Duration::ZERO, Instant::elapsed);
        limit.saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_first_order() {
        let order = StopOrder::default();
        assert!(!order.is_ordered());
        assert_eq!(order.left_of(Duration::MAX), Duration::MAX);
        order.give();
        let given = order.given.get().copied();
        order.give();
        assert_eq!(order.given.get().copied(), given);
        assert!(order.is_ordered() && order.left_of(Duration::MAX) < Duration::MAX);
        assert_eq!(order.left_of(Duration::ZERO), Duration::ZERO);
    }
}
