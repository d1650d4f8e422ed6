//! Monotonic time.

use std::time::Duration;

/// Microseconds on the monotonic clock since the process started. Leases, deadlines and expiry are
/// judged by it; wall time is only for what a client sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The start of the process.
    pub const ZERO: Moment = Moment(0);
    /// Later than any moment a process reaches.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// The moment `us` microseconds after the start.
    pub const fn from_us(us: u64) -> Moment {
        Moment(us)
    }

    /// Microseconds since the start.
    pub const fn as_us(self) -> u64 {
        self.0
    }

    /// This moment `ms` milliseconds later; saturates at [`Moment::NEVER`].
    pub const fn after_ms(self, ms: u64) -> Moment {
        Moment(self.0.saturating_add(ms.saturating_mul(1_000)))
    }

    /// How long it is from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
