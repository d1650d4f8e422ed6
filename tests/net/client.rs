//! A client that is only a socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::server::PATIENCE;

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// A request without a body.
pub(crate) fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: test\r\n\r\n").into_bytes()
}

/// A request with a body.
pub(crate) fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            socket,
            received: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub(crate) fn ask(&mut self, bytes: &[u8]) -> Response {
        self.send(bytes);
        self.response()
    }

    /// Reads until the socket ends or `is_enough`.
    fn fill(&mut self, is_enough: impl Fn(&[u8]) -> bool) {
        let mut piece = vec![0; 64 * 1024];
        while !is_enough(&self.received) {
            let count = self.socket.read(&mut piece).unwrap();
            assert!(
                count > 0,
                "closed after {:?}",
                self.received.escape_ascii().to_string()
            );
            self.received.extend_from_slice(&piece[..count]);
        }
    }

    /// The head that comes next, without a body.
    pub(crate) fn head(&mut self) -> String {
        let end = |bytes: &[u8]| bytes.windows(4).position(|window| window == b"\r\n\r\n");
        self.fill(|bytes| end(bytes).is_some());
        let length = end(&self.received).unwrap() + 4;
        let head: Vec<u8> = self.received.drain(..length).collect();
        String::from_utf8(head).unwrap().to_lowercase()
    }

    /// The response that comes next.
    pub(crate) fn response(&mut self) -> Response {
        let head = self.head();
        let status = head[9..12].parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.expect("a length").trim().parse().unwrap();
        self.fill(|bytes| bytes.len() >= length);
        let body = self.received.drain(..length).collect();
        Response { status, head, body }
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.received);
        self.socket.read_to_end(&mut rest).unwrap();
        rest
    }

    /// Waits for the end of the connection; a reset is one.
    pub(crate) fn assert_closed(&mut self) {
        let mut rest = std::mem::take(&mut self.received);
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        assert_eq!(rest.escape_ascii().to_string(), "");
    }

    /// Nothing came so far.
    pub(crate) fn assert_silent(&mut self) {
        self.socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let error = self.socket.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    pub(crate) fn half_close(&self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes by a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.socket)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
}
