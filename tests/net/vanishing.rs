//! Clients that are gone before they are answered.

use crate::client::{Client, get};
use crate::server::{SETTINGS, Server, on_each_driver};

type End = fn(Client) -> Option<Client>;

const ENDS: [(&str, End); 3] = [
    ("FIN", |client| {
        drop(client);
        None
    }),
    ("RST", |client| {
        client.reset();
        None
    }),
    ("half-close", |client| {
        client.half_close();
        Some(client)
    }),
];

/// Parks `first`, ends the connection in every way and expects that the request is given up.
fn each_end(first: &[u8], calls: usize, undelivered: &[usize]) {
    on_each_driver(SETTINGS, |server| {
        for (round, (name, end)) in (1..).zip(ENDS) {
            let mut client = server.client();
            client.send(first);
            server.until("it is parked", |events| {
                events.parked == 1 && events.calls == round * calls
            });
            let left = end(client);
            server.until(name, |events| events.abandoned == round && events.open == 0);
            let expected: Vec<usize> = undelivered.repeat(round);
            assert_eq!(server.log.get().undelivered, expected);
            if let Some(mut client) = left {
                client.assert_closed();
            }
        }
    });
}

#[test]
fn a_parked_client_that_is_gone_is_abandoned() {
    each_end(&get("/park?a"), 1, &[]);
}

#[test]
fn bytes_behind_the_parked_request_do_not_hide_the_end() {
    let requests = [get("/park?a"), get("/echo"), get("/big?100")].concat();
    each_end(&requests, 3, &[100]);
    let partial = [get("/park?a"), b"GET /echo HT".to_vec()].concat();
    each_end(&partial, 1, &[]);
}

#[test]
fn bytes_that_follow_later_do_not_hide_the_end() {
    on_each_driver(SETTINGS, |server| {
        for (round, (name, end)) in (1..).zip(ENDS) {
            let mut client = server.client();
            client.send(&get("/park?a"));
            server.until("it is parked", |events| events.parked == 1);
            client.send(&[get("/echo"), get("/big?7")].concat());
            let left = end(client);
            server.until(name, |events| events.abandoned == round && events.open == 0);
            drop(left);
        }
    });
}

#[test]
fn an_end_in_the_same_breath_is_seen() {
    on_each_driver(SETTINGS, |server| {
        for round in 1..=20 {
            let mut client = server.client();
            client.send(&get("/park?a"));
            client.half_close();
            server.until("it is abandoned", |events| {
                events.calls == round && events.abandoned == round && events.open == 0
            });
        }
    });
}

#[test]
fn a_closing_pop_is_watched_too() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(b"GET /park?a HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\nrubbish");
        server.until("it is parked", |events| events.parked == 1);
        drop(client);
        server.until("it is abandoned", |events| {
            events.abandoned == 1 && events.open == 0
        });
    });
}

#[test]
fn what_was_taken_for_a_vanished_client_is_given_back() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        let count = 64 * 1024 * 1024;
        client.send(&get(&format!("/big?{count}")));
        server.until("it is called", |events| events.calls == 1);
        client.reset();
        server.until("it is given back", |events| {
            events.undelivered == [count] && events.open == 0
        });
    });
}

#[test]
fn what_was_written_is_not_given_back() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        assert_eq!(client.ask(&get("/big?1000")).body.len(), 1_000);
        client.send(&get("/park?a"));
        server.until("it is parked", |events| events.parked == 1);
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        client.reset();
        server.until("it is closed", |events| events.open == 0);
        assert!(server.log.get().undelivered.is_empty());
        assert_eq!(server.log.get().abandoned, 0);
    });
}

#[test]
fn a_place_in_the_registry_is_not_confused_with_its_next_tenant() {
    on_each_driver(SETTINGS, |server: &Server| {
        for _ in 0..50 {
            let mut gone = server.client();
            gone.send(&get("/park?gone"));
            server.until("it is parked", |events| events.parked == 1);
            drop(gone);
            server.until("it is abandoned", |events| events.parked == 0);
            let mut client = server.client();
            client.send(&get("/park?here"));
            server.until("it is parked", |events| events.parked == 1);
            let mut other = server.client();
            assert_eq!(other.ask(&get("/wake?gone")).body, b"no");
            assert_eq!(other.ask(&get("/wake?here")).body, b"yes");
            assert_eq!(client.response().body, b"woken");
        }
    });
}
