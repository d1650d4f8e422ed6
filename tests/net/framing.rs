//! Bodies: in pieces, large, chunked, announced, refused.

use crate::client::{get, post};
use crate::server::{SETTINGS, on_each_driver};

#[test]
fn a_request_may_arrive_byte_by_byte() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        for byte in post("/echo", b"slow") {
            client.send(&[byte]);
        }
        assert_eq!(client.response().body, b"slow");
        client.send(&post("/echo", b"slow")[..40]);
        client.half_close();
        client.assert_closed();
        assert_eq!(server.log.get().calls, 1);
    });
}

#[test]
fn bodies_of_all_sizes_come_through() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        for size in [
            1,
            3_000,
            4_096,
            9_000,
            16_000,
            17_000,
            65_536,
            200_000,
            8 * 1024 * 1024,
        ] {
            let body: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let requests = [post("/echo", &body), post("/echo", b"behind")].concat();
            let mut writer = client.socket.try_clone().unwrap();
            let writing = std::thread::spawn(move || {
                std::io::Write::write_all(&mut writer, &requests).unwrap();
            });
            assert!(client.response().body == body, "{size}");
            assert_eq!(client.response().body, b"behind");
            writing.join().unwrap();
        }
        assert_eq!(server.log.get().owned_bodies, 4);
    });
}

#[test]
fn chunked_bodies_come_through() {
    on_each_driver(SETTINGS, |server| {
        let head = b"POST /echo HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut client = server.client();
        client.send(&[&head[..], b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nt: u\r\n\r\n"].concat());
        assert_eq!(client.response().body, b"abcde");
        client.send(head);
        let chunk = [b"10000\r\n", &[b'c'; 65_536][..], b"\r\n"].concat();
        for _ in 0..20 {
            client.send(&chunk);
        }
        client.send(&[b"0\r\n\r\n".to_vec(), get("/echo")].concat());
        assert_eq!(client.response().body, vec![b'c'; 20 * 65_536]);
        assert_eq!(client.response().status, 200);
        client.send(&[&head[..], b"xyz\r\n"].concat());
        assert_eq!(client.response().status, 400);
        client.assert_closed();
    });
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_comes() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        client.send(b"POST /echo HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\n");
        client.send(b"content-length: 99999999999\r\n\r\n");
        let response = client.response();
        assert_eq!(
            (response.status, &response.body[..]),
            (413, &b"body_too_large"[..])
        );
        assert!(response.head.contains("connection: close"));
        // What comes nevertheless is read for a while, so that the answer is not lost to a reset.
        client.send(&[0; 100_000]);
        client.half_close();
        client.assert_closed();

        // A length that no integer holds is no malformed one.
        let mut client = server.client();
        client.send(b"POST /echo HTTP/1.1\r\nhost: test\r\n");
        client.send(b"content-length: 99999999999999999999999999\r\n\r\n");
        assert_eq!(client.response().status, 413);
        client.assert_closed();

        let mut client = server.client();
        client.send(b"POST /echo HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n");
        client.send(b"fffffffff\r\n");
        assert_eq!(client.response().status, 413);
        client.assert_closed();
        assert_eq!(server.log.get().calls, 0);
    });
}

#[test]
fn a_client_that_expects_it_is_told_to_go_on() {
    on_each_driver(SETTINGS, |server| {
        let mut client = server.client();
        for size in [5, 100_000] {
            let head = format!(
                "POST /echo HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: {size}\r\n\r\n"
            );
            client.send(head.as_bytes());
            assert_eq!(client.head(), "http/1.1 100 continue\r\n\r\n");
            assert_eq!(client.ask(&vec![b'b'; size]).body.len(), size);
            // Not to one that did not wait.
            client.send(&[head.as_bytes(), &vec![b'b'; size]].concat());
            assert_eq!(client.response().status, 200);
        }
        let head = "POST /echo HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        client.send(&[get("/park?a"), head.as_bytes().to_vec()].concat());
        server.until("it is parked", |events| events.parked == 1);
        client.assert_silent();
        assert_eq!(server.client().ask(&get("/wake?a")).body, b"yes");
        assert_eq!(client.response().body, b"woken");
        assert_eq!(client.head(), "http/1.1 100 continue\r\n\r\n");
        assert_eq!(client.ask(b"1\r\nz\r\n0\r\n\r\n").body, b"z");
    });
}
