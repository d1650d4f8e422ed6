//! Single blocking requests: what is done before and after a run.

use std::net::SocketAddr;

use crate::pipe::Pipe;
use crate::protocol::Protocol;
use crate::{LoadError, wire};

/// Sends one request on a connection of its own and returns the body of the answer, of which 400 or
/// above is an error.
pub fn request(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>, LoadError> {
    sent(address, request)?.body(<[u8]>::to_vec)
}

/// Sends what is one request of another wire on a connection of its own, and has `look` see what
/// comes until it knows what to make of it.
pub fn ask<P: Protocol, T>(
    address: SocketAddr,
    request: &[u8],
    mut look: impl FnMut(&P::Answer<'_>) -> Option<Result<T, LoadError>>,
) -> Result<T, LoadError> {
    let mut pipe = sent(address, request)?;
    loop {
        if let Some(outcome) = pipe.answer::<P, _>(&mut look)? {
            return outcome;
        }
    }
}

fn sent(address: SocketAddr, request: &[u8]) -> Result<Pipe, LoadError> {
    let mut pipe = Pipe::open(address)?;
    pipe.requests.extend_from_slice(request);
    pipe.send()?;
    Ok(pipe)
}

/// Declares `queue` with `options` (JSON text).
pub fn configure(address: SocketAddr, queue: &str, options: &str) -> Result<(), LoadError> {
    let mut text = Vec::new();
    wire::configure(queue, options, &mut text);
    request(address, &text).map(drop)
}

/// Whether the broker says that nothing is wrong.
pub fn is_healthy(address: SocketAddr) -> Result<bool, LoadError> {
    let mut text = Vec::new();
    wire::health(&mut text);
    Ok(wire::is_healthy(&request(address, &text)?))
}

/// Removes `queue`.
pub fn delete(address: SocketAddr, queue: &str) -> Result<(), LoadError> {
    let mut text = Vec::new();
    wire::delete(queue, &mut text);
    request(address, &text).map(drop)
}
