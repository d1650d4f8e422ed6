//! Many clients that change one queue at once, through several brokers: at the end all agree.

use std::thread;

use serde_json::{Value, json};

use crate::reconcile::Pair;
use crate::rig::{PATIENCE, database, plan_on};
use crate::support::{Broker, Queue, eventually_within};

const CLIENTS: u64 = 6;
const CHANGES: u64 = 12;

/// What a broker or the table has for a queue: its `maxLength`, or nothing.
fn length_of(row: Option<Value>) -> Option<u64> {
    let row = row.filter(|row| row["tier"] == "declared")?;
    row["options"]["maxLength"].as_u64()
}

fn stored(pair: &Pair, queue: &str) -> Option<u64> {
    let question = "SELECT options FROM queen.ephemeral_queue WHERE queue = $1";
    let row = pair.database.client().query_opt(question, &[&queue]);
    let text: String = row.expect("an answer")?.get(0);
    let options: Value = serde_json::from_str(&text).expect("JSON");
    options["maxLength"].as_u64()
}

/// Runs `change` for each number of each client, half of the clients on either broker.
fn at_once(pair: &Pair, name: &str, change: impl Fn(&Queue, u64) + Sync) {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let broker: &Broker = if client % 2 == 0 {
                &pair.first
            } else {
                &pair.second
            };
            let change = &change;
            scope.spawn(move || {
                let queue = broker.queue_named(name);
                for number in 0..CHANGES {
                    change(&queue, 1 + client * CHANGES + number);
                }
            });
        }
    });
}

#[track_caller]
fn assert_all_agree(pair: &Pair, name: &str) -> Option<u64> {
    let here = pair.first.queue_named(name);
    let there = pair.second.queue_named(name);
    let mut last = (None, None, None);
    eventually_within(PATIENCE, "both brokers and the table agree", || {
        last = (
            length_of(here.row()),
            length_of(there.row()),
            stored(pair, name),
        );
        last.0 == last.1 && last.1 == last.2
    });
    last.2
}

#[test]
fn brokers_and_the_table_agree_after_many_clients_have_declared_one_queue() {
    let pair = Pair::common();
    let (here, _) = pair.queues("contended");
    at_once(&pair, &here.name, |queue, length| {
        let body = queue.configure(json!({"maxLength": length}));
        assert_eq!(body["durable"], true, "{body}");
    });
    assert!(assert_all_agree(&pair, &here.name).is_some());
}

#[test]
fn brokers_and_the_table_agree_after_many_clients_have_declared_and_deleted_one_queue() {
    let pair = Pair::common();
    let (here, _) = pair.queues("churned");
    at_once(&pair, &here.name, |queue, length| {
        if length % 3 == 1 {
            queue.delete();
        } else {
            queue.configure(json!({"maxLength": length}));
        }
    });
    assert_all_agree(&pair, &here.name);
    // The other broker has to learn of both from the table.
    here.configure(json!({"maxLength": 7}));
    assert_eq!(assert_all_agree(&pair, &here.name), Some(7));
    here.delete();
    assert_eq!(assert_all_agree(&pair, &here.name), None);
}

#[test]
fn a_declaration_that_was_answered_is_never_seen_undone() {
    let pair = Pair::common();
    let (here, there) = pair.queues("monotonic");
    for length in 1..=30 {
        // What the other broker has changed before must not come in over this.
        let (one, other) = if length % 2 == 0 {
            (&here, &there)
        } else {
            (&there, &here)
        };
        one.configure(json!({"maxLength": length}));
        assert_eq!(length_of(one.row()), Some(length));
        other.configure(json!({"maxLength": 1_000 + length}));
        assert_eq!(length_of(other.row()), Some(1_000 + length));
    }
    assert_eq!(assert_all_agree(&pair, &here.name), Some(1_030));
}

#[test]
fn many_queues_declared_at_once_are_all_stored() {
    let pair = Pair::common();
    let (here, _) = pair.queues("many");
    let name_of = |number: u64| format!("{}.{number}", here.name);
    at_once(&pair, &here.name, |queue, number| {
        let body = json!({"queue": name_of(number), "options": {"maxLength": number}});
        let answer = queue.post("/api/v1/ephemeral/configure", &body).expect(201);
        assert_eq!(answer["durable"], true, "{answer}");
    });
    for number in 1..=CLIENTS * CHANGES {
        assert_eq!(assert_all_agree(&pair, &name_of(number)), Some(number));
    }
}

#[test]
fn a_second_broker_on_a_database_is_named_in_the_log() {
    let database = database();
    let first = plan_on(&database).start();
    let second = plan_on(&database).start();
    let port = second.address().port().to_string();
    eventually_within(PATIENCE, "the first says who the second is", || {
        first
            .output()
            .lines()
            .any(|line| line.contains("WARN") && line.contains(&port))
    });
}
