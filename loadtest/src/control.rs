//! Single blocking requests: what is done before and after a run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::response::read_response;
use crate::{LoadError, Refused, wire};

/// How long the server may take for one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends one request on a connection of its own; an answer of 400 or above is an error.
pub fn request(address: SocketAddr, request: &[u8]) -> Result<(u16, Vec<u8>), LoadError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request)?;
    let mut received = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(LoadError::Closed);
        }
        received.extend_from_slice(&part[..count]);
        if let Some(response) = read_response(&received)? {
            if response.status >= 400 {
                return Err(Refused::of(&response).into());
            }
            return Ok((response.status, response.body.into_owned()));
        }
    }
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
    let (_, body) = request(address, &text)?;
    Ok(wire::is_healthy(&body))
}

/// Removes `queue`.
pub fn delete(address: SocketAddr, queue: &str) -> Result<(), LoadError> {
    let mut text = Vec::new();
    wire::delete(queue, &mut text);
    request(address, &text).map(drop)
}
