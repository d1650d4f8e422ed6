//! What is measured: a PostgreSQL as a broker's own cluster has it, and a broker on it.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use queen::postgres::{ClusterPlan, PrivateCluster, ProgramSearch, find_programs};
use queen_loadtest::LoadError;
use queen_loadtest::interrupt::Interrupt;
use queen_loadtest::server::Server;

/// How long the server may take to stop; then it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// How long what belongs to removed queues may take to be swept.
const SWEEP_LIMIT: Duration = Duration::from_secs(300);

/// Time between two looks at what is left of it.
const LOOK: Duration = Duration::from_millis(50);

/// A PostgreSQL and a broker on it. Dropping it stops both and removes everything.
#[derive(Debug)]
pub(crate) struct Stand {
    /// The broker; it ends before its database.
    pub(crate) server: Server,
    cluster: PrivateCluster,
    folder: Folder,
    programs: PathBuf,
}

/// Lines of the broker's log that are shown when something went wrong.
const LOG_LINES_SHOWN: usize = 20;

/// How a stand is made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The broker's program.
    pub(crate) broker: PathBuf,
    /// Its I/O driver.
    pub(crate) io: String,
    /// Where the stand keeps its files.
    pub(crate) folder: PathBuf,
    pub(crate) interrupt: Interrupt,
}

impl Plan {
    /// Makes a stand; `name` tells it from the others of this run.
    pub(crate) fn make(&self, name: &str) -> Result<Stand, LoadError> {
        let given = std::env::var_os("QUEEN_PG_BIN").map(PathBuf::from);
        let found = match find_programs(given.as_deref()).map_err(io::Error::other)? {
            ProgramSearch::Found(programs) => programs,
            ProgramSearch::NotFound { .. } => {
                return Err(LoadError::text("PostgreSQL's programs are not installed"));
            }
        };
        let programs = found[0].folder().to_owned();
        if !programs.join("pgbench").is_file() {
            let text = format!("there is no pgbench in {}", programs.display());
            return Err(LoadError::text(text));
        }
        let name = format!("queen-durable-{}-{name}", std::process::id());
        let folder = Folder::make(self.folder.join(name))?;
        let plan = ClusterPlan::new(folder.0.join("postgres"), found);
        let mut cluster = PrivateCluster::open(plan).map_err(io::Error::other)?;
        cluster
            .start(&mut |_| match self.interrupt.check() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
            .map_err(io::Error::other)?;
        let started = self.start_broker(&cluster, &folder);
        let server = started.inspect_err(|_| {
            cluster.stop(STOP_LIMIT);
        })?;
        Ok(Stand {
            server,
            cluster,
            folder,
            programs,
        })
    }

    /// With its default settings but for the database.
    fn start_broker(&self, cluster: &PrivateCluster, folder: &Folder) -> Result<Server, LoadError> {
        let address = cluster.address().expect("it was started");
        let mut command = Command::new(&self.broker);
        command
            .env_remove("DATABASE_URL")
            .env("PG_HOST", &address.socket_folder)
            .env("PG_PORT", address.port.to_string())
            .env("PG_USER", address.user)
            .env("PG_DATABASE", address.database)
            .env("QUEEN_DURABLE", "on")
            .env("QUEEN_DATA_DIR", folder.0.join("broker"))
            .env("QUEEN_IO", &self.io)
            .env("QUEEN_LOG", "info")
            .stderr(File::create(folder.0.join("broker.log"))?);
        Server::spawn(&mut command)
    }
}

impl Stand {
    /// A session with the database.
    pub(crate) fn session(&self) -> Result<Client, LoadError> {
        let address = self.cluster.address().expect("it was started");
        postgres::Config::new()
            .host_path(address.socket_folder)
            .port(address.port)
            .user(address.user)
            .dbname(address.database)
            .connect(NoTls)
            .map_err(of_database)
    }

    /// `pgbench` on the database; the script and the rest are the caller's.
    pub(crate) fn pgbench(&self) -> Command {
        let address = self.cluster.address().expect("it was started");
        let mut command = Command::new(self.programs.join("pgbench"));
        command
            .arg("--host")
            .arg(address.socket_folder)
            .args(["--port", &address.port.to_string()])
            .args(["--username", address.user, "--no-vacuum"])
            .arg(address.database);
        command
    }

    /// Shows the last lines of the broker's log.
    pub(crate) fn show_log(&self) {
        let text = fs::read_to_string(self.folder.0.join("broker.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
            eprintln!("broker: {line}");
        }
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Waits until the broker has removed what belongs to removed queues, and the database has made
    /// room of it: none of that is part of what is measured next.
    pub(crate) fn sweep(&self, interrupt: &Interrupt) -> Result<(), LoadError> {
        let mut session = self.session()?;
        let deadline = Instant::now() + SWEEP_LIMIT;
        loop {
            let text = "SELECT count(*) FROM queen.durable_leftover";
            let left: i64 = session.query_one(text, &[]).map_err(of_database)?.get(0);
            if left == 0 {
                break;
            }
            if Instant::now() > deadline {
                let text = format!("{left} removed queues and partitions are not swept");
                return Err(LoadError::text(text));
            }
            interrupt.wait_until(Instant::now() + LOOK)?;
        }
        drop(session);
        self.rest()
    }

    /// Has the database do at once what it would do some time later.
    pub(crate) fn rest(&self) -> Result<(), LoadError> {
        let mut session = self.session()?;
        // One by one, as none of them may be part of a transaction.
        for text in [
            "VACUUM queen.durable_segment",
            "VACUUM queen.durable_cursor",
            "CHECKPOINT",
        ] {
            session.batch_execute(text).map_err(of_database)?;
        }
        Ok(())
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // It may be held.
        let _ = self.server.release();
        self.cluster.stop(STOP_LIMIT);
    }
}

/// What the database says is wrong.
pub(crate) fn of_database(error: postgres::Error) -> LoadError {
    let text = error
        .as_db_error()
        .map_or_else(|| error.to_string(), ToString::to_string);
    LoadError::text(format!("PostgreSQL: {text}"))
}

/// A folder of one stand, removed at the end.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make(path: PathBuf) -> io::Result<Folder> {
        fs::create_dir(&path)?;
        // PostgreSQL runs as another user where this is root.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(fault) = fs::remove_dir_all(&self.0) {
            eprintln!("{} is left behind: {fault}", self.0.display());
        }
    }
}
