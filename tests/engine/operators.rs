//! What operators do to a database while brokers use it.

use serde_json::json;

use crate::rig::{
    PATIENCE, database, database_alone, declare, has_option, health, plan_on, wait_for_option,
    wait_until_away, wait_until_connected, wait_until_stored, wait_until_unlisted,
};
use crate::support::home::copy;
use crate::support::queue::numbers;
use crate::support::{Broker, eventually_within};

fn count(broker: &Broker) -> u64 {
    let list = broker
        .plain_client()
        .get("/api/v1/ephemeral/queues?limit=1");
    let list = list.expect(200);
    assert!(list["count"].is_u64(), "{list}");
    let whole = broker.plain_client().get("/api/v1/ephemeral/queues");
    whole.expect(200)["count"].as_u64().expect("a count")
}

#[test]
fn thousands_of_declarations_in_one_transaction_are_followed_and_so_is_their_removal() {
    let database = database();
    let broker = plan_on(&database).start();
    let implicit = broker.queue("implicit");
    implicit.push(&numbers(0..3));
    database.execute(&format!(
        "INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         SELECT '{}', 'many.' || number, '{{\"maxLength\": 7}}' FROM generate_series(1, 3000) AS number",
        queen::model::TenantId::DEFAULT
    ));
    eventually_within(PATIENCE, "all are declared", || count(&broker) == 3_001);
    assert!(has_option(&broker.queue_named("many.3000"), "maxLength", 7));
    database.execute("DELETE FROM queen.ephemeral_queue WHERE queue <> 'many.7'");
    eventually_within(PATIENCE, "all but one are gone", || count(&broker) == 2);
    database.execute("TRUNCATE queen.ephemeral_queue");
    eventually_within(PATIENCE, "all are gone", || count(&broker) == 1);
    assert_eq!(implicit.pop_payloads("group=g&batch=10"), numbers(0..3));
    declare(&implicit, json!({}));
}

#[test]
fn a_database_that_is_restored_from_a_backup_is_followed() {
    let database = database_alone();
    let server = database.server();
    let broker = plan_on(&database).start();
    let (kept, lost) = (broker.queue("kept"), broker.queue("lost"));
    declare(&kept, json!({"maxLength": 7}));
    server.stop();
    let backup = server.home().top().join("backup");
    copy(&server.home().cluster(), &backup);
    server.start_again();
    wait_until_connected(&broker);
    declare(&kept, json!({"maxLength": 8}));
    declare(&lost, json!({}));
    server.stop();
    wait_until_away(&broker);
    std::fs::remove_dir_all(server.home().cluster()).expect("the newer one");
    std::fs::rename(&backup, server.home().cluster()).expect("the backup");
    server.start_again();
    wait_until_connected(&broker);
    wait_for_option(&kept, "maxLength", 7);
    wait_until_unlisted(&lost);
    declare(&lost, json!({"maxLength": 9}));
    let next = plan_on(&database).start();
    assert!(has_option(&next.queue_named(&kept.name), "maxLength", 7));
    assert!(has_option(&next.queue_named(&lost.name), "maxLength", 9));
}

#[test]
fn a_schema_that_is_dropped_under_a_broker_is_told_or_made_anew() {
    let database = database();
    let broker = plan_on(&database).start();
    let queue = broker.queue("declared");
    declare(&queue, json!({"maxLength": 7}));
    database.execute("DROP SCHEMA queen CASCADE");
    let implicit = broker.queue("implicit");
    eventually_within(PATIENCE, "it is noticed", || {
        implicit.push(&numbers(0..1));
        implicit.reset();
        let told = health(&broker)["status"] == "degraded";
        let made = "SELECT to_regclass('queen.ephemeral_queue') IS NOT NULL";
        let row = database.client().query_one(made, &[]);
        told || row.expect("an answer").get(0)
    });
    wait_until_connected(&broker);
    wait_until_stored(&queue, &json!({"maxLength": 8}));
    let next = plan_on(&database).start();
    assert!(has_option(&next.queue_named(&queue.name), "maxLength", 8));
}

#[test]
fn statements_of_others_that_take_long_do_not_hold_up_what_is_only_read() {
    let database = database();
    let broker = plan_on(&database).start();
    declare(&broker.queue("declared"), json!({}));
    let mut somebody = database.client();
    somebody
        .batch_execute("BEGIN; SELECT * FROM queen.ephemeral_queue")
        .expect("a snapshot");
    let queue = broker.queue("meanwhile");
    declare(&queue, json!({"maxLength": 7}));
    assert_eq!(queue.delete(), (true, true));
    somebody.batch_execute("COMMIT").expect("it ends");
    assert_eq!(health(&broker)["database"], "connected");
}

#[test]
fn a_declaration_that_the_database_refuses_is_500_and_sinks_no_other() {
    let database = database();
    let broker = plan_on(&database).start();
    database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'not this one'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON queen.ephemeral_queue FOR EACH ROW
         WHEN (NEW.queue LIKE 'poison%') EXECUTE FUNCTION refuse()",
    );
    let target = "/api/v1/ephemeral/configure";
    let mut client = broker.plain_client();
    // In one batch with others on both sides.
    let names = ["a", "b", "poison", "c", "poison-too", "d"];
    for name in names {
        let body = json!({"queue": name, "options": {}}).to_string();
        client.send("POST", target, Some(body.as_bytes()));
    }
    for name in names {
        let answer = client.read();
        if name.starts_with("poison") {
            answer.assert_refused(500, "ephemeral_configure_failed");
            assert!(answer.text().contains("not this one"), "{}", answer.text());
            assert_eq!(broker.queue_named(name).row(), None);
        } else {
            answer.expect(201);
        }
    }
    assert_eq!(health(&broker)["status"], "healthy");
    assert_eq!(count(&broker), 4);
}
