//! Which database the broker uses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::host::Host;
use super::load::Given;
use super::secret::{EncryptionKey, Secret};

/// The database and what stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableConfig {
    /// Which database.
    pub choice: DatabaseChoice,
    /// Folder for the private cluster and whatever else the broker keeps (`QUEEN_DATA_DIR`);
    /// `None`: where it lies by default.
    pub data_folder: Option<PathBuf>,
    /// Folder of PostgreSQL's programs (`QUEEN_PG_BIN`); `None`: they are searched for.
    pub programs_folder: Option<PathBuf>,
    /// Folder of the spool (`QUEEN_SPOOL_DIR`); `None`: `spool` in the data folder.
    pub spool_folder: Option<PathBuf>,
    /// Bytes that it may hold (`QUEEN_SPOOL_MAX_BYTES`).
    pub spool_bytes_max: u64,
    /// Time between two rounds of retention (`RETENTION_INTERVAL`).
    pub retention_interval: Duration,
    /// Rows of one step of it (`RETENTION_BATCH_SIZE`).
    pub retention_rows: i32,
    /// For how long a partition is unused that is removed once it is empty
    /// (`PARTITION_CLEANUP_DAYS`); `None`: it is not.
    pub partition_idle: Option<Duration>,
    /// The key that payloads are encrypted with (`QUEEN_ENCRYPTION_KEY`); `None`: they are not.
    pub encryption_key: Option<EncryptionKey>,
    /// Whether a group that does not say starts at the oldest message (`DEFAULT_SUBSCRIPTION_MODE`).
    pub starts_at_oldest: bool,
    /// Whether a server that may lose what it has confirmed (`fsync=off`) is accepted.
    pub allow_fsync_off: bool,
}

/// Which database the broker uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseChoice {
    /// None: the ephemeral class alone.
    Off {
        /// Why, and what to install or set to have one.
        why: String,
    },
    /// A server that is there.
    Server(ServerSettings),
    /// A private cluster, which the broker runs itself.
    Private,
}

/// Where the server is and how to log in, as given. With a URL the rest is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// `DATABASE_URL`.
    pub database_url: Option<Secret>,
    /// `PG_HOST`.
    pub host: Option<String>,
    /// `PG_PORT`.
    pub port: Option<String>,
    /// `PG_USER`.
    pub user: Option<String>,
    /// `PG_PASSWORD`.
    pub password: Option<Secret>,
    /// `PG_DATABASE`.
    pub database: Option<String>,
    /// `PG_SSLMODE`.
    pub ssl_mode: Option<String>,
    /// `PG_SSLROOTCERT`.
    pub ssl_root_cert: Option<String>,
}

/// Any of these names a server.
const NAMING: [&str; 5] = [
    "PG_HOST",
    "PG_PORT",
    "PG_USER",
    "PG_PASSWORD",
    "PG_DATABASE",
];

/// These say how to talk to it.
const TLS: [&str; 2] = ["PG_SSLMODE", "PG_SSLROOTCERT"];

const HOW_TO_NAME: &str = "DATABASE_URL or PG_HOST names a server";

impl Given {
    /// The database, and whether tenants need a grant.
    pub(super) fn durable(&mut self, host: &Host<'_>, tenancy: bool) -> (DurableConfig, bool) {
        let programs_folder = self.path("QUEEN_PG_BIN");
        let choice = self.database_choice(host, programs_folder.as_deref());
        let require_grant = self.require_grant(choice.as_ref(), tenancy);
        let durable = DurableConfig {
            // Where a fault was noted the choice is not used.
            choice: choice.unwrap_or(DatabaseChoice::Private),
            data_folder: self.path("QUEEN_DATA_DIR"),
            programs_folder,
            spool_folder: self.path("QUEEN_SPOOL_DIR"),
            spool_bytes_max: self.number("QUEEN_SPOOL_MAX_BYTES"),
            retention_interval: Duration::from_millis(self.number("RETENTION_INTERVAL")),
            retention_rows: i32::try_from(self.number("RETENTION_BATCH_SIZE"))
                .unwrap_or(1)
                .max(1),
            partition_idle: match self.number("PARTITION_CLEANUP_DAYS") {
                0 => None,
                days => Some(Duration::from_secs(days * 24 * 60 * 60)),
            },
            encryption_key: self.encryption_key(),
            starts_at_oldest: self.word("DEFAULT_SUBSCRIPTION_MODE") == "all",
            allow_fsync_off: self.switch("QUEEN_ALLOW_FSYNC_OFF"),
        };
        (durable, require_grant)
    }

