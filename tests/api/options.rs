//! configure, reset, delete: rows 51 to 56.

use serde_json::{Value, json};

use crate::support::each_setup;
use crate::support::queue::numbers;

#[test]
fn row_51_an_unknown_option_is_refused_by_name() {
    each_setup(|broker| {
        let queue = broker.queue("row-51");
        let answer = queue.try_configure(json!({"ttlSecond": 5}));
        answer.assert_refused(400, "ephemeral_bad_request");
        assert!(answer.text().contains("ttlSecond"), "{}", answer.text());
        assert_eq!(queue.row(), None, "nothing is declared");
    });
}

#[test]
fn row_52_a_full_set_of_options_is_echoed_and_in_force() {
    each_setup(|broker| {
        let queue = broker.queue("row-52");
        let options = json!({
            "maxBytes": 1_000_000, "maxLength": 500, "policy": "dropOldest", "ttlSeconds": 60,
            "leaseSeconds": 10, "retryLimit": 3, "windowBuffer": {"ms": 25, "count": 50},
        });
        let answer = queue.configure(options.clone());
        assert_eq!(answer["queue"], queue.name);
        assert_eq!(answer["options"], options);
        assert_eq!(answer["declared"], true);
        assert_eq!(answer["durable"], false);
        assert_eq!(answer["effective"]["maxLength"], 500);
        let row = queue.row().expect("declared queues are listed");
        assert_eq!(row["tier"], "declared");
        for (key, value) in options.as_object().unwrap() {
            assert_eq!(&row["options"][key], value, "{key}");
            assert_eq!(&answer["effective"][key], value, "{key}");
        }
        assert_eq!(row["options"]["ttlMs"], 60_000);
    });
}

#[test]
fn options_are_echoed_as_they_were_sent() {
    each_setup(|broker| {
        let queue = broker.queue("as-sent");
        for options in [
            json!({}),
            json!({"maxLength": null}),
            json!({"maxLength": 999_999_999}),
        ] {
            assert_eq!(queue.configure(options.clone())["options"], options);
        }
        for body in [
            json!({"queue": queue.name}),
            json!({"queue": queue.name, "options": null}),
        ] {
            let answer = queue.post("/api/v1/ephemeral/configure", &body);
            assert_eq!(answer.expect(201)["declared"], true);
        }
    });
}

#[test]
fn row_53_a_reset_drops_everything_and_keeps_the_declaration() {
    each_setup(|broker| {
        let queue = broker.queue("row-53");
        queue.configure(json!({"maxLength": 9}));
        queue.push(&numbers(0..4));
        let leased = queue.pop_one("group=g");
        assert_eq!(queue.reset(), 4);
        assert_eq!(queue.held(), (0, 0));
        assert_eq!(queue.depth()["pending"], 0);
        let row = queue.row().unwrap();
        assert_eq!(row["tier"], "declared");
        assert_eq!(row["groups"], 1);
        assert_eq!(row["drops"], json!({"bounds": 0, "ttl": 0, "retry": 0}));
        let outcome = queue.settle_one(Some("g"), &leased.id, "completed");
        assert_eq!(outcome, "unknown");
        queue.push(&[json!("after")]);
        assert_eq!(queue.pop_payloads("group=g"), [json!("after")]);
    });
}

#[test]
fn a_reset_of_an_unknown_queue_drops_nothing_and_creates_nothing() {
    each_setup(|broker| {
        let queue = broker.queue("reset-unknown");
        assert_eq!(queue.reset(), 0);
        assert_eq!(queue.row(), None);
    });
}

#[test]
fn row_54_a_delete_says_what_was_there() {
    each_setup(|broker| {
        let queue = broker.queue("row-54");
        queue.configure(json!({}));
        queue.push(&[json!(1)]);
        assert_eq!(queue.delete(), (true, true));
        assert_eq!(queue.delete(), (false, false));
        assert_eq!(queue.row(), None);
        queue
            .try_depth("")
            .assert_refused(404, "ephemeral_queue_not_found");

        let implicit = broker.queue("row-54-implicit");
        implicit.push(&[json!(1)]);
        assert_eq!(implicit.delete(), (true, false));
        assert_eq!(implicit.pop(""), [], "what was deleted is gone");
    });
}

