//! What lasts too long ends.

use std::time::Instant;

use queen::net::Settings;

use crate::client::{Client, get, post};
use crate::server::{SETTINGS, Server, on_each_driver};

const HASTY: Settings = Settings {
    head_timeout_ms: 150,
    ..SETTINGS
};

#[test]
fn a_head_that_is_not_completed_is_408() {
    on_each_driver(HASTY, |server| {
        let mut client = server.client();
        assert_eq!(client.ask(&get("/echo")).status, 200);
        let start = Instant::now();
        let mut sent = 0;
        // Every byte in time does not help: the whole head has to be.
        let request = b"GET /echo HTTP/1.1\r\n"
            .iter()
            .chain(std::iter::repeat(&b'a'));
        client
            .socket
            .set_read_timeout(Some(std::time::Duration::from_millis(5)))
            .unwrap();
        for byte in request {
            client.send(&[*byte]);
            sent += 1;
            if client.socket.peek(&mut [0]).is_ok() {
                break;
            }
            assert!(start.elapsed() < crate::server::PATIENCE);
        }
        assert!(sent > 1);
        let response = client.response();
        assert_eq!(
            (response.status, &response.body[..]),
            (408, &b"request_timeout"[..])
        );
        assert!(start.elapsed().as_millis() >= 150);
        server.until("it is closed", |events| events.open == 0);
    });
}

/// Sends a head in two pieces, each received by itself.
fn send_in_two(server: &Server, client: &mut Client, last: &[u8]) {
    client.send(b"GET /echo HTTP/1.1\r\nhost: test\r\n");
    // Whoever asks later is answered later.
    assert_eq!(server.client().ask(&get("/echo")).status, 200);
    client.send(last);
}

#[track_caller]
fn assert_refused(client: &mut Client, code: &str) {
    let response = client.response();
    let body = String::from_utf8_lossy(&response.body);
    assert_eq!((response.status, &*body), (400, code));
    client.assert_closed();
}

#[test]
fn a_malformed_line_is_400_where_it_ends() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        send_in_two(server, &mut client, b"x y: 1\r\n");
        assert_refused(&mut client, "bad_header");
    });
}

#[test]
fn a_malformed_head_that_stops_is_400_and_not_408() {
    on_each_driver(HASTY, |server| {
        let mut client = server.client();
        send_in_two(server, &mut client, b"x: \x01");
        assert_refused(&mut client, "bad_header");
        let mut client = server.client();
        client.send(&get("/park?a"));
        server.until("it is parked", |events| events.parked == 1);
        send_in_two(server, &mut client, b"x: \x01");
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        assert_refused(&mut client, "bad_header");
    });
}

#[test]
fn a_malformed_head_whose_client_closes_its_half_is_400() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        send_in_two(server, &mut client, b"x: \x01");
        client.half_close();
        assert_refused(&mut client, "bad_header");
        let mut client = server.client();
        send_in_two(server, &mut client, b"x: 1");
        client.half_close();
        client.assert_closed();
    });
}

#[test]
fn a_body_that_pauses_is_408() {
    on_each_driver(HASTY, |server| {
        for size in [100, 100_000] {
            let mut client = server.client();
            let start = Instant::now();
            client.send(&post("/echo", &vec![b'b'; size])[..100]);
            assert_eq!(client.response().status, 408);
            assert!(start.elapsed().as_millis() >= 150);
            client.assert_closed();
        }
        // One that goes on may take longer than that in all.
        let mut client = server.client();
        let request = post("/echo", &[b'b'; 12]);
        let (start, head_bytes) = (Instant::now(), request.len() - 12);
        client.send(&request[..head_bytes]);
        for byte in &request[head_bytes..] {
            std::thread::sleep(std::time::Duration::from_millis(20));
            client.send(&[*byte]);
        }
        assert_eq!(client.response().status, 200);
        assert!(start.elapsed().as_millis() > 150);
    });
}

#[test]
fn a_request_that_stops_behind_a_parked_one_is_408_in_its_turn() {
    on_each_driver(HASTY, |server| {
        let mut client = server.client();
        client.send(&[get("/park?a"), b"GET /ec".to_vec()].concat());
        server.until("it is parked", |events| events.parked == 1);
        let mut other = server.client();
        let start = Instant::now();
        while start.elapsed().as_millis() < 300 {
            assert_eq!(other.ask(&get("/wake?b")).body, b"no");
        }
        client.assert_silent();
        assert_eq!(other.ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        assert_eq!(client.response().status, 408);
        client.assert_closed();
        assert_eq!(server.log.get().abandoned, 0);
    });
}

#[test]
fn an_idle_connection_is_closed_and_a_parked_one_is_not() {
    let settings = Settings {
        idle_timeout_ms: 150,
        ..SETTINGS
    };
    on_each_driver(settings, |server| {
        let (mut idle, mut parked, mut fresh) = (server.client(), server.client(), server.client());
        assert_eq!(idle.ask(&get("/echo")).status, 200);
        assert_eq!(parked.ask(&get("/echo")).status, 200);
        parked.send(&get("/park?a"));
        let start = Instant::now();
        idle.assert_closed();
        assert!(start.elapsed().as_millis() >= 100);
        fresh.assert_closed();
        parked.assert_silent();
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(parked.response().body, b"woken");
        parked.assert_closed();
    });
}
