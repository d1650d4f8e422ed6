//! Request and reply through the published Rust client.

use std::time::Duration;

use queen_mq::Ephemeral;
use serde_json::json;

use crate::support::queue::metrics_sample;
use crate::support::{Plan, Setup, unique};
use crate::{brokers, ephemeral};

const REQUESTS: usize = 200;

async fn respond(queen: Ephemeral, requests: String, count: usize) {
    let mut answered = 0;
    while answered < count {
        let batch = queen
            .pop(&requests)
            .group("responders")
            .batch(50)
            .wait(true)
            .poll_timeout(Duration::from_secs(10))
            .send()
            .await
            .expect("popped");
        for message in &batch.messages {
            let inbox = message.payload["replyTo"].as_str().expect("an inbox");
            let reply = json!({"square": message.payload["n"].as_u64().expect("n").pow(2)});
            queen.push(inbox, reply).send().await.expect("replied");
        }
        queen.ack(&batch).await.expect("acked");
        answered += batch.len();
    }
}

async fn ask(queen: Ephemeral, requests: String, number: usize) {
    let inbox = unique("rust-inbox");
    let request = json!({"replyTo": inbox, "n": number});
    queen.push(&requests, request).send().await.expect("asked");
    let batch = queen
        .pop(&inbox)
        .wait(true)
        .commit_on_delivery(true)
        .poll_timeout(Duration::from_secs(20))
        .send()
        .await
        .expect("a reply");
    assert_eq!(batch.len(), 1, "request {number}");
    assert_eq!(batch.messages[0].payload["square"], number * number);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requesters_each_get_their_own_reply() {
    for broker in brokers() {
        let queen = ephemeral(&broker);
        let requests = unique("rust-requests");
        let responder = tokio::spawn(respond(queen.clone(), requests.clone(), REQUESTS));
        let requesters: Vec<_> = (0..REQUESTS)
            .map(|number| tokio::spawn(ask(queen.clone(), requests.clone(), number)))
            .collect();
        for requester in requesters {
            requester.await.expect("a reply");
        }
        responder.await.expect("the responder ends");
    }
}

/// Connections are opened until the broker's counters show that every core serves some.
#[tokio::test]
async fn clients_of_every_core_share_a_queue() {
    for &setup in Setup::all() {
        let broker = Plan::new(setup).start();
        let served = || {
            let text = broker.metrics();
            let of = |core| {
                metrics_sample(
                    &text,
                    &format!("queen_core_requests_total{{core=\"{core}\"}}"),
                )
            };
            (0..setup.shards).map(of).fold(f64::INFINITY, f64::min)
        };
        let before = served();
        let mut opened = 0;
        while served() < before + 20.0 {
            assert!(
                opened < 1_000,
                "the kernel leaves a core without connections"
            );
            opened += 1;
            // A client has connections of its own.
            let (pusher, popper) = (ephemeral(&broker), ephemeral(&broker));
            let parked = tokio::spawn(async move {
                let pop = popper.pop("shared").group("g").wait(true);
                let batch = pop.send().await.expect("popped");
                popper.ack(&batch).await.expect("acked");
                batch.messages[0].payload.clone()
            });
            let push = pusher.push("shared", opened);
            push.partition(format!("p{}", opened % 5))
                .send()
                .await
                .expect("pushed");
            assert_eq!(parked.await.expect("a message"), opened);
        }
        let crossed = broker.sample("queen_core_hops_total{core=\"0\"}") > 0.0;
        assert_eq!(crossed, setup.shards > 1);
    }
}
