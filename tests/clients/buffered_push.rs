//! The client's buffer against a full queue: it blocks its producer, keeps the refused batch in
//! front and drains in order as room comes, as its documentation says.

use std::time::Duration;

use queen_mq::{BufferOptions, EphemeralOptions, EphemeralPolicy, Queen};
use serde_json::{Value, json};

use crate::support::{Broker, unique};
use crate::{brokers, connect};

const MESSAGES: u64 = 120;
const ROOM: i64 = 20;

async fn produce(queen: Queen, queue: String) {
    let options = BufferOptions {
        message_count: 10,
        time: Duration::from_millis(20),
        max_size: 40,
        ..BufferOptions::default()
    };
    for number in 0..MESSAGES {
        let answer = queen
            .ephemeral()
            .push(&queue, number)
            .buffered(options)
            .send()
            .await
            .expect("buffered");
        assert!(answer.buffered);
    }
}

async fn wait_until_full(broker: &Broker, queue: &str) {
    let queen = connect(broker).ephemeral();
    let full = async {
        loop {
            // A queue that does not exist yet is not full.
            if queen
                .depth(queue)
                .await
                .is_ok_and(|depth| depth["pending"] == ROOM)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), full)
        .await
        .expect("the queue fills up");
}

async fn drain(broker: &Broker, queue: &str) -> Vec<Value> {
    let queen = connect(broker).ephemeral();
    let mut got = Vec::new();
    while got.len() < MESSAGES as usize {
        let batch = queen
            .pop(queue)
            .batch(10)
            .wait(true)
            .commit_on_delivery(true)
            .poll_timeout(Duration::from_secs(15))
            .send()
            .await
            .expect("popped");
        assert!(!batch.is_empty(), "only {} messages came", got.len());
        got.extend(batch.messages.into_iter().map(|message| message.payload));
    }
    got
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffered_push_drains_against_a_full_queue() {
    for broker in brokers() {
        let queue = unique("rust-buffered");
        let queen = connect(&broker);
        let options = EphemeralOptions {
            max_length: Some(ROOM),
            policy: Some(EphemeralPolicy::Reject),
            ..EphemeralOptions::default()
        };
        let declared = queen.ephemeral().configure(&queue, options).await;
        declared.expect("configured");
        let producer = tokio::spawn(produce(queen.clone(), queue.clone()));
        wait_until_full(&broker, &queue).await;
        assert!(!producer.is_finished(), "the producer is held back");
        assert!(queen.buffer_stats().total_buffered_messages > 0);
        let got = drain(&broker, &queue).await;
        producer.await.expect("everything was buffered");
        queen.close().await.expect("everything was sent");
        let expected: Vec<Value> = (0..MESSAGES).map(|number| json!(number)).collect();
        assert_eq!(got, expected, "in order, nothing twice");
    }
}

#[tokio::test]
async fn closing_sends_what_is_buffered() {
    for broker in brokers() {
        let queue = unique("rust-close");
        let queen = connect(&broker);
        let options = BufferOptions {
            message_count: 1_000,
            time: Duration::from_secs(60),
            ..BufferOptions::default()
        };
        let push = queen.ephemeral().push_many(&queue, 0..7).buffered(options);
        push.send().await.expect("buffered");
        queen.close().await.expect("everything was sent");
        let batch = connect(&broker)
            .ephemeral()
            .pop(&queue)
            .batch(10)
            .send()
            .await;
        assert_eq!(batch.expect("popped").len(), 7);
    }
}
