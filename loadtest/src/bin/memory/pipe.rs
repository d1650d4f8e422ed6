//! A blocking connection that sends many requests before it reads their answers: the driver costs
//! little, and the broker sees pipelining.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use queen_loadtest::response::read_response;
use queen_loadtest::{LoadError, Refused};

/// How long the broker may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests that are sent before the first answer is read; the broker takes as many.
pub(crate) const PIPELINED: usize = 64;

const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Pipe {
    stream: TcpStream,
    /// Requests that were written and not sent.
    pub(crate) requests: Vec<u8>,
    received: Vec<u8>,
    /// Bytes of `received` that were looked at.
    seen: usize,
}

impl Pipe {
    pub(crate) fn open(address: SocketAddr) -> Result<Pipe, LoadError> {
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
    pub(crate) fn send(&mut self) -> Result<(), LoadError> {
        self.stream.write_all(&self.requests)?;
        self.requests.clear();
        Ok(())
    }

    /// Reads one answer, the next in order; an answer of 400 or above is an error. `look` is given
    /// its body.
    pub(crate) fn answer<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T, LoadError> {
        loop {
            if let Some(response) = read_response(&self.received[self.seen..])? {
                if response.status >= 400 {
                    let body = String::from_utf8_lossy(&response.body).into_owned();
                    let status = response.status;
                    return Err(Refused { status, body }.into());
                }
                let looked = look(&response.body);
                self.seen += response.length;
                return Ok(looked);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<(), LoadError> {
        self.received.drain(..self.seen);
        self.seen = 0;
        let before = self.received.len();
        self.received.resize(before + READ_BYTES, 0);
        let count = self.stream.read(&mut self.received[before..])?;
        self.received.truncate(before + count);
        if count == 0 {
            return Err(LoadError::Closed);
        }
        Ok(())
    }

    /// Sends `count` requests, `write` being given the number of each, and has `look` see the bodies
    /// of the answers.
    pub(crate) fn run(
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
                self.answer(&mut look)?;
            }
            begun += portion;
        }
        Ok(())
    }
}
