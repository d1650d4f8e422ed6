//! When units of work are due. Open loop: the n-th is due at n / rate, whatever the server does, so
//! a stall is felt by every unit it delays (no coordinated omission). Closed loop: now.

use std::time::Duration;

use crate::LoadError;

/// How much is measured once the warm-up is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Everything due within this time.
    Time(Duration),
    /// This many units of work.
    Units(u64),
}

/// The schedule of one run. Times are nanoseconds since its start.
#[derive(Clone, Debug)]
pub struct Pace {
    rate_per_s: f64,
    warmup_ns: u64,
    end_ns: u64,
    measured_max: u64,
    begun: u64,
    measured: u64,
}

/// A unit of work that has come due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it was due: what its latency is counted from.
    pub at_ns: u64,
    /// Whether it counts; false during the warm-up.
    pub measured: bool,
}

impl Pace {
    /// `rate_per_s` units a second; 0: closed loop.
    pub fn new(rate_per_s: f64, warmup: Duration, extent: Extent) -> Pace {
        assert!(
            rate_per_s.is_finite() && rate_per_s >= 0.0,
            "a rate is not negative"
        );
        let warmup_ns = nanoseconds(warmup);
        let (end_ns, measured_max) = match extent {
            Extent::Time(duration) => (warmup_ns + nanoseconds(duration), u64::MAX),
            Extent::Units(units) => (u64::MAX, units),
        };
        Pace {
            rate_per_s,
            warmup_ns,
            end_ns,
            measured_max,
            begun: 0,
            measured: 0,
        }
    }

    /// When the measured part begins.
    pub fn warmup_ns(&self) -> u64 {
        self.warmup_ns
    }

    /// When the last unit is due at the latest; `None`: when the server has answered the others.
    pub fn end_ns(&self) -> Option<u64> {
        if self.end_ns < u64::MAX {
            return Some(self.end_ns);
        }
        let span_ns = self.measured_max as f64 * 1e9 / self.rate_per_s;
        (self.rate_per_s > 0.0).then(|| self.warmup_ns.saturating_add(span_ns as u64))
    }

    /// Whether units are due at fixed times.
    pub fn is_open_loop(&self) -> bool {
        self.rate_per_s > 0.0
    }

    /// When the next unit is due; `None`: no more are.
    pub fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let at_ns = if self.rate_per_s > 0.0 {
            (self.begun as f64 * 1e9 / self.rate_per_s) as u64
        } else {
            now_ns
        };
        (at_ns < self.end_ns && self.measured < self.measured_max).then_some(at_ns)
    }

    /// Takes the next unit if it is due.
    pub fn take(&mut self, now_ns: u64) -> Option<Due> {
        let at_ns = self.next_ns(now_ns).filter(|&at_ns| at_ns <= now_ns)?;
        let measured = at_ns >= self.warmup_ns;
        self.begun += 1;
        self.measured += u64::from(measured);
        Some(Due { at_ns, measured })
    }
}

/// Nanoseconds of a duration.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a run is shorter than centuries")
}

/// A number of seconds, as a flag gives it.
pub fn seconds(value: f64) -> Result<Duration, LoadError> {
    Duration::try_from_secs_f64(value)
        .map_err(|error| LoadError::text(format!("{value} s: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_keeps_its_schedule_through_a_pause() {
        let extent = Extent::Time(Duration::from_millis(10));
        let mut pace = Pace::new(1_000.0, Duration::from_millis(5), extent);
        assert_eq!(
            pace.take(0),
            Some(Due {
                at_ns: 0,
                measured: false
            })
        );
        assert_eq!(pace.take(999_999), None);
        let late: Vec<Due> = std::iter::from_fn(|| pace.take(1_000_000_000)).collect();
        let at_ms: Vec<u64> = late.iter().map(|due| due.at_ns / 1_000_000).collect();
        assert_eq!(at_ms, (1..15).collect::<Vec<u64>>());
        assert_eq!(late.iter().filter(|due| due.measured).count(), 10);
        assert_eq!(pace.next_ns(2_000_000_000), None);
    }

    #[test]
    fn a_closed_loop_is_due_at_once_until_it_has_enough() {
        let mut pace = Pace::new(0.0, Duration::from_nanos(10), Extent::Units(2));
        assert_eq!(
            pace.take(9),
            Some(Due {
                at_ns: 9,
                measured: false
            })
        );
        assert_eq!(
            pace.take(10),
            Some(Due {
                at_ns: 10,
                measured: true
            })
        );
        assert_eq!(
            pace.take(11),
            Some(Due {
                at_ns: 11,
                measured: true
            })
        );
        assert_eq!(pace.take(12), None);
    }
}
