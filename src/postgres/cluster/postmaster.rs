//! The server's first process: started as a child, or found running and adopted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::data_folder::DataFolder;
use super::deadline::{Deadline, pause, wait_until};
use super::fault::ClusterFault;
use super::pid_file::PidFile;
use super::probe::{self, Answer};
use super::process::{ProcessId, servers_of};
use super::programs::Programs;
use super::server_log::ServerLog;
use super::socket_folder;
use super::watch::Watch;
use super::{DATABASE, PORT, USER};
use crate::limits::CLUSTER_CONTENTION_MS;

/// How the server was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// There was none.
    NotRunning,
    /// In order: sessions ended, everything on disk.
    Fast,
    /// At once; the next start recovers.
    Immediate,
    /// By `kill -9`; the next start recovers.
    Killed,
    /// Not even so within the time given.
    StillRunning,
}

/// What waiting for a server came to.
#[derive(Debug)]
pub(super) enum Arrival {
    /// It lets clients in.
    Ready,
    /// Its process has ended: how, where that is known.
    Gone(String),
}

/// A running server.
#[derive(Debug)]
pub(super) struct Postmaster {
    process: ProcessId,
    /// Of this broker; an adopted one is nobody's child here.
    child: Option<Child>,
    socket_folder: Option<PathBuf>,
    port: u16,
}

impl Postmaster {
    /// Starts a server on a cluster that has none.
    pub(super) fn spawn(
        folder: &DataFolder,
        programs: &Programs,
        log: File,
        socket_folder: &Path,
    ) -> Result<Postmaster, ClusterFault> {
        let program = programs.postgres();
        let failed = |fault| ClusterFault::ProgramFailed {
            program: program.clone(),
            account: folder.account.name.clone(),
            fault,
        };
        let mut command = folder.account.command(&program);
        command.arg("-D").arg(folder.cluster());
        // What the broker relies on; all else is the operator's, in postgresql.conf.
        let settings = [
            "listen_addresses=".to_owned(),
            format!("unix_socket_directories={}", socket_folder.display()),
            "unix_socket_permissions=0700".to_owned(),
            format!("port={PORT}"),
            "log_destination=stderr".to_owned(),
            "logging_collector=off".to_owned(),
            "lc_messages=C".to_owned(),
            "cluster_name=queen".to_owned(),
        ];
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        let child = command.spawn().map_err(failed)?;
        let process = ProcessId::new(child.id()).expect("a child has an id");
        Ok(Postmaster {
            process,
            child: Some(child),
            socket_folder: Some(socket_folder.to_owned()),
            port: PORT,
        })
    }

    /// The server that runs on a cluster, whoever started it.
    pub(super) fn find(cluster: &Path) -> Option<Postmaster> {
        let file = PidFile::read(cluster)?;
        file.process.serves(cluster).then(|| Postmaster {
            process: file.process,
            child: None,
            socket_folder: file.socket_folder,
            port: file.port,
        })
    }

