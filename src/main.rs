//! The broker's process: read the settings, open the listener, start the cores, wait for a signal,
//! drain.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use queen::config::{self, Config, ConfigStop};
use queen::core_loop::{self, BrokerParts, CoreFault, CoreParts, ShardCore};
use queen::directory::{Bounds, Directory, RateLimit};
use queen::fatal::{self, Fatal};
use queen::limits;
use queen::model::Incarnation;
use queen::net::Settings;
use queen::net::listener::{self, ConnectionCount, ListenFault};
use queen::observe::{self, Observed};
use queen::runtime::{IoChoice, RuntimeFault};
use queen::shard::{Shard, ShardSettings};
use queen::shutdown::{DrainGuard, StopSignals};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Shard cores. Spreading over more than one needs the channels between them.
const SHARDS: u16 = 1;

fn main() -> ExitCode {
    fatal::abort_on_panic();
    let usable_cpus = core_loop::usable_cpus().unwrap_or_else(|fault| {
        let what = "asking which CPUs the process may use";
        Fatal::System { what, fault }.exit();
    });
    let variable = |name: &str| std::env::var(name).ok();
    let mut config = match Config::load(std::env::args_os(), variable, &usable_cpus) {
        Ok(config) => config,
        Err(ConfigStop::Message(text)) => {
            // Help that nobody reads any more is no failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(ConfigStop::Faults(faults)) => {
            Fatal::Configuration { faults }.exit();
        }
    };
    config.fit_open_files(config::raise_open_files_limit());
    match serve(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => fatal.exit(),
    }
}

fn serve(config: &Config) -> Result<(), Fatal> {
    observe::start_logs(&config.log_filter).map_err(|fault| Fatal::Configuration {
        faults: vec![fault],
    })?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    tracing::info!("{}", config.server.pinning);
    let system = |what| move |fault| Fatal::System { what, fault };
    let mut signals = StopSignals::register().map_err(system("taking over SIGTERM and SIGINT"))?;
    let socket = open_listener(SocketAddr::new(config.server.bind_addr, config.server.port))?;
    let address = socket
        .local_addr()
        .map_err(system("asking for the listener's address"))?;
    let (doorbell, stop) = UnixStream::pair().map_err(system("making the stop signal"))?;
    let parts = core_parts(config, socket, stop);
    let pin = config.server.pins[0];
    let core = thread::Builder::new()
        .name("shard-0".into())
        .spawn(move || {
            if let Some(Err(fault)) = pin.map(core_loop::pin_current_thread) {
                tracing::warn!(core = 0, "the shard runs unpinned: {fault}");
            }
            core_loop::run(parts)
        })
        .map_err(system("starting a shard thread"))?;
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "queen listens");
    // A core that cannot start ends by itself; its end rings for us.
    let watched = core_watch(core)?;
    let signal = signals.wait();
    tracing::info!(?signal, "stopping");
    let guard = DrainGuard::start(signals, Duration::from_millis(limits::SHUTDOWN_MS_MAX))
        .map_err(system("starting the watch over the drain"))?;
    drop(doorbell);
    watched.join().expect("the watch does not panic");
    guard.finish();
    tracing::info!("stopped");
    Ok(())
}

/// Ends the process when a core ends with a fault.
fn core_watch(
    core: thread::JoinHandle<Result<(), CoreFault>>,
) -> Result<thread::JoinHandle<()>, Fatal> {
    let watch = move || {
        if let Err(fault) = core.join().expect("a panic ends the process") {
            core_fatal(fault).exit();
        }
    };
    let builder = thread::Builder::new().name("core-watch".into());
    builder.spawn(watch).map_err(|fault| Fatal::System {
        what: "starting the watch over the cores",
        fault,
    })
}

fn core_fatal(fault: CoreFault) -> Fatal {
    match fault {
        CoreFault::Runtime(RuntimeFault::Uring(fault)) => Fatal::DriverRefused {
            driver: "uring",
            fault,
        },
        CoreFault::Runtime(RuntimeFault::Epoll(fault)) => Fatal::DriverRefused {
            driver: "epoll",
            fault,
        },
        CoreFault::Runtime(RuntimeFault::Start(fault)) => Fatal::System {
            what: "starting the runtime of a shard core",
            fault,
        },
        CoreFault::Descriptor(fault) => Fatal::System {
            what: "watching a descriptor",
            fault,
        },
    }
}

fn open_listener(address: SocketAddr) -> Result<TcpListener, Fatal> {
    let fatal = |fault| match fault {
        ListenFault::InUse { address, holder } => Fatal::AddressTaken {
            address,
            holder: holder.map(|holder| holder.to_string()),
        },
        ListenFault::Other { address, source } => Fatal::AddressUnusable {
            address,
            fault: source,
        },
    };
    listener::probe(address).map_err(fatal)?;
    listener::bind(address, limits::LISTEN_BACKLOG).map_err(fatal)
}

fn core_parts(config: &Config, socket: TcpListener, stop: UnixStream) -> CoreParts {
    let ephemeral = &config.ephemeral;
    let directory = Arc::new(Directory::new(Bounds {
        broker_bytes: ephemeral.max_bytes,
        queue_bytes: ephemeral.queue_max_bytes,
        queue_length: ephemeral.queue_max_length,
        lease_ms: ephemeral.lease_ms,
        retry_limit: ephemeral.retry_limit,
        rate: ephemeral.rate_per_s.map(|per_second| RateLimit {
            per_second,
            burst: ephemeral.burst,
        }),
        tenants: config.tenancy.max_tenants,
    }));
    let settings = ShardSettings {
        incarnation: Incarnation::random(),
        shards: SHARDS,
        ttl_tick_ms: ephemeral.ttl_tick_ms,
        linger_ms: ephemeral.linger_ms.unwrap_or(0),
        implicit_idle_ms: ephemeral.implicit_idle_ms.unwrap_or(0),
    };
    let shard = Shard::new(settings, Arc::clone(&directory));
    CoreParts {
        io: match config.server.io {
            config::IoChoice::Auto => IoChoice::Auto,
            config::IoChoice::Uring => IoChoice::Uring,
            config::IoChoice::Epoll => IoChoice::Epoll,
        },
        socket,
        stop,
        settings: Settings {
            max_body_bytes: config.server.max_body_bytes as u64,
            head_timeout_ms: config.server.head_timeout_ms,
            idle_timeout_ms: config.server.idle_timeout_ms,
            max_connections: config.server.max_connections,
        },
        count: ConnectionCount::new(),
        broker: BrokerParts {
            core: ShardCore::new(0, SHARDS, shard),
            directory,
            observed: Observed::new(usize::from(SHARDS)),
            number: 0,
            tenancy: config.tenancy.header,
            pop_default_timeout_ms: ephemeral.pop_default_timeout_ms,
        },
    }
}
