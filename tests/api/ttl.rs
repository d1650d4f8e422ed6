//! Time to live: rows 24 to 27, leases that span the deadline, skip counts.

use std::time::Duration;

use serde_json::json;

use crate::support::poll::{eventually, let_pass};
use crate::support::queue::numbers;
use crate::support::{Queue, each_plan, each_setup};

/// Longer than a TTL of one second, its rounding and one tick.
const PAST_ONE_SECOND: Duration = Duration::from_millis(1_300);

fn queue_with(broker: &crate::support::Broker, name: &str, lease_s: u64) -> Queue {
    let queue = broker.queue(name);
    queue.configure(json!({"ttlSeconds": 1, "leaseSeconds": lease_s, "retryLimit": 5}));
    queue
}

#[test]
fn row_24_past_its_ttl_a_message_is_never_delivered() {
    each_setup(|broker| {
        let queue = queue_with(broker, "row-24", 30);
        queue.push(&[json!(1)]);
        let_pass(Duration::from_secs(1));
        assert_eq!(queue.pop(""), []);
        eventually("the drop is counted", || queue.drops("ttl") == 1);
        assert_eq!(queue.drops("bounds"), 0);
        assert_eq!(queue.held(), (0, 0));
    });
}

#[test]
fn row_25_a_message_consumed_in_time_is_no_ttl_drop() {
    each_setup(|broker| {
        let queue = queue_with(broker, "row-25", 30);
        queue.push(&numbers(0..2));
        queue.pop_one("autoAck=true");
        let leased = queue.pop_one("");
        queue.ack(None, &[leased]);
        let_pass(PAST_ONE_SECOND);
        assert_eq!(queue.pop(""), []);
        assert_eq!(queue.drops("ttl"), 0);
    });
}

#[test]
fn row_26_expiry_gives_the_bytes_back_to_every_budget() {
    each_plan(|plan| {
        let broker = plan.start();
        let queue = queue_with(&broker, "row-26", 30);
        queue.push(&numbers(0..4));
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 4.0);
        let_pass(PAST_ONE_SECOND);
        assert_eq!(queue.pop(""), []);
        assert_eq!(queue.held(), (0, 0));
        let list = queue.get("/api/v1/ephemeral/queues").expect(200);
        assert_eq!(list["cellBytes"], 0);
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 0.0);
        let dropped = broker.sample("queen_ephemeral_dropped_total{cause=\"ttl\"}");
        assert_eq!(dropped, 4.0);
    });
}

#[test]
fn expiry_needs_no_touch() {
    each_setup(|broker| {
        let queue = queue_with(broker, "untouched", 30);
        queue.push(&numbers(0..1_000));
        eventually("all are dropped", || queue.held() == (0, 0));
        assert_eq!(queue.drops("ttl"), 1_000);
    });
}

/// Row 27 gives way: a negative option is refused.
#[test]
fn row_27_a_negative_ttl_is_refused() {
    each_setup(|broker| {
        let queue = broker.queue("row-27");
        let answer = queue.try_configure(json!({"ttlSeconds": -1}));
        answer.assert_refused(400, "ephemeral_bad_request");
        assert_eq!(answer.json()["reason"], "ttl_negative");
        assert_eq!(queue.row(), None);
    });
}

#[test]
fn a_ttl_of_zero_seconds_is_off() {
    each_setup(|broker| {
        let queue = broker.queue("ttl-off");
        queue.configure(json!({"ttlSeconds": 0}));
        queue.push(&[json!(1)]);
        let_pass(Duration::from_millis(300));
        assert_eq!(queue.pop_payloads(""), [json!(1)]);
        let row = queue.row().unwrap();
        assert_eq!(row["options"]["ttlSeconds"], 0);
        assert!(row["options"]["ttlMs"].is_null(), "{row}");
    });
}

#[test]
fn completed_inside_a_lease_that_spans_the_deadline_is_acked() {
    each_setup(|broker| {
        let queue = queue_with(broker, "span-ack", 20);
        queue.push(&[json!(1)]);
        let message = queue.pop_one("group=g");
        eventually("depth and bytes drop at the deadline", || {
            queue.held() == (0, 0)
        });
        assert_eq!(queue.drops("ttl"), 0, "judged when the lease has ended");
        let outcome = queue.settle_one(Some("g"), &message.id, "completed");
        assert_eq!(outcome, "acked");
        assert_eq!(queue.drops("ttl"), 0);
        assert_eq!(queue.group("g")["skipped"], 0);
        let outcome = queue.settle_one(Some("g"), &message.id, "completed");
        assert_eq!(outcome, "unknown");
    });
}

#[test]
fn a_nack_past_the_deadline_answers_acked_and_counts_as_ttl() {
    each_setup(|broker| {
        let queue = queue_with(broker, "span-nack", 20);
        queue.push(&[json!(1)]);
        let message = queue.pop_one("group=g");
        let_pass(PAST_ONE_SECOND);
        let outcome = queue.settle_one(Some("g"), &message.id, "retry");
        assert_eq!(outcome, "acked");
        assert_eq!(queue.pop("group=g"), []);
        assert_eq!(queue.drops("ttl"), 1);
        assert_eq!(queue.drops("retry"), 0);
        assert_eq!(queue.group("g")["skipped"], 1);
    });
}