    /// Whoever has given a key wants it used: one that cannot be is a fault, and is not shown either.
    fn encryption_key(&mut self) -> Option<EncryptionKey> {
        let text = self.secret("QUEEN_ENCRYPTION_KEY")?;
        let key = EncryptionKey::parse(text.expose().trim());
        if key.is_none() {
            let text = "QUEEN_ENCRYPTION_KEY must be 64 hexadecimal digits (32 bytes)";
            self.faults.push(text.to_owned());
        }
        key
    }

    /// `None` where a fault was noted.
    fn database_choice(
        &mut self,
        host: &Host<'_>,
        programs_folder: Option<&Path>,
    ) -> Option<DatabaseChoice> {
        let durable = self.switch_if_given("QUEEN_DURABLE");
        let server = self.server_settings();
        let tls = self.given_among(&TLS);
        if durable == Some(false) {
            self.ignored("QUEEN_DURABLE is off", &["DATABASE_URL"], &NAMING, &TLS);
            return Some(DatabaseChoice::Off {
                why: format!(
                    "QUEEN_DURABLE is off; on, the broker runs a PostgreSQL of its own, and \
                     {HOW_TO_NAME}"
                ),
            });
        }
        if let Some(server) = server {
            if server.database_url.is_some() {
                self.ignored("DATABASE_URL holds", &[], &NAMING, &TLS);
            }
            return Some(DatabaseChoice::Server(server));
        }
        if !tls.is_empty() {
            self.ignored("no server is named", &[], &[], &TLS);
        }
        match (host.finds_postgres)(programs_folder) {
            Ok(true) => Some(DatabaseChoice::Private),
            Ok(false) => Some(DatabaseChoice::Off {
                why: format!(
                    "PostgreSQL's programs initdb and postgres were not found; install PostgreSQL \
                     (package postgresql or postgresql-server), or say with QUEEN_PG_BIN which \
                     folder they are in; {HOW_TO_NAME}"
                ),
            }),
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    fn ignored(
        &mut self,
        why: &str,
        url: &[&'static str],
        naming: &[&'static str],
        tls: &[&'static str],
    ) {
        let names: Vec<&str> = [url, naming, tls]
            .iter()
            .flat_map(|names| self.given_among(names))
            .collect();
        match names.as_slice() {
            [] => {}
            [name] => self.warnings.push(format!("{why}: {name} is ignored")),
            names => self
                .warnings
                .push(format!("{why}: {} are ignored", names.join(", "))),
        }
    }

    fn given_among(&self, names: &[&'static str]) -> Vec<&'static str> {
        let given = names.iter().filter(|name| self.is_given(name));
        given.copied().collect()
    }

    /// The server, if one is named.
    fn server_settings(&mut self) -> Option<ServerSettings> {
        // Every value is judged, also one that is ignored.
        let settings = ServerSettings {
            database_url: None,
            host: self.text_if_given("PG_HOST"),
            port: self.number_if_given("PG_PORT").map(|port| port.to_string()),
            user: self.text_if_given("PG_USER"),
            password: self.secret("PG_PASSWORD"),
            database: self.text_if_given("PG_DATABASE"),
            ssl_mode: self.is_given("PG_SSLMODE").then(|| self.word("PG_SSLMODE")),
            ssl_root_cert: self.text_if_given("PG_SSLROOTCERT"),
        };
        if let Some(url) = self.secret("DATABASE_URL") {
            return Some(ServerSettings {
                database_url: Some(url),
                ..ServerSettings::default()
            });
        }
        let named = !self.given_among(&NAMING).is_empty();
        named.then_some(settings)
    }

    /// Grants stand in the database: without one nobody can have any.
    fn require_grant(&mut self, choice: Option<&DatabaseChoice>, tenancy: bool) -> bool {
        const NAME: &str = "QUEEN_EPHEMERAL_REQUIRE_GRANT";
        let asked = self.switch_if_given(NAME);
        match (asked, choice) {
            (Some(true), Some(DatabaseChoice::Off { why })) => {
                self.faults.push(format!(
                    "{} is on, but there is no database that a grant could stand in, and so no \
                     tenant would be served: {why}",
                    self.source(NAME)
                ));
                true
            }
            (Some(asked), _) => asked,
            (None, Some(DatabaseChoice::Off { .. }) | None) => false,
            (None, Some(_)) => tenancy,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::config::{Config, ConfigStop};

    type Environment<'a> = &'a [(&'a str, &'a str)];

    fn load_on(
        environment: Environment<'_>,
        usable_cpus: &[usize],
        finds_postgres: &dyn Fn(Option<&Path>) -> Result<bool, String>,
    ) -> Result<Config, ConfigStop> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).into())
        };
        let host = Host {
            usable_cpus,
            finds_postgres,
        };
        Config::load(["queen"], variable, &host)
    }

    fn load(environment: Environment<'_>, found: bool) -> Config {
        load_on(environment, &[0, 1, 2, 3], &|_| Ok(found)).expect("settings without a fault")
    }

    fn faults(environment: Environment<'_>, found: bool) -> Vec<String> {
        match load_on(environment, &[0, 1, 2, 3], &|_| Ok(found)) {
            Err(ConfigStop::Faults(faults)) => faults,
            other => panic!("{other:?}"),
        }
    }

    fn why(config: &Config) -> &str {
        match &config.durable.choice {
            DatabaseChoice::Off { why } => why,
            other => panic!("{other:?}"),
        }
    }

    fn server(config: Config) -> ServerSettings {
        match config.durable.choice {
            DatabaseChoice::Server(server) => server,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_server_it_is_a_private_cluster_if_there_are_programs() {
        let config = load(&[], true);
        assert_eq!(config.durable.choice, DatabaseChoice::Private);
        assert_eq!(config.durable.data_folder, None);
        assert!(!config.durable.allow_fsync_off);
        assert!(config.warnings.is_empty());
        let config = load(&[], false);
        for word in ["install", "QUEEN_PG_BIN", "DATABASE_URL", "PG_HOST"] {
            assert!(why(&config).contains(word), "{}", why(&config));
        }
        assert!(config.warnings.is_empty());
        let config = load(&[("QUEEN_DURABLE", "off")], true);
        assert!(why(&config).starts_with("QUEEN_DURABLE is off"));
    }

    #[test]
    fn a_private_cluster_gets_a_cpu_and_what_the_shards_leave_is_the_engines() {
        let config = load(&[], true);
        assert_eq!(
            (config.server.shards, &config.server.engine_cpus[..]),
            (2, &[2, 3][..])
        );
        assert!(config.server.pinning.contains("the engine gets CPU 2-3"));
        for environment in [&[("PG_HOST", "h")][..], &[("QUEEN_DURABLE", "0")]] {
            let config = load(environment, true);
            assert_eq!(
                (config.server.shards, &config.server.engine_cpus[..]),
                (3, &[3][..])
            );
        }
        let few = load_on(&[], &[4, 5, 6], &|_| Ok(true)).expect("no fault");
        assert_eq!(
            (few.server.shards, &few.server.engine_cpus[..]),
            (2, &[6][..])
        );
    }

    #[test]
    fn the_programs_are_searched_for_only_where_they_are_needed() {
        let asked = RefCell::new(Vec::new());
        let finds = |folder: Option<&Path>| {
            asked.borrow_mut().push(folder.map(Path::to_owned));
            Err("QUEEN_PG_BIN=/nowhere holds no initdb".to_owned())
        };
        let folder = ("QUEEN_PG_BIN", "/nowhere");
        for other in [
            ("QUEEN_DURABLE", "off"),
            ("PG_USER", "u"),
            ("DATABASE_URL", "x"),
        ] {
            assert!(load_on(&[folder, other], &[0], &finds).is_ok());
        }
        assert!(asked.borrow().is_empty());
        let stop = load_on(&[folder], &[0], &finds);
        let fault = "QUEEN_PG_BIN=/nowhere holds no initdb".to_owned();
        assert_eq!(stop, Err(ConfigStop::Faults(vec![fault])));
        assert_eq!(*asked.borrow(), [Some(PathBuf::from("/nowhere"))]);
        // What depends on the database is not judged on top.
        let required = ("QUEEN_EPHEMERAL_REQUIRE_GRANT", "on");
        match load_on(&[folder, required], &[0], &finds) {
            Err(ConfigStop::Faults(faults)) => assert_eq!(faults.len(), 1, "{faults:?}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_server_is_named_by_its_parts() {
        let parts = [
            ("PG_HOST", "db"),
            ("PG_PORT", "5433"),
            ("PG_USER", "queen"),
            ("PG_PASSWORD", " p w "),
            ("PG_DATABASE", "broker"),
            ("PG_SSLMODE", "Verify-Full"),
            ("PG_SSLROOTCERT", "/ca.pem"),
        ];
        let config = load(&parts, true);
        assert!(config.warnings.is_empty());
        let text = |text: &str| Some(text.to_owned());
        let expected = ServerSettings {
            database_url: None,
            host: text("db"),
            port: text("5433"),
            user: text("queen"),
            password: Some(Secret::new(" p w ".to_owned())),
            database: text("broker"),
            ssl_mode: text("verify-full"),
            ssl_root_cert: text("/ca.pem"),
        };
        assert_eq!(server(config), expected);
        for (name, value) in &parts[..5] {
            assert!(server(load(&[(name, value)], true)).database_url.is_none());
        }
        let of_tls = load(&parts[5..], true);
        assert_eq!(of_tls.durable.choice, DatabaseChoice::Private);
        assert_eq!(
            of_tls.warnings,
            ["no server is named: PG_SSLMODE, PG_SSLROOTCERT are ignored"]
        );
    }

    #[test]
    fn a_url_wins_over_the_parts_and_off_over_both() {
        let all = [
            ("DATABASE_URL", "postgres://a:hunter2@h/d"),
            ("PG_PASSWORD", "hunter3"),
            ("PG_SSLMODE", "require"),
        ];
        let config = load(&all, true);
        assert_eq!(
            config.warnings,
            ["DATABASE_URL holds: PG_PASSWORD, PG_SSLMODE are ignored"]
        );
        let expected = ServerSettings {
            database_url: Some(Secret::new("postgres://a:hunter2@h/d".to_owned())),
            ..ServerSettings::default()
        };
        assert_eq!(server(config), expected);
        let off = [&all[..], &[("QUEEN_DURABLE", "off")]].concat();
        let config = load(&off, true);
        assert!(why(&config).starts_with("QUEEN_DURABLE is off"));
        assert_eq!(
            config.warnings,
            ["QUEEN_DURABLE is off: DATABASE_URL, PG_PASSWORD, PG_SSLMODE are ignored"]
        );
        let one = load(&[("DATABASE_URL", "x"), ("PG_HOST", "y")], true);
        assert_eq!(one.warnings, ["DATABASE_URL holds: PG_HOST is ignored"]);
    }

    #[test]
    fn what_may_hold_a_password_is_shown_nowhere() {
        let secrets = [
            ("DATABASE_URL", "postgres://a:hunter2@h/d"),
            ("PG_PASSWORD", "hunter2"),
        ];
        let config = load(&secrets, true);
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(!config.warnings.concat().contains("hunter2"));
        let off = [&secrets[..], &[("QUEEN_DURABLE", "off")]].concat();
        let config = load(&off, true);
        assert!(!format!("{config:?}").contains("hunter2"));
        let faulty = [
            &secrets[..],
            &[
                ("PG_PORT", "0"),
                ("PG_SSLMODE", "no"),
                ("QUEEN_DURABLE", "?"),
            ],
        ]
        .concat();
        let found = faults(&faulty, true);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(!found.concat().contains("hunter2"));
        // As flags they are unknown, and what follows is not repeated.
        for flag in ["--pg-password", "--database-url"] {
            let joined = format!("{flag}=hunter2");
            for arguments in [vec!["queen", flag, "hunter2"], vec!["queen", &joined]] {
                let host = Host {
                    usable_cpus: &[0],
                    finds_postgres: &|_| Ok(false),
                };
                let stop = Config::load(arguments, |_| None, &host).expect_err("no such flag");
                let ConfigStop::Faults(found) = stop else {
                    panic!("{stop:?}")
                };
                assert!(found[0].contains(flag), "{found:?}");
                assert!(!found.concat().contains("hunter2"), "{found:?}");
            }
        }
    }

    #[test]
    fn a_grant_is_required_as_tenancy_says_where_there_is_a_database() {
        const TENANCY: (&str, &str) = ("QUEEN_TENANCY_HEADER", "on");
        const ON: (&str, &str) = ("QUEEN_EPHEMERAL_REQUIRE_GRANT", "on");
        const OFF: (&str, &str) = ("QUEEN_EPHEMERAL_REQUIRE_GRANT", "off");
        const SERVER: (&str, &str) = ("PG_HOST", "h");
        for (environment, found, required) in [
            (&[][..], true, false),
            (&[TENANCY], true, true),
            (&[TENANCY, SERVER], false, true),
            (&[TENANCY], false, false),
            (&[TENANCY, OFF], true, false),
            (&[ON], true, true),
            (&[ON, SERVER], false, true),
            (&[OFF], false, false),
        ] {
            let config = load(environment, found);
            assert_eq!(config.ephemeral.require_grant, required, "{environment:?}");
        }
        for environment in [
            &[ON][..],
            &[ON, TENANCY],
            &[ON, SERVER, ("QUEEN_DURABLE", "off")],
        ] {
            let found = faults(environment, false);
            assert_eq!(found.len(), 1, "{found:?}");
            let start = "QUEEN_EPHEMERAL_REQUIRE_GRANT is on, but there is no database";
            assert!(found[0].starts_with(start), "{}", found[0]);
            assert!(found[0].contains("DATABASE_URL"), "{}", found[0]);
        }
    }

    #[test]
    fn folders_and_switches_of_the_cluster() {
        let environment = [
            ("QUEEN_DATA_DIR", "/a folder"),
            ("QUEEN_PG_BIN", "/bin"),
            ("QUEEN_ALLOW_FSYNC_OFF", "yes"),
        ];
        let durable = load(&environment, true).durable;
        assert_eq!(durable.data_folder, Some(PathBuf::from("/a folder")));
        assert_eq!(durable.programs_folder, Some(PathBuf::from("/bin")));
        assert!(durable.allow_fsync_off);
    }

    #[test]
    fn a_malformed_key_is_a_fault_that_does_not_show_it() {
        let load = |key: &str| load_on(&[("QUEEN_ENCRYPTION_KEY", key)], &[0], &|_| Ok(true));
        let key = "0123456789abcdef".repeat(4);
        let config = load(&format!(" {key}\n")).expect("a key");
        let kept = config.durable.encryption_key.expect("it was given");
        assert_eq!(kept.expose()[7], 0xef);
        assert_eq!(
            load("").expect("nothing given").durable.encryption_key,
            None
        );
        for malformed in ["hunter2", &key[1..], &key.replace('f', "x")] {
            let Err(ConfigStop::Faults(faults)) = load(malformed) else {
                panic!("{malformed} is no key");
            };
            let text = "QUEEN_ENCRYPTION_KEY must be 64 hexadecimal digits (32 bytes)";
            assert_eq!(faults, [text]);
        }
    }

    #[test]
    fn where_new_groups_start() {
        let load =
            |mode: &str| load_on(&[("DEFAULT_SUBSCRIPTION_MODE", mode)], &[0], &|_| Ok(true));
        for (mode, at_oldest) in [
            ("", false),
            ("new", false),
            ("new-only", false),
            ("ALL", true),
        ] {
            let config = load(mode).expect("a mode");
            assert_eq!(config.durable.starts_at_oldest, at_oldest, "{mode}");
        }
        let Err(ConfigStop::Faults(faults)) = load("oldest") else {
            panic!("there is no such mode");
        };
        let text = "DEFAULT_SUBSCRIPTION_MODE must be one of new, new-only, all, not \"oldest\"";
        assert_eq!(faults, [text]);
    }
}
