//! A descriptor that others write to in order to wake this thread.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use super::watched::Watched;

/// The receiving end of a socket pair whose other end is written by a signal handler or by another
/// thread.
#[derive(Debug)]
pub struct Doorbell {
    socket: UnixStream,
    /// A second descriptor of `socket`, known to the runtime.
    watched: Watched,
}

impl Doorbell {
    /// Watches `socket`, which becomes non-blocking.
    ///
    /// # Errors
    /// Those of duplicating and registering a descriptor.
    pub fn new(socket: UnixStream) -> io::Result<Doorbell> {
        socket.set_nonblocking(true)?;
        let watched = Watched::new(socket.try_clone()?.into())?;
        Ok(Doorbell { socket, watched })
    }

    /// Waits until it was rung and takes what was written; returns the bytes taken, 0 when the
    /// other end is closed. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// Those of waiting and reading.
    pub async fn wait(&self) -> io::Result<usize> {
        let mut sink = [0; 64];
        loop {
            self.watched.readable().await?;
            match (&self.socket).read(&mut sink) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}
