//! Messages and dead letters.

use serde_json::{Value, json};

use crate::rig::{Queue, address};
use crate::support::encode;

#[test]
fn a_message_tells_everything_of_itself() {
    let queue = Queue::configured(json!({"leaseTime": 60}));
    queue.push("p/1", &[7, 8]);
    let taken = queue.pop("g", "batch=1");
    let path = format!("messages/{}", address(&taken[0]));
    let detail = queue.get(&path).expect(200);
    assert_eq!(
        (&detail["id"], &detail["transactionId"]),
        (&taken[0]["id"], &json!("7"))
    );
    assert_eq!(
        (&detail["queue"], &detail["partition"]),
        (&json!(queue.name), &json!("p/1"))
    );
    assert_eq!(detail["queuePath"], format!("{}/p/1", queue.name));
    assert_eq!(
        (&detail["data"], &detail["payload"]),
        (&json!(7), &json!(7))
    );
    assert_eq!(
        (&detail["status"], &detail["consumed"]),
        (&json!("processing"), &json!(false))
    );
    assert_eq!(detail["queueConfig"]["leaseTime"], 60);
    assert_eq!(detail["consumerGroups"][0]["name"], "g");
    assert!(detail["leaseExpiresAt"].is_string() && detail["createdAt"].is_string());
    assert_eq!(
        (&detail["traceId"], &detail["producerSub"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&detail["isEncrypted"], &detail["mode"]),
        (&json!(false), &json!({"type": "bus"}))
    );
    assert_eq!(detail["createdAt"], taken[0]["createdAt"]);

    queue.ack("g", &taken, "completed");
    let settled = queue.get(&path).expect(200);
    assert_eq!(
        (&settled["status"], &settled["consumed"]),
        (&json!("completed"), &json!(true))
    );
    assert_eq!(settled["consumerGroups"][0]["leaseExpiresAt"], Value::Null);
    let taken = queue.pop("g", "batch=1");
    queue.ack("g", &taken, "dlq");
    let dead = queue
        .get(&format!("messages/{}", address(&taken[0])))
        .expect(200);
    assert_eq!(
        (&dead["status"], &dead["errorMessage"]),
        (&json!("dead_letter"), &json!("it failed"))
    );
    assert_eq!(dead["group"], "g");
}

#[test]
fn what_is_no_message_is_not_found() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[7]);
    let taken = queue.pop("g", "batch=1");
    let id = taken[0]["partitionId"].as_str().expect("an id");
    for path in [
        format!("messages/{id}/8"),
        format!("messages/{id}/"),
        format!("messages/{id}/%00"),
        "messages/999999999999/7".to_owned(),
        "messages/99999999999999999999999999/7".to_owned(),
        "messages/8a5e7c3e-0000-4000-8000-000000000000/7".to_owned(),
    ] {
        let answer = queue.get(&path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert_eq!(answer.json()["error"], "Message not found");
    }
}

#[test]
fn messages_are_listed_newest_first_and_by_how_they_stand() {
    let queue = Queue::configured(json!({}));
    queue.push("a", &[1, 2]);
    queue.push("b", &[3]);
    let path = format!("messages?queue={}", encode(&queue.name));
    let list = |query: &str| queue.get(&format!("{path}{query}")).expect(200);
    let numbers = |listed: &Value| {
        let rows = listed["messages"].as_array().expect("messages").iter();
        rows.map(|row| row["data"].as_u64().expect("a number"))
            .collect::<Vec<_>>()
    };
    let all = list("&limit=50");
    assert_eq!(numbers(&all), [3, 2, 1]);
    assert_eq!(
        (&all["total"], &all["mode"]["type"]),
        (&json!(3), &json!("none"))
    );
    let row = &all["messages"][1];
    assert_eq!(
        (&row["transactionId"], &row["status"]),
        (&json!("2"), &json!("pending"))
    );
    assert!(row["txnHash"].is_string() && row["segment"]["seq"].is_i64());
    assert_eq!(row["payloadAvailable"], true);
    assert_eq!(numbers(&list("&limit=1&offset=1")), [2]);
    assert_eq!(numbers(&list("&partition=b")), [3]);
    assert_eq!(numbers(&list("&to=2000-01-01")), [] as [u64; 0]);
    assert_eq!(numbers(&list("&from=2100-01-01")), [] as [u64; 0]);
    assert_eq!(numbers(&list("&to=2100-01-01&from=2000-01-01")), [3, 2, 1]);
    queue.settle_all("g");
    queue.push("a", &[4]);
    assert_eq!(numbers(&list("&status=completed")), [3, 2, 1]);
    let pending = list("&status=pending");
    assert_eq!(
        (numbers(&pending), &pending["mode"]["type"]),
        (vec![4], &json!("bus"))
    );
    assert_eq!(
        pending["messages"][0]["busStatus"],
        json!({"consumedBy": 0, "totalGroups": 1})
    );
    queue.give_up_all("g");
    assert_eq!(numbers(&list("&status=dead_letter")), [4]);
}

#[test]
fn dead_letters_are_filtered_and_counted() {
    let queue = Queue::configured(json!({}));
    queue.push("a", &[1, 2]);
    queue.push("b", &[3]);
    queue.give_up_all("g");
    queue.give_up_all("h");
    let path = format!("dlq?queue={}", encode(&queue.name));
    let list = |query: &str| queue.get(&format!("{path}{query}")).expect(200);
    let of_group = list("&consumerGroup=g");
    assert_eq!(
        (&of_group["total"], &of_group["pagination"]),
        (&json!(3), &json!({"limit": 100, "offset": 0}))
    );
    let row = &of_group["messages"][0];
    for key in [
        "id",
        "transactionId",
        "partitionId",
        "createdAt",
        "failedAt",
    ] {
        assert!(row[key].is_string(), "{key} of {row}");
    }
    assert_eq!(
        (&row["queue"], &row["consumerGroup"]),
        (&json!(queue.name), &json!("g"))
    );
    assert_eq!(
        (&row["errorMessage"], &row["retryCount"]),
        (&json!("it failed"), &json!(0))
    );
    assert!(row["data"].is_u64() && row["producerSub"].is_null());
    let page = list("&limit=2&offset=1");
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["total"], 6, "all that match, not the page");
    let ids = |listed: &Value| {
        let rows = listed["messages"].as_array().expect("messages").iter();
        rows.map(|row| {
            row["id"]
                .as_str()
                .expect("an id")
                .parse()
                .expect("a number")
        })
        .collect::<Vec<u64>>()
    };
    assert!(ids(&list("")).is_sorted_by(|newer, older| newer > older));
    assert_eq!(list("&partition=b")["total"], 2);
    assert_eq!(list("&from=2100-01-01")["total"], 0);
    assert_eq!(list("&from=2000-01-01&to=2100-01-01")["total"], 6);
    let past = list("&offset=10");
    assert_eq!((&past["total"], &past["messages"]), (&json!(6), &json!([])));
}
