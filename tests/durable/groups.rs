//! Groups that operators forget or move.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{Queue, Rig};
use crate::support::{encode, eventually, unique};

#[test]
fn pops_that_wait_are_counted_and_a_start_warns_of_nothing() {
    let queue = Queue::configured(json!({}));
    let path = format!(
        "/api/v1/pop/queue/{}?wait=true&timeout=30000",
        encode(&queue.name)
    );
    let mut client = queue.client();
    client.send("GET", &path, None);
    let broker = &Rig::shared().broker;
    let waiting = || broker.sample("queen_parked_long_polls{queue=\"*\"}");
    eventually("it waits", || waiting() >= 1.0);
    queue.push("p", &[1]);
    assert_eq!(client.read().expect(200)["messages"][0]["data"], 1);
    let output = broker.output();
    assert!(!output.contains("degraded"), "{output}");
}

#[test]
fn a_group_that_is_deleted_gets_everything_again() {
    for registration in [true, false] {
        let queue = Queue::configured(json!({}));
        let group = unique("g/1");
        queue.push("a", &[1, 2]);
        queue.push("b", &[3]);
        assert_eq!(queue.settle_all(&group), 3);
        assert!(queue.pop_numbers(&group).is_empty());
        let path = format!("{}?deleteMetadata={registration}", queue.group_path(&group));
        let answer = queue.delete(&path).expect(200);
        assert_eq!(
            answer,
            json!({
                "success": true, "consumerGroup": group, "queueName": queue.name,
                "deletedPartitions": 2, "metadataDeleted": registration,
            })
        );
        assert_eq!(queue.pop_numbers(&group), [1, 2, 3]);
    }
}

#[test]
fn a_group_is_deleted_in_all_queues_at_once() {
    let (one, other) = (Queue::configured(json!({})), Queue::configured(json!({})));
    let group = unique("everywhere");
    for queue in [&one, &other] {
        queue.push("a", &[1]);
        assert_eq!(queue.settle_all(&group), 1);
    }
    let path = format!("consumer-groups/{}", encode(&group));
    let answer = one.delete(&path).expect(200);
    assert_eq!(
        (&answer["deletedPartitions"], &answer["metadataDeleted"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(one.pop_numbers(&group), [1]);
    assert_eq!(other.pop_numbers(&group), [1]);
    let unknown = one
        .delete(&format!("consumer-groups/{}", unique("nobody")))
        .expect(200);
    assert_eq!(
        (&unknown["success"], &unknown["deletedPartitions"]),
        (&json!(true), &json!(0))
    );
}

#[track_caller]
fn seek(queue: &Queue, group: &str, body: &Value) -> Value {
    let path = format!("{}/seek", queue.group_path(group));
    queue.post(&path, body).expect(200)
}

#[test]
fn a_seek_moves_a_group_wherever_it_is_to_be() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[0, 1, 2, 3]);
    assert_eq!(queue.settle_all("g"), 4);
    let answer = seek(&queue, "g", &json!({"timestamp": "1970-01-01T00:00:00Z"}));
    assert_eq!(
        answer,
        json!({
            "success": true, "consumerGroup": "g", "queueName": queue.name, "seekToEnd": false,
            "targetTimestamp": "1970-01-01T00:00:00Z", "partitionsUpdated": 1,
        })
    );
    // A lease ends with a seek, and nothing is charged for it.
    assert_eq!(queue.pop_numbers("g"), [0, 1, 2, 3]);
    assert!(queue.pop_numbers("g").is_empty());
    seek(&queue, "g", &json!({"offset": 2}));
    assert_eq!(queue.pop_numbers("g"), [2, 3]);
    seek(&queue, "g", &json!({"offset": 99}));
    assert!(queue.pop_numbers("g").is_empty());
    let answer = seek(&queue, "g", &json!({"toEnd": true}));
    assert_eq!(
        (&answer["seekToEnd"], &answer["targetTimestamp"]),
        (&json!(true), &Value::Null)
    );
    assert!(queue.pop_numbers("g").is_empty());
    queue.push("p", &[4]);
    assert_eq!(queue.pop_numbers("g"), [4]);
    // A group that is new starts where it is put.
    seek(&queue, "new", &json!({"offset": 3}));
    assert_eq!(queue.pop_numbers("new"), [3, 4]);
}

#[test]
fn a_seek_in_one_partition_leaves_the_others() {
    let queue = Queue::configured(json!({}));
    queue.push("a/1", &[1, 2]);
    queue.push("b", &[3, 4]);
    assert_eq!(queue.settle_all("g"), 4);
    let path = format!("{}/partitions/a%2F1/seek", queue.group_path("g"));
    let answer = queue.post(&path, &json!({"offset": 0})).expect(200);
    assert_eq!(
        (&answer["partitionName"], &answer["updated"]),
        (&json!("a/1"), &json!(true))
    );
    assert_eq!(queue.pop_numbers("g"), [1, 2]);
    for body in ["", "{}"] {
        let answer = queue.post_raw(&path, body).expect(200);
        assert_eq!(answer["seekToEnd"], true);
    }
    assert!(queue.pop_numbers("g").is_empty());
    let missing = queue.group_path("g") + "/partitions/x/seek";
    let answer = queue.post(&missing, &json!({})).expect(404);
    assert_eq!(
        (&answer["success"], &answer["updated"]),
        (&json!(false), &json!(false))
    );
}

#[test]
fn a_seek_wakes_who_waits() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[1]);
    assert_eq!(queue.settle_all("g"), 1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let since = Instant::now();
            (
                queue.pop("g", "batch=1&wait=true&timeout=20000").len(),
                since.elapsed(),
            )
        });
        // Whether it waits already makes no difference to what it must get.
        seek(&queue, "g", &json!({"offset": 0}));
        let (count, waited) = waiting.join().expect("an answer");
        assert_eq!(count, 1);
        assert!(waited < Duration::from_secs(10), "{waited:?}");
    });
}

