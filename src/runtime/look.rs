//! Asking the kernel what is new without sleeping.
//!
//! A task that wakes itself would do for no driver: while any task can run, the loop neither
//! looks at its timers nor, on io_uring, posts completions (they are posted only to who enters the
//! kernel for them). So it waits for what is true at once, in a way that goes through the kernel.

use std::cell::RefCell;
use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use super::driver::{Driver, current};
use super::turn::next_turn;

thread_local! {
    static WRITABLE: RefCell<Option<Rc<Writable>>> = const { RefCell::new(None) };
}

/// A socket that can always be written to, and its other end.
#[derive(Debug)]
struct Writable {
    watched: monoio::net::UnixStream,
    _other: UnixStream,
}

/// Makes the socket where it is needed. To be called within the runtime.
pub(super) fn start() -> io::Result<()> {
    if current() != Driver::Uring {
        return Ok(());
    }
    let (socket, other) = UnixStream::pair()?;
    socket.set_nonblocking(true)?;
    let watched = monoio::net::UnixStream::from_std(socket)?;
    WRITABLE.set(Some(Rc::new(Writable {
        watched,
        _other: other,
    })));
    Ok(())
}

/// Lets go of the socket: nothing of the runtime outlives it.
pub(super) fn finish() {
    WRITABLE.set(None);
}

/// Lets everybody else who can run have run, and the kernel be asked what is new; does not sleep.
pub async fn look() {
    match current() {
        Driver::Uring => {}
        // Here the readiness is remembered, and nobody would ask.
        Driver::Epoll => return next_turn().await,
        #[cfg(feature = "glommio")]
        Driver::Glommio => return super::glommio::look().await,
    }
    let Some(socket) = WRITABLE.with_borrow(Clone::clone) else {
        // The runtime ends without this task.
        return std::future::pending().await;
    };
    let writable = socket.watched.writable(false).await;
    assert!(
        writable.is_ok(),
        "the socket that is always writable is not"
    );
}
