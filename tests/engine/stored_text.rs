//! Names and options of any kind are stored and come back.

use serde_json::json;

use crate::rig::{database, declare, has_option, plan_on};
use crate::support::encode;

/// Names that something between the broker and the table could take for something else.
const NAMES: [&str; 8] = [
    "'; DROP TABLE queen.switch; --",
    "\"quoted\" \\ back\\slash",
    "$1 $$ :name ?",
    "{\"a\", null}",
    "NULL",
    "ключ \u{1f511} \u{202e}",
    "a/b c\tnew\nline",
    " leading and trailing ",
];

#[test]
fn names_of_any_kind_are_stored_and_come_back() {
    let database = database();
    let broker = plan_on(&database).start();
    let long = "\u{e9}".repeat(256);
    let names: Vec<&str> = NAMES.into_iter().chain([long.as_str()]).collect();
    let mut declared = Vec::new();
    for name in names {
        let body = json!({"queue": name, "options": {"maxLength": 7}});
        let answer = broker
            .plain_client()
            .post("/api/v1/ephemeral/configure", &body);
        // Whether a name may be had at all is no matter of the database.
        if answer.status == 400 {
            answer.assert_refused(400, "ephemeral_bad_request");
        } else {
            assert_eq!(answer.expect(201)["durable"], true, "{name}");
            declared.push(name);
        }
    }
    assert!(declared.len() > NAMES.len() / 2, "{declared:?}");
    broker.kill();
    let broker = broker.start_again();
    for name in declared {
        assert!(
            has_option(&broker.queue_named(name), "maxLength", 7),
            "{name}"
        );
        let target = format!("/api/v1/ephemeral/queue/{}", encode(name));
        let body = broker.plain_client().delete(&target).expect(200);
        assert_eq!(body["declared"], true, "{name}");
    }
    let question = "SELECT count(*) FROM queen.ephemeral_queue";
    let row = database.client().query_one(question, &[]);
    assert_eq!(row.expect("a count").get::<_, i64>(0), 0);
    database.execute("SELECT FROM queen.switch");
}

#[test]
fn a_name_that_the_table_cannot_hold_is_refused_as_the_clients_fault() {
    let database = database();
    let broker = plan_on(&database).start();
    let body = br#"{"queue":"a\u0000b","options":{}}"#;
    let answer = broker
        .plain_client()
        .post_raw("/api/v1/ephemeral/configure", body);
    answer.assert_refused(400, "ephemeral_bad_request");
    // It has harmed nobody.
    declare(&broker.queue("fine"), json!({}));
}

#[test]
fn options_with_a_megabyte_of_white_space_are_stored_or_refused_as_the_clients_fault() {
    let database = database();
    let broker = plan_on(&database).start();
    let queue = broker.queue("wide");
    let space = " ".repeat(1_000_000);
    let body = format!(
        r#"{{"queue":"{}","options":{{{space}"maxLength":7}}}}"#,
        queue.name
    );
    let answer = queue.post_raw("/api/v1/ephemeral/configure", body.as_bytes());
    if answer.status == 201 {
        let name = queue.name.clone();
        drop(queue);
        broker.kill();
        let broker = broker.start_again();
        assert!(has_option(&broker.queue_named(&name), "maxLength", 7));
    } else {
        assert!((400..500).contains(&answer.status), "{}", answer.text());
        assert_eq!(queue.row(), None);
        declare(&broker.queue("fine"), json!({}));
    }
}
