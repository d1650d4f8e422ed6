//! From flags and environment to a frozen [`Config`].

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use tracing_subscriber::EnvFilter;

use super::host::Host;
use super::pinning::{self, Pin, PinPlan};
use super::secret::Secret;
use super::settings::{Kind, Setting, settings};
use super::{Config, DatabaseChoice, EphemeralConfig, IoChoice, ServerConfig, TenancyConfig};

/// `QUEEN_SPIN_US` where nothing is said and shards are on CPUs of their own.
const SPIN_US_PINNED: u64 = 50;

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigStop {
    /// Help or version was asked for: print this to standard output and exit with success.
    Message(String),
    /// Everything that is wrong with the settings, one text each: print them to standard error and
    /// exit with the status for it.
    Faults(Vec<String>),
}

impl Config {
    /// Reads `arguments` (the first is the program's name) and the environment through
    /// `environment`. A flag wins over a variable; an empty variable counts as not set. Defaults
    /// that depend on the machine follow from `host`.
    ///
    /// # Errors
    /// Help or version where asked for, else all faults at once.
    pub fn load<Argument: Into<OsString> + Clone>(
        arguments: impl IntoIterator<Item = Argument>,
        environment: impl Fn(&str) -> Option<OsString>,
        host: &Host<'_>,
    ) -> Result<Config, ConfigStop> {
        assert!(!host.usable_cpus.is_empty(), "the process runs on a CPU");
        let matches = command().try_get_matches_from(arguments).map_err(|error| {
            if error.use_stderr() {
                let text = error.to_string();
                let text = text.trim_start_matches("error: ").trim_end();
                ConfigStop::Faults(vec![text.to_owned()])
            } else {
                ConfigStop::Message(error.to_string())
            }
        })?;
        let mut given = Given::read(&matches, environment);
        let config = given.config(host);
        if given.faults.is_empty() {
            Ok(config)
        } else {
            Err(ConfigStop::Faults(given.faults))
        }
    }
}

impl Default for Config {
    /// The configuration of a broker that was told nothing, has one CPU and finds no PostgreSQL.
    fn default() -> Config {
        let host = Host {
            usable_cpus: &[0],
            finds_postgres: &|_| Ok(false),
        };
        match Config::load(["queen"], |_| None, &host) {
            Ok(config) => config,
            Err(stop) => unreachable!("the defaults are within their bounds: {stop:?}"),
        }
    }
}

fn command() -> Command {
    let without_flag = settings()
        .iter()
        .filter(|setting| setting.flag.is_none())
        .map(|setting| format!("\n  {}\n          {}", setting.name, help_of(setting)));
    let after = format!(
        "Every setting is a flag or an environment variable; the flag wins. Environment only, \
         because flags are shown to every user of the machine:\n{}",
        without_flag.collect::<String>()
    );
    let command = Command::new("queen")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Message broker over HTTP/JSON: ephemeral queues in RAM for latency-critical work, durable queues in PostgreSQL")
        .after_help(after);
    command.args(settings().iter().filter_map(|setting| {
        let argument = Arg::new(setting.name)
            .long(setting.flag?)
            .value_name("VALUE")
            // A negative number is out of bounds, not an unknown flag.
            .allow_hyphen_values(true)
            .help(help_of(setting));
        Some(argument)
    }))
}

fn help_of(setting: &Setting) -> String {
    let alias = setting.alias.map(|alias| format!(", {alias}"));
    let default = match setting.default {
        "" => "not set",
        text => text,
    };
    format!(
        "{} [env: {}{}] [default: {default}] [bounds: {}]",
        setting.meaning,
        setting.name,
        alias.unwrap_or_default(),
        setting.bounds(),
    )
}

