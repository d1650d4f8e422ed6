//! The private cluster: a PostgreSQL of this broker alone, in its data folder, behind a unix socket.
//!
//! Life: [`find_programs`], [`PrivateCluster::open`] takes the data folder, [`PrivateCluster::start`]
//! creates, starts or adopts the server and heals what a crash has left, as often as it is called;
//! [`PrivateCluster::stop`] ends it. All of them block. A broker that is killed leaves its server
//! running; the next broker adopts it.
//!
//! In reading order: `programs`, `data_folder` with its `account`, `create` with its `settings`, `postmaster` with its
//! `pid_file`, `socket_folder`, `server_log` and `probe`; `process` looks at /proc.

mod account;
mod create;
mod data_folder;
mod deadline;
mod fault;
mod pid_file;
mod postmaster;
mod probe;
mod process;
mod programs;
mod server_log;
mod settings;
mod socket_folder;
mod watch;

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use account::Account;
use data_folder::DataFolder;
use deadline::{Deadline, pause};
use postmaster::{Arrival, Postmaster, end_orphans, heal_pid_file};
use server_log::ServerLog;
use watch::Watch;

pub use data_folder::default_data_folder;
pub use fault::ClusterFault;
pub use postmaster::Stopped;
pub use programs::{ProgramSearch, Programs, find_programs};
pub use watch::Progress;

use crate::limits::{CLUSTER_CONTENTION_MS, CLUSTER_STALL_MS};

/// The number in the name of the socket; no port is opened.
const PORT: u16 = 5432;

/// The superuser that `initdb` makes. Whoever may enter the socket's folder is trusted.
const USER: &str = "queen";

/// The database that `initdb` makes.
const DATABASE: &str = "postgres";

/// Where the last socket folder is written down, so that it is not left behind after a crash.
const SOCKET_NOTE: &str = "socket-folder";

/// What a private cluster is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPlan {
    /// Where the broker keeps its data; made where it is not there.
    pub data_folder: PathBuf,
    /// What [`find_programs`] found. The first is taken, or for a cluster that is there the first of
    /// its version.
    pub programs: Vec<Programs>,
    /// How long creation, start or recovery may show no progress.
    pub stall_limit: Duration,
}

impl ClusterPlan {
    /// A plan with the usual patience.
    pub fn new(data_folder: PathBuf, programs: Vec<Programs>) -> ClusterPlan {
        ClusterPlan {
            data_folder,
            programs,
            stall_limit: Duration::from_millis(CLUSTER_STALL_MS),
        }
    }
}

/// How a start found the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It was created.
    Created,
    /// It was there, and its server was started; after a crash it has recovered.
    Started,
    /// Its server was running.
    Adopted,
}

/// Where a client reaches the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The folder of the socket: the `host` of a connection string.
    pub socket_folder: PathBuf,
    /// The number in the socket's name.
    pub port: u16,
    /// Whom to log in as; there is no password.
    pub user: &'static str,
    /// The database.
    pub database: &'static str,
}

/// The private cluster of this broker. Dropping it gives the data folder back and leaves the server
/// running.
#[derive(Debug)]
pub struct PrivateCluster {
    folder: DataFolder,
    programs: Programs,
    stall_limit: Duration,
    postmaster: Option<Postmaster>,
    /// Where the socket of the last server is, or was.
    socket_folder: Option<PathBuf>,
}

impl PrivateCluster {
    /// Takes the data folder; quick, and starts nothing.
    ///
    /// # Errors
    /// When another broker has the folder, or when it cannot be used: these faults do not heal by
    /// themselves.
    ///
    /// # Panics
    /// When the plan names no programs.
    pub fn open(plan: ClusterPlan) -> Result<PrivateCluster, ClusterFault> {
        assert!(!plan.programs.is_empty(), "a plan names programs");
        let folder = DataFolder::take(&plan.data_folder)?;
        let programs = choose_programs(&folder, plan.programs)?;
        let account = &folder.account;
        if let Some(barrier) = account.barrier(folder.path(), &programs.postgres())? {
            return Err(ClusterFault::Unreachable {
                folder: folder.path().to_owned(),
                barrier,
                account: folder.account.name.clone(),
            });
        }
        Ok(PrivateCluster {
            folder,
            programs,
            stall_limit: plan.stall_limit,
            postmaster: None,
            socket_folder: None,
        })
    }

