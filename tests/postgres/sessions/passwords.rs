//! The password is nowhere but on its way to the server: not in what is shown, said or logged, and not
//! in a command line.

use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use queen::postgres::{Session, Target, TargetSettings};
use tracing_subscriber::fmt::MakeWriter;

use super::server::{CALM, Database, PASSWORD, RULES, Server, away};
use super::store::declare;

/// Percent-encoded for a URL.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The server in each form that it can be named in.
fn forms(database: &Database, password: &str) -> [TargetSettings; 3] {
    let (port, name) = (database.server.port, &database.name);
    let escaped = password.replace('\\', r"\\").replace('\'', r"\'");
    let of_url = |text: String| TargetSettings {
        database_url: Some(text),
        ..TargetSettings::default()
    };
    [
        of_url(format!(
            "postgres://either:{}@127.0.0.1:{port}/{name}",
            encoded(password)
        )),
        of_url(format!(
            "host=127.0.0.1 port={port} dbname={name} user=either password='{escaped}'"
        )),
        TargetSettings {
            password: Some(password.to_owned()),
            ..database.network_settings("either")
        },
    ]
}

/// Takes what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

#[test]
fn every_form_logs_in_and_nothing_shows_the_password() {
    let database = Server::shared().database();
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let mut shown = Vec::new();
    tracing::subscriber::with_default(subscriber, || {
        for settings in forms(&database, PASSWORD) {
            let target = Target::parse(&settings).expect("settings that are right");
            let mut session =
                Session::open(&target, &RULES, "incarnation-a", &mut || true).expect("a session");
            session.store(&[declare("a", "{}")], CALM).expect("stored");
            shown.push(format!("{settings:?} {target:?} {target} {session:?}"));
            shown.push(command_lines());
        }
        for settings in forms(&database, "wrong-s3cret-pass") {
            let target = Target::parse(&settings).expect("settings that are right");
            let opened = Session::open(&target, &RULES, "incarnation-a", &mut || true);
            let reason = away(opened);
            assert!(
                reason.contains("password authentication failed"),
                "{reason}"
            );
            shown.push(format!("{settings:?} {target:?} {target} {reason}"));
        }
    });
    shown.push(String::from_utf8_lossy(&log.0.lock().expect("no panic")).into_owned());
    for text in shown {
        assert!(!text.contains("s3cret-pass"), "{text}");
    }
}

/// The command lines of all processes, as `ps` shows them.
fn command_lines() -> String {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect::<Vec<String>>()
        .join("\n")
}

#[test]
fn settings_that_are_wrong_are_named_without_their_values() {
    let of_url = |text: &str| TargetSettings {
        database_url: Some(text.to_owned()),
        ..TargetSettings::default()
    };
    for (settings, text) in [
        (of_url("postgres://u:a@s3cret@h/d"), "DATABASE_URL"),
        (of_url("postgres://u:s3cret/x@h/d"), "DATABASE_URL"),
        (of_url("postgres://u:s3cret@h/d?s3cret=1"), "DATABASE_URL"),
        (of_url("postgres://u:s3cret@h/d?sslmode=s3cret"), "sslmode"),
        (of_url("postgres://u:s3cret@h:70000/d"), "DATABASE_URL"),
        (of_url("host=h password=my s3cret word"), "DATABASE_URL"),
        (of_url("mongodb://u:s3cret@h/d"), "DATABASE_URL"),
        (
            TargetSettings {
                port: Some("s3cret".to_owned()),
                ..TargetSettings::default()
            },
            "PG_PORT",
        ),
        (
            TargetSettings {
                ssl_mode: Some("s3cret".to_owned()),
                ..TargetSettings::default()
            },
            "PG_SSLMODE",
        ),
    ] {
        let faults = Target::parse(&settings).expect_err("settings that are wrong");
        let faults = faults.join("\n");
        assert!(faults.contains(text), "{faults}");
        assert!(!faults.contains("s3cret"), "{faults}");
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
