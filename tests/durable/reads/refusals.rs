//! Bad input: 400 with a text, whatever the parameter.

use serde_json::json;

use crate::rig::Queue;

#[test]
fn bad_queries_are_refused() {
    let queue = Queue::configured(json!({}));
    for path in [
        "resources/queues?limit=0",
        "resources/queues?limit=-1",
        "resources/queues?limit=many",
        "resources/queues?limit=1&limit=2",
        "resources/queues?offset=-1",
        "resources/queues?offset=1000001",
        "resources/queues?namespace=%00",
        "resources/queues?after=%01",
        "resources/queues?task=%ff",
        "resources/queues/%00",
        "resources/queues/",
        "resources/queues/q/depth?group=%0a",
        "resources/partitions?limit=0",
        "resources/partitions?queue=%00",
        "messages?status=lost",
        "messages?from=yesterday",
        "messages?to=2026-13-01",
        "messages?limit=1000&offset=1001",
        "dlq?limit=x",
        "dlq?from=now",
        "dlq?consumerGroup=%00",
        "consumer-groups?limit=0",
        "consumer-groups/lagging?minLagSeconds=-1",
        "consumer-groups/lagging?minLagSeconds=soon",
        "consumer-groups/%00",
        "status?from=never",
        "status/analytics?to=never",
    ] {
        let answer = queue.get(path);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        answer.assert_refused(400, "bad_request");
    }
    for (path, body) in [
        ("fetch", json!({})),
        ("fetch", json!({"entries": [{"queue": "q", "offset": -1}]})),
        ("fetch", json!({"entries": [], "maxWaitMs": 30_001})),
        (
            "partitions/changed",
            json!({"entries": [{"queue": "q", "since": "soon"}]}),
        ),
        ("partitions/changed", json!({"entries": 7})),
    ] {
        queue.post(path, &body).assert_refused(400, "bad_request");
    }
    let long = format!("resources/queues/{}", "x".repeat(513));
    queue.get(&long).assert_refused(400, "name_too_long");
}

#[test]
fn an_unknown_queue_is_not_found() {
    let queue = Queue::configured(json!({}));
    for path in [
        "resources/queues/nobody-has-it",
        "resources/queues/nobody-has-it/depth",
        "status/queues/nobody-has-it",
    ] {
        let answer = queue.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json()["error"], "Queue not found");
    }
}

#[test]
fn a_path_that_can_be_read_and_written_to_names_all_methods() {
    let queue = Queue::configured(json!({}));
    for (path, allowed) in [
        ("resources/queues", "GET, HEAD, OPTIONS"),
        ("resources/queues/q", "GET, HEAD, DELETE, OPTIONS"),
        ("consumer-groups/g", "GET, HEAD, DELETE, OPTIONS"),
        ("messages/1/t", "GET, HEAD, DELETE, OPTIONS"),
        ("dlq", "GET, HEAD, DELETE, OPTIONS"),
        ("fetch", "POST, OPTIONS"),
    ] {
        let mut client = queue.client();
        let path = format!("/api/v1/{path}");
        let answer = client.request("PATCH", &path, None);
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some(allowed)),
            "{path}"
        );
        let answer = client.request("OPTIONS", &path, None);
        assert_eq!(
            (answer.status, answer.header("allow")),
            (204, Some(allowed)),
            "{path}"
        );
    }
    let answer = queue
        .client()
        .request("HEAD", "/api/v1/resources/queues", None);
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}
