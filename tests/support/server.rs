//! A PostgreSQL server that belongs to no broker, and databases on it. It listens on a unix socket
//! and on a port of this machine, and can be stopped, hung, killed and started again.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use rustix::process::Signal;

use super::broker::free_port;
use super::home::{ENDING_LIMIT, Home, children_of, is_alive, is_root, programs, signal};
use super::poll::{eventually_within, step};
use super::queue::unique;

/// How long a start, recovery included, or a stop may take on a busy machine.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// The superuser of the copied cluster, who needs no password.
const SUPERUSER: &str = "queen";

/// Who may log in: everybody but one group needs no password.
const LOGINS: &str = "\
host  all  +with_password  127.0.0.1/32  scram-sha-256
host  all  all             127.0.0.1/32  trust
local all  all                           trust
";

/// Settings of every start. What brokers write must be as safe as they ask for.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "fsync=on",
    "max_connections=200",
    // What a server that is killed leaves of shared memory goes with its folder.
    "dynamic_shared_memory_type=mmap",
    "lc_messages=C",
    "log_line_prefix=%m [%p] %d ",
];

/// A server; gone when dropped, with all that it has written.
#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    settings: Vec<String>,
    child: Mutex<Option<Child>>,
    /// Dropped last: it looks for processes that are left, and removes the folder.
    home: Home,
}

impl Server {
    /// A running one.
    pub(crate) fn start() -> Arc<Server> {
        Server::start_with(&[])
    }

    /// A running one with more settings.
    pub(crate) fn start_with(settings: &[&str]) -> Arc<Server> {
        let home = Home::in_memory("data");
        home.put_cluster();
        Server::start_in(home, settings)
    }

    /// A running one in this data folder, with more settings.
    pub(crate) fn start_in(home: Home, settings: &[&str]) -> Arc<Server> {
        fs::write(home.cluster().join("pg_hba.conf"), LOGINS).expect("who may log in");
        let server = Server {
            port: free_port(),
            settings: settings.iter().map(|&one| one.to_owned()).collect(),
            child: Mutex::new(None),
            home,
        };
        server.make_socket_folder();
        server.launch();
        server.wait_until_ready();
        let group = "CREATE ROLE with_password";
        server
            .superuser("postgres")
            .batch_execute(group)
            .expect("a role");
        Arc::new(server)
    }

    fn make_socket_folder(&self) {
        let folder = self.socket_folder();
        fs::create_dir(&folder).expect("a folder");
        // A broker of an ordinary user comes in here, too.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("its mode");
        let (uid, gid) = self.owner();
        chown(&folder, Some(uid), Some(gid)).expect("its owner");
    }

    fn socket_folder(&self) -> PathBuf {
        self.home.top().join("socket")
    }

    /// The user and the group that it runs as.
    fn owner(&self) -> (u32, u32) {
        let cluster = fs::metadata(self.home.cluster()).expect("a cluster");
        (cluster.uid(), cluster.gid())
    }

