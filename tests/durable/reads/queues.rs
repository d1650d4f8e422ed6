//! Queues, partitions and sums.

use serde_json::{Value, json};

use crate::rig::Queue;
use crate::support::encode;

/// The element of an array whose key has this value.
#[track_caller]
pub(crate) fn find<'a>(rows: &'a Value, key: &str, value: &str) -> &'a Value {
    let rows = rows.as_array().expect("an array");
    let found = rows.iter().find(|row| row[key] == value);
    found.unwrap_or_else(|| panic!("no {key} {value:?} in {rows:?}"))
}

fn path_of(queue: &Queue) -> String {
    format!("resources/queues/{}", encode(&queue.name))
}

#[test]
fn a_queue_tells_how_its_messages_stand() {
    let queue = Queue::configured(json!({"leaseTime": 60}));
    queue.push("a", &[1, 2, 3]);
    queue.push("b", &[4]);
    let fresh = queue.get(&path_of(&queue)).expect(200);
    assert_eq!(fresh["name"], queue.name);
    assert!(fresh["id"].is_string() && fresh["createdAt"].is_string());
    assert_eq!(fresh["options"]["leaseTime"], 60);
    assert_eq!(fresh["segments"]["messages"], 4);
    assert!(fresh["retainedBytes"].as_i64() > Some(0), "{fresh}");
    let nobody = json!({"total": 4, "pending": 4, "processing": 0, "completed": 0,
        "deadLetter": 0, "failed": 0});
    assert_eq!(fresh["totals"], nobody);
    let a = find(&fresh["partitions"], "name", "a");
    assert_eq!(a["stats"]["total"], 3);
    assert!(a["oldestMessage"].as_str() <= a["newestMessage"].as_str());

    queue.settle_all("fast");
    let taken = queue.pop("slow", "batch=1");
    let partition = taken[0]["partition"].as_str().expect("a partition");
    let both = queue.get(&path_of(&queue)).expect(200);
    // The slowest group counts, and a lease of it is not settled.
    assert_eq!(both["totals"]["pending"], 4);
    assert_eq!(both["totals"]["processing"], 1);
    let held = find(&both["partitions"], "name", partition);
    assert_eq!(held["stats"]["processing"], 1, "{both}");
    queue.ack("slow", &taken, "completed");
    let settled = queue.get(&path_of(&queue)).expect(200);
    assert_eq!(settled["totals"]["pending"], 3);
    assert_eq!(settled["totals"]["completed"], 1);
    queue.ack("slow", &queue.pop("slow", "batch=1"), "dlq");
    let given_up = queue.get(&path_of(&queue)).expect(200);
    assert_eq!(given_up["totals"]["deadLetter"], 1);
    assert_eq!(given_up["totals"]["pending"], 2);
}

#[test]
fn a_queue_is_in_the_listings_at_once_and_in_both_forms() {
    let queue = Queue::configured(json!({"namespace": "ns-of-listing", "task": "task-of-listing"}));
    queue.push("a", &[1, 2]);
    let filtered = "resources/queues?namespace=ns-of-listing&limit=5";
    let listed = queue.get(filtered).expect(200);
    let row = find(&listed["queues"], "name", &queue.name);
    assert_eq!(row["namespace"], "ns-of-listing");
    assert_eq!(row["task"], "task-of-listing");
    assert_eq!(row["partitions"], 1);
    assert_eq!(row["messages"]["pending"], 2);
    assert_eq!(row["segments"]["messages"], 2);
    assert_eq!(listed["kvRows"], 0);
    let none = queue
        .get("resources/queues?namespace=nobody-has-it")
        .expect(200);
    assert_eq!(none["queues"], json!([]));

    let status = queue.get("status/queues?task=task-of-listing").expect(200);
    let row = find(&status["queues"], "name", &queue.name);
    assert_eq!(row["messages"]["total"], 2);
    assert_eq!(status["pagination"], json!({"limit": 1000, "offset": 0}));
    let path = format!("status/queues/{}", encode(&queue.name));
    let detail = queue.get(&path).expect(200);
    assert_eq!(detail["queue"]["name"], queue.name);
    assert_eq!(detail["queue"]["config"]["retryDelay"], 1_000);
    assert_eq!(detail["queue"]["config"]["ttl"], 3_600);
    assert_eq!(detail["totals"]["total"], 2);

    let namespaces = queue.get("resources/namespaces").expect(200);
    let row = find(&namespaces["namespaces"], "namespace", "ns-of-listing");
    assert_eq!((&row["queues"], &row["partitions"]), (&json!(1), &json!(1)));
    assert_eq!(row["messages"]["pending"], 2);
    let tasks = queue.get("resources/tasks").expect(200);
    find(&tasks["tasks"], "task", "task-of-listing");
}

