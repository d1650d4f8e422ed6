//! The task of one connection: read once, serve every complete request, write all answers that may
//! leave with one write.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;

use super::body::PendingBody;
use super::connections::{Core, LineOf};
use super::deadline::Limit;
use super::input::Input;
use super::line::Waiting;
use super::lingering::linger;
use super::listener::Permit;
use super::{Body, Called, Request, Service};
use crate::http::{self, Fault, FieldSlots, Framing, Head, HeadScan, ParsedHead, ResponseStyle};
use crate::limits;
use crate::model::Moment;
use crate::runtime;

/// Serves the connection until it ends.
pub(super) async fn run<S: Service>(core: Rc<Core<S>>, line: Rc<LineOf<S>>, permit: Permit) {
    let mut conversation = Conversation {
        core,
        line,
        input: Input::default(),
        scan: HeadScan::default(),
        head_began: None,
        needed: 0,
        body: None,
        continue_due: false,
        half_closed: false,
        dropped: 0,
        ready_receives: 0,
        _permit: permit,
    };
    if conversation.converse().await.is_ok() {
        conversation.close().await;
    }
}

/// What the task of a connection alone knows of it. Dropping it gives back what was not delivered,
/// on every way out.
struct Conversation<S: Service> {
    core: Rc<Core<S>>,
    line: Rc<LineOf<S>>,
    input: Input,
    scan: HeadScan,
    /// When the first byte of an incomplete head came.
    head_began: Option<Moment>,
    /// Bytes of head and body that the request in the read buffer has; 0 while unknown.
    needed: usize,
    /// The body that is on its way in a buffer of its own.
    body: Option<PendingBody>,
    /// The client waits for the interim answer before it sends the body.
    continue_due: bool,
    /// The client has closed its half: there is nothing more to receive.
    half_closed: bool,
    /// Bytes dropped behind the last request.
    dropped: usize,
    /// Receives in a row that did not have to wait.
    ready_receives: u32,
    _permit: Permit,
}

/// The connection is over, or not to be trusted any more: it is closed without further ado.
struct Gone;

/// Why no further request was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Bytes are missing.
    Bytes,
    /// Answers have to leave first.
    Room,
}

/// What one step of taking requests did.
enum Step {
    Served,
    Bytes,
}

impl<S: Service> Conversation<S> {
    async fn converse(&mut self) -> Result<(), Gone> {
        loop {
            let need = self.take_requests();
            self.flush().await?;
            let (can_take, has_open) = {
                let outbox = self.line.outbox.borrow();
                if outbox.is_finished() {
                    return Ok(());
                }
                if outbox.is_cut() {
                    return Err(Gone);
                }
                (outbox.can_take(), outbox.has_open())
            };
            if need == Need::Room && can_take {
                continue;
            }
            if has_open {
                self.wait_for_answer(need).await?;
            } else {
                self.read_on().await?;
            }
        }
    }

    /// Serves all requests that are complete and may be served.
    fn take_requests(&mut self) -> Need {
        let core = Rc::clone(&self.core);
        let mut slots = core.slots.borrow_mut();
        let need = loop {
            let outbox = self.line.outbox.borrow();
            if outbox.is_sealed() {
                self.dropped += self.input.unread().len();
                self.input.discard();
                self.body = None;
                self.head_began = None;
                break if self.dropped > limits::HEAD_BYTES_MAX {
                    Need::Room
                } else {
                    Need::Bytes
                };
            }
            if !outbox.can_take() {
                break Need::Room;
            }
            drop(outbox);
            match self.take_request(&mut slots) {
                Step::Served => self.head_began = None,
                Step::Bytes => break Need::Bytes,
            }
        };
        let partial = !self.input.is_empty() || self.body.is_some();
        self.line.partial.set(partial);
        if partial && self.body.is_none() && need == Need::Bytes && self.head_began.is_none() {
            self.head_began = Some(runtime::now());
        }
        self.send_continue();
        need
    }

