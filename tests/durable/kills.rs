//! What was answered holds, whatever is killed in that moment, again and again: every answered push is
//! there exactly once and in order, and no answered ack is undone. `QUEEN_TEST_KILLS` says how often.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::rig::{PATIENCE, wait_until_stored};
use crate::support::home::Home;
use crate::support::poll::step;
use crate::support::{Broker, Client, Database, Plan, Server, eventually_within};

const PUSHERS: usize = 3;
const WORKERS: usize = 2;
const QUEUE: &str = "killed";

/// How often something is killed where nothing else is asked for.
const KILLS: u64 = 50;

/// Requests that must be answered between two kills.
const ANSWERED_MIN: u64 = 20;

/// What clients were told.
#[derive(Debug, Default)]
struct Told {
    /// By partition: how many pushes were answered. They are numbered from 0.
    pushed: Mutex<BTreeMap<String, u64>>,
    /// Acks that were answered with success.
    acked: Mutex<Vec<String>>,
    answers: AtomicU64,
    end: AtomicBool,
    address: Mutex<Option<std::net::SocketAddr>>,
}

impl Told {
    fn is_over(&self) -> bool {
        self.end.load(Ordering::SeqCst)
    }

    /// One request on a new connection or the one that is open; `None`: nobody knows what became of it.
    fn ask(
        &self,
        connection: &mut Option<Client>,
        (method, target, body): (&str, &str, Option<&Value>),
    ) -> Option<(u16, Value)> {
        if connection.is_none() {
            let address = (*self.address.lock().unwrap())?;
            let client = Client::try_connect(address).ok()?;
            client.set_read_limit(Duration::from_secs(20));
            *connection = Some(client);
        }
        let client = connection.as_mut()?;
        let text = body.map(Value::to_string);
        let bytes = client.request_bytes(method, target, text.as_deref().map(str::as_bytes));
        let answer = match client.try_send_raw(&bytes).and_then(|()| client.try_read()) {
            Ok(answer) => answer,
            Err(_) => {
                *connection = None;
                return None;
            }
        };
        if !client.is_reusable() {
            *connection = None;
        }
        let value = match answer.body.is_empty() {
            true => Value::Null,
            false => answer.json(),
        };
        self.answers.fetch_add(1, Ordering::SeqCst);
        Some((answer.status, value))
    }

    /// Pushes numbers one after another, each until it is answered.
    fn push_until_the_end(&self, number: usize) {
        let partition = format!("p{number}");
        let mut connection = None;
        for count in 0.. {
            let item = json!({
                "queue": QUEUE, "partition": partition, "payload": count,
                "transactionId": format!("{partition}-{count}"),
            });
            let body = json!({"items": [item]});
            loop {
                if self.is_over() {
                    return;
                }
                match self.ask(&mut connection, ("POST", "/api/v1/push", Some(&body))) {
                    Some((201, answer)) => {
                        let status = answer[0]["status"].as_str().unwrap_or_default().to_owned();
                        let known = ["queued", "duplicate", "buffered"];
                        assert!(known.contains(&&*status), "{answer}");
                        break;
                    }
                    Some((503 | 429, _)) | None => step(),
                    Some((status, answer)) => panic!("{status}: {answer}"),
                }
            }
            self.pushed
                .lock()
                .unwrap()
                .insert(partition.clone(), count + 1);
        }
    }

    /// Takes and acks.
    fn work_until_the_end(&self) {
        let mut connection = None;
        let target = format!(
            "/api/v1/pop/queue/{QUEUE}?consumerGroup=workers&subscriptionMode=all&batch=5&partitions=2&leaseSeconds=2"
        );
        while !self.is_over() {
            let taken = self.ask(&mut connection, ("GET", &target, None));
            let Some((200, popped)) = taken else {
                step();
                continue;
            };
            let messages = popped["messages"].as_array().cloned().unwrap_or_default();
            let acks: Vec<Value> = messages
                .iter()
                .map(|message| {
                    json!({
                        "transactionId": message["transactionId"],
                        "partitionId": message["partitionId"],
                        "leaseId": message["leaseId"],
                    })
                })
                .collect();
            let body = json!({"acknowledgments": acks, "consumerGroup": "workers"});
            let answer = self.ask(&mut connection, ("POST", "/api/v1/ack/batch", Some(&body)));
            if let Some((200, outcomes)) = answer {
                let outcomes = outcomes.as_array().cloned().unwrap_or_default();
                let done = outcomes.iter().filter(|one| one["success"] == true);
                let ids = done.map(|one| one["transactionId"].as_str().expect("text").to_owned());
                self.acked.lock().unwrap().extend(ids);
            }
        }
    }
}

