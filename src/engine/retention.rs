//! How often and how much goes with age.

use std::time::Duration;

/// How retention works.
#[derive(Clone, Copy, Debug)]
pub struct RetentionPlan {
    /// Time between two rounds over all partitions.
    pub interval: Duration,
    /// Rows of one step.
    pub rows_max: i32,
    /// For how long a partition is unused that is removed once it is empty; `None`: it is not.
    pub idle: Option<Duration>,
}
