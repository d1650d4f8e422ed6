//! The server's log: a file in the data folder, which outlives the broker as the server does.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::data_folder::{DataFolder, open_plain};
use super::fault::ClusterFault;
use crate::limits::{CLUSTER_LOG_BYTES_MAX, CLUSTER_LOG_TAIL_BYTES, FAULT_LINES_MAX};

const FILE_NAME: &str = "postgres.log";
const OLD_NAME: &str = "postgres.log.1";

/// What marks the lines that tell why a server ended.
const TELLING: [&str; 8] = [
    "FATAL:",
    "PANIC:",
    "ERROR:",
    "DETAIL:",
    "HINT:",
    "could not",
    // Faults of postgresql.conf are told before the end is.
    " in file \"",
    "for parameter \"",
];

/// How the system says that a disk, or a user's share of it, is full.
const DISK_FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// The log from where one start began.
#[derive(Debug)]
pub(super) struct ServerLog {
    path: PathBuf,
    start: u64,
}

impl ServerLog {
    /// The log of a data folder, from its end on.
    pub(super) fn from_end(folder: &DataFolder) -> ServerLog {
        let path = folder.path().join(FILE_NAME);
        let start = bytes_of(&path);
        ServerLog { path, start }
    }

    /// Opens the log for a server that is about to start; begins a new file if it has grown too
    /// large.
    pub(super) fn open(folder: &DataFolder) -> Result<(ServerLog, File), ClusterFault> {
        let path = folder.path().join(FILE_NAME);
        let fault_of = |fault| folder.fault_of("writing", &path, fault);
        if bytes_of(&path) > CLUSTER_LOG_BYTES_MAX {
            fs::rename(&path, folder.path().join(OLD_NAME)).map_err(fault_of)?;
        }
        let mut options = OpenOptions::new();
        let file = open_plain(options.append(true).create(true), &path).map_err(fault_of)?;
        folder.account.give_file(&file).map_err(fault_of)?;
        Ok((ServerLog::from_end(folder), file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the whole file: a server that makes progress says so.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.path)
    }

    /// The lines since the start that tell why it failed.
    pub(super) fn telling_lines(&self) -> String {
        telling(&self.text())
    }

    /// Whether a full disk was met since the start.
    pub(super) fn says_disk_full(&self) -> bool {
        names_full_disk(&self.text())
    }

    /// Whether no reason stands in it since the start.
    pub(super) fn says_nothing(&self) -> bool {
        let text = self.text();
        !TELLING.iter().any(|mark| text.contains(mark))
    }

    /// Whether the start was refused because the folder is still in use.
    pub(super) fn says_in_use(&self) -> bool {
        let text = self.text();
        ["pre-existing shared memory block", "already exists"]
            .iter()
            .any(|part| text.contains(part))
    }

    fn text(&self) -> String {
        let mut bytes = Vec::new();
        let from = self.bytes().saturating_sub(CLUSTER_LOG_TAIL_BYTES);
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(from.max(self.start)))?;
            file.take(CLUSTER_LOG_TAIL_BYTES).read_to_end(&mut bytes)
        });
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(fault) => format!("(cannot be read: {fault})"),
        }
    }
}

fn bytes_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Whether the output of a program says that a disk is full.
pub(super) fn names_full_disk(output: &str) -> bool {
    DISK_FULL.iter().any(|words| output.contains(words))
}

/// The lines that tell why, or the last ones if none looks like it.
pub(super) fn telling(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let tells = |line: &&&str| TELLING.iter().any(|mark| line.contains(mark));
    let marked: Vec<&str> = lines.iter().filter(tells).copied().collect();
    let chosen = if marked.is_empty() { &lines } else { &marked };
    let chosen = &chosen[chosen.len().saturating_sub(FAULT_LINES_MAX)..];
    if chosen.is_empty() {
        return "(nothing)".to_owned();
    }
    chosen.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_tell_why_are_found() {
        let text = "1 LOG:  starting\n\n2 FATAL:  no\n2 HINT:  try\n3 LOG:  database system is shut down\n";
        assert_eq!(telling(text), "2 FATAL:  no; 2 HINT:  try");
        assert_eq!(telling("one\ntwo\n"), "one; two");
        assert_eq!(telling(""), "(nothing)");
        let many: String = (0..100).map(|number| format!("{number}\n")).collect();
        assert!(telling(&many).ends_with("98; 99"));
        assert_eq!(telling(&many).matches("; ").count(), FAULT_LINES_MAX - 1);
    }
}
