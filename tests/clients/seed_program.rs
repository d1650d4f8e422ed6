//! The program that the class was described with, through the published Rust client.

use std::time::Duration;

use queen_mq::{Ephemeral, EphemeralBatch, EphemeralOptions, EphemeralOutcome, EphemeralPolicy};
use queen_mq::{EphemeralStatus, EphemeralWindowBuffer};
use serde_json::{Value, json};

use crate::support::unique;
use crate::{brokers, ephemeral};

fn payloads(batch: &EphemeralBatch) -> Vec<Value> {
    let payload = |message: &queen_mq::EphemeralDelivered| message.payload.clone();
    batch.messages.iter().map(payload).collect()
}

async fn declare(queen: &Ephemeral, queue: &str) {
    let options = EphemeralOptions {
        max_length: Some(1_000),
        max_bytes: Some(1_048_576),
        policy: Some(EphemeralPolicy::DropOldest),
        ttl_seconds: Some(60),
        lease_seconds: Some(10),
        retry_limit: Some(3),
        window_buffer: None,
    };
    let answer = queen.configure(queue, options).await.expect("configured");
    assert_eq!(answer["queue"], queue);
    assert_eq!(answer["options"]["policy"], "dropOldest");
    assert_eq!(answer["declared"], true);
    assert_eq!(answer["durable"], false);
}

async fn read_back(queen: &Ephemeral, queue: &str) {
    let list = queen.queues().await.expect("listed");
    let rows = list["queues"].as_array().expect("queues");
    let row = rows
        .iter()
        .find(|row| row["queue"] == queue)
        .expect("a row");
    assert_eq!(
        (&row["depth"], &row["tier"]),
        (&json!(2), &json!("declared"))
    );
    let depth = queen.depth(queue).await.expect("a depth");
    assert_eq!(depth["pending"], 2);
}

#[tokio::test]
async fn the_whole_program_works() {
    for broker in brokers() {
        let queen = ephemeral(&broker);
        let queue = &unique("rust/presence \u{1f600}");
        let sent = vec![json!({"user": "a"}), json!({"user": "b", "n": null})];
        declare(&queen, queue).await;
        let pushed = queen
            .push_many(queue, sent.clone())
            .partition("room-7")
            .send()
            .await
            .expect("pushed");
        assert_eq!(pushed.pushed, 2);
        read_back(&queen, queue).await;

        let pop = |group: &str| {
            queen
                .pop(queue)
                .partition("room-7")
                .group(group)
                .batch(10)
                .wait(true)
                .poll_timeout(Duration::from_secs(2))
        };
        for group in ["widget", "audit"] {
            let batch = pop(group).send().await.expect("popped");
            assert_eq!(payloads(&batch), sent, "group {group}");
            let results = queen.ack(&batch).await.expect("acked");
            assert!(
                results
                    .iter()
                    .all(|one| one.outcome == EphemeralOutcome::Acked)
            );
        }
        queen.push(queue, 1).send().await.expect("pushed");
        assert_eq!(queen.reset(queue).await.expect("reset"), 1);
        let answer = queen.delete(queue).await.expect("deleted");
        assert!(answer.deleted && answer.declared);
        let missing = queen.depth(queue).await.expect_err("no such queue");
        assert!(
            queen_mq::ephemeral::is_queue_not_found(&missing),
            "{missing}"
        );
    }
}

#[tokio::test]
async fn nacks_come_back_and_foreign_ids_are_stale() {
    for broker in brokers() {
        let queen = ephemeral(&broker);
        let queue = &unique("rust-nack");
        queen.push(queue, "once more").send().await.expect("pushed");
        let first = queen.pop(queue).group("g").send().await.expect("popped");
        let results = queen.nack(&first, "not now").await.expect("nacked");
        assert_eq!(results[0].outcome, EphemeralOutcome::Redelivered);
        let second = queen.pop(queue).group("g").send().await.expect("popped");
        assert_eq!(second.messages[0].id, first.messages[0].id);
        assert_eq!(second.messages[0].attempts, 2);
        let entries = vec![
            queen_mq::EphemeralAck::new("e:1:Default:1"),
            queen_mq::EphemeralAck::new("nonsense").status(EphemeralStatus::Retry),
            queen_mq::EphemeralAck::new(second.messages[0].id.clone()),
        ];
        let results = queen
            .ack_ids(queue, entries)
            .group("g")
            .send()
            .await
            .expect("acked");
        let outcomes: Vec<EphemeralOutcome> = results.iter().map(|one| one.outcome).collect();
        let expected = [
            EphemeralOutcome::Stale,
            EphemeralOutcome::Unknown,
            EphemeralOutcome::Acked,
        ];
        assert_eq!(outcomes, expected);
    }
}

#[tokio::test]
async fn a_window_fattens_a_waiting_pop() {
    for broker in brokers() {
        let queen = ephemeral(&broker);
        let queue = &unique("rust-window");
        let options = EphemeralOptions {
            window_buffer: Some(EphemeralWindowBuffer { ms: 200, count: 0 }),
            ..EphemeralOptions::default()
        };
        queen.configure(queue, options).await.expect("configured");
        queen.push_many(queue, 0..5).send().await.expect("pushed");
        let batch = queen
            .pop(queue)
            .batch(100)
            .wait(true)
            .commit_on_delivery(true)
            .send()
            .await
            .expect("popped");
        assert_eq!(batch.len(), 5);
    }
}

#[tokio::test]
async fn an_empty_long_poll_ends_at_its_own_timeout() {
    for broker in brokers() {
        let queen = ephemeral(&broker);
        let batch = queen
            .pop(&unique("rust-empty"))
            .wait(true)
            .poll_timeout(Duration::from_millis(200))
            .send()
            .await
            .expect("an empty batch is no error");
        assert!(batch.is_empty());
    }
}