/// Everything that a group still gets, in the order of its delivery, by partition.
fn drain(broker: &Broker, group: &str) -> BTreeMap<String, Vec<String>> {
    let mut delivered: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut client = broker.plain_client();
    let target = format!(
        "/api/v1/pop/queue/{QUEUE}?consumerGroup={group}&subscriptionMode=all&batch=1000&partitions=8&autoAck=true"
    );
    loop {
        let answer = client.get(&target);
        if answer.status == 204 {
            return delivered;
        }
        let popped = answer.expect(200);
        for message in popped["messages"].as_array().expect("messages") {
            let partition = message["partition"].as_str().expect("text").to_owned();
            let id = message["transactionId"].as_str().expect("text").to_owned();
            delivered.entry(partition).or_default().push(id);
        }
    }
}

/// Kills the broker, or all processes of its database, or both.
fn kill(round: u64, broker: Broker, database: &Database) -> Broker {
    match round % 3 {
        0 => {
            broker.kill();
            broker.start_again()
        }
        1 => {
            database.server().kill_all();
            database.server().start_again();
            broker
        }
        _ => {
            database.server().kill_all();
            broker.kill();
            database.server().start_again();
            broker.start_again()
        }
    }
}

#[test]
fn answered_pushes_are_there_once_and_answered_acks_hold_however_often_something_is_killed() {
    let kills = match std::env::var("QUEEN_TEST_KILLS") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => KILLS,
    };
    let (database, home) = (Server::start().database(), Home::empty());
    let plan = Plan::any().set("QUEEN_DURABLE", "on");
    let plan = plan.set("DATABASE_URL", database.url());
    let mut broker = plan.set("QUEEN_DATA_DIR", home.data().display()).start();
    wait_until_stored(&broker);
    let told = Told::default();
    *told.address.lock().unwrap() = Some(broker.address());
    let broker = thread::scope(|scope| {
        (0..PUSHERS).for_each(|number| {
            let told = &told;
            scope.spawn(move || told.push_until_the_end(number));
        });
        (0..WORKERS).for_each(|_| {
            scope.spawn(|| told.work_until_the_end());
        });
        for round in 0..kills {
            let before = told.answers.load(Ordering::SeqCst);
            // A prime apart, so that the kills do not fall into step with anything.
            let enough = before + ANSWERED_MIN + (round * 7) % 31;
            eventually_within(PATIENCE, "requests are answered", || {
                told.answers.load(Ordering::SeqCst) >= enough
            });
            broker = kill(round, broker, &database);
        }
        told.end.store(true, Ordering::SeqCst);
        broker
    });
    wait_until_stored(&broker);
    let pushed = told.pushed.lock().unwrap().clone();
    let delivered = drain(&broker, "audit");
    for (partition, count) in &pushed {
        let expected: Vec<String> = (0..*count).map(|n| format!("{partition}-{n}")).collect();
        let mut got = delivered[partition].clone();
        // The last push may have been stored without an answer.
        got.truncate(expected.len().max(got.len().saturating_sub(1)));
        assert_eq!(got, expected, "{partition}");
    }
    // What was leased is free again after two seconds.
    let acked = told.acked.lock().unwrap().clone();
    assert!(!acked.is_empty() && pushed.values().all(|count| *count > 0));
    let mut left: Vec<String> = Vec::new();
    eventually_within(PATIENCE, "the workers' leases end", || {
        left.extend(drain(&broker, "workers").into_values().flatten());
        let all: u64 = delivered.values().map(|ids| ids.len() as u64).sum();
        let lag = broker.plain_client().get("/api/v1/consumer-groups").json();
        let own = lag.as_array().into_iter().flatten();
        let own = own.filter(|row| row["name"] == "workers");
        all > 0
            && own
                .map(|row| row["totalLag"].as_u64().unwrap_or(0))
                .sum::<u64>()
                == 0
    });
    for id in &acked {
        assert!(!left.contains(id), "{id} was acked and came again");
    }
}
