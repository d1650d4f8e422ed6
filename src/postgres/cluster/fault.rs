//! What can be wrong with the private cluster, each with a text that says what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why there is no private cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterFault {
    /// The folder that the operator named does not hold the programs.
    #[error(
        "QUEEN_PG_BIN={} holds no {program} that can be run: name the folder that initdb and \
         postgres are in, or unset it to have them searched for", .folder.display()
    )]
    ProgramsNotThere {
        /// The folder as given.
        folder: PathBuf,
        /// The first program that is not there.
        program: &'static str,
    },
    /// Run by root, and no user that PostgreSQL could run as.
    #[error(
        "PostgreSQL refuses to run as root, and /etc/passwd has neither a user postgres nor a user \
         nobody: make one, or run the broker as an ordinary user"
    )]
    NoAccount,
    /// The user that PostgreSQL runs as cannot get to the data folder.
    #[error(
        "PostgreSQL runs as user {account} and cannot reach the data folder {}: {} keeps it out; \
         let that user pass (chmod o+x) or set QUEEN_DATA_DIR to another folder",
        .folder.display(), .barrier.display()
    )]
    Unreachable {
        /// The data folder.
        folder: PathBuf,
        /// The first folder on the way that the user cannot enter.
        barrier: PathBuf,
        /// The user.
        account: String,
    },
    /// Something in the data folder cannot be made, read or changed.
    #[error(
        "{doing} {}: {fault}; make it usable for this user or set QUEEN_DATA_DIR to another folder",
        .path.display()
    )]
    FolderUnusable {
        /// What was tried.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        fault: io::Error,
    },
    /// Another broker uses the data folder.
    #[error(
        "the data folder {} is in use by another broker{}: stop that one or set QUEEN_DATA_DIR to \
         another folder", .folder.display(), holder_text(*.holder)
    )]
    Taken {
        /// The data folder.
        folder: PathBuf,
        /// The process id of the other broker, where it could be read.
        holder: Option<u32>,
    },
    /// The cluster belongs to a user that PostgreSQL cannot run as.
    #[error(
        "the cluster {} belongs to user id {owner}, but PostgreSQL would run as {account}: give it \
         away (chown -R {account}) or run the broker as its owner", .cluster.display()
    )]
    WrongOwner {
        /// The cluster's folder.
        cluster: PathBuf,
        /// Whom it belongs to.
        owner: u32,
        /// The user that PostgreSQL would run as.
        account: String,
    },
    /// The cluster's folder holds something else.
    #[error(
        "{} holds no PostgreSQL cluster (no PG_VERSION in it): move it away or set QUEEN_DATA_DIR \
         to another folder", .cluster.display()
    )]
    NotACluster {
        /// The folder.
        cluster: PathBuf,
    },
    /// No programs of the cluster's version.
    #[error(
        "the cluster {} was made by PostgreSQL {wanted}, but only {found} was found: install \
         PostgreSQL {wanted} or name its folder in QUEEN_PG_BIN, or move the data with pg_upgrade",
        .cluster.display()
    )]
    OtherVersion {
        /// The cluster's folder.
        cluster: PathBuf,
        /// The text of its PG_VERSION.
        wanted: String,
        /// The versions found.
        found: String,
    },
    /// A program could not be run at all.
    #[error(
        "{} cannot be run as user {account}: {fault}; reinstall PostgreSQL where that user can reach \
         it, or name the folder of another one in QUEEN_PG_BIN", .program.display()
    )]
    ProgramFailed {
        /// The program.
        program: PathBuf,
        /// The user.
        account: String,
        /// What the system said.
        fault: io::Error,
    },
    /// No folder for the socket.
    #[error(
        "no folder for PostgreSQL's socket can be made in {tried}: {fault}; make one of them \
         writable"
    )]
    NoSocketFolder {
        /// Where it was tried.
        tried: String,
        /// What the system said at the last place.
        fault: io::Error,
    },
    /// `initdb` gave up.
    #[error("initdb could not create a cluster in {}: {output}", .folder.display())]
    CreationFailed {
        /// The data folder.
        folder: PathBuf,
        /// The last lines that it printed.
        output: String,
    },
    /// `postgres` gave up.
    #[error("PostgreSQL did not start ({status}); its log {} says: {lines}", .log.display())]
    StartFailed {
        /// How it ended.
        status: String,
        /// The log.
        log: PathBuf,
        /// The lines of it that matter.
        lines: String,
    },
    /// A server that answers, but lets nobody in.
    #[error("PostgreSQL refuses the broker: {answer}; its log is {}", .log.display())]
    Refused {
        /// Code and text of the answer.
        answer: String,
        /// The log.
        log: PathBuf,
    },
    /// No progress for too long.
    #[error(
        "{what} has shown no progress for {} s; {} says: {lines}", .waited.as_secs(), .log.display()
    )]
    Stalled {
        /// What was waited for.
        what: &'static str,
        /// How long nothing was seen.
        waited: Duration,
        /// The log.
        log: PathBuf,
        /// The last lines that matter.
        lines: String,
    },
    /// No room left.
    #[error(
        "the disk of {} is full: make room (a new cluster takes about 50 MB) or set QUEEN_DATA_DIR \
         to a folder on another disk", .folder.display()
    )]
    DiskFull {
        /// The data folder.
        folder: PathBuf,
    },
    /// The caller broke it off.
    #[error("starting PostgreSQL was broken off because the broker stops")]
    BrokenOff,
}

fn holder_text(holder: Option<u32>) -> String {
    holder
        .map(|pid| format!(" (process {pid})"))
        .unwrap_or_default()
}

impl ClusterFault {
    /// The fault of an I/O operation on a path: a full disk is told apart from all else.
    pub(super) fn of_path(doing: &'static str, path: &Path, fault: io::Error) -> ClusterFault {
        match fault.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ClusterFault::DiskFull {
                folder: path.to_owned(),
            },
            _ => ClusterFault::FolderUnusable {
                doing,
                path: path.to_owned(),
                fault,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart() {
        let path = Path::new("/data");
        let full = ClusterFault::of_path("writing", path, io::ErrorKind::StorageFull.into());
        assert!(matches!(full, ClusterFault::DiskFull { .. }));
        let text = full.to_string();
        assert!(
            text.contains("/data") && text.contains("make room"),
            "{text}"
        );
        let other = ClusterFault::of_path("writing", path, io::ErrorKind::PermissionDenied.into());
        assert!(
            other.to_string().starts_with("writing /data: permission"),
            "{other}"
        );
    }

    #[test]
    fn the_holder_is_named_where_it_is_known() {
        let text = |holder| {
            let folder = PathBuf::from("/data");
            ClusterFault::Taken { folder, holder }.to_string()
        };
        assert!(text(Some(7)).contains("another broker (process 7): stop"));
        assert!(text(None).contains("another broker: stop"));
    }
}