#[test]
fn seeks_that_make_no_sense_change_nothing() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[1]);
    assert_eq!(queue.settle_all("g"), 1);
    let path = format!("{}/seek", queue.group_path("g"));
    for body in [
        "",
        "{}",
        "[]",
        "{\"position\":\"earliest\"}",
        "{\"toEnd\":false}",
        "{\"toEnd\":\"yes\"}",
        "{\"offset\":-1}",
        "{\"offset\":0,\"toEnd\":true}",
        "{\"timestamp\":\"yesterday\"}",
        "{\"timestamp\":0}",
    ] {
        queue
            .post_raw(&path, body)
            .assert_refused(400, "bad_request");
    }
    assert!(queue.pop_numbers("g").is_empty());
    let empty = Queue::configured(json!({}));
    for name in [&*empty.name, "no such queue"] {
        let path = format!("consumer-groups/g/queues/{}/seek", encode(name));
        let answer = queue.post(&path, &json!({"toEnd": true})).expect(404);
        assert_eq!(answer["error"], "Queue not found or has no partitions");
        assert_eq!(
            (&answer["success"], &answer["queueName"]),
            (&json!(false), &json!(name))
        );
    }
    let long = format!("consumer-groups/{}/queues/q/seek", "x".repeat(513));
    queue
        .post(&long, &json!({"toEnd": true}))
        .assert_refused(400, "name_too_long");
    let path = format!("{}?deleteMetadata=maybe", queue.group_path("g"));
    queue.delete(&path).assert_refused(400, "bad_request");
}

#[test]
fn a_subscription_repeats_the_time_and_moves_nothing() {
    let queue = Queue::configured(json!({}));
    let group = unique("subscribed");
    queue.push("p", &[1]);
    assert_eq!(queue.settle_all(&group), 1);
    let path = format!("consumer-groups/{}/subscription", encode(&group));
    let time = "2026-01-31T12:00:00.123456+01:00";
    let answer = queue
        .post(&path, &json!({"subscriptionTimestamp": time}))
        .expect(200);
    assert_eq!(
        answer,
        json!({"success": true, "consumerGroup": group, "newTimestamp": time, "rowsUpdated": 1})
    );
    assert!(queue.pop_numbers(&group).is_empty());
    for body in [
        "",
        "{}",
        "{\"subscriptionTimestamp\":5}",
        "{\"subscriptionTimestamp\":\"soon\"}",
    ] {
        queue
            .post_raw(&path, body)
            .assert_refused(400, "bad_request");
    }
}
