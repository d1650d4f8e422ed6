//! Partitions that are empty and unused for days.

use serde_json::{Value, json};

use crate::rig::{PATIENCE, wait_until_connected};
use crate::support::{Broker, Client, Database, Plan, Server, eventually_within, unique};

fn start(database: &Database) -> Broker {
    let plan = Plan::any().set("QUEEN_DURABLE", "on");
    let plan = plan.set("DATABASE_URL", database.url());
    let plan = plan.set("RETENTION_INTERVAL", 100);
    let broker = plan.set("PARTITION_CLEANUP_DAYS", 1).start();
    wait_until_connected(&broker);
    broker
}

#[track_caller]
fn push(client: &mut Client, queue: &str, partition: &str) -> Value {
    let item = json!({"queue": queue, "partition": partition, "payload": partition});
    let answer = client.post("/api/v1/push", &json!({"items": [item]}));
    answer.expect(201)[0]["offset"].clone()
}

/// The partitions of what a group takes.
#[track_caller]
fn take(client: &mut Client, queue: &str) -> Vec<Value> {
    let path = format!(
        "/api/v1/pop/queue/{queue}?consumerGroup=g&subscriptionMode=all&autoAck=true&partitions=9"
    );
    let answer = client.get(&path).expect(200);
    let messages = answer["messages"].as_array().expect("messages").iter();
    messages.map(|message| message["data"].clone()).collect()
}

#[test]
fn a_partition_that_nobody_uses_goes_and_comes_back_when_it_is_used() {
    let database = Server::start().database();
    let queue = unique("idle");
    let broker = start(&database);
    let mut client = broker.plain_client();
    let options = json!({"retentionEnabled": true, "retentionSeconds": 1});
    let body = json!({"queue": queue, "options": options});
    client.post("/api/v1/configure", &body).expect(200);
    for partition in ["old", "new"] {
        push(&mut client, &queue, partition);
    }
    assert_eq!(take(&mut client, &queue).len(), 2);
    broker.kill();
    let two_days_us = 2 * 24 * 60 * 60 * 1_000_000_i64;
    database.execute(&format!(
        "UPDATE queen.durable_segment AS aged SET created_us = aged.created_us - {two_days_us}
           FROM queen.durable_partition AS home
           WHERE home.id = aged.partition_id AND home.name = 'old';
         UPDATE queen.durable_cursor SET settled_us = settled_us - {two_days_us}"
    ));
    let broker = start(&database);
    let mut client = broker.plain_client();
    let path = format!("/api/v1/resources/queues/{queue}");
    eventually_within(PATIENCE, "the old one is gone", || {
        let detail = client.get(&path).expect(200);
        let partitions = detail["partitions"].as_array().expect("partitions");
        partitions.len() == 1 && partitions[0]["name"] == "new"
    });
    assert_eq!(push(&mut client, &queue, "old"), 0);
    assert_eq!(push(&mut client, &queue, "new"), 1);
    let mut taken = take(&mut client, &queue);
    taken.sort_by_key(ToString::to_string);
    assert_eq!(taken, ["new", "old"]);
}
