//! SIGINT and SIGTERM as a flag: a program that is interrupted still ends what it has started.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::LoadError;

/// Longest sleep between two looks at the flag.
const LOOK: Duration = Duration::from_millis(20);

/// Whether the program was told to end. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches the signals from now on.
    pub fn by_signals() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    /// Whether a signal has come.
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Breaks off what asks, once a signal has come.
    pub fn check(&self) -> Result<(), LoadError> {
        if self.has_come() {
            return Err(LoadError::Interrupted);
        }
        Ok(())
    }

    /// Lets time pass until `deadline`.
    pub fn wait_until(&self, deadline: Instant) -> Result<(), LoadError> {
        loop {
            self.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }
}