    /// Serves the request that is next in the read buffer, if it is complete.
    fn take_request(&mut self, slots: &mut FieldSlots) -> Step {
        if self.body.is_some() {
            return self.take_pending_body(slots);
        }
        let unread = self.input.unread();
        if unread.is_empty() || unread.len() < self.needed {
            return Step::Bytes;
        }
        let (head, length) = match http::parse_head(unread, &mut self.scan, slots) {
            ParsedHead::Partial => return Step::Bytes,
            ParsedHead::Bad(fault) => return self.refuse(&fault, ResponseStyle::CLOSING),
            ParsedHead::Complete { head, length } => (head, length),
        };
        let max_body_bytes = self.core.settings.max_body_bytes;
        let body_bytes = match head.framing {
            Framing::None => 0,
            Framing::Length(bytes) if bytes > max_body_bytes => {
                let style = ResponseStyle::of(&head);
                return self.refuse(&Fault::BODY_TOO_LARGE, style);
            }
            Framing::Length(bytes) => bytes as usize,
            Framing::Chunked => {
                if self.is_turned_away(&head) {
                    return Step::Served;
                }
                self.continue_due = head.expect_continue;
                self.body = Some(PendingBody::chunked(&unread[..length], max_body_bytes));
                self.input.consume(length);
                return Step::Served;
            }
        };
        let total = length + body_bytes;
        if total <= unread.len() {
            let is_last = total == unread.len();
            let body = Body::Borrowed(&unread[length..total]);
            self.call(&head, body, is_last);
            self.needed = 0;
            self.continue_due = false;
            self.input.consume(total);
            return Step::Served;
        }
        if self.needed == 0 {
            if self.is_turned_away(&head) {
                return Step::Served;
            }
            self.continue_due = head.expect_continue;
        }
        if total <= limits::INLINE_REQUEST_BYTES_MAX {
            self.needed = total;
            return Step::Bytes;
        }
        self.body = Some(PendingBody::sized(&unread[..length], body_bytes));
        self.input.consume(length);
        Step::Served
    }

    /// Goes on with the body that has a buffer of its own.
    fn take_pending_body(&mut self, slots: &mut FieldSlots) -> Step {
        let Some(mut pending) = self.body.take() else {
            return Step::Bytes;
        };
        match pending.feed(&mut self.input) {
            Err(fault) => self.refuse(&fault, ResponseStyle::CLOSING),
            Ok(false) => {
                self.body = Some(pending);
                Step::Bytes
            }
            Ok(true) => {
                let (head_bytes, body) = pending.into_parts();
                let parsed = http::parse_head(&head_bytes, &mut HeadScan::default(), slots);
                let ParsedHead::Complete { head, .. } = parsed else {
                    unreachable!("the head was complete before");
                };
                self.continue_due = false;
                self.call(&head, Body::Owned(body), self.input.is_empty());
                Step::Served
            }
        }
    }

    /// Hands a complete request to the service. `is_last`: nothing has arrived behind it.
    fn call(&self, head: &Head<'_>, body: Body<'_>, is_last: bool) {
        let mut style = ResponseStyle::of(head);
        let ending = self.core.is_stopping() || self.line.expired.get().is_some();
        style.keep_alive &= !(ending && is_last);
        let mut draft = {
            let mut outbox = self.line.outbox.borrow_mut();
            if !style.keep_alive {
                outbox.seal();
            }
            outbox.begin_call(style)
        };
        let client = self.line.client(draft.request);
        let request = Request { head, body, style };
        let called = self.core.service().call(&request, client, &mut draft.bytes);
        self.line.outbox.borrow_mut().end_call(draft, called);
    }

    /// Answers what is no request that can be served; the last answer of the connection.
    fn refuse(&self, fault: &Fault, style: ResponseStyle) -> Step {
        let style = ResponseStyle {
            keep_alive: false,
            ..style
        };
        self.answer_last(style, |out| self.core.service().refuse(fault, style, out))
    }

    /// Whether the request was answered by its head, so that its body need not be received; then that was
    /// the last answer of the connection.
    fn is_turned_away(&self, head: &Head<'_>) -> bool {
        let style = ResponseStyle {
            keep_alive: false,
            ..ResponseStyle::of(head)
        };
        let mut answer = BytesMut::new();
        let is_turned_away = self.core.service().turn_away(head, style, &mut answer);
        if is_turned_away {
            self.answer_last(style, |out| out.extend_from_slice(&answer));
        }
        is_turned_away
    }

    fn answer_last(&self, style: ResponseStyle, write: impl FnOnce(&mut BytesMut)) -> Step {
        let mut outbox = self.line.outbox.borrow_mut();
        outbox.seal();
        let mut draft = outbox.begin_call(style);
        drop(outbox);
        write(&mut draft.bytes);
        self.line
            .outbox
            .borrow_mut()
            .end_call(draft, Called::Answered(None));
        Step::Served
    }

    /// Writes the interim answer once everything before it is answered, unless the body has begun
    /// to arrive anyway (RFC 9110 section 10.1.1).
    fn send_continue(&mut self) {
        if !self.continue_due {
            return;
        }
        let mut outbox = self.line.outbox.borrow_mut();
        let begun = match &self.body {
            Some(body) => body.has_begun(),
            None => false,
        };
        if begun || outbox.is_sealed() {
            self.continue_due = false;
        } else if outbox.is_settled() {
            outbox.push_interim(http::CONTINUE);
            self.continue_due = false;
        }
    }

