//! Partitions: the default one, and pops that name none.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::each_setup;
use crate::support::queue::numbers;

#[test]
fn a_push_without_a_partition_goes_to_the_default_one() {
    each_setup(|broker| {
        let queue = broker.queue("default-partition");
        queue.push(&[json!(1)]);
        let body = json!({
            "queue": queue.name, "partition": null, "messages": [{"payload": 2}],
        });
        queue.post("/api/v1/ephemeral/push", &body).expect(201);
        let got = queue.pop("batch=9&partition=Default");
        assert_eq!(got.len(), 2);
        assert!(got.iter().all(|message| message.partition == "Default"));
    });
}

#[test]
fn one_batch_spans_partitions() {
    each_setup(|broker| {
        let queue = broker.queue("span");
        for partition in ["a", "b", "c"] {
            queue.push_to(partition, &numbers(0..2));
        }
        let got = queue.pop("batch=6");
        let names: BTreeSet<&str> = got.iter().map(|message| &*message.partition).collect();
        assert_eq!(names, BTreeSet::from(["a", "b", "c"]));
        for partition in ["a", "b", "c"] {
            let order: Vec<&Value> = got
                .iter()
                .filter(|message| message.partition == partition)
                .map(|message| &message.payload)
                .collect();
            assert_eq!(order, [&json!(0), &json!(1)], "order inside {partition}");
        }
    });
}

#[test]
fn a_busy_early_name_cannot_starve_a_late_one() {
    each_setup(|broker| {
        let queue = broker.queue("starve");
        queue.push_to("a", &numbers(0..50));
        queue.push_to("z", &[json!("last")]);
        let mut taken = 0;
        loop {
            let message = queue.pop_one("autoAck=true");
            taken += 1;
            if message.partition == "z" {
                break;
            }
            queue.push_to("a", &[json!("more")]);
            assert!(taken < 4, "partition z waits behind a for ever");
        }
    });
}

#[test]
fn a_pop_without_a_partition_creates_none() {
    each_setup(|broker| {
        let queue = broker.queue("creates-none");
        assert_eq!(queue.pop("group=g"), []);
        let row = queue.row().expect("the queue was created");
        assert_eq!(row["tier"], "implicit");
        assert_eq!(row["partitions"], 0);
        assert_eq!(row["groups"], 1);
    });
}

#[test]
fn partitions_are_counted_and_listed_by_name() {
    each_setup(|broker| {
        let queue = broker.queue("counted");
        for partition in ["b", "a", "c"] {
            queue.push_to(partition, &[json!("x")]);
        }
        assert_eq!(queue.row().unwrap()["partitions"], 3);
        let depth = queue.depth();
        let names: Vec<&Value> = depth["partitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["partition"])
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(depth["partitionsPending"], 3);
        assert_eq!(depth["pending"], 3);
    });
}
