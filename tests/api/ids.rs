//! Message ids: rows 39 to 43 and 48.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::support::poll::eventually_within;
use crate::support::queue::numbers;
use crate::support::{each_plan, each_setup, shared};

/// The id with another incarnation in it.
fn of_another_process(id: &str) -> String {
    let (incarnation, rest) = id[2..].split_once(':').expect("an id");
    let number = u64::from_str_radix(incarnation, 16).expect("hexadecimal");
    format!("e:{:x}:{rest}", number ^ 1)
}

#[test]
fn row_39_an_id_of_another_process_is_stale() {
    each_setup(|broker| {
        let queue = broker.queue("row-39");
        queue.push(&[json!(1)]);
        let message = queue.pop_one("");
        let foreign = of_another_process(&message.id);
        assert_eq!(queue.settle_one(None, &foreign, "completed"), "stale");
        assert_eq!(queue.settle_one(None, &foreign, "retry"), "stale");
        queue.ack(None, &[message]);
    });
}

#[test]
fn rows_40_and_41_what_is_no_id_is_unknown() {
    each_setup(|broker| {
        let queue = broker.queue("row-40");
        queue.push(&[json!(1)]);
        let garbage = [
            "e:1:2",
            "e:zz:p:1",
            "e:1:p:x",
            "e:1::1",
            "018f4d3e-2b7c-7e0f-9d6e-0a1b2c3d4e5f",
            "",
            "garbage",
            "e:::",
            "e:1:p:99999999999999999999999",
        ];
        let verdicts: Vec<(&str, &str)> = garbage.iter().map(|id| (*id, "completed")).collect();
        let outcomes = queue.settle(None, &verdicts);
        assert!(
            outcomes.iter().all(|outcome| outcome == "unknown"),
            "{outcomes:?}"
        );
    });
}

#[test]
fn row_42_a_partition_with_colons_survives() {
    each_setup(|broker| {
        let queue = broker.queue("row-42");
        queue.push_to("orders:eu:west", &[json!(1)]);
        let message = queue.pop_one("partition=orders%3Aeu%3Awest");
        assert_eq!(message.partition, "orders:eu:west");
        assert!(message.id.contains(":orders:eu:west:"), "{}", message.id);
        queue.ack(None, &[message]);
    });
}

#[test]
fn row_43_an_ack_on_a_queue_that_does_not_exist_judges_each_id() {
    each_setup(|broker| {
        let source = broker.queue("row-43-source");
        source.push(&[json!(1)]);
        let ours = source.pop_one("").id;
        let queue = broker.queue("row-43");
        let foreign = of_another_process(&ours);
        let outcomes = queue.settle(None, &[(&ours, "completed"), (&foreign, "completed")]);
        assert_eq!(outcomes, ["unknown", "stale"]);
        assert_eq!(queue.row(), None, "an ack creates nothing");
    });
}

#[test]
fn row_48_a_new_life_of_a_queue_reuses_no_id() {
    each_plan(|plan| {
        let broker = shared(plan.set("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", 1));
        let queue = broker.queue("row-48");
        queue.push(&[json!("old")]);
        let old = queue.pop_one("autoAck=true");
        eventually_within(Duration::from_secs(8), "the queue is collected", || {
            queue.row().is_none()
        });
        queue.push(&[json!("new")]);
        assert_eq!(queue.settle_one(None, &old.id, "completed"), "unknown");
        let new = queue.pop_one("");
        assert_ne!(new.id, old.id);
        assert_eq!(new.payload, "new");
        assert_eq!(queue.settle_one(None, &old.id, "completed"), "unknown");
        queue.ack(None, &[new]);
    });
}

#[test]
fn ids_are_unique_across_delete_and_reset() {
    each_setup(|broker| {
        let queue = broker.queue("unique-ids");
        let mut seen = BTreeSet::new();
        for round in 0..20 {
            queue.push(&numbers(0..5));
            for message in queue.pop("batch=5") {
                assert!(seen.insert(message.id.clone()), "{} again", message.id);
            }
            if round % 2 == 0 {
                queue.reset();
            } else {
                queue.delete();
            }
        }
    });
}

#[test]
fn after_reset_and_delete_old_ids_are_unknown() {
    each_setup(|broker| {
        let queue = broker.queue("after-reset");
        queue.push(&numbers(0..2));
        let first = queue.pop_one("");
        queue.reset();
        assert_eq!(queue.settle_one(None, &first.id, "completed"), "unknown");
        queue.push(&[json!(1)]);
        let second = queue.pop_one("");
        queue.delete();
        assert_eq!(queue.settle_one(None, &second.id, "completed"), "unknown");
    });
}
