//! A database that goes away while the broker runs, and comes back.

use serde_json::json;

use crate::rig::{
    assert_serves, assert_unavailable, configure, database_alone, declare, delete, has_option,
    plan_on, wait_for_option, wait_until_away, wait_until_connected, wait_until_stored,
};
use crate::support::queue::numbers;
use crate::traffic::with_traffic;

#[test]
fn without_the_database_nothing_declared_changes_and_implicit_queues_are_served_and_deleted() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    let declared = broker.queue("declared");
    declare(&declared, json!({"maxLength": 7}));
    let other = broker.queue("other");
    let implicit = broker.queue("implicit");
    implicit.push(&numbers(0..3));
    with_traffic(&broker, &declared.name, || {
        database.server().stop();
        wait_until_away(&broker);
        assert_unavailable(&configure(&declared, json!({"maxLength": 8})));
        assert_unavailable(&configure(&implicit, json!({})));
        assert_unavailable(&configure(&other, json!({})));
        assert_unavailable(&delete(&declared));
        let body = delete(&implicit).expect(200);
        assert_eq!(body["deleted"], true, "{body}");
        assert_eq!(body["declared"], false, "{body}");
        assert_eq!(implicit.row(), None);
        assert_eq!(other.row(), None, "nothing is declared");
        assert!(has_option(&declared, "maxLength", 7));
        database.server().start_again();
        wait_until_connected(&broker);
        wait_until_stored(&declared, &json!({"maxLength": 8}));
        assert!(has_option(&declared, "maxLength", 8));
    });
    assert_eq!(declared.reset(), 0);
    assert_eq!(declared.delete(), (true, true));
}

#[test]
fn without_the_database_a_restart_loses_what_is_declared_only_until_it_is_back() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    let queue = broker.queue("declared");
    declare(&queue, json!({"maxLength": 7}));
    let name = queue.name.clone();
    database.server().kill();
    broker.kill();
    let broker = broker.start_again();
    wait_until_away(&broker);
    let queue = broker.queue_named(&name);
    assert_eq!(queue.row(), None);
    assert_serves(&queue);
    database.server().start_again();
    wait_for_option(&queue, "maxLength", 7);
    wait_until_connected(&broker);
}

#[test]
fn changes_made_by_others_meanwhile_are_seen_when_the_database_is_back() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    let (removed, changed) = (broker.queue("removed"), broker.queue("changed"));
    let (added, implicit) = (broker.queue("added"), broker.queue("implicit"));
    for queue in [&removed, &changed] {
        declare(queue, json!({"maxLength": 7}));
        queue.push(&numbers(0..3));
    }
    for queue in [&added, &implicit] {
        queue.push(&numbers(0..3));
    }
    database.server().stop();
    wait_until_away(&broker);
    // Nobody can tell this session from one that was there before the broker's came back.
    database.server().start_again();
    database.execute(&format!(
        "DELETE FROM queen.ephemeral_queue WHERE queue = '{}';
         UPDATE queen.ephemeral_queue SET options = '{{\"maxLength\": 8}}' WHERE queue = '{}';
         INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         SELECT tenant, '{}', '{{\"maxLength\": 9}}' FROM queen.ephemeral_queue LIMIT 1;",
        removed.name, changed.name, added.name
    ));
    wait_for_option(&changed, "maxLength", 8);
    wait_for_option(&added, "maxLength", 9);
    crate::rig::wait_until_unlisted(&removed);
    for queue in [&changed, &added, &implicit] {
        assert_eq!(queue.pop_payloads("group=g&batch=10"), numbers(0..3));
    }
    wait_until_connected(&broker);
}

#[test]
fn a_broker_stops_in_time_while_the_database_is_away_or_hangs() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    declare(&broker.queue("declared"), json!({}));
    database.server().hang();
    let mut waiting = broker.client();
    let body = json!({"queue": "never-stored"}).to_string();
    let target = "/api/v1/ephemeral/configure";
    waiting.send("POST", target, Some(body.as_bytes()));
    broker.terminate();
    database.server().go_on();
    database.server().stop();
    let broker = broker.start_again();
    wait_until_away(&broker);
    broker.terminate();
}
