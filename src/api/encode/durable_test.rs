use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::api::{Echo, encode_reply};
use crate::model::Reply as AnyReply;
use crate::model::durable::{
    Claim, Piece, Popped, Record, SegmentWriter, StepOutcome, StepRefused, StepResult,
};

const STYLE: ResponseStyle = ResponseStyle {
    http_1_0: false,
    keep_alive: true,
    head_only: false,
};

const ID: Uuid = Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001);
const ID_TEXT: &str = "01920000-0000-7000-8000-000000000001";
const LEASE: Uuid = Uuid::from_u128(7);
const LEASE_TEXT: &str = "00000000-0000-0000-0000-000000000007";

fn raw(echo: &DurableEcho, reply: AnyReply) -> (u16, String, String) {
    let mut out = BytesMut::new();
    encode_reply(Echo::Durable(echo), &reply, STYLE, &mut out);
    let text = std::str::from_utf8(&out).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

fn answer_to(echo: &DurableEcho, reply: Reply) -> (u16, Value) {
    let (status, _, body) = raw(echo, AnyReply::Durable(Box::new(reply)));
    (status, serde_json::from_str(&body).unwrap())
}

fn answer(reply: Reply) -> (u16, Value) {
    answer_to(&DurableEcho::Nothing, reply)
}

#[test]
fn pushed_in_two_spellings() {
    let outcome = |status| PushOutcome {
        queue: Arc::from("a\"b"),
        message_id: ID,
        transaction_id: "t\n1".into(),
        status,
    };
    let outcomes = vec![
        outcome(PushStatus::Queued { offset: 0 }),
        outcome(PushStatus::Duplicate { offset: i64::MAX }),
        outcome(PushStatus::Buffered),
    ];
    let (status, body) = answer(Reply::Pushed(outcomes));
    assert_eq!(status, 201);
    let item = |index: usize, status: &str, offset: Option<i64>| {
        let mut item = json!({
            "index": index,
            "message_id": ID_TEXT,
            "transaction_id": "t\n1",
            "queueName": "a\"b",
            "status": status,
        });
        if let Some(offset) = offset {
            item["offset"] = json!(offset);
        }
        item
    };
    assert_eq!(
        body,
        json!([
            item(0, "queued", Some(0)),
            item(1, "duplicate", Some(i64::MAX)),
            item(2, "buffered", None),
        ])
    );
    assert_eq!(answer(Reply::Pushed(Vec::new())), (201, json!([])));
}

fn record(number: u8) -> Record {
    Record {
        message_id: Uuid::from_u128(u128::from(number)),
        transaction_id: Bytes::from(format!("t{number}")),
        created_us: i64::from(number) * 1_000_000,
        trace_id: (number == 1).then_some(ID),
        producer: (number == 2).then(|| Bytes::from_static(b"some\"body")),
        encrypted: false,
        payload: Bytes::from(format!("{{ \"n\" : {number}.0 }}")),
    }
}

fn claim(partition: &str, partition_id: i64, pieces: &[(i64, i64, i64)]) -> Claim {
    let mut writer = SegmentWriter::default();
    (0..5).for_each(|number| writer.push(&record(number)));
    let segment = writer.finish();
    let piece = |&(base_offset, from, to): &(i64, i64, i64)| Piece {
        segment: segment.clone(),
        base_offset,
        from,
        to,
    };
    Claim {
        queue: Arc::from("orders"),
        partition: Arc::from(partition),
        partition_id,
        attempt: 3,
        pieces: pieces.iter().map(piece).collect(),
    }
}

fn popped(queue: Option<&str>, lease_id: Option<Uuid>, claims: Vec<Claim>) -> Reply {
    Reply::Popped(Box::new(Popped {
        queue: queue.map(Arc::from),
        group: Arc::from("g\"1"),
        lease_id,
        claims,
    }))
}

#[test]
fn popped_with_everything_that_clients_require() {
    let claims = vec![
        claim("p/1", 5, &[(10, 11, 13)]),
        claim("p2", 6, &[(0, 0, 1)]),
    ];
    let (status, body) = answer_to(
        &DurableEcho::Pop { autopilot: None },
        popped(Some("orders"), Some(LEASE), claims),
    );
    assert_eq!(status, 200);
    let message = |number: u8, offset: i64, partition: &str, partition_id: &str| {
        json!({
            "id": format!("00000000-0000-0000-0000-00000000000{number}"),
            "transactionId": format!("t{number}"),
            "traceId": if number == 1 { json!(ID_TEXT) } else { Value::Null },
            "data": {"n": f64::from(number)},
            "producerSub": if number == 2 { json!("some\"body") } else { Value::Null },
            "createdAt": format!("1970-01-01T00:00:0{number}.000Z"),
            "offset": offset,
            "partitionId": partition_id,
            "partition": partition,
            "leaseId": LEASE_TEXT,
            "consumerGroup": "g\"1",
            "deliveryAttempt": 3,
        })
    };
    assert_eq!(
        body,
        json!({
            "success": true,
            "queue": "orders",
            "partition": "p/1",
            "partitionId": "5",
            "leaseId": LEASE_TEXT,
            "consumerGroup": "g\"1",
            "messages": [
                message(1, 11, "p/1", "5"),
                message(2, 12, "p/1", "5"),
                message(0, 0, "p2", "6"),
            ],
            "partitionsClaimed": 2,
        })
    );
}

#[test]
fn settled_at_delivery_there_is_no_lease_and_a_discovery_names_queues() {
    let claims = vec![claim("p", 5, &[(0, 4, 5), (5, 5, 6)])];
    let reply = AnyReply::Durable(Box::new(popped(None, None, claims)));
    let (_, _, text) = raw(&DurableEcho::Pop { autopilot: None }, reply);
    assert!(text.contains("\"data\":{ \"n\" : 4.0 },"), "{text}");
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&body["queue"], &body["leaseId"]), (&json!(""), &json!("")));
    let messages = body["messages"].as_array().unwrap();
    let offsets: Vec<_> = messages.iter().map(|message| &message["offset"]).collect();
    assert_eq!(offsets, [4, 5]);
    for message in messages {
        assert_eq!(message["queue"], "orders");
        assert_eq!(message["leaseId"], "");
    }
}

