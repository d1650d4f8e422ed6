//! A data folder of its own for each test. Whatever the test leaves, its server included, is gone at
//! the end.

use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use queen::postgres::{
    Address, ClusterFault, ClusterPlan, PrivateCluster, ProgramSearch, Programs, Progress, Started,
    Stopped, find_programs,
};
use rustix::fs::statvfs;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::poll::{eventually_within, step};

/// The bound that the broker's shutdown has.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to end when it is asked to end at once.
pub(crate) const ENDING_LIMIT: Duration = Duration::from_secs(5);

/// Where a cluster to be copied is kept, if not among what Cargo builds.
pub(crate) const TEMPLATE_VARIABLE: &str = "QUEEN_TEST_CLUSTER_TEMPLATE";

/// A file system in memory that most machines have.
const MEMORY: &str = "/dev/shm";

/// The room that it must have for all clusters of a run.
const MEMORY_BYTES_MIN: u64 = 4 << 30;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says past the capture of a test's output what did not run.
pub(crate) fn note(text: &str) {
    let line = format!("NOTE: {text}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr");
}

pub(crate) fn programs() -> Vec<Programs> {
    let given = std::env::var_os("QUEEN_PG_BIN").map(PathBuf::from);
    match find_programs(given.as_deref()).expect("QUEEN_PG_BIN is right") {
        ProgramSearch::Found(programs) => programs,
        ProgramSearch::NotFound { looked } => {
            panic!("PostgreSQL is not installed; tests/all.sh does it; looked in {looked:?}")
        }
    }
}

/// A data folder.
#[derive(Debug)]
pub(crate) struct Home {
    top: PathBuf,
    data: PathBuf,
    is_mounted: bool,
}

impl Home {
    /// A data folder with a stopped cluster.
    pub(crate) fn with_cluster() -> Home {
        let home = Home::empty();
        home.put_cluster();
        home
    }

    /// A data folder that is not there yet.
    pub(crate) fn empty() -> Home {
        Home::named("data")
    }

    /// A data folder that is not there yet, by its path below a folder of the test's own.
    pub(crate) fn named(name: &str) -> Home {
        Home::placed(&std::env::temp_dir(), name)
    }

    /// The same in memory where there is room for it: a server that flushes whatever it writes does
    /// not wait for a disk there.
    pub(crate) fn in_memory(name: &str) -> Home {
        let place = Path::new(MEMORY);
        let has_room = statvfs(place).is_ok_and(|system| {
            system.f_bavail.saturating_mul(system.f_frsize) >= MEMORY_BYTES_MIN
        });
        if has_room {
            Home::placed(place, name)
        } else {
            Home::named(name)
        }
    }

    fn placed(place: &Path, name: &str) -> Home {
        let top = place.join(format!("queen-test-{}", uuid::Uuid::new_v4()));
        fs::create_dir(&top).expect("a folder");
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).expect("its mode");
        let data = top.join(name);
        Home {
            top,
            data,
            is_mounted: false,
        }
    }

    pub(crate) fn put_cluster(&self) {
        fs::create_dir_all(&self.data).expect("a folder");
        copy(&template(), &self.cluster());
    }

    /// Makes the data folder a small file system of its own, in memory; false where mounting is not
    /// allowed.
    pub(crate) fn mount(&mut self, size: &str) -> bool {
        fs::create_dir_all(&self.data).expect("a folder");
        let options = format!("size={size},mode=755");
        let arguments = ["-t", "tmpfs", "-o", &options, "queen-test"];
        self.is_mounted = run("mount", &arguments, &self.data);
        self.is_mounted
    }

    /// Gives the file system another size.
    pub(crate) fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(run("mount", &["-o", &options], &self.data), "it is mounted");
    }

    /// Fills the file system up to the last byte that a file gets; the file that does it.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.data.join("filler");
        let mut file = File::create(&path).expect("a file");
        let block = vec![1; 64 * 1024];
        while file.write_all(&block).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
        path
    }

    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn cluster(&self) -> PathBuf {
        self.data.join("cluster")
    }

    pub(crate) fn plan(&self) -> ClusterPlan {
        ClusterPlan::new(self.data.clone(), programs())
    }

    #[track_caller]
    pub(crate) fn open(&self) -> PrivateCluster {
        PrivateCluster::open(self.plan()).expect("the data folder is free")
    }

    /// The process that `postmaster.pid` names.
    pub(crate) fn postmaster(&self) -> Option<u32> {
        let text = fs::read_to_string(self.cluster().join("postmaster.pid")).ok()?;
        text.lines().next()?.trim().parse().ok()
    }

    /// What creations that were broken off have left.
    pub(crate) fn unfinished(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.data) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.to_string_lossy().contains("cluster-unfinished-"))
            .collect()
    }
}

impl Home {
    /// Ends what runs below the folder: its processes name it in their command line, and a server's
    /// children end with it. A server that is asked first removes its shared memory itself.
    fn end_processes(&self) {
        let ask = |pid: &u32| {
            children_of(*pid)
                .iter()
                .for_each(|&child| signal(child, Signal::CONT));
            signal(*pid, Signal::CONT);
            signal(*pid, Signal::QUIT);
        };
        processes_naming(&self.top).iter().for_each(ask);
        let deadline = Instant::now() + ENDING_LIMIT;
        loop {
            let left = processes_naming(&self.top);
            if left.is_empty() {
                return;
            }
            if Instant::now() > deadline {
                left.iter().for_each(|pid| signal(*pid, Signal::KILL));
            }
            step();
        }
    }

