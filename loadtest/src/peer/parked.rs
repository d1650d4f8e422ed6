//! What a consumer that waits costs a server: memory per connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::nats::wire as nats;
use super::{ANSWER_TIMEOUT, redis};
use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::wire::{self, PopMode};
use crate::{LoadError, control};

/// How long a server may take until all wait.
const PARK_LIMIT: Duration = Duration::from_secs(60);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Milliseconds that a pop waits: longer than all of it takes.
const WAIT_MS: u64 = 300_000;

/// Files that a server or the generator has open beside the connections, at most.
const OTHER_FILES: u64 = 500;

/// Where consumers wait, each at a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumers {
    /// In a waiting pop of the broker.
    Broker,
    /// In `BLPOP`.
    Redis,
    /// Subscribed.
    Nats,
}

impl Consumers {
    /// Appends what the consumer with this number sends.
    fn wait(self, index: usize, out: &mut Vec<u8>) {
        let name = format!("inbox-{index}");
        match self {
            Consumers::Broker => {
                let mode = PopMode {
                    wait_ms: Some(WAIT_MS),
                    auto_ack: true,
                };
                wire::pop(&name, mode, out);
            }
            Consumers::Redis => redis::blocking_pop(&name, out),
            Consumers::Nats => {
                nats::connect(out);
                nats::subscribe(&name, None, 1, out);
                nats::ping(out);
            }
        }
    }

    /// How many of those with a connection wait, as the server says.
    fn waiting(
        self,
        address: SocketAddr,
        connections: &mut [TcpStream],
    ) -> Result<usize, LoadError> {
        match self {
            Consumers::Broker => parked_pops(address),
            Consumers::Redis => redis::blocked_clients(address),
            Consumers::Nats => {
                for connection in &mut *connections {
                    read_to_pong(connection)?;
                }
                Ok(connections.len())
            }
        }
    }
}

/// Pops that wait, over all cores of the broker.
fn parked_pops(address: SocketAddr) -> Result<usize, LoadError> {
    let mut text = Vec::new();
    wire::metrics(&mut text);
    let (_, body) = control::request(address, &text)?;
    let body = String::from_utf8_lossy(&body);
    let series = body
        .lines()
        .filter(|line| line.starts_with("queen_core_parked_long_polls{"));
    let counts = series.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    Ok(counts.sum())
}

/// Reads until the server has taken what was sent before a `PING`.
fn read_to_pong(connection: &mut TcpStream) -> Result<(), LoadError> {
    connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut received = Vec::new();
    // It may ask something itself right after that.
    while memmem::find(&received, b"\r\nPONG\r\n").is_none() {
        let mut part = [0; 4096];
        let count = connection.read(&mut part)?;
        if count == 0 {
            return Err(LoadError::Closed);
        }
        received.extend_from_slice(&part[..count]);
    }
    Ok(())
}

/// Lets this process, and what it starts from now on, have as many connections as `count` consumers
/// need.
pub fn allow(count: usize) -> Result<(), LoadError> {
    let wanted = count as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        return Err(LoadError::text(format!(
            "{count} waiting consumers need a limit of {wanted} open files (ulimit -n)"
        )));
    }
    let raised = Rlimit {
        current: Some(wanted),
        ..limit
    };
    setrlimit(Resource::Nofile, raised).map_err(std::io::Error::from)?;
    Ok(())
}

/// Bytes by which the memory of `server`, which nobody is connected to yet, grows for each of `count`
/// consumers.
pub fn bytes_per_consumer(
    server: &Server,
    consumers: Consumers,
    count: usize,
    interrupt: &Interrupt,
) -> Result<f64, LoadError> {
    assert!(count > 0, "somebody waits");
    let address = server.address;
    // What the first connection of all costs is no consumer's.
    consumers.waiting(address, &mut [])?;
    let before = server.resident_bytes()?;
    let mut connections = Vec::with_capacity(count);
    let mut text = Vec::new();
    for index in 0..count {
        interrupt.check()?;
        text.clear();
        consumers.wait(index, &mut text);
        let mut connection = TcpStream::connect(address)?;
        connection.write_all(&text)?;
        connections.push(connection);
    }
    let deadline = Instant::now() + PARK_LIMIT;
    loop {
        let waiting = consumers.waiting(address, &mut connections)?;
        if waiting >= count {
            break;
        }
        if Instant::now() > deadline {
            let text = format!("only {waiting} of {count} consumers wait");
            return Err(LoadError::text(text));
        }
        interrupt.wait_until(Instant::now() + LOOK)?;
    }
    let after = server.resident_bytes()?;
    Ok(after.saturating_sub(before) as f64 / count as f64)
}
