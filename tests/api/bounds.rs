//! Bounds and budgets: rows 28 to 34, `dropOldest`, refusals that change nothing.

use serde_json::{Value, json};

use crate::support::queue::numbers;
use crate::support::{Answer, each_plan, each_setup};

/// A JSON string of exactly so many bytes, quotes included.
fn sized(bytes: usize) -> Value {
    assert!(bytes >= 2);
    json!("x".repeat(bytes - 2))
}

#[track_caller]
fn assert_full(answer: &Answer) {
    answer.assert_refused(429, "queue_full");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn row_28_a_full_queue_refuses_and_keeps_the_oldest() {
    each_setup(|broker| {
        let queue = broker.queue("row-28");
        queue.configure(json!({"maxLength": 2, "policy": "reject"}));
        queue.push(&numbers(0..2));
        assert_full(&queue.try_push(None, &[json!(2)]));
        assert_eq!(queue.depth()["pending"], 2);
        assert_eq!(queue.pop_payloads("batch=9"), numbers(0..2));
    });
}

#[test]
fn row_29_drop_oldest_keeps_the_newest() {
    each_setup(|broker| {
        let queue = broker.queue("row-29");
        queue.configure(json!({"maxLength": 2, "policy": "dropOldest"}));
        for number in 0..5 {
            queue.push(&[json!(number)]);
        }
        assert_eq!(queue.drops("bounds"), 3);
        assert_eq!(queue.pop_payloads("batch=9"), numbers(3..5));
    });
}

#[test]
fn row_30_a_slow_group_learns_how_much_it_missed() {
    each_setup(|broker| {
        let queue = broker.queue("row-30");
        queue.configure(json!({"maxLength": 2, "policy": "dropOldest"}));
        assert_eq!(queue.pop("group=slow"), []);
        for number in 0..6 {
            queue.push(&[json!(number)]);
        }
        assert_eq!(queue.pop_payloads("batch=9&group=slow"), numbers(4..6));
        assert_eq!(queue.group("slow")["skipped"], 4);
    });
}

#[test]
fn an_evicted_lease_is_void_and_not_skipped() {
    each_setup(|broker| {
        let queue = broker.queue("evicted-lease");
        queue.configure(json!({"maxLength": 1, "policy": "dropOldest"}));
        queue.push(&[json!("old")]);
        let old = queue.pop_one("group=g");
        queue.push(&[json!("new")]);
        let outcome = queue.settle_one(Some("g"), &old.id, "completed");
        assert_eq!(outcome, "unknown");
        assert_eq!(queue.group("g")["skipped"], 0);
        assert_eq!(queue.drops("bounds"), 1);
        assert_eq!(queue.pop_payloads("group=g"), [json!("new")]);
    });
}

#[test]
fn row_31_a_full_broker_refuses_the_whole_push_and_changes_nothing() {
    each_plan(|plan| {
        let broker = plan.set("QUEEN_EPHEMERAL_MAX_BYTES", 40).start();
        let queue = broker.queue("row-31");
        queue.push(&[sized(10)]);
        let answer = queue.try_push(None, &[sized(15), sized(20)]);
        answer.assert_refused(503, "ephemeral_unavailable");
        assert_eq!(queue.held(), (1, 10));
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 10.0);
        // Another queue is not refused for it.
        broker.queue("row-31-other").push(&[sized(30)]);
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 40.0);
        assert_eq!(queue.drops("bounds"), 0);
    });
}

#[test]
fn row_32_a_bound_may_be_met_but_not_passed() {
    each_setup(|broker| {
        for (more, fits) in [(40, true), (41, false)] {
            let queue = broker.queue("row-32");
            queue.configure(json!({"maxBytes": 100}));
            queue.push(&[sized(60)]);
            let answer = queue.try_push(None, &[sized(more)]);
            if fits {
                answer.expect(201);
                assert_eq!(queue.held(), (2, 100));
            } else {
                assert_full(&answer);
                assert_eq!(queue.held(), (1, 60));
            }
        }
    });
}

/// Row 33 speaks of a budget without a cap, which no setting asks for; an option of 0 takes the
/// default.
#[test]
fn row_33_zero_takes_the_default() {
    each_setup(|broker| {
        let queue = broker.queue("row-33");
        queue.configure(json!({"maxBytes": 0, "maxLength": 0, "leaseSeconds": 0}));
        let options = queue.row().unwrap()["options"].clone();
        assert_eq!(options["maxBytes"], 16_777_216);
        assert_eq!(options["maxLength"], 10_000);
        assert_eq!(options["leaseSeconds"], 30);
    });
}

#[test]
fn row_34_nothing_is_given_back_twice() {
    each_plan(|plan| {
        let broker = plan.start();
        let queue = broker.queue("row-34");
        let other = broker.queue("row-34-other");
        other.push(&[sized(7)]);
        queue.push(&[sized(10), sized(20), sized(30)]);
        let leased = queue.pop("batch=2");
        queue.ack(None, &leased[..1]);
        queue.settle_one(None, &leased[0].id, "completed");
        assert_eq!(queue.held(), (2, 50));
        queue.reset();
        queue.settle_one(None, &leased[1].id, "completed");
        queue.reset();
        queue.delete();
        queue.delete();
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 7.0);
        let list = other.get("/api/v1/ephemeral/queues").expect(200);
        assert_eq!(list["cellBytes"], 7);
    });
}

