//! No client makes the server hold more than it may.

use std::io::{Read, Write};

use queen::net::Settings;

use crate::client::{get, post};
use crate::server::{SETTINGS, on_each_driver};

/// More than the socket buffers of both ends and the answers that may queue.
const IN_FLIGHT_MAX: usize = 48 * 1024 * 1024;

#[test]
fn a_client_that_does_not_read_is_not_served_further() {
    on_each_driver(SETTINGS, |server| {
        let client = server.client();
        let (count, requests) = (1_000_000, 200);
        let mut writer = client.socket.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            writer
                .write_all(&get(&format!("/big?{count}")).repeat(requests))
                .unwrap();
        });
        let mut reader = client.socket.try_clone().unwrap();
        let (mut received, mut piece) = (0, vec![0; 256 * 1024]);
        while received < count * requests {
            received += reader.read(&mut piece).unwrap();
            let produced = server.log.get().calls * count;
            assert!(
                produced <= received + IN_FLIGHT_MAX,
                "{produced} for {received}"
            );
        }
        writing.join().unwrap();
    });
}

#[test]
fn a_bounded_number_of_requests_waits() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&[get("/park?a"), post("/echo", b"e").repeat(200)].concat());
        server.until("64 wait", |events| events.calls == 64);
        client.assert_silent();
        assert_eq!(server.log.get().calls, 64);
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        for _ in 0..200 {
            assert_eq!(client.response().body, b"e");
        }
    });
}

#[test]
fn a_bounded_number_of_answer_bytes_waits() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&[get("/park?a"), get("/big?300000").repeat(10)].concat());
        server.until("1 MiB waits", |events| events.calls == 5);
        client.assert_silent();
        assert_eq!(server.log.get().calls, 5);
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        for _ in 0..10 {
            assert_eq!(client.response().body.len(), 300_000);
        }
    });
}

#[test]
fn a_connection_too_many_is_told_so() {
    let settings = Settings {
        max_connections: 2,
        ..SETTINGS
    };
    on_each_driver(settings, |server| {
        let (mut first, mut second) = (server.client(), server.client());
        assert_eq!(first.ask(&get("/echo")).status, 200);
        assert_eq!(second.ask(&get("/echo")).status, 200);
        let mut third = server.client();
        third.send(&get("/echo"));
        let response = third.response();
        assert_eq!(
            (response.status, &response.body[..]),
            (503, &b"too_many_connections"[..])
        );
        assert!(response.head.contains("connection: close"));
        third.assert_closed();
        drop(first);
        server.until("there is room", |events| events.open == 1);
        assert_eq!(server.client().ask(&get("/echo")).status, 200);
    });
}

#[test]
fn others_run_between_the_steps_of_a_listing() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(&get("/crumbs?200"));
        client.half_close();
        assert!(client.rest().ends_with(b"\r\n0\r\n\r\n"));
        assert_eq!(server.log.get().steps_in_a_row_max, 1);
    });
}
