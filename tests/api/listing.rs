//! The list of queues and the depth of one.

use serde_json::{Value, json};

use crate::support::queue::numbers;
use crate::support::{each_plan, each_setup, encode, unique};

fn names(list: &Value) -> Vec<String> {
    let rows = list["queues"].as_array().expect("queues");
    let name = |row: &Value| row["queue"].as_str().expect("a name").to_owned();
    rows.iter().map(name).collect()
}

#[test]
fn a_row_has_all_its_fields() {
    each_setup(|broker| {
        let queue = broker.queue("row-fields");
        queue.push_to("a", &[json!("xx")]);
        queue.push_to("b", &[json!("yyy"), json!(1)]);
        queue.pop_one("group=g&partition=a");
        let mut row = queue.row().unwrap();
        let options = row["options"].take();
        let expected = json!({
            "queue": queue.name, "tier": "implicit", "depth": 3, "bytes": 10, "partitions": 2,
            "groups": 1, "drops": {"bounds": 0, "ttl": 0, "retry": 0}, "options": null,
        });
        assert_eq!(row, expected);
        for key in [
            "maxBytes",
            "maxLength",
            "policy",
            "ttlSeconds",
            "leaseSeconds",
            "retryLimit",
        ] {
            assert!(!options[key].is_null(), "{key} in {options}");
        }
        assert_eq!(options["windowBuffer"], json!({"ms": 0, "count": 0}));
    });
}

#[test]
fn limit_after_and_prefix_cut_the_list() {
    each_setup(|broker| {
        let prefix = unique("cut");
        let mut client = broker.client();
        for letter in ["d", "b", "a", "c", "e"] {
            let body = json!({"queue": format!("{prefix}/{letter}"), "messages": [{"payload": 1}]});
            client.post("/api/v1/ephemeral/push", &body).expect(201);
        }
        let base = format!(
            "/api/v1/ephemeral/queues?prefix={}",
            encode(&format!("{prefix}/"))
        );
        let all = client.get(&base).expect(200);
        let expected: Vec<String> = ["a", "b", "c", "d", "e"]
            .map(|letter| format!("{prefix}/{letter}"))
            .to_vec();
        assert_eq!(names(&all), expected);
        assert_eq!(all["count"], 5);
        assert!(all.get("nextAfter").is_none_or(Value::is_null), "{all}");
        assert!(
            all.get("truncated").is_none_or(|cut| cut == &json!(false)),
            "{all}"
        );

        let mut got = Vec::new();
        let mut after = String::new();
        loop {
            let page = client
                .get(&format!("{base}&limit=2&after={}", encode(&after)))
                .expect(200);
            let rows = names(&page);
            assert_eq!(page["count"], rows.len());
            got.extend(rows);
            if page["truncated"] != json!(true) {
                break;
            }
            after = page["nextAfter"].as_str().expect("a name").to_owned();
            assert_eq!(Some(&after), got.last(), "nextAfter is exclusive");
        }
        assert_eq!(got, expected);
        let rest = client
            .get(&format!("{base}&after={}", encode(&expected[2])))
            .expect(200);
        assert_eq!(names(&rest), expected[3..]);
    });
}

#[test]
fn three_thousand_queues_are_streamed_in_order() {
    each_plan(|plan| {
        let broker = plan.start();
        let mut client = broker.client();
        for number in 0..3_000_u32 {
            // Created in another order than the one they are listed in.
            let name = format!("q{:04}", (number * 7_919) % 3_000);
            let body = json!({"queue": name, "messages": [{"payload": 0}]});
            client.post("/api/v1/ephemeral/push", &body).expect(201);
        }
        let answer = client.get("/api/v1/ephemeral/queues");
        assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
        assert_eq!(answer.header("content-length"), None);
        let list = answer.expect(200);
        let expected: Vec<String> = (0..3_000).map(|number| format!("q{number:04}")).collect();
        assert_eq!(names(&list), expected);
        assert_eq!(list["count"], 3_000);
        assert_eq!(list["cellBytes"], 3_000);
        // The connection is in step after a streamed answer.
        assert_eq!(client.get("/health").status, 200);
        assert_eq!(broker.sample("queen_ephemeral_queues"), 3_000.0);
    });
}

