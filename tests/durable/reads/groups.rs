//! Consumer groups, and where they are behind.

use serde_json::{Value, json};

use super::queues::find;
use crate::rig::Queue;
use crate::support::encode;

#[test]
fn a_group_is_listed_once_for_each_queue() {
    let queue = Queue::configured(json!({}));
    let group = format!("{}-group", queue.name);
    queue.push("a", &[1, 2]);
    queue.push("b", &[3]);
    let taken = queue.pop(&group, "batch=1");
    let rows = queue.get("consumer-groups").expect(200);
    let row = find(&rows, "name", &group);
    assert_eq!(
        (&row["queueName"], &row["topics"]),
        (&json!(queue.name), &json!([queue.name]))
    );
    assert_eq!((&row["members"], &row["totalLag"]), (&json!(1), &json!(3)));
    assert_eq!(
        (&row["partitionsWithLag"], &row["state"]),
        (&json!(2), &json!("Stable"))
    );
    assert_eq!(
        (&row["subscriptionMode"], &row["conflation"]),
        (&json!("all"), &json!(false))
    );
    assert!(row["subscriptionCreatedAt"].is_string() && row["maxTimeLag"].is_i64());
    queue.ack(&group, &taken, "completed");
    queue.settle_all(&group);
    let rows = queue.get("consumer-groups").expect(200);
    let row = find(&rows, "name", &group);
    assert_eq!((&row["members"], &row["totalLag"]), (&json!(0), &json!(0)));
    assert_eq!(row["partitionCursors"], 2);
}

#[test]
fn a_group_tells_of_its_places() {
    let queue = Queue::configured(json!({}));
    let group = format!("{}-group", queue.name);
    queue.push("Default", &[1, 2]);
    queue.settle_all(&group);
    queue.push("Default", &[3]);
    let path = format!("consumer-groups/{}", encode(&group));
    let detail = queue.get(&path).expect(200);
    let places = &detail[&queue.name]["partitions"];
    assert_eq!(places.as_array().map(Vec::len), Some(1), "{detail}");
    let place = find(places, "partition", "Default");
    assert_eq!(
        (&place["totalConsumed"], &place["offsetLag"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        (&place["workerId"], &place["leaseActive"]),
        (&Value::Null, &json!(false))
    );
    assert!(place["lastConsumedAt"].is_string() && place["timeLagSeconds"].is_i64());
    queue.pop(&group, "batch=1");
    let place = queue.get(&path).expect(200)[&queue.name]["partitions"][0].clone();
    assert!(
        place["workerId"].is_string() && place["leaseActive"] == true,
        "{place}"
    );
    let nobody = queue.get("consumer-groups/nobody-of-that-name").expect(200);
    assert_eq!(nobody, json!({}));
}

#[test]
fn a_group_that_has_not_popped_anything_yet_has_no_places() {
    let queue = Queue::configured(json!({}));
    let group = format!("{}-group", queue.name);
    assert!(queue.pop(&group, "batch=1").is_empty());
    let detail = queue
        .get(&format!("consumer-groups/{}", encode(&group)))
        .expect(200);
    assert_eq!(detail[&queue.name]["partitions"], json!([]));
}

#[test]
fn a_group_that_is_behind_is_told_in_snake_case() {
    let queue = Queue::configured(json!({}));
    let group = format!("{}-group", queue.name);
    queue.push("p", &[1, 2]);
    queue.ack(&group, &queue.pop(&group, "batch=1"), "completed");
    let rows = queue
        .get("consumer-groups/lagging?minLagSeconds=0")
        .expect(200);
    let row = find(&rows, "consumer_group", &group);
    assert_eq!(
        (&row["queue_name"], &row["partition_name"]),
        (&json!(queue.name), &json!("p"))
    );
    assert_eq!(
        (&row["offset_lag"], &row["worker_id"]),
        (&json!(1), &Value::Null)
    );
    assert!(row["time_lag_seconds"].is_i64() && row["lag_hours"].is_number());
    assert!(row["partition_id"].is_string() && row["oldest_unconsumed_at"].is_string());
    assert!(row["last_consumed_at"].is_string());
    let late = queue.get("consumer-groups/lagging").expect(200);
    let late = late.as_array().expect("a bare array");
    assert!(
        late.iter().all(|row| row["consumer_group"] != *group),
        "an hour is the default"
    );
}

#[test]
fn whoever_is_behind_is_told_of_however_many_there_are() {
    const PARTITIONS: usize = 1_100;
    let queue = Queue::configured(json!({}));
    let item = |partition: usize| json!({"queue": queue.name, "partition": partition.to_string()});
    let items: Vec<Value> = (0..PARTITIONS).map(item).collect();
    queue.post("push", &json!({"items": items})).expect(201);
    let group = format!("{}-group", queue.name);
    assert_eq!(queue.pop(&group, "batch=1").len(), 1);
    let rows = queue
        .get("consumer-groups/lagging?minLagSeconds=0")
        .expect(200);
    let rows = rows.as_array().expect("a bare array").iter();
    let own = rows.filter(|row| row["consumer_group"] == *group);
    assert_eq!(own.count(), PARTITIONS);
}
