//! `postmaster.pid`, the file by which a server says that it has the data folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::process::ProcessId;

const FILE_NAME: &str = "postmaster.pid";

/// What a server has said of itself so far; it adds lines while it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PidFile {
    /// Its process.
    pub(super) process: ProcessId,
    /// Where its socket is, once it has one.
    pub(super) socket_folder: Option<PathBuf>,
    /// The number in the name of the socket.
    pub(super) port: u16,
}

impl PidFile {
    pub(super) fn path(cluster: &Path) -> PathBuf {
        cluster.join(FILE_NAME)
    }

    /// Reads the file of a cluster; `None` where it is not there or says nothing.
    pub(super) fn read(cluster: &Path) -> Option<PidFile> {
        parse(&fs::read_to_string(PidFile::path(cluster)).ok()?)
    }
}

/// Lines: process, data folder, start, port, socket folder, address, shared memory, state. A server
/// of a single user has a negative process.
fn parse(text: &str) -> Option<PidFile> {
    let mut lines = text.lines();
    let pid: i64 = lines.next()?.trim().parse().ok()?;
    let process = ProcessId::new(u32::try_from(pid.unsigned_abs()).ok()?)?;
    let port = lines.nth(2).and_then(|line| line.trim().parse().ok());
    let socket_folder = lines.next().map(str::trim).filter(|line| !line.is_empty());
    Some(PidFile {
        process,
        socket_folder: socket_folder.map(PathBuf::from),
        port: port.unwrap_or(super::PORT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_at_every_stage_of_a_start() {
        let whole = "4711\n/data/cluster\n1700000000\n5433\n/tmp/queen-1\n\n  1234 5\nready   \n";
        let expected = PidFile {
            process: ProcessId::new(4711).unwrap(),
            socket_folder: Some("/tmp/queen-1".into()),
            port: 5433,
        };
        assert_eq!(parse(whole), Some(expected.clone()));
        let early = parse("4711\n/data/cluster\n1700000000\n5433\n\n").unwrap();
        assert_eq!(
            early,
            PidFile {
                socket_folder: None,
                ..expected.clone()
            }
        );
        assert_eq!(
            parse("-4711\n/d\n1\n5433\n").unwrap().process,
            expected.process
        );
        assert_eq!(parse(""), None);
        assert_eq!(parse("0\n"), None);
        assert_eq!(parse("text\n"), None);
    }
}
