//! Creation: `initdb` works in a folder beside the cluster's, which takes its place when it is
//! complete. What a creation that was broken off has left is removed by the next start.

use std::fs;
use std::io::{BufRead, BufReader, PipeReader};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::USER;
use super::data_folder::DataFolder;
use super::deadline::{Deadline, wait_until};
use super::fault::ClusterFault;
use super::process::servers_of;
use super::programs::Programs;
use super::server_log::{names_full_disk, telling};
use super::settings;
use super::watch::Watch;
use crate::limits::{CLUSTER_CONTENTION_MS, CLUSTER_POLL_MS};

/// Creates the cluster of a data folder that has none.
pub(super) fn create(
    folder: &DataFolder,
    programs: &Programs,
    watch: &mut Watch<'_>,
) -> Result<(), ClusterFault> {
    watch.step(&format!(
        "creating a private PostgreSQL {} cluster in {} as user {}",
        programs.version(),
        folder.cluster().display(),
        folder.account.name
    ))?;
    let unfinished = folder.make_unfinished()?;
    let created = run_initdb(folder, programs, &unfinished, watch)
        .and_then(|()| settings::append(folder, &unfinished));
    let finished = created.and_then(|()| folder.finish(&unfinished));
    if finished.is_err() {
        remove(&unfinished);
    }
    finished
}

/// Removes what creations that were broken off have left. A program of theirs may still run, if the
/// broker was killed: it works for nobody.
pub(super) fn sweep(folder: &DataFolder) {
    for unfinished in folder.unfinished() {
        tracing::info!(folder = %unfinished.display(), "removing a cluster that was never complete");
        remove(&unfinished);
    }
}

fn remove(unfinished: &Path) {
    for process in servers_of(unfinished) {
        process.signal(Signal::KILL);
    }
    let mut last = None;
    // A program that still runs may put files where others were just removed.
    let deadline = Deadline::after(Duration::from_millis(CLUSTER_CONTENTION_MS));
    let removed = wait_until(deadline, || match fs::remove_dir_all(unfinished) {
        Ok(()) => true,
        Err(fault) => {
            let gone = fault.kind() == std::io::ErrorKind::NotFound;
            last = Some(fault);
            gone
        }
    });
    if !removed {
        let fault = last.map(|fault| fault.to_string()).unwrap_or_default();
        tracing::warn!(folder = %unfinished.display(), %fault, "a folder cannot be removed");
    }
}

fn run_initdb(
    folder: &DataFolder,
    programs: &Programs,
    unfinished: &Path,
    watch: &mut Watch<'_>,
) -> Result<(), ClusterFault> {
    let program = programs.initdb();
    let failed = |fault| ClusterFault::ProgramFailed {
        program: program.clone(),
        account: folder.account.name.clone(),
        fault,
    };
    // Ends with the broker: a program that nobody listens to any more gets SIGPIPE.
    let (output, writer) = std::io::pipe().map_err(failed)?;
    let mut command = folder.account.command(&program);
    command
        .arg("--pgdata")
        .arg(unfinished)
        .args(["--username", USER, "--encoding", "UTF8", "--locale", "C"])
        .args([
            "--data-checksums",
            "--auth-local",
            "trust",
            "--auth-host",
            "reject",
        ])
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer);
    let child = command.spawn().map_err(failed)?;
    // It holds the writing ends of the pipe, which would keep it open.
    drop(command);
    let lines = read_lines(output).map_err(failed)?;
    let mut initdb = Initdb { child, lines };
    let said = match initdb.follow(watch) {
        Ok(said) => said,
        Err(fault) => {
            initdb.kill();
            return Err(fault);
        }
    };
    let status = initdb.child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    if names_full_disk(&said) {
        return Err(ClusterFault::DiskFull {
            folder: folder.path().to_owned(),
        });
    }
    Err(ClusterFault::CreationFailed {
        folder: folder.path().to_owned(),
        output: format!("{status}; {}", telling_of(&said)),
    })
}

/// Its errors begin with its name; without any, the last lines.
fn telling_of(said: &str) -> String {
    let errors: Vec<&str> = said
        .lines()
        .filter(|line| {
            ["error:", "hint:", "detail:"]
                .iter()
                .any(|mark| line.contains(mark))
        })
        .collect();
    telling(&if errors.is_empty() {
        said.to_owned()
    } else {
        errors.join("\n")
    })
}

/// The lines of a program's output, read by a thread that ends with it.
fn read_lines(output: PipeReader) -> std::io::Result<Receiver<String>> {
    let (sender, lines) = mpsc::channel();
    thread::Builder::new()
        .name("initdb-output".into())
        .spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        })?;
    Ok(lines)
}

struct Initdb {
    child: Child,
    lines: Receiver<String>,
}

impl Initdb {
    /// Passes its lines on until there are no more; all that it said.
    fn follow(&mut self, watch: &mut Watch<'_>) -> Result<String, ClusterFault> {
        let mut said = String::new();
        let mut heard = Instant::now();
        loop {
            let line = self
                .lines
                .recv_timeout(Duration::from_millis(CLUSTER_POLL_MS));
            match line {
                Ok(line) => {
                    heard = Instant::now();
                    if line.contains(" ... ") {
                        watch.step(&format!("initdb: {line}"))?;
                    }
                    said.push_str(&line);
                    said.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(said),
                Err(RecvTimeoutError::Timeout) => {
                    watch.waiting()?;
                    watch.stalled_since(heard, "initdb", || telling(&said))?;
                }
            }
        }
    }

    /// Ends it with all that it has started, which are in its process group.
    fn kill(&mut self) {
        let group = Pid::from_child(&self.child);
        if let Err(fault) = kill_process_group(group, Signal::KILL) {
            tracing::debug!(%fault, "initdb has ended by itself");
        }
        if let Err(fault) = self.child.wait() {
            tracing::warn!(%fault, "initdb cannot be waited for");
        }
    }
}
