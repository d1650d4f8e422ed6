//! Traces of messages.

use serde_json::{Value, json};

use crate::rig::{Queue, address};
use crate::support::{encode, unique};

fn trace(message: &Value, names: Value) -> Value {
    json!({
        "transactionId": message["transactionId"], "partitionId": message["partitionId"],
        "consumerGroup": "g", "traceNames": names, "eventType": "step", "data": {"n": [1, null]},
    })
}

#[test]
fn traces_are_found_by_message_and_by_name() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[41, 42]);
    let messages = queue.pop("g", "batch=2");
    let name = unique("a name/1");
    for message in &messages {
        let answer = queue
            .post("traces", &trace(message, json!([name])))
            .expect(201);
        assert_eq!(answer["success"], true);
        assert!(answer["traceId"].is_string(), "{answer}");
    }
    queue
        .post("traces", &trace(&messages[0], Value::Null))
        .expect(201);
    let found = queue
        .get(&format!("traces/{}", address(&messages[0])))
        .expect(200);
    let rows = found["traces"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["event_type"], &rows[0]["data"]),
        (&json!("step"), &json!({"n": [1, null]}))
    );
    assert_eq!(
        (&rows[0]["consumer_group"], &rows[0]["worker_id"]),
        (&json!("g"), &Value::Null)
    );
    assert_eq!(
        (&rows[0]["trace_names"], &rows[1]["trace_names"]),
        (&json!([name]), &json!([]))
    );
    let by_name = format!("traces/by-name/{}?limit=1&offset=1", encode(&name));
    let found = queue.get(&by_name).expect(200);
    assert_eq!(
        (&found["total"], &found["pagination"]),
        (&json!(2), &json!({"limit": 1, "offset": 1}))
    );
    let row = &found["traces"][0];
    assert_eq!(
        (&row["transaction_id"], &row["message_payload"]),
        (&json!("41"), &json!(41))
    );
    assert_eq!(
        (&row["queue_name"], &row["partition_name"]),
        (&json!(queue.name), &json!("p"))
    );
    assert_eq!(row["partition_id"], messages[0]["partitionId"]);
    let names = queue.get("traces/names?limit=1000").expect(200);
    let names = names["trace_names"].as_array().expect("names");
    let own = names
        .iter()
        .find(|row| row["trace_name"] == *name)
        .expect("the name");
    assert_eq!(
        (&own["trace_count"], &own["message_count"]),
        (&json!(2), &json!(2))
    );
    assert!(own["last_seen"].as_str().expect("a time").ends_with('Z'));
}

#[test]
fn the_payload_of_what_was_pushed_comes_with_a_trace_whatever_group_it_names() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[41, 42]);
    let message = queue.pop("g", "batch=1").remove(0);
    // The second one was delivered to nobody.
    let ids = [&message["transactionId"], &json!("42")];
    for group in [json!("g"), json!("unknown"), Value::Null] {
        let name = unique("trace");
        for id in ids {
            let mut body = trace(&message, json!([name]));
            body["transactionId"] = id.clone();
            body["consumerGroup"] = group.clone();
            queue.post("traces", &body).expect(201);
        }
        let by_name = format!("traces/by-name/{}", encode(&name));
        let found = queue.get(&by_name).expect(200);
        let payloads = [0, 1].map(|row| &found["traces"][row]["message_payload"]);
        assert_eq!(payloads, [&json!(42), &json!(41)], "{group}");
    }
}

#[test]
fn what_is_unknown_has_no_traces_and_gets_none() {
    let queue = Queue::configured(json!({}));
    let nobody = json!({"transactionId": "t", "partitionId": "no number"});
    assert_eq!(
        queue.get("traces/no%20number/t").expect(200),
        json!({"traces": []})
    );
    let answer = queue
        .post("traces", &trace(&nobody, Value::Null))
        .expect(404);
    assert_eq!(
        (&answer["success"], &answer["code"]),
        (&json!(false), &json!("not_found"))
    );
    let none = queue
        .get(&format!("traces/by-name/{}", unique("nothing")))
        .expect(200);
    assert_eq!((&none["traces"], &none["total"]), (&json!([]), &json!(0)));
    for body in [
        "",
        "{}",
        "{\"transactionId\":\"t\",\"data\":1}",
        "{\"transactionId\":\"t\",\"partitionId\":\"1\"}",
        "{\"transactionId\":\"t\",\"partitionId\":\"1\",\"data\":1,\"traceNames\":\"x\"}",
        "{\"transactionId\":\"t\",\"partitionId\":\"1\",\"data\":1,\"eventType\":5}",
    ] {
        queue
            .post_raw("traces", body)
            .assert_refused(400, "bad_request");
    }
    for query in ["limit=0", "limit=x", "offset=-1"] {
        queue
            .get(&format!("traces/names?{query}"))
            .assert_refused(400, "bad_request");
    }
}

#[test]
fn traces_go_with_their_queue() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[1]);
    let messages = queue.pop("g", "batch=1");
    let name = unique("gone");
    queue
        .post("traces", &trace(&messages[0], json!([name])))
        .expect(201);
    queue
        .delete(&format!("resources/queues/{}", encode(&queue.name)))
        .expect(200);
    let found = queue
        .get(&format!("traces/{}", address(&messages[0])))
        .expect(200);
    assert_eq!(found["traces"], json!([]));
    let found = queue
        .get(&format!("traces/by-name/{}", encode(&name)))
        .expect(200);
    assert_eq!(found["total"], 0);
}
