//! A service whose paths show what the connection does: `/echo`, `/park?name`, `/wake?name`,
//! `/big?bytes` (with a claim), `/list?steps`, `/crumbs?steps` (of one byte each),
//! `/sleepless` (answered by a timer), `/forward?name` (woken like a parked one; when `willing` is
//! hurried all that are forwarded are answered, when `unwilling` is hurried it is dropped),
//! `/forward_ms?milliseconds` (answered by a timer), `/drop?name`.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use queen::http::{self, Fault, ResponseHead, ResponseStyle};
use queen::model::ClientRef;
use queen::net::{Body, Called, Connections, Request, Service};
use queen::runtime;

/// What happened, as the test sees it.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Events>>);

/// What happened so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub(crate) calls: usize,
    pub(crate) owned_bodies: usize,
    pub(crate) parked: usize,
    pub(crate) forwarded: usize,
    /// Names of forwarded requests, in the order they were hurried.
    pub(crate) hurried: Vec<String>,
    pub(crate) abandoned: usize,
    pub(crate) undelivered: Vec<usize>,
    pub(crate) open: usize,
    /// Steps of listings since another task ran, and the most of them.
    pub(crate) steps_in_a_row: usize,
    pub(crate) steps_in_a_row_max: usize,
}

impl Log {
    pub(crate) fn get(&self) -> Events {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut Events)) {
        change(&mut self.0.lock().unwrap());
    }
}

pub(crate) struct TestService {
    connections: Connections<TestService>,
    parked: RefCell<Vec<(String, ClientRef)>>,
    forwarded: RefCell<Vec<(String, ClientRef)>>,
    log: Log,
}

pub(crate) struct Listing {
    steps: usize,
    step_bytes: usize,
    style: ResponseStyle,
}

/// Bytes of one step of a listing.
pub(crate) const STEP_BYTES: usize = 100_000;

impl TestService {
    pub(crate) fn new(connections: &Connections<TestService>, log: Log) -> TestService {
        TestService {
            connections: connections.clone(),
            parked: RefCell::default(),
            forwarded: RefCell::default(),
            log,
        }
    }

    /// Answers every parked request, as a stopping broker does.
    pub(crate) fn release_all(&self) {
        let parked = self.parked.take();
        for (_, client) in parked {
            self.log.note(|events| events.parked -= 1);
            assert!(self.answer(client, b"stopping"));
        }
    }

    fn wake(&self, name: &str) -> bool {
        if let Some(client) = take(&self.parked, |parked, _| parked == name) {
            self.log.note(|events| events.parked -= 1);
            return self.answer(client, b"woken");
        }
        let client = self.take_forwarded(|forwarded, _| forwarded == name);
        client.is_some_and(|client| self.answer(client, b"woken"))
    }

    fn drop_request(&self, name: &str) -> bool {
        let client = self.take_forwarded(|forwarded, _| forwarded == name);
        let Some(client) = client else {
            return false;
        };
        self.connections.drop_request(client);
        self.assert_gone(client);
        true
    }

    fn forward(&self, name: &str, client: ClientRef) -> Called<usize, Listing> {
        self.forwarded.borrow_mut().push((name.to_owned(), client));
        self.log.note(|events| events.forwarded += 1);
        Called::Forwarded
    }

    fn forward_ms(&self, query: &str, client: ClientRef) -> Called<usize, Listing> {
        let connections = self.connections.clone();
        let delay = Duration::from_millis(query.parse().unwrap());
        runtime::spawn(async move {
            runtime::sleep(delay).await;
            let service = connections.service();
            let taken = service.take_forwarded(|_, forwarded| forwarded == client);
            if let Some(client) = taken {
                assert!(service.answer(client, b"forwarded"));
            }
        });
        self.forward(query, client)
    }

    /// Answers every forwarded request, the latest first.
    fn answer_forwarded(&self) {
        let forwarded = self.forwarded.take();
        self.log.note(|events| events.forwarded = 0);
        for (_, client) in forwarded.into_iter().rev() {
            assert!(self.answer(client, b"woken"));
        }
    }

    fn take_forwarded(&self, is_it: impl Fn(&str, ClientRef) -> bool) -> Option<ClientRef> {
        let taken = take(&self.forwarded, is_it);
        if taken.is_some() {
            self.log.note(|events| events.forwarded -= 1);
        }
        taken
    }

    /// Nothing that is said of a request that is gone has an effect.
    fn assert_gone(&self, client: ClientRef) {
        self.connections.drop_request(client);
        let answered = self
            .connections
            .answer(client, |_, _| unreachable!("it is gone"));
        assert!(!answered);
    }

    fn answer(&self, client: ClientRef, body: &[u8]) -> bool {
        self.connections.answer(client, |style, out| {
            write(out, 200, style, body);
            Some(body.len())
        })
    }
}

