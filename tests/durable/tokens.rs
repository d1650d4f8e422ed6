//! Callers who are asked for a token: what they push names them.

use serde_json::{Value, json};

use crate::rig::wait_until_stored;
use crate::support::home::Home;
use crate::support::token::{SECRET, bearer};
use crate::support::{Broker, Client, Plan, Server, unique};

fn client_of(broker: &Broker, role: &str, subject: &str) -> Client {
    let token = bearer(role, subject);
    broker.plain_client().with_field("authorization", &token)
}

#[test]
fn what_is_pushed_names_the_subject_of_the_token_and_roles_are_asked_for() {
    let (database, home) = (Server::start().database(), Home::empty());
    let plan = Plan::any()
        .set("QUEEN_DURABLE", "on")
        .set("DATABASE_URL", database.url())
        .set("QUEEN_DATA_DIR", home.data().display())
        .set("JWT_ENABLED", "on")
        .set("JWT_SECRET", SECRET);
    let broker = plan.start();
    wait_until_stored(&broker);
    let queue = unique("signed");
    let item = json!({"queue": queue, "payload": 1, "producerSub": "forged"});
    let push = json!({"items": [item]});
    let mut alice = client_of(&broker, "write-only", "alice \"a\"");
    alice.post("/api/v1/push", &push).expect(201);
    let step = json!({"operations": [{"type": "push", "items": [item]}]});
    alice
        .post("/api/v1/transaction", &step)
        .assert_refused(403, "forbidden");
    let mut bob = client_of(&broker, "read-write", "bob");
    bob.post("/api/v1/transaction", &step).expect(200);
    let pop = format!("/api/v1/pop/queue/{queue}?batch=10&subscriptionMode=all");
    alice.get(&pop).assert_refused(403, "forbidden");
    let popped = bob.get(&pop).expect(200);
    let messages = popped["messages"].as_array().expect("messages");
    let producers: Vec<&Value> = messages
        .iter()
        .map(|message| &message["producerSub"])
        .collect();
    assert_eq!(producers, ["alice \"a\"", "bob"]);
    let delete = format!("/api/v1/resources/queues/{queue}");
    bob.delete(&delete).assert_refused(403, "forbidden");
    client_of(&broker, "admin", "root")
        .delete(&delete)
        .expect(200);
}
