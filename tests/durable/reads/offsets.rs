//! Reads by offsets, and partitions that were written to.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::Queue;

fn offsets(entry: &Value) -> Vec<i64> {
    let records = entry["records"].as_array().expect("records");
    let offset = |record: &Value| record["offset"].as_i64().expect("an offset");
    records.iter().map(offset).collect()
}

#[test]
fn messages_are_read_by_offset_without_a_lease() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[10, 11]);
    queue.push("p", &[12]);
    let body = json!({"entries": [
        {"queue": queue.name, "partition": "p", "offset": 1},
        {"queue": queue.name, "partition": "p", "offset": 3},
        {"queue": queue.name, "partition": "p", "offset": 4},
        {"queue": queue.name, "offset": 0},
    ]});
    for _ in 0..2 {
        let answer = queue.post("fetch", &body).expect(200);
        let entries = &answer["entries"];
        assert_eq!(offsets(&entries[0]), [1, 2]);
        let record = &entries[0]["records"][0];
        assert_eq!(
            (&record["payload"], &record["transactionId"]),
            (&json!(11), &json!("11"))
        );
        let time = record["ts"].as_str().expect("a time");
        assert_eq!(time.len(), "2026-01-31T12:00:00.000000Z".len(), "{time}");
        assert_eq!(entries[0]["highWatermark"], 3);
        assert_eq!(
            (&entries[0]["logStartOffset"], entries[0].get("error")),
            (&json!(0), None)
        );
        assert!(offsets(&entries[1]).is_empty() && entries[1].get("error").is_none());
        assert_eq!(entries[2]["error"], "OFFSET_OUT_OF_RANGE");
        assert_eq!(entries[3]["error"], "UNKNOWN_TOPIC_OR_PARTITION");
        assert_eq!(entries[3]["partition"], "Default");
    }
    assert_eq!(queue.pop_numbers("g"), [10, 11, 12]);
}

#[test]
fn an_answer_has_one_segment_at_least_and_no_more_than_it_may() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[1]);
    queue.push("p", &[2]);
    let entry = json!({"queue": queue.name, "partition": "p", "offset": 0, "maxBytes": 1});
    let one = queue
        .post("fetch", &json!({"entries": [entry]}))
        .expect(200);
    assert_eq!(offsets(&one["entries"][0]), [0]);
    let entry = json!({"queue": queue.name, "partition": "p", "offset": 0});
    let body = json!({"entries": [entry, entry], "maxBytes": 1});
    let both = queue.post("fetch", &body).expect(200);
    assert_eq!(offsets(&both["entries"][0]), [0]);
    assert_eq!(offsets(&both["entries"][1]), [] as [i64; 0]);
    assert_eq!(both["entries"][1]["highWatermark"], 2);
}

#[test]
fn a_read_waits_for_messages_and_holds_up_no_other_one() {
    let queue = Queue::configured(json!({}));
    queue.push("p", &[1]);
    let entry = json!({"queue": queue.name, "partition": "p", "offset": 1});
    let began = Instant::now();
    let body = json!({"entries": [entry], "maxWaitMs": 20_000});
    thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.post("fetch", &body).expect(200));
        let empty = json!({"entries": [entry], "maxWaitMs": 300});
        let short = queue.post("fetch", &empty).expect(200);
        assert_eq!(offsets(&short["entries"][0]), [] as [i64; 0]);
        assert!(began.elapsed() >= Duration::from_millis(300));
        queue.get("resources/overview").expect(200);
        queue.push("p", &[2]);
        let answer = waiting.join().expect("it is answered");
        assert_eq!(offsets(&answer["entries"][0]), [1]);
    });
    assert!(began.elapsed() < Duration::from_secs(20));
    let unknown = json!({"queue": queue.name, "partition": "nobody", "offset": 0});
    let body = json!({"entries": [entry, unknown], "maxWaitMs": 20_000});
    queue.post("fetch", &body).expect(200);
    let body = json!({"entries": [entry], "maxWaitMs": 20_000, "minBytes": 0});
    queue.post("fetch", &body).expect(200);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "a fault is told at once"
    );
}

#[test]
fn partitions_that_were_written_to_are_found_page_by_page() {
    let queue = Queue::configured(json!({}));
    for partition in ["a", "b", "c"] {
        queue.push(partition, &[1]);
    }
    let ask = |entry: Value| {
        let answer = queue
            .post("partitions/changed", &json!({"entries": [entry]}))
            .expect(200);
        assert_eq!(answer["safeTimeDegraded"], false);
        (answer["entries"][0].clone(), answer["safeTime"].clone())
    };
    let (page, safe_time) = ask(json!({"queue": queue.name, "limit": 2}));
    let names = |page: &Value| {
        let rows = page["partitions"].as_array().expect("partitions").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&page), ["a", "b"]);
    let first = &page["partitions"][0];
    assert_eq!(
        (&first["lastOffset"], &first["logStart"]),
        (&json!(0), &json!(0))
    );
    assert!(first["id"].is_string());
    let (page, _) = ask(json!({"queue": queue.name, "limit": 2, "after": page["next"]}));
    assert_eq!(
        (names(&page), &page["next"]),
        (vec!["c".to_owned()], &Value::Null)
    );
    let last = page["partitions"][0]["lastWriteAt"].clone();
    assert!(safe_time.as_str() < last.as_str(), "{safe_time} {last}");
    queue.push("b", &[2]);
    let (since, _) = ask(json!({"queue": queue.name, "since": safe_time}));
    assert!(names(&since).contains(&"b".to_owned()));
    let (none, _) = ask(json!({"queue": queue.name, "since": "2100-01-01T00:00:00Z"}));
    assert_eq!((names(&none), none.get("error")), (vec![], None));
    let (bad, _) = ask(json!({"queue": queue.name, "after": "what"}));
    assert_eq!(bad["error"], "BAD_CURSOR");
    let (unknown, _) = ask(json!({"queue": format!("{}-nope", queue.name)}));
    assert_eq!(unknown["error"], "UNKNOWN_TOPIC_OR_PARTITION");
    let empty = queue
        .post("partitions/changed", &json!({"entries": []}))
        .expect(200);
    assert!(empty["safeTime"].is_string());
}
