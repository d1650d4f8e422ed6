//! A descriptor that is waited for and never read through the runtime.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::driver::{Driver, current};
#[cfg(feature = "glommio")]
use super::glommio;

/// A descriptor of its own that the runtime of this thread knows; those who read it have another.
#[derive(Debug)]
pub(super) enum Watched {
    Monoio(monoio::net::UnixStream),
    #[cfg(feature = "glommio")]
    Glommio(glommio::Watched),
}

impl Watched {
    /// Watches `descriptor`, which is non-blocking.
    ///
    /// # Errors
    /// Those of registering it.
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Watched> {
        match current() {
            Driver::Uring | Driver::Epoll => {
                // What kind of socket it is matters to nobody who only polls it.
                let socket = UnixStream::from(descriptor);
                Ok(Watched::Monoio(monoio::net::UnixStream::from_std(socket)?))
            }
            #[cfg(feature = "glommio")]
            Driver::Glommio => Ok(Watched::Glommio(glommio::Watched::new(descriptor)?)),
        }
    }

    /// Waits until it is readable. May be dropped while it waits.
    ///
    /// # Errors
    /// Those of polling it.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Watched::Monoio(socket) => socket.readable(false).await,
            #[cfg(feature = "glommio")]
            Watched::Glommio(watched) => watched.readable().await,
        }
    }
}
