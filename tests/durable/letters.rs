//! Dead letters that are taken up again or thrown away.

use serde_json::{Value, json};

use crate::rig::{Queue, address};
use crate::support::encode;

/// A queue in which a group has given up these messages.
fn given_up(numbers: &[u64]) -> (Queue, Vec<Value>) {
    let queue = Queue::configured(json!({}));
    queue.push("p", numbers);
    let letters = queue.give_up_all("g");
    assert_eq!(letters.len(), numbers.len());
    (queue, letters)
}

#[test]
fn a_dead_letter_is_replayed_to_the_end_of_its_partition() {
    let (queue, letters) = given_up(&[7, 8]);
    let path = format!("messages/{}/retry", address(&letters[0]));
    let answer = queue.post_raw(&path, "").expect(200);
    assert_eq!(
        (&answer["success"], &answer["result"]),
        (&json!(true), &json!("moved"))
    );
    assert_eq!(
        (&answer["queue"], &answer["partition"]),
        (&json!(queue.name), &json!("p"))
    );
    assert_eq!(answer["consumerGroup"], "g");
    assert_eq!(answer["originalTransactionId"], "7");
    assert_eq!(answer["dlqRowRemoved"], true);
    let id = answer["dlqId"].as_str().expect("an id").to_owned();
    let replayed = &answer["replayedAs"];
    assert_eq!(replayed["transaction_id"], format!("dlq:{id}"));
    assert_eq!(
        (&replayed["status"], &replayed["offset"]),
        (&json!("queued"), &json!(2))
    );
    let messages = queue.pop("g", "batch=10");
    assert_eq!((messages.len(), &messages[0]["data"]), (1, &json!(7)));
    assert_eq!(messages[0]["id"], replayed["message_id"]);
    assert_eq!(messages[0]["transactionId"], replayed["transaction_id"]);
    // It is gone now.
    let again = queue.post_raw(&path, "").expect(404);
    assert_eq!(
        (&again["error"], &again["success"]),
        (&json!("Message not found"), &json!(false))
    );
    assert_eq!(again["transactionId"], "7");
    let by_id = queue
        .post(&format!("dlq/{id}/replay"), &json!({}))
        .expect(404);
    assert_eq!(
        (&by_id["result"], &by_id["dlqId"]),
        (&json!("gone"), &json!(id))
    );
}

#[test]
fn a_dead_letter_is_replayed_elsewhere() {
    let (queue, letters) = given_up(&[7]);
    let other = Queue::configured(json!({}));
    let listed = queue.get(&format!("dlq?queue={}", encode(&queue.name)));
    let listed = listed.expect(200)["messages"][0].clone();
    assert_eq!(listed["transactionId"], letters[0]["transactionId"]);
    let id = listed["id"].as_str().expect("an id");
    let body = json!({"queue": other.name, "partition": "q/1"});
    let answer = queue.post(&format!("dlq/{id}/replay"), &body).expect(200);
    assert_eq!(
        (&answer["queue"], &answer["partition"]),
        (&json!(other.name), &json!("q/1"))
    );
    let messages = other.pop("h", "batch=10");
    assert_eq!(
        (messages.len(), &messages[0]["partition"]),
        (1, &json!("q/1"))
    );
}

#[test]
fn who_is_no_dead_letter_is_neither_replayed_nor_thrown_away() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[1]);
    let live = queue.pop("g", "batch=1");
    let unknown = "00000000-0000-0000-0000-000000000000/1".to_owned();
    for address in [
        address(&live[0]),
        unknown,
        "99999999999999999999/1".to_owned(),
    ] {
        let answer = queue.delete(&format!("messages/{address}")).expect(404);
        assert_eq!(
            (&answer["error"], &answer["code"]),
            (&json!("Message not found"), &json!("not_found"))
        );
        queue
            .post_raw(&format!("messages/{address}/retry"), "")
            .expect(404);
    }
    for id in ["0", "x", "-1", "9223372036854775807", "9223372036854775808"] {
        queue
            .post(&format!("dlq/{id}/replay"), &json!({}))
            .expect(404);
    }
    queue.ack("g", &live, "completed");
}

