//! Order, leases, attempts, verdicts: rows 1 to 14 and 49 to 50.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::each_setup;
use crate::support::poll::{eventually, let_pass};
use crate::support::queue::numbers;

#[test]
fn row_01_each_partition_keeps_its_own_order() {
    each_setup(|broker| {
        let queue = broker.queue("row-01");
        for number in 0..5 {
            let partition = if number % 2 == 0 { "a" } else { "b" };
            queue.push_to(partition, &[json!(number)]);
        }
        let from = |partition: &str| queue.pop_payloads(&format!("batch=5&partition={partition}"));
        assert_eq!(from("a"), [json!(0), json!(2), json!(4)]);
        assert_eq!(from("b"), [json!(1), json!(3)]);
    });
}

#[test]
fn rows_02_and_04_an_expired_lease_brings_the_message_back_with_the_same_id() {
    each_setup(|broker| {
        let queue = broker.queue("row-02");
        queue.configure(json!({"leaseSeconds": 1}));
        queue.push(&[json!({"n": 1})]);
        let started = Instant::now();
        let first = queue.pop_one("");
        assert_eq!(first.attempts, 1);
        let mut second = Vec::new();
        eventually("the message comes back", || {
            second = queue.pop("");
            !second.is_empty()
        });
        let waited = started.elapsed();
        assert!(waited >= Duration::from_millis(990), "{waited:?}");
        assert!(waited <= Duration::from_millis(2_500), "{waited:?}");
        assert_eq!(second[0].attempts, 2);
        assert_eq!(second[0].id, first.id);
        assert_eq!(second[0].payload, first.payload);
    });
}

#[test]
fn row_03_half_way_through_the_lease_there_is_nothing() {
    each_setup(|broker| {
        let queue = broker.queue("row-03");
        queue.configure(json!({"leaseSeconds": 2}));
        queue.push(&[json!(1)]);
        queue.pop_one("group=g");
        let_pass(Duration::from_secs(1));
        assert_eq!(queue.pop("group=g"), []);
    });
}

#[test]
fn row_05_a_nack_brings_the_message_back_at_once() {
    each_setup(|broker| {
        let queue = broker.queue("row-05");
        queue.push(&numbers(0..2));
        let first = queue.pop_one("");
        assert_eq!(queue.settle_one(None, &first.id, "retry"), "redelivered");
        let again = queue.pop_one("");
        assert_eq!((again.id, again.attempts), (first.id, 2));
    });
}

#[test]
fn row_06_verdicts_of_one_call_are_independent() {
    each_setup(|broker| {
        let queue = broker.queue("row-06");
        queue.push(&numbers(0..2));
        let both = queue.pop("batch=2");
        let outcomes = queue.settle(None, &[(&both[0].id, "completed"), (&both[1].id, "failed")]);
        assert_eq!(outcomes, ["acked", "redelivered"]);
        assert_eq!(queue.pop_payloads("batch=2"), [json!(1)]);
    });
}

#[test]
fn rows_07_and_08_a_completed_message_is_gone() {
    each_setup(|broker| {
        let queue = broker.queue("row-07");
        queue.push(&[json!(1)]);
        let message = queue.pop_one("");
        queue.ack(None, std::slice::from_ref(&message));
        assert_eq!(queue.settle_one(None, &message.id, "completed"), "unknown");
        assert_eq!(queue.pop(""), []);
    });
}

#[test]
fn row_09_a_spent_retry_limit_answers_acked_and_counts() {
    each_setup(|broker| {
        let queue = broker.queue("row-09");
        queue.configure(json!({"retryLimit": 1}));
        queue.push(&[json!(1)]);
        let message = queue.pop_one("");
        assert_eq!(queue.settle_one(None, &message.id, "retry"), "acked");
        assert_eq!(queue.pop(""), []);
        assert_eq!(queue.drops("retry"), 1);
    });
}

#[test]
fn retry_limit_zero_behaves_like_one() {
    each_setup(|broker| {
        let queue = broker.queue("retry-limit-zero");
        queue.configure(json!({"retryLimit": 0}));
        queue.push(&[json!(1)]);
        let message = queue.pop_one("");
        assert_eq!(queue.settle_one(None, &message.id, "failed"), "acked");
        assert_eq!(queue.drops("retry"), 1);
    });
}

#[test]
fn row_10_the_second_nack_spends_a_limit_of_two() {
    each_setup(|broker| {
        let queue = broker.queue("row-10");
        queue.configure(json!({"retryLimit": 2}));
        queue.push(&[json!(1)]);
        for outcome in ["redelivered", "acked"] {
            let message = queue.pop_one("");
            assert_eq!(queue.settle_one(None, &message.id, "retry"), outcome);
        }
        assert_eq!(queue.drops("retry"), 1);
        assert_eq!(queue.pop(""), []);
    });
}

#[test]
fn an_expired_lease_spends_the_retry_limit_too() {
    each_setup(|broker| {
        let queue = broker.queue("expiry-spends");
        queue.configure(json!({"retryLimit": 1, "leaseSeconds": 1}));
        queue.push(&[json!(1)]);
        let message = queue.pop_one("");
        eventually("the drop is counted", || queue.drops("retry") == 1);
        assert_eq!(queue.pop(""), []);
        assert_eq!(queue.settle_one(None, &message.id, "completed"), "unknown");
    });
}

