//! What a consumer that waits costs a server: memory per connection.

use queen_loadtest::LoadError;
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::parked::{park, parked_pops, waiting_pop};
use queen_loadtest::pipe::Pipe;
use queen_loadtest::server::Server;

use crate::comparison::System;
use crate::nats::wire::{self as nats, NatsWire, Said};
use crate::redis;

/// Bytes by which the memory of `server`, which nobody is connected to yet, grows for each of `count`
/// consumers.
pub(crate) fn bytes_per_consumer(
    server: &Server,
    system: System,
    count: usize,
    interrupt: &Interrupt,
) -> Result<f64, LoadError> {
    let address = server.address;
    let waiting = |consumers: &mut [Pipe]| match system {
        System::Broker(_) => parked_pops(address),
        System::Redis => redis::blocked_clients(address),
        System::Nats | System::JetStream => subscribed(consumers),
    };
    // What the first connection of all costs is no consumer's.
    waiting(&mut [])?;
    let before = server.resident_bytes()?;
    let wait = |index, out: &mut Vec<u8>| wait(system, index, out);
    let consumers = park(address, count, interrupt, wait, waiting)?;
    let after = server.resident_bytes()?;
    drop(consumers);
    Ok(after.saturating_sub(before) as f64 / count as f64)
}

/// Appends what the consumer with this number sends, which waits at a name of its own.
fn wait(system: System, index: usize, out: &mut Vec<u8>) {
    let name = format!("inbox-{index}");
    match system {
        System::Broker(_) => waiting_pop(&name, out),
        System::Redis => redis::blocking_pop(&name, out),
        System::Nats | System::JetStream => {
            nats::connect(out);
            nats::subscribe(&name, None, 1, out);
            nats::ping(out);
        }
    }
}

/// Returns once the server has taken what each has sent before its `PING`.
fn subscribed(consumers: &mut [Pipe]) -> Result<usize, LoadError> {
    for consumer in &mut *consumers {
        let mut is_taken = false;
        while !is_taken {
            is_taken = consumer.answer::<NatsWire, _>(|said| *said == Said::Pong)?;
        }
    }
    Ok(consumers.len())
}
