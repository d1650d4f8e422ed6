//! A load generator for a running broker. One thread, one epoll loop, many connections, request
//! texts written by hand: small enough that the generator is not what is measured. In the open loop
//! work is due at a fixed rate and its latency counts from then, not from when it could be sent.

use std::{fmt, io};

pub mod cli;
pub mod control;
pub mod fleet;
pub mod goal;
pub mod interrupt;
pub mod kernel_clock;
pub mod load;
pub mod open_files;
pub mod pace;
pub mod parked;
pub mod pin;
pub mod pipe;
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
#[derive(Clone, Debug, thiserror::Error)]
pub struct Refused {
    /// Its status, where the wire has such.
    pub status: Option<u16>,
    /// What it says, shortened.
    pub text: String,
}

impl Refused {
    /// An answer that says `text`.
    pub fn new(status: Option<u16>, text: &[u8]) -> Refused {
        let shown = &text[..text.len().min(300)];
        Refused {
            status,
            text: String::from_utf8_lossy(shown).into_owned(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the server answered")?;
        if let Some(status) = self.status {
            write!(out, " {status}")?;
        }
        write!(out, ": {}", self.text)
    }
}
