//! The verbs of the ephemeral class on one queue, with the answers that a test takes for granted
//! asserted.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use queen::model::{DEFAULT_PARTITION, TenantId};
use queen::placement;
use serde_json::{Value, json};

use super::client::{Answer, Client, encode};
use super::cores::Cores;
use super::parked::Parked;

/// A name that no other test of this run uses.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}.{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One delivered message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) partition: String,
    pub(crate) attempts: u64,
    pub(crate) payload: Value,
}

impl Message {
    /// The messages of a pop's answer.
    #[track_caller]
    pub(crate) fn all(answer: &Answer) -> Vec<Message> {
        let body = answer.expect(200);
        let rows = body["messages"].as_array().expect("messages");
        rows.iter()
            .map(|row| Message {
                id: row["id"].as_str().expect("an id").to_owned(),
                partition: row["partition"].as_str().expect("a partition").to_owned(),
                attempts: row["attempts"].as_u64().expect("attempts"),
                payload: row.get("payload").expect("a payload").clone(),
            })
            .collect()
    }
}

/// The payloads of some messages, in order.
pub(crate) fn payloads(messages: &[Message]) -> Vec<Value> {
    messages
        .iter()
        .map(|message| message.payload.clone())
        .collect()
}

/// The integers `range` as payloads.
pub(crate) fn numbers(range: std::ops::Range<u64>) -> Vec<Value> {
    range.map(|number| json!(number)).collect()
}

/// The value of one sample in the text of `/metrics/prometheus`, by its exact name and labels.
#[track_caller]
pub(crate) fn metrics_sample(text: &str, name: &str) -> f64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("no sample {name} in\n{text}"))
        .parse()
        .expect("a number")
}

/// A queue and connections to ask about it, one to each core.
#[derive(Debug)]
pub(crate) struct Queue {
    cores: Arc<Cores>,
    /// By core; opened when it is first needed.
    clients: RefCell<Vec<Option<Client>>>,
    requests: Cell<usize>,
    /// The core that owns the queue's default partition.
    home: usize,
    /// A field that every request has.
    field: Option<(String, String)>,
    pub(crate) name: String,
}

impl Queue {
    pub(crate) fn new(cores: Arc<Cores>, name: &str) -> Queue {
        let shards = cores.count() as u16;
        let home = placement::owner(TenantId::DEFAULT, name, DEFAULT_PARTITION, shards);
        Queue {
            clients: RefCell::new((0..shards).map(|_| None).collect()),
            cores,
            requests: Cell::new(0),
            home: usize::from(home),
            field: None,
            name: name.to_owned(),
        }
    }

