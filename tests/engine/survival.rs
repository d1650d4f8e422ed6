//! What survives what: one test per line of the README's table.

use serde_json::{Value, json};

use crate::rig::{
    database, database_alone, declare, durable, has_option, health, plan_on, wait_for_option,
    wait_until_connected,
};
use crate::support::life::{ENDS, End, Life};
use crate::support::queue::numbers;
use crate::support::setup::in_parallel;
use crate::support::{Broker, Queue};
use crate::traffic::with_traffic;

const LIST: &str = "/api/v1/ephemeral/queues";

/// The queues that are listed.
#[track_caller]
fn listed(queue: &Queue) -> Vec<Value> {
    let list = queue.get(LIST).expect(200);
    list["queues"].as_array().expect("queues").clone()
}

/// Declares, pushes and leases, ends the broker, and looks at what the next one has.
#[track_caller]
fn assert_keeps_the_declaration_alone(end: End) {
    let database = database();
    let life = Life::begin(end, plan_on(&database));
    let queue = life.broker.queue("declared");
    declare(&queue, json!({"maxLength": 9}));
    // What is declared last counts, whole.
    declare(&queue, json!({"maxLength": 7, "ttlSeconds": 300}));
    queue.push(&numbers(0..3));
    let leased = queue.pop_one("group=g");
    life.broker.queue("implicit").push(&numbers(0..3));
    let name = queue.name.clone();

    let next = life.end();
    let queue = next.queue_named(&name);
    if end == End::Failover {
        // The last declaration may still be on its way to the other broker.
        wait_for_option(&queue, "maxLength", 7);
    }
    let rows = listed(&queue);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!(row["queue"], *name);
    assert_eq!(row["tier"], "declared");
    assert_eq!(row["options"]["maxLength"], 7);
    assert_eq!(row["options"]["ttlSeconds"], 300);
    assert_eq!(row["depth"], 0);
    assert_eq!(row["bytes"], 0);
    assert_eq!(queue.pop("group=g"), []);
    let outcome = queue.settle_one(Some("g"), &leased.id, "completed");
    assert_eq!(outcome, "stale");
    queue.push(&numbers(0..7));
    let answer = queue.try_push(None, &numbers(7..8));
    answer.assert_refused(429, "queue_full");
}

#[test]
fn row_55_a_clean_exit_keeps_the_declared_configuration_and_nothing_else() {
    assert_keeps_the_declaration_alone(End::CleanExit);
}

#[test]
fn a_crash_keeps_the_declared_configuration_and_nothing_else() {
    assert_keeps_the_declaration_alone(End::Crash);
}

#[test]
fn a_deploy_keeps_the_declared_configuration_and_nothing_else() {
    assert_keeps_the_declaration_alone(End::Deploy);
}

#[test]
fn a_failover_to_another_broker_keeps_the_declared_configuration_and_nothing_else() {
    assert_keeps_the_declaration_alone(End::Failover);
}

#[test]
fn an_implicit_queue_survives_no_clean_exit_crash_deploy_or_failover() {
    in_parallel(&ENDS, |&end| {
        let database = database();
        let life = Life::begin(end, plan_on(&database));
        let queue = life.broker.queue("implicit");
        queue.push(&numbers(0..3));
        let name = queue.name.clone();
        let next = life.end();
        let queue = next.queue_named(&name);
        assert_eq!(listed(&queue), Vec::<Value>::new());
        queue
            .try_depth("")
            .assert_refused(404, "ephemeral_queue_not_found");
        assert_eq!(queue.pop("group=g"), []);
    });
}

#[test]
fn a_restart_of_postgresql_changes_nothing() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    let declared = broker.queue("declared");
    declare(&declared, json!({"maxLength": 7}));
    let busy = broker.queue("busy");
    declare(&busy, json!({}));
    let implicit = broker.queue("implicit");
    let mut leased = Vec::new();
    for queue in [&declared, &implicit] {
        queue.push(&numbers(0..3));
        leased.push(queue.pop_one("group=g"));
    }
    let waited_for = broker.queue("waited-for");
    let mut parked = waited_for.park(broker.client(), "group=g");
    with_traffic(&broker, &busy.name, || {
        database.server().stop();
        crate::rig::wait_until_away(&broker);
        database.server().start_again();
        wait_until_connected(&broker);
    });
    parked.assert_waiting();
    waited_for.push(&[json!("at last")]);
    assert_eq!(parked.message().payload, "at last");
    assert!(has_option(&declared, "maxLength", 7));
    for (queue, message) in [&declared, &implicit].into_iter().zip(leased) {
        queue.ack(Some("g"), &[message]);
        assert_eq!(queue.pop_payloads("group=g&batch=10"), numbers(1..3));
    }
}

#[test]
fn a_deleted_declaration_does_not_come_back() {
    let database = database();
    let broker = plan_on(&database).start();
    let queue = broker.queue("deleted");
    declare(&queue, json!({"maxLength": 7}));
    assert_eq!(queue.delete(), (true, true));
    assert_eq!(queue.delete(), (false, false));
    assert_eq!(queue.row(), None);
    broker.kill();
    let next = broker.start_again();
    assert_eq!(listed(&next.queue("any")), Vec::<Value>::new());
}

#[test]
fn every_tenant_gets_its_own_declarations_back() {
    const FIRST: &str = "11111111-2222-4333-8444-555555555555";
    const SECOND: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
    const FIELD: &str = "x-queen-tenant";
    let database = database();
    let broker = plan_on(&database)
        .set("QUEEN_TENANCY_HEADER", true)
        .set("QUEEN_EPHEMERAL_REQUIRE_GRANT", false)
        .start();
    let of = |broker: &Broker, tenant| broker.queue_named("same").with_field(FIELD, tenant);
    declare(&of(&broker, FIRST), json!({"maxLength": 7}));
    declare(&of(&broker, SECOND), json!({"maxLength": 8}));
    broker.terminate();
    let next = broker.start_again();
    assert!(has_option(&of(&next, FIRST), "maxLength", 7));
    assert!(has_option(&of(&next, SECOND), "maxLength", 8));
}

#[test]
fn options_are_stored_exactly_as_they_were_sent() {
    let database = database();
    let broker = plan_on(&database).start();
    let queue = broker.queue("as-sent");
    let sent = r#"{ "retryLimit":3,"policy" : "dropOldest", "maxLength": 99999999 }"#;
    let body = format!(r#"{{"queue":"{}","options":{sent}}}"#, queue.name);
    let answer = queue.post_raw("/api/v1/ephemeral/configure", body.as_bytes());
    answer.expect(201);
    assert!(answer.text().contains(sent), "{}", answer.text());
    let question = "SELECT options FROM queen.ephemeral_queue WHERE queue = $1";
    let row = database.client().query_one(question, &[&queue.name]);
    assert_eq!(row.expect("a row").get::<_, String>(0), sent);
    let before = queue.row().expect("it is listed");
    broker.terminate();
    let next = broker.start_again();
    let after = next.queue_named(&queue.name).row().expect("it is listed");
    assert_eq!(after["options"], before["options"]);
}

#[test]
fn without_a_database_a_declaration_says_that_it_does_not_last() {
    let broker = durable().set("QUEEN_DURABLE", "off").start();
    let body = health(&broker);
    assert_eq!(body["status"], "healthy", "{body}");
    assert_eq!(body["database"], "off", "{body}");
    let queue = broker.queue("fleeting");
    let body = queue.configure(json!({"maxLength": 7}));
    assert_eq!(body["declared"], true, "{body}");
    assert_eq!(body["durable"], false, "{body}");
    assert!(queue.delete().0);
}
