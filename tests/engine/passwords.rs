//! A password is printed nowhere, whatever becomes of the login.

use serde_json::json;

use crate::rig::{
    DATABASE_URL, database, declare, durable, health, wait_until_away, wait_until_connected,
    wait_until_degraded,
};
use crate::support::broker::free_port;
use crate::support::setup::in_parallel;
use crate::support::{Broker, Database, Plan, encode};

/// With everything that means something in a URL or in a connection string.
const PASSWORD: &str = "s3cret'word @:/?#%20\\\"";
const WRONG: &str = "wr0ng'word @:/?#%20\\\"";

/// Parts of both, as they are and as a URL has them, that are in nothing else.
const TRACES: [&str; 2] = ["s3cret", "wr0ng"];

/// A user who has to say the password.
fn login(database: &Database) -> String {
    let user = format!("{}_user", database.name());
    let quoted = PASSWORD.replace('\'', "''");
    database.execute(&format!(
        "SET password_encryption = 'scram-sha-256';
         CREATE ROLE {user} LOGIN PASSWORD '{quoted}' IN ROLE with_password;
         GRANT CREATE ON DATABASE {} TO {user}",
        database.name()
    ));
    user
}

fn url_plan(database: &Database, user: &str, password: &str) -> Plan {
    let login = format!("{user}:{}", encode(password));
    durable().set(DATABASE_URL, database.url_of(&login))
}

fn parts_plan(database: &Database, user: &str, password: &str) -> Plan {
    durable()
        .set("PG_HOST", "127.0.0.1")
        .set("PG_PORT", database.server().port())
        .set("PG_USER", user)
        .set("PG_PASSWORD", password)
        .set("PG_DATABASE", database.name())
}

fn loud(plan: Plan) -> Plan {
    plan.set("QUEEN_LOG", "trace")
}

#[track_caller]
fn assert_untold(text: &str) {
    let line = text
        .lines()
        .find(|line| TRACES.iter().any(|trace| line.contains(trace)));
    assert_eq!(line, None);
}

#[track_caller]
fn assert_says_nothing(broker: &Broker) {
    assert_untold(&health(broker).to_string());
    assert_untold(&broker.metrics());
    broker.terminate();
    assert_untold(&broker.output());
}

#[test]
fn a_right_password_is_printed_nowhere() {
    let database = database();
    let user = login(&database);
    let plans = [
        url_plan(&database, &user, PASSWORD),
        parts_plan(&database, &user, PASSWORD),
    ];
    in_parallel(&plans, |plan| {
        let broker = loud(plan.clone()).start();
        wait_until_connected(&broker);
        declare(&broker.queue("secret"), json!({}));
        assert_says_nothing(&broker);
    });
}

#[test]
fn a_wrong_password_is_printed_nowhere_and_the_reason_is_told() {
    let database = database();
    let user = login(&database);
    let plans = [
        url_plan(&database, &user, WRONG),
        parts_plan(&database, &user, WRONG),
    ];
    in_parallel(&plans, |plan| {
        let broker = loud(plan.clone()).start();
        let reason = wait_until_degraded(&broker);
        assert!(reason.contains("password"), "{reason}");
        assert_says_nothing(&broker);
    });
}

#[test]
fn the_password_for_a_server_that_is_not_there_is_printed_nowhere() {
    let login = format!("user:{}", encode(PASSWORD));
    let url = format!("postgres://{login}@127.0.0.1:{}/nowhere", free_port());
    let broker = loud(durable().set(DATABASE_URL, url)).start();
    wait_until_away(&broker);
    assert_says_nothing(&broker);
}

#[test]
fn settings_that_cannot_be_used_are_reported_without_the_password_in_them() {
    let password = encode(PASSWORD);
    let urls = [
        format!("postgres://user:{PASSWORD}@127.0.0.1:1/x"),
        format!("postgres://user:{password}@127.0.0.1:no-port/x"),
        format!("mysql://user:{password}@127.0.0.1/x"),
        format!("postgres://user:{password}@127.0.0.1/x?sslmode=perhaps"),
        format!("postgres://user:{password}@127.0.0.1/x?no_such_thing=1"),
        format!("host=127.0.0.1 user=user password={password} port=none"),
        format!("user:{password}"),
    ];
    for url in urls {
        let plan = loud(durable().set(DATABASE_URL, &url));
        let failure = plan.start_in_vain(free_port());
        let status = failure.status.and_then(|status| status.code());
        assert_eq!(status, Some(78), "{url}: {failure:?}");
        assert!(failure.output.contains(DATABASE_URL), "{failure:?}");
        assert_untold(&failure.output);
    }
}

#[test]
fn the_arguments_of_the_process_hold_no_password() {
    let database = database();
    let user = login(&database);
    let broker = parts_plan(&database, &user, PASSWORD).start();
    wait_until_connected(&broker);
    let line = std::fs::read(format!("/proc/{}/cmdline", broker.pid())).expect("it runs");
    assert_untold(&String::from_utf8_lossy(&line));
}
