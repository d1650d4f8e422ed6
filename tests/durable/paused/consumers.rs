//! A pop, acks, and a transaction are paused. Meanwhile the other broker takes and settles the same.

use std::collections::BTreeSet;
use std::slice;

use serde_json::{Value, json};

use super::{Ending, Scene, ack, ack_of, catch_up, ids_of, offset_of, pop, push};
use crate::rig::PATIENCE;
use crate::support::{Client, eventually_within, unique};

const WORKERS: &str = "consumerGroup=workers&leaseSeconds=300";

/// A queue with a partition and a group that both brokers know, and its first message, which is settled.
fn queue(scene: &Scene) -> (String, Value) {
    let queue = unique("paused");
    let body = json!({"queue": queue, "options": {"retryLimit": 1000}});
    let mut client = scene.free.plain_client();
    client.post("/api/v1/configure", &body).expect(200);
    push(&mut client, &queue, &["first".to_owned()]);
    let first = settle_next(&mut client, &queue, 1).remove(0);
    pop(&mut scene.paused.plain_client(), &queue, WORKERS);
    (queue, first)
}

fn names(kind: &str, round: u64, count: u64) -> Vec<String> {
    let name = |number| format!("{kind}-{round}-{number}");
    (0..count).map(name).collect()
}

/// Takes what comes next, as soon as the broker knows of it.
fn take(client: &mut Client, queue: &str, count: usize) -> Vec<Value> {
    let mut taken = Vec::new();
    eventually_within(PATIENCE, "messages", || {
        let query = format!("{WORKERS}&wait=true&timeout=1000");
        taken.extend(pop(client, queue, &query));
        taken.len() >= count
    });
    assert_eq!(taken.len(), count, "{taken:?}");
    taken
}

fn settle_next(client: &mut Client, queue: &str, count: usize) -> Vec<Value> {
    let taken = take(client, queue, count);
    assert!(ack(client, &taken, "completed").iter().all(|done| *done));
    taken
}

/// Nothing is left for the group, whichever broker is asked.
fn assert_settled(scene: &Scene, queue: &str) {
    scene.wait_until_stored();
    for broker in [&scene.paused, &scene.free] {
        let query = format!("{WORKERS}&wait=true&timeout=400");
        let left = pop(&mut broker.plain_client(), queue, &query);
        assert_eq!(left, Vec::<Value>::new(), "something came twice");
    }
}

/// What the brokers know when a pop begins that is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Both know everything.
    All,
    /// The one that is paused may not have heard that the other has just taken something.
    Late,
}

/// Pauses a pop after so many messages. Everything that is delivered meanwhile is added to `settled`;
/// says whether there was a pause.
fn pause_pop(
    scene: &Scene,
    (queue, known): (&str, Known),
    messages: u64,
    settled: &mut Vec<Value>,
) -> bool {
    let (mut paused, mut free) = (scene.paused.plain_client(), scene.free.plain_client());
    let round = settled.len() as u64;
    push(&mut paused, queue, &names("m", round, 2));
    for client in [&mut paused, &mut free] {
        catch_up(client, settled.last().expect("the first message"));
    }
    let taken = match known {
        Known::All => Vec::new(),
        Known::Late => pop(&mut free, queue, &format!("{WORKERS}&batch=1")),
    };
    let answers = scene.pause_after(
        (messages, Ending::GoesOn),
        |client| pop(client, queue, WORKERS),
        |client| {
            let first = match known {
                Known::All => pop(client, queue, WORKERS),
                Known::Late => taken,
            };
            let done = ack(client, &first, "completed");
            assert!(done.iter().all(|done| *done));
            push(client, queue, &names("n", round, 1));
            (first, pop(client, queue, WORKERS))
        },
    );
    let (first, second) = answers.free;
    for (client, taken) in [(&mut paused, &answers.paused), (&mut free, &second)] {
        let offsets: Vec<u64> = taken.iter().map(offset_of).collect();
        assert!(offsets.is_sorted());
        let done = ack(client, taken, "completed");
        assert!(
            done.iter().all(|done| *done),
            "an answered lease does not hold"
        );
    }
    settled.extend([first, answers.paused, second].concat());
    answers.was_held
}

