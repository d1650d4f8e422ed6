//! Standing back for one turn of the loop.
//!
//! On epoll an operation on a ready socket completes without waiting, so a task whose socket is
//! always ready never stands back by itself. Waking itself would not do: while any task can run the
//! loop neither sleeps nor looks at its timers. So it waits for a byte on a descriptor, which
//! arrives only by way of the kernel.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::doorbell::Doorbell;
use super::driver::spawn;
use super::notify::Notify;

thread_local! {
    static TURN: RefCell<Option<Rc<Turn>>> = const { RefCell::new(None) };
}

/// The turns of this thread's loop, as far as somebody waits for them.
#[derive(Debug)]
struct Turn {
    bell: UnixStream,
    count: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
    /// The task that ends turns has ended itself.
    ended: Notify,
}

/// Starts the task that ends turns. To be called within the runtime, before anybody waits.
pub(super) fn start() -> io::Result<()> {
    let (bell, ringing) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    let doorbell = Doorbell::new(ringing)?;
    let turn = Rc::new(Turn {
        bell,
        count: Cell::new(0),
        waiters: RefCell::default(),
        ended: Notify::new(),
    });
    TURN.set(Some(Rc::clone(&turn)));
    spawn(async move {
        while doorbell.wait().await.is_ok_and(|count| count > 0) {
            turn.count.set(turn.count.get() + 1);
            for waiter in turn.waiters.take() {
                waiter.wake();
            }
        }
        drop(doorbell);
        turn.ended.notify();
    });
    Ok(())
}

/// Ends the task, which takes one turn: what was left to the kernel by then, such as closing
/// sockets, is handed over, and nothing that the runtime holds outlives it.
pub(super) async fn finish() {
    if let Some(turn) = TURN.take() {
        let shut = turn.bell.shutdown(std::net::Shutdown::Both);
        if shut.is_ok() {
            turn.ended.notified().await;
        }
    }
}

/// Waits until everybody else who can run has run and the kernel was asked what is new.
pub async fn next_turn() {
    let Some(turn) = TURN.with_borrow(Clone::clone) else {
        // The last turn is over: the runtime ends without this task.
        return std::future::pending().await;
    };
    let current = turn.count.get();
    poll_fn(|context| {
        if turn.count.get() != current {
            return Poll::Ready(());
        }
        let mut waiters = turn.waiters.borrow_mut();
        if waiters.is_empty() {
            // It cannot be full: one byte is on its way for each turn.
            let rung = (&turn.bell).write_all(&[1]);
            assert!(rung.is_ok(), "the bell of the turns is broken");
        }
        waiters.push(context.waker().clone());
        Poll::Pending
    })
    .await;
}
