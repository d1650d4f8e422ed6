//! Requests that another core answers: in their place, and even if the client has closed its half.

use crate::client::{Client, get, post};
use crate::server::{SETTINGS, Server, on_each_driver};

use queen::net::Settings;

fn wake(server: &Server, name: &str) {
    let woken = server.client().ask(&get(&format!("/wake?{name}")));
    assert_eq!(woken.body, b"yes", "{name}");
}

/// Sends `requests`, closes the half and waits until `names` were hurried in all.
fn half_close_behind(server: &Server, requests: &[Vec<u8>], names: &[&str]) -> Client {
    let mut client = server.client();
    client.send(&requests.concat());
    client.half_close();
    server.until("all are hurried", |events| events.hurried == names);
    client
}

#[test]
fn immediate_forwarded_and_parked_answers_leave_in_order() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        let requests = [
            post("/echo", b"1"),
            get("/forward?a"),
            post("/echo", b"2"),
            get("/park?b"),
            get("/forward?c"),
            get("/forward_ms?1"),
            get("/crumbs?30"),
        ];
        client.send(&[requests.concat(), post("/echo", b"3")].concat());
        assert_eq!(client.response().body, b"1");
        server.until("the timer has answered", |events| {
            events.calls == 7 && events.forwarded == 2
        });
        wake(server, "c");
        wake(server, "b");
        client.assert_silent();
        wake(server, "a");
        for expected in [&b"woken"[..], b"2", b"woken", b"woken", b"forwarded"] {
            assert_eq!(client.response().body, expected);
        }
        assert!(client.head().contains("transfer-encoding: chunked"));
        client.half_close();
        let rest = client.rest();
        assert_eq!(rest.iter().filter(|byte| **byte == b'#').count(), 30);
        assert!(rest.ends_with(b"3"));
        assert!(server.log.get().hurried.is_empty());
    });
}

#[test]
fn requests_that_come_behind_a_forwarded_one_are_served() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&get("/forward?a"));
        server.until("it is forwarded", |events| events.forwarded == 1);
        for byte in post("/echo", b"slow") {
            client.send(&[byte]);
        }
        client.send(&get("/wake?a"));
        for expected in [&b"woken"[..], b"slow", b"yes"] {
            assert_eq!(client.response().body, expected);
        }
        for _ in 0..20 {
            assert_eq!(client.ask(&get("/forward_ms?0")).body, b"forwarded");
        }
    });
}

#[test]
fn a_half_closed_client_is_answered_then_closed() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        let (a, b) = (get("/forward?a"), get("/forward?b"));
        client.send(&[post("/echo", b"1"), a, post("/echo", b"2"), b].concat());
        server.until("both are forwarded", |events| events.forwarded == 2);
        assert_eq!(client.response().body, b"1");
        client.half_close();
        server.until("both are hurried", |events| events.hurried == ["a", "b"]);
        client.assert_silent();
        wake(server, "b");
        client.assert_silent();
        wake(server, "a");
        assert_eq!(client.response().body, b"woken");
        assert_eq!(client.response().body, b"2");
        let last = client.response();
        assert_eq!(last.body, b"woken");
        client.assert_closed();
        server.until("it is closed", |events| events.open == 0);
        let events = server.log.get();
        assert_eq!((events.hurried.len(), events.abandoned), (2, 0));
        assert!(events.undelivered.is_empty());
    });
}

#[test]
fn an_end_in_the_same_breath_is_a_half_close_too() {
    on_each_driver(SETTINGS, |server| {
        for round in 1..=20 {
            let mut client = server.client();
            client.send(&get("/forward_ms?2"));
            client.half_close();
            assert_eq!(client.response().body, b"forwarded");
            client.assert_closed();
            server.until("it is closed", |events| events.open == 0);
            let events = server.log.get();
            assert_eq!((events.calls, events.abandoned), (round, 0));
            assert!(events.hurried.len() <= round);
        }
    });
}

#[test]
fn what_is_incomplete_at_a_half_close_is_forgotten() {
    on_each_driver(SETTINGS, |server| {
        let partial = [
            b"GET /ec".to_vec(),
            post("/echo", &[b'b'; 100])[..100].to_vec(),
            post("/echo", &[b'b'; 100_000])[..50_000].to_vec(),
            b"POST /echo HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\n\
              transfer-encoding: chunked\r\n\r\n"
                .to_vec(),
        ];
        for (round, partial) in (1..).zip(partial) {
            let names = ["a"].repeat(round);
            let mut client = half_close_behind(server, &[get("/forward?a"), partial], &names);
            wake(server, "a");
            let response = client.response();
            assert_eq!(response.body, b"woken");
            assert!(response.head.contains("connection: close"));
            client.assert_closed();
        }
    });
}

