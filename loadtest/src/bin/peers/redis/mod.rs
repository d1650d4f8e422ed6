//! Redis: lists as queues, streams where messages are acknowledged. Every command that need not wait
//! for the answer to another one goes out together with it, as a pipelining client sends it.

mod delivery;
mod push;
mod request_reply;
mod resp;
mod take;

use std::net::SocketAddr;

pub(crate) use delivery::delivery;
pub(crate) use push::{Kept, push};
pub(crate) use request_reply::{Responders, request_reply};
pub(crate) use take::{Taking, take};

use queen_loadtest::protocol::Protocol;
use queen_loadtest::{LoadError, control};
use resp::{Reply, Resp};

/// Sends one command on a connection of its own and looks at its reply; an error of the server is one.
fn request<T>(
    address: SocketAddr,
    words: &[&[u8]],
    look: impl Fn(Reply<'_>) -> T,
) -> Result<T, LoadError> {
    let mut text = Vec::new();
    resp::command(words, &mut text);
    control::ask::<Resp, T>(address, &text, |reply| {
        Some(match reply {
            Reply::Error(_) => Err(Resp::refused(reply).into()),
            _ => Ok(look(*reply)),
        })
    })
}

/// Removes all keys, and waits until their memory is free: it would be freed while the next run is
/// measured.
fn clear(address: SocketAddr) -> Result<(), LoadError> {
    request(address, &[b"FLUSHALL", b"SYNC"], |_| ())
}

/// Connections that wait in a command such as `BLPOP`.
pub(crate) fn blocked_clients(address: SocketAddr) -> Result<usize, LoadError> {
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
pub(crate) fn blocking_pop(key: &str, out: &mut Vec<u8>) {
    resp::command(&[b"BLPOP", key.as_bytes(), b"0"], out);
}
