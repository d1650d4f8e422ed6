//! Waiting for time to pass.

use std::time::Duration;

use crate::model::Moment;

use super::{clock, driver};

/// The longest single sleep: the timer wheel has a horizon, and a moment may be
/// [`Moment::NEVER`].
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Waits for `duration`, rounded up to a millisecond.
pub async fn sleep(duration: Duration) {
    let end = clock::now().as_us().saturating_add(micros(duration));
    sleep_until(Moment::from_us(end)).await;
}

/// Waits until `moment` has come; returns at once if it has passed.
pub async fn sleep_until(moment: Moment) {
    loop {
        let rest = moment.since(clock::now());
        if rest.is_zero() {
            return;
        }
        driver::sleep(rest.min(SLEEP_MAX)).await;
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
