//! The one list of settings: name, flag, default, bounds, meaning.

use super::jwt::ALGORITHMS;
use crate::limits;

/// One setting. It can be given as an environment variable or as a flag; the flag wins. What may
/// hold a password has no flag: the arguments of a process are shown to every user of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// Another name for it, read where the first is not set.
    pub alias: Option<&'static str>,
    /// The long flag, without the dashes; `None`: the environment alone.
    pub flag: Option<&'static str>,
    /// What holds where nothing is given; empty: nothing.
    pub default: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What it means, with its unit.
    pub meaning: &'static str,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number, both bounds included.
    Number {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// Yes or no.
    Switch,
    /// An IP address.
    Address,
    /// A filter of the log.
    Filter,
    /// How shards are pinned to CPUs.
    Pin,
    /// Any text.
    Text,
    /// A file or folder.
    Path,
    /// Text that may hold a password: taken as it is, shown nowhere.
    Secret,
}

impl Setting {
    /// The bounds as the help and the fault texts say them.
    pub fn bounds(&self) -> String {
        match self.kind {
            Kind::Number { min, max } => format!("{min} to {max}"),
            Kind::Word(words) => words.join(", "),
            Kind::Switch => "1, 0, true, false, on, off, yes, no".to_owned(),
            Kind::Address => "an IPv4 or IPv6 address".to_owned(),
            Kind::Filter => "a level or a tracing filter such as queen=debug".to_owned(),
            Kind::Pin => "auto, off, or a list of CPUs such as 0,2-5".to_owned(),
            Kind::Text | Kind::Secret => "any text".to_owned(),
            Kind::Path => "a path".to_owned(),
        }
    }
}

const BYTES_MAX: u64 = 1 << 50;
const SECONDS_MAX: u64 = limits::TTL_MS_MAX / 1_000;

const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

const fn setting(
    name: &'static str,
    flag: &'static str,
    default: &'static str,
    kind: Kind,
    meaning: &'static str,
) -> Setting {
    Setting {
        name,
        alias: None,
        flag: Some(flag),
        default,
        kind,
        meaning,
    }
}

const fn secret(name: &'static str, meaning: &'static str) -> Setting {
    Setting {
        name,
        alias: None,
        flag: None,
        default: "",
        kind: Kind::Secret,
        meaning,
    }
}

