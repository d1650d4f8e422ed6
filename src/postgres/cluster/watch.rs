//! The caller of a start looks on: it is told every step and may break off.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::fault::ClusterFault;

/// What the caller of a start is told while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Something happened, in words for the log.
    Step(&'a str),
    /// Nothing new: the caller is only asked whether to go on, every few milliseconds.
    Waiting,
}

/// The caller, and how long it bears that nothing moves.
pub(super) struct Watch<'a> {
    pub(super) report: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    pub(super) stall_limit: Duration,
    /// Where more can be read.
    pub(super) log: PathBuf,
}

impl Watch<'_> {
    /// Tells the caller about a step.
    pub(super) fn step(&mut self, text: &str) -> Result<(), ClusterFault> {
        self.tell(Progress::Step(text))
    }

    /// Asks the caller whether to go on.
    pub(super) fn waiting(&mut self) -> Result<(), ClusterFault> {
        self.tell(Progress::Waiting)
    }

    fn tell(&mut self, progress: Progress<'_>) -> Result<(), ClusterFault> {
        match (self.report)(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ClusterFault::BrokenOff),
        }
    }

    /// A fault if nothing has moved since `moved` for too long.
    pub(super) fn stalled_since(
        &self,
        moved: Instant,
        what: &'static str,
        lines: impl FnOnce() -> String,
    ) -> Result<(), ClusterFault> {
        if moved.elapsed() < self.stall_limit {
            return Ok(());
        }
        Err(ClusterFault::Stalled {
            what,
            waited: self.stall_limit,
            log: self.log.clone(),
            lines: lines(),
        })
    }
}
