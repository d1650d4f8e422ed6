//! Payloads that are encrypted where they are stored: nobody finds them there, the key reads them,
//! another one says so, and what cannot be read is neither taken nor lost.

use serde_json::{Value, json};

use crate::rig::{PATIENCE, address, wait_until_away, wait_until_stored};
use crate::support::broker::free_port;
use crate::support::home::Home;
use crate::support::{Answer, Broker, Database, Plan, Server, eventually_within, unique};

const KEY: &str = "00112233445566778899aabbccddeeff0123456789abcdef0123456789ABCDEF";
const OTHER_KEY: &str = "ff112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";

/// What no file and no row may hold.
const SECRET: &str = "swordfish";

struct Scene {
    database: Database,
    home: Home,
    broker: Broker,
    queue: String,
}

impl Scene {
    fn begin(key: &str) -> Scene {
        let (database, home) = (Server::start().database(), Home::empty());
        let scene = Scene {
            broker: plan(&database, &home, key).start(),
            database,
            home,
            queue: unique("sealed"),
        };
        wait_until_stored(&scene.broker);
        scene
    }

    /// Goes on with another broker, which has this key.
    fn restart(&mut self, key: &str) {
        self.broker.kill();
        self.broker = plan(&self.database, &self.home, key).start();
    }

    fn restart_and_wait(&mut self, key: &str) {
        self.restart(key);
        wait_until_stored(&self.broker);
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        let path = format!("/api/v1/{path}");
        self.broker.plain_client().post(&path, body)
    }

    fn get(&self, path: &str) -> Answer {
        self.broker.plain_client().get(&format!("/api/v1/{path}"))
    }

    #[track_caller]
    fn configure(&self, options: Value) -> Value {
        let body = json!({"queue": self.queue, "options": options});
        self.post("configure", &body).expect(200)
    }

    /// Pushes one message; its status.
    #[track_caller]
    fn push(&self, id: &str) -> String {
        let item = json!({
            "queue": self.queue, "partition": "p", "payload": secret_of(id), "transactionId": id,
        });
        let answer = self.post("push", &json!({"items": [item]})).expect(201);
        answer[0]["status"].as_str().expect("a status").to_owned()
    }

    fn pop(&self, group: &str, query: &str) -> Answer {
        self.get(&format!(
            "pop/queue/{}?consumerGroup={group}&subscriptionMode=all&{query}",
            self.queue
        ))
    }

    /// What a group takes, by transaction ids; payloads are as they were pushed.
    #[track_caller]
    fn take(&self, group: &str, query: &str) -> Vec<String> {
        let answer = self.pop(group, query).expect(200);
        let messages = answer["messages"].as_array().expect("messages");
        let id_of = |message: &Value| {
            let id = message["transactionId"].as_str().expect("an id").to_owned();
            assert_eq!(message["data"], secret_of(&id), "{message}");
            id
        };
        messages.iter().map(id_of).collect()
    }

    #[track_caller]
    fn fetch(&self, offset: i64) -> Value {
        let entry = json!({"queue": self.queue, "partition": "p", "offset": offset});
        let answer = self.post("fetch", &json!({"entries": [entry]})).expect(200);
        answer["entries"][0].clone()
    }

    /// Whether the database holds the secret in any message or dead letter.
    fn database_tells(&self) -> bool {
        let question = format!(
            "SELECT EXISTS (
               SELECT FROM queen.durable_segment WHERE position('{SECRET}'::bytea IN payload) > 0
             ) OR EXISTS (
               SELECT FROM queen.dead_letter WHERE position('{SECRET}'::bytea IN record) > 0
             )"
        );
        let row = self.database.client().query_one(&question, &[]);
        row.expect("the tables are there").get(0)
    }

    /// Whether a file of the spool holds the secret.
    fn spool_tells(&self) -> bool {
        let files = std::fs::read_dir(self.home.data().join("spool")).expect("the spool is there");
        let mut bytes =
            files.map(|file| std::fs::read(file.expect("a file").path()).expect("bytes"));
        bytes.any(|bytes| {
            bytes
                .windows(SECRET.len())
                .any(|part| part == SECRET.as_bytes())
        })
    }
}

fn plan(database: &Database, home: &Home, key: &str) -> Plan {
    Plan::any()
        .set("QUEEN_DURABLE", "on")
        .set("DATABASE_URL", database.url())
        .set("QUEEN_DATA_DIR", home.data().display())
        .set("QUEEN_ENCRYPTION_KEY", key)
}

fn secret_of(id: &str) -> Value {
    json!({"word": format!("{SECRET} {id}")})
}