#[test]
fn row_56_options_above_the_ceilings_are_clamped() {
    each_setup(|broker| {
        let queue = broker.queue("row-56");
        let asked = json!({
            "maxBytes": 1_000_000_000_000_u64, "maxLength": 1_000_000_000, "leaseSeconds": 1_000_000,
            "retryLimit": 1_000_000, "windowBuffer": {"ms": 1_000_000, "count": 1_000_000},
        });
        let answer = queue.configure(asked.clone());
        assert_eq!(answer["options"], asked);
        let in_force = json!({
            "maxBytes": 16_777_216, "maxLength": 10_000, "leaseSeconds": 86_400,
            "retryLimit": 1_000, "windowBuffer": {"ms": 60_000, "count": 10_000},
        });
        let row = queue.row().unwrap();
        for (key, value) in in_force.as_object().unwrap() {
            assert_eq!(&row["options"][key], value, "{key}");
            assert_eq!(&answer["effective"][key], value, "{key}");
        }
    });
}

#[test]
fn defaults_are_in_force_where_nothing_is_said() {
    each_setup(|broker| {
        let queue = broker.queue("defaults");
        queue.push(&[json!(1)]);
        let row = queue.row().unwrap();
        assert_eq!(row["tier"], "implicit");
        let mut options = row["options"].clone();
        options.as_object_mut().unwrap().remove("ttlMs");
        let expected = json!({
            "maxBytes": 16_777_216, "maxLength": 10_000, "policy": "reject", "ttlSeconds": 0,
            "leaseSeconds": 30, "retryLimit": 5, "windowBuffer": {"ms": 0, "count": 0},
        });
        assert_eq!(options, expected);
    });
}

#[test]
fn bad_options_are_refused_and_declare_nothing() {
    each_setup(|broker| {
        let queue = broker.queue("bad-options");
        let bad = [
            json!({"maxBytes": -1}),
            json!({"maxLength": 1.5}),
            json!({"maxLength": 5.0}),
            json!({"maxLength": "5"}),
            json!({"leaseSeconds": true}),
            json!({"retryLimit": []}),
            json!({"policy": "DropOldest"}),
            json!({"policy": null}),
            json!({"policy": 1}),
            json!({"windowBuffer": {"ms": 1, "seconds": 2}}),
            json!({"windowBuffer": {"ms": -1}}),
            json!({"windowBuffer": 5}),
            json!({"deadLetterQueue": true}),
            json!([]),
            json!("fast"),
        ];
        for options in bad {
            let answer = queue.try_configure(options.clone());
            assert_eq!(answer.status, 400, "{options}: {}", answer.text());
            answer.assert_refused(400, "ephemeral_bad_request");
        }
        assert_eq!(queue.row(), None);
    });
}

#[test]
fn a_bad_ttl_says_why_in_a_word() {
    each_setup(|broker| {
        let queue = broker.queue("bad-ttl");
        let cases: [(Value, &str); 8] = [
            (json!("60"), "ttl_not_integer"),
            (json!(5.5), "ttl_not_integer"),
            (json!(true), "ttl_not_integer"),
            (json!([1]), "ttl_not_integer"),
            (json!({}), "ttl_not_integer"),
            (json!(-3), "ttl_negative"),
            (json!(315_360_001), "ttl_too_large"),
            (json!(u64::MAX), "ttl_too_large"),
        ];
        for (ttl, reason) in cases {
            let answer = queue.try_configure(json!({"ttlSeconds": ttl}));
            answer.assert_refused(400, "ephemeral_bad_request");
            let body = answer.json();
            assert_eq!(body["reason"], reason, "{ttl}: {body}");
            let field = body["field"].as_str().unwrap_or_default();
            assert!(field.contains("ttlSeconds"), "{body}");
        }
        queue.configure(json!({"ttlSeconds": 315_360_000}));
        queue.configure(json!({"ttlSeconds": 4_294_967}));
    });
}

#[test]
fn a_later_configure_replaces_an_earlier_one() {
    each_setup(|broker| {
        let queue = broker.queue("replace");
        queue.configure(json!({"maxLength": 7, "leaseSeconds": 3}));
        queue.configure(json!({"leaseSeconds": 4}));
        let options = queue.row().unwrap()["options"].clone();
        assert_eq!(options["maxLength"], 10_000);
        assert_eq!(options["leaseSeconds"], 4);
    });
}

#[test]
fn a_configure_promotes_a_live_queue_and_keeps_its_contents() {
    each_setup(|broker| {
        let queue = broker.queue("promote");
        queue.push(&numbers(0..2));
        queue.configure(json!({"maxLength": 50}));
        assert_eq!(queue.row().unwrap()["tier"], "declared");
        assert_eq!(queue.pop_payloads("batch=2"), numbers(0..2));
    });
}
