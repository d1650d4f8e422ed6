//! Clients that want more than there is room for, or do not wait for what they have asked.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::rig::{
    PATIENCE, assert_serves, database, database_alone, declare, has_option, plan_on,
    wait_until_connected, wait_until_stored,
};
use crate::support::queue::unique;
use crate::support::{Broker, Client, eventually_within};

const CONFIGURE: &str = "/api/v1/ephemeral/configure";

/// More than the engine takes in at once, on connections that each have as many requests as one may.
const CONNECTIONS: usize = 48;
const REQUESTS: usize = 60;

/// The bytes of many requests for queues of this name.
fn requests(client: &Client, name: &str) -> Vec<u8> {
    let request = |number: usize| {
        let body = json!({"queue": format!("{name}.{number}"), "options": {"maxLength": 7}});
        client.request_bytes("POST", CONFIGURE, Some(body.to_string().as_bytes()))
    };
    (0..REQUESTS).flat_map(request).collect()
}

fn flood(broker: &Broker, name: &str) -> Vec<Client> {
    let open = |number: usize| {
        let mut client = broker.plain_client();
        let bytes = requests(&client, &format!("{name}.{number}"));
        client.send_raw(&bytes);
        client
    };
    (0..CONNECTIONS).map(open).collect()
}

#[test]
fn a_flood_of_changes_while_the_database_hangs_is_answered_in_time() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    let queue = broker.queue("served");
    declare(&queue, json!({}));
    database.server().hang();
    let begin = Instant::now();
    let mut clients = flood(&broker, &unique("flood"));
    assert_serves(&queue);
    let (mut unavailable, mut overloaded) = (0, 0);
    for client in &mut clients {
        for _ in 0..REQUESTS {
            let answer = client.read();
            match answer.status {
                503 => {
                    answer.assert_refused(503, "ephemeral_unavailable");
                    unavailable += 1;
                }
                _ => {
                    answer.assert_refused(429, "overloaded");
                    assert_eq!(answer.header("retry-after"), Some("1"));
                    overloaded += 1;
                }
            }
        }
    }
    let elapsed = begin.elapsed();
    assert!(elapsed < Duration::from_secs(6), "{elapsed:?}");
    assert_eq!(unavailable + overloaded, CONNECTIONS * REQUESTS);
    assert!(unavailable > 0);
    database.server().go_on();
    wait_until_connected(&broker);
    wait_until_stored(&queue, &json!({"maxLength": 9}));
}

#[test]
fn a_flood_of_changes_is_stored_in_few_transactions() {
    let database = database();
    let broker = plan_on(&database).start();
    let name = unique("batch");
    let begin = broker.sample("queen_engine_transactions_total");
    let mut clients = flood(&broker, &name);
    let mut stored = 0;
    for client in &mut clients {
        for _ in 0..REQUESTS {
            let answer = client.read();
            if answer.status == 201 {
                stored += 1;
            } else {
                answer.assert_refused(429, "overloaded");
            }
        }
    }
    let transactions = broker.sample("queen_engine_transactions_total") - begin;
    assert!(stored >= 1_000, "{stored}");
    assert!(transactions * 10.0 < f64::from(stored), "{transactions}");
    let question = "SELECT count(*) FROM queen.ephemeral_queue";
    let row = database.client().query_one(question, &[]);
    assert_eq!(row.expect("a count").get::<_, i64>(0), i64::from(stored));
}

#[test]
fn clients_that_vanish_after_they_have_asked_for_a_change_leave_nothing_half_done() {
    let database = database();
    let plan = plan_on(&database);
    let broker = plan.clone().start();
    let name = unique("vanished");
    for client in flood(&broker, &name) {
        client.reset();
    }
    let last = json!({"queue": "last", "options": {}});
    eventually_within(PATIENCE, "there is room for one more", || {
        broker.plain_client().post(CONFIGURE, &last).status == 201
    });
    let count = |broker: &Broker| {
        let list = broker.plain_client().get("/api/v1/ephemeral/queues");
        list.expect(200)["count"].as_i64().expect("a count")
    };
    let question = "SELECT count(*) FROM queen.ephemeral_queue";
    eventually_within(PATIENCE, "what is listed is what is stored", || {
        let row = database.client().query_one(question, &[]);
        row.expect("a count").get::<_, i64>(0) == count(&broker)
    });
    let before = count(&broker);
    broker.kill();
    let broker = broker.start_again();
    assert_eq!(count(&broker), before);
    assert!(has_option(&broker.queue_named("last"), "maxLength", 10_000));
}