#[test]
fn a_pop_that_is_paused_takes_nothing_that_another_broker_has_taken() {
    let scene = Scene::begin();
    for known in [Known::All, Known::Late] {
        let (queue, first) = queue(&scene);
        let mut settled = vec![first];
        let (mut messages, mut rounds) = (0, 0);
        let mut pause = |messages| {
            rounds += 1;
            pause_pop(&scene, (&queue, known), messages, &mut settled)
        };
        // Once more, because the one that is late may have heard just in time.
        while pause(messages) || pause(messages) {
            messages += 1;
        }
        assert!(messages >= 7, "only {messages} steps");
        let left = rounds * 3 + 1 - settled.len();
        if left > 0 {
            settled.extend(settle_next(&mut scene.free.plain_client(), &queue, left));
        }
        let distinct: BTreeSet<u64> = settled.iter().map(offset_of).collect();
        assert_eq!(distinct.len(), settled.len(), "something was taken twice");
        assert_settled(&scene, &queue);
    }
    let log = scene.database.server().log();
    assert!(!log.contains("ERROR"), "a conflict is no error: {log}");
}

#[test]
fn of_an_ack_that_is_paused_and_a_nack_of_another_broker_one_counts() {
    let scene = Scene::begin();
    let (queue, _) = queue(&scene);
    for round in 0.. {
        let ids = names("m", round, 2);
        let mut client = scene.paused.plain_client();
        push(&mut client, &queue, &ids);
        let taken = take(&mut client, &queue, 2);
        let lease = super::text(&taken[0], "leaseId");
        let answers = scene.pause_after(
            (round, Ending::GoesOn),
            |client| ack(client, &taken, "completed"),
            |client| {
                let path = format!("/api/v1/lease/{lease}/extend");
                client.post(&path, &json!({"seconds": 400})).expect(200);
                assert_eq!(pop(client, &queue, WORKERS), Vec::<Value>::new());
                ack(client, &taken[1..], "failed")
            },
        );
        match (&*answers.paused, &*answers.free) {
            ([true, true], [false]) => {}
            ([false, false], [true]) => {
                catch_up(&mut client, &taken[0]);
                let again = settle_next(&mut client, &queue, 2);
                assert_eq!(ids_of(&again), ids, "what failed comes again");
            }
            other => panic!("{other:?}"),
        }
        if !answers.was_held {
            break;
        }
    }
    assert_settled(&scene, &queue);
}

/// Acks everything and pushes one message to another queue, together.
fn transaction(client: &mut Client, taken: &[Value], (outbox, id): (&str, &str)) -> Value {
    let mut operations: Vec<Value> = taken
        .iter()
        .map(|message| {
            let mut operation = ack_of(message, "completed");
            operation["type"] = json!("ack");
            operation
        })
        .collect();
    let item = json!({"queue": outbox, "partition": "p", "payload": id, "transactionId": id});
    operations.push(json!({"type": "push", "items": [item]}));
    let body = json!({"operations": operations, "requiredLeases": [taken[0]["leaseId"]]});
    client.post("/api/v1/transaction", &body).expect(200)
}

#[test]
fn a_transaction_that_is_paused_happens_as_a_whole_or_not_at_all() {
    let scene = Scene::begin();
    let (queue, _) = queue(&scene);
    let outbox = unique("outbox");
    let mut expected = Vec::new();
    for step in 0.. {
        let mut was_held = false;
        // The other broker pushes the same message, or fails what the transaction acks.
        for kind in ["push", "nack"] {
            let ids = names(kind, step, 2);
            let mut client = scene.paused.plain_client();
            push(&mut client, &queue, &ids);
            let taken = take(&mut client, &queue, 2);
            let out = format!("{kind}-{step}");
            let answers = scene.pause_after(
                (step, Ending::GoesOn),
                |client| transaction(client, &taken, (&outbox, &out)),
                |client| match kind {
                    "push" => {
                        push(client, &outbox, slice::from_ref(&out))[&out]["status"] == "queued"
                    }
                    _ => ack(client, &taken, "failed") == [true, true],
                },
            );
            was_held |= answers.was_held;
            let (paused, free) = (answers.paused["success"] == true, answers.free);
            assert_ne!(paused, free, "{kind}: {}", answers.paused);
            if paused || kind == "push" {
                expected.push(out);
            }
            if !paused && kind == "push" {
                // Nothing of it has happened: its lease holds.
                assert_eq!(ack(&mut client, &taken, "completed"), [true, true]);
            } else if !paused {
                catch_up(&mut client, &taken[0]);
                let again = settle_next(&mut client, &queue, 2);
                assert_eq!(ids_of(&again), ids);
            }
        }
        if !was_held {
            break;
        }
    }
    assert_settled(&scene, &queue);
    let mut client = scene.free.plain_client();
    let sent = settle_next(&mut client, &outbox, expected.len());
    assert_eq!(ids_of(&sent), expected);
    assert_settled(&scene, &outbox);
}