#[track_caller]
fn assert_refused(answer: &Answer, code: &str, part: &str) {
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["code"]),
        (500, &json!(code)),
        "{body}"
    );
    let text = body["error"].as_str().expect("a text");
    assert!(text.contains(part), "{text}");
}

#[test]
fn what_is_stored_tells_nothing_and_is_read_everywhere() {
    let mut scene = Scene::begin(KEY);
    let answer = scene.configure(json!({"encryptionEnabled": true}));
    assert_eq!(answer["options"]["encryptionEnabled"], true);
    assert_eq!(answer.get("warning"), None);
    for id in ["a", "b", "c"] {
        assert_eq!(scene.push(id), "queued");
    }
    assert_eq!(scene.push("b"), "duplicate");
    let item = json!({
        "queue": scene.queue, "partition": "p", "payload": secret_of("d"), "transactionId": "d",
    });
    let step = json!({"operations": [{"type": "push", "items": [item]}]});
    assert_eq!(
        scene.post("transaction", &step).expect(200)["success"],
        true
    );
    assert_eq!(scene.take("early", "batch=2&autoAck=true"), ["a", "b"]);
    assert!(!scene.database_tells());

    scene.restart_and_wait(KEY);
    assert_eq!(scene.push("c"), "duplicate");
    assert_eq!(scene.take("early", "batch=9&autoAck=true"), ["c", "d"]);
    let popped = scene.pop("g", "batch=4").expect(200);
    let message = &popped["messages"][0];
    assert_eq!(message["data"], secret_of("a"));
    let detail = scene
        .get(&format!("messages/{}", address(message)))
        .expect(200);
    assert_eq!(
        (&detail["isEncrypted"], &detail["data"]),
        (&json!(true), &secret_of("a"))
    );
    let listing = scene
        .get(&format!("messages?queue={}", scene.queue))
        .expect(200);
    for row in listing["messages"].as_array().expect("messages") {
        let id = row["transactionId"].as_str().expect("an id");
        assert_eq!(
            (&row["payload"], &row["payloadAvailable"]),
            (&secret_of(id), &json!(true))
        );
    }
    assert_eq!(scene.fetch(1)["records"][0]["payload"], secret_of("b"));
    let trace = json!({
        "transactionId": "a", "partitionId": message["partitionId"], "data": 1, "traceNames": ["t"],
        "consumerGroup": "g",
    });
    scene.post("traces", &trace).expect(201);
    let traces = scene.get("traces/by-name/t").expect(200);
    assert_eq!(traces["traces"][0]["message_payload"], secret_of("a"));

    let ack = json!({
        "transactionId": "a", "partitionId": message["partitionId"], "status": "dlq",
        "consumerGroup": "g", "leaseId": message["leaseId"],
    });
    assert_eq!(scene.post("ack", &ack).expect(200)[0]["dlq"], true);
    assert!(!scene.database_tells());
    let letters = scene.get(&format!("dlq?queue={}", scene.queue)).expect(200);
    assert_eq!(letters["messages"][0]["data"], secret_of("a"));
    assert_eq!(letters["messages"][0]["payloadAvailable"], true);
    let retry = format!("messages/{}/retry", address(message));
    assert_eq!(
        scene.post(&retry, &json!({})).expect(200)["result"],
        "moved"
    );
    let replayed = scene.pop("early", "batch=9&autoAck=true").expect(200);
    assert_eq!(replayed["messages"][0]["data"], secret_of("a"));
    assert!(!scene.database_tells());
}

