//! A folder of this program alone, and in it a small file system that can be filled.

use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

/// Bytes of the small file system: a new cluster takes 40 MB, and its write-ahead log may grow by
/// 80 MB (`min_wal_size`) before it is cut back.
const DISK_BYTES: u64 = 160 * 1024 * 1024;

const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// The folder; it is removed at the end with all that is in it.
#[derive(Debug)]
pub(crate) struct Disk {
    top: PathBuf,
    is_small: bool,
}

impl Disk {
    /// Makes the folder among the temporary ones. Where mounting is not allowed it is an ordinary
    /// one, and is never full.
    pub(crate) fn make() -> io::Result<Disk> {
        let name = format!("queen-faults-{}", std::process::id());
        let mut disk = Disk {
            top: std::env::temp_dir().join(name),
            is_small: false,
        };
        fs::create_dir(&disk.top)?;
        // PostgreSQL runs as another user where this is root.
        fs::set_permissions(&disk.top, fs::Permissions::from_mode(0o755))?;
        fs::create_dir(disk.data())?;
        let options = CString::new(format!("size={DISK_BYTES},mode=755"))?;
        let source = "queen-faults";
        disk.is_small = mount(source, disk.data(), "tmpfs", FLAGS, options.as_c_str()).is_ok();
        Ok(disk)
    }

    /// Whether it is small enough to be filled.
    pub(crate) fn is_small(&self) -> bool {
        self.is_small
    }

    /// What does not belong onto the small file system.
    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// The small file system.
    pub(crate) fn data(&self) -> PathBuf {
        self.top.join("data")
    }

    /// Leaves no room: what is taken is all there is.
    pub(crate) fn fill(&self) -> io::Result<()> {
        assert!(self.is_small, "an ordinary disk is not filled");
        let used = statvfs(self.data())?;
        let bytes = (used.f_blocks - used.f_bfree) * used.f_frsize;
        match self.resize(bytes.max(1)) {
            // More was taken meanwhile.
            Err(fault) if fault.kind() == ErrorKind::InvalidInput => Ok(()),
            outcome => outcome,
        }
    }

    /// Gives the room back.
    pub(crate) fn empty(&self) -> io::Result<()> {
        self.resize(DISK_BYTES)
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        Ok(mount_remount(self.data(), FLAGS, format!("size={bytes}"))?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Detached: it goes when the last process that has a file of it open has ended.
        if self.is_small
            && let Err(fault) = unmount(self.data(), UnmountFlags::DETACH)
        {
            eprintln!("{} stays mounted: {fault}", self.data().display());
            return;
        }
        if let Err(fault) = fs::remove_dir_all(&self.top) {
            eprintln!("{} is left behind: {fault}", self.top.display());
        }
    }
}
