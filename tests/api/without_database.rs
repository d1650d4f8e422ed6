//! Durable queues, asked of a broker without a database.

use serde_json::json;

use crate::support::each_setup;

const REQUESTS: [(&str, &str, &str); 7] = [
    ("POST", "/api/v1/configure", r#"{"queue":"q"}"#),
    ("DELETE", "/api/v1/resources/queues/q", ""),
    ("POST", "/api/v1/push", r#"{"items":[{"queue":"q"}]}"#),
    ("GET", "/api/v1/pop/queue/q?wait=true", ""),
    ("POST", "/api/v1/ack/batch", r#"{"acknowledgments":[]}"#),
    ("POST", "/api/v1/lease/x/extend", "{}"),
    (
        "POST",
        "/api/v1/transaction",
        r#"{"operations":[{"type":"push","queue":"q"}]}"#,
    ),
];

#[test]
fn a_durable_route_says_what_to_install_or_set() {
    each_setup(|broker| {
        let mut client = broker.client();
        for (method, target, body) in REQUESTS {
            let body = Some(body.as_bytes()).filter(|body| !body.is_empty());
            let answer = client.request(method, target, body);
            answer.assert_refused(503, "durable_unavailable");
            assert_eq!(answer.header("retry-after"), Some("1"), "{target}");
            let text = answer.json()["error"].to_string();
            assert!(text.contains("QUEEN_DURABLE"), "{target}: {text}");
        }
    });
}

#[test]
fn what_is_malformed_is_told_so_first() {
    each_setup(|broker| {
        let mut client = broker.client();
        let answer = client.post("/api/v1/push", &json!({}));
        answer.assert_refused(400, "bad_request");
        let answer = client.get("/api/v1/pop");
        answer.assert_refused(400, "bad_request");
        assert_eq!(answer.json()["messages"], json!([]));
        let answer = client.request("HEAD", "/api/v1/pop/queue/q", None);
        assert_eq!(answer.status, 405);
    });
}
