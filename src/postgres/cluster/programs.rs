//! Where PostgreSQL's programs are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fault::ClusterFault;

/// The two programs that a private cluster needs.
const NEEDED: [&str; 2] = ["initdb", "postgres"];

/// Folders whose subfolders, one for each version, hold the programs: the parent, how the name of
/// the subfolder begins, and what follows it.
const VERSIONED: [(&str, &str, &str); 5] = [
    // Debian, Ubuntu.
    ("/usr/lib/postgresql", "", "bin"),
    // PostgreSQL's own packages for Red Hat and its kin.
    ("/usr", "pgsql-", "bin"),
    // SUSE.
    ("/usr/lib", "postgresql", "bin"),
    // Alpine.
    ("/usr/libexec", "postgresql", ""),
    // Homebrew.
    ("/opt/homebrew/opt", "postgresql", "bin"),
];

/// Folders that hold the programs of one version.
const FIXED: [&str; 4] = [
    "/usr/local/pgsql/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "/usr/bin",
];

/// The programs of one PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
    version: u32,
}

impl Programs {
    /// The folder that they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The major version.
    pub fn version(&self) -> u32 {
        self.version
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.folder.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.folder.join("postgres")
    }

    /// The programs in a folder; the name of what is missing where they are not there.
    fn in_folder(folder: &Path) -> Result<Programs, &'static str> {
        for program in NEEDED {
            if !folder.join(program).is_file() {
                return Err(program);
            }
        }
        // A folder of links to the programs is not where they find what belongs to them.
        let postgres = fs::canonicalize(folder.join("postgres")).map_err(|_| "postgres")?;
        let real = postgres.parent().unwrap_or(folder);
        let folder = if real.join("initdb").is_file() {
            real
        } else {
            folder
        };
        let version = version_of(&postgres).ok_or("postgres")?;
        Ok(Programs {
            folder: folder.to_owned(),
            version,
        })
    }
}

/// What a search for the programs came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramSearch {
    /// At least one; the one to be preferred comes first.
    Found(Vec<Programs>),
    /// None, which is no fault: the broker runs without.
    NotFound {
        /// Where was looked.
        looked: Vec<PathBuf>,
    },
}

/// Searches for the programs: in `given` alone where the operator names a folder (`QUEEN_PG_BIN`),
/// else where `pg_config` says, then in the usual places of the distributions, newest first.
///
/// # Errors
/// When the folder that was named does not hold them.
pub fn find_programs(given: Option<&Path>) -> Result<ProgramSearch, ClusterFault> {
    if let Some(folder) = given {
        return match Programs::in_folder(folder) {
            Ok(programs) => Ok(ProgramSearch::Found(vec![programs])),
            Err(program) => Err(ClusterFault::ProgramsNotThere {
                folder: folder.to_owned(),
                program,
            }),
        };
    }
    let configured = configured_folder();
    Ok(search(configured.as_deref(), &usual_places(Path::new("/"))))
}

fn search(configured: Option<&Path>, places: &[PathBuf]) -> ProgramSearch {
    let mut found: Vec<Programs> = places
        .iter()
        .filter_map(|place| Programs::in_folder(place).ok())
        .collect();
    // Stable: among equal versions the order of the places stays.
    found.sort_by_key(|programs| std::cmp::Reverse(programs.version));
    if let Some(programs) = configured.and_then(|folder| Programs::in_folder(folder).ok()) {
        found.insert(0, programs);
    }
    let mut distinct: Vec<Programs> = Vec::new();
    for programs in found {
        if !distinct.contains(&programs) {
            distinct.push(programs);
        }
    }
    if distinct.is_empty() {
        let looked = configured.into_iter().map(Path::to_owned);
        let looked = looked.chain(places.iter().cloned()).collect();
        return ProgramSearch::NotFound { looked };
    }
    ProgramSearch::Found(distinct)
}

