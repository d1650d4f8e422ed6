//! What the published clients send, as bytes: rows 61 to 68, and their habits of framing.

use serde_json::{Value, json};

use crate::support::{Client, Message, each_setup, unique};

/// One request in the words of each client: head fields after the request line.
fn habits(address: std::net::SocketAddr) -> [(&'static str, String, &'static str); 3] {
    [
        (
            "rust",
            format!("content-type: application/json\r\naccept: */*\r\nhost: {address}\r\n"),
            "content-length",
        ),
        (
            "python",
            format!(
                "Host: {address}\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
                 Connection: keep-alive\r\nUser-Agent: python-httpx/0.28.1\r\n"
            ),
            "Content-Length",
        ),
        (
            "node",
            format!(
                "host: {address}\r\nconnection: keep-alive\r\nContent-Type: application/json\r\n\
                 accept: */*\r\naccept-language: *\r\nsec-fetch-mode: cors\r\nuser-agent: node\r\n\
                 accept-encoding: gzip, deflate\r\n"
            ),
            "content-length",
        ),
    ]
}

/// Sends a request in a client's words on an open connection.
fn say(client: &mut Client, line: &str, fields: &str, length: &str, body: &str) -> Value {
    let framing = if body.is_empty() {
        String::new()
    } else {
        format!("{length}: {}\r\n", body.len())
    };
    client.send_raw(format!("{line} HTTP/1.1\r\n{fields}{framing}\r\n{body}").as_bytes());
    let answer = client.read();
    assert!(answer.status < 300, "{line}: {}", answer.text());
    assert_eq!(answer.header("content-encoding"), None);
    answer.json()
}

