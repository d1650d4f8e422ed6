//! Callers who are asked for a token, and may do what its roles grant.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::token::{SECRET, bearer};
use crate::support::{Answer, Broker, Client, each_plan, shared, unique};

const ROLES: [&str; 5] = ["", "read-only", "write-only", "read-write", "admin"];

fn each_that_asks(test: impl Fn(&Broker) + Sync) {
    each_plan(|plan| {
        let plan = plan
            .set("JWT_ENABLED", "true")
            .set("JWT_SECRET", SECRET)
            .set("JWT_SKIP_PATHS", "/api/v1/ephemeral/queues");
        let broker: Arc<Broker> = shared(plan);
        test(&broker);
    });
}

fn client_of(broker: &Broker, role: &str) -> Client {
    let token = bearer(role, "somebody");
    broker.client().with_field("authorization", &token)
}

#[track_caller]
fn assert_challenged(answer: &Answer, challenge: &str) {
    answer.assert_refused(401, "unauthorized");
    assert_eq!(answer.header("www-authenticate"), Some(challenge));
}

#[test]
fn nobody_is_served_without_a_token_but_where_it_is_open_to_all() {
    each_that_asks(|broker| {
        let mut client = broker.client();
        for path in [
            "/health",
            "/metrics",
            "/metrics/prometheus",
            "/api/v1/ephemeral/queues",
        ] {
            assert_eq!(client.get(path).status, 200, "{path}");
        }
        for path in [
            "/api/v1/ephemeral/pop?queue=a",
            "/api/v1/ephemeral/queues/a/depth",
            "/api/v1/system/ephemeral",
            "/api/v1/pop/queue/a",
            "/api/v1/status/buffers",
            "/nowhere",
        ] {
            assert_challenged(&client.get(path), "Bearer realm=\"queen\"");
        }
        // A body that could not be read is not looked at either.
        for path in [
            "ephemeral/push",
            "ephemeral/exchange",
            "push",
            "transaction",
        ] {
            let answer = client.post_raw(&format!("/api/v1/{path}"), b"{");
            assert_challenged(&answer, "Bearer realm=\"queen\"");
        }
        let answer = client.request("OPTIONS", "/api/v1/ephemeral/push", None);
        assert!(answer.status < 300, "{answer:?}");
        let mut forged = broker.client().with_field("authorization", "Bearer a.b.c");
        let answer = forged.get("/api/v1/ephemeral/pop?queue=a");
        assert_challenged(&answer, "Bearer realm=\"queen\", error=\"invalid_token\"");
    });
}

/// Who may do it, of [`ROLES`].
fn allowed(broker: &Broker, method: &str, path: &str, body: Option<&Value>) -> Vec<&'static str> {
    let body = body.map(|body| body.to_string().into_bytes());
    let mut roles = ROLES.to_vec();
    roles.retain(|role| {
        let answer = client_of(broker, role).request(method, path, body.as_deref());
        if answer.status != 403 {
            assert!(answer.status < 300, "{role} {path}: {answer:?}");
            return true;
        }
        answer.assert_refused(403, "forbidden");
        let challenge = answer.header("www-authenticate");
        assert_eq!(
            challenge,
            Some("Bearer realm=\"queen\", error=\"insufficient_scope\"")
        );
        false
    });
    roles
}

#[test]
fn each_role_may_do_what_it_says() {
    each_that_asks(|broker| {
        let queue = unique("roles");
        let path = |rest: &str| format!("/api/v1/ephemeral/{rest}");
        let push = json!({"queue": queue, "messages": [{"payload": 1}]});
        let write = allowed(broker, "POST", &path("push"), Some(&push));
        assert_eq!(write, ["write-only", "read-write", "admin"]);
        let read = allowed(broker, "GET", &path(&format!("queues/{queue}/depth")), None);
        assert_eq!(read, ["read-only", "read-write", "admin"]);
        let pop = allowed(broker, "GET", &path(&format!("pop?queue={queue}")), None);
        assert_eq!(pop, ["read-only", "read-write", "admin"]);
        let path_of = format!("pop?queue={queue}&autoAck=true");
        let settle = allowed(broker, "GET", &path(&path_of), None);
        assert_eq!(settle, ["read-write", "admin"]);
        let reset = json!({"queue": queue});
        let reset = allowed(broker, "POST", &path("reset"), Some(&reset));
        assert_eq!(reset, ["read-write", "admin"]);
        let switch = allowed(broker, "GET", "/api/v1/system/ephemeral", None);
        assert_eq!(switch, ["admin"]);
    });
}

#[test]
fn the_strictest_leg_of_an_exchange_decides() {
    each_that_asks(|broker| {
        let queue = unique("legs");
        let acks = json!([{"queue": queue, "acks": [{"id": "nonsense"}]}]);
        let pushes = json!([{"queue": queue, "messages": [{"payload": 1}]}]);
        let pop = json!({"queue": queue});
        let (read, write) = (
            ["read-only", "read-write", "admin"],
            ["write-only", "read-write", "admin"],
        );
        let both = ["read-write", "admin"];
        for (body, roles) in [
            (json!({"pop": pop}), read.as_slice()),
            (json!({"pop": {"queue": queue, "autoAck": true}}), &both),
            (json!({"pushes": pushes}), &write),
            (json!({"acks": acks}), &both),
            (json!({"pushes": pushes, "pop": pop}), &both),
            (json!({"acks": acks, "pop": pop}), &both),
            (json!({"acks": acks, "pushes": pushes}), &both),
            (json!({"acks": acks, "pushes": pushes, "pop": pop}), &both),
        ] {
            let may = allowed(broker, "POST", "/api/v1/ephemeral/exchange", Some(&body));
            assert_eq!(may, roles, "{body}");
        }
        // What is refused for one leg has done nothing of the others.
        let other = unique("untouched");
        let body = json!({"pushes": [{"queue": other, "messages": [{"payload": 1}]}], "pop": {"queue": other}});
        let mut writer = client_of(broker, "write-only");
        let answer = writer.post("/api/v1/ephemeral/exchange", &body);
        answer.assert_refused(403, "forbidden");
        let depth = format!("/api/v1/ephemeral/queues/{other}/depth");
        let answer = client_of(broker, "read-only").get(&depth);
        answer.assert_refused(404, "ephemeral_queue_not_found");
    });
}

#[test]
fn what_strangers_send_is_not_received() {
    each_that_asks(|broker| {
        for framing in [
            "content-length: 60000000",
            "transfer-encoding: chunked",
            "content-length: 5",
        ] {
            for expect in ["", "expect: 100-continue\r\n"] {
                let mut client = broker.client();
                let head = format!(
                    "POST /api/v1/ephemeral/push HTTP/1.1\r\nhost: x\r\n{framing}\r\n{expect}\r\n"
                );
                client.send_raw(head.as_bytes());
                let answer = client.read();
                assert_challenged(&answer, "Bearer realm=\"queen\"");
                assert_eq!(answer.header("connection"), Some("close"), "{framing}");
            }
        }
        // Of who may push it is.
        let token = bearer("write-only", "somebody");
        let mut client = broker.client();
        let head = format!(
            "POST /api/v1/ephemeral/push HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\n\
             content-length: 2\r\nexpect: 100-continue\r\n\r\n"
        );
        client.send_raw(head.as_bytes());
        client.send_raw(b"{}");
        client.read().assert_refused(400, "ephemeral_bad_request");
    });
}
