//! Consumer groups: rows 15 to 22.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::each_setup;
use crate::support::queue::{numbers, payloads};

#[test]
fn row_15_each_known_group_gets_everything() {
    each_setup(|broker| {
        let queue = broker.queue("row-15");
        assert_eq!(queue.pop("group=alpha"), []);
        assert_eq!(queue.pop("group=beta"), []);
        for number in 0..3 {
            queue.push(&[json!(number)]);
        }
        for group in ["alpha", "beta"] {
            let got = queue.pop_payloads(&format!("batch=10&group={group}"));
            assert_eq!(got, numbers(0..3));
        }
        let depth = queue.depth();
        assert_eq!(depth["partitions"].as_array().unwrap().len(), 1, "{depth}");
        assert_eq!(depth["groups"].as_array().unwrap().len(), 2, "{depth}");
    });
}

#[test]
fn row_16_a_message_is_stored_once_and_freed_after_the_last_group() {
    each_setup(|broker| {
        let queue = broker.queue("row-16");
        let groups = ["x", "y", "z"];
        for group in groups {
            assert_eq!(queue.pop(&format!("group={group}")), []);
        }
        queue.push(&numbers(0..2));
        for group in groups {
            assert_eq!(queue.held(), (2, 2), "stored once");
            let got = queue.pop_payloads(&format!("batch=2&autoAck=true&group={group}"));
            assert_eq!(got, numbers(0..2));
        }
        assert_eq!(queue.held(), (0, 0));
    });
}