static SETTINGS: [Setting; 54] = [
    setting(
        "PORT",
        "port",
        "6632",
        number(0, 65_535),
        "TCP port to listen on; 0 takes one that is free",
    ),
    setting(
        "QUEEN_BIND_ADDR",
        "bind-addr",
        "0.0.0.0",
        Kind::Address,
        "Address to listen on",
    ),
    setting(
        "QUEEN_IO",
        "io",
        "auto",
        Kind::Word(&["auto", "uring", "epoll", "glommio"]),
        "I/O driver; auto takes io_uring where kernel and container allow it, else epoll; glommio \
         is there if the broker was built with the feature of that name",
    ),
    setting(
        "QUEEN_SHARDS",
        "shards",
        "",
        number(1, limits::SHARDS_MAX as u64),
        "Shard cores; not set: one less than the CPUs that the process may use, two less where a \
         private cluster runs and there are at least 4, at least 1",
    ),
    setting(
        "QUEEN_PIN",
        "pin",
        "auto",
        Kind::Pin,
        "CPUs that the shards are pinned to, shard i to the i-th of the list, and the engine to \
         what the list has left; auto pins to the first usable ones if one more stays free",
    ),
    setting(
        "QUEEN_SPIN_US",
        "spin-us",
        "",
        number(0, limits::SPIN_US_MAX),
        "Microseconds that a shard polls after the last event before it sleeps; not set: 50 where \
         shards are pinned, else 0",
    ),
    setting(
        "QUEEN_MAX_BODY_BYTES",
        "max-body-bytes",
        "67108864",
        number(1, 1 << 30),
        "Bytes of a request body; a larger one is refused with 413",
    ),
    setting(
        "QUEEN_HEAD_TIMEOUT_MS",
        "head-timeout-ms",
        "10000",
        number(1, 3_600_000),
        "Milliseconds from the first byte of a request head to its end, and the longest pause \
         inside a body; then 408",
    ),
    setting(
        "QUEEN_IDLE_TIMEOUT_MS",
        "idle-timeout-ms",
        "75000",
        number(1, 86_400_000),
        "Milliseconds that an idle keep-alive connection lasts",
    ),
    setting(
        "QUEEN_MAX_CONNECTIONS",
        "max-connections",
        "65536",
        number(1, 4_194_304),
        "Connections of the whole process, lowered to what the open-files limit allows; \
         one more is answered with 503",
    ),
    setting(
        "QUEEN_TTL_TICK_MS",
        "ttl-tick-ms",
        "100",
        number(1, 60_000),
        "Milliseconds between two looks at the deadlines of messages",
    ),
    setting(
        "QUEEN_EPHEMERAL_LINGER_S",
        "ephemeral-linger-s",
        "60",
        number(0, SECONDS_MAX),
        "Seconds that an idle partition keeps messages that every group has passed, for a group \
         that appears later; 0 keeps none",
    ),
    setting(
        "QUEEN_EPHEMERAL_MAX_BYTES",
        "ephemeral-max-bytes",
        "268435456",
        number(0, BYTES_MAX),
        "Payload bytes of the whole broker; 0 becomes 1: only a payload of one byte fits",
    ),
    setting(
        "QUEEN_EPHEMERAL_QUEUE_MAX_BYTES",
        "ephemeral-queue-max-bytes",
        "16777216",
        number(1, BYTES_MAX),
        "Payload bytes of a queue, default and ceiling",
    ),
    setting(
        "QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH",
        "ephemeral-queue-max-length",
        "10000",
        number(1, 1 << 32),
        "Messages of a queue, default and ceiling",
    ),
    setting(
        "QUEEN_EPHEMERAL_LEASE_S",
        "ephemeral-lease-s",
        "30",
        number(1, limits::LEASE_MS_MAX / 1_000),
        "Seconds of a lease where the queue does not say",
    ),
    setting(
        "QUEEN_EPHEMERAL_RETRY_LIMIT",
        "ephemeral-retry-limit",
        "5",
        number(1, limits::RETRY_LIMIT_MAX),
        "Deliveries of a message to a group where the queue does not say",
    ),
    setting(
        "QUEEN_EPHEMERAL_IMPLICIT_IDLE_S",
        "ephemeral-implicit-idle-s",
        "300",
        number(0, SECONDS_MAX),
        "Seconds after which an empty, unused queue that nobody declared is collected; 0: never",
    ),
    setting(
        "QUEEN_EPHEMERAL_RATE",
        "ephemeral-rate",
        "",
        number(1, BYTES_MAX),
        "Messages a second that one tenant may push; not set: no limit",
    ),
    setting(
        "QUEEN_EPHEMERAL_BURST",
        "ephemeral-burst",
        "10000",
        number(1, BYTES_MAX),
        "Messages that one tenant may push at once where a rate is set",
    ),
    Setting {
        name: "POP_DEFAULT_TIMEOUT_MS",
        alias: Some("DEFAULT_TIMEOUT"),
        flag: Some("pop-default-timeout-ms"),
        default: "30000",
        kind: number(0, limits::POP_WAIT_MS_MAX),
        meaning: "Milliseconds that a waiting pop waits if it does not say",
    },
    setting(
        "QUEEN_KV_MAX_TENANTS",
        "kv-max-tenants",
        "10000",
        number(1, limits::TENANTS_MAX as u64),
        "Tenants of the broker; a later one is refused with 503",
    ),
    setting(
        "QUEEN_TENANCY_HEADER",
        "tenancy-header",
        "off",
        Kind::Switch,
        "Whether every request names its tenant in the header x-queen-tenant",
    ),
    setting(
        "QUEEN_EPHEMERAL_REQUIRE_GRANT",
        "ephemeral-require-grant",
        "",
        Kind::Switch,
        "Whether a tenant without a grant is refused; not set: as QUEEN_TENANCY_HEADER says where \
         there is a database, else off",
    ),
    setting(
        "JWT_ENABLED",
        "jwt-enabled",
        "off",
        Kind::Switch,
        "Whether callers are asked for a token, and may do what its roles grant",
    ),
    setting(
        "JWT_ALGORITHM",
        "jwt-algorithm",
        "hs256",
        Kind::Word(&ALGORITHMS),
        "The one way tokens may be signed",
    ),
    secret(
        "JWT_SECRET",
        "Secret that tokens of the HS algorithms are signed with, of at least as many bytes as the hash \
         has",
    ),
    setting(
        "JWT_PUBLIC_KEY",
        "jwt-public-key",
        "",
        Kind::Text,
        "Public key, as PEM, of what tokens of the other algorithms are signed with; line ends may be \
         given as \\n",
    ),
    setting(
        "JWT_ISSUER",
        "jwt-issuer",
        "",
        Kind::Text,
        "Issuer (iss) that a token must name; not set: any or none",
    ),
    setting(
        "JWT_AUDIENCE",
        "jwt-audience",
        "",
        Kind::Text,
        "Audience (aud) that a token must name; not set: any or none",
    ),
    setting(
        "JWT_CLOCK_SKEW",
        "jwt-clock-skew",
        "30",
        number(0, 86_400),
        "Seconds by which the clocks of who signs and of the broker may differ (exp, nbf)",
    ),
    setting(
        "JWT_SKIP_PATHS",
        "jwt-skip-paths",
        "",
        Kind::Text,
        "Paths for which nobody is asked for a token, with commas between them; health and metrics \
         are open anyway",
    ),
    setting(
        "JWT_ROLES_CLAIM",
        "jwt-roles-claim",
        "role",
        Kind::Text,
        "Claim with a role, or a list of roles",
    ),
    setting(
        "JWT_ROLES_ARRAY_CLAIM",
        "jwt-roles-array-claim",
        "roles",
        Kind::Text,
        "Another claim with a role, or a list of roles",
    ),
    setting(
        "QUEEN_DURABLE",
        "durable",
        "on",
        Kind::Switch,
        "Whether there is a database: the server that is named, else a private cluster; off: the \
         ephemeral class alone, whatever else is set",
    ),
    secret(
        "DATABASE_URL",
        "PostgreSQL server as a URL, postgres://user:password@host:port/database; it wins over PG_*",
    ),
    setting(
        "PG_HOST",
        "pg-host",
        "",
        Kind::Text,
        "Host of the PostgreSQL server, or the folder of its unix socket; any of PG_HOST, PG_PORT, \
         PG_USER, PG_PASSWORD and PG_DATABASE names a server; not set: localhost",
    ),
    setting(
        "PG_PORT",
        "pg-port",
        "",
        number(1, 65_535),
        "Port of the PostgreSQL server; not set: 5432",
    ),
    setting(
        "PG_USER",
        "pg-user",
        "",
        Kind::Text,
        "User to log in as; not set: postgres",
    ),
    secret("PG_PASSWORD", "Password to log in with"),
    setting(
        "PG_DATABASE",
        "pg-database",
        "",
        Kind::Text,
        "Database to use; not set: postgres",
    ),
    setting(
        "PG_SSLMODE",
        "pg-sslmode",
        "prefer",
        Kind::Word(&[
            "disable",
            "allow",
            "prefer",
            "require",
            "verify-ca",
            "verify-full",
        ]),
        "How far TLS to the server is insisted on, as libpq means it",
    ),
    setting(
        "PG_SSLROOTCERT",
        "pg-sslrootcert",
        "",
        Kind::Path,
        "File with the certificates that the server's is verified by",
    ),
    setting(
        "QUEEN_PG_BIN",
        "pg-bin",
        "",
        Kind::Path,
        "Folder of initdb and postgres for the private cluster; not set: searched for",
    ),
    setting(
        "QUEEN_DATA_DIR",
        "data-dir",
        "",
        Kind::Path,
        "Folder of the private cluster; not set: ./queen-data, as root /var/lib/queen",
    ),
    Setting {
        alias: Some("FILE_BUFFER_DIR"),
        ..setting(
            "QUEEN_SPOOL_DIR",
            "spool-dir",
            "",
            Kind::Path,
            "Folder for pushes that are accepted while PostgreSQL does not answer; not set: spool in the \
             folder of QUEEN_DATA_DIR",
        )
    },
    setting(
        "QUEEN_SPOOL_MAX_BYTES",
        "spool-max-bytes",
        "1073741824",
        number(1_048_576, 1 << 42),
        "Bytes that folder may hold; then pushes are refused with 503",
    ),
    secret(
        "QUEEN_ENCRYPTION_KEY",
        "Key that payloads of durable queues with encryptionEnabled are stored encrypted with: 64 \
         hexadecimal digits; not set: they are stored as plain text",
    ),
    setting(
        "RETENTION_INTERVAL",
        "retention-interval",
        "5000",
        number(10, limits::RETENTION_INTERVAL_MS_MAX),
        "Milliseconds between two rounds in which what is too old is removed or given up",
    ),
    setting(
        "RETENTION_BATCH_SIZE",
        "retention-batch-size",
        "1000",
        number(1, limits::RETENTION_STEP_ROWS_MAX as u64),
        "Rows that one step of such a round removes or gives up",
    ),
    setting(
        "PARTITION_CLEANUP_DAYS",
        "partition-cleanup-days",
        "30",
        number(0, limits::PARTITION_CLEANUP_DAYS_MAX),
        "Days for which a durable partition is unused that is removed once retention has left \
         nothing but its newest segment; 0: never",
    ),
    setting(
        "DEFAULT_SUBSCRIPTION_MODE",
        "default-subscription-mode",
        "new",
        Kind::Word(&["new", "new-only", "all"]),
        "Where a group that is new to a durable queue starts if its pop does not say: new and \
         new-only behind the newest message, all at the oldest",
    ),
    setting(
        "QUEEN_ALLOW_FSYNC_OFF",
        "allow-fsync-off",
        "off",
        Kind::Switch,
        "Whether a PostgreSQL server with fsync off is used, which may lose what it has confirmed",
    ),
    setting("QUEEN_LOG", "log", "info", Kind::Filter, "What is logged"),
];

/// All settings, in the order of the help.
pub fn settings() -> &'static [Setting] {
    &SETTINGS
}

/// Names of all settings, aliases included.
pub fn setting_names() -> Vec<&'static str> {
    settings()
        .iter()
        .flat_map(|setting| std::iter::once(setting.name).chain(setting.alias))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_the_name_in_lower_case_and_a_secret_has_none() {
        for setting in settings() {
            let short = setting
                .name
                .strip_prefix("QUEEN_")
                .unwrap_or(setting.name)
                .to_lowercase()
                .replace('_', "-");
            match setting.kind {
                Kind::Secret => assert_eq!(setting.flag, None, "{} is seen in ps", setting.name),
                _ => assert_eq!(setting.flag, Some(short.as_str())),
            }
        }
    }

    #[test]
    fn no_name_twice() {
        let mut names = setting_names();
        assert!(names.contains(&"DEFAULT_TIMEOUT"));
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
