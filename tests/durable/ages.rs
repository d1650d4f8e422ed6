//! Messages that go because of their age.

use serde_json::{Value, json};

use crate::rig::{PATIENCE, Queue};
use crate::support::{encode, eventually_within};

/// The dead letters of a queue: transaction ids and why.
fn letters(queue: &Queue) -> Vec<(String, String)> {
    let listed = queue
        .get(&format!("dlq?queue={}", encode(&queue.name)))
        .expect(200);
    let messages = listed["messages"].as_array().expect("messages");
    let text = |message: &Value, key: &str| message[key].as_str().expect("text").to_owned();
    let mut letters: Vec<(String, String)> = messages
        .iter()
        .map(|message| {
            (
                text(message, "transactionId"),
                text(message, "errorMessage"),
            )
        })
        .collect();
    letters.sort();
    letters
}

/// The transaction ids that the listing of a queue's messages shows.
fn listed(queue: &Queue) -> Vec<String> {
    let listed = queue
        .get(&format!("messages?queue={}&limit=100", encode(&queue.name)))
        .expect(200);
    let messages = listed["messages"].as_array().expect("messages");
    let id = |message: &Value| message["transactionId"].as_str().expect("text").to_owned();
    let mut ids: Vec<String> = messages.iter().map(id).collect();
    ids.sort();
    ids
}

#[test]
fn what_waits_too_long_is_given_up_even_if_it_is_leased() {
    let queue = Queue::configured(json!({"maxWaitTimeSeconds": 1, "leaseTime": 300}));
    queue.push("p", &[1, 2]);
    queue.push("q", &[3]);
    let taken = queue.pop("g", "batch=100");
    assert_eq!(taken.len(), 3);
    eventually_within(PATIENCE, "all are dead letters", || {
        letters(&queue).len() == 3
    });
    let expired = |id: &str| (id.to_owned(), "expired".to_owned());
    let expected = [expired("1"), expired("2"), expired("3")];
    assert_eq!(letters(&queue), expected);
    assert!(queue.pop("g", "batch=100").is_empty());
    // Others come as ever, however slow this test is.
    let body = json!({"queue": queue.name, "options": {"maxWaitTimeSeconds": 0}});
    queue.post("configure", &body).expect(200);
    queue.push("p", &[4]);
    assert_eq!(queue.pop_numbers("g"), [4]);
}

#[test]
fn what_waits_too_long_is_not_kept_where_dead_letters_are_not() {
    let queue = Queue::configured(json!({
        "maxWaitTimeSeconds": 1, "deadLetterQueue": false, "dlqAfterMaxRetries": false,
    }));
    queue.push("p", &[1]);
    let taken = queue.pop("g", "batch=1");
    assert_eq!(taken.len(), 1);
    eventually_within(PATIENCE, "the lease is over", || {
        let lease = taken[0]["leaseId"].as_str().expect("a lease");
        let answer = queue.post(&format!("lease/{lease}/extend"), &json!({"seconds": 60}));
        answer.expect(200)["renewed"] == 0
    });
    assert!(queue.pop("g", "batch=1").is_empty());
    assert!(letters(&queue).is_empty());
}

#[test]
fn what_all_groups_have_passed_is_removed_and_the_rest_stays() {
    let queue = Queue::configured(json!({
        "retentionEnabled": true, "retentionSeconds": 1, "dedupWindowSeconds": 1,
    }));
    for number in 1..=4 {
        queue.push("p", &[number]);
    }
    queue.push("q", &[5]);
    queue.push("q", &[6]);
    let first = queue.pop("slow", "batch=2");
    queue.ack("slow", &first, "completed");
    assert_eq!(first.len(), 2);
    let partition = &first[0]["partition"];
    assert!(
        first
            .iter()
            .all(|message| &message["partition"] == partition)
    );
    queue.settle_all("fast");
    let gone = |message: &Value| message["transactionId"].as_str().expect("text").to_owned();
    let gone: Vec<String> = first.iter().map(gone).collect();
    let all = ["1", "2", "3", "4", "5", "6"];
    // The last one of a partition stays, whoever has passed it.
    let kept: Vec<&str> = all
        .into_iter()
        .filter(|id| *id == "6" || !gone.iter().any(|other| other == id))
        .collect();
    eventually_within(PATIENCE, "what all have passed is gone", || {
        listed(&queue) == kept
    });
    // A group that begins now finds what is left, and none waits for what is gone.
    let all_left: Vec<u64> = kept
        .iter()
        .map(|id| id.parse().expect("a number"))
        .collect();
    assert_eq!(queue.pop_numbers("late"), all_left);
    let left = queue.pop_numbers("slow");
    assert!(!left.is_empty() && left.iter().all(|number| all_left.contains(number)));
}