#[test]
fn the_clients_own_words_work_on_one_kept_connection() {
    each_setup(|broker| {
        for (client_name, fields, length) in habits(broker.address()) {
            let name = unique(client_name);
            let mut client = broker.client();
            let mut say = |line: &str, body: &str| say(&mut client, line, &fields, length, body);
            // Rows 61 and 62: no partition key at all, a payload of null.
            let push = format!(r#"{{"queue":"{name}","messages":[{{"payload":null}}]}}"#);
            assert_eq!(say("POST /api/v1/ephemeral/push", &push)["pushed"], 1);
            // Row 63: a plain pop names the queue alone.
            let got = say(&format!("GET /api/v1/ephemeral/pop?queue={name}"), "");
            assert!(got["messages"][0]["payload"].is_null());
            let id = got["messages"][0]["id"].as_str().expect("an id");
            let ack = json!({"queue": name, "acks": [{"id": id, "status": "completed"}]});
            let body = say("POST /api/v1/ephemeral/ack", &ack.to_string());
            assert_eq!(body["results"][0]["outcome"], "acked");
            // Rows 64 and 66: a waiting pop has a timeout, a full one all keys in this order.
            let full = format!(
                "GET /api/v1/ephemeral/pop?queue={name}&partition=p&batch=10&wait=true&timeout=20\
                 &group=workers&autoAck=true"
            );
            assert_eq!(say(&full, "")["messages"], json!([]));
            say("GET /api/v1/ephemeral/queues", "");
            let deleted = say(&format!("DELETE /api/v1/ephemeral/queue/{name}"), "");
            assert_eq!(deleted["deleted"], true);
        }
    });
}

#[test]
fn row_65_false_is_the_same_as_absent() {
    each_setup(|broker| {
        let queue = broker.queue("row-65");
        queue.push(&[json!(1)]);
        let message = queue.pop_one("wait=false&autoAck=false&commitOnDelivery=false");
        queue.ack(None, &[message]);
        assert_eq!(queue.pop("wait=false"), []);
    });
}

#[test]
fn booleans_and_numbers_of_a_query_are_read_leniently() {
    each_setup(|broker| {
        let queue = broker.queue("lenient");
        queue.push(&[json!(1), json!(2), json!(3), json!(4)]);
        let message = queue.pop_one("autoAck=1&batch=many");
        let outcome = queue.settle_one(None, &message.id, "completed");
        assert_eq!(outcome, "unknown", "1 means true");
        assert_eq!(queue.pop("batch=0").len(), 1, "clamped to 1");
        assert_eq!(queue.pop("batch=-5").len(), 1);
        assert_eq!(queue.pop("batch=99999999999999999999&unknown=key").len(), 1);
        assert_eq!(queue.pop("wait=1&timeout=20"), []);
        assert_eq!(queue.pop("partition=&group="), []);
    });
}

#[test]
fn row_67_names_in_a_query_are_decoded() {
    each_setup(|broker| {
        let queue = broker.queue_named(&unique("a b"));
        queue.push(&[json!(1)]);
        let name = queue.name.replace(' ', "%20");
        let target = format!("/api/v1/ephemeral/pop?queue={name}&group=g%26h");
        let got = Message::all(&queue.get(&target));
        assert_eq!(got.len(), 1);
        assert_eq!(queue.group("g&h")["pending"], 0);
        queue.ack(Some("g&h"), &got);
    });
}

#[test]
fn row_68_an_escaped_slash_in_a_path_is_part_of_the_name() {
    each_setup(|broker| {
        let queue = broker.queue_named(&unique("reply/42"));
        queue.push(&[json!(1)]);
        let target = format!("/api/v1/ephemeral/queue/{}", queue.name.replace('/', "%2F"));
        let body = broker.client().delete(&target).expect(200);
        assert_eq!(
            body,
            json!({"queue": queue.name, "deleted": true, "declared": false})
        );
    });
}

#[test]
fn unknown_keys_are_ignored_outside_of_options() {
    each_setup(|broker| {
        let queue = broker.queue("unknown-keys");
        let push = json!({
            "queue": queue.name, "traceId": {"deep": [1]},
            "messages": [{"payload": 1, "transactionId": "t1", "createdAt": 99}],
        });
        let answer = queue.post("/api/v1/ephemeral/push", &push).expect(201);
        assert_eq!(answer["pushed"], 1);
        let message = queue.pop_one("");
        let ack = json!({"queue": queue.name, "x": 1, "acks": [{"id": message.id, "y": [2]}]});
        let answer = queue.post("/api/v1/ephemeral/ack", &ack).expect(200);
        assert_eq!(answer["results"][0]["outcome"], "acked");
        let reset = json!({"queue": queue.name, "z": null});
        queue.post("/api/v1/ephemeral/reset", &reset).expect(200);
    });
}

#[test]
fn json_with_spaces_and_escapes_is_read() {
    each_setup(|broker| {
        let name = unique("sp\u{e4}ced");
        let queue = broker.queue_named(&name);
        let escaped = name.replace('\u{e4}', "\\u00e4");
        let body = format!(
            "{{ \"messages\" : [ {{ \"payload\" : {{ \"k\" : \"\\u00e9\" }} }} ] ,\r\n\t\
             \"partition\" : \"p\\u002Fq\" , \"\\u0071ueue\" : \"{escaped}\" }} "
        );
        let mut client = broker.client();
        let answer = client.post_raw("/api/v1/ephemeral/push", body.as_bytes());
        assert_eq!(answer.expect(201)["pushed"], 1);
        let message = queue.pop_one("");
        assert_eq!(message.partition, "p/q");
        assert_eq!(message.payload, json!({"k": "\u{e9}"}));
    });
}

#[test]
fn empty_lists_are_answered_without_effect() {
    each_setup(|broker| {
        let queue = broker.queue("empty-lists");
        let body = queue.try_push(None, &[]).expect(201);
        assert_eq!(body, json!({"pushed": 0}));
        let ack = json!({"queue": queue.name, "acks": []});
        let body = queue.post("/api/v1/ephemeral/ack", &ack).expect(200);
        assert_eq!(body, json!({"results": []}));
    });
}
