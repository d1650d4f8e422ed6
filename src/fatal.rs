//! Typed exits: what the broker cannot heal ends the process with a text that says what to do and a
//! status that a supervisor can tell apart. A panic is our bug and ends the whole process, never
//! one core.

use std::io::Write;
use std::net::SocketAddr;
use std::{backtrace, fmt, io, panic, process, thread};

/// Why the process ends. The statuses follow the BSD `sysexits` numbers where one fits.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// Settings that cannot be used; all faults at once.
    #[error(
        "the settings cannot be used:\n  - {}\n`queen --help` lists every setting with its bounds",
        .faults.join("\n  - ")
    )]
    Configuration {
        /// One text per fault.
        faults: Vec<String>,
    },
    /// Another process listens on the address.
    #[error(
        "cannot listen on {address}: it is in use{}; stop the other process or set PORT or \
         QUEEN_BIND_ADDR",
        .holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default()
    )]
    AddressTaken {
        /// The address asked for.
        address: SocketAddr,
        /// Who holds it, where /proc shows it.
        holder: Option<String>,
    },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address}: {fault}")]
    AddressUnusable {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        fault: std::io::Error,
    },
    /// The I/O driver that was asked for cannot be had.
    #[error("the I/O driver {driver} cannot be used: {fault}; QUEEN_IO=auto chooses one that can")]
    DriverRefused {
        /// `uring`, `epoll` or `glommio`.
        driver: &'static str,
        /// What the system said.
        fault: std::io::Error,
    },
    /// The private cluster cannot be used, and time does not heal it.
    #[error("the private PostgreSQL cluster cannot be used: {text}")]
    ClusterUnusable {
        /// What is wrong and what to do.
        text: String,
    },
    /// The PostgreSQL server is there but must not be used.
    #[error("the PostgreSQL server must not be used: {text}")]
    ServerUnusable {
        /// What is wrong and what to do.
        text: String,
    },
    /// A thread, a descriptor or a signal handler cannot be had.
    #[error("{what}: {fault}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        fault: std::io::Error,
    },
    /// The answers in flight did not leave in time while stopping.
    #[error("stopping took longer than {limit_ms} ms; what was in flight is lost")]
    DrainOverdue {
        /// The limit.
        limit_ms: u64,
    },
    /// A second signal came while stopping.
    #[error("stopped at once by a second signal; what was in flight is lost")]
    SecondSignal,
}

impl Fatal {
    /// The exit status of the process.
    pub const fn status(&self) -> i32 {
        match self {
            Fatal::Configuration { .. } => 78,
            Fatal::AddressTaken { .. } => 69,
            Fatal::AddressUnusable { .. } => 68,
            Fatal::DriverRefused { .. } => 72,
            Fatal::System { .. } => 71,
            Fatal::ClusterUnusable { .. } => 73,
            Fatal::ServerUnusable { .. } => 76,
            Fatal::DrainOverdue { .. } => 75,
            Fatal::SecondSignal => 130,
        }
    }

    /// Prints the reason to stderr and ends the process.
    pub fn exit(&self) -> ! {
        say(format_args!("{self}"));
        process::exit(self.status());
    }
}

/// Last words on stderr. Nobody may be there to read them: that must not change how the process
/// ends.
fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "queen: {text}");
}

/// From now on a panic on any thread prints what it knows and aborts the process: a broker that
/// lost one core would go on refusing or forgetting that core's queues.
pub fn abort_on_panic() {
    panic::set_hook(Box::new(|panic| {
        let current = thread::current();
        let name = current.name().unwrap_or("unnamed");
        let trace = backtrace::Backtrace::force_capture();
        say(format_args!(
            "this is a bug; thread {name}: {panic}\n{trace}"
        ));
        process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn every_reason() -> Vec<Fatal> {
        let address = SocketAddr::from(([127, 0, 0, 1], 6632));
        let fault = || io::Error::from(io::ErrorKind::PermissionDenied);
        vec![
            Fatal::Configuration {
                faults: vec!["PORT: not a number".into(), "QUEEN_IO: unknown".into()],
            },
            Fatal::AddressTaken {
                address,
                holder: Some("queen (process 7)".into()),
            },
            Fatal::AddressUnusable {
                address,
                fault: fault(),
            },
            Fatal::DriverRefused {
                driver: "uring",
                fault: fault(),
            },
            Fatal::System {
                what: "starting a shard thread",
                fault: fault(),
            },
            Fatal::ClusterUnusable {
                text: "another broker uses the folder".into(),
            },
            Fatal::ServerUnusable {
                text: "fsync is off".into(),
            },
            Fatal::DrainOverdue { limit_ms: 10_000 },
            Fatal::SecondSignal,
        ]
    }

    #[test]
    fn every_reason_has_its_own_status() {
        let mut statuses: Vec<i32> = every_reason().iter().map(Fatal::status).collect();
        statuses.sort_unstable();
        let count = statuses.len();
        statuses.dedup();
        assert_eq!(statuses.len(), count);
        assert!(statuses.iter().all(|status| (1..=255).contains(status)));
    }

    #[test]
    fn the_text_names_all_faults_and_the_holder() {
        let text: Vec<String> = every_reason().iter().map(Fatal::to_string).collect();
        assert!(text[0].contains("PORT: not a number") && text[0].contains("QUEEN_IO: unknown"));
        assert!(text[1].contains("127.0.0.1:6632") && text[1].contains("by queen (process 7)"));
    }
}
