//! Where the server is and how to log in: `DATABASE_URL` as libpq reads it, and `PG_*`.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, TargetSessionAttrs};

use super::cluster::Address;
use super::connection_text;
use super::tls::{Roots, SslMode, TlsRules};
use crate::limits::{
    SERVER_HOSTS_MAX, SESSION_ADDRESS_MS, SESSION_CONNECT_MS, SESSION_KEEPALIVE_S,
};

/// Where a server of the same machine is looked for when a connection string names no host.
const SOCKET_FOLDER: &str = "/var/run/postgresql";

/// What libpq looks for in the user's home.
const ROOT_CERTIFICATE: &str = ".postgresql/root.crt";
const OWN_CERTIFICATE: &str = ".postgresql/postgresql.crt";
const OWN_KEY: &str = ".postgresql/postgresql.key";

/// Parameters that are taken and change nothing: the broker has its own bounds and names itself.
const WITHOUT_EFFECT: [&str; 10] = [
    "application_name",
    "client_encoding",
    "connect_timeout",
    "fallback_application_name",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "sslcompression",
    "tcp_user_timeout",
];

/// Parameters that are taken with the values that change nothing.
const WITH_THE_USUAL_VALUE: [(&str, &[&str]); 4] = [
    ("gssencmode", &["disable", "prefer"]),
    ("load_balance_hosts", &["disable"]),
    ("sslnegotiation", &["postgres"]),
    ("sslsni", &["1"]),
];

/// The settings that name a server, as they were given. An empty one counts as not given.
#[derive(Clone, Default)]
pub struct TargetSettings {
    /// `DATABASE_URL`: a URL or pairs of keyword and value. What it leaves open the others say.
    pub database_url: Option<String>,
    /// `PG_HOST`: a name, an address, the folder of a unix socket, or a list of them.
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
    /// `PG_SSLROOTCERT`: a file, or `system`.
    pub ssl_root_cert: Option<String>,
}

impl fmt::Debug for TargetSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any of them may hold a password that was put into the wrong place.
        let mut shown = formatter.debug_struct("TargetSettings");
        shown.finish_non_exhaustive()
    }
}

/// One place where the server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// A name, an address, or the folder of a socket.
    pub(super) host: String,
    /// The address to connect to, where it is given beside the name.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl Endpoint {
    pub(super) fn is_socket(&self) -> bool {
        self.host.starts_with('/') && self.address.is_none()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        let (open, close) = if brackets { ("[", "]") } else { ("", "") };
        write!(formatter, "{open}{}{close}:{}", self.host, self.port)
    }
}

/// A server, perhaps with others that may take its place, and how to log in. Shown as host and port;
/// the password never is.
#[derive(Clone)]
pub struct Target {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) tls: TlsRules,
    login: Config,
}

impl Target {
    /// Reads the settings.
    ///
    /// # Errors
    /// Every fault, with the setting's name and without a value that may hold a password.
    pub fn parse(settings: &TargetSettings) -> Result<Target, Vec<String>> {
        let mut reading = Reading::new(settings);
        let endpoints = reading.endpoints();
        let over_network = endpoints.iter().any(|endpoint| !endpoint.is_socket());
        let tls = reading.tls(over_network);
        let login = reading.login();
        reading.judge_the_rest();
        if !reading.faults.is_empty() {
            return Err(reading.faults);
        }
        if over_network && tls.mode != SslMode::Disable {
            tls.connector()
                .map_err(|fault| vec![format!("TLS to PostgreSQL: {fault}")])?;
        }
        Ok(Target {
            endpoints,
            tls,
            login,
        })
    }

    /// The private cluster, through its socket.
    pub fn of_cluster(address: &Address) -> Target {
        let mut login = base();
        login.user(address.user).dbname(address.database);
        Target {
            endpoints: vec![Endpoint {
                host: address.socket_folder.display().to_string(),
                address: None,
                port: address.port,
            }],
            tls: TlsRules {
                mode: SslMode::Disable,
                roots: Roots::Any,
                own: None,
            },
            login,
        }
    }

    /// How to log in at one endpoint.
    pub(super) fn login_at(&self, endpoint: &Endpoint) -> Config {
        let mut login = self.login.clone();
        login.host(&endpoint.host).port(endpoint.port);
        if let Some(address) = endpoint.address {
            login.hostaddr(address);
        }
        login
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(formatter, "{comma}{endpoint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Target({self})")
    }
}

