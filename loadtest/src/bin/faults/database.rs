//! The PostgreSQL whose faults are measured: started by this program beside the broker, so that
//! nobody else brings it back.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use postgres::NoTls;
use queen::postgres::{ClusterPlan, PrivateCluster, ProgramSearch, find_programs};
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::{LoadError, pin};
use rustix::process::{Pid, Signal, kill_process, setpriority_process};

use crate::disk::Disk;

/// How long the server may take to stop; then it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The least that a process can ask for (setpriority(2)).
const LOWEST_PRIORITY: i32 = 19;

/// Makes the current thread, and what it starts, run on `cpu` at the lowest priority: a server that
/// shares the generator's core must not delay what is measured.
pub(crate) fn stand_back(cpu: usize) -> Result<(), LoadError> {
    pin::pin(&[cpu])?;
    Ok(setpriority_process(None, LOWEST_PRIORITY).map_err(io::Error::from)?)
}

/// A server on the small disk, behind a unix socket. Dropping it stops it and removes everything.
#[derive(Debug)]
pub(crate) struct Database {
    // Before the disk, which holds its files.
    cluster: PrivateCluster,
    disk: Disk,
    interrupt: Interrupt,
}

impl Database {
    /// Makes a cluster and starts its server, which runs as the current thread does.
    pub(crate) fn create(interrupt: &Interrupt) -> Result<Database, LoadError> {
        let given = std::env::var_os("QUEEN_PG_BIN").map(PathBuf::from);
        let programs = match find_programs(given.as_deref()).map_err(io::Error::other)? {
            ProgramSearch::Found(programs) => programs,
            ProgramSearch::NotFound { .. } => {
                return Err(LoadError::text("PostgreSQL's programs are not installed"));
            }
        };
        let disk = Disk::make()?;
        let plan = ClusterPlan::new(disk.data().join("postgres"), programs);
        let mut database = Database {
            cluster: PrivateCluster::open(plan).map_err(io::Error::other)?,
            disk,
            interrupt: interrupt.clone(),
        };
        database.start()?;
        Ok(database)
    }

    /// Where its files are.
    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The settings by which a broker finds it. They hold for every start of the server.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let address = self.cluster.address().expect("it was started");
        vec![
            ("PG_HOST", self.socket_link().display().to_string()),
            ("PG_PORT", address.port.to_string()),
            ("PG_USER", address.user.to_owned()),
            ("PG_DATABASE", address.database.to_owned()),
        ]
    }

    /// Every start has a socket folder of its own; this name leads to the present one.
    fn socket_link(&self) -> PathBuf {
        self.disk.top().join("socket")
    }

    /// Starts it if it does not run, and waits until it lets clients in.
    pub(crate) fn start(&mut self) -> Result<(), LoadError> {
        let interrupt = &self.interrupt;
        self.cluster
            .start(&mut |_| match interrupt.check() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
            .map_err(io::Error::other)?;
        let address = self.cluster.address().expect("it was started");
        let link = self.socket_link();
        match fs::remove_file(&link) {
            Err(fault) if fault.kind() != ErrorKind::NotFound => return Err(fault.into()),
            _ => symlink(address.socket_folder, link)?,
        }
        Ok(())
    }

    /// Stops it.
    pub(crate) fn stop(&mut self) {
        self.cluster.stop(STOP_LIMIT);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.cluster.is_running()
    }

    /// Sends a signal to all its processes, the first one first, which starts the others.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let Some(first) = self.first() else { return };
        send(first, signal);
        for process in children(first) {
            send(process, signal);
        }
    }

    /// Ends the session that was opened first; the server goes on. False when there is none.
    pub(crate) fn end_session(&self) -> bool {
        let oldest = self.first().and_then(|first| {
            let sessions = children(first)
                .into_iter()
                .filter(|&process| is_session(process));
            sessions.min_by_key(|process| process.as_raw_nonzero())
        });
        oldest
            .inspect(|&process| send(process, Signal::TERM))
            .is_some()
    }

    /// Begins a new segment of the write-ahead log, which takes room on the disk. Fails where the
    /// server is on its knees, as it should be.
    pub(crate) fn use_up_log(&self) -> bool {
        let Some(address) = self.cluster.address() else {
            return false;
        };
        let client = postgres::Config::new()
            .host_path(address.socket_folder)
            .port(address.port)
            .user(address.user)
            .dbname(address.database)
            .connect_timeout(Duration::from_secs(1))
            .connect(NoTls);
        // A transaction's number has to be logged, or there would be nothing to end a segment for.
        let text = "SELECT txid_current(); SELECT pg_switch_wal()";
        client.is_ok_and(|mut client| client.batch_execute(text).is_ok())
    }

    fn first(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.cluster.pid()?).ok()?)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Whatever fault it is under.
        self.signal_all(Signal::CONT);
        self.stop();
    }
}

/// A process that has ended meanwhile needs no signal.
fn send(process: Pid, signal: Signal) {
    let _ = kill_process(process, signal);
}

/// The processes that a process has started (proc(5)).
fn children(process: Pid) -> Vec<Pid> {
    let number = process.as_raw_nonzero();
    let path = format!("/proc/{number}/task/{number}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect()
}

/// Whether a process of the server serves a client: its title says where that one is.
fn is_session(process: Pid) -> bool {
    let path = format!("/proc/{}/cmdline", process.as_raw_nonzero());
    fs::read(path).is_ok_and(|title| String::from_utf8_lossy(&title).contains("[local]"))
}