#[test]
fn nothing_popped_has_no_body() {
    let reply = AnyReply::Durable(Box::new(popped(Some("q"), None, Vec::new())));
    let (status, head, body) = raw(&DurableEcho::Pop { autopilot: None }, reply);
    assert_eq!((status, &*body), (204, ""));
    assert!(!head.contains("content-"), "{head}");
}

#[test]
fn a_refused_pop_looks_like_a_pop_and_nothing_else_does() {
    let away = || {
        AnyReply::Refused(Refusal::DurableAway {
            reason: "no".to_owned(),
            uncertain: false,
        })
    };
    let (status, head, body) = raw(&DurableEcho::Pop { autopilot: None }, away());
    assert_eq!(status, 503);
    assert!(head.contains("retry-after: 1"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        body,
        json!({
            "success": false,
            "error": "no",
            "code": "durable_unavailable",
            "messages": [],
        })
    );
    let (_, _, body) = raw(&DurableEcho::Nothing, away());
    assert_eq!(body, "{\"error\":\"no\",\"code\":\"durable_unavailable\"}");
}

#[test]
fn acks_with_the_words_that_clients_look_for() {
    let outcome = |refused, lease_released, dead_lettered, noop| AckOutcome {
        transaction_id: "t".into(),
        refused,
        lease_released,
        dead_lettered,
        noop,
    };
    let (status, body) = answer(Reply::Acked(vec![
        outcome(None, true, false, false),
        outcome(None, false, true, false),
        outcome(None, false, false, true),
        outcome(Some(AckRefused::Lease), false, false, false),
    ]));
    assert_eq!(status, 200);
    let item = |index: usize, error: Value, flags: [bool; 3]| {
        json!({
            "index": index,
            "transactionId": "t",
            "success": error.is_null(),
            "error": error,
            "leaseReleased": flags[0],
            "dlq": flags[1],
            "noop": flags[2],
        })
    };
    assert_eq!(
        body,
        json!([
            item(0, Value::Null, [true, false, false]),
            item(1, Value::Null, [false, true, false]),
            item(2, Value::Null, [false, false, true]),
            item(3, json!("invalid or expired lease"), [false, false, false]),
        ])
    );
    for (refused, word) in [
        (AckRefused::Committed, "committed"),
        (AckRefused::Unresolved, "unresolv"),
        (AckRefused::NoConsumer, "consumer not found"),
    ] {
        assert!(refusal_text(refused).contains(word));
    }
}

#[test]
fn an_extension_and_one_of_no_lease() {
    let extended = |renewed, expires_us| {
        answer(Reply::Extended(Extended {
            lease_id: "l\"1".into(),
            renewed,
            expires_us,
        }))
    };
    let body = |success: bool, renewed: u32, time: Value| {
        json!({
            "leaseId": "l\"1",
            "success": success,
            "renewed": renewed,
            "newExpiresAt": time,
            "expiresAt": time,
            "lease_expires_at": time,
        })
    };
    let time = json!("1970-01-01T00:00:01.500Z");
    assert_eq!(extended(2, Some(1_500_000)), (200, body(true, 2, time)));
    assert_eq!(extended(0, None), (200, body(false, 0, Value::Null)));
}

#[test]
fn a_queue_that_is_removed_and_one_that_was_not_there() {
    let echo = DurableEcho::Delete {
        queue: "a/b".into(),
    };
    let (status, body) = answer_to(&echo, Reply::Deleted { existed: true });
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({"deleted": true, "existed": true, "queue": "a/b"})
    );
    let (status, body) = answer_to(&echo, Reply::Deleted { existed: false });
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({
            "deleted": false,
            "existed": false,
            "queue": "a/b",
            "message": "there is no such queue",
        })
    );
}

