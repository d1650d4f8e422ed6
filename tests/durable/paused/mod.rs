//! Two brokers on one database, of which one is paused at every step of what it does: at each message
//! between it and PostgreSQL, in either direction. Meanwhile the other one does what it likes. Then the
//! first goes on, or its wire breaks. Whatever was answered holds, once, and for one of them.

mod consumers;
mod pushes;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{PATIENCE, wait_until_stored};
use crate::support::home::Home;
use crate::support::poll::step;
use crate::support::{Broker, Client, Database, Plan, Server, Wire, encode, eventually_within};

/// How long the paused broker is left alone at most: the other one may wait for a lock that it holds.
const PAUSE_MAX: Duration = Duration::from_millis(150);

/// More messages than anything here takes.
const STEPS_MAX: u64 = 400;

/// How a pause ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The broker goes on where it was.
    GoesOn,
    /// Its wire breaks there.
    Breaks,
}

/// What was answered around one pause.
struct Answers<Paused, Free> {
    paused: Paused,
    free: Free,
    /// Whether there was a pause: else it was all done before that step.
    was_held: bool,
}

/// Both brokers.
struct Scene {
    paused: Broker,
    free: Broker,
    wire: Wire,
    database: Database,
    _homes: [Home; 2],
}

impl Scene {
    fn begin() -> Scene {
        let database = Server::start().database();
        let wire = Wire::to(database.server().port());
        let homes = [Home::empty(), Home::empty()];
        let plan = Plan::any().set("QUEEN_DURABLE", "on");
        // Nothing is removed but when the test says so.
        let plan = plan.set("RETENTION_INTERVAL", 3_600_000);
        let start = |url: &str, home: &Home| {
            let plan = plan.clone().set("QUEEN_DATA_DIR", home.data().display());
            plan.set("DATABASE_URL", url).start()
        };
        let (port, name) = (wire.port(), database.name());
        let over_the_wire = format!("postgres://queen@127.0.0.1:{port}/{name}?sslmode=disable");
        let scene = Scene {
            paused: start(&over_the_wire, &homes[0]),
            free: start(&database.url(), &homes[1]),
            wire,
            database,
            _homes: homes,
        };
        scene.wait_until_stored();
        scene
    }

    fn wait_until_stored(&self) {
        wait_until_stored(&self.paused);
        wait_until_stored(&self.free);
    }

    /// Asks the broker that is paused after so many messages, and the other one meanwhile.
    fn pause_after<Paused: Send, Free: Send>(
        &self,
        (messages, ending): (u64, Ending),
        ask: impl FnOnce(&mut Client) -> Paused + Send,
        meanwhile: impl FnOnce(&mut Client) -> Free + Send,
    ) -> Answers<Paused, Free> {
        assert!(messages < STEPS_MAX, "it takes more steps than expected");
        let (mut first, mut second) = (self.paused.plain_client(), self.free.plain_client());
        self.wire.hold_after(messages);
        thread::scope(|scope| {
            let paused = scope.spawn(move || ask(&mut first));
            eventually_within(PATIENCE, "a pause or an answer", || {
                self.wire.is_held() || paused.is_finished()
            });
            let was_held = self.wire.is_held();
            let free = scope.spawn(move || meanwhile(&mut second));
            let until = Instant::now() + PAUSE_MAX;
            while !free.is_finished() && Instant::now() < until {
                step();
            }
            match ending {
                Ending::GoesOn => self.wire.go_on(),
                Ending::Breaks => self.wire.cut(),
            }
            Answers {
                free: free.join().expect("the other broker serves"),
                paused: paused.join().expect("the paused broker serves"),
                was_held,
            }
        })
    }

    /// Removes what is old, after everything in front of an offset was made so; says how much went.
    fn retain(&self, before_offset: u64) -> i32 {
        let mut client = self.database.client();
        let age = "UPDATE queen.durable_segment SET created_us = created_us - 10000000000 \
                   WHERE base_offset + count <= $1";
        let offset = i64::try_from(before_offset).expect("a small one");
        client.execute(age, &[&offset]).expect("segments");
        let retain = "SELECT removed FROM queen.retain(0, '', 1000, 1000)";
        client.query_one(retain, &[]).expect("retention").get(0)
    }
}

/// What was pushed: the answers by transaction id.
type Pushed = BTreeMap<String, Value>;

/// Pushes messages to the partition `p` of a queue, in one request.
fn push(client: &mut Client, queue: &str, ids: &[String]) -> Pushed {
    let item =
        |id: &String| json!({"queue": queue, "partition": "p", "payload": id, "transactionId": id});
    let items: Vec<Value> = ids.iter().map(item).collect();
    let answer = client
        .post("/api/v1/push", &json!({"items": items}))
        .expect(201);
    let answers = answer.as_array().expect("answers").iter();
    answers
        .map(|one| (text(one, "transaction_id"), one.clone()))
        .collect()
}

/// What a group gets.
fn pop(client: &mut Client, queue: &str, query: &str) -> Vec<Value> {
    let queue = encode(queue);
    let path = format!("/api/v1/pop/queue/{queue}?subscriptionMode=all&{query}");
    let answer = client.get(&path);
    if answer.status == 204 {
        return Vec::new();
    }
    let popped = answer.expect(200);
    popped["messages"].as_array().expect("messages").clone()
}

/// Acks messages of the group `workers` under their leases; whether each was done.
fn ack(client: &mut Client, messages: &[Value], status: &str) -> Vec<bool> {
    if messages.is_empty() {
        return Vec::new();
    }
    let acks: Vec<Value> = messages
        .iter()
        .map(|message| ack_of(message, status))
        .collect();
    let body = json!({"acknowledgments": acks, "consumerGroup": "workers"});
    let answer = client.post("/api/v1/ack/batch", &body).expect(200);
    let outcomes = answer.as_array().expect("outcomes").iter();
    outcomes.map(|one| one["success"] == true).collect()
}

/// Has a broker take over what the other one has stored: it refuses nothing before it has.
fn catch_up(client: &mut Client, message: &Value) {
    let mut foreign = message.clone();
    foreign["leaseId"] = json!("00000000-0000-4000-8000-000000000000");
    assert_eq!(ack(client, &[foreign], "completed"), [false]);
}

fn ack_of(message: &Value, status: &str) -> Value {
    json!({
        "transactionId": message["transactionId"], "partitionId": message["partitionId"],
        "leaseId": message["leaseId"], "status": status, "consumerGroup": "workers",
    })
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().expect("text").to_owned()
}

fn offset_of(message: &Value) -> u64 {
    message["offset"].as_u64().expect("an offset")
}

fn ids_of(messages: &[Value]) -> Vec<String> {
    messages
        .iter()
        .map(|message| text(message, "transactionId"))
        .collect()
}
