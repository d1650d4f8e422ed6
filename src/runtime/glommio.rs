//! The second runtime: glommio, one executor and its three rings per thread.
//!
//! Its sockets are never handed a buffer for later: it waits until a descriptor is ready and then
//! receives or sends at once, so a wait may be dropped at any time. A task that wakes itself keeps
//! the executor from its rings until a time slice is over.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use futures_io::{AsyncRead, AsyncWrite};
use glommio::net::TcpStream;
use glommio::timer::Timer;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};
use rustix::process::{Resource, getrlimit};
use socket2_glommio as socket2;

use super::driver::probe_operations;

/// Entries of each ring. More sockets than that may wait at once: what does not fit follows in the
/// next submission.
const RING_ENTRIES: usize = 128;

/// Memory for files that are read past the page cache, of which there are none: the least that the
/// executor takes. It is locked if the limit allows it.
const IO_MEMORY_BYTES: usize = 64 * 1024;

/// The limit of locked memory below which glommio does not start.
const LOCKED_BYTES_MIN: u64 = 512 * 1024;

/// The most that one read takes: the room for it is cleared before.
const READ_BYTES_MAX: usize = 64 * 1024;

/// For how long a timer is set that is then due at once.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Builds the executor of the calling thread, which stays on the CPUs that it has.
pub(super) fn build() -> io::Result<LocalExecutor> {
    check_locked_memory()?;
    // Where io_uring is refused glommio would panic.
    probe_operations(&io_uring::IoUring::builder())?;
    LocalExecutorBuilder::new(Placement::Unbound)
        .ring_depth(RING_ENTRIES)
        .io_memory(IO_MEMORY_BYTES)
        .make()
        .map_err(io::Error::from)
}

/// glommio asks for this much, too, but what it says then tells nobody what to do.
fn check_locked_memory() -> io::Result<()> {
    let Some(limit) = getrlimit(Resource::Memlock).current else {
        return Ok(());
    };
    if limit >= LOCKED_BYTES_MIN {
        return Ok(());
    }
    let text = format!(
        "it needs {} KiB of locked memory and may have {}; raise the limit (`ulimit -l`, \
         LimitMEMLOCK of a systemd unit)",
        LOCKED_BYTES_MIN / 1024,
        limit / 1024
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, text))
}

/// Starts a task; like everybody else it has its turn later, not within this call.
pub(super) fn spawn(task: impl Future<Output = ()> + 'static) {
    let executor = glommio::executor();
    let queue = executor.current_task_queue();
    let spawned = executor.spawn_local_into(task, queue);
    drop(spawned.expect("the queue of the running task").detach());
}

/// Waits for `duration`.
pub(super) async fn sleep(duration: Duration) {
    glommio::timer::sleep(duration).await;
}

/// Lets everybody else who can run have run, and the rings be looked at, without sleeping.
pub(super) async fn look() {
    let mut timer = Timer::new(LOOK_MAX);
    let mut is_due = false;
    poll_fn(|context| {
        let polled = Pin::new(&mut timer).poll(context).map(drop);
        if !is_due {
            is_due = true;
            // One that is due from the start would not go through the reactor.
            timer.reset(Duration::ZERO);
        }
        polled
    })
    .await;
}

/// A connected socket.
#[derive(Debug)]
pub(super) struct Socket(RefCell<TcpStream>);

impl Socket {
    /// Hands a connected socket to the executor of this thread.
    pub(super) fn from_std(socket: std::net::TcpStream) -> Socket {
        let socket = socket2::Socket::from(socket);
        Socket(RefCell::new(TcpStream::from(socket)))
    }

    /// Receives once, behind what `buffer` holds, up to byte `end` of its capacity.
    pub(super) async fn read(
        &self,
        mut buffer: BytesMut,
        end: usize,
    ) -> (io::Result<usize>, BytesMut) {
        let start = buffer.len();
        buffer.resize(end.min(start + READ_BYTES_MAX), 0);
        let result = poll_fn(|context| self.poll_read(context, &mut buffer[start..])).await;
        buffer.truncate(start + result.as_ref().unwrap_or(&0));
        (result, buffer)
    }

    /// Sends once, from byte `start` of `buffer` on.
    pub(super) async fn write(
        &self,
        buffer: BytesMut,
        start: usize,
    ) -> (io::Result<usize>, BytesMut) {
        let result = poll_fn(|context| {
            let mut socket = self.0.borrow_mut();
            Pin::new(&mut *socket).poll_write(context, &buffer[start..])
        })
        .await;
        (result, buffer)
    }

    /// Waits until there is something to receive, or nothing more will come.
    pub(super) async fn readable(&self) -> io::Result<()> {
        // recv(2) of no byte at all refuses to go on as long as nothing has arrived.
        poll_fn(|context| self.poll_read(context, &mut []).map_ok(drop)).await
    }

    fn poll_read(&self, context: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(context, bytes)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.borrow().as_raw_fd()
    }
}

/// Any descriptor that can be polled.
#[derive(Debug)]
pub(super) struct Watched {
    descriptor: OwnedFd,
    watch: RefCell<TcpStream>,
    /// The watch has told what it had to tell.
    is_spent: Cell<bool>,
}

impl Watched {
    /// Watches `descriptor`.
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Watched> {
        let watch = RefCell::new(watch(&descriptor)?);
        Ok(Watched {
            descriptor,
            watch,
            is_spent: Cell::new(false),
        })
    }

    /// Waits until it is readable.
    pub(super) async fn readable(&self) -> io::Result<()> {
        if self.is_spent.replace(false) {
            *self.watch.borrow_mut() = watch(&self.descriptor)?;
        }
        let received = poll_fn(|context| {
            let mut watch = self.watch.borrow_mut();
            Pin::new(&mut *watch).poll_read(context, &mut [])
        });
        match received.await {
            Ok(_) => Ok(()),
            // A listening socket. Readiness is waited for before the first receive, and only then.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                self.is_spent.set(true);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// glommio has no watch but its sockets, and those are made from anything.
fn watch(descriptor: &OwnedFd) -> io::Result<TcpStream> {
    let socket = UnixStream::from(descriptor.try_clone()?);
    Ok(TcpStream::from(socket2::Socket::from(socket)))
}