#[test]
fn listings_are_paged_by_name() {
    let queue = Queue::configured(json!({"namespace": "ns-of-pages"}));
    for partition in ["a", "b", "c"] {
        queue.push(partition, &[1]);
    }
    let other = Queue::configured(json!({"namespace": "ns-of-pages"}));
    let mut names = [queue.name.clone(), other.name.clone()];
    names.sort();
    let page = queue
        .get("resources/queues?namespace=ns-of-pages&limit=1")
        .expect(200);
    assert_eq!(page["queues"][0]["name"], names[0]);
    assert_eq!(
        (&page["truncated"], &page["nextAfter"]),
        (&json!(true), &json!(names[0]))
    );
    let after = format!(
        "resources/queues?namespace=ns-of-pages&limit=1&after={}",
        encode(&names[0])
    );
    let last = queue.get(&after).expect(200);
    assert_eq!(last["queues"][0]["name"], names[1]);
    assert_eq!(last.get("truncated"), None);
    let skipped = queue
        .get("resources/queues?namespace=ns-of-pages&offset=1")
        .expect(200);
    assert_eq!(skipped["queues"].as_array().map(Vec::len), Some(1));

    let path = path_of(&queue);
    let page = queue.get(&format!("{path}?limit=2")).expect(200);
    assert_eq!(page["partitions"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["nextAfter"], "b");
    assert_eq!(page["totals"]["total"], 3, "sums are of all partitions");
    let rest = queue.get(&format!("{path}?limit=2&after=b")).expect(200);
    assert_eq!(rest["partitions"][0]["name"], "c");
    assert_eq!(rest.get("nextAfter"), None);
}

#[test]
fn what_is_left_to_do_is_told_for_a_group_and_for_the_slowest() {
    let queue = Queue::configured(json!({}));
    queue.push("a", &[1, 2]);
    queue.push("b", &[3]);
    queue.settle_all("done");
    queue.pop("busy", "batch=1");
    let depth = |query: &str| {
        queue
            .get(&format!("{}/depth{query}", path_of(&queue)))
            .expect(200)
    };
    let slowest = depth("");
    assert_eq!(
        (&slowest["pending"], &slowest["group"]),
        (&json!(3), &Value::Null)
    );
    assert_eq!(
        (&slowest["processing"], &slowest["ready"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        (&slowest["partitionsPending"], &slowest["partitionsReady"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        (&slowest["effectivePending"], &slowest["conflation"]),
        (&json!(3), &json!(false))
    );
    assert_eq!(find(&slowest["partitions"], "partition", "a")["pending"], 2);
    let done = depth("?group=done");
    assert_eq!(
        (&done["pending"], &done["partitionsPending"]),
        (&json!(0), &json!(0))
    );
    let unknown = depth("?group=nobody");
    assert_eq!(
        (&unknown["pending"], &unknown["group"]),
        (&json!(3), &json!("nobody"))
    );
}

#[test]
fn partitions_are_ranked_by_what_is_left_to_do() {
    let queue = Queue::configured(json!({}));
    queue.push("quiet", &[1]);
    queue.push("busy", &[1, 2, 3]);
    let path = format!("resources/partitions?queue={}", encode(&queue.name));
    let ranks = queue.get(&path).expect(200);
    let rows = ranks["partitions"].as_array().expect("partitions");
    assert_eq!(
        (&rows[0]["partition"], &rows[0]["pending"]),
        (&json!("busy"), &json!(3))
    );
    assert_eq!(
        (&rows[1]["partition"], &rows[1]["pending"]),
        (&json!("quiet"), &json!(1))
    );
    assert!(rows[0]["lagSeconds"].is_number() && rows[0]["id"].is_string());
    queue.settle_all("g");
    let settled = queue.get(&path).expect(200);
    let row = find(&settled["partitions"], "partition", "busy");
    assert_eq!(
        (&row["pending"], &row["lagSeconds"]),
        (&json!(0), &Value::Null)
    );
    let one = queue.get(&format!("{path}&limit=1")).expect(200);
    assert_eq!(one["partitions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn sums_have_all_their_keys() {
    let queue = Queue::configured(json!({"namespace": "ns-of-sums"}));
    queue.push("a", &[1]);
    let overview = queue.get("resources/overview").expect(200);
    for key in ["queues", "partitions", "namespaces", "tasks", "statsAge"] {
        assert!(overview[key].is_i64(), "{key} of {overview}");
    }
    assert!(
        overview["messages"]["pending"].as_i64() >= Some(1),
        "{overview}"
    );
    assert!(overview["lag"]["time"]["avg"].is_number(), "{overview}");
    assert!(
        overview["lag"]["offset"]["max"].as_f64() >= Some(1.0),
        "{overview}"
    );
    assert!(overview["throughput"]["ingestedPerSecond"].is_number());
    let status = queue.get("status").expect(200);
    assert!(status["timeRange"]["from"].is_string());
    for key in ["bucketMinutes", "pointCount", "statsAge"] {
        assert!(status[key].is_i64(), "{key} of {status}");
    }
    assert!(status["throughput"].is_array() && status["workers"].is_array());
    for key in ["queues", "messages", "leases", "deadLetterQueue", "errors"] {
        assert!(status[key].is_object(), "{key} of {status}");
    }
    let analytics = queue.get("status/analytics").expect(200);
    assert!(analytics["dataPoints"].is_array());
    for key in ["interval", "from", "to"] {
        assert!(analytics[key].is_string(), "{key} of {analytics}");
    }
    let system = queue.get("analytics/system-metrics").expect(200);
    assert!(system["replicas"].is_array() && system["timeRange"]["to"].is_string());
    let workers = queue.get("analytics/worker-metrics").expect(200);
    for key in ["timeSeries", "workers", "queues"] {
        assert!(workers[key].is_array(), "{key} of {workers}");
    }
    assert!(workers["summary"].is_object());
    queue.post("stats/refresh", &json!({})).expect(200);
    let buffers = queue.get("status/buffers").expect(200);
    assert_eq!(
        (&buffers["pending"], &buffers["dbHealthy"]),
        (&json!(0), &json!(true))
    );
}
