//! A service whose paths show what the connection does: `/echo`, `/park?name`, `/wake?name`,
//! `/big?bytes` (with a claim), `/list?steps`, `/crumbs?steps` (of one byte each),
//! `/sleepless` (answered by a timer).

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
            log,
        }
    }

    /// Answers every parked request, as a stopping broker does.
    pub(crate) fn release_all(&self) {
        let parked = self.parked.take();
        for (_, client) in parked {
            assert!(self.answer(client, b"stopping"));
        }
    }

    fn wake(&self, name: &str) -> bool {
        let position = self
            .parked
            .borrow()
            .iter()
            .position(|(parked, _)| parked == name);
        let Some(position) = position else {
            return false;
        };
        let (_, client) = self.parked.borrow_mut().remove(position);
        self.answer(client, b"woken")
    }

    fn answer(&self, client: ClientRef, body: &[u8]) -> bool {
        self.log.note(|events| events.parked -= 1);
        self.connections.answer(client, |style, out| {
            write(out, 200, style, body);
            Some(body.len())
        })
    }
}

fn write(out: &mut BytesMut, status: u16, style: ResponseStyle, body: &[u8]) {
    http::write_response(out, &head(status, style), |out| out.put_slice(body));
}

fn head(status: u16, style: ResponseStyle) -> ResponseHead {
    ResponseHead {
        status,
        content_type: "text/plain",
        retry_after_s: None,
        allow: None,
        style,
    }
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
            b"/wake" => {
                let woken: &[u8] = if self.wake(query) { b"yes" } else { b"no" };
                write(out, 200, style, woken);
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
                Called::Streaming(Listing {
                    steps: query.parse().unwrap(),
                    step_bytes: if small { 1 } else { STEP_BYTES },
                    style,
                })
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
        let before = self.parked.borrow().len();
        self.parked
            .borrow_mut()
            .retain(|(_, parked)| *parked != client);
        assert_eq!(self.parked.borrow().len() + 1, before);
        assert!(
            !self
                .connections
                .answer(client, |_, _| unreachable!("it is gone"))
        );
        self.log.note(|events| {
            events.parked -= 1;
            events.abandoned += 1;
        });
    }

    fn undelivered(&self, claim: usize) {
        self.log.note(|events| events.undelivered.push(claim));
    }

    fn refuse(&self, fault: &Fault, style: ResponseStyle, out: &mut BytesMut) {
        write(out, fault.status, style, fault.code.as_bytes());
    }
}
