//! Servers that the broker must not use as they are, and what it says then.

use serde_json::json;

use crate::rig::{
    assert_serves, assert_unavailable, configure, database, declare, end_sessions, plan_on,
    wait_until_connected, wait_until_degraded,
};
use crate::support::broker::free_port;
use crate::support::poll::eventually;
use crate::support::{Broker, Database, Plan, Server};

/// Exit status of a broker whose server must not be used.
const STATUS_SERVER: i32 = 76;

/// The start is refused for a reason that time does not heal.
#[track_caller]
fn assert_refuses_the_start(plan: &Plan, words: &[&str]) {
    let failure = plan.start_in_vain(free_port());
    let status = failure.status.and_then(|status| status.code());
    assert_eq!(status, Some(STATUS_SERVER), "{failure:?}");
    for word in words {
        assert!(failure.output.contains(word), "{word} in {failure:?}");
    }
}

/// It says what is wrong in health and log, and serves what needs no database.
#[track_caller]
fn assert_waits_for_the_server(broker: &Broker, word: &str) {
    eventually("health says so", || {
        wait_until_degraded(broker).contains(word)
    });
    eventually("the log says so, too", || broker.output().contains(word));
    let queue = broker.queue("served");
    assert_serves(&queue);
    assert_unavailable(&configure(&queue, json!({})));
}

#[test]
fn a_server_that_does_not_flush_to_disk_is_refused_unless_it_is_allowed() {
    let database = Server::start_with(&["fsync=off"]).database();
    let plan = plan_on(&database);
    assert_refuses_the_start(&plan, &["fsync", "QUEEN_ALLOW_FSYNC_OFF"]);
    let broker = plan.set("QUEEN_ALLOW_FSYNC_OFF", true).start();
    wait_until_connected(&broker);
    declare(&broker.queue("allowed"), json!({}));
}

#[test]
fn a_database_of_a_newer_schema_is_refused_and_left_alone() {
    let database = database();
    let plan = plan_on(&database);
    let broker = plan.clone().start();
    declare(&broker.queue("kept"), json!({}));
    broker.terminate();
    let newer = "INSERT INTO queen.migration (number, name) VALUES (1000000, 'later')";
    database.execute(newer);
    assert_refuses_the_start(&plan, &["newer", "1000000"]);
    assert_eq!(rows(&database), 1);
}

#[test]
fn a_database_that_a_newer_broker_has_upgraded_is_left_alone_by_one_that_runs() {
    let database = database();
    let broker = plan_on(&database).start();
    wait_until_connected(&broker);
    let newer = "INSERT INTO queen.migration (number, name) VALUES (1000000, 'later')";
    database.execute(newer);
    end_sessions(&database);
    assert_waits_for_the_server(&broker, "newer");
    database.execute("DELETE FROM queen.migration WHERE number = 1000000");
    wait_until_connected(&broker);
    declare(&broker.queue("healed"), json!({}));
}

fn rows(database: &Database) -> i64 {
    let question = "SELECT count(*) FROM queen.ephemeral_queue";
    let row = database.client().query_one(question, &[]);
    row.expect("a count").get(0)
}

#[test]
fn a_database_of_another_encoding_is_refused() {
    let database = database();
    let other = format!("{}_latin", database.name());
    database.execute(&format!(
        "CREATE DATABASE {other} ENCODING 'LATIN1' TEMPLATE template0"
    ));
    let url = database.url().replace(database.name(), &other);
    let plan = plan_on(&database).set("DATABASE_URL", url);
    assert_refuses_the_start(&plan, &["UTF8", "LATIN1"]);
}

#[test]
fn a_login_that_may_not_create_the_schema_is_told_what_it_lacks() {
    let database = database();
    let login = format!("{}_guest", database.name());
    database.execute(&format!("CREATE ROLE {login} LOGIN"));
    let url = database.url_of(&login);
    let broker = plan_on(&database).set("DATABASE_URL", url).start();
    assert_waits_for_the_server(&broker, "permission denied");
    // It heals when the right is given.
    let name = database.name();
    database.execute(&format!("GRANT CREATE ON DATABASE {name} TO {login}"));
    wait_until_connected(&broker);
}

#[test]
fn a_database_that_is_not_there_is_named_and_used_when_it_is_created() {
    let database = database();
    let other = format!("{}_later", database.name());
    let url = database.url().replace(database.name(), &other);
    let broker = plan_on(&database).set("DATABASE_URL", url).start();
    assert_waits_for_the_server(&broker, &other);
    database.execute(&format!("CREATE DATABASE {other}"));
    wait_until_connected(&broker);
    declare(&broker.queue("later"), json!({}));
}