#[test]
fn a_lease_that_ends_past_the_deadline_brings_nothing_back() {
    each_setup(|broker| {
        let queue = queue_with(broker, "span-expiry", 2);
        queue.push(&[json!(1)]);
        let message = queue.pop_one("group=g");
        let_pass(PAST_ONE_SECOND);
        assert_eq!(queue.drops("ttl"), 0, "the lease is live");
        eventually("the drop is counted at the lease's end", || {
            queue.drops("ttl") == 1
        });
        assert_eq!(queue.group("g")["skipped"], 1);
        assert_eq!(queue.pop("group=g"), []);
        let outcome = queue.settle_one(Some("g"), &message.id, "completed");
        assert_eq!(outcome, "unknown");
    });
}

#[test]
fn before_the_deadline_a_nack_keeps_the_first_clock() {
    each_setup(|broker| {
        let queue = queue_with(broker, "nack-in-time", 20);
        queue.push(&[json!(1)]);
        let_pass(Duration::from_millis(500));
        let message = queue.pop_one("");
        assert_eq!(queue.settle_one(None, &message.id, "retry"), "redelivered");
        let_pass(Duration::from_millis(500));
        assert_eq!(queue.pop(""), [], "a redelivery has no new life");
        eventually("the drop is counted", || queue.drops("ttl") == 1);
    });
}

#[test]
fn groups_are_skipped_each_for_itself_and_the_message_counts_once() {
    each_setup(|broker| {
        let queue = queue_with(broker, "span-groups", 20);
        for group in ["done", "leasing", "never"] {
            assert_eq!(queue.pop(&format!("group={group}")), []);
        }
        queue.push(&[json!(1)]);
        queue.pop_one("group=done&autoAck=true");
        let leased = queue.pop_one("group=leasing");
        eventually("the slot is freed", || queue.held() == (0, 0));
        assert_eq!(queue.group("never")["skipped"], 1);
        assert_eq!(queue.group("leasing")["skipped"], 0);
        assert_eq!(queue.drops("ttl"), 0, "a lease is live");
        let outcome = queue.settle_one(Some("leasing"), &leased.id, "completed");
        assert_eq!(outcome, "acked");
        eventually("counted once", || queue.drops("ttl") == 1);
        assert_eq!(queue.group("leasing")["skipped"], 0);
        assert_eq!(queue.group("done")["skipped"], 0);
    });
}

#[test]
fn a_pending_redelivery_is_skipped_at_its_ttl() {
    each_setup(|broker| {
        let queue = queue_with(broker, "skip-pending", 20);
        queue.push(&[json!(1)]);
        let message = queue.pop_one("group=g");
        queue.settle_one(Some("g"), &message.id, "retry");
        eventually("expired", || queue.drops("ttl") == 1);
        assert_eq!(queue.group("g")["skipped"], 1);
    });
}

#[test]
fn expired_messages_make_room_before_a_push_is_refused() {
    each_setup(|broker| {
        let queue = broker.queue("expired-room");
        queue.configure(json!({"ttlSeconds": 1, "maxLength": 2}));
        queue.push(&numbers(0..2));
        let answer = queue.try_push(None, &[json!(2)]);
        answer.assert_refused(429, "queue_full");
        let_pass(Duration::from_secs(1));
        queue.push(&numbers(2..4));
        assert_eq!(queue.pop_payloads("batch=4"), numbers(2..4));
        assert_eq!(queue.drops("bounds"), 0);
    });
}

#[test]
fn expired_messages_of_a_queue_make_room_in_the_broker_as_well() {
    each_plan(|plan| {
        let plan = plan.set("QUEEN_EPHEMERAL_MAX_BYTES", 10);
        let broker = plan.set("QUEEN_TTL_TICK_MS", 60_000).start();
        let queue = queue_with(&broker, "room-in-broker", 30);
        queue.push(&[json!("123456")]);
        let_pass(PAST_ONE_SECOND);
        queue.push(&[json!("654321")]);
        assert_eq!(queue.held(), (1, 8));
    });
}

#[test]
fn a_parked_pop_never_gets_an_expired_message() {
    each_setup(|broker| {
        let queue = queue_with(broker, "parked-expired", 2);
        queue.push(&[json!("old")]);
        queue.pop_one("group=g");
        let mut parked = queue.park(broker.client(), "group=g&timeout=2600");
        assert_eq!(parked.messages(), []);
    });
}

#[test]
fn configure_ages_what_is_already_there() {
    each_setup(|broker| {
        let queue = broker.queue("retroactive");
        queue.push(&numbers(0..3));
        let_pass(Duration::from_secs(1));
        queue.configure(json!({"ttlSeconds": 1}));
        eventually("the old ones expire", || queue.drops("ttl") == 3);
        queue.push(&[json!("kept")]);
        queue.configure(json!({}));
        let_pass(PAST_ONE_SECOND);
        assert_eq!(queue.pop_payloads(""), [json!("kept")]);
    });
}
