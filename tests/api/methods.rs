//! Methods and paths at the routes of this class.

use crate::support::each_setup;

#[test]
fn head_answers_what_get_would_without_the_body() {
    each_setup(|broker| {
        let queue = broker.queue("head");
        queue.push(&[serde_json::json!(1)]);
        let depth = format!("/api/v1/ephemeral/queues/{}/depth", queue.name);
        for target in ["/health", "/metrics", &depth] {
            let mut client = broker.client();
            let answer = client.request("HEAD", target, None);
            assert_eq!(answer.status, 200, "{target}");
            assert!(answer.header("content-length").is_some(), "{target}");
            // In step: nothing of a body was sent.
            assert_eq!(client.get("/health").status, 200);
        }
        let missing = broker
            .client()
            .request("HEAD", "/api/v1/ephemeral/queues/no/depth", None);
        assert_eq!(missing.status, 404);
    });
}

#[test]
fn head_on_pop_is_refused_because_it_would_take_messages_unseen() {
    each_setup(|broker| {
        let queue = broker.queue("head-pop");
        queue.push(&[serde_json::json!(1)]);
        let mut client = broker.client();
        let answer = client.request("HEAD", &queue.pop_target(""), None);
        assert_eq!(answer.status, 405);
        let allow = answer.header("allow").expect("Allow");
        assert!(allow.contains("GET") && !allow.contains("HEAD"), "{allow}");
        assert_eq!(queue.pop("").len(), 1);
    });
}

#[test]
fn options_names_the_methods_of_a_route() {
    each_setup(|broker| {
        let routes = [
            ("/api/v1/ephemeral/push", "POST"),
            ("/api/v1/ephemeral/pop?queue=x", "GET"),
            ("/api/v1/ephemeral/queue/x", "DELETE"),
            ("/api/v1/system/ephemeral", "POST"),
        ];
        for (target, method) in routes {
            let answer = broker.client().request("OPTIONS", target, None);
            assert_eq!(answer.status, 204, "{target}");
            let allow = answer.header("allow").expect("Allow");
            assert!(
                allow.contains(method) && allow.contains("OPTIONS"),
                "{target}: {allow}"
            );
        }
    });
}

#[test]
fn a_known_method_at_the_wrong_route_is_405_with_allow() {
    each_setup(|broker| {
        let routes = [
            ("GET", "/api/v1/ephemeral/push", "POST"),
            ("POST", "/api/v1/ephemeral/pop?queue=x", "GET"),
            ("PUT", "/api/v1/ephemeral/configure", "POST"),
            ("GET", "/api/v1/ephemeral/queue/x", "DELETE"),
            ("DELETE", "/api/v1/ephemeral/queues", "GET"),
            ("POST", "/api/v1/ephemeral/queues/x/depth", "GET"),
            ("PATCH", "/health", "GET"),
        ];
        for (method, target, allowed) in routes {
            let body = (method != "GET").then_some(&b"{}"[..]);
            let answer = broker.client().request(method, target, body);
            assert_eq!(answer.status, 405, "{method} {target}");
            let allow = answer.header("allow").expect("Allow");
            assert!(allow.contains(allowed), "{method} {target}: {allow}");
        }
    });
}

#[test]
fn an_unknown_method_is_501_and_an_unknown_path_404() {
    each_setup(|broker| {
        for (method, target) in [
            ("BREW", "/health"),
            ("get", "/health"),
            ("CONNECT", "localhost:80"),
        ] {
            let answer = broker.client().request(method, target, None);
            assert_eq!(answer.status, 501, "{method}");
        }
        for target in [
            "/",
            "/api/v1/ephemeral",
            "/api/v1/ephemeral/pop/",
            "/api/v1/ephemeral/queue/a/b",
            "/api/v1/ephemeral/queue",
            "/API/v1/ephemeral/queues",
            "/api/v1/ephemeral/queues/a/b/depth",
        ] {
            let answer = broker.client().get(target);
            answer.assert_refused(404, "no_such_route");
        }
    });
}

#[test]
fn answers_say_what_they_are_and_how_long() {
    each_setup(|broker| {
        let answer = broker.client().get("/health");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let length: usize = answer.header("content-length").unwrap().parse().unwrap();
        assert_eq!(length, answer.body.len());
    });
}

#[test]
fn an_absolute_target_and_a_body_on_get_are_accepted() {
    each_setup(|broker| {
        let mut client = broker.client();
        let target = format!("http://{}/health", broker.address());
        assert_eq!(client.get(&target).status, 200);
        let answer = client.request("GET", "/health", Some(b"{\"ignored\":true}"));
        assert_eq!(answer.status, 200);
        assert_eq!(client.get("/health").status, 200);
    });
}
