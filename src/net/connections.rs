//! The connections of one core.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use slab::Slab;

use super::connection;
use super::deadline::{ConnectionKey, Deadlines, Limit};
use super::input::BufferPool;
use super::line::{Line, Waiting};
use super::listener::Permit;
use super::{Service, Settings};
use crate::http::{FieldSlots, ResponseStyle};
use crate::limits;
use crate::model::{ClientRef, Moment};
use crate::runtime::{self, Notify, Stream};

/// A connection of a service.
pub(super) type LineOf<S> = Line<<S as Service>::Claim, <S as Service>::Listing>;

/// All connections of one core and the service that answers them. Clones are the same registry.
pub struct Connections<S: Service> {
    pub(super) core: Rc<Core<S>>,
}

/// What the connections of a core share.
pub(super) struct Core<S: Service> {
    number: u16,
    service: OnceCell<S>,
    pub(super) settings: Settings,
    lines: RefCell<Slab<Rc<LineOf<S>>>>,
    generations: Cell<u64>,
    pub(super) deadlines: Deadlines,
    timer_runs: Cell<bool>,
    /// Room for the fields of the head that is being served.
    pub(super) slots: RefCell<FieldSlots>,
    pub(super) pool: BufferPool,
    /// When the core began to stop.
    stopped: Cell<Option<Moment>>,
    /// Told when the core begins to stop.
    pub(super) stop_notice: Notify,
    /// Listeners and refusals that are not done.
    pub(super) others: Cell<usize>,
    /// Told when nothing is left.
    gone: Notify,
}

impl<S: Service> Clone for Connections<S> {
    fn clone(&self) -> Connections<S> {
        Connections {
            core: Rc::clone(&self.core),
        }
    }
}

impl<S: Service> Connections<S> {
    /// An empty registry of core `number`. `build` makes the service, which may keep the registry
    /// it is given in order to answer open requests; the two then live until the thread ends.
    pub fn new(
        number: u16,
        settings: Settings,
        build: impl FnOnce(&Connections<S>) -> S,
    ) -> Connections<S> {
        let core = Core {
            number,
            service: OnceCell::new(),
            settings,
            lines: RefCell::new(Slab::new()),
            generations: Cell::new(0),
            deadlines: Deadlines::default(),
            timer_runs: Cell::new(false),
            slots: RefCell::new(FieldSlots::new()),
            pool: BufferPool::default(),
            stopped: Cell::new(None),
            stop_notice: Notify::new(),
            others: Cell::new(0),
            gone: Notify::new(),
        };
        let connections = Connections {
            core: Rc::new(core),
        };
        let service = build(&connections);
        assert!(connections.core.service.set(service).is_ok());
        connections
    }

    /// The service.
    pub fn service(&self) -> &S {
        self.core.service()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.core.settings
    }

    /// Registers a connected socket and serves it in a task of its own; `permit` lasts as long.
    pub fn serve(&self, stream: Stream, permit: Permit) {
        let line = self.core.register(stream);
        runtime::spawn(connection::run(Rc::clone(&self.core), line, permit));
    }

    /// Answers a parked or forwarded request. `write` appends the whole answer and returns what has
    /// to be given back if it cannot be delivered. `false`: the connection or that request is gone
    /// and `write` was not called.
    pub fn answer(
        &self,
        client: ClientRef,
        write: impl FnOnce(ResponseStyle, &mut BytesMut) -> Option<S::Claim>,
    ) -> bool {
        let Some(line) = self.line_of(client) else {
            return false;
        };
        let draft = line.outbox.borrow_mut().begin_answer(client.request);
        let Some(mut draft) = draft else {
            return false;
        };
        let claim = write(draft.style, &mut draft.bytes);
        line.outbox.borrow_mut().end_answer(draft, claim);
        line.wake.notify();
        true
    }

    /// Gives up a forwarded request that was hurried: it gets no answer, its client is gone as that
    /// of a parked one would be. Answers to earlier requests are awaited and written, then the
    /// connection ends: later answers are undelivered, later open requests abandoned, this one is
    /// not. Nothing happens if the connection or that request is gone.
    pub fn drop_request(&self, client: ClientRef) {
        if let Some(line) = self.line_of(client) {
            line.outbox.borrow_mut().drop_request(client.request);
            line.wake.notify();
        }
    }

    fn line_of(&self, client: ClientRef) -> Option<Rc<LineOf<S>>> {
        assert!(
            client.core == self.core.number,
            "an answer reached the wrong core"
        );
        self.core.line(ConnectionKey {
            slot: client.connection,
            generation: client.generation,
        })
    }

    /// Begins to stop: the listener drains its accept queue and closes; a connection answers what
    /// has arrived, saying that it closes where it still can, and closes; idle ones close at once.
    pub fn stop(&self) {
        if self.core.stopped.get().is_some() {
            return;
        }
        let now = runtime::now();
        self.core.stopped.set(Some(now));
        self.core.stop_notice.notify();
        let lines: Vec<_> = self
            .core
            .lines
            .borrow()
            .iter()
            .map(|(_, line)| line.clone())
            .collect();
        for line in lines {
            self.core.stop_line(&line, now);
        }
        self.core.tell_if_gone();
    }

