//! Servers for sessions: one that the tests share, with a database for each, and servers of a test's
//! own where it disturbs them. All listen on a socket and on 127.0.0.1, the shared one with TLS.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use postgres::{Client, NoTls};
use queen::postgres::{ServerRules, Session, SessionFault, Target, TargetSettings};
use rustix::process::Signal;

use super::tls::Certificates;
use crate::home::{Home, programs, signal};
use crate::poll::{eventually_within, step};

/// The clusters of the tests do not wait for the disk.
pub(crate) const RULES: ServerRules = ServerRules {
    allow_fsync_off: true,
};

/// What a statement of a session may take that nothing disturbs.
pub(crate) const CALM: Duration = Duration::from_secs(10);

/// Who may log in over the network, and how; the socket is open to all.
const LOGINS: &str = "local all all trust
hostssl all tls_only all scram-sha-256
hostnossl all plain_only all scram-sha-256
hostssl all by_certificate all cert
host all either all scram-sha-256
";

/// The password of all who have one.
pub(crate) const PASSWORD: &str = "s3cret-pass'word \\ %40";

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) home: Home,
    pub(crate) port: u16,
    pub(crate) certificates: Option<Certificates>,
    process: Child,
}

impl Server {
    /// The server that tests share: it runs as long as one of them does.
    pub(crate) fn shared() -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Server::start(true));
        *shared = Arc::downgrade(&server);
        server
    }

    /// A server of the test's own, without TLS.
    pub(crate) fn own() -> Arc<Server> {
        Arc::new(Server::start(false))
    }

    fn start(with_tls: bool) -> Server {
        let home = Home::with_cluster();
        let cluster = home.cluster();
        fs::write(cluster.join("pg_hba.conf"), LOGINS).expect("who may log in");
        let certificates = with_tls.then(|| Certificates::make(home.top()));
        if let Some(certificates) = &certificates {
            certificates.give_to_server(&cluster);
        }
        let sockets = home.top().join("sockets");
        fs::create_dir(&sockets).expect("a folder");
        own_as(&cluster, &sockets);
        let (process, port) = spawn(&home, &sockets, with_tls);
        let server = Server {
            home,
            port,
            certificates,
            process,
        };
        let mut client = server.client("postgres");
        for user in ["tls_only", "plain_only", "by_certificate", "either"] {
            let quoted = PASSWORD.replace('\'', "''");
            let role = format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{quoted}'");
            client.batch_execute(&role).expect("a user");
        }
        server
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn sockets(&self) -> PathBuf {
        self.home.top().join("sockets")
    }

    /// What the server has written so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.data().join("postgres.log")).expect("its log")
    }

    /// A session of a tool, such as psql.
    pub(crate) fn client(&self, database: &str) -> Client {
        let mut config = Client::configure();
        config
            .host_path(self.sockets())
            .port(self.port)
            .user("queen")
            .dbname(database)
            .application_name("tool");
        config.connect(NoTls).expect("the server lets a client in")
    }

    /// A new database, with what stands behind `CREATE DATABASE` its name.
    pub(crate) fn database_with(self: &Arc<Server>, options: &str) -> Database {
        let name = format!("test_{}", uuid::Uuid::new_v4().simple());
        let create = format!("CREATE DATABASE {name} {options}");
        let mut client = self.client("postgres");
        client.batch_execute(&create).expect("a database");
        Database {
            server: Arc::clone(self),
            name,
        }
    }

    pub(crate) fn database(self: &Arc<Server>) -> Database {
        self.database_with("")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(8_000);
            eprintln!("--- end of the server's log\n{}---", &log[from..]);
        }
        signal(self.pid(), Signal::QUIT);
        signal(self.pid(), Signal::CONT);
        self.process.wait().expect("a child of this process");
    }
}

/// Gives a path to the user that owns the cluster.
pub(crate) fn own_as(cluster: &Path, path: &Path) {
    let owner = fs::metadata(cluster).expect("the cluster");
    chown(path, Some(owner.uid()), Some(owner.gid())).expect("its owner");
}