/// Takes the first request that `is_it`.
fn take(
    requests: &RefCell<Vec<(String, ClientRef)>>,
    is_it: impl Fn(&str, ClientRef) -> bool,
) -> Option<ClientRef> {
    let mut requests = requests.borrow_mut();
    let position = requests
        .iter()
        .position(|(name, client)| is_it(name, *client))?;
    Some(requests.remove(position).1)
}

fn write(out: &mut BytesMut, status: u16, style: ResponseStyle, body: &[u8]) {
    http::write_response(out, &head(status, style), |out| out.put_slice(body));
}

fn head(status: u16, style: ResponseStyle) -> ResponseHead {
    ResponseHead::new(status, "text/plain", style)
}

impl Service for TestService {
    type Claim = usize;
    type Listing = Listing;

    fn call(
        &self,
        request: &Request<'_>,
        client: ClientRef,
        out: &mut BytesMut,
    ) -> Called<usize, Listing> {
        self.log.note(|events| events.calls += 1);
        let query = std::str::from_utf8(request.head.query.unwrap_or_default()).unwrap();
        let style = request.style;
        match request.head.path {
            b"/echo" => {
                let body: &[u8] = match &request.body {
                    Body::Borrowed(bytes) => bytes,
                    Body::Owned(bytes) => {
                        self.log.note(|events| events.owned_bodies += 1);
                        bytes
                    }
                };
                write(out, 200, style, body);
                Called::Answered(None)
            }
            b"/park" => {
                self.parked.borrow_mut().push((query.to_owned(), client));
                self.log.note(|events| events.parked += 1);
                Called::Parked
            }
            b"/sleepless" => {
                let connections = self.connections.clone();
                runtime::spawn(async move {
                    runtime::sleep(Duration::from_millis(5)).await;
                    connections.answer(client, |style, out| {
                        write(out, 200, style, b"a moment later");
                        None
                    });
                });
                Called::Parked
            }
            b"/forward" => self.forward(query, client),
            b"/forward_ms" => self.forward_ms(query, client),
            b"/wake" | b"/drop" => {
                let is_done = if request.head.path == b"/wake" {
                    self.wake(query)
                } else {
                    self.drop_request(query)
                };
                write(out, 200, style, if is_done { b"yes" } else { b"no" });
                Called::Answered(None)
            }
            b"/big" => {
                let count = query.parse().unwrap();
                write(out, 200, style, &vec![b'x'; count]);
                Called::Answered(Some(count))
            }
            b"/list" | b"/crumbs" => {
                http::start_streamed_response(out, &head(200, style));
                let small = request.head.path == b"/crumbs";
                Called::Streaming(Some(Listing {
                    steps: query.parse().unwrap(),
                    step_bytes: if small { 1 } else { STEP_BYTES },
                    style,
                }))
            }
            _ => {
                write(out, 404, style, b"");
                Called::Answered(None)
            }
        }
    }

    fn advance(&self, listing: &mut Listing, out: &mut BytesMut) -> bool {
        if listing.steps == 0 {
            http::end_streamed_response(out, listing.style);
            return false;
        }
        listing.steps -= 1;
        self.log.note(|events| {
            events.steps_in_a_row += 1;
            events.steps_in_a_row_max = events.steps_in_a_row_max.max(events.steps_in_a_row);
        });
        let log = self.log.clone();
        runtime::spawn(async move { log.note(|events| events.steps_in_a_row = 0) });
        let step_bytes = listing.step_bytes;
        http::write_chunk(out, listing.style, |out| out.put_bytes(b'#', step_bytes));
        true
    }

    fn abandon(&self, client: ClientRef) {
        if take(&self.parked, |_, parked| parked == client).is_some() {
            self.log.note(|events| events.parked -= 1);
        } else {
            let forwarded = self.take_forwarded(|_, forwarded| forwarded == client);
            assert!(forwarded.is_some(), "abandoned for nothing");
        }
        self.assert_gone(client);
        self.log.note(|events| events.abandoned += 1);
    }

    fn hurry(&self, client: ClientRef) {
        let name = self
            .forwarded
            .borrow()
            .iter()
            .find_map(|(name, forwarded)| (*forwarded == client).then(|| name.clone()))
            .expect("hurried for nothing");
        self.log.note(|events| events.hurried.push(name.clone()));
        match name.as_str() {
            "willing" => self.answer_forwarded(),
            "unwilling" => assert!(self.drop_request(&name)),
            _ => {}
        }
    }

    fn undelivered(&self, claim: usize) {
        self.log.note(|events| events.undelivered.push(claim));
    }

    fn refuse(&self, fault: &Fault, style: ResponseStyle, out: &mut BytesMut) {
        write(out, fault.status, style, fault.code.as_bytes());
    }
}
