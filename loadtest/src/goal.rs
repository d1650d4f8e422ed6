//! What a figure has to be.

use std::fmt;

/// A bound, met if the figure is on its good side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The least.
    AtLeast(f64),
    /// The most.
    AtMost(f64),
}

impl Goal {
    /// Whether `figure` is as it should be.
    pub fn is_met(self, figure: f64) -> bool {
        match self {
            Goal::AtLeast(least) => figure >= least,
            Goal::AtMost(most) => figure <= most,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::AtLeast(least) => write!(out, "at least {least}"),
            Goal::AtMost(most) => write!(out, "at most {most}"),
        }
    }
}