    /// From now on every request has this field.
    pub(crate) fn with_field(mut self, name: &str, value: &str) -> Queue {
        self.field = Some((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends each request to another core than the one before, in turn, beginning with one that
    /// does not own the default partition: most requests cross cores.
    #[track_caller]
    fn request(&self, method: &str, target: &str, body: Option<&[u8]>) -> Answer {
        let count = self.cores.count();
        let number = self.requests.replace(self.requests.get() + 1);
        let core = (self.home + 1 + number % (count + 1)) % count;
        let client = self.clients.borrow_mut()[core].take();
        let mut client = client.unwrap_or_else(|| {
            let client = self.cores.take(core);
            match &self.field {
                Some((name, value)) => client.with_field(name, value),
                None => client,
            }
        });
        let answer = client.request(method, target, body);
        self.clients.borrow_mut()[core] = Some(client);
        answer
    }

    /// A request on a connection of the queue's own.
    #[track_caller]
    pub(crate) fn post(&self, target: &str, body: &Value) -> Answer {
        self.request("POST", target, Some(body.to_string().as_bytes()))
    }

    /// A request on a connection of the queue's own.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.request("GET", target, None)
    }

    /// A request on a connection of the queue's own, its body as bytes.
    #[track_caller]
    pub(crate) fn post_raw(&self, target: &str, body: &[u8]) -> Answer {
        self.request("POST", target, Some(body))
    }

    /// Declares it; the answer's body.
    #[track_caller]
    pub(crate) fn configure(&self, options: Value) -> Value {
        self.try_configure(options).expect(201)
    }

    #[track_caller]
    pub(crate) fn try_configure(&self, options: Value) -> Answer {
        let body = json!({"queue": self.name, "options": options});
        self.post("/api/v1/ephemeral/configure", &body)
    }

    /// Pushes to the default partition.
    #[track_caller]
    pub(crate) fn push(&self, payloads: &[Value]) {
        self.expect_pushed(&self.try_push(None, payloads), payloads.len());
    }

    /// Pushes to a partition.
    #[track_caller]
    pub(crate) fn push_to(&self, partition: &str, payloads: &[Value]) {
        self.expect_pushed(&self.try_push(Some(partition), payloads), payloads.len());
    }

    #[track_caller]
    fn expect_pushed(&self, answer: &Answer, count: usize) {
        assert_eq!(answer.expect(201)["pushed"], count);
    }

    #[track_caller]
    pub(crate) fn try_push(&self, partition: Option<&str>, payloads: &[Value]) -> Answer {
        let messages: Vec<Value> = payloads.iter().map(|one| json!({"payload": one})).collect();
        let mut body = json!({"queue": self.name, "messages": messages});
        if let Some(partition) = partition {
            body["partition"] = json!(partition);
        }
        self.post("/api/v1/ephemeral/push", &body)
    }

    /// The target of a pop; `query` is what follows the queue's name, already encoded.
    pub(crate) fn pop_target(&self, query: &str) -> String {
        let separator = if query.is_empty() { "" } else { "&" };
        format!(
            "/api/v1/ephemeral/pop?queue={}{separator}{query}",
            encode(&self.name)
        )
    }

    /// Pops; `query` is what follows the queue's name, already encoded.
    #[track_caller]
    pub(crate) fn pop(&self, query: &str) -> Vec<Message> {
        Message::all(&self.get(&self.pop_target(query)))
    }

    /// The payloads of a pop.
    #[track_caller]
    pub(crate) fn pop_payloads(&self, query: &str) -> Vec<Value> {
        payloads(&self.pop(query))
    }

    /// Pops exactly one message.
    #[track_caller]
    pub(crate) fn pop_one(&self, query: &str) -> Message {
        let mut messages = self.pop(query);
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    /// Parks a pop on a connection of its own; returns once the broker has it parked.
    #[track_caller]
    pub(crate) fn park(&self, client: Client, query: &str) -> Parked {
        Parked::start(self, client, query)
    }

    /// Sends verdicts; the outcomes.
    #[track_caller]
    pub(crate) fn settle(&self, group: Option<&str>, verdicts: &[(&str, &str)]) -> Vec<String> {
        let acks: Vec<Value> = verdicts
            .iter()
            .map(|(id, status)| json!({"id": id, "status": status}))
            .collect();
        let mut body = json!({"queue": self.name, "acks": acks});
        if let Some(group) = group {
            body["group"] = json!(group);
        }
        let body = self.post("/api/v1/ephemeral/ack", &body).expect(200);
        let results = body["results"].as_array().expect("results");
        assert_eq!(results.len(), verdicts.len(), "{body}");
        for (result, (id, _)) in results.iter().zip(verdicts) {
            assert_eq!(result["id"], *id, "{body}");
        }
        results
            .iter()
            .map(|result| result["outcome"].as_str().expect("an outcome").to_owned())
            .collect()
    }

    /// One verdict; its outcome.
    #[track_caller]
    pub(crate) fn settle_one(&self, group: Option<&str>, id: &str, status: &str) -> String {
        self.settle(group, &[(id, status)]).remove(0)
    }

    /// Completes messages, all of which must have been leased.
    #[track_caller]
    pub(crate) fn ack(&self, group: Option<&str>, messages: &[Message]) {
        let verdicts: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| (message.id.as_str(), "completed"))
            .collect();
        let outcomes = self.settle(group, &verdicts);
        assert!(
            outcomes.iter().all(|outcome| outcome == "acked"),
            "{outcomes:?}"
        );
    }

    #[track_caller]
    pub(crate) fn reset(&self) -> u64 {
        let body = self.post("/api/v1/ephemeral/reset", &json!({"queue": self.name}));
        let body = body.expect(200);
        assert_eq!(body["queue"], self.name);
        body["dropped"].as_u64().expect("a count")
    }

    /// Deletes it; `(deleted, declared)`.
    #[track_caller]
    pub(crate) fn delete(&self) -> (bool, bool) {
        let body = self.try_delete().expect(200);
        assert_eq!(body["queue"], self.name);
        let flag = |key: &str| body[key].as_bool().expect("a flag");
        (flag("deleted"), flag("declared"))
    }

    #[track_caller]
    pub(crate) fn try_delete(&self) -> Answer {
        let target = format!("/api/v1/ephemeral/queue/{}", encode(&self.name));
        self.request("DELETE", &target, None)
    }

    #[track_caller]
    pub(crate) fn try_depth(&self, query: &str) -> Answer {
        let name = encode(&self.name);
        self.get(&format!("/api/v1/ephemeral/queues/{name}/depth{query}"))
    }

    /// The depth of all groups.
    #[track_caller]
    pub(crate) fn depth(&self) -> Value {
        self.try_depth("").expect(200)
    }

    /// The depth as one group sees it.
    #[track_caller]
    pub(crate) fn depth_of(&self, group: &str) -> Value {
        self.try_depth(&format!("?group={}", encode(group)))
            .expect(200)
    }

    /// The row of one group in the depth.
    #[track_caller]
    pub(crate) fn group(&self, group: &str) -> Value {
        let depth = self.depth();
        let rows = depth["groups"].as_array().expect("groups");
        rows.iter()
            .find(|row| row["group"] == group)
            .unwrap_or_else(|| panic!("no group {group} in {depth}"))
            .clone()
    }

    /// Pops parked on it now; 0 when it does not exist.
    #[track_caller]
    pub(crate) fn waiting(&self) -> u64 {
        let answer = self.try_depth("");
        if answer.status == 404 {
            return 0;
        }
        answer.expect(200)["waiting"].as_u64().expect("a count")
    }

    /// Its row in the list.
    #[track_caller]
    pub(crate) fn row(&self) -> Option<Value> {
        let target = format!("/api/v1/ephemeral/queues?prefix={}", encode(&self.name));
        let body = self.get(&target).expect(200);
        let rows = body["queues"].as_array().expect("queues");
        rows.iter().find(|row| row["queue"] == self.name).cloned()
    }

    /// Messages held, bytes held.
    #[track_caller]
    pub(crate) fn held(&self) -> (u64, u64) {
        let row = self.row().expect("the queue exists");
        let number = |key: &str| row[key].as_u64().expect("a number");
        (number("depth"), number("bytes"))
    }

    /// A drop counter: `bounds`, `ttl` or `retry`.
    #[track_caller]
    pub(crate) fn drops(&self, cause: &str) -> u64 {
        let row = self.row().expect("the queue exists");
        row["drops"][cause].as_u64().expect("a counter")
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // A request that failed may have left something of its answer behind.
        if self.field.is_none() && !std::thread::panicking() {
            for (core, client) in self.clients.get_mut().drain(..).enumerate() {
                if let Some(client) = client {
                    self.cores.put(core, client);
                }
            }
        }
    }
}