    /// Makes sure that the server lets clients in: creates the cluster, starts its server or adopts
    /// a running one. Waits as long as there is progress. `report` is told every step and asked
    /// every few milliseconds whether to go on.
    ///
    /// # Errors
    /// Whatever stands in the way; another call tries again.
    pub fn start(
        &mut self,
        report: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Started, ClusterFault> {
        let watch = &mut Watch {
            report,
            stall_limit: self.stall_limit,
            log: ServerLog::from_end(&self.folder).path().to_owned(),
        };
        create::sweep(&self.folder);
        let mut started = Started::Started;
        if self.folder.cluster_version()?.is_none() {
            create::create(&self.folder, &self.programs, watch)?;
            started = Started::Created;
        }
        let patience = Deadline::after(Duration::from_millis(CLUSTER_CONTENTION_MS));
        loop {
            if self.adopt(watch)? {
                return Ok(Started::Adopted);
            }
            match self.start_server(watch)? {
                None => return Ok(started),
                Some(fault) if patience.is_over() => return Err(fault),
                Some(fault) => tracing::info!(%fault, "trying again"),
            }
            watch.waiting()?;
            pause();
        }
    }

    /// Waits for a server that runs already; false when there is none.
    fn adopt(&mut self, watch: &mut Watch<'_>) -> Result<bool, ClusterFault> {
        let cluster = self.folder.cluster();
        if !self.is_running() {
            self.postmaster = Postmaster::find(&cluster);
        }
        let Some(postmaster) = &mut self.postmaster else {
            return Ok(false);
        };
        let pid = postmaster.process().number();
        if postmaster.has_lost_socket(&cluster) {
            watch.step(&format!(
                "stopping PostgreSQL (process {pid}): its socket is gone"
            ))?;
            postmaster.stop(&cluster, Duration::from_millis(CLUSTER_CONTENTION_MS));
            self.postmaster = None;
            return Ok(false);
        }
        watch.step(&format!("PostgreSQL runs already (process {pid})"))?;
        let log = ServerLog::from_end(&self.folder);
        match postmaster.arrive(&cluster, &log, watch)? {
            Arrival::Ready => {
                self.socket_folder = postmaster.socket_folder().map(Path::to_owned);
                Ok(true)
            }
            Arrival::Gone(_) => {
                self.postmaster = None;
                Ok(false)
            }
        }
    }

    /// Starts a server; the fault is returned as a value where trying again may help.
    fn start_server(
        &mut self,
        watch: &mut Watch<'_>,
    ) -> Result<Option<ClusterFault>, ClusterFault> {
        let cluster = self.folder.cluster();
        heal_pid_file(&self.folder)?;
        self.remove_socket_folder();
        let (log, file) = ServerLog::open(&self.folder)?;
        let socket_folder = self.make_socket_folder()?;
        self.socket_folder = Some(socket_folder.clone());
        watch.step(&format!("starting PostgreSQL {}", self.programs.version()))?;
        let spawned = Postmaster::spawn(&self.folder, &self.programs, file, &socket_folder)?;
        let postmaster = self.postmaster.insert(spawned);
        let status = match postmaster.arrive(&cluster, &log, watch)? {
            Arrival::Ready => return Ok(None),
            Arrival::Gone(status) => status,
        };
        self.postmaster = None;
        self.remove_socket_folder();
        // On a full disk the log may not have been written either.
        if log.says_disk_full() || (log.says_nothing() && self.folder.is_full()) {
            return Err(ClusterFault::DiskFull {
                folder: self.folder.path().to_owned(),
            });
        }
        let fault = ClusterFault::StartFailed {
            status,
            log: log.path().to_owned(),
            lines: log.telling_lines(),
        };
        if !log.says_in_use() {
            return Err(fault);
        }
        // What a killed server left behind is in the way, or one that has just started.
        if Postmaster::find(&cluster).is_none() {
            end_orphans(&cluster, Deadline::after(Duration::ZERO));
        }
        Ok(Some(fault))
    }

    /// Where clients reach the server; `None` before the first start.
    pub fn address(&self) -> Option<Address> {
        let postmaster = self.postmaster.as_ref()?;
        Some(Address {
            socket_folder: postmaster.socket_folder()?.to_owned(),
            port: postmaster.port(),
            user: USER,
            database: DATABASE,
        })
    }

    /// Whether the process of the server is there; it may hang all the same. When it is gone,
    /// [`PrivateCluster::start`] brings it back.
    pub fn is_running(&mut self) -> bool {
        let cluster = self.folder.cluster();
        self.postmaster
            .as_mut()
            .is_some_and(|postmaster| postmaster.is_alive(&cluster))
    }

    /// The process id of the server.
    pub fn pid(&self) -> Option<u32> {
        let postmaster = self.postmaster.as_ref()?;
        Some(postmaster.process().number())
    }

    /// The user that the server runs as.
    pub fn account(&self) -> &str {
        &self.folder.account.name
    }

    /// Stops the server that was started or adopted: fast, then immediately, then by force, within
    /// `limit`.
    pub fn stop(&mut self, limit: Duration) -> Stopped {
        let cluster = self.folder.cluster();
        let Some(mut postmaster) = self.postmaster.take() else {
            // Not what the note names: that server may run, and was only not looked for yet.
            self.remove_last_socket_folder();
            return Stopped::NotRunning;
        };
        if !postmaster.is_alive(&cluster) {
            self.remove_socket_folder();
            return Stopped::NotRunning;
        }
        let stopped = postmaster.stop(&cluster, limit);
        match stopped {
            Stopped::StillRunning => self.postmaster = Some(postmaster),
            _ => self.remove_socket_folder(),
        }
        stopped
    }

    fn make_socket_folder(&self) -> Result<PathBuf, ClusterFault> {
        let path = socket_folder::make(&self.folder.account)?;
        let note = self.socket_note();
        let text = path.display().to_string();
        if let Err(fault) = write_note(&note, &text, &self.folder.account) {
            socket_folder::remove(&path, &self.folder.account);
            return Err(self.folder.fault_of("writing", &note, fault));
        }
        Ok(path)
    }

    /// Removes the socket folder of the last server, if it was not removed yet.
    fn remove_socket_folder(&self) {
        if let Ok(text) = fs::read_to_string(self.socket_note()) {
            socket_folder::remove(Path::new(text.trim()), &self.folder.account);
        }
        // The note goes with the data folder if somebody removes that.
        self.remove_last_socket_folder();
    }

    fn remove_last_socket_folder(&self) {
        if let Some(folder) = &self.socket_folder {
            socket_folder::remove(folder, &self.folder.account);
        }
    }

    fn socket_note(&self) -> PathBuf {
        self.folder.path().join(SOCKET_NOTE)
    }
}

fn write_note(path: &Path, text: &str, account: &Account) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = data_folder::open_plain(&mut options, path)?;
    account.give_file(&file)?;
    file.write_all(text.as_bytes())
}

/// The programs for a new cluster, or those of the version of the one that is there.
fn choose_programs(folder: &DataFolder, found: Vec<Programs>) -> Result<Programs, ClusterFault> {
    let Some(wanted) = folder.cluster_version()? else {
        let mut found = found.into_iter();
        return Ok(found.next().expect("a plan names programs"));
    };
    let versions: Vec<String> = found
        .iter()
        .map(|programs| programs.version().to_string())
        .collect();
    let mut found = found.into_iter();
    found
        .find(|programs| programs.version().to_string() == wanted)
        .ok_or_else(|| ClusterFault::OtherVersion {
            cluster: folder.cluster(),
            wanted,
            found: versions.join(", "),
        })
}
