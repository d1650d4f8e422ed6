//! The broker's process: read the settings, open the listener, start the cores, wait for a signal,
//! drain.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use queen::auth::{TokenSettings, TokenVerifier};
use queen::channel::{self, Port};
use queen::config::{self, Config, ConfigStop, DatabaseChoice, Host, JwtConfig};
use queen::core_loop::{
    self, Bells, BrokerParts, CoreFault, CoreParts, EngineLine, EngineThread, ReaderLine,
    ReaderThread, ShardCore,
};
use queen::directory::{Bounds, Directory, RateLimit};
use queen::engine::Status;
use queen::fatal::{self, Fatal};
use queen::limits;
use queen::model::Incarnation;
use queen::net::Settings;
use queen::net::listener::{self, ConnectionCount, ListenFault};
use queen::observe::{self, Observed};
use queen::postgres::{ProgramSearch, find_programs};
use queen::runtime::{Bell, IoChoice, RuntimeFault};
use queen::shard::{Shard, ShardSettings};
use queen::shutdown::{DrainGuard, StopSignals, WaitEnd};

mod engine_start;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    fatal::abort_on_panic();
    let usable_cpus = core_loop::usable_cpus().unwrap_or_else(|fault| {
        let what = "asking which CPUs the process may use";
        Fatal::System { what, fault }.exit();
    });
    let host = Host {
        usable_cpus: &usable_cpus,
        finds_postgres: &finds_postgres,
    };
    let mut config = match Config::load(std::env::args_os(), |name| std::env::var_os(name), &host) {
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

/// Whether PostgreSQL's programs are there, for a private cluster.
fn finds_postgres(folder: Option<&Path>) -> Result<bool, String> {
    let search = find_programs(folder).map_err(|fault| fault.to_string())?;
    Ok(matches!(search, ProgramSearch::Found(_)))
}

fn serve(config: &Config) -> Result<(), Fatal> {
    observe::start_logs(&config.log_filter).map_err(|fault| Fatal::Configuration {
        faults: vec![fault],
    })?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    tracing::info!("{}", config.server.pinning);
    match &config.jwt {
        Some(jwt) => {
            tracing::info!(algorithm = ?jwt.algorithm, "every request is asked for a token")
        }
        None => tracing::info!("nobody is asked for a token (JWT_ENABLED)"),
    }
    let mut signals = StopSignals::register().map_err(system("taking over SIGTERM and SIGINT"))?;
    let address = SocketAddr::new(config.server.bind_addr, config.server.port);
    // Before anything is started that the other broker on the address may use.
    listener::probe(address).map_err(listen_fatal)?;
    let mut shared = Shared::new(config).map_err(system("making the doorbells"))?;
    let engine = engine_start::start(config, &mut shared)?;
    let ready = match &engine {
        Some((engine, _)) => engine_start::wait(engine, config, &mut signals),
        None => Ok(true),
    };
    let served = match ready {
        Ok(true) => serve_clients(config, shared, signals, engine.as_ref()),
        Ok(false) => drain_guard(signals),
        Err(fatal) => Err(fatal),
    };
    // Whatever has ended the broker: a server of its own does not stay behind.
    if let Some((engine, reader)) = engine {
        reader.finish();
        engine.finish();
    }
    served?.finish();
    tracing::info!("stopped");
    Ok(())
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Fatal {
    move |fault| Fatal::System { what, fault }
}

/// Serves clients until a signal comes and everything in flight is answered.
fn serve_clients(
    config: &Config,
    shared: Shared,
    mut signals: StopSignals,
    engine: Option<&(EngineThread, ReaderThread)>,
) -> Result<DrainGuard, Fatal> {
    let address = SocketAddr::new(config.server.bind_addr, config.server.port);
    let (address, sockets) = open_listeners(address, config.server.shards)?;
    let (stop_bell, stop) = UnixStream::pair().map_err(system("making the stop signal"))?;
    let parts = core_parts(config, shared, sockets, &stop);
    let (ended, ends) = mpsc::channel();
    for part in parts.map_err(system("making the stop signal"))? {
        let ended = ended.clone();
        thread::Builder::new()
            .name(format!("shard-{}", part.broker.number))
            .spawn(move || ended.send(core_loop::run(part)))
            .map_err(system("starting a shard thread"))?;
    }
    drop(ended);
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "queen listens");
    // A core that cannot start ends by itself, and the process with it.
    let watched = core_watch(ends, signals.wait_end())?;
    let Some(signal) = signals.wait() else {
        let fault = watched.join().expect("the watch does not panic");
        return Err(core_fatal(fault.expect("only a fault ends the wait")));
    };
    tracing::info!(?signal, "stopping");
    let guard = drain_guard(signals)?;
    if let Some((engine, reader)) = engine {
        engine.order_stop();
        reader.order_stop();
    }
    drop((stop_bell, stop));
    match watched.join().expect("the watch does not panic") {
        Some(fault) => Err(core_fatal(fault)),
        None => Ok(guard),
    }
}

/// From now on the broker ends in time, and a second signal ends it at once.
fn drain_guard(signals: StopSignals) -> Result<DrainGuard, Fatal> {
    DrainGuard::start(signals, Duration::from_millis(limits::SHUTDOWN_MS_MAX))
        .map_err(system("starting the watch over the drain"))
}

/// Ends the wait for a signal when a core ends with a fault, and says which; ends itself with the
/// last core.
fn core_watch(
    ends: Receiver<Result<(), CoreFault>>,
    wait: WaitEnd,
) -> Result<thread::JoinHandle<Option<CoreFault>>, Fatal> {
    let watch = move || {
        let fault = ends.into_iter().find_map(Result::err)?;
        wait.end();
        Some(fault)
    };
    let builder = thread::Builder::new().name("core-watch".into());
    builder
        .spawn(watch)
        .map_err(system("starting the watch over the cores"))
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
        CoreFault::Runtime(RuntimeFault::Glommio(fault)) => Fatal::DriverRefused {
            driver: "glommio",
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

fn listen_fatal(fault: ListenFault) -> Fatal {
    match fault {
        ListenFault::InUse { address, holder } => Fatal::AddressTaken {
            address,
            holder: holder.map(|holder| holder.to_string()),
        },
        ListenFault::Other { address, source } => Fatal::AddressUnusable {
            address,
            fault: source,
        },
    }
}

/// A listening socket for each core, all on one address.
fn open_listeners(
    address: SocketAddr,
    shards: u16,
) -> Result<(SocketAddr, Vec<TcpListener>), Fatal> {
    listener::probe(address).map_err(listen_fatal)?;
    let first = listener::bind(address, limits::LISTEN_BACKLOG).map_err(listen_fatal)?;
    // Port 0 is chosen by the first.
    let address = first
        .local_addr()
        .map_err(system("asking for the listener's address"))?;
    let mut sockets = vec![first];
    for _ in 1..shards {
        sockets.push(listener::bind(address, limits::LISTEN_BACKLOG).map_err(listen_fatal)?);
    }
    Ok((address, sockets))
}

fn bounds(config: &Config) -> Bounds {
    let ephemeral = &config.ephemeral;
    Bounds {
        broker_bytes: ephemeral.max_bytes,
        queue_bytes: ephemeral.queue_max_bytes,
        queue_length: ephemeral.queue_max_length,
        lease_ms: ephemeral.lease_ms,
        retry_limit: ephemeral.retry_limit,
        rate: ephemeral.rate_per_s.map(|per_second| RateLimit {
            per_second,
            burst: ephemeral.burst,
        }),
        require_grant: ephemeral.require_grant,
        tenants: config.tenancy.max_tenants,
        shards: config.server.shards,
    }
}

/// What all cores share, and their ends of what connects them.
struct Shared {
    directory: Arc<Directory>,
    incarnation: Incarnation,
    /// One for each shard core, and where there is a database one for the engine and one for the reader.
    ports: Vec<Port>,
    bells: Bells,
    doorbells: Vec<UnixStream>,
    engine: Arc<Status>,
    engine_line: Option<EngineLine>,
    reader_line: Option<ReaderLine>,
    /// Whether shard cores run.
    serving: Arc<AtomicBool>,
}

impl Shared {
    fn new(config: &Config) -> io::Result<Shared> {
        let shards = config.server.shards;
        let (cores, engine) = match &config.durable.choice {
            DatabaseChoice::Off { why } => (shards, Status::off(why)),
            DatabaseChoice::Server(_) | DatabaseChoice::Private => (shards + 2, Status::starting()),
        };
        let pairs: io::Result<Vec<_>> = (0..shards).map(|_| Bell::pair()).collect();
        let (bells, doorbells): (Vec<_>, Vec<_>) = pairs?.into_iter().unzip();
        Ok(Shared {
            directory: Arc::new(Directory::new(bounds(config))),
            incarnation: Incarnation::random(),
            ports: channel::mesh(cores, limits::REQUEST_LANE_SLOTS, limits::REPLY_LANE_SLOTS),
            bells: Bells::new(bells),
            doorbells,
            engine: Arc::new(engine),
            engine_line: None,
            reader_line: None,
            serving: Arc::new(AtomicBool::new(false)),
        })
    }
}

fn token_verifier(jwt: &JwtConfig) -> TokenVerifier {
    TokenVerifier::new(TokenSettings {
        algorithm: jwt.algorithm,
        key: jwt.key(),
        issuer: jwt.issuer.clone(),
        audience: jwt.audience.clone(),
        clock_skew: jwt.clock_skew,
        skip_paths: jwt.skip_paths.clone(),
        role_claims: jwt.role_claims.clone(),
    })
}

/// What each core is made with.
fn core_parts(
    config: &Config,
    shared: Shared,
    sockets: Vec<TcpListener>,
    stop: &UnixStream,
) -> io::Result<Vec<CoreParts>> {
    let shards = config.server.shards;
    let observed = Observed::new(usize::from(shards));
    let count = ConnectionCount::new();
    let draining = Arc::new(AtomicUsize::new(usize::from(shards)));
    let tokens = config.jwt.as_ref().map(|jwt| Arc::new(token_verifier(jwt)));
    shared.serving.store(true, Ordering::SeqCst);
    let cores = shared.ports.into_iter().zip(sockets).zip(shared.doorbells);
    let parts = cores.map(|((port, socket), doorbell)| {
        let number = port.core();
        let settings = ShardSettings {
            incarnation: shared.incarnation,
            shard: number,
            shards,
            ttl_tick_ms: config.ephemeral.ttl_tick_ms,
            linger_ms: config.ephemeral.linger_ms.unwrap_or(0),
            implicit_idle_ms: config.ephemeral.implicit_idle_ms.unwrap_or(0),
        };
        let directory = &shared.directory;
        let shard = Shard::new(settings, Arc::clone(directory));
        let core = ShardCore::new(port, shard, Arc::clone(directory));
        Ok(CoreParts {
            io: match config.server.io {
                config::IoChoice::Auto => IoChoice::Auto,
                config::IoChoice::Uring => IoChoice::Uring,
                config::IoChoice::Epoll => IoChoice::Epoll,
                config::IoChoice::Glommio => IoChoice::Glommio,
            },
            pin: config.server.pins[usize::from(number)],
            socket,
            stop: stop.try_clone()?,
            settings: Settings {
                max_body_bytes: config.server.max_body_bytes as u64,
                head_timeout_ms: config.server.head_timeout_ms,
                idle_timeout_ms: config.server.idle_timeout_ms,
                max_connections: config.server.max_connections,
            },
            count: count.clone(),
            broker: BrokerParts {
                core: match &shared.engine_line {
                    Some(line) => core.with_engine(line.clone()),
                    None => core,
                },
                directory: Arc::clone(directory),
                engine: Arc::clone(&shared.engine),
                reader: shared.reader_line.clone(),
                observed: observed.clone(),
                number,
                bells: shared.bells.clone(),
                tenancy: config.tenancy.header,
                tokens: tokens.clone(),
                pop_default_timeout_ms: config.ephemeral.pop_default_timeout_ms,
                spin_us: config.server.spin_us,
            },
            doorbell,
            draining: Arc::clone(&draining),
        })
    });
    parts.collect()
}
