//! A connected socket. The only file with unsafe code: see [`Stream::as_fd`].

use std::cell::RefCell;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use bytes::BytesMut;
use monoio::buf::{Slice, SliceMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent};
use monoio::net::TcpStream;
use socket2::SockRef;

use super::driver::{self, Driver};
#[cfg(feature = "glommio")]
use super::glommio;

/// A connected TCP socket. One read or write at a time; shutdown and socket options at any time.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// The descriptor that `socket` owns.
    descriptor: RawFd,
}

/// As the runtime of the thread has it.
#[derive(Debug)]
enum Socket {
    /// Borrowed for as long as a read or write is under way.
    Monoio(RefCell<TcpStream>),
    #[cfg(feature = "glommio")]
    Glommio(glommio::Socket),
}

impl Stream {
    /// Hands a connected socket to the runtime of this thread.
    ///
    /// # Errors
    /// Those of setting its mode and registering it.
    pub fn from_std(socket: std::net::TcpStream) -> io::Result<Stream> {
        let driver = driver::current();
        // io_uring answers EAGAIN on a non-blocking socket instead of waiting; epoll needs one.
        socket.set_nonblocking(driver == Driver::Epoll)?;
        let descriptor = socket.as_raw_fd();
        let socket = match driver {
            Driver::Uring | Driver::Epoll => {
                Socket::Monoio(RefCell::new(TcpStream::from_std(socket)?))
            }
            #[cfg(feature = "glommio")]
            Driver::Glommio => Socket::Glommio(glommio::Socket::from_std(socket)),
        };
        Ok(Stream { socket, descriptor })
    }

    /// Receives once, at most `bytes_max` bytes, appended to what `buffer` holds in its spare
    /// capacity, of which there must be some. 0 bytes: the peer sends no more. Must not be dropped
    /// before it is ready: shut the socket down instead.
    ///
    /// # Errors
    /// Those of recv(2).
    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "asserts one operation at a time"
    )]
    pub async fn read(&self, buffer: BytesMut, bytes_max: usize) -> (io::Result<usize>, BytesMut) {
        let start = buffer.len();
        let end = buffer.capacity().min(start.saturating_add(bytes_max));
        assert!(end > start, "no room to receive into");
        match &self.socket {
            Socket::Monoio(socket) => {
                let mut socket = socket.borrow_mut();
                let (result, slice) = socket.read(SliceMut::new(buffer, start, end)).await;
                (result, slice.into_inner())
            }
            #[cfg(feature = "glommio")]
            Socket::Glommio(socket) => socket.read(buffer, end).await,
        }
    }

    /// Sends once, from byte `start` of `buffer` on; returns how many bytes the kernel accepted.
    /// Must not be dropped before it is ready.
    ///
    /// # Errors
    /// Those of send(2).
    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "asserts one operation at a time"
    )]
    pub async fn write(&self, buffer: BytesMut, start: usize) -> (io::Result<usize>, BytesMut) {
        let end = buffer.len();
        assert!(start < end, "nothing to send");
        match &self.socket {
            Socket::Monoio(socket) => {
                let mut socket = socket.borrow_mut();
                let (result, slice) = socket.write(Slice::new(buffer, start, end)).await;
                (result, slice.into_inner())
            }
            #[cfg(feature = "glommio")]
            Socket::Glommio(socket) => socket.write(buffer, start).await,
        }
    }

    /// Sends all of `buffer`.
    ///
    /// # Errors
    /// Those of send(2); a part may have been sent.
    pub async fn write_all(&self, mut buffer: BytesMut) -> (io::Result<()>, BytesMut) {
        let mut sent = 0;
        while sent < buffer.len() {
            let (result, returned) = self.write(buffer, sent).await;
            buffer = returned;
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    /// Waits until there is something to receive, an end or an error included. May be dropped
    /// while it waits.
    ///
    /// # Errors
    /// Those of polling the descriptor.
    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "asserts one operation at a time"
    )]
    pub async fn readable(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Monoio(socket) => socket.borrow().readable(false).await,
            #[cfg(feature = "glommio")]
            Socket::Glommio(socket) => socket.readable().await,
        }
    }

    /// Receiving returns what has arrived, then the end; completes a read under way.
    pub fn shutdown_read(&self) {
        self.shutdown(Shutdown::Read);
    }

    /// Tells the peer that nothing follows what was sent.
    pub fn shutdown_write(&self) {
        self.shutdown(Shutdown::Write);
    }

    /// Ends both directions; completes a read or write under way.
    pub fn shutdown_both(&self) {
        self.shutdown(Shutdown::Both);
    }

    /// Closing will reset the connection and drop what the kernel still has to send.
    pub fn reset_on_close(&self) {
        let _ = SockRef::from(self).set_linger(Some(std::time::Duration::ZERO));
    }

    fn shutdown(&self, how: Shutdown) {
        // It fails only if the connection is gone already, which every operation reports.
        let _ = SockRef::from(self).shutdown(how);
    }
}

impl AsFd for Stream {
    #[expect(
        unsafe_code,
        reason = "the runtime's socket lends its descriptor as a number only"
    )]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `socket` owns the descriptor, is never replaced or taken out, and closes it only
        // when `self`, which the result borrows, is dropped.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }
}
