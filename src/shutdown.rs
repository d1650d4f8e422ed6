//! Ordered stop: the main thread waits for SIGTERM or SIGINT, then drains under a [`DrainGuard`]
//! that ends the process when the drain hangs or a second signal comes.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator;

use crate::fatal::Fatal;

/// The signals that stop the broker, caught from the moment this exists.
#[derive(Debug)]
pub struct StopSignals {
    signals: iterator::Signals,
}

/// What asked the broker to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// A supervisor.
    Terminate,
    /// A keyboard.
    Interrupt,
}

impl StopSignals {
    /// Takes over SIGTERM and SIGINT. To be called before the first listener opens, so that a
    /// signal cannot fall between.
    ///
    /// # Errors
    /// When the system refuses the handlers or their descriptor.
    pub fn register() -> io::Result<StopSignals> {
        Ok(StopSignals {
            signals: iterator::Signals::new([SIGTERM, SIGINT])?,
        })
    }

    /// Whether one has come; it is taken.
    pub fn have_come(&mut self) -> bool {
        self.signals.pending().next().is_some()
    }

    /// Blocks until a signal comes; `None` when a [`WaitEnd`] has ended the wait.
    pub fn wait(&mut self) -> Option<StopSignal> {
        loop {
            // May wake without a signal.
            match self.signals.wait().next() {
                Some(SIGTERM) => return Some(StopSignal::Terminate),
                Some(SIGINT) => return Some(StopSignal::Interrupt),
                Some(other) => unreachable!("signal {other} was not registered"),
                None if self.signals.handle().is_closed() => return None,
                None => {}
            }
        }
    }

    /// Ends the wait from another thread.
    pub fn wait_end(&self) -> WaitEnd {
        WaitEnd(self.signals.handle())
    }
}

/// Ends the wait for a signal: something else ends the broker.
#[derive(Clone, Debug)]
pub struct WaitEnd(iterator::Handle);

impl WaitEnd {
    /// Ends the wait.
    pub fn end(&self) {
        self.0.close();
    }
}

/// Watches over the drain; dropped when the drain is complete.
#[derive(Debug)]
pub struct DrainGuard {
    /// Closes when the guard is dropped, which ends the watch.
    _done: mpsc::Sender<()>,
    watch: Option<thread::JoinHandle<()>>,
    handle: iterator::Handle,
}

impl DrainGuard {
    /// Starts the watch: after `limit`, or at a second signal, the process ends with a typed status.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(mut signals: StopSignals, limit: Duration) -> io::Result<DrainGuard> {
        let (done, finished) = mpsc::channel::<()>();
        let handle = signals.signals.handle();
        let watch = thread::Builder::new()
            .name("drain-watch".into())
            .spawn(move || {
                if let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(limit) {
                    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                    Fatal::DrainOverdue { limit_ms }.exit();
                }
            })?;
        thread::Builder::new()
            .name("second-signal".into())
            .spawn(move || {
                // Ends without a signal when the guard closes the handle.
                if signals.signals.forever().next().is_some() {
                    Fatal::SecondSignal.exit();
                }
            })?;
        Ok(DrainGuard {
            _done: done,
            watch: Some(watch),
            handle,
        })
    }

    /// The drain is complete: the watch ends.
    pub fn finish(mut self) {
        self.handle.close();
        let watch = self.watch.take();
        drop(self);
        if let Some(watch) = watch {
            watch.join().expect("the drain watch does not panic");
        }
    }
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        self.handle.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: signals reach every `StopSignals` of the process, so two could not run side by side.
    #[test]
    fn a_signal_is_seen_and_a_finished_drain_ends_the_watch() {
        let mut signals = StopSignals::register().unwrap();
        signal_hook::low_level::raise(SIGINT).unwrap();
        assert_eq!(signals.wait(), Some(StopSignal::Interrupt));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(signals.wait(), Some(StopSignal::Terminate));
        assert!(!signals.have_come());
        let end = signals.wait_end();
        let waits = thread::spawn(move || signals.wait());
        end.end();
        assert_eq!(waits.join().unwrap(), None);
        let signals = StopSignals::register().unwrap();
        DrainGuard::start(signals, Duration::from_secs(60))
            .unwrap()
            .finish();
    }
}
