//! One broker on one database for all tests that do not disturb it, and a queue for each of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use crate::support::{
    Answer, Broker, Client, Database, Plan, Server, encode, eventually_within, unique,
};

/// How long a test waits for what happens within a second or two on a machine with nothing else to do.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits until the broker says that it has its database.
#[track_caller]
pub(crate) fn wait_until_connected(broker: &Broker) {
    eventually_within(PATIENCE, "the broker has its database", || {
        let health = broker.plain_client().get("/health").json();
        health["status"] == "healthy" && health["database"] == "connected"
    });
}

/// Waits until the broker says that its database is away.
#[track_caller]
pub(crate) fn wait_until_away(broker: &Broker) {
    eventually_within(
        PATIENCE,
        "the broker notices that its database is away",
        || broker.plain_client().get("/health").json()["database"] == "away",
    );
}

/// Waits until the broker is healthy and all that it has accepted is in the database.
#[track_caller]
pub(crate) fn wait_until_stored(broker: &Broker) {
    eventually_within(PATIENCE, "everything is stored", || {
        let health = broker.plain_client().get("/health").json();
        health["status"] == "healthy" && health.get("buffered").is_none()
    });
}

/// A broker on a database.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) broker: Broker,
    _database: Database,
}

impl Rig {
    fn start() -> Rig {
        let database = Server::start().database();
        let plan = Plan::any().set("QUEEN_DURABLE", "on");
        let plan = plan.set("RETENTION_INTERVAL", 200);
        let broker = plan.set("DATABASE_URL", database.url()).start();
        wait_until_connected(&broker);
        Rig {
            broker,
            _database: database,
        }
    }

    /// That of all tests that run at the same time.
    pub(crate) fn shared() -> Arc<Rig> {
        static KEPT: Mutex<Weak<Rig>> = Mutex::new(Weak::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rig) = kept.upgrade() {
            return rig;
        }
        let rig = Arc::new(Rig::start());
        *kept = Arc::downgrade(&rig);
        rig
    }
}

/// A queue of a test's own.
#[derive(Debug)]
pub(crate) struct Queue {
    rig: Arc<Rig>,
    pub(crate) name: String,
}

impl Queue {
    /// One that is configured with these options.
    #[track_caller]
    pub(crate) fn configured(options: Value) -> Queue {
        let queue = Queue {
            rig: Rig::shared(),
            name: unique("durable"),
        };
        let body = json!({"queue": queue.name, "options": options});
        queue.post("configure", &body).expect(200);
        queue
    }

    pub(crate) fn client(&self) -> Client {
        self.rig.broker.plain_client()
    }

    /// Sends a body to a path below `/api/v1/`.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.client().post(&format!("/api/v1/{path}"), body)
    }

    #[track_caller]
    pub(crate) fn post_raw(&self, path: &str, body: &str) -> Answer {
        self.client()
            .post_raw(&format!("/api/v1/{path}"), body.as_bytes())
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.client().get(&format!("/api/v1/{path}"))
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.client().delete(&format!("/api/v1/{path}"))
    }

    /// Pushes numbers to a partition; their transaction ids are those numbers.
    #[track_caller]
    pub(crate) fn push(&self, partition: &str, numbers: &[u64]) {
        let item = |number: &u64| {
            json!({
                "queue": self.name, "partition": partition, "payload": number,
                "transactionId": number.to_string(),
            })
        };
        let items: Vec<Value> = numbers.iter().map(item).collect();
        self.post("push", &json!({"items": items})).expect(201);
    }

    /// What a group gets.
    #[track_caller]
    pub(crate) fn pop(&self, group: &str, query: &str) -> Vec<Value> {
        let (queue, group) = (encode(&self.name), encode(group));
        let path = format!(
            "pop/queue/{queue}?consumerGroup={group}&subscriptionMode=all&partitions=10&{query}"
        );
        let answer = self.get(&path);
        if answer.status == 204 {
            return Vec::new();
        }
        answer.expect(200)["messages"]
            .as_array()
            .expect("messages")
            .clone()
    }

    /// The payloads of what a group gets at most.
    #[track_caller]
    pub(crate) fn pop_numbers(&self, group: &str) -> Vec<u64> {
        let messages = self.pop(group, "batch=100");
        let mut numbers: Vec<u64> = messages
            .iter()
            .map(|message| message["data"].as_u64().expect("a number"))
            .collect();
        numbers.sort_unstable();
        numbers
    }

    #[track_caller]
    pub(crate) fn ack(&self, group: &str, messages: &[Value], status: &str) {
        let ack = |message: &Value| {
            json!({
                "transactionId": message["transactionId"], "partitionId": message["partitionId"],
                "leaseId": message["leaseId"], "status": status, "error": "it failed",
            })
        };
        let acks: Vec<Value> = messages.iter().map(ack).collect();
        let body = json!({"acknowledgments": acks, "consumerGroup": group});
        for outcome in self
            .post("ack/batch", &body)
            .expect(200)
            .as_array()
            .expect("outcomes")
        {
            assert_eq!(outcome["success"], true, "{outcome}");
        }
    }

    /// Has a group settle everything.
    #[track_caller]
    pub(crate) fn settle_all(&self, group: &str) -> usize {
        let messages = self.pop(group, "batch=100");
        self.ack(group, &messages, "completed");
        messages.len()
    }

    /// Has a group give up everything that is there, one by one.
    #[track_caller]
    pub(crate) fn give_up_all(&self, group: &str) -> Vec<Value> {
        let mut given_up = Vec::new();
        loop {
            let messages = self.pop(group, "batch=1");
            let Some(message) = messages.first() else {
                return given_up;
            };
            self.ack(group, &messages[..1], "dlq");
            given_up.push(message.clone());
        }
    }

    /// The path of a group in this queue.
    pub(crate) fn group_path(&self, group: &str) -> String {
        format!(
            "consumer-groups/{}/queues/{}",
            encode(group),
            encode(&self.name)
        )
    }
}

/// The path of a message, below `messages/` or `traces/`.
pub(crate) fn address(message: &Value) -> String {
    let text = |key: &str| message[key].as_str().expect("a text");
    format!("{}/{}", text("partitionId"), encode(text("transactionId")))
}
