//! Flags and `QUEEN_*` environment, checked together, all faults reported at once, then frozen.
//! Read once by the main thread before any core starts; knows nothing but `limits`.

mod database;
mod host;
mod jwt;
mod load;
mod open_files;
mod pinning;
mod secret;
mod settings;

pub use database::{DatabaseChoice, DurableConfig, ServerSettings};
pub use host::Host;
pub use jwt::JwtConfig;
pub use load::ConfigStop;
pub use open_files::raise_open_files_limit;
pub use secret::{EncryptionKey, Secret};
pub use settings::{Kind, Setting, setting_names, settings};

use std::net::IpAddr;

/// Everything that can be set, within its bounds. It never changes after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Listener and connections.
    pub server: ServerConfig,
    /// The ephemeral class.
    pub ephemeral: EphemeralConfig,
    /// Tenants.
    pub tenancy: TenancyConfig,
    /// Which tokens hold; `None`: nobody is asked for one.
    pub jwt: Option<JwtConfig>,
    /// The database.
    pub durable: DurableConfig,
    /// Filter of the log, in the syntax of `tracing` (`QUEEN_LOG`).
    pub log_filter: String,
    /// What is allowed but probably not meant; to be logged at the start.
    pub warnings: Vec<String>,
}

/// Listener and connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// TCP port; 0: one that is free.
    pub port: u16,
    /// Address to listen on.
    pub bind_addr: IpAddr,
    /// The I/O driver.
    pub io: IoChoice,
    /// Shard cores, from 1 to [`SHARDS_MAX`](crate::limits::SHARDS_MAX).
    pub shards: u16,
    /// The CPU that each shard is pinned to, one entry per shard; `None`: wherever the kernel
    /// puts it.
    pub pins: Vec<Option<usize>>,
    /// The CPUs that the engine, and a cluster that it runs, may use, in ascending order; empty:
    /// they are not restricted.
    pub engine_cpus: Vec<usize>,
    /// What was decided about pinning and why; to be logged at the start.
    pub pinning: String,
    /// Microseconds that a shard polls after the last event before it sleeps; 0: not at all.
    pub spin_us: u64,
    /// Bytes of a request body, framing removed (413 above it).
    pub max_body_bytes: usize,
    /// Milliseconds from the first byte of a head to its end, and the longest pause inside a body.
    pub head_timeout_ms: u64,
    /// Milliseconds that an idle keep-alive connection lasts.
    pub idle_timeout_ms: u64,
    /// Connections of the whole process (503 above it).
    pub max_connections: usize,
}

/// Which I/O driver runs the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// io_uring where kernel and container allow it, else epoll.
    #[default]
    Auto,
    /// io_uring or no start.
    Uring,
    /// epoll.
    Epoll,
    /// glommio; only of a broker that was built with it.
    Glommio,
}

/// The ephemeral class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EphemeralConfig {
    /// Payload bytes of the whole broker, at least 1.
    pub max_bytes: u64,
    /// Payload bytes of a queue: default and ceiling.
    pub queue_max_bytes: u64,
    /// Messages of a queue: default and ceiling.
    pub queue_max_length: u64,
    /// Milliseconds of a lease where the queue does not say.
    pub lease_ms: u64,
    /// Deliveries of a message where the queue does not say.
    pub retry_limit: u32,
    /// Milliseconds after which an idle implicit queue is collected; `None`: never.
    pub implicit_idle_ms: Option<u64>,
    /// Milliseconds that an idle ring keeps messages that every group has passed; `None`: such
    /// messages are not kept at all.
    pub linger_ms: Option<u64>,
    /// Milliseconds between two looks at deadlines of messages.
    pub ttl_tick_ms: u64,
    /// Messages a second that a tenant may push; `None`: no limit.
    pub rate_per_s: Option<u64>,
    /// Messages that a tenant may push at once when `rate_per_s` is set.
    pub burst: u64,
    /// Whether a tenant without a grant is refused.
    pub require_grant: bool,
    /// Milliseconds that a waiting pop waits if it does not say.
    pub pop_default_timeout_ms: u64,
}

/// Tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenancyConfig {
    /// Whether requests name their tenant in the header `x-queen-tenant`.
    pub header: bool,
    /// Tenants of the broker; a later one is refused.
    pub max_tenants: usize,
}