    /// Writes everything that may leave, the steps of a streamed answer included.
    async fn flush(&mut self) -> Result<(), Gone> {
        loop {
            let bytes = self.line.outbox.borrow_mut().take_out();
            if let Some(bytes) = bytes {
                self.write(bytes).await?;
                continue;
            }
            let step = self.line.outbox.borrow_mut().begin_step();
            let Some((mut listing, mut bytes)) = step else {
                return Ok(());
            };
            let before = bytes.len();
            let more = self.core.service().advance(&mut listing, &mut bytes);
            let listing = more.then_some(listing);
            self.line
                .outbox
                .borrow_mut()
                .end_step(listing, before, bytes);
            // A client that reads as fast as the steps are written must not keep the core.
            self.line.waiting.set(Waiting::Writing);
            runtime::next_turn().await;
            self.line.waiting.set(Waiting::Reading);
        }
    }

    async fn write(&mut self, mut bytes: bytes::BytesMut) -> Result<(), Gone> {
        let mut sent = 0;
        self.line.waiting.set(Waiting::Writing);
        while sent < bytes.len() {
            let end = self.core.write_end(runtime::now());
            self.core.set_deadline(&self.line, Limit::Write, end);
            let (result, returned) = self.line.stream.write(bytes, sent).await;
            bytes = returned;
            match result {
                Ok(0) => return Err(Gone),
                Ok(count) => {
                    sent += count;
                    self.line.outbox.borrow_mut().accept(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        self.line.waiting.set(Waiting::Reading);
        self.line.deadline.clear();
        self.line.outbox.borrow_mut().recycle(bytes);
        Ok(())
    }

    /// Receives while nothing is open. The end of what the client sends is the end of the
    /// connection, because everything is answered.
    async fn read_on(&mut self) -> Result<(), Gone> {
        self.line.waiting.set(Waiting::Reading);
        let (limit, at) = self.read_deadline();
        self.core.set_deadline(&self.line, limit, at);
        if self.receive_fairly().await? > 0 {
            return Ok(());
        }
        match self.line.expired.get() {
            Some(Limit::Request) if self.line.partial.get() => {
                self.time_out();
                Ok(())
            }
            None if self.refuse_malformed() => Ok(()),
            _ => Err(Gone),
        }
    }

    /// Receives; a connection that never has to wait for its client stands back now and then.
    async fn receive_fairly(&mut self) -> Result<usize, Gone> {
        let mut waited = false;
        let received = {
            let mut receive = pin!(self.receive());
            poll_fn(|context| {
                let polled = receive.as_mut().poll(context);
                waited |= polled.is_pending();
                polled
            })
            .await
        };
        self.ready_receives = if waited { 0 } else { self.ready_receives + 1 };
        if self.ready_receives == limits::READY_RECEIVES_MAX {
            self.ready_receives = 0;
            runtime::next_turn().await;
        }
        received
    }

    /// What a receive with nothing open may take.
    fn read_deadline(&self) -> (Limit, Moment) {
        let settings = &self.core.settings;
        let now = runtime::now();
        let (limit, at) = if self.line.partial.get() {
            let since = self.head_began.filter(|_| !self.in_body()).unwrap_or(now);
            (Limit::Request, since.after_ms(settings.head_timeout_ms))
        } else {
            (Limit::Idle, now.after_ms(settings.idle_timeout_ms))
        };
        let drain_end = self.core.drain_end(&self.line);
        if drain_end < at {
            (Limit::Drain, drain_end)
        } else {
            (limit, at)
        }
    }

    /// Whether the head of the request that is arriving is complete.
    fn in_body(&self) -> bool {
        self.body.is_some() || self.needed > 0
    }

    /// Waits, with a request open, for its answer or for a sign of the client. No receive is
    /// outstanding meanwhile. If a request is parked, what ends the client's sending ends the
    /// connection: a client that closes its half does not wait for messages. It does wait for the
    /// answers to requests that were only forwarded.
    async fn wait_for_answer(&mut self, need: Need) -> Result<(), Gone> {
        self.input.release(&self.core.pool);
        self.line.outbox.borrow_mut().release();
        self.line.waiting.set(Waiting::Answer);
        self.line.deadline.clear();
        if self.line.partial.get() && need == Need::Bytes {
            let (limit, at) = self.read_deadline();
            self.core.set_deadline(&self.line, limit, at);
        }
        // A socket whose end was received stays readable for ever.
        let readable = if need == Need::Bytes && !self.half_closed {
            let mut readable = pin!(self.line.stream.readable());
            poll_fn(|context| {
                if self.line.wake.poll_notified(context).is_ready() {
                    return Poll::Ready(Ok(false));
                }
                readable.as_mut().poll(context).map_ok(|()| true)
            })
            .await
        } else {
            self.line.wake.notified().await;
            Ok(false)
        };
        match readable {
            Ok(true) => {
                // As it is now: an answer given while the end is received does not undo the end.
                let has_parked = self.line.outbox.borrow().has_parked();
                if self.receive().await? == 0 {
                    if has_parked {
                        return Err(Gone);
                    }
                    self.take_half_close();
                }
            }
            Ok(false) => self.look_at_clock(),
            Err(_) => return Err(Gone),
        }
        self.line.waiting.set(Waiting::Reading);
        Ok(())
    }

    /// The client has closed its half with nothing but forwarded requests open: they are answered,
    /// without waiting for messages.
    fn take_half_close(&mut self) {
        self.half_closed = true;
        self.refuse_malformed();
        let requests = {
            let mut outbox = self.line.outbox.borrow_mut();
            outbox.seal();
            outbox.unsettled()
        };
        for request in requests {
            // To hurry one may have answered the next.
            let is_open = self.line.outbox.borrow().is_open(request);
            if is_open {
                self.core.service().hurry(self.line.client(request));
            }
        }
    }

    /// Ends the request that is arriving behind an open one if it took too long.
    fn look_at_clock(&mut self) {
        match self.line.expired.take() {
            Some(Limit::Request) if self.line.outbox.borrow().can_take() => self.time_out(),
            Some(_) => self.line.outbox.borrow_mut().seal(),
            None => {}
        }
    }

    fn time_out(&mut self) {
        if self.refuse_malformed() {
            return;
        }
        self.refuse(&Fault::REQUEST_TIMEOUT, ResponseStyle::CLOSING);
        self.input.discard();
        self.body = None;
    }

    /// Refuses a head that will not be completed if what there is of it is malformed: one that comes in
    /// pieces is not judged with each of them.
    fn refuse_malformed(&mut self) -> bool {
        if self.in_body() || self.line.outbox.borrow().is_sealed() {
            return false;
        }
        let core = Rc::clone(&self.core);
        let mut slots = core.slots.borrow_mut();
        let mut scan = HeadScan::default();
        let ParsedHead::Bad(fault) = http::parse_head(self.input.unread(), &mut scan, &mut slots)
        else {
            return false;
        };
        self.refuse(&fault, ResponseStyle::CLOSING);
        self.input.discard();
        true
    }

    /// Receives, into the buffer where the bytes belong; 0 at the end of what the client sends.
    async fn receive(&mut self) -> Result<usize, Gone> {
        loop {
            match self.receive_once().await {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    async fn receive_once(&mut self) -> io::Result<usize> {
        let sealed = self.line.outbox.borrow().is_sealed();
        let direct = match &mut self.body {
            Some(body) if self.input.is_empty() && !sealed => body.lend(),
            _ => None,
        };
        if let Some((bytes, bytes_max)) = direct {
            self.input.release(&self.core.pool);
            let (result, bytes) = self.line.stream.read(bytes, bytes_max).await;
            if let Some(body) = &mut self.body {
                body.restore(bytes);
            }
            result
        } else {
            let bytes = self.input.lend(&self.core.pool, self.needed);
            let (result, bytes) = self.line.stream.read(bytes, usize::MAX).await;
            self.input.restore(bytes, *result.as_ref().unwrap_or(&0));
            result
        }
    }

    /// Everything has left: closes so that the client can read it.
    async fn close(&mut self) {
        self.line.waiting.set(Waiting::Lingering);
        self.line.expired.set(None);
        let end = runtime::now().after_ms(limits::LINGER_MS);
        self.core.set_deadline(&self.line, Limit::Linger, end);
        let buffer = self.core.pool.take();
        let line = &self.line;
        let buffer = linger(&line.stream, buffer, || line.expired.get().is_some()).await;
        self.core.pool.give(buffer);
    }
}

impl<S: Service> Drop for Conversation<S> {
    fn drop(&mut self) {
        self.core.unregister(self.line.key);
        self.input.discard();
        self.input.release(&self.core.pool);
        let remains = self.line.outbox.borrow_mut().tear_down();
        for claim in remains.claims {
            self.core.service().undelivered(claim);
        }
        for request in remains.open {
            self.core.service().abandon(self.line.client(request));
        }
    }
}
