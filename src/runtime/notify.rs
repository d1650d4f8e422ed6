//! A wake-up between tasks of one thread.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// One pending wake-up for one waiting task. A notice given while nobody waits is kept; several
/// are one.
#[derive(Debug, Default)]
pub struct Notify {
    pending: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl Notify {
    /// Without a notice.
    pub const fn new() -> Notify {
        Notify {
            pending: Cell::new(false),
            waiter: RefCell::new(None),
        }
    }

    /// Leaves a notice and wakes the waiting task, if there is one.
    pub fn notify(&self) {
        self.pending.set(true);
        let waiter = self.waiter.borrow_mut().take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Takes the notice, or registers the task that polls to be woken by the next one.
    pub fn poll_notified(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.pending.replace(false) {
            return Poll::Ready(());
        }
        let mut waiter = self.waiter.borrow_mut();
        match &mut *waiter {
            Some(known) => known.clone_from(context.waker()),
            None => *waiter = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits for a notice and takes it.
    pub async fn notified(&self) {
        poll_fn(|context| self.poll_notified(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_waits_for_its_reader_and_is_taken_once() {
        let notify = Notify::new();
        let mut context = Context::from_waker(Waker::noop());
        assert!(notify.poll_notified(&mut context).is_pending());
        notify.notify();
        notify.notify();
        assert!(notify.poll_notified(&mut context).is_ready());
        assert!(notify.poll_notified(&mut context).is_pending());
    }
}