#[test]
fn row_17_without_a_group_consumers_share_one_cursor() {
    each_setup(|broker| {
        let queue = broker.queue("row-17");
        queue.push(&numbers(1..5));
        assert_eq!(queue.pop_payloads("batch=2"), numbers(1..3));
        assert_eq!(queue.pop_payloads("batch=2"), numbers(3..5));
        let depth = queue.depth();
        let groups: Vec<&Value> = depth["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["group"])
            .collect();
        assert_eq!(groups, ["__QUEUE_MODE__"]);
    });
}

#[test]
fn row_18_the_shared_cursor_has_a_name() {
    each_setup(|broker| {
        let queue = broker.queue("row-18");
        queue.push(&numbers(0..2));
        assert_eq!(queue.pop_payloads("group="), [json!(0)]);
        let second = queue.pop("group=__QUEUE_MODE__");
        assert_eq!(payloads(&second), [json!(1)]);
        queue.ack(None, &second);
    });
}

#[test]
fn row_19_two_consumers_of_a_group_get_disjoint_messages() {
    each_setup(|broker| {
        let queue = broker.queue("row-19");
        queue.push(&numbers(0..4));
        let mut all = queue.pop_payloads("batch=2&group=g");
        all.extend(queue.pop_payloads("batch=2&group=g"));
        assert_eq!(all, numbers(0..4));
        assert_eq!(queue.pop("group=g"), []);
    });
}

#[test]
fn row_20_a_first_group_gets_what_was_pushed_before_it() {
    each_setup(|broker| {
        let queue = broker.queue("row-20");
        queue.push(&numbers(0..3));
        assert_eq!(queue.pop_payloads("batch=3&group=new"), numbers(0..3));
    });
}

/// Row 21 gives way to the class's own example: what every known group has passed lingers for a
/// group that appears later.
#[test]
fn row_21_a_late_group_gets_what_lingers() {
    each_setup(|broker| {
        let queue = broker.queue("row-21");
        queue.push(&numbers(0..3));
        queue.pop("batch=3&autoAck=true&group=early");
        assert_eq!(queue.held(), (0, 0), "lingering messages are not counted");
        assert_eq!(queue.pop_payloads("batch=3&group=late"), numbers(0..3));
    });
}

#[test]
fn a_late_group_gets_what_was_acked_and_can_ack_it_itself() {
    each_setup(|broker| {
        let queue = broker.queue("late-after-ack");
        queue.push(&numbers(0..2));
        let early = queue.pop("batch=2&group=early");
        queue.ack(Some("early"), &early);
        let late = queue.pop("batch=2&group=late");
        assert_eq!(payloads(&late), numbers(0..2));
        assert!(late.iter().all(|message| message.attempts == 1));
        queue.ack(Some("late"), &late);
        assert_eq!(queue.pop("group=early"), []);
        assert_eq!(queue.held(), (0, 0));
    });
}

#[test]
fn what_lingers_is_never_counted_as_dropped_or_skipped() {
    each_setup(|broker| {
        let queue = broker.queue("linger-counts");
        queue.configure(json!({"maxLength": 2, "policy": "dropOldest"}));
        for number in 0..6 {
            queue.push(&[json!(number)]);
            queue.pop("autoAck=true&group=fast");
        }
        assert_eq!(queue.drops("bounds"), 0);
        assert_eq!(queue.group("fast")["skipped"], 0);
        queue.push(&numbers(6..8));
        assert_eq!(queue.held().0, 2);
    });
}

#[test]
fn a_reset_ends_lingering() {
    each_setup(|broker| {
        let queue = broker.queue("linger-reset");
        queue.push(&numbers(0..3));
        queue.pop("batch=3&autoAck=true&group=early");
        assert_eq!(queue.reset(), 0, "lingering messages are not held");
        assert_eq!(queue.pop("batch=3&group=late"), []);
    });
}

#[test]
fn row_22_a_parked_group_misses_nothing_on_a_queue_without_partitions() {
    each_setup(|broker| {
        let queue = broker.queue("row-22");
        let mut fast = queue.park(broker.client(), "group=fast&autoAck=true");
        let mut slow = queue.park(broker.client(), "group=slow");
        queue.push_to("born-now", &[json!("one")]);
        assert_eq!(fast.message().payload, "one");
        assert_eq!(slow.message().payload, "one");
    });
}

#[test]
fn a_group_name_survives_the_end_of_its_poll() {
    each_setup(|broker| {
        let queue = broker.queue("remembered");
        assert_eq!(queue.pop("group=slow&wait=true&timeout=30"), []);
        queue.push_to("later", &[json!(1)]);
        queue.pop_one("group=fast&autoAck=true");
        assert_eq!(queue.pop_payloads("group=slow"), [json!(1)]);
    });
}

#[test]
fn a_new_group_finds_what_lies_in_partitions_it_never_asked_for() {
    each_setup(|broker| {
        let queue = broker.queue("new-everywhere");
        for number in 0..8 {
            queue.push_to(&format!("p{number}"), &[json!(number)]);
        }
        for group in ["first", "second"] {
            let found = |wait| {
                let query = format!("group={group}&batch=5{wait}");
                queue.pop(&query).len()
            };
            assert_eq!((found(""), found("&wait=true"), found("")), (5, 3, 0));
        }
    });
}

/// It counts what is there already, wherever it lies, and so does not wait for its timeout.
#[test]
fn the_window_of_a_new_group_counts_what_lies_in_all_partitions() {
    each_setup(|broker| {
        let queue = broker.queue("new-window");
        queue.configure(json!({"windowBuffer": {"ms": 0, "count": 8}}));
        for number in 0..8 {
            queue.push_to(&format!("p{number}"), &[json!(number)]);
        }
        for group in ["first", "second"] {
            let started = Instant::now();
            let query = format!("group={group}&batch=20&wait=true&timeout=20000");
            assert_eq!(queue.pop(&query).len(), 8);
            assert!(started.elapsed() < Duration::from_secs(10));
        }
    });
}

#[test]
fn past_4096_groups_a_pop_by_a_new_one_is_refused() {
    each_setup(|broker| {
        let queue = broker.queue("many-groups");
        for number in 0..4_096 {
            assert_eq!(queue.pop(&format!("group=g{number}")), []);
        }
        let answer = queue.get(&queue.pop_target("group=one-more"));
        answer.assert_refused(403, "ephemeral_quota_exceeded");
        assert_eq!(queue.row().unwrap()["groups"], 4_096);
        queue.push(&[json!(1)]);
        assert_eq!(queue.pop_payloads("group=g0"), [json!(1)]);
        queue.delete();
    });
}

#[test]
fn a_lease_belongs_to_its_group() {
    each_setup(|broker| {
        let queue = broker.queue("lease-of-group");
        queue.push(&[json!(1)]);
        let message = queue.pop_one("group=a");
        let outcome = queue.settle_one(Some("b"), &message.id, "completed");
        assert_eq!(outcome, "unknown");
        let outcome = queue.settle_one(Some("a"), &message.id, "completed");
        assert_eq!(outcome, "acked");
    });
}