#[test]
fn row_11_a_group_that_gives_up_takes_nothing_from_another() {
    each_setup(|broker| {
        let queue = broker.queue("row-11");
        queue.configure(json!({"retryLimit": 1}));
        assert_eq!(queue.pop("group=a"), []);
        assert_eq!(queue.pop("group=b"), []);
        queue.push(&[json!("m")]);
        let message = queue.pop_one("group=a");
        assert_eq!(queue.settle_one(Some("a"), &message.id, "retry"), "acked");
        assert_eq!(queue.pop_payloads("group=b"), [json!("m")]);
    });
}

#[test]
fn row_12_an_automatic_ack_leaves_nothing_to_ack() {
    each_setup(|broker| {
        for flag in ["autoAck=true", "commitOnDelivery=true"] {
            let queue = broker.queue("row-12");
            queue.push(&[json!(1)]);
            let message = queue.pop_one(flag);
            assert_eq!(queue.settle_one(None, &message.id, "completed"), "unknown");
        }
    });
}

#[test]
fn row_13_an_automatic_ack_outlives_the_lease() {
    each_setup(|broker| {
        let queue = broker.queue("row-13");
        queue.configure(json!({"leaseSeconds": 1}));
        queue.push(&[json!(1)]);
        queue.pop_one("autoAck=true");
        let_pass(Duration::from_millis(1_500));
        assert_eq!(queue.pop(""), []);
    });
}

#[test]
fn row_14_an_automatic_ack_by_the_only_group_frees_at_once() {
    each_setup(|broker| {
        let queue = broker.queue("row-14");
        queue.push(&numbers(0..3));
        assert_eq!(queue.held(), (3, 3));
        queue.pop("batch=3&autoAck=true");
        assert_eq!(queue.held(), (0, 0));
        let depth = queue.depth();
        assert_eq!((&depth["pending"], &depth["bytes"]), (&json!(0), &json!(0)));
    });
}

#[test]
fn a_late_ack_is_unknown_once_the_lease_has_ended() {
    each_setup(|broker| {
        let queue = broker.queue("late-ack");
        queue.configure(json!({"leaseSeconds": 1}));
        queue.push(&[json!(1)]);
        let message = queue.pop_one("group=g");
        let_pass(Duration::from_millis(1_100));
        let outcome = queue.settle_one(Some("g"), &message.id, "completed");
        assert_eq!(outcome, "unknown");
        assert_eq!(queue.pop_one("group=g").attempts, 2);
    });
}

#[test]
fn rows_49_and_50_an_expired_lease_wakes_a_parked_pop_without_any_touch() {
    each_setup(|broker| {
        let queue = broker.queue("row-49");
        queue.configure(json!({"leaseSeconds": 1}));
        queue.push(&[json!("late")]);
        let first = queue.pop_one("group=g");
        let mut parked = queue.park(broker.client(), "group=g");
        let message = parked.message();
        assert_eq!((message.id, message.attempts), (first.id, 2));
        assert!(parked.elapsed() < Duration::from_millis(2_000));
    });
}

#[test]
fn redeliveries_come_before_new_messages_in_sequence_order() {
    each_setup(|broker| {
        let queue = broker.queue("redelivery-order");
        queue.push(&numbers(0..4));
        let taken = queue.pop("batch=3");
        for message in [&taken[2], &taken[0]] {
            assert_eq!(queue.settle_one(None, &message.id, "retry"), "redelivered");
        }
        assert_eq!(
            queue.pop_payloads("batch=4"),
            [json!(0), json!(2), json!(3)]
        );
    });
}

#[test]
fn every_spelling_of_a_verdict_means_what_it_says() {
    each_setup(|broker| {
        let queue = broker.queue("verdicts");
        queue.push(&numbers(0..8));
        let taken = queue.pop("batch=8");
        let words = [
            "completed",
            "success",
            "acked",
            "ok",
            "retry",
            "failed",
            "dlq",
            "COMPLETED",
        ];
        let verdicts: Vec<(&str, &str)> = taken
            .iter()
            .zip(words)
            .map(|(message, word)| (message.id.as_str(), word))
            .collect();
        let outcomes = queue.settle(None, &verdicts);
        assert!(outcomes[..4].iter().all(|outcome| outcome == "acked"));
        assert!(outcomes[4..].iter().all(|outcome| outcome == "redelivered"));
    });
}

#[test]
fn a_verdict_that_is_absent_or_null_means_completed() {
    each_setup(|broker| {
        let queue = broker.queue("no-verdict");
        queue.push(&numbers(0..2));
        let taken = queue.pop("batch=2");
        let body = json!({
            "queue": queue.name,
            "group": "",
            "acks": [
                {"id": taken[0].id, "error": "ignored"},
                {"id": taken[1].id, "status": null, "error": null, "more": [1]},
            ],
        });
        let answer = queue.post("/api/v1/ephemeral/ack", &body).expect(200);
        assert_eq!(answer["results"][0]["outcome"], "acked");
        assert_eq!(answer["results"][1]["outcome"], "acked");
    });
}

#[test]
fn one_unacked_message_pins_no_later_acked_one() {
    each_setup(|broker| {
        let queue = broker.queue("no-pinning");
        queue.push(&numbers(0..10));
        let taken = queue.pop("batch=10");
        queue.ack(None, &taken[1..]);
        assert_eq!(queue.held(), (1, 1));
    });
}
