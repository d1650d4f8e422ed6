//! A folder of this program alone, and in it a small file system that can be filled.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Bytes of the small file system: a new cluster takes 40 MB, and its write-ahead log may grow by
/// 80 MB (`min_wal_size`) before it is cut back.
const DISK_BYTES: u64 = 160 * 1024 * 1024;

/// Bytes written at once into the ballast.
const BLOCK_BYTES: usize = 64 * 1024;

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
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        disk.is_small = mount(source, disk.data(), "tmpfs", flags, options.as_c_str()).is_ok();
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

    fn ballast(&self) -> PathBuf {
        self.data().join("ballast")
    }

    /// Takes all room that is left.
    pub(crate) fn fill(&self) -> io::Result<()> {
        assert!(self.is_small, "an ordinary disk is not filled");
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(self.ballast())?;
        let block = vec![1; BLOCK_BYTES];
        loop {
            match file.write_all(&block) {
                Ok(()) => {}
                Err(fault) if fault.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Gives the room back.
    pub(crate) fn empty(&self) -> io::Result<()> {
        match fs::remove_file(self.ballast()) {
            Err(fault) if fault.kind() != ErrorKind::NotFound => Err(fault),
            _ => Ok(()),
        }
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
