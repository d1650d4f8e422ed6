//! The servers of the peers, as a fair comparison starts them: on one core, nothing written to disk.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

use super::program::Program;
use crate::LoadError;
use crate::pin::pin;
use crate::server::{Cpus, Server, free_address};

/// Starts Redis with nothing that persists.
pub fn start_redis(program: &Program, cpus: Cpus) -> Result<Server, LoadError> {
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
    pinned(&mut command, cpus, |command| {
        Server::spawn_at(address, command)
    })
}

/// A NATS server with the folder that JetStream insists on.
#[derive(Debug)]
pub struct Nats {
    // Before the folder, which it uses.
    server: Server,
    _store: Option<Folder>,
}

impl Nats {
    /// Starts NATS; `jetstream`: with its store of messages, whose streams say themselves that they are
    /// kept in memory.
    pub fn start(program: &Program, cpus: Cpus, jetstream: bool) -> Result<Nats, LoadError> {
        let address = free_address()?;
        let store = jetstream.then(Folder::make).transpose()?;
        let mut command = program.command();
        command
            .args(["--addr", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            // As many threads as there are cores for it.
            .env("GOMAXPROCS", "1");
        if let Some(Folder(path)) = &store {
            command.arg("--jetstream").arg("--store_dir").arg(path);
        }
        // It tells every start and stop as if it were worth a warning.
        command.stderr(Stdio::null());
        let server = pinned(&mut command, cpus, |command| {
            Server::spawn_at(address, command)
        })?;
        Ok(Nats {
            server,
            _store: store,
        })
    }

    /// The process.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

/// Runs `start` on the core of the servers.
fn pinned(
    command: &mut Command,
    cpus: Cpus,
    start: impl FnOnce(&mut Command) -> Result<Server, LoadError>,
) -> Result<Server, LoadError> {
    pin(&[cpus.server])?;
    let started = start(command);
    pin(&[cpus.load])?;
    started
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
