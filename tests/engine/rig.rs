//! What the tests share: brokers on a database, and what they say of it.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::home::Home;
use crate::support::{Answer, Broker, Database, Plan, Queue, Server, eventually_within};

/// Within this time what needs the database is answered, whatever the database does.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long a test waits for what happens within a second or two on a machine with nothing else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A setting's name.
pub(crate) const DATABASE_URL: &str = "DATABASE_URL";

/// The default settings with durable declarations.
pub(crate) fn durable() -> Plan {
    Plan::any().set("QUEEN_DURABLE", "on")
}

/// A broker on a database.
pub(crate) fn plan_on(database: &Database) -> Plan {
    durable().set(DATABASE_URL, database.url())
}

/// A broker with a private cluster in this folder.
pub(crate) fn plan_in(home: &Home) -> Plan {
    durable().set("QUEEN_DATA_DIR", home.data().display())
}

/// What the tests that run at the same time share: the first makes it, the last removes it.
pub(crate) fn common<T>(kept: &Mutex<Weak<T>>, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
    let mut kept = kept.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(common) = kept.upgrade() {
        return common;
    }
    let made = make();
    *kept = Arc::downgrade(&made);
    made
}

/// A database on the server of all tests that do not disturb it.
pub(crate) fn database() -> Database {
    static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    common(&SERVER, Server::start).database()
}

/// A database on a server of its own, which may be disturbed.
pub(crate) fn database_alone() -> Database {
    Server::start().database()
}

/// The answer of `/health`.
#[track_caller]
pub(crate) fn health(broker: &Broker) -> Value {
    broker.plain_client().get("/health").expect(200)
}

/// Waits until the broker says that it has its database.
#[track_caller]
pub(crate) fn wait_until_connected(broker: &Broker) {
    let mut last = Value::Null;
    let look = || {
        last = health(broker);
        last["status"] == "healthy" && last["database"] == "connected"
    };
    if !within(PATIENCE, look) {
        panic!("not connected: {last}");
    }
}

/// Waits until the broker says that its database is not there or does not work, and why; the reason.
#[track_caller]
pub(crate) fn wait_until_degraded(broker: &Broker) -> String {
    let mut last = Value::Null;
    let look = || {
        last = health(broker);
        last["status"] == "degraded"
    };
    if !within(PATIENCE, look) {
        panic!("not degraded: {last}");
    }
    let reason = last["reason"].as_str().unwrap_or_default();
    assert!(!reason.is_empty(), "{last}");
    reason.to_owned()
}

/// The same for a database that cannot be reached at all.
#[track_caller]
pub(crate) fn wait_until_away(broker: &Broker) -> String {
    let reason = wait_until_degraded(broker);
    let mut last = Value::Null;
    let look = || {
        last = health(broker);
        last["database"] == "away"
    };
    assert!(within(PATIENCE, look), "not away: {last}");
    reason
}

fn within(limit: Duration, mut look: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if look() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        crate::support::poll::step();
    }
}

/// A request that is answered in time.
#[track_caller]
pub(crate) fn in_time<T>(what: &str, request: impl FnOnce() -> T) -> T {
    let sent = Instant::now();
    let answer = request();
    let elapsed = sent.elapsed();
    assert!(elapsed < ANSWER_LIMIT, "{what} took {elapsed:?}");
    answer
}

/// A `configure` that is answered in time.
#[track_caller]
pub(crate) fn configure(queue: &Queue, options: Value) -> Answer {
    in_time("configure", || queue.try_configure(options))
}

/// A `delete` that is answered in time.
#[track_caller]
pub(crate) fn delete(queue: &Queue) -> Answer {
    in_time("delete", || queue.try_delete())
}

/// Both are refused in time because the database is not there.
#[track_caller]
pub(crate) fn assert_unavailable(answer: &Answer) {
    answer.assert_refused(503, "ephemeral_unavailable");
}

/// Declares a queue as one that lasts.
#[track_caller]
pub(crate) fn declare(queue: &Queue, options: Value) {
    let body = queue.configure(options.clone());
    assert_eq!(body["declared"], true, "{body}");
    assert_eq!(body["durable"], true, "{body}");
    assert_eq!(body["options"], options, "{body}");
}

/// It is listed as declared, with this option in force.
pub(crate) fn has_option(queue: &Queue, option: &str, value: u64) -> bool {
    let declared = |row: &Value| row["tier"] == "declared" && row["options"][option] == value;
    queue.row().as_ref().is_some_and(declared)
}

/// Waits until it is listed as declared, with this option in force.
#[track_caller]
pub(crate) fn wait_for_option(queue: &Queue, option: &str, value: u64) {
    eventually_within(PATIENCE, "the declaration is in force", || {
        has_option(queue, option, value)
    });
}

/// Waits until it is not listed any more.
#[track_caller]
pub(crate) fn wait_until_unlisted(queue: &Queue) {
    eventually_within(PATIENCE, "the queue is gone", || queue.row().is_none());
}

/// Waits until a change is stored again, after whatever was the matter.
#[track_caller]
pub(crate) fn wait_until_stored(queue: &Queue, options: &Value) {
    eventually_within(PATIENCE, "the declaration is stored", || {
        let answer = configure(queue, options.clone());
        if answer.status != 201 {
            assert_unavailable(&answer);
            return false;
        }
        true
    });
}

/// Push, pop and ack of a queue work.
#[track_caller]
pub(crate) fn assert_serves(queue: &Queue) {
    queue.push(&[json!("served")]);
    let message = queue.pop_one("group=served");
    assert_eq!(message.payload, "served");
    queue.ack(Some("served"), &[message]);
}

/// Ends the sessions that the broker has now.
#[track_caller]
pub(crate) fn end_sessions(database: &Database) {
    end_sessions_by(&mut database.client(), database);
}

/// The same by a session that is there already.
#[track_caller]
pub(crate) fn end_sessions_by(client: &mut postgres::Client, database: &Database) {
    for pid in database.sessions() {
        let ends = "SELECT pg_terminate_backend($1)";
        client
            .query_one(ends, &[&pid.cast_signed()])
            .expect("an answer");
        eventually_within(PATIENCE, "the session ends", || {
            !database.sessions().contains(&pid)
        });
    }
}
