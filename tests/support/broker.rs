//! The real binary as a child process on a port of its own.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::cores::Cores;
use super::home::copy;
use super::poll::{eventually, eventually_within, step};
use super::queue::{Queue, metrics_sample, unique};
use super::setup::Setup;

/// The broker's program.
const BINARY: &str = env!("CARGO_BIN_EXE_queen");

/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a stop may take: what the broker promises.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Starts that are tried when the chosen port was taken meanwhile.
const PORT_TRIES: usize = 10;

/// Exit status of a broker whose port is taken.
pub(crate) const STATUS_ADDRESS_TAKEN: i32 = 69;

/// Exit status of a broker whose I/O driver cannot be had.
pub(crate) const STATUS_DRIVER_REFUSED: i32 = 72;

/// The settings a broker is started with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Plan {
    settings: BTreeMap<String, String>,
    account: Option<Account>,
}

/// Another user than the test's, and the binary where that user can reach it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Account {
    id: u32,
    program: PathBuf,
}

impl Plan {
    /// Defaults, with this driver and this number of shards.
    pub(crate) fn new(setup: Setup) -> Plan {
        let mut settings = BTreeMap::new();
        settings.insert("QUEEN_IO".into(), setup.driver.name().into());
        settings.insert("QUEEN_SHARDS".into(), setup.shards.to_string());
        settings.insert("QUEEN_BIND_ADDR".into(), "127.0.0.1".into());
        // Brokers of several tests run side by side: they must not all take the same CPU.
        settings.insert("QUEEN_PIN".into(), "off".into());
        // No private cluster: tests of the database ask for one.
        settings.insert("QUEEN_DURABLE".into(), "off".into());
        settings.insert("RUST_BACKTRACE".into(), "1".into());
        Plan {
            settings,
            account: None,
        }
    }

    /// Defaults, for what neither the driver nor the number of shards makes a difference to.
    pub(crate) fn any() -> Plan {
        Plan::new(Setup::with_shards(2))
    }

    /// How many shards the broker has.
    pub(crate) fn shards(&self) -> u16 {
        self.settings["QUEEN_SHARDS"].parse().expect("a number")
    }

    /// One more setting.
    pub(crate) fn set(mut self, name: &str, value: impl ToString) -> Plan {
        self.settings.insert(name.into(), value.to_string());
        self
    }

    /// Runs as another user, which only root can ask for. `folder` is one that the user can enter;
    /// the binary is copied there, because what Cargo builds may be closed to the user.
    pub(crate) fn run_as(mut self, id: u32, folder: &Path) -> Plan {
        let program = folder.join("queen");
        copy(Path::new(BINARY), &program);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("its mode");
        self.account = Some(Account { id, program });
        self
    }

