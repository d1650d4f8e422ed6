//! One core in a thread.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use queen::net::listener::{self, ConnectionCount};
use queen::net::{Connections, Settings};
use queen::runtime::{self, Doorbell, IoChoice, RuntimeFault};

use crate::client::Client;
use crate::service::{Events, Log, TestService};

/// Longer than anything that is waited for takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const SETTINGS: Settings = Settings {
    max_body_bytes: 8 * 1024 * 1024,
    head_timeout_ms: 60_000,
    idle_timeout_ms: 60_000,
    max_connections: 1_000,
};

/// A running core; stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) log: Log,
    bell: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// Every driver that this program has, by its name.
const DRIVERS: &[(&str, IoChoice)] = &[
    ("uring", IoChoice::Uring),
    ("epoll", IoChoice::Epoll),
    #[cfg(feature = "glommio")]
    ("glommio", IoChoice::Glommio),
];

/// Runs `test` against a core on each driver, or on the one that `QUEEN_TEST_IO` names. Where the
/// machine refuses one, says so.
pub(crate) fn on_each_driver(settings: Settings, test: impl Fn(&Server)) {
    let asked = std::env::var("QUEEN_TEST_IO").ok();
    let is_wanted = |name: &str| asked.as_deref().is_none_or(|asked| asked == name);
    let wanted: Vec<_> = DRIVERS.iter().filter(|(name, _)| is_wanted(name)).collect();
    assert!(!wanted.is_empty(), "no driver to test on: {asked:?}");
    for &&(_, io) in &wanted {
        match Server::start(io, settings) {
            Ok(server) => {
                eprintln!("on {io:?}");
                test(&server);
            }
            Err(fault) => eprintln!("{io:?} did not run: {fault}"),
        }
    }
}

impl Server {
    fn start(io: IoChoice, settings: Settings) -> Result<Server, RuntimeFault> {
        let socket = listener::bind("127.0.0.1:0".parse().unwrap(), 512).unwrap();
        let address = socket.local_addr().unwrap();
        let (bell, ringing) = UnixStream::pair().unwrap();
        let log = Log::default();
        let core_log = log.clone();
        let (started, start) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let up = started.clone();
            let result = runtime::run(io, |_| async move {
                let connections =
                    Connections::new(0, settings, |made| TestService::new(made, core_log.clone()));
                let count = ConnectionCount::new();
                listener::listen(socket, &connections, &count).unwrap();
                let bell = Doorbell::new(ringing).unwrap();
                up.send(Ok(())).unwrap();
                // One byte asks for the number of connections; closing asks to stop.
                while bell.wait().await.unwrap() > 0 {
                    core_log.note(|events| events.open = count.get());
                }
                connections.stop();
                connections.service().release_all();
                connections.gone().await;
                assert_eq!(count.get(), 0);
            });
            if let Err(fault) = result {
                started.send(Err(fault)).unwrap();
            }
        });
        start.recv().unwrap()?;
        Ok(Server {
            address,
            log,
            bell,
            thread: Some(thread),
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Waits until what happened is as `expected` says.
    pub(crate) fn until(&self, what: &str, expected: impl Fn(&Events) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            (&self.bell).write_all(b"?").unwrap();
            let events = self.log.get();
            if expected(&events) {
                return;
            }
            assert!(
                Instant::now() < end,
                "waited in vain until {what}: {events:?}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asks the core to stop.
    pub(crate) fn begin_stop(&self) {
        self.bell.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Stops the core and waits until it has.
    pub(crate) fn stop(&mut self) {
        let _ = self.bell.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}