#[test]
fn a_dead_letter_is_thrown_away_once() {
    let (queue, letters) = given_up(&[7]);
    let path = format!("messages/{}", address(&letters[0]));
    let answer = queue.delete(&path).expect(200);
    assert_eq!(
        (&answer["success"], &answer["transactionId"]),
        (&json!(true), &json!("7"))
    );
    assert_eq!(answer["partitionId"], letters[0]["partitionId"]);
    queue.delete(&path).expect(404);
    queue.post_raw(&format!("{path}/retry"), "").expect(404);
}

#[test]
fn many_are_replayed_and_thrown_away_by_a_filter() {
    let (queue, _) = given_up(&[1, 2, 3, 4]);
    queue.push("p", &[5]);
    assert_eq!(queue.give_up_all("other").len(), 5);
    let body = json!({"queue": queue.name, "consumerGroup": "g", "to": "1970-01-01"});
    let none = queue.post("dlq/replay", &body).expect(200);
    assert_eq!(
        none,
        json!({
            "success": true, "replayed": 0, "moved": 0, "duplicates": 0, "unreadable": 0,
            "more": false,
        })
    );
    let body =
        json!({"queue": queue.name, "consumerGroup": "g", "from": "1970-01-01", "partition": "p"});
    let all = queue.post("dlq/replay", &body).expect(200);
    assert_eq!((&all["moved"], &all["more"]), (&json!(4), &json!(false)));
    assert_eq!(queue.pop_numbers("g"), [1, 2, 3, 4, 5]);
    let path = format!("dlq?queue={}", encode(&queue.name));
    let gone = queue.delete(&path).expect(200);
    assert_eq!(gone, json!({"success": true, "deleted": 5, "more": false}));
    let gone = queue.delete(&path).expect(200);
    assert_eq!(gone["deleted"], 0);
}

#[test]
fn a_filter_must_say_something() {
    let (queue, letters) = given_up(&[1]);
    for query in [
        "",
        "?queue=",
        "?all=no",
        "?from=yesterday",
        "?queue=%01",
        "?all=maybe",
    ] {
        queue
            .delete(&format!("dlq{query}"))
            .assert_refused(400, "bad_request");
    }
    for body in [
        "",
        "[]",
        "{}",
        "{\"all\":false}",
        "{\"queue\":5}",
        "{\"to\":\"soon\"}",
    ] {
        queue
            .post_raw("dlq/replay", body)
            .assert_refused(400, "bad_request");
    }
    for body in [
        "[]",
        "{\"queue\":\"\"}",
        "{\"queue\":5}",
        "{\"partition\":\"\\u0001\"}",
    ] {
        queue
            .post_raw("dlq/0/replay", body)
            .assert_refused(400, "bad_request");
    }
    queue
        .delete(&format!("messages/{}", address(&letters[0])))
        .expect(200);
}

#[test]
fn all_that_one_call_gives_up_become_dead_letters() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[1, 2, 3, 4]);
    let taken = queue.pop("g", "batch=10");
    let acks: Vec<Value> = [("dlq", 0), ("completed", 1), ("dlq", 2)]
        .iter()
        .map(|&(status, place)| {
            json!({
                "transactionId": taken[place]["transactionId"], "status": status,
                "partitionId": taken[place]["partitionId"], "leaseId": taken[place]["leaseId"],
            })
        })
        .collect();
    let body = json!({"acknowledgments": acks, "consumerGroup": "g"});
    let outcomes = queue.post("ack/batch", &body).expect(200);
    for (place, dead) in [(0, true), (1, false), (2, true)] {
        let outcome = &outcomes[place];
        assert_eq!(
            (&outcome["success"], &outcome["dlq"]),
            (&json!(true), &json!(dead))
        );
    }
    let letters = queue
        .get(&format!("dlq?queue={}", encode(&queue.name)))
        .expect(200);
    assert_eq!(letters["total"], 2);
    assert_eq!(queue.pop_numbers("g"), [4]);
}

#[test]
fn dead_letters_go_with_their_queue() {
    let (queue, letters) = given_up(&[1]);
    queue
        .delete(&format!("resources/queues/{}", encode(&queue.name)))
        .expect(200);
    queue
        .post_raw(&format!("messages/{}/retry", address(&letters[0])), "")
        .expect(404);
}
