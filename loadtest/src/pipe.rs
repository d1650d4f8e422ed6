//! A blocking connection. It can send many requests before it reads their answers: then the driver
//! costs little, and a server sees pipelining.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::LoadError;
use crate::protocol::{Http, Protocol};

/// How long a server may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests that are sent before the first answer is read; the broker takes as many.
const PIPELINED: usize = 64;

const READ_BYTES: usize = 64 * 1024;

/// A blocking connection.
#[derive(Debug)]
pub struct Pipe {
    stream: TcpStream,
    /// Requests that were written and not sent.
    pub requests: Vec<u8>,
    received: Vec<u8>,
    /// Bytes of `received` that were looked at.
    seen: usize,
}

impl Pipe {
    /// Connects to `address`.
    pub fn open(address: SocketAddr) -> Result<Pipe, LoadError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Pipe {
            stream,
            requests: Vec::new(),
            received: Vec::new(),
            seen: 0,
        })
    }

    /// Sends what was written to `requests`.
    pub fn send(&mut self) -> Result<(), LoadError> {
        self.stream.write_all(&self.requests)?;
        self.requests.clear();
        Ok(())
    }

    /// Reads one answer, the next in order, and has `look` see it.
    pub fn answer<P: Protocol, T>(
        &mut self,
        look: impl FnOnce(&P::Answer<'_>) -> T,
    ) -> Result<T, LoadError> {
        loop {
            if let Some((answer, length)) = P::read(&self.received[self.seen..])? {
                let looked = look(&answer);
                self.seen += length;
                return Ok(looked);
            }
            self.receive()?;
        }
    }

    /// Reads one answer of HTTP and has `look` see its body; an answer of 400 or above is an error.
    pub fn body<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T, LoadError> {
        self.answer::<Http, _>(|response| match response.status {
            ..400 => Ok(look(&response.body)),
            _ => Err(Http::refused(response).into()),
        })?
    }

    fn receive(&mut self) -> Result<(), LoadError> {
        self.received.drain(..self.seen);
        self.seen = 0;
        // Not read in place: many connections that keep room for it would take much memory.
        let mut part = [0; READ_BYTES];
        let count = self.stream.read(&mut part)?;
        if count == 0 {
            return Err(LoadError::Closed);
        }
        self.received.extend_from_slice(&part[..count]);
        Ok(())
    }

    /// Sends `count` requests, `write` being given the number of each, and has `look` see the bodies
    /// of the answers.
    pub fn run(
        &mut self,
        count: usize,
        mut write: impl FnMut(usize, &mut Vec<u8>),
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), LoadError> {
        let mut begun = 0;
        while begun < count {
            let portion = PIPELINED.min(count - begun);
            for number in begun..begun + portion {
                write(number, &mut self.requests);
            }
            self.send()?;
            for _ in 0..portion {
                self.body(&mut look)?;
            }
            begun += portion;
        }
        Ok(())
    }
}