    /// Starts a broker that answers; panics with its output when it does not.
    #[track_caller]
    pub(crate) fn start(self) -> Broker {
        match self.try_start() {
            Ok(broker) => broker,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    /// Starts a broker and waits until it answers.
    pub(crate) fn try_start(&self) -> Result<Broker, StartFailure> {
        for _ in 0..PORT_TRIES {
            match self.start_on(free_port()) {
                Err(StartFailure {
                    status: Some(status),
                    ..
                }) if status.code() == Some(STATUS_ADDRESS_TAKEN) => continue,
                outcome => return outcome,
            }
        }
        panic!("no free port in {PORT_TRIES} tries");
    }

    /// Starts a broker on a given port, which must be free: an answer from whoever holds it would
    /// be taken for the broker's.
    pub(crate) fn start_on(&self, port: u16) -> Result<Broker, StartFailure> {
        let broker = self.spawn_on(port);
        broker.wait_until_healthy()?;
        Ok(broker)
    }

    /// Starts a broker that is expected to give up, and waits until it has.
    #[track_caller]
    pub(crate) fn start_in_vain(&self, port: u16) -> StartFailure {
        let broker = self.spawn_on(port);
        let status = broker.wait_for_exit();
        eventually("its output is read to the end", || {
            broker.collectors.iter().all(JoinHandle::is_finished)
        });
        StartFailure {
            status: Some(status),
            output: broker.output(),
        }
    }

    /// Starts a broker without waiting for anything.
    pub(crate) fn spawn(&self) -> Broker {
        self.spawn_on(free_port())
    }

    /// Starts a broker on a given port without waiting for anything.
    pub(crate) fn spawn_on(&self, port: u16) -> Broker {
        self.spawn_in(port, Arc::new(DataFolder::new()))
    }

    /// The same in this folder, where the settings name none.
    fn spawn_in(&self, port: u16, folder: Arc<DataFolder>) -> Broker {
        let mut command = match &self.account {
            None => Command::new(BINARY),
            Some(account) => {
                let mut command = Command::new(&account.program);
                command.uid(account.id).gid(account.id).current_dir("/");
                command
            }
        };
        let mut child = command
            .env_clear()
            .env("QUEEN_DATA_DIR", &folder.0)
            .envs(&self.settings)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the broker's binary can be started");
        let output = Arc::new(Mutex::new(Vec::new()));
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let collectors = [collect(stdout, &output), collect(stderr, &output)];
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Broker {
            child: Mutex::new(child),
            address,
            output,
            collectors,
            plan: self.clone(),
            folder,
            cores: Cores::new(address, self.shards()),
            next_core: AtomicUsize::new(0),
        }
    }
}

/// The data folder of a broker whose settings name none: what is usual as root is one for all of them,
/// and one would find the lock and the pushes of another. Made by the broker, gone with the last that
/// was started in it.
#[derive(Debug)]
struct DataFolder(PathBuf);

impl DataFolder {
    fn new() -> DataFolder {
        let name = format!("queen-test-{}", uuid::Uuid::new_v4());
        DataFolder(std::env::temp_dir().join(name))
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.0) {
            Err(fault) if fault.kind() != ErrorKind::NotFound => {
                eprintln!("{} stays behind: {fault}", self.0.display());
            }
            _ => {}
        }
    }
}

/// A broker that did not come up.
#[derive(Debug)]
pub(crate) struct StartFailure {
    /// How it exited; `None`: it runs but does not answer.
    pub(crate) status: Option<ExitStatus>,
    /// What it printed.
    pub(crate) output: String,
}

/// A port that was free a moment ago. Below the range that the kernel takes the local ports of
/// outgoing connections from, so that no client takes it while a broker restarts.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        // Two runs at the same time begin at different places.
        let port =
            (FIRST + (std::process::id().wrapping_mul(97).wrapping_add(step)) % COUNT) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn collect(mut source: impl Read + Send + 'static, output: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let output = Arc::clone(output);
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = source.read(&mut chunk) {
            output.lock().unwrap().extend_from_slice(&chunk[..count]);
        }
    })
}

/// A running broker; killed when dropped, its output printed when the test failed.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Mutex<Child>,
    address: SocketAddr,
    output: Arc<Mutex<Vec<u8>>>,
    /// They end with the output.
    collectors: [JoinHandle<()>; 2],
    plan: Plan,
    folder: Arc<DataFolder>,
    cores: Arc<Cores>,
    next_core: AtomicUsize,
}

impl Broker {
    fn wait_until_healthy(&self) -> Result<(), StartFailure> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let exited = self.child.lock().unwrap().try_wait().expect("a child");
            if exited.is_some() || Instant::now() > deadline {
                return Err(StartFailure {
                    status: exited,
                    output: self.output(),
                });
            }
            if self.is_healthy() {
                return Ok(());
            }
            step();
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// What it has printed so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    /// Connections to it, by the core that serves them.
    pub(crate) fn cores(&self) -> &Arc<Cores> {
        &self.cores
    }

    /// A connection of its own; each is served by another core than the one before.
    #[track_caller]
    pub(crate) fn client(&self) -> Client {
        let next = self.next_core.fetch_add(1, Ordering::Relaxed);
        self.cores.take(next % self.cores.count())
    }

    /// A connection of its own, and nothing else: for tests that count connections or requests, or
    /// that need thousands.
    #[track_caller]
    pub(crate) fn plain_client(&self) -> Client {
        Client::connect(self.address)
    }