/// The usual places that exist below `top`.
fn usual_places(top: &Path) -> Vec<PathBuf> {
    let below = |place: &str| top.join(place.trim_start_matches('/'));
    let mut places = Vec::new();
    for (parent, start, rest) in VERSIONED {
        let Ok(entries) = fs::read_dir(below(parent)) else {
            continue;
        };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(start) {
                places.push(entry.path().join(rest));
            }
        }
    }
    places.extend(FIXED.iter().map(|place| below(place)));
    places.retain(|place| place.is_dir());
    places
}

/// The answer of `pg_config --bindir`, where there is one.
fn configured_folder() -> Option<PathBuf> {
    let output = said(Command::new("pg_config").arg("--bindir"))?;
    let folder = output.trim();
    (!folder.is_empty()).then(|| PathBuf::from(folder))
}

fn version_of(postgres: &Path) -> Option<u32> {
    version_in(&said(Command::new(postgres).arg("--version"))?)
}

/// What a program prints that ends well.
fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    String::from_utf8(text).ok()
}

/// The major version in a line such as `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version_in(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("(PostgreSQL) ")?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit());
    rest[..digits.unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder of its own for a test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            let name = format!("queen-programs-{}", uuid::Uuid::new_v4());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        fn install(&self, place: &str, version: &str) -> PathBuf {
            let folder = self.0.join(place);
            fs::create_dir_all(&folder).unwrap();
            for program in NEEDED {
                let path = folder.join(program);
                let text = format!("#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n");
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            folder
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the test's folder");
        }
    }

    #[test]
    fn versions_are_read() {
        for (line, version) in [
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n",
                Some(15),
            ),
            ("postgres (PostgreSQL) 18beta1", Some(18)),
            ("postgres (PostgreSQL) 9", Some(9)),
            ("postgres (PostgreSQL) devel", None),
            ("something else 15", None),
        ] {
            assert_eq!(version_in(line), version, "{line}");
        }
    }

    #[test]
    fn the_usual_places_newest_first_after_the_configured_one() {
        let top = Folder::new();
        let debian = top.install("usr/lib/postgresql/9/bin", "9.6.1");
        let newest = top.install("usr/lib/postgresql/16/bin", "16.2");
        let red_hat = top.install("usr/pgsql-15/bin", "15.4");
        let built = top.install("usr/local/pgsql/bin", "14.1");
        fs::create_dir_all(top.0.join("usr/lib/postgresql/17/bin")).unwrap();
        let places = usual_places(&top.0);
        let folders = |search: ProgramSearch| match search {
            ProgramSearch::Found(found) => {
                found.into_iter().map(|programs| programs.folder).collect()
            }
            ProgramSearch::NotFound { looked } => panic!("{looked:?}"),
        };
        let found: Vec<PathBuf> = folders(search(None, &places));
        let expected = [&newest, &red_hat, &built, &debian];
        assert_eq!(found, expected.map(Clone::clone));
        let found: Vec<PathBuf> = folders(search(Some(&built), &places));
        let expected = [&built, &newest, &red_hat, &debian];
        assert_eq!(found, expected.map(Clone::clone));
    }

    #[test]
    fn none_is_no_fault_but_a_wrong_folder_is() {
        let top = Folder::new();
        let lonely = top.install("lonely", "15.1");
        fs::remove_file(lonely.join("initdb")).unwrap();
        let looked = vec![lonely.clone()];
        assert_eq!(
            search(Some(&lonely), &[]),
            ProgramSearch::NotFound { looked }
        );
        let fault = find_programs(Some(&lonely)).unwrap_err().to_string();
        assert!(
            fault.contains("QUEEN_PG_BIN") && fault.contains("no initdb"),
            "{fault}"
        );
    }

    #[test]
    fn links_lead_to_where_the_programs_are() {
        let top = Folder::new();
        let real = top.install("real", "15.1");
        let links = top.0.join("links");
        fs::create_dir(&links).unwrap();
        for program in NEEDED {
            std::os::unix::fs::symlink(real.join(program), links.join(program)).unwrap();
        }
        let found = Programs::in_folder(&links).unwrap();
        assert_eq!(found.folder(), fs::canonicalize(real).unwrap());
        assert_eq!(found.version(), 15);
    }
}