#[test]
fn another_key_or_none_takes_nothing_and_says_so() {
    let mut scene = Scene::begin(KEY);
    scene.configure(json!({"encryptionEnabled": true}));
    for id in ["a", "b"] {
        scene.push(id);
    }
    let popped = scene.pop("giver", "batch=1").expect(200);
    let message = &popped["messages"][0];
    let ack = json!({
        "transactionId": "a", "partitionId": message["partitionId"], "status": "dlq",
        "consumerGroup": "giver", "leaseId": message["leaseId"],
    });
    scene.post("ack", &ack).expect(200);
    for (key, part) in [(OTHER_KEY, "another key"), ("", "this broker has no key")] {
        scene.restart_and_wait(key);
        let code = "wrong_encryption_key";
        for query in [
            "batch=1",
            "autoAck=true",
            "wait=true&timeout=60000",
            "batch=1&partitions=9",
        ] {
            let answer = scene.pop("g", query);
            assert_refused(&answer, code, part);
            assert_eq!(answer.json()["messages"], json!([]));
        }
        let detail = scene.get(&format!("messages/{}", address(message)));
        assert_refused(&detail, code, part);
        let retry = format!("messages/{}/retry", address(message));
        assert_refused(&scene.post(&retry, &json!({})), code, part);
        let all = json!({"queue": scene.queue});
        assert_refused(&scene.post("dlq/replay", &all), code, part);
        let fetched = scene.fetch(0);
        assert_eq!(
            (&fetched["error"], &fetched["records"]),
            (&json!("WRONG_ENCRYPTION_KEY"), &json!([]))
        );
        for path in ["messages", "dlq"] {
            let listing = scene
                .get(&format!("{path}?queue={}", scene.queue))
                .expect(200);
            let row = &listing["messages"][0];
            assert_eq!(
                (&row["data"], &row["payloadAvailable"]),
                (&Value::Null, &json!(false))
            );
        }
        // What is not encrypted is as ever.
        let plain = unique("plain");
        let item = json!({"queue": plain, "payload": 7});
        scene.post("push", &json!({"items": [item]})).expect(201);
        let popped = scene.get(&format!("pop/queue/{plain}")).expect(200);
        assert_eq!(popped["messages"][0]["data"], 7);
    }
    scene.restart_and_wait(KEY);
    let popped = scene.pop("g", "batch=9").expect(200);
    assert_eq!(popped["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(popped["messages"][0]["deliveryAttempt"], 1);
    let letters = scene.get(&format!("dlq?queue={}", scene.queue)).expect(200);
    assert_eq!(
        (&letters["total"], &letters["messages"][0]["data"]),
        (&json!(1), &secret_of("a"))
    );
}

#[test]
fn what_cannot_be_read_does_not_stop_what_comes_before_it() {
    let mut scene = Scene::begin(KEY);
    scene.configure(json!({"encryptionEnabled": true}));
    scene.push("a");
    scene.restart_and_wait(OTHER_KEY);
    scene.push("b");
    assert_refused(
        &scene.pop("g", "batch=9"),
        "wrong_encryption_key",
        "offset 0",
    );
    scene.restart_and_wait(KEY);
    assert_eq!(scene.take("g", "batch=9&autoAck=true"), ["a"]);
    assert_refused(
        &scene.pop("g", "batch=9&autoAck=true"),
        "wrong_encryption_key",
        "offset 1",
    );
    assert_eq!(scene.fetch(0)["records"].as_array().map(Vec::len), Some(1));
    assert_eq!(scene.fetch(1)["error"], "WRONG_ENCRYPTION_KEY");
    scene.restart_and_wait(OTHER_KEY);
    assert_eq!(scene.take("g", "batch=9&autoAck=true"), ["b"]);
}

#[test]
fn bytes_that_were_moved_are_refused() {
    let mut scene = Scene::begin(KEY);
    scene.configure(json!({"encryptionEnabled": true}));
    // One segment each.
    for id in ["a", "b"] {
        scene.push(id);
    }
    let swap =
        "UPDATE queen.durable_segment AS one SET payload = other.payload, hashes = other.hashes
      FROM queen.durable_segment AS other
      WHERE other.partition_id = one.partition_id AND other.base_offset = 1 - one.base_offset";
    scene.database.execute(swap);
    scene.restart_and_wait(KEY);
    assert_refused(
        &scene.pop("g", "autoAck=true"),
        "message_damaged",
        "offset 0",
    );
    assert_eq!(scene.fetch(0)["error"], "MESSAGE_DAMAGED");
    scene.database.execute(swap);
    scene.restart_and_wait(KEY);
    assert_eq!(scene.take("g", "autoAck=true"), ["a", "b"]);
}

#[test]
fn bytes_that_are_missing_are_told_of_and_stop_nothing_else() {
    for encrypted in [true, false] {
        let mut scene = Scene::begin(KEY);
        if encrypted {
            scene.configure(json!({"encryptionEnabled": true}));
        }
        for id in ["a", "b"] {
            scene.push(id);
        }
        for damage in ["substr(payload, 1, octet_length(payload) - 1)", "''"] {
            scene.database.execute(&format!(
                "UPDATE queen.durable_segment SET payload = {damage} WHERE base_offset = 0"
            ));
            scene.restart_and_wait(KEY);
            for query in ["batch=9", "batch=9&autoAck=true"] {
                let answer = scene.pop("g", query);
                assert_refused(&answer, "message_damaged", "offset 0");
            }
            assert_eq!(scene.fetch(0)["error"], "MESSAGE_DAMAGED");
            let other = json!({
                "queue": scene.queue, "partition": "q", "payload": secret_of(damage),
                "transactionId": damage,
            });
            scene.post("push", &json!({"items": [other]})).expect(201);
            assert_eq!(scene.take("g", "batch=9&autoAck=true"), [damage]);
        }
    }
}

#[test]
fn a_flag_that_was_cleared_delivers_no_sealed_bytes() {
    let mut scene = Scene::begin(KEY);
    scene.configure(json!({"encryptionEnabled": true}));
    scene.push("a");
    let flip = "UPDATE queen.durable_segment SET payload = set_byte(payload, 4, \
                get_byte(payload, 4) # 4)";
    scene.database.execute(flip);
    scene.restart_and_wait(KEY);
    let answer = scene.pop("g", "autoAck=true");
    assert_refused(&answer, "message_damaged", "offset 0");
    assert_eq!(scene.fetch(0)["error"], "MESSAGE_DAMAGED");
    scene.database.execute(flip);
    // A queue that knows of no encryption.
    scene.database.execute(
        "UPDATE queen.durable_queue SET options = options - 'encryption' - 'was_encrypted'",
    );
    scene.restart_and_wait(KEY);
    assert_eq!(scene.take("g", "autoAck=true"), ["a"]);
}

#[test]
fn the_spool_tells_nothing_and_waits_for_its_key() {
    let mut scene = Scene::begin(KEY);
    scene.configure(json!({"encryptionEnabled": true}));
    scene.push("a");
    scene.database.server().stop_immediately();
    wait_until_away(&scene.broker);
    for id in ["b", "c"] {
        assert_eq!(scene.push(id), "buffered");
    }
    assert!(!scene.spool_tells());
    scene.broker.kill();
    scene.database.server().start_again();
    scene.restart(OTHER_KEY);
    eventually_within(PATIENCE, "the broker says why they wait", || {
        scene
            .broker
            .output()
            .contains("entry 0 of the spool is encrypted with another key")
    });
    // What comes meanwhile is accepted, and keeps its place behind them.
    assert_eq!(scene.push("b"), "duplicate");
    assert_eq!(scene.push("d"), "buffered");
    // What must happen at once and would overtake them does not happen.
    let step = json!({"operations": [{"type": "push", "queue": scene.queue, "payload": 1}]});
    let mut client = scene.broker.plain_client();
    let refused = client.post("/api/v1/transaction", &step);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.json()["code"], "durable_unavailable");
    assert!(!scene.spool_tells());
    scene.restart(KEY);
    eventually_within(PATIENCE, "its own entries are stored", || {
        scene.fetch(0)["highWatermark"] == 3
    });
    scene.restart_and_wait(OTHER_KEY);
    assert_eq!(scene.fetch(3)["records"][0]["transactionId"], "d");
    scene.restart_and_wait(KEY);
    assert_eq!(scene.take("g", "batch=3&autoAck=true"), ["a", "b", "c"]);
    assert!(!scene.database_tells());
}

#[test]
fn without_a_key_there_is_a_warning_and_plain_text() {
    let mut scene = Scene::begin("");
    let answer = scene.configure(json!({"encryptionEnabled": true}));
    assert_eq!(answer["options"]["encryptionEnabled"], true);
    let warning = answer["warning"].as_str().expect("a warning");
    assert!(warning.contains("QUEEN_ENCRYPTION_KEY"), "{warning}");
    eventually_within(PATIENCE, "the log warns", || {
        let log = scene.broker.output();
        log.contains("messages are stored as plain text")
    });
    scene.push("a");
    assert!(scene.database_tells());
    // With a key those that were stored before stay readable.
    scene.restart_and_wait(KEY);
    scene.push("b");
    assert_eq!(scene.take("g", "batch=9&autoAck=true"), ["a", "b"]);
    // What is encrypted stays so where the option is taken back.
    scene.configure(json!({"encryptionEnabled": false}));
    scene.push("c");
    assert_eq!(scene.take("h", "batch=9&autoAck=true"), ["a", "b", "c"]);
}

#[test]
fn a_malformed_key_refuses_the_start_and_is_not_shown() {
    for malformed in ["hunter2", &KEY[1..], &KEY.replace('a', "z")] {
        let plan = Plan::any().set("QUEEN_ENCRYPTION_KEY", malformed);
        let failure = plan.start_in_vain(free_port());
        assert_eq!(failure.status.and_then(|status| status.code()), Some(78));
        let text = "QUEEN_ENCRYPTION_KEY must be 64 hexadecimal digits";
        assert!(failure.output.contains(text), "{}", failure.output);
        assert!(!failure.output.contains(malformed));
    }
}