#[test]
fn a_request_may_be_answered_while_it_is_hurried() {
    on_each_driver(SETTINGS, |server| {
        let names = ["a", "willing", "b", "c"];
        let requests = names.map(|name| get(&format!("/forward?{name}")));
        // Those behind it are answered before it is their turn to be hurried.
        let mut client = half_close_behind(server, &requests, &names[..2]);
        for _ in names {
            assert_eq!(client.response().body, b"woken");
        }
        client.assert_closed();
        assert_eq!(server.log.get().hurried, names[..2]);
    });
}

#[test]
fn a_dropped_request_ends_the_connection_behind_what_precedes_it() {
    on_each_driver(SETTINGS, |server| {
        let requests = [
            get("/forward?a"),
            get("/forward?b"),
            get("/big?100"),
            get("/forward?c"),
        ];
        let mut client = half_close_behind(server, &requests, &["a", "b", "c"]);
        assert_eq!(server.client().ask(&get("/drop?b")).body, b"yes");
        client.assert_silent();
        assert_eq!(server.log.get().abandoned, 0);
        wake(server, "a");
        let response = client.response();
        assert_eq!(response.body, b"woken");
        assert!(response.head.contains("connection: close"));
        client.assert_closed();
        server.until("it is closed", |events| {
            events.abandoned == 1 && events.forwarded == 0 && events.open == 0
        });
        assert_eq!(server.log.get().undelivered, [100]);
    });
}

#[test]
fn a_request_may_be_dropped_while_it_is_hurried() {
    on_each_driver(SETTINGS, |server| {
        let requests = [
            post("/echo", b"1"),
            get("/forward?unwilling"),
            get("/forward?willing"),
        ];
        let mut client = half_close_behind(server, &requests, &["unwilling", "willing"]);
        assert_eq!(client.response().body, b"1");
        client.assert_closed();
        server.until("it is closed", |events| events.open == 0);
        let events = server.log.get();
        assert_eq!((events.abandoned, events.forwarded), (0, 0));
        assert_eq!(events.undelivered, [b"woken".len()]);
    });
}

#[test]
fn a_reset_abandons_what_is_forwarded() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&[get("/forward?a"), get("/big?100"), get("/forward?b")].concat());
        server.until("both are forwarded", |events| events.forwarded == 2);
        client.reset();
        server.until("both are abandoned", |events| {
            events.abandoned == 2 && events.open == 0
        });
        let events = server.log.get();
        assert_eq!(
            (&events.undelivered[..], events.hurried.len()),
            (&[100][..], 0)
        );
    });
}

#[test]
fn a_reset_after_a_half_close_shows_at_the_write() {
    on_each_driver(SETTINGS, |server| {
        let requests = [get("/forward?a"), get("/forward?b")];
        let client = half_close_behind(server, &requests, &["a", "b"]);
        client.reset();
        wake(server, "a");
        server.until("the rest is abandoned", |events| {
            events.abandoned == 1 && events.forwarded == 0 && events.open == 0
        });
        assert_eq!(server.log.get().undelivered, [b"woken".len()]);
    });
}

#[test]
fn a_half_close_with_a_parked_request_too_ends_everything() {
    on_each_driver(SETTINGS, |server| {
        for (round, requests) in (1..).zip([
            [get("/forward?a"), get("/park?b")],
            [get("/park?b"), get("/forward?a")],
        ]) {
            let mut client = server.client();
            client.send(&requests.concat());
            client.half_close();
            server.until("both are abandoned", |events| {
                events.abandoned == 2 * round && events.open == 0
            });
            client.assert_closed();
            assert!(server.log.get().hurried.is_empty());
        }
        // One that was parked and is answered does not count.
        let mut client = server.client();
        client.send(&[get("/forward?a"), get("/park?b")].concat());
        server.until("one is parked", |events| events.parked == 1);
        wake(server, "b");
        client.half_close();
        server.until("the other is hurried", |events| events.hurried == ["a"]);
        wake(server, "a");
        assert_eq!(client.response().body, b"woken");
        assert_eq!(client.response().body, b"woken");
        client.assert_closed();
    });
}

#[test]
fn a_bounded_number_waits_behind_a_forwarded_request() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&[get("/forward?a"), post("/echo", b"e").repeat(200)].concat());
        client.half_close();
        server.until("64 wait", |events| events.calls == 64);
        client.assert_silent();
        assert_eq!(server.log.get().calls, 64);
        // The end is behind what is not read.
        assert!(server.log.get().hurried.is_empty());
        wake(server, "a");
        assert_eq!(client.response().body, b"woken");
        for _ in 0..200 {
            assert_eq!(client.response().body, b"e");
        }
        client.assert_closed();

        let mut client = server.client();
        let before = server.log.get().calls;
        client.send(&get("/forward?b").repeat(100));
        server.until("64 are forwarded", |events| events.forwarded == 64);
        client.assert_silent();
        assert_eq!(server.log.get().calls, before + 64);
        for round in 0..100 {
            server.until("there is one", |events| events.forwarded > 0);
            wake(server, "b");
            assert_eq!(client.response().body, b"woken", "{round}");
        }

        let before = server.log.get().calls;
        client.send(&[get("/forward?c"), get("/big?300000").repeat(10)].concat());
        server.until("1 MiB waits", |events| events.calls == before + 5);
        client.assert_silent();
        assert_eq!(server.log.get().calls, before + 5);
        wake(server, "c");
        assert_eq!(client.response().body, b"woken");
        for _ in 0..10 {
            assert_eq!(client.response().body.len(), 300_000);
        }
    });
}

