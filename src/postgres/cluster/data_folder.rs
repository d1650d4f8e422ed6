//! The data folder: its lock, its owner, what is in it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::account::Account;
use super::fault::ClusterFault;

const LOCK_NAME: &str = "broker.lock";
const CLUSTER_NAME: &str = "cluster";
const VERSION_NAME: &str = "PG_VERSION";

/// How the names of clusters begin that are not complete yet.
const UNFINISHED_START: &str = "cluster-unfinished-";

/// Bytes of free room below which a disk counts as full: less than one file of the log of writes.
const ROOM_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// Where a broker keeps its data if nothing is said: `/var/lib/queen` for root, else `queen-data`
/// in the folder that it was started in.
pub fn default_data_folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib/queen")
    } else {
        PathBuf::from("./queen-data")
    }
}

/// The data folder of this broker and of no other one, as long as this value lives. The kernel
/// lifts the lock when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct DataFolder {
    path: PathBuf,
    /// The user that PostgreSQL runs as.
    pub(super) account: Account,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder where it is not there and takes it.
    pub(super) fn take(path: &Path) -> Result<DataFolder, ClusterFault> {
        let path = make(path)?;
        let account = Account::choose(cluster_owner(&path))?;
        let lock = lock(&path, &account)?;
        let folder = DataFolder {
            path,
            account,
            _lock: lock,
        };
        folder.check_owner()?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the cluster, which may not be there yet.
    pub(super) fn cluster(&self) -> PathBuf {
        self.path.join(CLUSTER_NAME)
    }

    /// The version of the cluster; `None` where there is none yet.
    pub(super) fn cluster_version(&self) -> Result<Option<String>, ClusterFault> {
        let cluster = self.cluster();
        match fs::read_to_string(cluster.join(VERSION_NAME)) {
            Ok(version) => Ok(Some(version.trim().to_owned())),
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => {
                Err(ClusterFault::of_path("reading", &cluster, fault))
            }
            Err(_) if fs::symlink_metadata(&cluster).is_ok() => {
                Err(ClusterFault::NotACluster { cluster })
            }
            Err(_) => Ok(None),
        }
    }

    /// Makes an empty folder for a cluster that is not complete yet.
    pub(super) fn make_unfinished(&self) -> Result<PathBuf, ClusterFault> {
        let name = format!("{UNFINISHED_START}{}", uuid::Uuid::new_v4().simple());
        let path = self.path.join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        let given = made.and_then(|()| self.account.give(&path));
        // Its name differs from try to try; that of the data folder tells more.
        given.map_err(|fault| self.fault_of("making a folder in", &self.path, fault))?;
        Ok(path)
    }

    /// What creations that were broken off have left.
    pub(super) fn unfinished(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return Vec::new();
        };
        let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries
            .flatten()
            .filter(|entry| name(entry).starts_with(UNFINISHED_START))
            .map(|entry| entry.path())
            .collect()
    }

    /// A complete cluster takes its place, and the disk knows it.
    pub(super) fn finish(&self, unfinished: &Path) -> Result<(), ClusterFault> {
        let cluster = self.cluster();
        let placed = fs::rename(unfinished, &cluster);
        let kept = placed.and_then(|()| File::open(&self.path)?.sync_all());
        kept.map_err(|fault| self.fault_of("making", &cluster, fault))
    }

    /// A cluster that this process cannot run is refused; modes that PostgreSQL would refuse are
    /// set right.
    fn check_owner(&self) -> Result<(), ClusterFault> {
        let cluster = self.cluster();
        let Ok(metadata) = fs::symlink_metadata(&cluster) else {
            return Ok(());
        };
        if metadata.uid() != self.account.uid {
            return Err(ClusterFault::WrongOwner {
                cluster,
                owner: metadata.uid(),
                account: self.account.name.clone(),
            });
        }
        if metadata.is_dir() && metadata.mode() & 0o027 != 0 {
            fs::set_permissions(&cluster, Permissions::from_mode(0o700))
                .map_err(|fault| self.fault_of("setting the mode of", &cluster, fault))?;
        }
        Ok(())
    }

    /// Whether the disk has no room for a server to work.
    pub(super) fn is_full(&self) -> bool {
        rustix::fs::statvfs(&self.path).is_ok_and(|disk| {
            let room = disk.f_bavail.saturating_mul(disk.f_frsize);
            room < ROOM_BYTES_MIN
        })
    }

    /// The fault of an operation in the folder.
    pub(super) fn fault_of(
        &self,
        doing: &'static str,
        path: &Path,
        fault: io::Error,
    ) -> ClusterFault {
        match ClusterFault::of_path(doing, path, fault) {
            ClusterFault::DiskFull { .. } => ClusterFault::DiskFull {
                folder: self.path.clone(),
            },
            other => other,
        }
    }
}

/// Opens a file of the data folder that may stand in a folder of another user: no link is followed,
/// because root must not write to where such a user points it.
pub(super) fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a plain file",
        ));
    }
    Ok(file)
}

/// Makes the folder and those above it where they are not there; its path without links.
fn make(path: &Path) -> Result<PathBuf, ClusterFault> {
    let root = rustix::process::geteuid().is_root();
    // Another user has to pass to the cluster; what is in the folder it need not see.
    let mode = if root { 0o711 } else { 0o700 };
    let absolute =
        std::path::absolute(path).map_err(|fault| ClusterFault::of_path("finding", path, fault))?;
    let mut missing: Vec<&Path> = absolute
        .ancestors()
        .take_while(|folder| fs::metadata(folder).is_err())
        .collect();
    while let Some(folder) = missing.pop() {
        let mode = if missing.is_empty() { mode } else { 0o755 };
        let made = match DirBuilder::new().mode(mode).create(folder) {
            // Whatever mask of modes the broker was started with.
            Ok(()) => fs::set_permissions(folder, Permissions::from_mode(mode)),
            // Another broker may start at the same time.
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(fault) => Err(fault),
        };
        made.map_err(|fault| ClusterFault::of_path("making", folder, fault))?;
    }
    fs::canonicalize(&absolute).map_err(|fault| ClusterFault::of_path("finding", &absolute, fault))
}

fn cluster_owner(path: &Path) -> Option<(u32, u32)> {
    let metadata = fs::symlink_metadata(path.join(CLUSTER_NAME)).ok()?;
    Some((metadata.uid(), metadata.gid()))
}

/// Takes the lock and leaves this process's id in it.
fn lock(folder: &Path, account: &Account) -> Result<File, ClusterFault> {
    let path = folder.join(LOCK_NAME);
    let fault_of = |fault| match ClusterFault::of_path("locking", &path, fault) {
        ClusterFault::DiskFull { .. } => ClusterFault::DiskFull {
            folder: folder.to_owned(),
        },
        other => other,
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = open_plain(&mut options, &path).map_err(fault_of)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(ClusterFault::Taken {
                folder: folder.to_owned(),
                holder: holder_of(&mut file),
            });
        }
        Err(fault) => return Err(fault_of(fault.into())),
    }
    account.give_file(&file).map_err(fault_of)?;
    let written = file.set_len(0).and_then(|()| {
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    });
    if let Err(fault) = written {
        // The lock holds all the same; on a full disk only the holder's number is lost.
        tracing::warn!(file = %path.display(), %fault, "the process id cannot be written");
    }
    Ok(file)
}

/// The process that the file names, if it is still there.
fn holder_of(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    let process = super::process::ProcessId::new(pid)?;
    process.is_alive().then_some(pid)
}
