//! The second client: it declares and removes queues, slowly, and notes how long each answer took.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::{LoadError, control};

/// Time between two requests.
const ASK_EVERY: Duration = Duration::from_millis(150);

/// The queues that it declares and removes.
const QUEUES: [&str; 2] = ["faults-a", "faults-b"];

/// What became of its requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Requests that were served.
    pub(crate) served: u64,
    /// Requests that were answered 503.
    pub(crate) refused: u64,
    /// The longest that an answer took; or a request that was given up.
    pub(crate) longest: Duration,
}

/// Asks until it is `over`. Never more than one of the queues is removed, so that there is one to
/// remove whenever a fault begins.
pub(crate) fn ask(
    address: SocketAddr,
    over: &AtomicBool,
    interrupt: &Interrupt,
) -> Result<Asked, LoadError> {
    let mut asked = Asked::default();
    // The one that is not there; at the beginning neither is.
    let mut missing = 0;
    while !over.load(Ordering::Relaxed) {
        let options = format!(r#"{{"maxLength":{}}}"#, 1 + asked.served);
        asked.time(|| control::configure(address, QUEUES[missing], &options))?;
        interrupt.wait_until(Instant::now() + ASK_EVERY)?;
        let present = 1 - missing;
        if asked.time(|| control::delete(address, QUEUES[present]))? {
            missing = present;
        }
        interrupt.wait_until(Instant::now() + ASK_EVERY)?;
    }
    Ok(asked)
}

impl Asked {
    /// Whether the request was served.
    fn time(&mut self, request: impl Fn() -> Result<(), LoadError>) -> Result<bool, LoadError> {
        let begun = Instant::now();
        let outcome = request();
        self.longest = self.longest.max(begun.elapsed());
        match outcome {
            Ok(()) => {
                self.served += 1;
                Ok(true)
            }
            Err(LoadError::Refused(refused)) if refused.status == Some(503) => {
                self.refused += 1;
                Ok(false)
            }
            // The bound of one request has passed: that is how long it took.
            Err(LoadError::Io(fault))
                if matches!(fault.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                self.refused += 1;
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }
}
