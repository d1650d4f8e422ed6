//! The servers of the peers, as a fair comparison starts them: on one core, nothing written to disk.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

use queen_loadtest::LoadError;
use queen_loadtest::pin::start_on;
use queen_loadtest::server::{Cpus, Server, free_address};

use crate::program::Program;

/// A server that runs, with the folder that JetStream insists on.
#[derive(Debug)]
pub(crate) struct Running {
    // Before the folder, which it uses.
    pub(crate) server: Server,
    _store: Option<Folder>,
}

impl From<Server> for Running {
    fn from(server: Server) -> Running {
        Running {
            server,
            _store: None,
        }
    }
}

/// Starts Redis with nothing that persists.
pub(crate) fn start_redis(program: &Program, cpus: Cpus) -> Result<Running, LoadError> {
    let address = free_address()?;
    let mut command = program.command();
    command
        .args(["--bind", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .args(["--save", "", "--appendonly", "no"])
        // Nobody else comes to the loopback address, and there is no password.
        .args(["--protected-mode", "no"])
        .args(["--maxclients", "20000"])
        .args(["--loglevel", "warning"]);
    let start = || Server::spawn_at(address, &mut command);
    Ok(start_on(&[cpus.server], cpus.load, start)?.into())
}

/// Starts NATS; `jetstream`: with its store of messages, whose streams say themselves that they are
/// kept in memory.
pub(crate) fn start_nats(
    program: &Program,
    cpus: Cpus,
    jetstream: bool,
) -> Result<Running, LoadError> {
    let address = free_address()?;
    let store = jetstream.then(Folder::make).transpose()?;
    let mut command = program.command();
    command
        .args(["--addr", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        // As many threads as there are cores for it.
        .env("GOMAXPROCS", "1")
        // It tells every start and stop as if it were worth a warning.
        .stderr(Stdio::null());
    if let Some(Folder(path)) = &store {
        command.arg("--jetstream").arg("--store_dir").arg(path);
    }
    let start = || Server::spawn_at(address, &mut command);
    Ok(Running {
        server: start_on(&[cpus.server], cpus.load, start)?,
        _store: store,
    })
}

/// A folder of its own, removed with the value.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Folder, LoadError> {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("queen-peers-{}-{number}", process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A temporary folder that stays behind harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
