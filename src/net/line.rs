//! What others may know and touch of a connection while its task waits.

use std::cell::{Cell, RefCell};

use super::deadline::{ConnectionKey, Deadline, Limit};
use super::outbox::Outbox;
use crate::model::{ClientRef, Moment};
use crate::runtime::{Notify, Stream};

/// What the task of a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// It does not wait, or a receive is outstanding with every request answered.
    Reading,
    /// For the answer to an open request, or for a sign of life.
    Answer,
    /// For the kernel to accept bytes.
    Writing,
    /// For the peer to close.
    Lingering,
}

/// A connection as the registry holds it.
#[derive(Debug)]
pub(super) struct Line<C, L> {
    /// Its name on its core.
    pub(super) key: ConnectionKey,
    /// Its core.
    pub(super) core: u16,
    /// When it was accepted.
    pub(super) born: Moment,
    /// Its socket.
    pub(super) stream: Stream,
    /// What it owes. Never borrowed while the service runs.
    pub(super) outbox: RefCell<Outbox<C, L>>,
    /// Wakes the task out of [`Waiting::Answer`].
    pub(super) wake: Notify,
    /// What the task waits for.
    pub(super) waiting: Cell<Waiting>,
    /// A part of a request has arrived.
    pub(super) partial: Cell<bool>,
    /// When it is too late.
    pub(super) deadline: Deadline,
    /// What lasted too long.
    pub(super) expired: Cell<Option<Limit>>,
}

impl<C, L> Line<C, L> {
    /// A connection that has just been accepted.
    pub(super) fn new(core: u16, key: ConnectionKey, born: Moment, stream: Stream) -> Line<C, L> {
        Line {
            key,
            core,
            born,
            stream,
            outbox: RefCell::new(Outbox::new()),
            wake: Notify::new(),
            waiting: Cell::new(Waiting::Reading),
            partial: Cell::new(false),
            deadline: Deadline::new(),
            expired: Cell::new(None),
        }
    }

    /// The address of one of its requests.
    pub(super) fn client(&self, request: u64) -> ClientRef {
        ClientRef {
            core: self.core,
            connection: self.key.slot,
            request,
            generation: self.key.generation,
        }
    }

    /// Acts on a deadline that has passed. No operation is cancelled: shutting the socket down
    /// completes it.
    pub(super) fn expire(&self, limit: Limit) {
        self.expired.set(Some(limit));
        match self.waiting.get() {
            Waiting::Reading | Waiting::Lingering => self.stream.shutdown_read(),
            Waiting::Answer => self.wake.notify(),
            Waiting::Writing => {
                self.stream.reset_on_close();
                self.stream.shutdown_both();
            }
        }
    }
}
