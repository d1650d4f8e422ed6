//! Where the server is and how to log in.

use std::fmt;

use tokio_postgres::Config;

use super::cluster::Address;

/// The settings that name a server, as they were given.
#[derive(Clone, Default)]
pub struct TargetSettings {
    /// `DATABASE_URL`: a URL or pairs of keyword and value.
    pub database_url: Option<String>,
    /// `PG_HOST`.
    pub host: Option<String>,
    /// `PG_PORT`.
    pub port: Option<String>,
    /// `PG_USER`.
    pub user: Option<String>,
    /// `PG_PASSWORD`.
    pub password: Option<String>,
    /// `PG_DATABASE`.
    pub database: Option<String>,
    /// `PG_SSLMODE`.
    pub ssl_mode: Option<String>,
    /// `PG_SSLROOTCERT`.
    pub ssl_root_cert: Option<String>,
}

impl fmt::Debug for TargetSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TargetSettings")
            .finish_non_exhaustive()
    }
}

/// A server and how to log in there.
#[derive(Clone)]
pub struct Target {
    pub(super) config: Config,
    text: String,
}

impl Target {
    /// Reads the settings.
    ///
    /// # Errors
    /// Every fault, with the setting's name and without a value that may hold a password.
    pub fn parse(settings: &TargetSettings) -> Result<Target, Vec<String>> {
        let fault = || vec!["DATABASE_URL cannot be read".to_owned()];
        let text = settings.database_url.as_deref().ok_or_else(fault)?;
        let config: Config = text.parse().map_err(|_| fault())?;
        Ok(Target {
            config,
            text: "PostgreSQL".to_owned(),
        })
    }

    /// The private cluster, through its socket.
    pub fn of_cluster(address: &Address) -> Target {
        let mut config = Config::new();
        config
            .host_path(&address.socket_folder)
            .port(address.port)
            .user(address.user)
            .dbname(address.database);
        Target {
            config,
            text: format!("{}", address.socket_folder.display()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Target({self})")
    }
}
