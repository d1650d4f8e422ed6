//! A listening socket.

use std::io;
use std::net::{TcpListener, TcpStream};

use socket2::SockRef;

use super::watched::Watched;

/// A non-blocking listening socket: wait until it is readable, then accept without waiting.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    /// A second descriptor of `socket`, known to the runtime.
    watched: Watched,
}

impl Listener {
    /// Watches `socket`, which becomes non-blocking.
    ///
    /// # Errors
    /// Those of duplicating and registering a descriptor.
    pub fn from_std(socket: TcpListener) -> io::Result<Listener> {
        socket.set_nonblocking(true)?;
        let watched = Watched::new(socket.try_clone()?.into())?;
        Ok(Listener { socket, watched })
    }

    /// Waits until a connection can be accepted. May be dropped while it waits.
    ///
    /// # Errors
    /// Those of polling the descriptor.
    pub async fn readable(&self) -> io::Result<()> {
        self.watched.readable().await
    }

    /// Accepts a connection that has already arrived; `None` if there is none.
    ///
    /// # Errors
    /// Those of accept(2).
    pub fn accept(&self) -> io::Result<Option<TcpStream>> {
        match self.socket.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stops listening now, not when the last descriptor is closed.
    pub fn close(self) {
        // Closing may be deferred by the runtime; shutting a listening socket down is not.
        let _ = SockRef::from(&self.socket).shutdown(std::net::Shutdown::Both);
    }
}
