//! The broker that is measured: one shard on one core, nothing lingers, no database.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::pin::pin;
use queen_loadtest::server::{Cpus, Server};
use queen_loadtest::{LoadError, control, wire};

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
        pin(&[self.cpus.server])?;
        let started = Server::spawn(Command::new(self.program).envs([
            ("QUEEN_IO", self.io),
            ("QUEEN_DURABLE", "off"),
            ("QUEEN_SHARDS", "1"),
            ("QUEEN_EPHEMERAL_LINGER_S", "0"),
            ("QUEEN_EPHEMERAL_MAX_BYTES", "4294967296"),
            ("QUEEN_LOG", "error"),
        ]));
        pin(&[self.cpus.load])?;
        Ok(Broker {
            server: started?,
            interrupt: self.interrupt.clone(),
        })
    }
}

impl Broker {
    /// Lets time pass until the next look.
    pub(crate) fn pause(&self) -> Result<(), LoadError> {
        self.interrupt.wait_until(Instant::now() + LOOK)
    }

    /// Bytes of memory that the process has (VmRSS).
    pub(crate) fn resident_bytes(&self) -> Result<u64, LoadError> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let kibibytes = kibibytes.ok_or_else(|| LoadError::text("no VmRSS in /proc"))?;
        Ok(kibibytes * 1024)
    }

    /// Waits until the size of the process no longer changes; that size.
    pub(crate) fn at_rest(&self) -> Result<u64, LoadError> {
        let started = Instant::now();
        let mut size = self.resident_bytes()?;
        let mut since = Instant::now();
        while since.elapsed() < REST {
            if started.elapsed() > SETTLE_LIMIT {
                return Err(LoadError::text("the size of the broker goes on changing"));
            }
            self.pause()?;
            let now = self.resident_bytes()?;
            if now.abs_diff(size) > REST_BYTES {
                (size, since) = (now, Instant::now());
            }
        }
        self.resident_bytes()
    }

    /// Waits until so many pops are parked.
    pub(crate) fn wait_until_parked(&self, count: usize) -> Result<(), LoadError> {
        let started = Instant::now();
        while self.parked()? != count {
            if started.elapsed() > SETTLE_LIMIT {
                return Err(LoadError::text("not every pop came to be parked"));
            }
            self.pause()?;
        }
        Ok(())
    }

    fn parked(&self) -> Result<usize, LoadError> {
        let mut request = Vec::new();
        wire::metrics(&mut request);
        let (_, body) = control::request(self.server.address, &request)?;
        let text = String::from_utf8_lossy(&body);
        let series = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("queen_core_parked_long_polls{")?;
            rest.rsplit(' ').next()?.parse::<usize>().ok()
        });
        Ok(series.sum())
    }
}
