//! A load generator for a running broker. One thread, one epoll loop, many connections, request
//! texts written by hand: small enough that the generator is not what is measured. In the open loop
//! work is due at a fixed rate and its latency counts from then, not from when it could be sent.

use std::io;

pub mod control;
pub mod fleet;
pub mod interrupt;
pub mod kernel_clock;
pub mod pace;
pub mod peer;
pub mod pin;
pub mod programs;
pub mod protocol;
pub mod report;
pub mod response;
pub mod run;
pub mod scenario;
pub mod server;
pub mod wire;

/// Why a run broke off.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel refused something, or what is told in words.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server sent something else than HTTP/1.1.
    #[error(transparent)]
    Protocol(#[from] response::Fault),
    /// The server sent something else than replies of Redis.
    #[error(transparent)]
    Resp(#[from] peer::redis::resp::Fault),
    /// The server sent something else than the protocol of NATS.
    #[error(transparent)]
    Nats(#[from] peer::nats::wire::Fault),
    /// The server closed a connection.
    #[error("the server closed a connection")]
    Closed,
    /// The server refused what the run cannot do without.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A core that cannot be used.
    #[error("CPU {0} is not one that this process may use")]
    Cpu(usize),
    /// A signal told the program to end.
    #[error("interrupted")]
    Interrupted,
}

impl LoadError {
    /// A fault that only its words tell.
    pub fn text(text: impl Into<String>) -> LoadError {
        io::Error::other(text.into()).into()
    }
}

/// An answer that is not the one asked for.
#[derive(Debug, thiserror::Error)]
#[error("the server answered {status}: {body}")]
pub struct Refused {
    /// Its status.
    pub status: u16,
    /// Its body, shortened.
    pub body: String,
}

impl Refused {
    pub(crate) fn of(response: &response::Response<'_>) -> Refused {
        let shown = &response.body[..response.body.len().min(300)];
        Refused {
            status: response.status,
            body: String::from_utf8_lossy(shown).into_owned(),
        }
    }
}
