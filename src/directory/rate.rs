//! Messages per second of one tenant.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::Moment;

/// Rate and burst of a token bucket, in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Messages per second, at least 1.
    pub per_second: u64,
    /// Messages that may come at once, at least 1.
    pub burst: u64,
}

/// A token bucket in one word (generic cell rate algorithm): the moment at which it is full again.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    full_at_us: AtomicU64,
}

impl Bucket {
    /// Fills it: what was charged under another limit says nothing under this one.
    pub(super) fn fill(&self) {
        self.full_at_us.store(0, Ordering::Relaxed);
    }

    /// Charges `messages`, at most the burst; or says after how many whole seconds to come back.
    pub(super) fn charge(&self, limit: RateLimit, messages: u64, now: Moment) -> Result<(), u64> {
        let us_of = |tokens: u64| tokens.saturating_mul(1_000_000).div_ceil(limit.per_second);
        let cost_us = us_of(messages.min(limit.burst));
        let burst_us = us_of(limit.burst);
        let charged = |full_at_us: u64| {
            let next = full_at_us.max(now.as_us()).saturating_add(cost_us);
            (next - now.as_us() <= burst_us).then_some(next)
        };
        match self
            .full_at_us
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged)
        {
            Ok(_) => Ok(()),
            Err(full_at_us) => {
                let short_us = full_at_us.saturating_add(cost_us) - now.as_us() - burst_us;
                Err(short_us.div_ceil(1_000_000).max(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_rate() {
        let limit = RateLimit {
            per_second: 10,
            burst: 20,
        };
        let bucket = Bucket::default();
        let start = Moment::from_us(5_000_000);
        assert_eq!(bucket.charge(limit, 20, start), Ok(()));
        assert_eq!(bucket.charge(limit, 1, start), Err(1));
        assert_eq!(bucket.charge(limit, 15, start), Err(2));
        assert_eq!(bucket.charge(limit, 1, start.after_ms(100)), Ok(()));
        assert_eq!(bucket.charge(limit, 1, start.after_ms(100)), Err(1));
    }

    #[test]
    fn a_batch_above_the_burst_is_charged_the_burst() {
        let limit = RateLimit {
            per_second: 10,
            burst: 20,
        };
        let bucket = Bucket::default();
        assert_eq!(bucket.charge(limit, 1_000, Moment::ZERO), Ok(()));
        assert_eq!(bucket.charge(limit, 1_000, Moment::ZERO), Err(2));
    }
}
