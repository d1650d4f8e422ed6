//! Refusals: status, code, and that nothing has changed.

use serde_json::json;

use crate::support::queue::numbers;
use crate::support::{Plan, each_plan, each_setup};

#[test]
fn malformed_bodies_are_refused_with_a_place() {
    each_setup(|broker| {
        let queue = broker.queue("malformed");
        let name = json!(queue.name).to_string();
        let bodies = [
            String::new(),
            " ".into(),
            "{".into(),
            "null".into(),
            "[]".into(),
            "\"text\"".into(),
            "{}".into(),
            format!("{{\"queue\":{name}}}"),
            "{\"messages\":[]}".into(),
            format!("{{\"queue\":{name},\"messages\":{{}}}}"),
            format!("{{\"queue\":{name},\"messages\":null}}"),
            format!("{{\"queue\":{name},\"messages\":[1]}}"),
            format!("{{\"queue\":{name},\"messages\":[{{}}]}}"),
            format!("{{\"queue\":{name},\"messages\":[{{\"data\":1}}]}}"),
            r#"{"queue":5,"messages":[{"payload":1}]}"#.into(),
            r#"{"queue":null,"messages":[{"payload":1}]}"#.into(),
            format!("{{\"queue\":{name},\"queue\":{name},\"messages\":[{{\"payload\":1}}]}}"),
            format!("{{\"queue\":{name},\"messages\":[{{\"payload\":1,\"payload\":2}}]}}"),
            format!("{{\"queue\":{name},\"partition\":7,\"messages\":[{{\"payload\":1}}]}}"),
            format!("{{\"queue\":{name},\"partition\":\"\",\"messages\":[{{\"payload\":1}}]}}"),
            format!("{{\"queue\":{name},\"messages\":[{{\"payload\":1}}]}} x"),
            format!("{{\"queue\":{name},\"messages\":[{{\"payload\":1}}]}}{{}}"),
            format!("\u{feff}{{\"queue\":{name},\"messages\":[{{\"payload\":1}}]}}"),
            format!("{{\"queue\":{name},\"messages\":[{{\"payload\":1}},{{\"payload\":}}]}}"),
        ];
        for body in bodies {
            let answer = queue.post_raw("/api/v1/ephemeral/push", body.as_bytes());
            assert_eq!(answer.status, 400, "{body}: {}", answer.text());
            answer.assert_refused(400, "ephemeral_bad_request");
        }
        assert_eq!(queue.row(), None, "nothing was created");
    });
}

#[test]
fn other_verbs_read_their_bodies_as_strictly() {
    each_setup(|broker| {
        let mut client = broker.client();
        let cases = [
            ("ack", json!({"queue": "q"})),
            ("ack", json!({"queue": "q", "acks": null})),
            ("ack", json!({"queue": "q", "acks": [{}]})),
            ("ack", json!({"queue": "q", "acks": ["e:1:p:1"]})),
            ("ack", json!({"queue": "q", "acks": [{"id": 1}]})),
            (
                "ack",
                json!({"queue": "q", "acks": [{"id": "e:1:p:1", "status": 1}]}),
            ),
            ("ack", json!({"queue": "q", "group": 1, "acks": []})),
            ("ack", json!({"acks": []})),
            ("configure", json!({"options": {}})),
            ("configure", json!({"queue": 1})),
            ("reset", json!({})),
            ("reset", json!({"queue": ["q"]})),
            ("reset", json!([])),
        ];
        for (verb, body) in cases {
            let answer = client.post(&format!("/api/v1/ephemeral/{verb}"), &body);
            assert_eq!(answer.status, 400, "{verb} {body}: {}", answer.text());
            answer.assert_refused(400, "ephemeral_bad_request");
        }
        for verb in ["ack", "configure", "reset", "push"] {
            let answer = client.post_raw(&format!("/api/v1/ephemeral/{verb}"), b"\xff\xfe");
            answer.assert_refused(400, "ephemeral_bad_request");
        }
    });
}

