//! The end of a doorbell that wakes another thread.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The writing end of a socket pair whose other end is a [`Doorbell`](super::Doorbell) of some
/// thread. Clones ring the same doorbell, from any thread.
#[derive(Clone, Debug)]
pub struct Bell {
    socket: Arc<UnixStream>,
}

impl Bell {
    /// A bell and the socket that its doorbell is made of.
    ///
    /// # Errors
    /// Those of creating a socket pair.
    pub fn pair() -> io::Result<(Bell, UnixStream)> {
        let (socket, doorbell) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let bell = Bell {
            socket: Arc::new(socket),
        };
        Ok((bell, doorbell))
    }

    /// Wakes the thread of the doorbell, unless that has ended. Never blocks: a socket that is full
    /// has been rung already.
    ///
    /// # Panics
    /// When the kernel refuses the byte for any other reason: the thread would sleep on.
    pub fn ring(&self) {
        loop {
            match (&*self.socket).write(&[1]).map_err(|error| error.kind()) {
                Err(ErrorKind::Interrupted) => {}
                Ok(_)
                | Err(ErrorKind::WouldBlock | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
                {
                    return;
                }
                Err(kind) => panic!("a doorbell is broken: {kind}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn every_clone_rings() {
        let (bell, mut doorbell) = Bell::pair().expect("a socket pair");
        let clone = bell.clone();
        std::thread::spawn(move || clone.ring())
            .join()
            .expect("the thread that rings");
        bell.ring();
        let mut bytes = [0; 2];
        doorbell.read_exact(&mut bytes).expect("two rings");
        assert_eq!(bytes, [1; 2]);
    }

    #[test]
    fn a_full_socket_counts_as_rung() {
        let (bell, mut doorbell) = Bell::pair().expect("a socket pair");
        while (&*bell.socket).write(&[1; 4096]).is_ok() {}
        bell.ring();
        doorbell.read_exact(&mut [0]).expect("a ring");
    }

    #[test]
    fn a_doorbell_that_is_gone_is_no_failure() {
        let (bell, doorbell) = Bell::pair().expect("a socket pair");
        bell.ring();
        drop(doorbell);
        bell.ring();
    }
}