#[test]
fn a_refused_batch_stores_none_of_its_messages() {
    each_setup(|broker| {
        let queue = broker.queue("atomic");
        queue.configure(json!({"maxLength": 3}));
        queue.push(&numbers(0..2));
        assert_full(&queue.try_push(None, &numbers(2..4)));
        assert_eq!(queue.held(), (2, 2));
    });
}

#[test]
fn a_bound_covers_all_partitions_together() {
    each_setup(|broker| {
        let queue = broker.queue("all-partitions");
        queue.configure(json!({"maxLength": 2}));
        queue.push_to("a", &[json!(1)]);
        queue.push_to("b", &[json!(1)]);
        assert_full(&queue.try_push(Some("c"), &[json!(1)]));
    });
}

#[test]
fn drop_oldest_evicts_the_oldest_of_the_queue_whatever_its_partition() {
    each_setup(|broker| {
        let queue = broker.queue("oldest-anywhere");
        queue.configure(json!({"maxLength": 4, "policy": "dropOldest"}));
        for (partition, payload) in [("z", "z0"), ("a", "a0"), ("z", "z1"), ("a", "a1")] {
            queue.push_to(partition, &[json!(payload)]);
        }
        queue.push_to("m", &[json!("m0")]);
        assert_eq!(queue.pop_payloads("partition=z&batch=9"), [json!("z1")]);
        queue.push_to("m", &[json!("m1")]);
        assert_eq!(queue.pop_payloads("partition=a&batch=9"), [json!("a1")]);
        assert_eq!(
            queue.pop_payloads("partition=m&batch=9"),
            [json!("m0"), json!("m1")]
        );
        assert_eq!(queue.drops("bounds"), 2);
    });
}

#[test]
fn drop_oldest_by_bytes_evicts_as_few_as_needed() {
    each_setup(|broker| {
        let queue = broker.queue("oldest-bytes");
        queue.configure(json!({"maxBytes": 100, "policy": "dropOldest"}));
        queue.push(&[sized(30), sized(30), sized(30)]);
        queue.push(&[sized(40)]);
        assert_eq!(queue.held(), (3, 100));
        assert_eq!(queue.drops("bounds"), 1);
    });
}

#[test]
fn what_can_never_fit_evicts_nothing() {
    each_setup(|broker| {
        for policy in ["dropOldest", "reject"] {
            let queue = broker.queue("never-fits");
            queue.configure(json!({"maxBytes": 100, "maxLength": 5, "policy": policy}));
            queue.push(&[sized(30), sized(30)]);
            let too_large = queue.try_push(None, &[sized(101)]);
            too_large.assert_refused(429, "queue_full");
            assert!(too_large.text().contains("100"), "{}", too_large.text());
            let too_many = queue.try_push(None, &numbers(0..6));
            too_many.assert_refused(429, "queue_full");
            assert_eq!(queue.held(), (2, 60));
            assert_eq!(queue.drops("bounds"), 0);
        }
    });
}

#[test]
fn drop_oldest_evicts_nothing_when_the_broker_has_no_room_anyway() {
    each_plan(|plan| {
        let broker = plan.set("QUEEN_EPHEMERAL_MAX_BYTES", 40).start();
        let queue = broker.queue("no-room-anyway");
        queue.configure(json!({"maxBytes": 35, "policy": "dropOldest"}));
        queue.push(&[sized(5), sized(5)]);
        broker.queue("no-room-other").push(&[sized(25)]);
        let answer = queue.try_push(None, &[sized(30)]);
        answer.assert_refused(503, "ephemeral_unavailable");
        assert_eq!(queue.held(), (2, 10));
        assert_eq!(queue.drops("bounds"), 0);
    });
}

#[test]
fn a_lower_cap_evicts_nothing_until_the_next_push() {
    each_setup(|broker| {
        let queue = broker.queue("lower-cap");
        queue.push(&numbers(0..5));
        queue.configure(json!({"maxLength": 2}));
        assert_eq!(queue.held().0, 5);
        assert_full(&queue.try_push(None, &[json!(5)]));
        queue.configure(json!({"maxLength": 2, "policy": "dropOldest"}));
        assert_eq!(queue.held().0, 5);
        queue.push(&[json!(5)]);
        assert_eq!(queue.pop_payloads("batch=9"), numbers(4..6));
    });
}

#[test]
fn leased_messages_hold_their_room_and_acks_free_it() {
    each_setup(|broker| {
        let queue = broker.queue("leased-room");
        queue.configure(json!({"maxLength": 2}));
        queue.push(&numbers(0..2));
        let leased = queue.pop("batch=2");
        assert_full(&queue.try_push(None, &[json!(2)]));
        queue.ack(None, &leased[1..]);
        queue.push(&[json!(2)]);
        assert_full(&queue.try_push(None, &[json!(3)]));
    });
}

#[test]
fn without_a_group_nothing_is_freed_but_the_defaults_bound_it() {
    each_setup(|broker| {
        let queue = broker.queue("default-bound");
        queue.push(&numbers(0..10_000));
        assert_full(&queue.try_push(None, &[json!(1)]));
        assert_eq!(queue.held().0, 10_000);
        queue.delete();
    });
}