#[test]
fn an_old_client_reads_a_long_list_until_the_connection_ends() {
    each_setup(|broker| {
        let queue = broker.queue("http-1-0");
        queue.push(&[json!(1)]);
        // Asked to keep it or not, only the end of the connection ends the answer.
        for keep_alive in ["", "Connection: keep-alive\r\n"] {
            for method in ["GET", "HEAD"] {
                let mut client = broker.client();
                client.send_raw(
                    format!("{method} /api/v1/ephemeral/queues HTTP/1.0\r\n{keep_alive}\r\n")
                        .as_bytes(),
                );
                let mut all = Vec::new();
                std::io::Read::read_to_end(&mut client.stream(), &mut all).expect("an answer");
                let text = String::from_utf8(all).expect("UTF-8");
                let (head, body) = text.split_once("\r\n\r\n").expect("a head");
                assert!(!head.to_ascii_lowercase().contains("chunked"), "{head}");
                if method == "HEAD" {
                    assert_eq!(body, "");
                    continue;
                }
                let list: Value = serde_json::from_str(body).expect("JSON");
                assert!(names(&list).contains(&queue.name));
            }
        }
    });
}

#[test]
fn reading_is_no_use_of_a_queue() {
    each_setup(|broker| {
        let queue = broker.queue("not-created");
        queue
            .try_depth("")
            .assert_refused(404, "ephemeral_queue_not_found");
        assert_eq!(queue.row(), None);
    });
}

#[test]
fn the_depth_has_all_its_fields() {
    each_setup(|broker| {
        let queue = broker.queue("depth-fields");
        queue.push_to("a", &numbers(0..3));
        queue.push_to("b", &[json!("12345678")]);
        queue.pop_one("group=g&partition=a");
        let mut parked = queue.park(broker.client(), "group=h&partition=empty");
        let depth = queue.depth_of("g");
        let expected = json!({
            "queue": queue.name, "group": "g", "tier": "implicit",
            "pending": 3, "partitionsPending": 2, "bytes": 13,
            "drops": {"bounds": 0, "ttl": 0, "retry": 0}, "waiting": 1,
            "partitions": [
                {"partition": "a", "pending": 2, "bytes": 3},
                {"partition": "b", "pending": 1, "bytes": 10},
                {"partition": "empty", "pending": 0, "bytes": 0},
            ],
            "groups": [
                {"group": "g", "pending": 3, "skipped": 0},
                {"group": "h", "pending": 4, "skipped": 0},
            ],
        });
        assert_eq!(depth, expected);
        assert!(queue.depth()["group"].is_null());
        queue.push_to("empty", &[json!(1)]);
        parked.message();
    });
}

#[test]
fn pending_leaves_out_what_is_leased_and_counts_what_comes_back() {
    each_setup(|broker| {
        let queue = broker.queue("pending");
        queue.push(&numbers(0..4));
        assert_eq!(queue.depth_of("unknown")["pending"], 4);
        let leased = queue.pop("batch=3&group=g");
        assert_eq!(queue.depth_of("g")["pending"], 1);
        queue.settle_one(Some("g"), &leased[0].id, "retry");
        assert_eq!(queue.depth_of("g")["pending"], 2);
        assert_eq!(queue.held().0, 4, "leased messages are held");
    });
}

#[test]
fn without_a_group_the_worst_named_one_speaks() {
    each_setup(|broker| {
        let queue = broker.queue("worst");
        queue.push(&numbers(0..3));
        assert_eq!(queue.depth()["pending"], 3, "no group: everything held");
        queue.pop("batch=2&autoAck=true");
        assert_eq!(queue.depth()["pending"], 1, "the shared cursor alone");
        queue.pop("group=near&batch=2&autoAck=true");
        queue.pop("group=far&autoAck=true");
        let groups = queue.depth();
        let far = &queue.group("far")["pending"];
        assert_eq!(&groups["pending"], far, "{groups}");
    });
}

#[test]
fn groups_of_the_depth_are_sorted() {
    each_setup(|broker| {
        let queue = broker.queue("sorted-groups");
        queue.push(&[json!(1)]);
        for group in ["c", "a", "b"] {
            queue.pop(&format!("group={group}"));
        }
        let depth = queue.depth();
        let groups: Vec<&str> = depth["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["group"].as_str().unwrap())
            .collect();
        assert_eq!(groups, ["a", "b", "c"]);
    });
}
