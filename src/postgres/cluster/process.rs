//! Processes that are no children, as /proc shows them (proc(5)).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// The name of every process of a server.
const SERVER_NAME: &str = "postgres";

/// A process by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId(Pid);

impl ProcessId {
    /// `None` for what is no id of a process.
    pub(super) fn new(pid: u32) -> Option<ProcessId> {
        let raw = i32::try_from(pid).ok()?;
        Pid::from_raw(raw).map(ProcessId)
    }

    pub(super) fn number(self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    fn path(self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.number()))
    }

    /// Whether it runs; one that has ended and was not waited for does not.
    pub(super) fn is_alive(self) -> bool {
        fs::read_to_string(self.path("stat"))
            .is_ok_and(|stat| name_and_state(&stat).is_some_and(|(_, state)| !is_end(state)))
    }

    /// Whether it is a process of the server whose data folder is `cluster`: a server works in its
    /// data folder.
    pub(super) fn serves(self, cluster: &Path) -> bool {
        let Ok(stat) = fs::read_to_string(self.path("stat")) else {
            return false;
        };
        let runs = name_and_state(&stat)
            .is_some_and(|(name, state)| name == SERVER_NAME && !is_end(state));
        if !runs {
            return false;
        }
        let same = |left: &fs::Metadata, right: &fs::Metadata| {
            (left.dev(), left.ino()) == (right.dev(), right.ino())
        };
        match (fs::metadata(self.path("cwd")), fs::metadata(cluster)) {
            (Ok(left), Ok(right)) => same(&left, &right),
            // The link may be hidden even from root (a container without CAP_SYS_PTRACE), the
            // command line is not.
            _ => fs::read(self.path("cmdline")).is_ok_and(|line| names_path(&line, cluster)),
        }
    }

    /// Sends a signal; one that cannot be sent has found no process, and looking tells.
    pub(super) fn signal(self, signal: Signal) {
        if let Err(fault) = kill_process(self.0, signal) {
            tracing::debug!(pid = self.number(), %fault, "a signal was not delivered");
        }
    }
}

/// The processes of the server of `cluster`.
pub(super) fn servers_of(cluster: &Path) -> Vec<ProcessId> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| ProcessId::new(entry.file_name().to_str()?.parse().ok()?))
        .filter(|process| process.serves(cluster))
        .collect()
}

/// Name and state letter in the text of /proc/pid/stat. The name stands in parentheses and may hold
/// some itself.
fn name_and_state(stat: &str) -> Option<(&str, char)> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(") ")?;
    Some((name, rest.chars().next()?))
}

/// A state of a process that has ended.
fn is_end(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}

/// Whether one of the arguments is the path.
fn names_path(line: &[u8], path: &Path) -> bool {
    line.split(|byte| *byte == 0)
        .any(|argument| argument == path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_whatever_the_name() {
        assert_eq!(
            name_and_state("12 (postgres) S 1 12"),
            Some(("postgres", 'S'))
        );
        assert_eq!(name_and_state("12 (a) Z (b) Z 1"), Some(("a) Z (b", 'Z')));
        assert_eq!(name_and_state(""), None);
    }

    #[test]
    fn this_process_is_alive_and_no_server() {
        let process = ProcessId::new(std::process::id()).unwrap();
        assert!(process.is_alive());
        assert!(!process.serves(&std::env::current_dir().unwrap()));
        assert_eq!(ProcessId::new(0), None);
        assert_eq!(ProcessId::new(u32::MAX), None);
    }

    #[test]
    fn a_child_that_ended_is_not_alive_before_it_is_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = ProcessId::new(child.id()).unwrap();
        let limit = std::time::Duration::from_secs(10);
        let deadline = super::super::deadline::Deadline::after(limit);
        assert!(super::super::deadline::wait_until(deadline, || !process.is_alive()));
        child.wait().unwrap();
    }

    #[test]
    fn a_path_is_found_among_the_arguments() {
        let line = b"/bin/postgres\0-D\0/data/my cluster\0";
        assert!(names_path(line, Path::new("/data/my cluster")));
        assert!(!names_path(line, Path::new("/data/my")));
    }
}