fn spawn(home: &Home, sockets: &Path, with_tls: bool) -> (Child, u16) {
    let cluster = home.cluster();
    let owner = fs::metadata(&cluster).expect("the cluster");
    let log = home.data().join("postgres.log");
    for _ in 0..5 {
        // Free a moment ago; somebody else may be faster.
        let probe = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = probe.local_addr().expect("its number").port();
        drop(probe);
        let output = File::create(&log).expect("its log");
        let mut command = Command::new(programs()[0].folder().join("postgres"));
        command
            .arg("-D")
            .arg(&cluster)
            .current_dir("/")
            .env("LC_ALL", "C");
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            format!("unix_socket_directories={}", sockets.display()),
            format!("ssl={}", if with_tls { "on" } else { "off" }),
            "max_connections=200".to_owned(),
            "log_line_prefix=%d|".to_owned(),
            "logging_collector=off".to_owned(),
        ];
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        if crate::home::is_root() {
            command.uid(owner.uid()).gid(owner.gid());
        }
        command.stdin(Stdio::null()).process_group(0);
        command
            .stdout(output.try_clone().expect("a log"))
            .stderr(output);
        let mut process = command.spawn().expect("the server starts");
        let mut has_ended = false;
        eventually_within(Duration::from_secs(30), "the server is ready", || {
            has_ended = process.try_wait().expect("a child").is_some();
            let text = fs::read_to_string(&log).expect("its log");
            has_ended || text.contains("ready to accept connections")
        });
        if !has_ended {
            return (process, port);
        }
        step();
    }
    panic!("{}", fs::read_to_string(&log).expect("its log"));
}

/// A database of one test.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) server: Arc<Server>,
    pub(crate) name: String,
}

impl Database {
    pub(crate) fn client(&self) -> Client {
        self.server.client(&self.name)
    }

    /// Runs SQL as a tool.
    #[track_caller]
    pub(crate) fn run(&self, sql: &str) {
        self.client().batch_execute(sql).expect("SQL that is right");
    }

    /// One value that SQL gives, as text.
    #[track_caller]
    pub(crate) fn value(&self, sql: &str) -> String {
        let sql = format!("SELECT ({sql})::text");
        let row = self.client().query_one(&sql, &[]).expect("one row");
        row.get::<_, Option<String>>(0).unwrap_or_default()
    }

    /// The settings for the socket.
    pub(crate) fn settings(&self) -> TargetSettings {
        TargetSettings {
            host: Some(self.server.sockets().display().to_string()),
            port: Some(self.server.port.to_string()),
            user: Some("queen".to_owned()),
            database: Some(self.name.clone()),
            ..TargetSettings::default()
        }
    }

    /// The settings for the network.
    pub(crate) fn network_settings(&self, user: &str) -> TargetSettings {
        TargetSettings {
            host: Some("127.0.0.1".to_owned()),
            user: Some(user.to_owned()),
            password: Some(PASSWORD.to_owned()),
            ..self.settings()
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target::parse(&self.settings()).expect("settings that are right")
    }

    #[track_caller]
    pub(crate) fn open(&self) -> Session {
        self.try_open().expect("a session")
    }

    pub(crate) fn try_open(&self) -> Result<Session, SessionFault> {
        Session::open(&self.target(), &RULES, "incarnation-a", &mut || true)
    }
}

/// Makes a key unreadable for others, as servers want it.
pub(crate) fn close_to_others(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode");
}

/// The reason of `Away`.
#[track_caller]
pub(crate) fn away<T: std::fmt::Debug>(outcome: Result<T, SessionFault>) -> String {
    match outcome {
        Err(SessionFault::Away { reason }) => reason,
        other => panic!("not away: {other:?}"),
    }
}

/// The reason of `Refused`.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, SessionFault>) -> String {
    match outcome {
        Err(SessionFault::Refused { reason }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

/// The reason of a statement that failed and may succeed later.
#[track_caller]
pub(crate) fn healing<T: std::fmt::Debug>(outcome: Result<T, SessionFault>) -> String {
    match outcome {
        Err(SessionFault::Write {
            reason,
            heals: true,
        }) => reason,
        other => panic!("not a fault of the environment: {other:?}"),
    }
}