    pub(super) fn process(&self) -> ProcessId {
        self.process
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn socket_folder(&self) -> Option<&Path> {
        self.socket_folder.as_deref()
    }

    /// Whether it runs.
    pub(super) fn is_alive(&mut self, cluster: &Path) -> bool {
        self.end(cluster).is_none()
    }

    /// How it ended; `None` while it runs. A child is waited for, so that it does not stay in the
    /// table of processes, where the next server would take it for a live one.
    fn end(&mut self, cluster: &Path) -> Option<String> {
        match &mut self.child {
            Some(child) => match child.try_wait() {
                Ok(status) => status.map(|status| status.to_string()),
                Err(fault) => Some(fault.to_string()),
            },
            None => (!self.process.serves(cluster)).then(|| "it has ended".to_owned()),
        }
    }

    /// Waits until it lets clients in, as long as it makes progress.
    pub(super) fn arrive(
        &mut self,
        cluster: &Path,
        log: &ServerLog,
        watch: &mut Watch<'_>,
    ) -> Result<Arrival, ClusterFault> {
        let mut moved = Instant::now();
        let mut log_bytes = log.bytes();
        let mut told = false;
        loop {
            if let Some(end) = self.end(cluster) {
                return Ok(Arrival::Gone(end));
            }
            match self.ask(cluster) {
                Answer::Ready => return Ok(Arrival::Ready),
                Answer::Refused(answer) => {
                    let log = log.path().to_owned();
                    return Err(ClusterFault::Refused { answer, log });
                }
                Answer::NotNow => {
                    moved = Instant::now();
                    if !told {
                        watch.step("PostgreSQL recovers, starts or stops; waiting for it")?;
                        told = true;
                    }
                }
                Answer::Silent => {}
            }
            let bytes = log.bytes();
            if bytes != log_bytes {
                log_bytes = bytes;
                moved = Instant::now();
            }
            watch.waiting()?;
            watch.stalled_since(moved, "PostgreSQL", || log.telling_lines())?;
            pause();
        }
    }

    fn ask(&mut self, cluster: &Path) -> Answer {
        if self.socket_folder.is_none() {
            // It was found while it started and had no socket yet.
            let file = PidFile::read(cluster).filter(|file| file.process == self.process);
            self.socket_folder = file.and_then(|file| file.socket_folder);
        }
        let Some(folder) = &self.socket_folder else {
            return Answer::Silent;
        };
        let socket = socket_folder::socket_in(folder, self.port);
        probe::ask(&socket, USER, DATABASE)
    }

    /// Whether it had a socket that is not there any more (somebody cleaned up): nobody can reach
    /// such a server. It writes down where its socket is once it has it.
    pub(super) fn has_lost_socket(&self, cluster: &Path) -> bool {
        let file = PidFile::read(cluster).filter(|file| file.process == self.process);
        file.is_some_and(|file| {
            let folder = file.socket_folder.as_ref();
            folder.is_some_and(|folder| !socket_folder::socket_in(folder, file.port).exists())
        })
    }

    /// Stops it in order, then at once, then by force, all within `limit`.
    pub(super) fn stop(&mut self, cluster: &Path, limit: Duration) -> Stopped {
        let begin = Deadline::after(limit * 7 / 10);
        let soon = Deadline::after(limit * 9 / 10);
        let end = Deadline::after(limit);
        for (signal, deadline, stopped) in [
            (Signal::INT, begin, Stopped::Fast),
            (Signal::QUIT, soon, Stopped::Immediate),
            (Signal::KILL, end, Stopped::Killed),
        ] {
            self.process.signal(signal);
            if stopped == Stopped::Killed {
                end_orphans(cluster, Deadline::after(Duration::ZERO));
            }
            if wait_until(deadline, || !self.is_alive(cluster)) {
                return stopped;
            }
        }
        Stopped::StillRunning
    }
}

/// Ends what a killed server has left running: it would keep the next one out. To be called only
/// while no server owns the cluster. Whether all have ended within the time.
pub(super) fn end_orphans(cluster: &Path, deadline: Deadline) -> bool {
    wait_until(deadline, || {
        let orphans = servers_of(cluster);
        for process in &orphans {
            process.signal(Signal::KILL);
        }
        orphans.is_empty()
    })
}

/// Removes the file of a server that is gone, if a stranger has its process id now: PostgreSQL would
/// take the stranger for the server and refuse to start.
pub(super) fn heal_pid_file(folder: &DataFolder) -> Result<(), ClusterFault> {
    let cluster = folder.cluster();
    let Some(file) = PidFile::read(&cluster) else {
        return Ok(());
    };
    let limit = Duration::from_millis(CLUSTER_CONTENTION_MS);
    if file.process.serves(&cluster) || !end_orphans(&cluster, Deadline::after(limit)) {
        return Ok(());
    }
    if file.process.is_alive() {
        tracing::info!(
            pid = file.process.number(),
            "postmaster.pid names a process that is no server of this cluster; removing it"
        );
        let path = PidFile::path(&cluster);
        std::fs::remove_file(&path).map_err(|fault| folder.fault_of("removing", &path, fault))?;
    }
    Ok(())
}
