//! What a pop gets beside its messages: time to gather, sizes that the broker chooses, and a start; and
//! what a request is told that asks for more, or less, than there can be.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{Queue, wait_until_connected};
use crate::support::{Plan, Server, encode, unique};

#[test]
fn a_waiting_pop_gathers_for_as_long_as_its_queue_says() {
    let queue = Queue::configured(json!({"minPopWaitTime": 400}));
    queue.push("p", &[1]);
    let begin = Instant::now();
    assert_eq!(queue.pop("g", "batch=10&wait=true&timeout=30000").len(), 1);
    assert!(begin.elapsed() >= Duration::from_millis(400));
    assert!(
        begin.elapsed() < Duration::from_secs(25),
        "it was not held to its end"
    );
}

#[test]
fn what_autopilot_has_chosen_is_told() {
    let queue = Queue::configured(json!({}));
    let chosen = |number: u64, query: &str| {
        queue.push("p", &[number]);
        let path = format!("pop/queue/{}?autoAck=true{query}", encode(&queue.name));
        queue.get(&path).expect(200).get("autopilot").cloned()
    };
    for (number, query, batch) in [(1, "", 200), (2, "&batch=7", 7)] {
        let told = json!({"partitions": 64, "batch": batch});
        let query = format!("&autopilot=true{query}");
        assert_eq!(chosen(number, &query), Some(told));
    }
    assert_eq!(chosen(3, ""), None);
}

#[test]
fn a_group_that_does_not_say_starts_where_the_broker_says() {
    let database = Server::start().database();
    for (mode, expected) in [("all", 200), ("new", 204)] {
        let plan = Plan::any().set("QUEEN_DURABLE", "on");
        let plan = plan.set("DEFAULT_SUBSCRIPTION_MODE", mode);
        let broker = plan.set("DATABASE_URL", database.url()).start();
        wait_until_connected(&broker);
        let mut client = broker.plain_client();
        let queue = unique("start");
        let item = json!({"queue": queue, "payload": 1});
        client
            .post("/api/v1/push", &json!({"items": [item]}))
            .expect(201);
        let path = format!("/api/v1/pop/queue/{queue}?consumerGroup=g");
        assert_eq!(client.get(&path).status, expected, "{mode}");
        let told = format!("/api/v1/pop/queue/{queue}?consumerGroup=h&subscriptionMode=all");
        assert_eq!(client.get(&told).status, 200, "{mode}");
    }
}

#[test]
fn a_push_that_can_never_fit_is_not_told_to_try_again() {
    let queue = Queue::configured(json!({"maxSize": 3}));
    let push = |ids: &[&str]| {
        let item = |id: &&str| json!({"queue": queue.name, "transactionId": id, "payload": 1});
        let items: Vec<Value> = ids.iter().map(item).collect();
        queue.post("push", &json!({"items": items}))
    };
    let never = push(&["1", "2", "3", "4"]);
    assert_eq!((never.status, never.header("retry-after")), (429, None));
    let body = never.json();
    assert_eq!(body["code"], "queue_full");
    let text = body["error"].as_str().expect("a text");
    assert!(
        text.contains("it can never fit and must not be retried"),
        "{text}"
    );
    push(&["1", "2"]).expect(201);
    let full = push(&["3", "4"]);
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")));
    let text = full.json()["error"].to_string();
    assert!(text.contains("retry once messages were consumed"), "{text}");
}

#[test]
fn a_fetch_of_no_bytes_is_refused() {
    let queue = Queue::configured(json!({}));
    let entry = |bytes: u64| json!({"queue": queue.name, "offset": 0, "maxBytes": bytes});
    for body in [
        json!({"entries": [entry(1), entry(0)]}),
        json!({"entries": [entry(1)], "maxBytes": 0}),
    ] {
        let refused = queue.post("fetch", &body).expect(400);
        assert_eq!(refused["code"], "bad_request");
        let text = refused["error"].as_str().expect("a text");
        assert!(text.contains("maxBytes must be at least 1"), "{text}");
    }
}
