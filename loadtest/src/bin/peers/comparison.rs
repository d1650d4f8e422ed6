//! The servers, all held except the one that is measured, and the rounds.

use std::path::PathBuf;

use queen_loadtest::LoadError;
use queen_loadtest::server::{Cpus, Server};

use crate::parked::bytes_per_consumer;
use crate::program::Program;
use crate::rows::{BATCH, Entry, Outcome, Row, Size, Work};
use crate::server::{Running, start_nats, start_redis};

/// Payload bytes of a broker unless it stores more in a row.
const BROKER_BYTES: u64 = 256 * 1024 * 1024;

/// Connections of a broker beside those that wait: more than any row needs.
const OTHER_CONNECTIONS: usize = 200;

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Broker(Spin),
    Redis,
    /// Without JetStream.
    Nats,
    JetStream,
}

/// How long the broker polls before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spin {
    /// Not at all.
    Off,
    /// Longer than the gaps between messages.
    Polling,
    /// As it does if nothing is said.
    Default,
}

/// All that is needed for a server.
pub(crate) struct Comparison {
    pub(crate) broker: PathBuf,
    pub(crate) redis: Program,
    pub(crate) nats: Program,
    pub(crate) io: String,
    pub(crate) cpus: Cpus,
    pub(crate) size: Size,
    pub(crate) polling_us: u32,
}

/// The servers that were started, each for all rows that need it.
struct Servers(Vec<(System, Running)>);

impl Comparison {
    /// Measures all rows, round by round. Within a round all who do the same work are measured one
    /// after the other, in every other round from the last to the first.
    pub(crate) fn run(&self, rounds: u32, rows: &mut [Row]) -> Result<(), LoadError> {
        let mut servers = Servers(Vec::new());
        for round in 0..rounds {
            for row in &mut *rows {
                let mut turns: Vec<usize> = (0..row.entries.len()).collect();
                if round % 2 == 1 {
                    turns.reverse();
                }
                for index in turns {
                    self.size.load.interrupt.check()?;
                    let outcome = self.measure(&mut servers, row, &row.entries[index])?;
                    let Entry { system, way, .. } = row.entries[index];
                    let (work, figures) = (&row.work, &outcome.figures);
                    eprintln!("round {round}: {work}: {system:?} {way} {figures:.0?}");
                    row.entries[index].outcomes.push(outcome);
                }
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        servers: &mut Servers,
        row: &Row,
        entry: &Entry,
    ) -> Result<Outcome, LoadError> {
        match &entry.work {
            Work::Park => {
                let Running { server, .. } = &self.start(entry.system)?;
                let (waiting, interrupt) = (self.size.waiting, &self.size.load.interrupt);
                let bytes = bytes_per_consumer(server, entry.system, waiting, interrupt)?;
                Ok(Outcome {
                    figures: vec![bytes],
                    idle_share: None,
                })
            }
            Work::Run(run) => {
                let server = servers.get(self, entry.system)?;
                let report = server.measure(|address| run(&self.size, address));
                let (work, system, way) = (&row.work, entry.system, entry.way);
                let named = |error| LoadError::text(format!("{work}, {system:?} {way}: {error}"));
                let report = report.map_err(named)?;
                Ok(Outcome {
                    figures: row.measure.of(&report),
                    idle_share: report.idle_share(),
                })
            }
        }
    }

    fn start(&self, system: System) -> Result<Running, LoadError> {
        match system {
            System::Broker(spin) => self.start_broker(spin).map(Running::from),
            System::Redis => start_redis(&self.redis, self.cpus),
            System::Nats => start_nats(&self.nats, self.cpus, false),
            System::JetStream => start_nats(&self.nats, self.cpus, true),
        }
    }

    /// One shard on the core of the servers, without a database.
    fn start_broker(&self, spin: Spin) -> Result<Server, LoadError> {
        let messages = self.size.units_stored * u64::from(BATCH);
        let bytes = messages * self.size.load.payload_bytes as u64;
        let bytes_max = bytes.max(BROKER_BYTES);
        let connections = self.size.waiting + OTHER_CONNECTIONS;
        let mut settings = vec![
            ("QUEEN_MAX_CONNECTIONS", connections.to_string()),
            ("QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH", messages.to_string()),
            ("QUEEN_EPHEMERAL_QUEUE_MAX_BYTES", bytes.to_string()),
            ("QUEEN_EPHEMERAL_MAX_BYTES", bytes_max.to_string()),
        ];
        let spin_us = match spin {
            Spin::Off => Some(0),
            Spin::Polling => Some(self.polling_us),
            Spin::Default => None,
        };
        settings.extend(spin_us.map(|spin_us| ("QUEEN_SPIN_US", spin_us.to_string())));
        Server::one_shard(&self.broker, &self.io, self.cpus, &settings)
    }
}

impl Servers {
    /// The one that does the work, started if it is the first time; it is held.
    fn get(&mut self, comparison: &Comparison, system: System) -> Result<&Server, LoadError> {
        let found = self.0.iter().position(|(known, _)| *known == system);
        let at = match found {
            Some(at) => at,
            None => {
                let running = comparison.start(system)?;
                running.server.hold()?;
                self.0.push((system, running));
                self.0.len() - 1
            }
        };
        Ok(&self.0[at].1.server)
    }
}
