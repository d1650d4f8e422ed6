//! What the class is meant for: a requester mints an inbox, names it in the request and waits there.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::queue::payloads;
use crate::support::{Broker, Message, Plan, Queue, Setup, encode, eventually_within};

const INBOXES: usize = 2_000;

/// One socket per waiting inbox on this side.
fn allow_many_sockets() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(8_192, |maximum| maximum.min(8_192));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).expect("the limit of open files can be raised");
    }
}

fn respond(broker: &Broker, requests: &Queue, count: usize) {
    let mut client = broker.client();
    let mut answered = 0;
    while answered < count {
        let got = requests.pop("batch=100&autoAck=true&wait=true&timeout=5000&group=responders");
        assert!(!got.is_empty(), "only {answered} of {count} requests came");
        for request in got {
            let body = json!({
                "queue": request.payload["replyTo"],
                "messages": [{"payload": {"sum": request.payload["n"].as_u64().unwrap() + 1}}],
            });
            client.post("/api/v1/ephemeral/push", &body).expect(201);
            answered += 1;
        }
    }
}

#[test]
fn thousands_of_inboxes_at_once_are_served_and_then_collected() {
    allow_many_sockets();
    for &setup in Setup::all() {
        let broker = Plan::new(setup)
            .set("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", 1)
            .start();
        let requests = broker.queue("requests");
        requests.configure(json!({}));
        let mut sender = broker.client();
        let mut waiting = Vec::new();
        for number in 0..INBOXES {
            let inbox = format!("inbox/{number}");
            let mut client = broker.client();
            let target = format!(
                "/api/v1/ephemeral/pop?queue={}&wait=true&timeout=30000&autoAck=true",
                encode(&inbox)
            );
            client.send("GET", &target, None);
            let body = json!({
                "queue": requests.name,
                "messages": [{"payload": {"replyTo": inbox, "n": number}}],
            });
            sender.post("/api/v1/ephemeral/push", &body).expect(201);
            waiting.push(client);
        }
        respond(&broker, &requests, INBOXES);
        for (number, client) in waiting.iter_mut().enumerate() {
            let got = Message::all(&client.read());
            assert_eq!(payloads(&got), [json!({"sum": number + 1})]);
        }
        let list = "/api/v1/ephemeral/queues?prefix=inbox%2F";
        eventually_within(Duration::from_secs(20), "the inboxes are collected", || {
            sender.get(list).expect(200)["count"] == 0
        });
        assert_eq!(broker.sample("queen_ephemeral_queues"), 1.0);
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 0.0);
    }
}

#[test]
fn a_reply_that_comes_before_the_requester_waits_is_not_lost() {
    for &setup in Setup::all() {
        let broker = crate::support::shared(Plan::new(setup));
        let inbox = broker.queue("early-reply");
        inbox.push(&[json!("early")]);
        let got: Vec<Value> = inbox.pop_payloads("wait=true&timeout=5000&autoAck=true");
        assert_eq!(got, [json!("early")]);
    }
}
