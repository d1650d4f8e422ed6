//! A server process that a comparison starts: on one core, with a port of its own, killed at the
//! end, and held while another one is measured.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::LoadError;
use crate::pin::{start_on, usable_cpus};
use crate::report::Report;

/// How long a server may take to accept connections.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Where a server runs and where its load comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The core of the servers.
    pub server: usize,
    /// The core of the generator, to which the current thread returns.
    pub load: usize,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Cpus {
    /// The CPUs that were given, else the first usable one for servers and the second for the
    /// generator.
    pub fn choose(server: Option<usize>, load: Option<usize>) -> Result<Cpus, LoadError> {
        let usable = usable_cpus();
        let first = *usable
            .first()
            .ok_or_else(|| LoadError::text("no CPU can be pinned to"))?;
        let cpus = Cpus {
            server: server.unwrap_or(first),
            load: load.unwrap_or(usable.get(1).copied().unwrap_or(first)),
        };
        if cpus.server == cpus.load {
            eprintln!("servers and generator share one CPU: the ratios say little");
        }
        Ok(cpus)
    }
}

impl Server {
    /// Starts `program` without a database, pinned to its core, `QUEEN_IO` set to `io`, and waits
    /// until it accepts connections. Its log goes to standard error if it is a warning.
    pub fn start(program: &Path, io: &str, cpus: Cpus) -> Result<Server, LoadError> {
        let mut command = without_database(program, io);
        start_on(&[cpus.server], cpus.load, || Server::spawn(&mut command))
    }

    /// Starts `broker` with one shard, which it pins itself, and with these settings;
    /// unless they say how long it polls, it does as it is made to.
    pub fn one_shard(
        broker: &Path,
        io: &str,
        cpus: Cpus,
        settings: &[(&str, String)],
    ) -> Result<Server, LoadError> {
        let mut command = without_database(broker, io);
        command
            .env("QUEEN_SHARDS", "1")
            .env("QUEEN_PIN", cpus.server.to_string())
            .env_remove("QUEEN_SPIN_US")
            .envs(settings.iter().cloned());
        // A broker that had no CPU beside that of its shard would not poll; what else it does, which
        // is nothing while it is measured, is done there.
        let cores = [cpus.server, cpus.load];
        start_on(&cores, cpus.load, || Server::spawn(&mut command))
    }

    /// Starts what `command` says, on the cores of the current thread, and waits until it accepts
    /// connections.
    pub fn spawn(command: &mut Command) -> Result<Server, LoadError> {
        let address = free_address()?;
        command
            .env("PORT", address.port().to_string())
            .env("QUEEN_BIND_ADDR", address.ip().to_string());
        Server::spawn_at(address, command)
    }

    /// The same for a program that `command` has told to listen at `address`.
    pub fn spawn_at(address: SocketAddr, command: &mut Command) -> Result<Server, LoadError> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = Server {
            child: started?,
            address,
        };
        server.wait_until_up()?;
        Ok(server)
    }

    /// Waits until it accepts connections; one that ends by itself is not waited for.
    fn wait_until_up(&mut self) -> Result<(), LoadError> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(std::io::Error::other(format!("the server ended: {status}")).into());
            }
            match TcpStream::connect(self.address) {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > START_LIMIT => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Lets it run while `run` loads it at its address; the report, which must be clean.
    pub fn measure(
        &self,
        run: impl FnOnce(SocketAddr) -> Result<Report, LoadError>,
    ) -> Result<Report, LoadError> {
        self.release()?;
        let report = run(self.address);
        self.hold()?;
        report?.clean()
    }

    /// Stops its clock: a server that is not measured takes nothing from the core.
    pub fn hold(&self) -> Result<(), LoadError> {
        self.signal(Signal::STOP)
    }

    /// Lets it run again.
    pub fn release(&self) -> Result<(), LoadError> {
        self.signal(Signal::CONT)
    }

    /// Bytes of memory that it holds now (VmRSS, proc(5)).
    pub fn resident_bytes(&self) -> Result<u64, LoadError> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let words = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = words.and_then(|words| words.split_whitespace().next()?.parse::<u64>().ok());
        let kib =
            kib.ok_or_else(|| LoadError::text("the kernel does not tell a server's memory"))?;
        Ok(kib * 1024)
    }

    fn signal(&self, signal: Signal) -> Result<(), LoadError> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|error| std::io::Error::from(error).into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn without_database(program: &Path, io: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("QUEEN_IO", io)
        .env("QUEEN_DURABLE", "off")
        .env("QUEEN_LOG", "warn");
    command
}

/// A port that nobody listens on.
pub fn free_address() -> Result<SocketAddr, LoadError> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
