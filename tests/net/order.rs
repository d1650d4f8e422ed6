//! Answers leave in request order, whoever is answered first.

use std::io::Write;

use crate::client::{get, post};
use crate::server::{SETTINGS, on_each_driver};
use crate::service::STEP_BYTES;

#[test]
fn pipelined_requests_are_answered_in_order() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        let bodies: Vec<Vec<u8>> = (0..500).map(|number| vec![b'a'; number]).collect();
        let requests: Vec<u8> = bodies.iter().flat_map(|body| post("/echo", body)).collect();
        client.send(&requests);
        for body in &bodies {
            assert_eq!(client.response().body, *body);
        }
    });
}

#[test]
fn answers_behind_a_parked_request_wait_for_it() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        let requests = [
            post("/echo", b"1"),
            get("/park?a"),
            post("/echo", b"2"),
            get("/park?b"),
        ];
        client.send(&[requests.concat(), post("/echo", b"3")].concat());
        assert_eq!(client.response().body, b"1");
        server.until("all are called", |events| events.calls == 5);
        client.assert_silent();
        let mut other = server.client();
        assert_eq!(other.ask(&get("/wake?b")).body, b"yes");
        client.assert_silent();
        assert_eq!(other.ask(&get("/wake?a")).body, b"yes");
        for expected in [&b"woken"[..], b"2", b"woken", b"3"] {
            assert_eq!(client.response().body, expected);
        }
        assert_eq!(client.ask(&post("/echo", b"4")).body, b"4");
    });
}

#[test]
fn a_request_can_wake_one_before_it_on_its_own_connection() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&[get("/park?a"), get("/wake?a"), get("/wake?a")].concat());
        for expected in [&b"woken"[..], b"yes", b"no"] {
            assert_eq!(client.response().body, expected);
        }
    });
}

#[test]
fn a_streamed_answer_keeps_its_place() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&[get("/park?a"), get("/list?30"), post("/echo", b"after")].concat());
        server.until("the list is called", |events| events.calls == 2);
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        assert!(client.head().contains("transfer-encoding: chunked"));
        client.half_close();
        let rest = client.rest();
        assert_eq!(
            rest.iter().filter(|byte| **byte == b'#').count(),
            30 * STEP_BYTES
        );
        assert!(rest.ends_with(b"after"), "{}", rest.len());
    });
}

#[test]
fn a_streamed_answer_to_http_1_0_ends_with_the_connection() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(b"GET /list?3 HTTP/1.0\r\nconnection: keep-alive\r\n\r\n");
        assert!(client.head().contains("connection: close"));
        assert_eq!(client.rest(), vec![b'#'; 3 * STEP_BYTES]);
    });
}

#[test]
fn the_last_answer_closes() {
    on_each_driver(SETTINGS, |server| {
        for request in [
            &b"GET /echo HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\nGET /echo HTTP/1.1\r\n"
                [..],
            b"GET /echo HTTP/1.0\r\n\r\n",
        ] {
            let mut client = server.client();
            assert!(client.ask(request).head.contains("connection: close"));
            client.assert_closed();
        }
        let mut client = server.client();
        client.send(&post("/echo", b"half"));
        client.half_close();
        assert_eq!(client.response().body, b"half");
        client.assert_closed();
    });
}

#[test]
fn a_fault_is_answered_after_everything_before_it() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&[get("/echo"), get("/park?a"), b"RUBBISH\n\n".to_vec()].concat());
        assert_eq!(client.response().status, 200);
        server.until("it is parked", |events| events.parked == 1);
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        let response = client.response();
        assert_eq!(response.status, 400);
        assert!(response.head.contains("connection: close"));
        client.assert_closed();
    });
}

#[test]
fn connections_that_always_have_more_leave_room_for_others_and_for_time() {
    on_each_driver(SETTINGS, |server| {
        let flood = post("/echo", &[b'f'; 100]).repeat(2_000);
        let hot: Vec<_> = (0..2).map(|_| server.client()).collect();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in &hot {
                let mut reader = client.socket.try_clone().unwrap();
                scope.spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
                let (mut writer, stop, flood) = (client.socket.try_clone().unwrap(), &stop, &flood);
                scope.spawn(move || {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        writer.write_all(flood).unwrap();
                    }
                    writer.shutdown(std::net::Shutdown::Write).unwrap();
                });
            }
            server.until("the flood is there", |events| events.calls > 10_000);
            let mut client = server.client();
            for _ in 0..20 {
                assert_eq!(client.ask(&post("/echo", b"here")).body, b"here");
            }
            assert_eq!(client.ask(&get("/sleepless")).body, b"a moment later");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}