/// What was given for each setting, and what is wrong with it.
pub(super) struct Given {
    /// By setting: where the value comes from, and the value.
    values: HashMap<&'static str, (String, String)>,
    pub(super) faults: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Given {
    fn read(matches: &ArgMatches, environment: impl Fn(&str) -> Option<OsString>) -> Given {
        let mut given = Given {
            values: HashMap::new(),
            faults: Vec::new(),
            warnings: Vec::new(),
        };
        let variable = |name: &str| {
            let text = environment(name)?.into_string().ok()?;
            (!text.trim().is_empty()).then_some(text)
        };
        for setting in settings() {
            for name in std::iter::once(setting.name).chain(setting.alias) {
                // Taken for one that is not set, a key would be missing without a word.
                if environment(name).is_some_and(|value| value.to_str().is_none()) {
                    given.faults.push(format!("{name} must be UTF-8"));
                }
            }
            let aliased = setting
                .alias
                .and_then(|alias| Some((alias, variable(alias)?)));
            let flag = setting
                .flag
                .and_then(|flag| Some((flag, matches.get_one::<String>(setting.name)?)));
            let value = if let Some((flag, text)) = flag {
                Some((format!("--{flag}"), text.clone()))
            } else if let Some(text) = variable(setting.name) {
                if let Some((alias, other)) = aliased.filter(|(_, other)| *other != text) {
                    given.warnings.push(format!(
                        "{alias}={other} is ignored, {}={text} holds",
                        setting.name
                    ));
                }
                Some((setting.name.to_owned(), text))
            } else {
                aliased.map(|(alias, text)| (alias.to_owned(), text))
            };
            if let Some(value) = value {
                given.values.insert(setting.name, value);
            }
        }
        given
    }

    fn config(&mut self, host: &Host<'_>) -> Config {
        let tenancy = TenancyConfig {
            header: self.switch("QUEEN_TENANCY_HEADER"),
            max_tenants: self.count("QUEEN_KV_MAX_TENANTS"),
        };
        let (durable, require_grant) = self.durable(host, tenancy.header);
        let private_cluster = durable.choice == DatabaseChoice::Private;
        let config = Config {
            server: self.server(host.usable_cpus, private_cluster),
            ephemeral: self.ephemeral(require_grant),
            tenancy,
            jwt: self.jwt(),
            durable,
            log_filter: self.filter("QUEEN_LOG"),
            warnings: Vec::new(),
        };
        let ephemeral = &config.ephemeral;
        if ephemeral.queue_max_bytes > ephemeral.max_bytes {
            self.warnings.push(format!(
                "QUEEN_EPHEMERAL_QUEUE_MAX_BYTES ({}) is above QUEEN_EPHEMERAL_MAX_BYTES ({}): \
                 the broker is full before any queue is",
                ephemeral.queue_max_bytes, ephemeral.max_bytes
            ));
        }
        if ephemeral.rate_per_s.is_none() && self.is_given("QUEEN_EPHEMERAL_BURST") {
            self.warnings.push(
                "QUEEN_EPHEMERAL_BURST has no effect without QUEEN_EPHEMERAL_RATE".to_owned(),
            );
        }
        Config {
            warnings: std::mem::take(&mut self.warnings),
            ..config
        }
    }

    fn server(&mut self, usable_cpus: &[usize], private_cluster: bool) -> ServerConfig {
        let plan = self.pin_plan(usable_cpus, private_cluster);
        let PinPlan {
            pins,
            engine_cpus,
            text,
        } = plan;
        let spin_us = self.spin_us(&pins, usable_cpus);
        ServerConfig {
            port: self.number("PORT") as u16,
            bind_addr: self.address("QUEEN_BIND_ADDR"),
            io: self.io(),
            shards: pins.len() as u16,
            pins,
            engine_cpus,
            pinning: text,
            spin_us,
            max_body_bytes: self.count("QUEEN_MAX_BODY_BYTES"),
            head_timeout_ms: self.number("QUEEN_HEAD_TIMEOUT_MS"),
            idle_timeout_ms: self.number("QUEEN_IDLE_TIMEOUT_MS"),
            max_connections: self.count("QUEEN_MAX_CONNECTIONS"),
        }
    }

    fn io(&mut self) -> IoChoice {
        match self.word("QUEEN_IO").as_str() {
            "uring" => IoChoice::Uring,
            "epoll" => IoChoice::Epoll,
            "glommio" => {
                if !cfg!(feature = "glommio") {
                    let source = self.source("QUEEN_IO");
                    self.faults.push(format!(
                        "{source}=glommio: this broker was built without it; build one with \
                         `cargo build --release --features glommio` (needs git and a C compiler)"
                    ));
                }
                IoChoice::Glommio
            }
            _ => IoChoice::Auto,
        }
    }

    /// A core that polls must not take a CPU from another thread.
    fn spin_us(&mut self, pins: &[Option<usize>], usable_cpus: &[usize]) -> u64 {
        let pinned = pins.iter().all(Option::is_some);
        match self.number_if_given("QUEEN_SPIN_US") {
            None if pinned => SPIN_US_PINNED,
            None => 0,
            Some(us) if us == 0 || pinned || pins.len() < usable_cpus.len() => us,
            Some(_) => {
                self.warnings.push(
                    "QUEEN_SPIN_US is ignored: shards and engine have more threads than there \
                     are CPUs, and one that polls would take the CPU from another"
                        .to_owned(),
                );
                0
            }
        }
    }

    fn pin_plan(&mut self, usable_cpus: &[usize], private_cluster: bool) -> PinPlan {
        let given = self.is_given("QUEEN_SHARDS");
        let shards = match self.number_if_given("QUEEN_SHARDS") {
            // Out of bounds: what follows from the number is not judged.
            None if given => None,
            None => Some(pinning::default_shards(usable_cpus, private_cluster)),
            Some(shards) => Some(shards as u16),
        };
        let (setting, source, text) = self.text("QUEEN_PIN");
        let mut pin = Pin::parse(&text);
        if let Some(asked) = &pin {
            let faults = pinning::faults(asked, shards, usable_cpus);
            if !faults.is_empty() || shards.is_none() {
                pin = None;
            }
            let faults = faults.iter().map(|fault| format!("{source} {fault}"));
            self.faults.extend(faults);
        } else {
            self.refuse(setting, &source, &text);
        }
        // Where a fault was noted the plan is not used.
        pinning::plan(&pin.unwrap_or(Pin::Off), shards.unwrap_or(1), usable_cpus)
    }

    fn ephemeral(&mut self, require_grant: bool) -> EphemeralConfig {
        let nonzero_ms = |seconds: u64| (seconds > 0).then_some(seconds * 1_000);
        EphemeralConfig {
            max_bytes: self.number("QUEEN_EPHEMERAL_MAX_BYTES").max(1),
            queue_max_bytes: self.number("QUEEN_EPHEMERAL_QUEUE_MAX_BYTES"),
            queue_max_length: self.number("QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH"),
            lease_ms: self.number("QUEEN_EPHEMERAL_LEASE_S") * 1_000,
            retry_limit: self.number("QUEEN_EPHEMERAL_RETRY_LIMIT") as u32,
            implicit_idle_ms: nonzero_ms(self.number("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S")),
            linger_ms: nonzero_ms(self.number("QUEEN_EPHEMERAL_LINGER_S")),
            ttl_tick_ms: self.number("QUEEN_TTL_TICK_MS"),
            rate_per_s: self.number_if_given("QUEEN_EPHEMERAL_RATE"),
            burst: self.number("QUEEN_EPHEMERAL_BURST"),
            require_grant,
            pop_default_timeout_ms: self.number("POP_DEFAULT_TIMEOUT_MS"),
        }
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Where the value comes from: the name of a flag or of a variable.
    pub(super) fn source(&self, name: &'static str) -> &str {
        self.values.get(name).map_or(name, |(source, _)| source)
    }

    /// The setting, where its value comes from, and the trimmed value.
    pub(super) fn text(&self, name: &'static str) -> (&'static Setting, String, String) {
        let setting = settings().iter().find(|setting| setting.name == name);
        let setting = setting.expect("every name that is read stands in the list of settings");
        match self.values.get(name) {
            Some((source, text)) => (setting, source.clone(), text.trim().to_owned()),
            None => (setting, name.to_owned(), setting.default.to_owned()),
        }
    }

    fn refuse(&mut self, setting: &Setting, source: &str, text: &str) {
        let what = match setting.kind {
            Kind::Number { .. } => "a whole number from ",
            Kind::Word(_) | Kind::Switch => "one of ",
            Kind::Address | Kind::Filter | Kind::Pin | Kind::Text | Kind::Path => "",
            Kind::Secret => unreachable!("a secret takes any text, and none is shown"),
        };
        let bounds = setting.bounds();
        let shown: String = text.chars().take(80).collect();
        self.faults
            .push(format!("{source} must be {what}{bounds}, not {shown:?}"));
    }

    pub(super) fn number_if_given(&mut self, name: &'static str) -> Option<u64> {
        let (setting, source, text) = self.text(name);
        if text.is_empty() && !self.values.contains_key(name) {
            return None;
        }
        let Kind::Number { min, max } = setting.kind else {
            unreachable!("{name} is a number")
        };
        let value = text.parse::<u64>().ok();
        let value = value.filter(|value| (min..=max).contains(value));
        if value.is_none() {
            self.refuse(setting, &source, &text);
        }
        value
    }

    /// The number, or the least one allowed if a fault was noted.
    pub(super) fn number(&mut self, name: &'static str) -> u64 {
        self.number_if_given(name).unwrap_or_default()
    }

    fn count(&mut self, name: &'static str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    pub(super) fn word(&mut self, name: &'static str) -> String {
        let (setting, source, text) = self.text(name);
        let Kind::Word(words) = setting.kind else {
            unreachable!("{name} is a word")
        };
        let word = text.to_ascii_lowercase();
        if !words.contains(&word.as_str()) {
            self.refuse(setting, &source, &text);
        }
        word
    }

    pub(super) fn switch(&mut self, name: &'static str) -> bool {
        let (setting, source, text) = self.text(name);
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" => true,
            "0" | "false" | "off" | "no" => false,
            _ => {
                self.refuse(setting, &source, &text);
                false
            }
        }
    }

    pub(super) fn switch_if_given(&mut self, name: &'static str) -> Option<bool> {
        self.is_given(name).then(|| self.switch(name))
    }

    pub(super) fn text_if_given(&self, name: &'static str) -> Option<String> {
        self.is_given(name).then(|| self.text(name).2)
    }

    pub(super) fn path(&self, name: &'static str) -> Option<PathBuf> {
        self.text_if_given(name).map(PathBuf::from)
    }

    /// A secret exactly as it was given.
    pub(super) fn secret(&self, name: &'static str) -> Option<Secret> {
        let (_, text) = self.values.get(name)?;
        Some(Secret::new(text.clone()))
    }

    fn address(&mut self, name: &'static str) -> IpAddr {
        let (setting, source, text) = self.text(name);
        text.parse().unwrap_or_else(|_| {
            self.refuse(setting, &source, &text);
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        })
    }

    fn filter(&mut self, name: &'static str) -> String {
        let (setting, source, text) = self.text(name);
        if EnvFilter::try_new(&text).is_err() {
            self.refuse(setting, &source, &text);
        }
        text
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::config::setting_names;

    pub(in crate::config) fn load(
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Config, ConfigStop> {
        let arguments = std::iter::once("queen").chain(arguments.iter().copied());
        let variable = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let host = Host {
            usable_cpus: &[0, 1, 2, 5],
            finds_postgres: &|_| Ok(false),
        };
        Config::load(arguments, variable, &host)
    }

    #[test]
    fn a_value_that_is_no_text_refuses_the_start() {
        let host = Host {
            usable_cpus: &[0],
            finds_postgres: &|_| Ok(false),
        };
        let variable = |name: &str| {
            let is_key = name == "QUEEN_ENCRYPTION_KEY";
            is_key.then(|| OsString::from_vec(vec![b'a', 0xff]))
        };
        match Config::load(["queen"], variable, &host) {
            Err(ConfigStop::Faults(faults)) => {
                assert_eq!(faults, ["QUEEN_ENCRYPTION_KEY must be UTF-8"]);
            }
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::config) fn faults(
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Vec<String> {
        match load(arguments, environment) {
            Err(ConfigStop::Faults(faults)) => faults,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults() {
        let config = Config::default();
        assert_eq!(config.server.port, 6632);
        assert_eq!(config.server.bind_addr.to_string(), "0.0.0.0");
        assert_eq!(config.server.io, IoChoice::Auto);
        assert_eq!(config.server.shards, 1);
        assert_eq!(config.server.pins, [None]);
        assert_eq!(config.server.max_body_bytes, 64 * 1024 * 1024);
        assert_eq!(config.server.head_timeout_ms, 10_000);
        assert_eq!(config.server.idle_timeout_ms, 75_000);
        assert_eq!(config.server.max_connections, 65_536);
        assert_eq!(config.ephemeral.max_bytes, 256 * 1024 * 1024);
        assert_eq!(config.ephemeral.queue_max_bytes, 16 * 1024 * 1024);
        assert_eq!(config.ephemeral.queue_max_length, 10_000);
        assert_eq!(config.ephemeral.lease_ms, 30_000);
        assert_eq!(config.ephemeral.retry_limit, 5);
        assert_eq!(config.ephemeral.implicit_idle_ms, Some(300_000));
        assert_eq!(config.ephemeral.linger_ms, Some(60_000));
        assert_eq!(config.ephemeral.ttl_tick_ms, 100);
        assert_eq!(config.ephemeral.rate_per_s, None);
        assert_eq!(config.ephemeral.burst, 10_000);
        assert_eq!(config.ephemeral.pop_default_timeout_ms, 30_000);
        assert!(!config.tenancy.header);
        assert_eq!(config.tenancy.max_tenants, 10_000);
        assert_eq!(config.log_filter, "info");
        assert!(config.warnings.is_empty());
    }

    #[test]
    fn environment_then_flags() {
        let environment = [
            ("PORT", "7000"),
            ("QUEEN_BIND_ADDR", "::1"),
            ("QUEEN_IO", "EPOLL"),
            ("QUEEN_EPHEMERAL_LINGER_S", "0"),
            ("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", "0"),
            ("QUEEN_EPHEMERAL_RATE", " 5000 "),
            ("QUEEN_EPHEMERAL_MAX_BYTES", ""),
            ("QUEEN_TENANCY_HEADER", "Yes"),
            ("QUEEN_LOG", "queen=debug,info"),
        ];
        let config = load(&["--port", "0", "--ephemeral-lease-s=2"], &environment).unwrap();
        assert_eq!(config.server.port, 0);
        assert_eq!(config.server.bind_addr.to_string(), "::1");
        assert_eq!(config.server.io, IoChoice::Epoll);
        assert_eq!(config.ephemeral.linger_ms, None);
        assert_eq!(config.ephemeral.implicit_idle_ms, None);
        assert_eq!(config.ephemeral.rate_per_s, Some(5_000));
        assert_eq!(config.ephemeral.lease_ms, 2_000);
        assert_eq!(config.ephemeral.max_bytes, 268_435_456);
        assert!(config.tenancy.header);
        assert_eq!(config.log_filter, "queen=debug,info");
    }

    #[test]
    fn switches() {
        for (text, on) in [("1", true), ("on", true), ("TRUE", true), ("yes", true)]
            .into_iter()
            .chain([
                ("0", false),
                ("off", false),
                ("false", false),
                ("no", false),
            ])
        {
            let config = load(&["--tenancy-header", text], &[]).unwrap();
            assert_eq!(config.tenancy.header, on, "{text}");
        }
        assert_eq!(faults(&["--tenancy-header", "maybe"], &[]).len(), 1);
    }

    #[test]
    fn glommio_is_refused_where_it_was_not_built_in() {
        if cfg!(feature = "glommio") {
            let config = load(&["--io", "glommio"], &[]).unwrap();
            assert_eq!(config.server.io, IoChoice::Glommio);
        } else {
            let faults = faults(&[], &[("QUEEN_IO", "glommio")]);
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].contains("--features glommio"), "{faults:?}");
        }
    }

    #[test]
    fn a_broker_total_of_zero_becomes_one_byte() {
        let config = load(&[], &[("QUEEN_EPHEMERAL_MAX_BYTES", "0")]).unwrap();
        assert_eq!(config.ephemeral.max_bytes, 1);
        assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    }

    #[test]
    fn an_alias_is_read_and_a_conflict_is_told() {
        let config = load(&[], &[("DEFAULT_TIMEOUT", "5")]).unwrap();
        assert_eq!(config.ephemeral.pop_default_timeout_ms, 5);
        let both = [("DEFAULT_TIMEOUT", "5"), ("POP_DEFAULT_TIMEOUT_MS", "7")];
        let config = load(&[], &both).unwrap();
        assert_eq!(config.ephemeral.pop_default_timeout_ms, 7);
        assert!(config.warnings[0].contains("DEFAULT_TIMEOUT=5 is ignored"));
    }

    #[test]
    fn shards_and_their_cpus() {
        let server = |arguments: &[&str]| load(arguments, &[]).unwrap().server;
        let told_nothing = server(&[]);
        assert_eq!(told_nothing.shards, 3);
        assert_eq!(told_nothing.pins, [Some(0), Some(1), Some(2)]);
        assert!(told_nothing.pinning.contains("pinned to CPU 0-2"));
        let as_many_as_cpus = server(&["--shards", "4"]);
        assert_eq!(as_many_as_cpus.shards, 4);
        assert_eq!(as_many_as_cpus.pins, [None; 4]);
        assert_eq!(server(&["--pin", "off"]).pins, [None; 3]);
        assert_eq!(
            server(&["--shards", "2", "--pin", "5,0-1"]).pins,
            [Some(5), Some(0)]
        );
    }

    #[test]
    fn only_a_core_of_its_own_polls() {
        let spin = |arguments: &[&str]| load(arguments, &[]).unwrap().server.spin_us;
        assert_eq!(spin(&[]), SPIN_US_PINNED);
        assert_eq!(spin(&["--pin", "off"]), 0);
        assert_eq!(spin(&["--spin-us", "0"]), 0);
        assert_eq!(spin(&["--spin-us", "70", "--pin", "off"]), 70);
        assert_eq!(
            spin(&["--spin-us", "70", "--shards", "4", "--pin", "0-2,5"]),
            70
        );
        let crowded = load(&["--spin-us", "70", "--shards", "4"], &[]).unwrap();
        assert_eq!(crowded.server.spin_us, 0);
        assert!(crowded.warnings[0].starts_with("QUEEN_SPIN_US is ignored"));
    }

    #[test]
    fn faults_of_shards_and_pins() {
        for (shards, pin, expected) in [
            (
                "64",
                "auto",
                &["QUEEN_SHARDS must be a whole number from 1 to 62"][..],
            ),
            ("0", "0", &["QUEEN_SHARDS must be"]),
            (
                "2",
                "all",
                &["QUEEN_PIN must be auto, off, or a list of CPUs such as 0,2-5"],
            ),
            (
                "3",
                "0,1",
                &["QUEEN_PIN names 2 CPUs for 3 shards; the process may use 0-2,5"],
            ),
            (
                "2",
                "1,1",
                &[
                    "QUEEN_PIN names CPU 1 more",
                    "QUEEN_PIN names 1 CPU for 2 shards",
                ],
            ),
            (
                "many",
                "7",
                &["QUEEN_SHARDS must be", "QUEEN_PIN names CPU 7"],
            ),
            ("", "0", &["QUEEN_PIN names 1 CPU for 3 shards"]),
        ] {
            let found = faults(&[], &[("QUEEN_SHARDS", shards), ("QUEEN_PIN", pin)]);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (fault, start) in found.iter().zip(expected) {
                assert!(fault.starts_with(start), "{fault}");
            }
        }
    }

    #[test]
    fn all_faults_at_once() {
        let environment = [
            ("PORT", "65536"),
            ("QUEEN_BIND_ADDR", "localhost"),
            ("QUEEN_IO", "kqueue"),
            ("QUEEN_HEAD_TIMEOUT_MS", "0"),
            ("QUEEN_MAX_CONNECTIONS", "many"),
            ("QUEEN_EPHEMERAL_LEASE_S", "86401"),
            ("QUEEN_EPHEMERAL_RETRY_LIMIT", "0"),
            ("QUEEN_EPHEMERAL_RATE", "0"),
            ("DEFAULT_TIMEOUT", "300001"),
            ("QUEEN_LOG", "queen=loud"),
        ];
        let faults = faults(&["--ttl-tick-ms", "-1"], &environment);
        assert_eq!(faults.len(), environment.len() + 1, "{faults:?}");
        for (name, _) in environment {
            assert!(faults.iter().any(|fault| fault.starts_with(name)), "{name}");
        }
        for part in [
            "--ttl-tick-ms must be a whole number from 1 to 60000",
            "QUEEN_HEAD_TIMEOUT_MS must be a whole number from 1 to 3600000",
        ] {
            assert!(faults.iter().any(|fault| fault.starts_with(part)), "{part}");
        }
    }

    #[test]
    fn an_unknown_flag_is_a_fault() {
        assert!(faults(&["--prot", "1"], &[])[0].contains("--prot"));
    }

    #[test]
    fn help_and_version() {
        let Err(ConfigStop::Message(help)) = load(&["--help"], &[]) else {
            panic!("help is a message")
        };
        for name in setting_names() {
            assert!(help.contains(name), "{name}");
        }
        assert!(help.contains("[default: 6632]"));
        let (flags, after) = help
            .split_once("Environment only, because flags are shown to every user")
            .expect("the help says which settings have no flag");
        for name in ["DATABASE_URL", "PG_PASSWORD"] {
            assert!(after.contains(&format!("\n  {name}\n")), "{after}");
        }
        assert!(!flags.contains("--database-url") && !flags.contains("--pg-password"));
        let Err(ConfigStop::Message(version)) = load(&["--version"], &[]) else {
            panic!("the version is a message")
        };
        assert_eq!(version, format!("queen {}\n", env!("CARGO_PKG_VERSION")));
    }
}
