//! The folder of the server's socket: private, and short, because the path of a socket is.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::account::Account;
use super::fault::ClusterFault;
use crate::limits::SOCKET_PATH_BYTES_MAX;

/// Where such a folder may stand, the first that works.
const PLACES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

const NAME_START: &str = "queen-";

/// The socket in such a folder.
pub(super) fn socket_in(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

/// Makes a folder that only the user can enter.
pub(super) fn make(account: &Account) -> Result<PathBuf, ClusterFault> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in PLACES {
        let name = format!("{NAME_START}{}", uuid::Uuid::new_v4().simple());
        let path = Path::new(place).join(name);
        let bytes = socket_in(&path, super::PORT).as_os_str().as_bytes().len();
        assert!(bytes <= SOCKET_PATH_BYTES_MAX);
        // Fails if somebody has made it before, so it is this process's own.
        let made = DirBuilder::new().mode(0o700).create(&path);
        match made.and_then(|()| account.give(&path)) {
            Ok(()) => return Ok(path),
            Err(fault) => last = fault,
        }
    }
    Err(ClusterFault::NoSocketFolder {
        tried: PLACES.join(", "),
        fault: last,
    })
}

/// Removes a folder that [`make`] has made, with what a server leaves in it. Nothing else is
/// touched, whatever path it is asked for.
pub(super) fn remove(folder: &Path, account: &Account) {
    let place = folder.parent().and_then(Path::to_str);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let metadata = fs::symlink_metadata(folder);
    let own = metadata.is_ok_and(|entry| entry.is_dir() && entry.uid() == account.uid);
    let made_here = place.is_some_and(|place| PLACES.contains(&place));
    if !own || !made_here || !name.starts_with(NAME_START) {
        return;
    }
    let socket = socket_in(folder, super::PORT);
    let mut lock = socket.clone().into_os_string();
    lock.push(".lock");
    for file in [socket, PathBuf::from(lock)] {
        if let Err(fault) = fs::remove_file(&file)
            && fault.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(file = %file.display(), %fault, "a file of a socket stays behind");
        }
    }
    if let Err(fault) = fs::remove_dir(folder) {
        tracing::debug!(folder = %folder.display(), %fault, "the folder of a socket stays behind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_goes_away() {
        let account = Account::choose(None).unwrap();
        let folder = make(&account).unwrap();
        let metadata = fs::symlink_metadata(&folder).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o700);
        assert_eq!(metadata.uid(), account.uid);
        fs::write(socket_in(&folder, super::super::PORT), "").unwrap();
        remove(&folder, &account);
        assert!(!folder.exists());
    }

    #[test]
    fn no_other_folder_is_removed() {
        let account = Account::choose(None).unwrap();
        let path = std::env::temp_dir().join(format!("other-{}", uuid::Uuid::new_v4()));
        fs::create_dir(&path).unwrap();
        remove(&path, &account);
        assert!(path.exists());
        fs::remove_dir(&path).unwrap();
    }
}
