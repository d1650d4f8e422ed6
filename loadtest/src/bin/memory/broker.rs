//! The broker that is measured: one shard on one core, nothing lingers, no database.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use queen_loadtest::LoadError;
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::pin::start_on;
use queen_loadtest::server::{Cpus, Server};

/// How often the size of the process is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long the size must not have changed to be at rest.
const REST: Duration = Duration::from_secs(3);

/// A size that changes by no more is at rest.
const REST_BYTES: u64 = 256 * 1024;

/// How long the broker may take to be at rest.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// A broker with one shard.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) server: Server,
    interrupt: Interrupt,
}

/// How one is started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) interrupt: Interrupt,
    pub(crate) program: &'a Path,
    pub(crate) io: &'a str,
    pub(crate) cpus: Cpus,
    /// How long what a burst took may take to be given back.
    pub(crate) patience: Duration,
}

impl Start<'_> {
    pub(crate) fn broker(&self) -> Result<Broker, LoadError> {
        let mut command = Command::new(self.program);
        command.envs([
            ("QUEEN_IO", self.io),
            ("QUEEN_DURABLE", "off"),
            ("QUEEN_SHARDS", "1"),
            ("QUEEN_EPHEMERAL_LINGER_S", "0"),
            ("QUEEN_EPHEMERAL_MAX_BYTES", "4294967296"),
            ("QUEEN_LOG", "error"),
        ]);
        let Cpus { server, load } = self.cpus;
        Ok(Broker {
            server: start_on(&[server], load, || Server::spawn(&mut command))?,
            interrupt: self.interrupt.clone(),
        })
    }
}

impl Broker {
    /// Lets time pass until the next look.
    pub(crate) fn pause(&self) -> Result<(), LoadError> {
        self.interrupt.wait_until(Instant::now() + LOOK)
    }

    /// Waits until the size of the process no longer changes; that size.
    pub(crate) fn at_rest(&self) -> Result<u64, LoadError> {
        let started = Instant::now();
        let mut size = self.server.resident_bytes()?;
        let mut since = Instant::now();
        while since.elapsed() < REST {
            if started.elapsed() > SETTLE_LIMIT {
                return Err(LoadError::text("the size of the broker goes on changing"));
            }
            self.pause()?;
            let now = self.server.resident_bytes()?;
            if now.abs_diff(size) > REST_BYTES {
                (size, since) = (now, Instant::now());
            }
        }
        self.server.resident_bytes()
    }
}