    /// Whether [`Connections::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.core.stopped.get().is_some()
    }

    /// Connections that are open.
    pub fn count(&self) -> usize {
        self.core.lines.borrow().len()
    }

    /// Connections that were ever open.
    pub fn accepted(&self) -> u64 {
        self.core.generations.get()
    }

    /// Whether no connection is open and no listener is at work.
    pub fn is_empty(&self) -> bool {
        self.count() == 0 && self.core.others.get() == 0
    }

    /// Waits until nothing is left. One task at a time.
    pub async fn gone(&self) {
        while !self.is_empty() {
            self.core.gone.notified().await;
        }
    }
}

impl<S: Service> Core<S> {
    /// The service.
    pub(super) fn service(&self) -> &S {
        self.service.get().expect("set when the registry is built")
    }

    /// Whether the core is stopping.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopped.get().is_some()
    }

    fn register(&self, stream: Stream) -> Rc<LineOf<S>> {
        let mut lines = self.lines.borrow_mut();
        let entry = lines.vacant_entry();
        let generation = self.generations.get();
        self.generations.set(generation + 1);
        let slot = u32::try_from(entry.key()).expect("connections are bounded");
        let key = ConnectionKey { slot, generation };
        let line = Rc::new(Line::new(self.number, key, runtime::now(), stream));
        entry.insert(Rc::clone(&line));
        let open = lines.len();
        drop(lines);
        self.service()
            .connections_changed(open, self.generations.get());
        line
    }

    /// Removes a connection: it cannot be answered any more.
    pub(super) fn unregister(&self, key: ConnectionKey) {
        let line = self.lines.borrow_mut().remove(key.slot as usize);
        assert!(line.key == key);
        let lines = self.lines.borrow();
        self.deadlines.forget_gone(lines.len(), |key| {
            let line = lines.get(key.slot as usize)?;
            (line.key == key).then(|| line.deadline.armed())
        });
        let open = lines.len();
        drop(lines);
        self.service()
            .connections_changed(open, self.generations.get());
        self.tell_if_gone();
    }

    /// Counts a listener or refusal in or out.
    pub(super) fn count_other(&self, change: isize) {
        self.others.set(
            self.others
                .get()
                .checked_add_signed(change)
                .expect("balanced"),
        );
        self.tell_if_gone();
    }

    fn tell_if_gone(&self) {
        if self.lines.borrow().is_empty() && self.others.get() == 0 {
            self.gone.notify();
        }
    }

    fn line(&self, key: ConnectionKey) -> Option<Rc<LineOf<S>>> {
        let lines = self.lines.borrow();
        let line = lines.get(key.slot as usize)?;
        (line.key.generation == key.generation).then(|| Rc::clone(line))
    }

    fn stop_line(self: &Rc<Self>, line: &LineOf<S>, now: Moment) {
        let partial = line.partial.get();
        let fresh = line.outbox.borrow().requests() == 0;
        match line.waiting.get() {
            Waiting::Reading if partial || fresh => {
                self.set_deadline(line, Limit::Drain, self.drain_end(line).max(now));
            }
            // A receive under way returns what has arrived, which is still served.
            Waiting::Reading => line.stream.shutdown_read(),
            waiting @ (Waiting::Answer | Waiting::Writing) => {
                if !partial {
                    line.outbox.borrow_mut().seal();
                }
                if waiting == Waiting::Writing {
                    self.set_deadline(line, Limit::Write, self.write_end(now));
                }
                line.wake.notify();
            }
            Waiting::Lingering => {}
        }
    }

    /// When a stopping core gives up on a request that it still waits for.
    pub(super) fn drain_end(&self, line: &LineOf<S>) -> Moment {
        let Some(stopped) = self.stopped.get() else {
            return Moment::NEVER;
        };
        let grace_ms = if line.partial.get() {
            limits::DRAIN_PARTIAL_MS
        } else {
            limits::DRAIN_FRESH_MS
        };
        stopped.max(line.born).after_ms(grace_ms)
    }

    /// When a write that makes no progress from `now` on is given up.
    pub(super) fn write_end(&self, now: Moment) -> Moment {
        let stalled = now.after_ms(limits::WRITE_STALL_MS);
        match self.stopped.get() {
            None => stalled,
            Some(stopped) => stalled.min(stopped.after_ms(limits::DRAIN_WRITE_MS)),
        }
    }

    /// Sets the deadline of a connection, in place of the one it has.
    pub(super) fn set_deadline(self: &Rc<Self>, line: &LineOf<S>, limit: Limit, at: Moment) {
        self.deadlines.set(line.key, &line.deadline, limit, at);
        if !self.timer_runs.replace(true) {
            runtime::spawn(keep_time(Rc::clone(self)));
        }
    }

    /// Acts on every deadline that has passed.
    fn expire_due(&self, now: Moment) {
        while let Some((at, key)) = self.deadlines.pop(now) {
            let Some(line) = self.line(key) else {
                continue;
            };
            if let Some(limit) = self.deadlines.judge(key, &line.deadline, at, now) {
                line.expire(limit);
            }
        }
    }
}

/// The timer task of a core; runs while there are deadlines.
async fn keep_time<S: Service>(core: Rc<Core<S>>) {
    loop {
        core.expire_due(runtime::now());
        let next = core.deadlines.next();
        if next == Moment::NEVER {
            core.timer_runs.set(false);
            return;
        }
        let mut sleep = pin!(runtime::sleep_until(next));
        poll_fn(|context| {
            if core.deadlines.earlier().poll_notified(context).is_ready() {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}