/// What every login has.
fn base() -> Config {
    let mut login = Config::new();
    login
        .application_name("queen")
        .connect_timeout(Duration::from_millis(SESSION_ADDRESS_MS))
        .tcp_user_timeout(Duration::from_millis(SESSION_CONNECT_MS))
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(SESSION_KEEPALIVE_S))
        .keepalives_interval(Duration::from_secs(SESSION_KEEPALIVE_S))
        .keepalives_retries(3);
    login
}

/// Where a value comes from and what it is.
struct Given {
    setting: &'static str,
    value: String,
}

/// The settings on their way to a target.
struct Reading<'a> {
    settings: &'a TargetSettings,
    /// What `DATABASE_URL` says and nobody has taken yet.
    parameters: Vec<connection_text::Parameter>,
    has_url: bool,
    faults: Vec<String>,
}

impl<'a> Reading<'a> {
    fn new(settings: &'a TargetSettings) -> Reading<'a> {
        let mut faults = Vec::new();
        let url = settings.database_url.as_deref();
        let url = url.filter(|text| !text.trim().is_empty());
        let parameters = match url.map(connection_text::read) {
            None => Vec::new(),
            Some(Ok(parameters)) => parameters,
            Some(Err(fault)) => {
                faults.push(format!("DATABASE_URL {fault}"));
                Vec::new()
            }
        };
        Reading {
            settings,
            parameters,
            has_url: url.is_some(),
            faults,
        }
    }

    /// The last value of a parameter of `DATABASE_URL`.
    fn parameter(&mut self, keyword: &str) -> Option<String> {
        let (mine, rest) = std::mem::take(&mut self.parameters)
            .into_iter()
            .partition(|one| one.keyword == keyword);
        self.parameters = rest;
        let mut mine: Vec<connection_text::Parameter> = mine;
        mine.pop().map(|one| one.value)
    }

    /// What `DATABASE_URL` says, or else the setting of its own.
    fn given(
        &mut self,
        keyword: &str,
        setting: &'static str,
        own: &Option<String>,
    ) -> Option<Given> {
        if let Some(value) = self.parameter(keyword) {
            let setting = "DATABASE_URL";
            return Some(Given { setting, value });
        }
        let value = own.clone().filter(|value| !value.is_empty())?;
        if value.contains('\0') {
            self.faults.push(format!("{setting} has a NUL character"));
            return None;
        }
        Some(Given { setting, value })
    }

    fn endpoints(&mut self) -> Vec<Endpoint> {
        let settings = self.settings;
        let hosts = self.given("host", "PG_HOST", &settings.host);
        let addresses = self.parameter("hostaddr");
        let ports = self.given("port", "PG_PORT", &settings.port);
        let split = |text: &str| text.split(',').map(str::trim).map(str::to_owned).collect();
        let mut addresses: Vec<String> = addresses.as_deref().map(split).unwrap_or_default();
        let hosts: Vec<String> = match &hosts {
            Some(given) => split(&given.value),
            None if addresses.is_empty() => vec![String::new()],
            None => addresses.clone(),
        };
        if addresses.is_empty() {
            addresses.resize(hosts.len(), String::new());
        }
        let ports: Vec<u16> = ports.map(|given| self.ports(&given)).unwrap_or_default();
        if hosts.len() > SERVER_HOSTS_MAX {
            let text = format!("PostgreSQL has more than {SERVER_HOSTS_MAX} hosts");
            self.faults.push(text);
        }
        if addresses.len() != hosts.len() || (ports.len() > 1 && ports.len() != hosts.len()) {
            let text = "PostgreSQL's hosts, hostaddr and ports are lists of different lengths";
            self.faults.push(text.to_owned());
            return Vec::new();
        }
        let port_of = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let mut endpoints = Vec::new();
        for (at, (host, address)) in hosts.into_iter().zip(addresses).enumerate() {
            let address = match address.as_str() {
                "" => None,
                text => match text.parse() {
                    Ok(address) => Some(address),
                    Err(_) => {
                        let text = "DATABASE_URL has a hostaddr that is not an IP address";
                        self.faults.push(text.to_owned());
                        None
                    }
                },
            };
            let host = if host.is_empty() {
                self.default_host()
            } else {
                host
            };
            endpoints.push(Endpoint {
                host,
                address,
                port: port_of(at),
            });
        }
        endpoints
    }

    fn default_host(&self) -> String {
        let local = self.has_url && Path::new(SOCKET_FOLDER).is_dir();
        if local { SOCKET_FOLDER } else { "localhost" }.to_owned()
    }

    fn ports(&mut self, given: &Given) -> Vec<u16> {
        let read = |text: &str| match text.trim() {
            "" => Some(5432),
            text => text.parse().ok().filter(|port| *port > 0),
        };
        let ports: Option<Vec<u16>> = given.value.split(',').map(read).collect();
        if ports.is_none() {
            let text = format!("{}: a port is a number from 1 to 65535", given.setting);
            self.faults.push(text);
        }
        ports.unwrap_or_default()
    }

    fn tls(&mut self, over_network: bool) -> TlsRules {
        let settings = self.settings;
        let roots = self.given("sslrootcert", "PG_SSLROOTCERT", &settings.ssl_root_cert);
        let is_system = roots.as_ref().is_some_and(|given| given.value == "system");
        let mode = match self.given("sslmode", "PG_SSLMODE", &settings.ssl_mode) {
            None if is_system => SslMode::VerifyFull,
            None => SslMode::Prefer,
            Some(given) => SslMode::parse(&given.value).unwrap_or_else(|| {
                self.faults.push(format!(
                    "{}: sslmode is one of disable, allow, prefer, require, verify-ca and verify-full",
                    given.setting
                ));
                SslMode::VerifyFull
            }),
        };
        if is_system && mode != SslMode::VerifyFull {
            let text = "sslrootcert=system is for sslmode=verify-full only: everybody can have a \
                        certificate that the machine trusts";
            self.faults.push(text.to_owned());
        }
        let roots = match roots {
            Some(_) if is_system => Roots::System,
            Some(given) => Roots::File(PathBuf::from(given.value)),
            None => in_home(ROOT_CERTIFICATE).map_or(Roots::Any, Roots::File),
        };
        if over_network && mode >= SslMode::VerifyCa && roots == Roots::Any {
            let text = "this sslmode needs root certificates: name a file in PG_SSLROOTCERT (or \
                        sslrootcert), or `system` for those that the machine trusts";
            self.faults.push(text.to_owned());
        }
        let own = self.own_certificate();
        TlsRules { mode, roots, own }
    }

    fn own_certificate(&mut self) -> Option<(PathBuf, PathBuf)> {
        let certificate = self.parameter("sslcert").map(PathBuf::from);
        let key = self.parameter("sslkey").map(PathBuf::from);
        let is_named = certificate.is_some();
        let certificate = certificate.or_else(|| in_home(OWN_CERTIFICATE));
        let own = certificate.zip(key.or_else(|| in_home(OWN_KEY)));
        if is_named && own.is_none() {
            let text = "DATABASE_URL has an sslcert and no sslkey that belongs to it";
            self.faults.push(text.to_owned());
        }
        own
    }

    fn login(&mut self) -> Config {
        let settings = self.settings;
        let mut login = base();
        let user = self.given("user", "PG_USER", &settings.user);
        let password = self.given("password", "PG_PASSWORD", &settings.password);
        let database = self.given("dbname", "PG_DATABASE", &settings.database);
        // As for libpq, a connection string that leaves them open means the user of the process, and the
        // database with the user's name.
        let usual = (!self.has_url).then(|| "postgres".to_owned());
        if let Some(user) = user.map(|given| given.value).or(usual.clone()) {
            login.user(user);
        }
        if let Some(database) = database.map(|given| given.value).or(usual) {
            login.dbname(database);
        }
        if let Some(given) = password {
            login.password(given.value);
        }
        if let Some(options) = self.parameter("options") {
            login.options(options);
        }
        if let Some(wanted) = self.choice(
            "target_session_attrs",
            &[
                ("any", TargetSessionAttrs::Any),
                ("read-write", TargetSessionAttrs::ReadWrite),
                ("read-only", TargetSessionAttrs::ReadOnly),
            ],
        ) {
            login.target_session_attrs(wanted);
        }
        if let Some(wanted) = self.choice(
            "channel_binding",
            &[
                ("disable", ChannelBinding::Disable),
                ("prefer", ChannelBinding::Prefer),
                ("require", ChannelBinding::Require),
            ],
        ) {
            login.channel_binding(wanted);
        }
        login
    }

    /// A parameter with few values.
    fn choice<T: Copy>(&mut self, keyword: &str, values: &[(&str, T)]) -> Option<T> {
        let value = self.parameter(keyword)?;
        let found = values.iter().find(|(text, _)| *text == value);
        if found.is_none() {
            let texts: Vec<&str> = values.iter().map(|(text, _)| *text).collect();
            let texts = texts.join(", ");
            let text = format!("DATABASE_URL: {keyword} is one of {texts}");
            self.faults.push(text);
        }
        found.map(|(_, value)| *value)
    }

    /// What nobody has taken: it must not be ignored, as it may be there for safety.
    fn judge_the_rest(&mut self) {
        for keyword in WITHOUT_EFFECT {
            self.parameter(keyword);
        }
        for (keyword, values) in WITH_THE_USUAL_VALUE {
            let values: Vec<(&str, ())> = values.iter().map(|value| (*value, ())).collect();
            self.choice(keyword, &values);
        }
        if !self.parameters.is_empty() {
            // Not named: it may be a piece of a password.
            let text = "DATABASE_URL has a parameter that the broker does not know; it knows host, \
                        hostaddr, port, dbname, user, password, options, sslmode, sslrootcert, sslcert, \
                        sslkey, channel_binding and target_session_attrs";
            self.faults.push(text.to_owned());
        }
    }
}

/// A file of the user's home, if it is there.
fn in_home(name: &str) -> Option<PathBuf> {
    let path = std::env::home_dir()?.join(name);
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_url(text: &str) -> TargetSettings {
        TargetSettings {
            database_url: Some(text.to_owned()),
            ..TargetSettings::default()
        }
    }

    fn read(settings: &TargetSettings) -> Target {
        Target::parse(settings).unwrap_or_else(|faults| panic!("{faults:?}"))
    }

    #[test]
    fn the_settings_alone_have_defaults() {
        let target = read(&TargetSettings::default());
        assert_eq!(target.to_string(), "localhost:5432");
        assert_eq!(target.login.get_user(), Some("postgres"));
        assert_eq!(target.login.get_dbname(), Some("postgres"));
        assert_eq!(target.tls.mode, SslMode::Prefer);
    }

    #[test]
    fn the_settings_fill_what_the_url_leaves_open() {
        let settings = TargetSettings {
            host: Some("elsewhere".to_owned()),
            port: Some("7".to_owned()),
            password: Some("secret".to_owned()),
            database: Some("d".to_owned()),
            ..of_url("postgres://ada@db.example")
        };
        let target = read(&settings);
        assert_eq!(target.to_string(), "db.example:7");
        assert_eq!(target.login.get_user(), Some("ada"));
        assert_eq!(target.login.get_password(), Some(&b"secret"[..]));
        assert_eq!(target.login.get_dbname(), Some("d"));
    }

    #[test]
    fn lists_of_hosts_have_their_ports() {
        let target = read(&of_url("postgres://a,b:2,[::1]:3/d?sslmode=disable"));
        assert_eq!(target.to_string(), "a:5432, b:2, [::1]:3");
        let target = read(&of_url(
            "host=a,/tmp port=9 hostaddr=127.0.0.1, sslmode=disable",
        ));
        assert_eq!(target.to_string(), "a:9, /tmp:9");
        assert!(!target.endpoints[0].is_socket() && target.endpoints[1].is_socket());
        assert_eq!(target.endpoints[0].address, "127.0.0.1".parse().ok());
    }

    #[test]
    fn every_fault_is_told() {
        for (text, part) in [
            ("host=a,b port=1,2,3", "different lengths"),
            ("host=a,b,c,d,e,f,g,h,i", "more than 8 hosts"),
            ("hostaddr=nowhere", "not an IP address"),
            ("port=0", "1 to 65535"),
            ("sslmode=maybe", "verify-full"),
            ("sslmode=require sslrootcert=system", "verify-full only"),
            ("host=h sslrootcert=/nowhere/root.crt", "/nowhere/root.crt"),
            (
                "host=h sslcert=/nowhere/a.crt sslkey=/nowhere/a.key",
                "/nowhere/a.",
            ),
            ("target_session_attrs=primary", "read-write"),
            ("gssencmode=require", "gssencmode"),
            ("sslcrl=/etc/crl", "does not know"),
            ("passfile=/etc/pass", "does not know"),
        ] {
            let faults = Target::parse(&of_url(text)).expect_err(text).join("\n");
            assert!(faults.contains(part), "{text}: {faults}");
        }
        let settings = TargetSettings {
            ssl_mode: Some("maybe".to_owned()),
            ..of_url("port=0")
        };
        assert_eq!(Target::parse(&settings).expect_err("two faults").len(), 2);
    }

    #[test]
    fn what_changes_nothing_is_taken() {
        read(&of_url(
            "postgres://h/d?connect_timeout=10&application_name=x&keepalives=1&gssencmode=disable&sslsni=1",
        ));
    }
}
