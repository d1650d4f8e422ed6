//! Redis: lists as queues, streams where messages are acknowledged. Every command that need not wait
//! for the answer to another one goes out together with it, as a pipelining client sends it.

mod delivery;
mod push;
mod request_reply;
pub mod resp;
mod take;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

pub use delivery::delivery;
pub use push::{Kept, push};
pub use request_reply::{Responders, request_reply};
pub use take::{Taking, take};

use super::ANSWER_TIMEOUT;
use crate::LoadError;
use crate::protocol::Protocol;
use resp::{Reply, Resp, read_reply};

/// Sends one command on a connection of its own and looks at its reply; an error of the server is one.
pub fn request<T>(
    address: SocketAddr,
    words: &[&[u8]],
    look: impl FnOnce(Reply<'_>) -> T,
) -> Result<T, LoadError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut text = Vec::new();
    resp::command(words, &mut text);
    stream.write_all(&text)?;
    let mut received = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(LoadError::Closed);
        }
        received.extend_from_slice(&part[..count]);
        if let Some((reply, _)) = read_reply(&received).map_err(LoadError::from)? {
            if matches!(reply, Reply::Error(_)) {
                return Err(Resp::refused(&reply).into());
            }
            return Ok(look(reply));
        }
    }
}

/// Removes all keys, and waits until their memory is free: it would be freed while the next run is
/// measured.
pub fn clear(address: SocketAddr) -> Result<(), LoadError> {
    request(address, &[b"FLUSHALL", b"SYNC"], |_| ())
}

/// Connections that wait in a command such as `BLPOP`.
pub fn blocked_clients(address: SocketAddr) -> Result<usize, LoadError> {
    let text = |reply: Reply<'_>| reply.bulk().map(<[u8]>::to_vec);
    let info = request(address, &[b"INFO", b"clients"], text)?.unwrap_or_default();
    let info = String::from_utf8_lossy(&info);
    let count = info
        .lines()
        .find_map(|line| line.strip_prefix("blocked_clients:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| LoadError::text("Redis does not say how many clients wait"))
}

/// Appends a wait without end for one value of the list `key`.
pub fn blocking_pop(key: &str, out: &mut Vec<u8>) {
    resp::command(&[b"BLPOP", key.as_bytes(), b"0"], out);
}
