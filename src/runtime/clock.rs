//! The process's clock.

use std::sync::OnceLock;
use std::time::Instant;

use crate::model::Moment;

static START: OnceLock<Instant> = OnceLock::new();

/// The present moment on the monotonic clock; the first call of the process is its start.
pub fn now() -> Moment {
    let start = START.get_or_init(Instant::now);
    Moment::from_us(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let first = now();
        assert!(now() >= first);
    }
}
