//! The servers, all held except the one that is measured, and the rounds.

use std::path::PathBuf;
use std::process::Command;

use queen_loadtest::LoadError;
use queen_loadtest::peer::parked::bytes_per_consumer;
use queen_loadtest::peer::program::Program;
use queen_loadtest::peer::server::{Nats, start_redis};
use queen_loadtest::pin::pin;
use queen_loadtest::server::{Cpus, Server};

use crate::rows::{BATCH, Deed, Entry, Outcome, Row, Size};

/// Payload bytes of a broker unless it stores more in a row.
const BROKER_BYTES: u64 = 256 * 1024 * 1024;

/// Connections of a broker beside those that wait: more than any row needs.
const OTHER_CONNECTIONS: usize = 200;

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Broker,
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
pub(crate) struct Contest {
    pub(crate) broker: PathBuf,
    pub(crate) redis: Program,
    pub(crate) nats: Program,
    pub(crate) io: String,
    pub(crate) cpus: Cpus,
    pub(crate) size: Size,
    pub(crate) polling_us: u32,
}

/// A server that runs.
enum Running {
    Plain(Server),
    Nats(Nats),
}

impl Running {
    fn server(&self) -> &Server {
        match self {
            Running::Plain(server) => server,
            Running::Nats(nats) => nats.server(),
        }
    }
}

/// The servers that were started, each for all rows that need it.
struct Servers(Vec<(Host, Spin, Running)>);

impl Contest {
    /// Measures all rows, round by round. Within a round all who do the same work are measured one
    /// after the other, in every other round from the last to the first.
    pub(crate) fn play(&self, rounds: u32, rows: &mut [Row]) -> Result<(), LoadError> {
        let mut servers = Servers(Vec::new());
        for round in 0..rounds {
            for row in &mut *rows {
                let mut turns = turns(row);
                if round % 2 == 1 {
                    turns.reverse();
                }
                for (index, spin) in turns {
                    self.size.load.interrupt.check()?;
                    let outcome = self.measure(&mut servers, row, index, spin)?;
                    let entry = &mut row.entries[index];
                    tell(round, row.work, entry, &outcome);
                    entry.outcomes.push(outcome);
                }
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        servers: &mut Servers,
        row: &Row,
        index: usize,
        spin: Spin,
    ) -> Result<Outcome, LoadError> {
        let entry = &row.entries[index];
        match &entry.deed {
            Deed::Park(consumers) => {
                let running = self.start(entry.host, spin)?;
                let (server, size) = (running.server(), &self.size);
                let interrupt = &size.load.interrupt;
                let bytes = bytes_per_consumer(server, *consumers, size.waiting, interrupt)?;
                Ok(Outcome {
                    spin,
                    figures: vec![bytes],
                    idle_share: None,
                })
            }
            Deed::Run(run) => {
                let server = servers.get(self, entry.host, spin)?;
                server.release()?;
                let report = run(&self.size, server.address);
                server.hold()?;
                let report = report?;
                if !report.is_clean() {
                    let (work, way, host) = (row.work, entry.way, entry.host);
                    let (refused, given_up) = (&report.refused, report.given_up);
                    return Err(LoadError::text(format!(
                        "{work}, {host:?} {way}: refused {refused:?}, given up {given_up}"
                    )));
                }
                Ok(Outcome {
                    spin,
                    figures: row.measure.of(&report),
                    idle_share: report.idle_share(),
                })
            }
        }
    }

    fn start(&self, host: Host, spin: Spin) -> Result<Running, LoadError> {
        match host {
            Host::Broker => Ok(Running::Plain(self.start_broker(spin)?)),
            Host::Redis => Ok(Running::Plain(start_redis(&self.redis, self.cpus)?)),
            Host::Nats => Ok(Running::Nats(Nats::start(&self.nats, self.cpus, false)?)),
            Host::JetStream => Ok(Running::Nats(Nats::start(&self.nats, self.cpus, true)?)),
        }
    }

    /// One shard on the core of the servers, without a database.
    fn start_broker(&self, spin: Spin) -> Result<Server, LoadError> {
        let Cpus { server, load } = self.cpus;
        let messages = self.size.units_stored * u64::from(BATCH);
        let bytes = messages * self.size.load.payload_bytes as u64;
        let connections = self.size.waiting + OTHER_CONNECTIONS;
        let mut command = Command::new(&self.broker);
        command
            .env("QUEEN_IO", &self.io)
            .env("QUEEN_DURABLE", "off")
            .env("QUEEN_SHARDS", "1")
            .env("QUEEN_PIN", server.to_string())
            .env("QUEEN_LOG", "warn")
            .env("QUEEN_MAX_CONNECTIONS", connections.to_string())
            .env("QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH", messages.to_string())
            .env("QUEEN_EPHEMERAL_QUEUE_MAX_BYTES", bytes.to_string())
            .env(
                "QUEEN_EPHEMERAL_MAX_BYTES",
                bytes.max(BROKER_BYTES).to_string(),
            )
            .env_remove("QUEEN_SPIN_US");
        match spin {
            Spin::Off => command.env("QUEEN_SPIN_US", "0"),
            Spin::Polling => command.env("QUEEN_SPIN_US", self.polling_us.to_string()),
            Spin::Default => &mut command,
        };
        // It pins its shard itself, and to that the CPU alone must not be all it may use: what else it
        // does, which is nothing while it is measured, is done elsewhere.
        pin(&[server, load])?;
        let started = Server::spawn(&mut command);
        pin(&[load])?;
        started
    }
}

impl Servers {
    /// The one that does the work, started if it is the first time; it is held.
    fn get(&mut self, contest: &Contest, host: Host, spin: Spin) -> Result<&Server, LoadError> {
        // How long the broker polls makes no other peer.
        let spin = if host == Host::Broker {
            spin
        } else {
            Spin::Default
        };
        let is_it = |(known, polls, _): &(Host, Spin, Running)| (*known, *polls) == (host, spin);
        let found = match self.0.iter().position(is_it) {
            Some(found) => found,
            None => {
                let running = contest.start(host, spin)?;
                running.server().hold()?;
                self.0.push((host, spin, running));
                self.0.len() - 1
            }
        };
        Ok(self.0[found].2.server())
    }
}

/// Whose turn it is: the broker's once for each time that it polls.
fn turns(row: &Row) -> Vec<(usize, Spin)> {
    let mut turns = Vec::new();
    for (index, entry) in row.entries.iter().enumerate() {
        match entry.host {
            Host::Broker => turns.extend(row.spins.iter().map(|spin| (index, *spin))),
            _ => turns.push((index, Spin::Default)),
        }
    }
    turns
}

fn tell(round: u32, work: &str, entry: &Entry, outcome: &Outcome) {
    let (host, way) = (entry.host, entry.way);
    let polls = match (host, outcome.spin) {
        (Host::Broker, spin) => format!(" {spin:?}"),
        _ => String::new(),
    };
    let figures: Vec<String> = outcome
        .figures
        .iter()
        .map(|figure| format!("{figure:.0}"))
        .collect();
    eprintln!(
        "round {round}: {work}: {host:?}{polls} {way} {}",
        figures.join(" ")
    );
}