    /// A queue with a name that no other test uses.
    pub(crate) fn queue(&self, name: &str) -> Queue {
        self.queue_named(&unique(name))
    }

    /// A queue with exactly this name.
    pub(crate) fn queue_named(&self, name: &str) -> Queue {
        Queue::new(Arc::clone(&self.cores), name)
    }

    /// Whether it answers that it is in service.
    pub(crate) fn is_healthy(&self) -> bool {
        Client::try_connect(self.address).is_ok_and(|mut client| {
            let request = client.request_bytes("GET", "/health", None);
            client.try_send_raw(&request).is_ok()
                && client.try_read().is_ok_and(|answer| answer.status == 200)
        })
    }

    /// Whether its process is there.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.child.lock().unwrap().try_wait(), Ok(None))
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child.lock().unwrap());
        kill_process(pid, signal).expect("the broker can be signalled");
    }

    /// Sends SIGTERM without waiting.
    pub(crate) fn send_sigterm(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGINT without waiting.
    pub(crate) fn send_sigint(&self) {
        self.signal(Signal::INT);
    }

    /// Waits for the exit that a signal asked for and returns its status.
    #[track_caller]
    pub(crate) fn wait_for_exit(&self) -> ExitStatus {
        let mut status = None;
        eventually_within(STOP_LIMIT, "the broker exits", || {
            status = self.child.lock().unwrap().try_wait().expect("a child");
            status.is_some()
        });
        status.expect("it has exited")
    }

    /// SIGTERM, then exit status 0 within the promised time.
    #[track_caller]
    pub(crate) fn terminate(&self) {
        self.send_sigterm();
        let status = self.wait_for_exit();
        assert_eq!(status.code(), Some(0), "{}", self.output());
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().expect("the broker can be killed");
        child.wait().expect("the broker can be waited for");
    }

    /// Starts a broker with the same settings, data folder and port, after this one has ended.
    #[track_caller]
    pub(crate) fn start_again(&self) -> Broker {
        let folder = Arc::clone(&self.folder);
        let broker = self.plan.spawn_in(self.address.port(), folder);
        match broker.wait_until_healthy() {
            Ok(()) => broker,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    /// Its data folder, unless its settings name another one.
    pub(crate) fn data_folder(&self) -> &Path {
        &self.folder.0
    }

    /// Bytes of memory resident.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("the broker runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a resident size");
        let kilobytes: u64 = line
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()
            .expect("a number");
        kilobytes * 1024
    }

    /// The value of one sample of `/metrics/prometheus`, by its exact name and labels.
    #[track_caller]
    pub(crate) fn sample(&self, name: &str) -> f64 {
        metrics_sample(&self.metrics(), name)
    }

    /// The text of `/metrics/prometheus`.
    #[track_caller]
    pub(crate) fn metrics(&self) -> String {
        let answer = self.plain_client().get("/metrics/prometheus");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let child = self
            .child
            .get_mut()
            .unwrap_or_else(|poison| poison.into_inner());
        let running = matches!(child.try_wait(), Ok(None));
        if running {
            // A failure means that it has just exited by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            eprintln!("--- output of the broker\n{}---", self.output());
        }
    }
}

/// The broker that all tests with the same settings share. The first asks for it, the last one that
/// lets go of it ends it, so that none is left behind.
pub(crate) fn shared(plan: Plan) -> Arc<Broker> {
    static RUNNING: Mutex<BTreeMap<Plan, Weak<Broker>>> = Mutex::new(BTreeMap::new());
    let mut running = RUNNING.lock().unwrap_or_else(|poison| poison.into_inner());
    // One that has ended by itself failed the test that made it end, not those that follow.
    let alive = |broker: &Arc<Broker>| broker.is_running();
    if let Some(broker) = running.get(&plan).and_then(Weak::upgrade).filter(alive) {
        return broker;
    }
    let broker = Arc::new(plan.clone().start());
    running.insert(plan, Arc::downgrade(&broker));
    broker
}
