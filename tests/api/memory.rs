//! Memory: resident bytes stay within a small multiple of the bytes that are counted.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Broker, Plan, Setup, eventually_within};

const MIB: u64 = 1024 * 1024;

fn roomy(setup: Setup) -> Broker {
    Plan::new(setup)
        .set("QUEEN_EPHEMERAL_MAX_BYTES", 64 * MIB)
        .set("QUEEN_EPHEMERAL_QUEUE_MAX_BYTES", 64 * MIB)
        .set("QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH", 10_000_000)
        .start()
}

/// How many bytes above `before` are resident.
fn grown(broker: &Broker, before: u64) -> u64 {
    broker.resident_bytes().saturating_sub(before)
}

#[test]
fn small_payloads_cost_a_small_multiple() {
    for &setup in Setup::all() {
        eprintln!("on {setup:?}");
        let broker = roomy(setup);
        let queue = broker.queue("small-payloads");
        let batch: Vec<Value> = (0..1_000).map(|_| json!("p".repeat(98))).collect();
        queue.push(&batch);
        queue.reset();
        let before = broker.resident_bytes();
        while queue.held().1 < 32 * MIB {
            for _ in 0..20 {
                queue.push(&batch);
            }
        }
        let counted = queue.held().1;
        let grown = grown(&broker, before);
        assert!(grown < 3 * counted, "{grown} bytes hold {counted}");
    }
}

#[test]
fn one_kept_message_does_not_keep_the_body_it_came_in() {
    for &setup in Setup::all() {
        eprintln!("on {setup:?}");
        let broker = roomy(setup);
        let queue = broker.queue("kept-bodies");
        let batch: Vec<Value> = (0..500).map(|_| json!("b".repeat(2_000))).collect();
        let before = broker.resident_bytes();
        for _ in 0..200 {
            queue.push(&batch);
            let taken = queue.pop("batch=500&group=g");
            queue.ack(Some("g"), &taken[1..]);
        }
        assert_eq!(queue.held().0, 200, "one of each push is held");
        // 200 MB went through; the linger cap is 4 MiB, buffers have their share, and so has the
        // allocator of every core.
        let bound = (40 + 8 * u64::from(setup.shards)) * MIB;
        eventually_within(Duration::from_secs(20), "the bodies are freed", || {
            grown(&broker, before) < bound
        });
    }
}

#[test]
fn memory_is_reused_when_messages_come_and_go() {
    for &setup in Setup::all() {
        eprintln!("on {setup:?}");
        let broker = roomy(setup);
        let queue = broker.queue("come-and-go");
        let batch: Vec<Value> = (0..1_000).map(|_| json!("c".repeat(998))).collect();
        let round = || {
            for _ in 0..16 {
                queue.push(&batch);
            }
            for _ in 0..16 {
                queue.pop("batch=1000&autoAck=true");
            }
        };
        round();
        round();
        let before = broker.resident_bytes();
        for _ in 0..8 {
            round();
        }
        let grown = grown(&broker, before);
        assert!(grown < 24 * MIB, "{grown} bytes more after 8 equal rounds");
    }
}

#[test]
fn a_large_body_is_taken_and_one_above_the_bound_is_refused_unread() {
    for &setup in Setup::all() {
        eprintln!("on {setup:?}");
        let broker = roomy(setup);
        let queue = broker.queue("large-body");
        let large = json!("L".repeat(48 * 1024 * 1024));
        queue.push(std::slice::from_ref(&large));
        let got = queue.pop_one("autoAck=true");
        assert!(got.payload == large, "the payload came back changed");

        let mut client = broker.client();
        let head = format!(
            "POST /api/v1/ephemeral/push HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            64 * MIB + 1
        );
        client.send_raw(head.as_bytes());
        assert_eq!(client.read().status, 413);
        assert!(client.is_closed());
    }
}