    /// Starts its process without waiting for it.
    fn launch(&self) {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.home.top().join("server.log"))
            .expect("a log");
        let version = programs_of_cluster(&self.home);
        let mut command = Command::new(version.join("postgres"));
        command.arg("-D").arg(self.home.cluster());
        let folder = format!("unix_socket_directories={}", self.socket_folder().display());
        let port = format!("port={}", self.port);
        let fixed = SETTINGS.iter().map(|&one| one.to_owned());
        for setting in fixed.chain([folder, port]).chain(self.settings.clone()) {
            command.arg("-c").arg(setting);
        }
        if is_root() {
            let (uid, gid) = self.owner();
            command.uid(uid).gid(gid);
        }
        let child = command
            .env_clear()
            .env("LC_ALL", "C")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log)
            .spawn()
            .expect("postgres runs");
        *self.child.lock().unwrap() = Some(child);
    }

    /// Starts it again after it has ended, as often as what a killed one left is in its way.
    #[track_caller]
    pub(crate) fn start_again(&self) {
        let deadline = Instant::now() + SERVER_LIMIT;
        loop {
            self.launch();
            while self.is_running() {
                if self.lets_in() {
                    return;
                }
                assert!(Instant::now() < deadline, "it starts: {}", self.log());
                step();
            }
            assert!(Instant::now() < deadline, "it starts: {}", self.log());
            step();
        }
    }

    #[track_caller]
    fn wait_until_ready(&self) {
        eventually_within(SERVER_LIMIT, "the server lets clients in", || {
            assert!(self.is_running(), "it has ended: {}", self.log());
            self.lets_in()
        });
    }

    fn lets_in(&self) -> bool {
        self.try_connect("postgres").is_ok()
    }

    /// Whether its first process is there.
    pub(crate) fn is_running(&self) -> bool {
        let mut child = self.child.lock().unwrap();
        match child.as_mut() {
            Some(child) => child.try_wait().expect("a child").is_none(),
            None => false,
        }
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.top().join("server.log")).unwrap_or_default()
    }

    /// Its data folder.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The id of its first process.
    pub(crate) fn pid(&self) -> u32 {
        let child = self.child.lock().unwrap();
        child.as_ref().expect("it was started").id()
    }

    /// A new, empty database.
    pub(crate) fn database(self: &Arc<Server>) -> Database {
        let name = unique("broker").replace('.', "_");
        let create = format!("CREATE DATABASE {name}");
        let mut client = self.superuser("postgres");
        client.batch_execute(&create).expect("a database");
        Database {
            server: Arc::clone(self),
            name,
        }
    }

    fn try_connect(&self, database: &str) -> Result<Client, postgres::Error> {
        let mut config = Client::configure();
        config
            .host_path(self.socket_folder())
            .port(self.port)
            .user(SUPERUSER)
            .dbname(database)
            .application_name("queen-test")
            .connect_timeout(Duration::from_secs(5));
        config.connect(NoTls)
    }

    #[track_caller]
    fn superuser(&self, database: &str) -> Client {
        self.try_connect(database)
            .expect("the server lets a client in")
    }

    /// Stops it in order, sessions or not.
    #[track_caller]
    pub(crate) fn stop(&self) {
        self.end_by(Signal::INT);
    }

    /// Stops it without a checkpoint: the next start recovers.
    #[track_caller]
    pub(crate) fn stop_immediately(&self) {
        self.end_by(Signal::QUIT);
    }

    /// `kill -9` of its first process; the others find out by themselves.
    #[track_caller]
    pub(crate) fn kill(&self) {
        self.end_by(Signal::KILL);
    }

    /// `kill -9` of all its processes at once: what they have not written to a file is lost.
    #[track_caller]
    pub(crate) fn kill_all(&self) {
        self.hang();
        let children = children_of(self.pid());
        children.iter().for_each(|&pid| signal(pid, Signal::KILL));
        self.kill();
    }

    #[track_caller]
    fn end_by(&self, how: Signal) {
        signal(self.pid(), how);
        eventually_within(SERVER_LIMIT, "the server ends", || !self.is_running());
    }

    /// Stops its first process: no new session comes in, those that are there go on.
    pub(crate) fn hang_postmaster(&self) {
        signal(self.pid(), Signal::STOP);
    }

    /// Stops all its processes.
    pub(crate) fn hang(&self) {
        self.hang_postmaster();
        // No other process is born any more.
        for pid in children_of(self.pid()) {
            signal(pid, Signal::STOP);
        }
    }

    /// Lets go on what was stopped.
    pub(crate) fn go_on(&self) {
        for pid in children_of(self.pid()) {
            signal(pid, Signal::CONT);
        }
        signal(self.pid(), Signal::CONT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the server\n{}---", self.log());
        }
        let child = self
            .child
            .get_mut()
            .unwrap_or_else(|poison| poison.into_inner());
        let Some(child) = child.as_mut() else {
            return;
        };
        // One that is stopped would see neither the signal nor the end of the others.
        let all = children_of(child.id());
        let how = [Signal::CONT, Signal::QUIT];
        all.iter().for_each(|&pid| signal(pid, Signal::CONT));
        if matches!(child.try_wait(), Ok(None)) {
            how.iter().for_each(|&how| signal(child.id(), how));
        }
        let deadline = Instant::now() + ENDING_LIMIT;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                // A failure means that it has just ended by itself.
                let _ = child.kill();
            }
            step();
        }
        for pid in all {
            signal(pid, Signal::KILL);
            while is_alive(pid) {
                step();
            }
        }
    }
}

/// Where the programs of this version of a cluster are.
fn programs_of_cluster(home: &Home) -> PathBuf {
    let version = fs::read_to_string(home.cluster().join("PG_VERSION")).expect("a version");
    let found = programs().into_iter();
    let mut fitting = found.filter(|programs| programs.version().to_string() == version.trim());
    let programs = fitting.next().expect("programs of its version");
    programs.folder().to_owned()
}

/// A database of a test's own.
#[derive(Debug)]
pub(crate) struct Database {
    server: Arc<Server>,
    name: String,
}

impl Database {
    /// The server it is on.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `DATABASE_URL` over the port.
    pub(crate) fn url(&self) -> String {
        self.url_of(SUPERUSER)
    }

    /// `DATABASE_URL` over the port for somebody else, as it stands before the `@`.
    pub(crate) fn url_of(&self, login: &str) -> String {
        let (port, name) = (self.server.port, &self.name);
        format!("postgres://{login}@127.0.0.1:{port}/{name}")
    }

    /// `DATABASE_URL` over the unix socket.
    pub(crate) fn socket_url(&self) -> String {
        let folder = super::client::encode(&self.server.socket_folder().display().to_string());
        let (port, name) = (self.server.port, &self.name);
        format!("postgres://{SUPERUSER}@{folder}:{port}/{name}")
    }

    /// The folder of the unix socket.
    pub(crate) fn socket_folder(&self) -> PathBuf {
        self.server.socket_folder()
    }

    /// A session of the test's.
    #[track_caller]
    pub(crate) fn client(&self) -> Client {
        self.server.superuser(&self.name)
    }

    /// Runs statements.
    #[track_caller]
    pub(crate) fn execute(&self, statements: &str) {
        if let Err(fault) = self.client().batch_execute(statements) {
            panic!("{statements}: {fault:?}");
        }
    }

    /// The processes of the sessions of brokers.
    #[track_caller]
    pub(crate) fn sessions(&self) -> Vec<u32> {
        let question = "SELECT pid FROM pg_stat_activity WHERE datname = $1 \
                        AND application_name <> 'queen-test' AND backend_type = 'client backend'";
        let rows = self.server.superuser("postgres");
        let rows = { rows }.query(question, &[&self.name]).expect("sessions");
        let pids = rows.iter().map(|row| row.get::<_, i32>(0).unsigned_abs());
        pids.collect()
    }
}
