//! What nobody uses goes away: rows 44 to 47.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::poll::{eventually_within, step};
use crate::support::{Broker, Plan, Queue, each_plan, shared, unique};

/// Longer than the idle limit of one second and a few passes.
const COLLECTED: Duration = Duration::from_secs(8);

fn each_impatient(test: impl Fn(&Broker) + Sync) {
    each_plan(|plan| {
        let broker: Arc<Broker> = shared(plan.set("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", 1));
        test(&broker);
    });
}

#[track_caller]
fn assert_collected(queue: &Queue) {
    eventually_within(COLLECTED, "the queue is collected", || {
        queue.row().is_none()
    });
    queue
        .try_depth("")
        .assert_refused(404, "ephemeral_queue_not_found");
}

#[test]
fn row_44_an_idle_empty_queue_is_collected() {
    each_impatient(|broker| {
        let queue = broker.queue("row-44");
        queue.push(&[json!(1)]);
        let message = queue.pop_one("");
        queue.ack(None, &[message]);
        assert_collected(&queue);
    });
}

#[test]
fn rows_45_and_46_a_queue_with_a_message_and_a_declared_one_stay() {
    each_impatient(|broker| {
        let full = broker.queue("row-45");
        full.push(&[json!("kept")]);
        let declared = broker.queue("row-46");
        declared.configure(json!({}));
        let leased = broker.queue("row-45-leased");
        leased.push(&[json!("kept")]);
        leased.pop_one("group=g");
        // Created last, so the others have been idle for longer when it goes.
        let other = broker.queue("row-46-other");
        assert_eq!(other.pop(""), []);
        assert_collected(&other);
        assert_eq!(full.pop_payloads(""), [json!("kept")]);
        assert_eq!(declared.row().unwrap()["tier"], "declared");
        assert_eq!(leased.held().0, 1);
    });
}

#[test]
fn row_47_a_queue_in_use_stays() {
    each_impatient(|broker| {
        let queue = broker.queue("row-47");
        assert_eq!(queue.pop("group=g"), []);
        let until = Instant::now() + Duration::from_millis(2_500);
        while Instant::now() < until {
            assert_eq!(queue.pop("group=g"), []);
            assert!(queue.row().is_some(), "collected while polled");
            step();
        }
        assert_collected(&queue);
    });
}

#[test]
fn a_parked_pop_keeps_its_queue_and_its_group() {
    each_impatient(|broker| {
        let queue = broker.queue("parked-keeps");
        let mut parked = queue.park(broker.client(), "group=g");
        let other = broker.queue("parked-keeps-other");
        assert_eq!(other.pop(""), []);
        assert_collected(&other);
        assert_eq!(queue.waiting(), 1);
        queue.push(&[json!("in time")]);
        assert_eq!(parked.message().payload, "in time");
    });
}

#[test]
fn empty_partitions_of_a_live_queue_are_collected_too() {
    each_impatient(|broker| {
        let queue = broker.queue("idle-partitions");
        queue.push_to("kept", &[json!(1)]);
        for number in 0..100 {
            let partition = format!("p{number}");
            queue.push_to(&partition, &[json!(1)]);
            queue.pop_one(&format!("partition={partition}&autoAck=true"));
        }
        assert_eq!(queue.row().unwrap()["partitions"], 101);
        eventually_within(COLLECTED, "the empty partitions are gone", || {
            queue.row().unwrap()["partitions"] == 1
        });
        assert_eq!(queue.pop_payloads(""), [json!(1)]);
    });
}

#[test]
fn with_a_limit_of_zero_nothing_is_collected() {
    let never = Plan::any()
        .set("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", 0)
        .start();
    let impatient = shared(Plan::any().set("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", 1));
    let kept = never.queue("never-collected");
    assert_eq!(kept.pop(""), []);
    let gone = impatient.queue("soon-collected");
    assert_eq!(gone.pop(""), []);
    assert_collected(&gone);
    assert!(kept.row().is_some());
}

#[test]
fn many_idle_queues_are_collected_while_others_are_served() {
    each_impatient(|broker| {
        let prefix = unique("crowd");
        let mut client = broker.client();
        for number in 0..2_000 {
            let body = json!({
                "queue": format!("{prefix}/{number}"), "messages": [{"payload": number}],
            });
            client.post("/api/v1/ephemeral/push", &body).expect(201);
            let target = format!("/api/v1/ephemeral/pop?queue={prefix}%2F{number}&autoAck=true");
            let got = client.get(&target).expect(200);
            assert_eq!(got["messages"][0]["payload"], number);
        }
        let list = format!("/api/v1/ephemeral/queues?prefix={prefix}%2F");
        eventually_within(Duration::from_secs(20), "all are collected", || {
            client.get(&list).expect(200)["count"] == 0
        });
    });
}