#[test]
fn closing_requests_may_be_forwarded() {
    on_each_driver(SETTINGS, |server| {
        for request in [
            &b"GET /forward_ms?20 HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\nrubbish\n\n"[..],
            b"GET /forward_ms?20 HTTP/1.0\r\n\r\n",
        ] {
            for is_half_closed in [false, true] {
                let mut client = server.client();
                client.send(&post("/echo", b"1"));
                client.send(request);
                if is_half_closed {
                    client.half_close();
                }
                assert_eq!(client.response().body, b"1");
                let response = client.response();
                assert_eq!(response.body, b"forwarded");
                assert!(response.head.contains("connection: close"));
                client.assert_closed();
            }
        }
        let mut client = server.client();
        client.send(&[get("/forward?a"), b"RUBBISH\n\n".to_vec()].concat());
        server.until("it is forwarded", |events| events.forwarded == 1);
        wake(server, "a");
        assert_eq!(client.response().body, b"woken");
        assert_eq!(client.response().status, 400);
        client.assert_closed();
        assert_eq!(server.log.get().abandoned, 0);
    });
}

#[test]
fn a_client_is_told_to_go_on_behind_a_forwarded_answer() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        for framing in ["content-length: 100000", "transfer-encoding: chunked"] {
            let head = format!(
                "POST /echo HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\n{framing}\r\n\r\n"
            );
            client.send(&[get("/forward?a"), head.into_bytes()].concat());
            server.until("it is forwarded", |events| events.forwarded == 1);
            client.assert_silent();
            wake(server, "a");
            assert_eq!(client.response().body, b"woken");
            assert_eq!(client.head(), "http/1.1 100 continue\r\n\r\n");
            if framing.starts_with("content-length") {
                assert_eq!(client.ask(&[b'b'; 100_000]).body.len(), 100_000);
            } else {
                assert_eq!(client.ask(b"1\r\nz\r\n0\r\n\r\n").body, b"z");
            }
        }
    });
}

#[test]
fn a_forwarded_request_has_no_deadline_and_a_partial_one_behind_it_has() {
    let settings = Settings {
        head_timeout_ms: 200,
        idle_timeout_ms: 200,
        ..SETTINGS
    };
    on_each_driver(settings, |server| {
        let mut whole = server.client();
        whole.send(&get("/forward_ms?600"));
        let mut partial = server.client();
        partial.send(&[get("/forward_ms?600"), b"GET /ec".to_vec()].concat());
        assert_eq!(whole.response().body, b"forwarded");
        assert_eq!(partial.response().body, b"forwarded");
        assert_eq!(partial.response().status, 408);
        whole.assert_closed();
        partial.assert_closed();
        assert_eq!(server.log.get().abandoned, 0);
    });
}

#[test]
fn a_stopping_core_waits_for_forwarded_answers() {
    on_each_driver(SETTINGS, |server| {
        let (mut open, mut half) = (server.client(), server.client());
        let (mut timed, mut waker) = (server.client(), server.client());
        open.send(
            &[
                get("/forward?a"),
                post("/echo", b"behind"),
                get("/forward?b"),
            ]
            .concat(),
        );
        half.send(&get("/forward?c"));
        half.half_close();
        server.until("it is hurried", |events| events.hurried == ["c"]);
        let wakes = ["a", "b", "c"]
            .map(|name| get(&format!("/wake?{name}")))
            .concat();
        waker.send(&[get("/echo"), wakes[..5].to_vec()].concat());
        assert_eq!(waker.response().status, 200);
        timed.send(&get("/forward_ms?100"));
        server.until("all are called", |events| events.calls == 6);
        server.begin_stop();
        let response = timed.response();
        assert_eq!(response.body, b"forwarded");
        assert!(response.head.contains("connection: close"));
        timed.assert_closed();
        open.assert_silent();
        half.assert_silent();
        waker.send(&wakes[5..]);
        for _ in 0..3 {
            assert_eq!(waker.response().body, b"yes");
        }
        for expected in [&b"woken"[..], b"behind"] {
            assert_eq!(open.response().body, expected);
        }
        for client in [&mut open, &mut half] {
            let response = client.response();
            assert_eq!(response.body, b"woken");
            assert!(response.head.contains("connection: close"));
            client.assert_closed();
        }
        assert_eq!(server.log.get().abandoned, 0);
    });
}
