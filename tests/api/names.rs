//! Names of queues, partitions and groups on the wire.

use serde_json::json;

use crate::support::{each_setup, encode, unique};

#[test]
fn any_printable_name_works_everywhere() {
    each_setup(|broker| {
        let odd = [
            "a b",
            "reply/42",
            "q?x=1&y#z",
            "100%",
            "a+b",
            "caf\u{e9} \u{1f600}",
            "::",
            "quote\"back\\slash",
            "\u{7f}",
            "%2F",
            "..",
        ];
        for name in odd {
            let queue = broker.queue_named(&unique(name));
            let group = format!("g {name}");
            queue.push_to(name, &[json!(name)]);
            let query = format!("partition={}&group={}", encode(name), encode(&group));
            let message = queue.pop_one(&query);
            assert_eq!(message.partition, name);
            queue.ack(Some(&group), std::slice::from_ref(&message));
            assert_eq!(queue.group(&group)["pending"], 0);
            assert_eq!(queue.row().expect("listed")["queue"], queue.name);
            queue.configure(json!({}));
            assert_eq!(queue.delete(), (true, true));
        }
    });
}

#[test]
fn a_plus_in_a_query_is_a_space_and_in_a_path_a_plus() {
    each_setup(|broker| {
        let name = unique("plus sign");
        let queue = broker.queue_named(&name);
        queue.push(&[json!(1)]);
        let plus = name.replace(' ', "+");
        let target = format!("/api/v1/ephemeral/pop?queue={plus}&autoAck=true");
        let body = queue.get(&target).expect(200);
        assert_eq!(body["queue"], name);
        assert_eq!(body["messages"][0]["payload"], 1);
        let target = format!("/api/v1/ephemeral/queues/{plus}/depth");
        queue
            .get(&target)
            .assert_refused(404, "ephemeral_queue_not_found");
    });
}

#[test]
fn a_path_is_decoded_once() {
    each_setup(|broker| {
        let name = unique("twice%2Fencoded");
        let queue = broker.queue_named(&name);
        queue.push(&[json!(1)]);
        assert_eq!(queue.depth()["queue"], name);
    });
}

#[test]
fn keys_of_a_query_may_be_escaped_and_come_in_any_order() {
    each_setup(|broker| {
        let queue = broker.queue("key-order");
        queue.push(&[json!(1), json!(2)]);
        let name = encode(&queue.name);
        let target = format!("/api/v1/ephemeral/pop?autoAck=true&b%61tch=2&queue={name}");
        let body = queue.get(&target).expect(200);
        assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    });
}

#[test]
fn the_length_of_a_name_is_bounded_in_bytes() {
    each_setup(|broker| {
        let fits = broker.queue_named(&format!("{}{}", unique("long"), "x".repeat(480)));
        assert!(fits.name.len() <= 512);
        fits.push(&[json!(1)]);
        fits.delete();
        for name in ["x".repeat(513), "\u{e9}".repeat(257), String::new()] {
            let queue = broker.queue_named(&name);
            let refused = |answer: crate::support::Answer| {
                answer.assert_refused(400, "ephemeral_bad_request");
            };
            refused(queue.try_push(None, &[json!(1)]));
            refused(queue.get(&queue.pop_target("")));
            refused(queue.try_configure(json!({})));
            refused(queue.post("/api/v1/ephemeral/reset", &json!({"queue": name})));
            let ack = json!({"queue": name, "acks": []});
            refused(queue.post("/api/v1/ephemeral/ack", &ack));
        }
    });
}

#[test]
fn an_empty_name_in_a_path_is_refused_as_a_name() {
    each_setup(|broker| {
        let mut client = broker.client();
        for (method, target) in [
            ("DELETE", "/api/v1/ephemeral/queue/"),
            ("GET", "/api/v1/ephemeral/queues//depth"),
        ] {
            let answer = client.request(method, target, None);
            answer.assert_refused(400, "ephemeral_bad_request");
            assert!(answer.text().contains("empty"), "{}", answer.text());
        }
    });
}

#[test]
fn control_characters_are_refused_in_every_name() {
    each_setup(|broker| {
        let queue = broker.queue("control");
        let bad = "a\u{1f}b";
        let answer = queue.try_push(Some(bad), &[json!(1)]);
        answer.assert_refused(400, "ephemeral_bad_request");
        for query in ["partition=a%00b", "group=a%0Ab", "group=%1F"] {
            let answer = queue.get(&queue.pop_target(query));
            answer.assert_refused(400, "ephemeral_bad_request");
        }
        let answer = broker.client().delete("/api/v1/ephemeral/queue/a%00b");
        answer.assert_refused(400, "ephemeral_bad_request");
    });
}

#[test]
fn malformed_escapes_are_refused() {
    each_setup(|broker| {
        for target in [
            "/api/v1/ephemeral/pop?queue=a%",
            "/api/v1/ephemeral/pop?queue=a%2",
            "/api/v1/ephemeral/pop?queue=a%zz",
            "/api/v1/ephemeral/pop?queue=%ff%fe",
            "/api/v1/ephemeral/queues/%C3/depth",
        ] {
            assert_eq!(broker.client().get(target).status, 400, "{target}");
        }
    });
}