#[test]
fn a_configured_queue_with_all_its_options() {
    let configured = |unencrypted| {
        answer(Reply::Configured(Box::new(Configured {
            queue_id: 1_025,
            queue: "n.t.x".into(),
            namespace: "n".into(),
            task: "t".into(),
            options: QueueOptions {
                priority: -1,
                ..QueueOptions::default()
            },
            unencrypted,
        })))
    };
    let (status, body) = configured(false);
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({
            "configured": true,
            "queueId": "1025",
            "partitionId": null,
            "queue": "n.t.x",
            "namespace": "n",
            "task": "t",
            "storage": "segments",
            "options": {
                "leaseTime": 300,
                "retryLimit": 3,
                "retryDelay": 1_000,
                "deadLetterQueue": true,
                "dlqAfterMaxRetries": true,
                "delayedProcessing": 0,
                "windowBuffer": 0,
                "retentionEnabled": false,
                "retentionSeconds": 0,
                "completedRetentionSeconds": 0,
                "maxWaitTimeSeconds": 0,
                "encryptionEnabled": false,
                "dedupWindowSeconds": 3_600,
                "minPopWaitTime": 0,
                "maxSize": 0,
                "ttl": 3_600,
                "priority": -1,
                "retentionSinkHold": "",
                "retentionSinkHoldMaxSeconds": 604_800,
                "namespace": "n",
                "task": "t",
            },
        })
    );
    let (_, body) = configured(true);
    assert!(body["warning"].as_str().unwrap().contains("encryption"));
}

#[test]
fn a_step_that_was_taken() {
    let pushed = |status| StepResult::Pushed {
        outcome: PushOutcome {
            queue: Arc::from("q"),
            message_id: LEASE,
            transaction_id: "t".into(),
            status,
        },
    };
    let acked = StepResult::Acked {
        transaction_id: "u".into(),
        dead_lettered: true,
    };
    let results = vec![
        pushed(PushStatus::Queued { offset: 1 }),
        acked,
        pushed(PushStatus::Duplicate { offset: 1 }),
    ];
    let (status, body) = answer(Reply::Stepped(Box::new(StepOutcome {
        id: ID,
        result: Ok(results),
    })));
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({
            "transactionId": ID_TEXT,
            "success": true,
            "results": [
                {
                    "index": 0, "type": "push", "success": true, "transactionId": "t",
                    "messageId": LEASE_TEXT, "queueName": "q",
                },
                {
                    "index": 1, "type": "ack", "success": true, "transactionId": "u",
                    "error": null, "dlq": true,
                },
                {
                    "index": 2, "type": "push", "success": true, "transactionId": "t",
                    "messageId": LEASE_TEXT, "queueName": "q", "duplicate": true,
                },
            ],
        })
    );
}

#[test]
fn a_step_that_was_refused_says_why() {
    let refused = |refused| {
        answer(Reply::Stepped(Box::new(StepOutcome {
            id: ID,
            result: Err(refused),
        })))
    };
    let ack = |reason| StepRefused::Ack {
        index: 3,
        reason,
        transaction_id: "t".into(),
    };
    let required = StepRefused::Lease {
        lease_id: "l".into(),
    };
    let duplicate = StepRefused::Duplicate {
        index: 0,
        transaction_id: "t".into(),
    };
    for (fault, reason, words) in [
        (ack(AckRefused::Lease), "rejected_ack", ["QTXN", "lease"]),
        (
            ack(AckRefused::Committed),
            "rejected_ack",
            ["QTXN", "committed"],
        ),
        (
            ack(AckRefused::Unresolved),
            "rejected_ack",
            ["result 3", "unresolv"],
        ),
        (required, "rejected_ack", ["QTXN", "lease"]),
        (duplicate, "duplicate", ["QDUP", "stored already"]),
    ] {
        let (status, body) = refused(fault);
        assert_eq!(status, 200);
        assert_eq!(
            (&body["success"], &body["results"]),
            (&json!(false), &json!([]))
        );
        assert_eq!(
            (&body["transactionId"], &body["reason"]),
            (&json!(ID_TEXT), &json!(reason))
        );
        let error = body["error"].as_str().unwrap();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}
