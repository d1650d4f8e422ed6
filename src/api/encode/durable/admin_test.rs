use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::model::durable::{NamedTime, Subscribe};

fn answer(answer: &Administered) -> (u16, Value) {
    let style = ResponseStyle {
        http_1_0: false,
        keep_alive: true,
        head_only: false,
    };
    let mut out = BytesMut::new();
    put_administered(answer, style, &mut out);
    let text = std::str::from_utf8(&out).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (
        head[9..12].parse().unwrap(),
        serde_json::from_str(body).unwrap(),
    )
}

fn address() -> Address {
    Address {
        partition: "x\"y".into(),
        partition_id: None,
        transaction_id: "t".into(),
    }
}

#[test]
fn groups_that_go() {
    let deleted = |queue: Option<&str>| Administered::GroupDeleted {
        asked: DeleteGroup {
            group: "g".into(),
            queue: queue.map(Into::into),
            registration: queue.is_none(),
        },
        cursors: 3,
    };
    let everywhere = json!({
        "success": true, "consumerGroup": "g", "deletedPartitions": 3, "metadataDeleted": true,
    });
    assert_eq!(answer(&deleted(None)), (200, everywhere));
    let of_queue = json!({
        "success": true, "consumerGroup": "g", "queueName": "q", "deletedPartitions": 3,
        "metadataDeleted": false,
    });
    assert_eq!(answer(&deleted(Some("q"))), (200, of_queue));
}

#[test]
fn groups_that_move() {
    let sought = |to, partition: Option<&str>, partitions| Administered::Sought {
        asked: Seek {
            group: "g".into(),
            queue: "q".into(),
            partition: partition.map(Into::into),
            to,
        },
        partitions,
    };
    let to_end = json!({
        "success": true, "consumerGroup": "g", "queueName": "q", "seekToEnd": true,
        "targetTimestamp": null, "partitionsUpdated": 2,
    });
    assert_eq!(answer(&sought(SeekTo::End, None, 2)), (200, to_end));
    let time = SeekTo::Time(NamedTime {
        text: "1970-01-01T00:00:00+00:00".into(),
        time_us: 0,
    });
    let (status, body) = answer(&sought(time, Some("p"), 1));
    assert_eq!(
        (status, &body["targetTimestamp"]),
        (200, &json!("1970-01-01T00:00:00+00:00"))
    );
    assert_eq!(
        (&body["partitionName"], &body["updated"]),
        (&json!("p"), &json!(true))
    );
    assert_eq!(body["seekToEnd"], false);
    let (status, body) = answer(&sought(SeekTo::Offset(17), None, 0));
    assert_eq!(
        (status, &body["success"], &body["targetOffset"]),
        (404, &json!(false), &json!(17))
    );
    assert_eq!(body["error"], "Queue not found or has no partitions");
    assert_eq!(body["code"], "not_found");
}

#[test]
fn subscriptions_repeat_the_time_as_it_was_sent() {
    let asked = Subscribe {
        group: "g".into(),
        from: NamedTime {
            text: "2026-01-01 00:00".into(),
            time_us: 5,
        },
    };
    let body = json!({
        "success": true, "consumerGroup": "g", "newTimestamp": "2026-01-01 00:00", "rowsUpdated": 0,
    });
    assert_eq!(
        answer(&Administered::Subscribed { asked, queues: 0 }),
        (200, body)
    );
}

#[test]
fn replays() {
    let replayed = |duplicate| Administered::Replayed {
        asked: Replay::Newest(address()),
        replayed: Some(Box::new(Replayed {
            letter_id: 7,
            queue: "q".into(),
            partition: "p".into(),
            group: "g".into(),
            transaction_id: "t".into(),
            message_id: Uuid::from_u128(1),
            offset: 12,
            duplicate,
        })),
    };
    let moved = json!({
        "success": true, "result": "moved", "queue": "q", "partition": "p", "consumerGroup": "g",
        "dlqId": "7", "originalTransactionId": "t", "dlqRowRemoved": true,
        "replayedAs": {
            "index": 0, "message_id": "00000000-0000-0000-0000-000000000001",
            "transaction_id": "dlq:7", "queueName": "q", "status": "queued", "offset": 12,
        },
    });
    assert_eq!(answer(&replayed(false)), (200, moved));
    let (_, body) = answer(&replayed(true));
    assert_eq!(
        (&body["result"], &body["replayedAs"]["status"]),
        (&json!("duplicate"), &json!("duplicate"))
    );
    let none = |asked| Administered::Replayed {
        asked,
        replayed: None,
    };
    let (status, body) = answer(&none(Replay::Newest(address())));
    assert_eq!((status, &body["error"]), (404, &json!("Message not found")));
    assert_eq!(
        (&body["partitionId"], &body["transactionId"]),
        (&json!("x\"y"), &json!("t"))
    );
    let one = Replay::One {
        id: "seven".into(),
        letter_id: None,
        queue: None,
        partition: None,
    };
    let (status, body) = answer(&none(one));
    assert_eq!(
        (status, &body["result"], &body["dlqId"]),
        (404, &json!("gone"), &json!("seven"))
    );
}

#[test]
fn letters_that_go() {
    let discarded = |discarded| Administered::LetterDiscarded {
        asked: address(),
        discarded,
    };
    let (status, body) = answer(&discarded(2));
    assert_eq!(
        (status, &body["success"], &body["transactionId"]),
        (200, &json!(true), &json!("t"))
    );
    let (status, body) = answer(&discarded(0));
    assert_eq!(
        (status, &body["success"], &body["code"]),
        (404, &json!(false), &json!("not_found"))
    );
    let many = Administered::LettersDiscarded {
        discarded: 1_000,
        more: true,
    };
    let body = json!({"success": true, "deleted": 1_000, "more": true});
    assert_eq!(answer(&many), (200, body));
    let many = Administered::LettersReplayed {
        moved: 3,
        duplicates: 1,
        unreadable: 2,
        more: false,
    };
    let body = json!({
        "success": true, "replayed": 4, "moved": 3, "duplicates": 1, "unreadable": 2, "more": false,
    });
    assert_eq!(answer(&many), (200, body));
}

#[test]
fn traces_that_are_noted() {
    let recorded = |id| Administered::TraceRecorded {
        message: address(),
        id,
    };
    assert_eq!(
        answer(&recorded(Some(5))),
        (201, json!({"success": true, "traceId": "5"}))
    );
    assert_eq!(answer(&recorded(None)).0, 404);
}
