//! Consumers that wait, each on a connection of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;
use crate::pipe::Pipe;
use crate::wire::{self, PopMode};
use crate::{LoadError, control};

/// How long a server may take until all wait.
const PARK_LIMIT: Duration = Duration::from_secs(60);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Milliseconds that a pop waits: longer than all of it takes.
const WAIT_MS: u64 = 300_000;

/// Connects `count` consumers, each of which sends what `wait` writes for its number, and returns once
/// as many wait as `waiting` is to say.
pub fn park(
    address: SocketAddr,
    count: usize,
    interrupt: &Interrupt,
    wait: impl Fn(usize, &mut Vec<u8>),
    mut waiting: impl FnMut(&mut [Pipe]) -> Result<usize, LoadError>,
) -> Result<Vec<Pipe>, LoadError> {
    assert!(count > 0, "somebody waits");
    let mut consumers = Vec::with_capacity(count);
    for index in 0..count {
        interrupt.check()?;
        let mut consumer = Pipe::open(address)?;
        wait(index, &mut consumer.requests);
        consumer.send()?;
        consumers.push(consumer);
    }
    let deadline = Instant::now() + PARK_LIMIT;
    loop {
        let waiting = waiting(&mut consumers)?;
        if waiting >= count {
            return Ok(consumers);
        }
        if Instant::now() > deadline {
            let text = format!("only {waiting} of {count} consumers wait");
            return Err(LoadError::text(text));
        }
        interrupt.wait_until(Instant::now() + LOOK)?;
    }
}

/// Appends a pop of `inbox` that waits for as long as anybody looks.
pub fn waiting_pop(inbox: &str, out: &mut Vec<u8>) {
    let mode = PopMode {
        wait_ms: Some(WAIT_MS),
        auto_ack: true,
    };
    wire::pop(inbox, mode, out);
}

/// Pops that wait, over all cores of the broker.
pub fn parked_pops(address: SocketAddr) -> Result<usize, LoadError> {
    let mut text = Vec::new();
    wire::metrics(&mut text);
    let body = control::request(address, &text)?;
    let body = String::from_utf8_lossy(&body);
    let series = body
        .lines()
        .filter(|line| line.starts_with("queen_core_parked_long_polls{"));
    let counts = series.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    Ok(counts.sum())
}
