//! Listening, and stopping to.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use queen::net::listener;

use crate::client::{Client, get, post};
use crate::server::{SETTINGS, Server, on_each_driver};

#[test]
fn a_second_listener_is_refused_and_the_holder_named() {
    on_each_driver(SETTINGS, |server| {
        let fault = listener::probe(server.address).unwrap_err().to_string();
        let holder = format!("process {}", std::process::id());
        assert!(fault.contains(&holder), "{fault}");
        assert!(fault.contains(&server.address.to_string()), "{fault}");
    });
}

#[test]
fn a_restart_is_not_refused() {
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = first.local_addr().unwrap();
    let client = TcpStream::connect(address).unwrap();
    // Closed by the server first: its port stays in TIME_WAIT.
    drop(first.accept().unwrap());
    drop(client);
    drop(first);
    listener::probe(address).unwrap();
    listener::bind(address, 16).unwrap();
}

fn stop_while(server: &Server, check: impl FnOnce()) {
    server.begin_stop();
    check();
}

#[test]
fn a_stopping_core_answers_what_is_in_flight() {
    on_each_driver(SETTINGS, |server| {
        let (mut idle, mut parked) = (server.client(), server.client());
        let (mut pipelined, mut partial) = (server.client(), server.client());
        assert_eq!(idle.ask(&get("/echo")).status, 200);
        parked.send(&get("/park?a"));
        pipelined.send(&[get("/park?b"), post("/echo", b"behind"), get("/park?c")].concat());
        let request = post("/echo", b"body");
        partial.send(&request[..request.len() - 1]);
        server.until("all are called", |events| {
            events.calls == 5 && events.open == 4
        });
        let start = Instant::now();
        stop_while(server, || {
            idle.assert_closed();
            let response = parked.response();
            assert_eq!(response.body, b"stopping");
            assert!(response.head.contains("connection: close"));
            parked.assert_closed();
            assert_eq!(pipelined.response().body, b"stopping");
            assert_eq!(pipelined.response().body, b"behind");
            let response = pipelined.response();
            assert!(response.head.contains("connection: close"));
            pipelined.assert_closed();
            partial.send(&request[request.len() - 1..]);
            let response = partial.response();
            assert_eq!(response.body, b"body");
            assert!(response.head.contains("connection: close"));
            partial.assert_closed();
        });
        assert!(start.elapsed().as_secs() < 10);
        assert_eq!(server.log.get().abandoned, 0);
    });
}

#[test]
fn a_stopping_core_serves_what_is_in_its_accept_queue() {
    on_each_driver(SETTINGS, |server| {
        for _ in 0..3 {
            assert_eq!(server.client().ask(&get("/echo")).status, 200);
        }
        let mut clients: Vec<Client> = (0..200).map(|_| server.client()).collect();
        stop_while(server, || {
            for client in &mut clients {
                client.send(&get("/echo"));
            }
            for client in &mut clients {
                assert_eq!(client.response().status, 200);
                client.half_close();
            }
        });
    });
}

#[test]
fn a_stopped_core_no_longer_listens() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        assert_eq!(client.ask(&get("/echo")).status, 200);
        server.begin_stop();
        client.assert_closed();
        let start = Instant::now();
        while TcpStream::connect(server.address).is_ok() {
            assert!(start.elapsed() < crate::server::PATIENCE, "still listening");
        }
    });
}
