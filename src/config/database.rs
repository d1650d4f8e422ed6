//! Which database the broker uses.

use std::path::PathBuf;

use super::host::Host;
use super::load::Given;
use super::secret::Secret;

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

impl DatabaseChoice {
    /// Whether there is a database.
    pub fn is_on(&self) -> bool {
        !matches!(self, DatabaseChoice::Off { .. })
    }
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
            allow_fsync_off: self.switch("QUEEN_ALLOW_FSYNC_OFF"),
        };
        (durable, require_grant)
    }

    /// `None` where a fault was noted.
    fn database_choice(
        &mut self,
        host: &Host<'_>,
        programs_folder: Option<&std::path::Path>,
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
