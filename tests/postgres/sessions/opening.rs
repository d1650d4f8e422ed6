//! Opening: settings, what a server must be, and several hosts.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use queen::postgres::{ServerRules, Session, Target, TargetSettings};

use super::server::{CALM, PASSWORD, RULES, Server, away, refused};
use super::store::{declare, remove};
use crate::poll::step;

#[test]
fn the_session_has_its_settings() {
    let database = Server::shared().database();
    let mut session = database.open();
    assert!(session.changes(None, &mut || true).is_ok());
    let of_broker = "application_name = 'queen' AND datname = current_database()";
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE {of_broker}");
    assert_eq!(database.value(&sql), "1");
}

#[test]
fn what_a_database_has_as_its_defaults_does_not_disturb_a_session() {
    let server = Server::shared();
    let database = server.database();
    let mut operator = server.client("postgres");
    for default in [
        "statement_timeout = 1",
        "lock_timeout = 1",
        "idle_in_transaction_session_timeout = 1",
        "idle_session_timeout = 50",
        "session_replication_role = replica",
        "search_path = nowhere",
        "standard_conforming_strings = off",
        "default_transaction_isolation = serializable",
        "default_transaction_deferrable = on",
        "synchronous_commit = off",
    ] {
        let alter = format!("ALTER DATABASE {} SET {default}", database.name);
        operator.batch_execute(&alter).expect(default);
    }
    let (mut session, mut other) = (database.open(), database.open());
    let known = other.changes(None, &mut || true).expect("an answer");
    let known = known.expect("everything").revision;
    assert_eq!(session.store(&[declare("followed", "{}")], CALM), Ok(()));
    // Longer than a session may idle there.
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        step();
    }
    let changes = other.changes(Some(known), &mut || true);
    let changes = changes.expect("an answer").expect("a change");
    assert_eq!(changes.declared.len(), 1);
    assert_eq!(session.store(&[remove("followed")], CALM), Ok(()));
}

#[test]
fn fsync_off_is_refused_unless_it_is_allowed() {
    let database = Server::shared().database();
    let rules = ServerRules {
        allow_fsync_off: false,
    };
    let opened = Session::open(&database.target(), &rules, "incarnation-a", &mut || true);
    let reason = refused(opened);
    assert!(reason.contains("fsync"), "{reason}");
    // Nothing was changed there.
    assert_eq!(database.value("SELECT to_regnamespace('queen')"), "");
}

#[test]
fn another_encoding_is_refused() {
    let options = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    let database = Server::shared().database_with(options);
    let reason = refused(database.try_open());
    assert!(
        reason.contains("LATIN1") && reason.contains("UTF8"),
        "{reason}"
    );
}

#[test]
fn a_database_that_only_reads_and_has_no_schema_is_a_clear_text() {
    let database = Server::shared().database();
    database.run(&format!(
        "ALTER DATABASE {} SET default_transaction_read_only = on",
        database.name
    ));
    let reason = away(database.try_open());
    assert!(
        reason.contains("only reads") && reason.contains("nothing"),
        "{reason}"
    );
}

#[test]
fn missing_rights_are_a_clear_text_and_heal() {
    let database = Server::shared().database();
    let user = format!("poor_{}", uuid::Uuid::new_v4().simple());
    database.run(&format!("CREATE ROLE {user} LOGIN"));
    let settings = TargetSettings {
        user: Some(user.clone()),
        ..database.settings()
    };
    let target = Target::parse(&settings).expect("settings that are right");
    let open = || Session::open(&target, &RULES, "incarnation-a", &mut || true);
    let reason = away(open());
    assert!(reason.contains("GRANT CREATE ON DATABASE"), "{reason}");
    // A schema that an operator has made for it is as good as the right to make one.
    database.run(&format!("CREATE SCHEMA queen AUTHORIZATION {user}"));
    let mut session = open().expect("a session");
    assert!(session.changes(None, &mut || true).is_ok());
}

#[test]
fn the_next_host_is_tried() {
    let server = Server::shared();
    let database = server.database();
    // Nobody listens on the first, nobody answers on the second.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed_port = closed.local_addr().expect("its number").port();
    drop(closed);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_port = silent.local_addr().expect("its number").port();
    let url = format!(
        "postgres://either@127.0.0.1:{closed_port},127.0.0.1:{silent_port},127.0.0.1:{}/{}",
        server.port, database.name
    );
    let settings = TargetSettings {
        database_url: Some(url),
        password: Some(PASSWORD.to_owned()),
        ..TargetSettings::default()
    };
    let target = Target::parse(&settings).expect("settings that are right");
    Session::open(&target, &RULES, "incarnation-a", &mut || true).expect("a session");
}

#[test]
fn a_host_that_does_not_answer_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("its number").port();
    for mode in ["disable", "prefer", "require"] {
        let settings = TargetSettings {
            host: Some("127.0.0.1".to_owned()),
            port: Some(port.to_string()),
            ssl_mode: Some(mode.to_owned()),
            ..TargetSettings::default()
        };
        let target = Target::parse(&settings).expect("settings that are right");
        let begin = Instant::now();
        let mut calls = 0;
        let opened = Session::open(&target, &RULES, "incarnation-a", &mut || {
            calls += 1;
            true
        });
        let reason = away(opened);
        assert!(begin.elapsed() < Duration::from_secs(4), "{mode}");
        // Meant to be every 50 ms; the machine may be busy.
        assert!(calls >= 10, "{calls}");
        assert!(reason.contains("no answer"), "{reason}");
    }
}

#[test]
fn nobody_there_is_said_with_the_place() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = closed.local_addr().expect("its number").port();
    drop(closed);
    let settings = TargetSettings {
        host: Some("127.0.0.1".to_owned()),
        port: Some(port.to_string()),
        ..TargetSettings::default()
    };
    let target = Target::parse(&settings).expect("settings that are right");
    let reason = away(Session::open(&target, &RULES, "incarnation-a", &mut || {
        true
    }));
    assert!(reason.contains(&format!("127.0.0.1:{port}")), "{reason}");
    assert!(reason.contains("refused"), "{reason}");
}
