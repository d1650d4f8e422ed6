//! The user that PostgreSQL runs as: it refuses to run as root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fault::ClusterFault;

/// Whom a broker of root runs PostgreSQL as, the first that exists.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// The file of users, passwd(5).
const USERS: &str = "/etc/passwd";

/// The variables of the environment that PostgreSQL's programs get. None that changes what they do
/// (`PGDATA`, `PGPORT`, `LC_*`).
const KEPT_VARIABLES: [&str; 4] = ["PATH", "TZ", "TZDIR", "LD_LIBRARY_PATH"];

/// The user that PostgreSQL's programs run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    /// Its name, or its number where it has none.
    pub(super) name: String,
    pub(super) uid: u32,
    gid: u32,
    /// The broker is root: the programs have to change to this user.
    changes: bool,
}

impl Account {
    /// This process's own user; for root the owner of a cluster that is there already, else
    /// `postgres`, else `nobody`.
    pub(super) fn choose(cluster_owner: Option<(u32, u32)>) -> Result<Account, ClusterFault> {
        let uid = rustix::process::geteuid().as_raw();
        let users = fs::read_to_string(USERS).unwrap_or_default();
        if uid != 0 {
            return Ok(Account {
                name: name_of(&users, uid),
                uid,
                gid: rustix::process::getegid().as_raw(),
                changes: false,
            });
        }
        choose_for_root(&users, cluster_owner).ok_or(ClusterFault::NoAccount)
    }

    /// A command that runs as this user, in a process group of its own, so that a signal from the
    /// keyboard does not reach it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).process_group(0);
        // Every folder above the broker's own may be closed to the user.
        command.current_dir("/");
        for name in KEPT_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Faults are recognised by their English text.
        command.env("LC_ALL", "C");
        if self.changes {
            // Gives up the supplementary groups too.
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Gives a file or folder that this process made to the user.
    pub(super) fn give(&self, path: &Path) -> std::io::Result<()> {
        if self.changes {
            std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid))?;
        }
        Ok(())
    }

    /// Gives an open file to the user.
    pub(super) fn give_file(&self, file: &fs::File) -> std::io::Result<()> {
        if self.changes {
            std::os::unix::fs::fchown(file, Some(self.uid), Some(self.gid))?;
        }
        Ok(())
    }

    /// The first folder on the way to `folder` that the user cannot enter, found by trying: modes,
    /// access lists and file systems all have a say. `program` is one that the user must be able to
    /// run in any case.
    pub(super) fn barrier(
        &self,
        folder: &Path,
        program: &Path,
    ) -> Result<Option<PathBuf>, ClusterFault> {
        let runs_in = |folder: &Path| {
            let mut command = self.command(program);
            command.arg("--version").current_dir(folder);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.status().map(|_| ())
        };
        runs_in(Path::new("/")).map_err(|fault| ClusterFault::ProgramFailed {
            program: program.to_owned(),
            account: self.name.clone(),
            fault,
        })?;
        if runs_in(folder).is_ok() {
            return Ok(None);
        }
        let mut way: Vec<&Path> = folder.ancestors().collect();
        way.reverse();
        let barrier = way.into_iter().find(|step| runs_in(step).is_err());
        Ok(barrier.map(Path::to_owned))
    }
}

fn choose_for_root(users: &str, cluster_owner: Option<(u32, u32)>) -> Option<Account> {
    // One that root owns is refused later, with a text that names the user it should be given to.
    if let Some((uid, gid)) = cluster_owner.filter(|(uid, _)| *uid != 0) {
        return Some(Account {
            name: name_of(users, uid),
            uid,
            gid,
            changes: true,
        });
    }
    ACCOUNTS.iter().find_map(|wanted| {
        let user = entries(users).find(|user| user.name == *wanted && user.uid != 0)?;
        Some(Account {
            name: user.name.to_owned(),
            uid: user.uid,
            gid: user.gid,
            changes: true,
        })
    })
}

struct User<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
}

/// The users in the text of passwd(5).
fn entries(users: &str) -> impl Iterator<Item = User<'_>> {
    users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some(User {
            name,
            uid: fields.nth(1)?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    })
}

fn name_of(users: &str, uid: u32) -> String {
    let user = entries(users).find(|user| user.uid == uid);
    user.map_or_else(|| uid.to_string(), |user| user.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS_TEXT: &str = "root:x:0:0:root:/:/bin/bash\n# broken\nnobody:x:65534:65533:nobody:/:\n\
                              ada:x:1000:1001::/:/bin/sh\npostgres:x:101:104:PostgreSQL:/:/bin/bash\n";

    #[test]
    fn root_takes_postgres_else_nobody() {
        let chosen = choose_for_root(USERS_TEXT, None).unwrap();
        assert_eq!(
            (chosen.name.as_str(), chosen.uid, chosen.gid),
            ("postgres", 101, 104)
        );
        let without = USERS_TEXT.replace("postgres:x", "mysql:x");
        let chosen = choose_for_root(&without, None).unwrap();
        assert_eq!(
            (chosen.name.as_str(), chosen.uid, chosen.gid),
            ("nobody", 65534, 65533)
        );
        assert_eq!(choose_for_root("root:x:0:0::/:/bin/sh", None), None);
    }

    #[test]
    fn root_stays_with_the_owner_of_a_cluster() {
        let chosen = choose_for_root(USERS_TEXT, Some((1000, 1001))).unwrap();
        assert_eq!(
            (chosen.name.as_str(), chosen.uid, chosen.gid),
            ("ada", 1000, 1001)
        );
        let chosen = choose_for_root(USERS_TEXT, Some((4711, 7))).unwrap();
        assert_eq!((chosen.name.as_str(), chosen.uid), ("4711", 4711));
        let chosen = choose_for_root(USERS_TEXT, Some((0, 0))).unwrap();
        assert_eq!(chosen.name, "postgres");
    }
}