#[test]
fn a_pop_without_a_queue_is_refused() {
    each_setup(|broker| {
        let mut client = broker.client();
        for target in ["/api/v1/ephemeral/pop", "/api/v1/ephemeral/pop?batch=1"] {
            let answer = client.get(target);
            answer.assert_refused(400, "ephemeral_bad_request");
            assert!(
                answer.text().contains("queue is required"),
                "{}",
                answer.text()
            );
        }
        let answer = client.get("/api/v1/ephemeral/pop?queue=");
        answer.assert_refused(400, "ephemeral_bad_request");
    });
}

#[test]
fn ten_thousand_acks_fit_one_request_and_not_one_more() {
    each_setup(|broker| {
        let queue = broker.queue("many-acks");
        let acks: Vec<_> = (0..10_001).map(|_| json!({"id": "x"})).collect();
        let body = json!({"queue": queue.name, "acks": acks[..10_000]});
        let answer = queue.post("/api/v1/ephemeral/ack", &body).expect(200);
        assert_eq!(answer["results"].as_array().unwrap().len(), 10_000);
        let body = json!({"queue": queue.name, "acks": acks});
        let answer = queue.post("/api/v1/ephemeral/ack", &body);
        answer.assert_refused(400, "ephemeral_bad_request");
    });
}

#[test]
fn after_a_refusal_the_connection_serves_on() {
    each_setup(|broker| {
        let queue = broker.queue("serves-on");
        let mut client = broker.client();
        for _ in 0..5 {
            client.send("POST", "/api/v1/ephemeral/push", Some(b"{"));
            client.read().assert_refused(400, "ephemeral_bad_request");
            let body = json!({"queue": queue.name, "messages": [{"payload": 1}]});
            client.send(
                "POST",
                "/api/v1/ephemeral/push",
                Some(body.to_string().as_bytes()),
            );
            assert_eq!(client.read().status, 201);
        }
        assert_eq!(queue.held().0, 5);
    });
}

#[test]
fn a_tenant_that_pushes_too_fast_is_told_when_to_come_back() {
    each_plan(|plan| {
        let broker = plan
            .set("QUEEN_EPHEMERAL_RATE", 5)
            .set("QUEEN_EPHEMERAL_BURST", 20)
            .start();
        let queue = broker.queue("rate");
        queue.push(&numbers(0..20));
        let answer = queue.try_push(None, &numbers(20..35));
        answer.assert_refused(429, "rate_limited");
        let wait: u64 = answer
            .header("retry-after")
            .expect("Retry-After")
            .parse()
            .unwrap();
        assert!(
            (2..=3).contains(&wait),
            "15 messages at 5 a second: {wait} s"
        );
        assert_eq!(queue.held().0, 20, "all or nothing");
        // Pops, acks and empty pushes are not limited.
        for _ in 0..30 {
            assert_eq!(queue.try_push(None, &[]).status, 201);
        }
        let taken = queue.pop("batch=20");
        assert_eq!(taken.len(), 20);
        queue.ack(None, &taken);
        crate::support::eventually("the bucket refills", || {
            queue.try_push(None, &numbers(0..5)).status == 201
        });
    });
}

#[test]
fn a_batch_above_the_burst_is_charged_the_burst() {
    let broker = Plan::any()
        .set("QUEEN_EPHEMERAL_RATE", 1)
        .set("QUEEN_EPHEMERAL_BURST", 10)
        .start();
    let queue = broker.queue("burst");
    queue.push(&numbers(0..50));
    let answer = queue.try_push(None, &[json!(1)]);
    answer.assert_refused(429, "rate_limited");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn without_a_rate_nobody_is_limited() {
    each_setup(|broker| {
        let queue = broker.queue("no-rate");
        queue.configure(json!({"policy": "dropOldest"}));
        for _ in 0..20 {
            queue.push(&numbers(0..5_000));
        }
        queue.delete();
    });
}

#[test]
fn only_depth_answers_404_on_this_family() {
    each_setup(|broker| {
        let queue = broker.queue("no-404");
        assert_eq!(queue.settle_one(None, "e:1:p:1", "completed"), "stale");
        assert_eq!(queue.reset(), 0);
        assert_eq!(queue.delete(), (false, false));
        queue
            .try_depth("")
            .assert_refused(404, "ephemeral_queue_not_found");
        assert_eq!(queue.pop(""), []);
    });
}