    /// Removes the shared memory of a server that was killed, which the system keeps otherwise: its
    /// next start would do it. `postmaster.pid` names it last but for one line.
    fn remove_shared_memory(&self) {
        let file = self.cluster().join("postmaster.pid");
        let text = fs::read_to_string(file).unwrap_or_default();
        let key_and_number = text.lines().nth(6).unwrap_or_default();
        if let Some(number) = key_and_number.split_whitespace().nth(1) {
            // Gone already, if the server has ended by itself.
            let _ = Command::new("ipcrm").args(["-m", number]).output();
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.end_processes();
        self.remove_shared_memory();
        if let Ok(folder) = fs::read_to_string(self.data.join("socket-folder")) {
            // Mostly gone already.
            let _ = fs::remove_dir_all(folder.trim());
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.data.join("postgres.log")).unwrap_or_default();
            eprintln!("--- log of PostgreSQL\n{log}---");
        }
        if self.is_mounted {
            // Lazily: sessions of a server that was killed take a moment to end.
            let unmounted = run("umount", &["-l"], &self.data);
            assert!(unmounted || std::thread::panicking(), "it stays mounted");
        }
        if let Err(fault) = fs::remove_dir_all(&self.top) {
            eprintln!("{} stays behind: {fault}", self.top.display());
        }
    }
}

/// The processes, those that have ended not counted, that have the path in their command line.
pub(crate) fn processes_naming(path: &Path) -> Vec<u32> {
    let path = path.to_str().expect("a path in UTF-8");
    let names = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(path) && *pid != std::process::id()
    };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(names).collect()
}

/// The processes that a process has started and that have not ended (proc(5)).
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        rest.split(' ').nth(1) == Some(&parent.to_string())
    };
    pids.filter(is_child).collect()
}

/// Whether a program did its work on a path.
fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(arguments).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// Copies a file or a folder. By a process of its own: a program that this one has just written may
/// still be open for writing in a child that another thread is starting, and cannot be run then.
pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.expect("cp runs").success(), "{from:?} to {to:?}");
}

/// A cluster to be copied: creating one takes seconds, mostly of the disk.
fn template() -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(|poison| poison.into_inner());
    let kept =
        std::env::var_os(TEMPLATE_VARIABLE).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let account = if is_root() { "root" } else { "user" };
    let version = programs()[0].version();
    let kept = PathBuf::from(kept).join(format!("cluster-{version}-{account}-light"));
    if kept.join("PG_VERSION").exists() {
        return kept;
    }
    let home = Home::empty();
    let mut cluster = home.open();
    assert_eq!(start(&mut cluster), Started::Created);
    assert_eq!(cluster.stop(STOP_LIMIT), Stopped::Fast);
    // Who is killed loses nothing that the system has: the tests need not wait for the disk. And
    // shared memory that is a file of the cluster goes away with it.
    let conf = home.cluster().join("postgresql.conf");
    let text = fs::read_to_string(&conf).expect("its settings");
    fs::write(
        &conf,
        format!("{text}\nfsync = off\ndynamic_shared_memory_type = mmap\n"),
    )
    .expect("its settings");
    let mut half = kept.clone().into_os_string();
    half.push(format!("-{}", uuid::Uuid::new_v4()));
    copy(&home.cluster(), Path::new(&half));
    if let Err(fault) = fs::rename(&half, &kept) {
        // Another run was faster.
        fs::remove_dir_all(&half).expect("the copy");
        assert!(kept.join("PG_VERSION").exists(), "{fault}");
    }
    kept
}

/// Starts or adopts the server; panics with the fault.
#[track_caller]
pub(crate) fn start(cluster: &mut PrivateCluster) -> Started {
    match try_start(cluster) {
        Ok(started) => started,
        Err(fault) => panic!("{fault}"),
    }
}

pub(crate) fn try_start(cluster: &mut PrivateCluster) -> Result<Started, ClusterFault> {
    cluster.start(&mut |_: Progress<'_>| ControlFlow::Continue(()))
}

/// A session as the broker will have it.
#[track_caller]
pub(crate) fn connect(address: &Address) -> Client {
    let mut config = Client::configure();
    config
        .host_path(&address.socket_folder)
        .port(address.port)
        .user(address.user)
        .dbname(address.database);
    config.connect(NoTls).expect("the server lets a client in")
}

/// One value of a setting.
pub(crate) fn show(client: &mut Client, setting: &str) -> String {
    let row = client.query_one(&format!("SHOW {setting}"), &[]);
    row.expect("a setting").get(0)
}

/// Writes a row that must survive.
pub(crate) fn write_row(cluster: &PrivateCluster) {
    let mut client = connect(&cluster.address().expect("it is started"));
    let write = "CREATE TABLE IF NOT EXISTS kept (number int); INSERT INTO kept VALUES (1)";
    client.batch_execute(write).expect("a row is written");
}

/// How many rows have survived.
#[track_caller]
pub(crate) fn rows(cluster: &PrivateCluster) -> i64 {
    let mut client = connect(&cluster.address().expect("it is started"));
    let row = client.query_one("SELECT count(*) FROM kept", &[]);
    row.expect("a count").get(0)
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    // A process that has just ended needs no signal.
    let _ = kill_process(process_id(pid), signal);
}

fn process_id(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a process id")
}

/// Whether there is such a process that has not ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ended = stat
        .rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with('Z'));
    test_kill_process(process_id(pid)).is_ok() && !ended
}

#[track_caller]
pub(crate) fn wait_until_gone(pid: u32) {
    eventually_within(STOP_LIMIT, "the process ends", || !is_alive(pid));
}
