use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::api::ListWriter;
use crate::model::{
    Delivered, GroupDepth, Incarnation, Moment, PartitionDepth, QueueRow, TenantId, Verdict,
};

const STYLE: ResponseStyle = ResponseStyle {
    http_1_0: false,
    keep_alive: true,
    head_only: false,
};

const OPTIONS: EffectiveOptions = EffectiveOptions {
    max_bytes: 16_777_216,
    max_length: 1_000,
    policy: Policy::DropOldest,
    ttl_ms: None,
    lease_ms: 30_000,
    retry_limit: 5,
    window_buffer: WindowBuffer { ms: 25, count: 50 },
};

fn answer(echo: Echo<'_>, reply: &Reply) -> (u16, String) {
    let mut out = BytesMut::new();
    encode_reply(echo, reply, STYLE, &mut out);
    let text = std::str::from_utf8(&out).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    (status, body.to_owned())
}

fn row(queue: &str) -> QueueRow {
    QueueRow {
        queue: Arc::from(queue),
        tier: Tier::Declared,
        depth: 1,
        bytes: 2,
        partitions: 3,
        groups: 4,
        drops: DropCounts {
            bounds: 5,
            ttl: 6,
            retry: 7,
        },
        options: OPTIONS,
    }
}

#[test]
fn pushed() {
    let (status, body) = answer(Echo::Nothing, &Reply::Pushed { count: 2 });
    assert_eq!((status, body.as_str()), (201, "{\"pushed\":2}"));
}

#[test]
fn popped_in_the_documented_order() {
    let delivered = |partition: &str, payload: &'static str| Delivered {
        partition: Arc::from(partition),
        sequence: 7,
        attempts: 1,
        delivery: 3,
        pushed: Moment::ZERO,
        payload: Bytes::from_static(payload.as_bytes()),
    };
    let mut popped = Popped {
        queue: Arc::from("presence"),
        tenant: TenantId::DEFAULT,
        generation: 1,
        group: 0,
        incarnation: Incarnation(0x9f1),
        auto_ack: false,
        messages: Vec::new(),
    };
    let mut out = BytesMut::new();
    encode_popped(&popped, STYLE, &mut out);
    assert!(out.ends_with(b"{\"queue\":\"presence\",\"messages\":[]}"));
    popped.messages = vec![
        delivered("room-7", "{ \"n\" : 1.0, \"n\":1e400}"),
        delivered("a\"b:\\c", "null"),
    ];
    let (status, body) = answer(Echo::Nothing, &Reply::Popped(popped));
    assert_eq!(status, 200);
    assert_eq!(
        body,
        "{\"queue\":\"presence\",\"messages\":[\
         {\"id\":\"e:9f1:room-7:7\",\"partition\":\"room-7\",\"attempts\":1,\
         \"payload\":{ \"n\" : 1.0, \"n\":1e400}},\
         {\"id\":\"e:9f1:a\\\"b:\\\\c:7\",\"partition\":\"a\\\"b:\\\\c\",\"attempts\":1,\
         \"payload\":null}]}"
    );
}

#[test]
fn one_result_for_each_ack_with_its_id() {
    let item = |id: &'static str| AckItem {
        id: Cow::Borrowed(id),
        verdict: Verdict::Completed,
    };
    let acks = [item("e:9f1:room-7:0"), item("\u{1}\""), item(""), item("x")];
    let outcomes = vec![
        AckOutcome::Redelivered,
        AckOutcome::Unknown,
        AckOutcome::Acked,
        AckOutcome::Stale,
    ];
    let (status, body) = answer(Echo::Acks(&acks), &Reply::Acked(outcomes));
    assert_eq!(status, 200);
    assert_eq!(
        body,
        "{\"results\":[{\"id\":\"e:9f1:room-7:0\",\"outcome\":\"redelivered\"},\
         {\"id\":\"\\u0001\\\"\",\"outcome\":\"unknown\"},{\"id\":\"\",\"outcome\":\"acked\"},\
         {\"id\":\"x\",\"outcome\":\"stale\"}]}"
    );
    let (_, body) = answer(Echo::Acks(&[]), &Reply::Acked(Vec::new()));
    assert_eq!(body, "{\"results\":[]}");
}

#[test]
#[should_panic(expected = "left == right")]
fn a_missing_outcome_is_a_bug() {
    let acks = [AckItem {
        id: Cow::Borrowed("x"),
        verdict: Verdict::Retry,
    }];
    answer(Echo::Acks(&acks), &Reply::Acked(Vec::new()));
}

#[test]
#[should_panic(expected = "does not answer")]
fn an_echo_of_another_command_is_a_bug() {
    answer(Echo::Nothing, &Reply::Reset { dropped: 1 });
}

#[test]
fn configured_shows_what_was_sent_and_what_holds() {
    let echo = Echo::Declaration {
        queue: "a\"b",
        options: "{ \"maxLength\":1000 }",
    };
    let reply = Reply::Configured {
        effective: OPTIONS,
        durable: false,
    };
    let (status, body) = answer(echo, &reply);
    assert_eq!(status, 201);
    let start = "{\"queue\":\"a\\\"b\",\"options\":{ \"maxLength\":1000 },\"declared\":true,\
                 \"durable\":false,\"effective\":{";
    assert!(body.starts_with(start), "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        body["effective"],
        json!({
            "maxBytes": 16_777_216,
            "maxLength": 1_000,
            "policy": "dropOldest",
            "ttlSeconds": null,
            "ttlMs": null,
            "leaseSeconds": 30,
            "retryLimit": 5,
            "windowBuffer": {"ms": 25, "count": 50},
        })
    );
    let reply = Reply::Configured {
        effective: EffectiveOptions {
            ttl_ms: Some(1_500),
            policy: Policy::Reject,
            ..OPTIONS
        },
        durable: true,
    };
    let body: Value = serde_json::from_str(&answer(echo, &reply).1).unwrap();
    assert_eq!(body["durable"], true);
    assert_eq!(body["effective"]["ttlSeconds"], 1.5);
    assert_eq!(body["effective"]["ttlMs"], 1_500);
    assert_eq!(body["effective"]["policy"], "reject");
}

#[test]
fn reset_and_deleted() {
    let echo = Echo::Queue("presence");
    let (status, body) = answer(echo, &Reply::Reset { dropped: 4 });
    assert_eq!(status, 200);
    assert_eq!(body, "{\"queue\":\"presence\",\"dropped\":4}");
    let reply = Reply::Deleted {
        deleted: true,
        declared: false,
    };
    let (status, body) = answer(Echo::Queue("reply/42"), &reply);
    assert_eq!(status, 200);
    assert_eq!(
        body,
        "{\"queue\":\"reply/42\",\"deleted\":true,\"declared\":false}"
    );
}

#[test]
fn depth() {
    let reply = Reply::Depth(Box::new(Depth {
        tier: Tier::Implicit,
        pending: 3,
        partitions_pending: 1,
        bytes: 12,
        drops: DropCounts {
            bounds: 1,
            ttl: 2,
            retry: 3,
        },
        waiting: 9,
        partitions: vec![
            PartitionDepth {
                partition: Arc::from("a"),
                pending: 3,
                bytes: 12,
            },
            PartitionDepth {
                partition: Arc::from("b"),
                pending: 0,
                bytes: 0,
            },
        ],
        groups: vec![GroupDepth {
            group: Arc::from("widget"),
            pending: 3,
            skipped: 4,
        }],
    }));
    let echo = Echo::Depth {
        queue: "q",
        group: None,
    };
    let (status, body) = answer(echo, &reply);
    assert_eq!(status, 200);
    assert_eq!(
        body,
        "{\"queue\":\"q\",\"group\":null,\"tier\":\"implicit\",\"pending\":3,\
         \"partitionsPending\":1,\"bytes\":12,\"partitions\":[\
         {\"partition\":\"a\",\"pending\":3,\"bytes\":12},\
         {\"partition\":\"b\",\"pending\":0,\"bytes\":0}],\"groups\":[\
         {\"group\":\"widget\",\"pending\":3,\"skipped\":4}],\
         \"drops\":{\"bounds\":1,\"ttl\":2,\"retry\":3},\"waiting\":9}"
    );
    let echo = Echo::Depth {
        queue: "q",
        group: Some("w\"1"),
    };
    let body: Value = serde_json::from_str(&answer(echo, &reply).1).unwrap();
    assert_eq!(body["group"], "w\"1");
}

const ROW: &str = "{\"queue\":\"a\",\"tier\":\"declared\",\"depth\":1,\"bytes\":2,\
    \"partitions\":3,\"groups\":4,\"drops\":{\"bounds\":5,\"ttl\":6,\"retry\":7},\
    \"options\":{\"maxBytes\":16777216,\"maxLength\":1000,\"policy\":\"dropOldest\",\
    \"ttlSeconds\":0,\"ttlMs\":null,\"leaseSeconds\":30,\"retryLimit\":5,\
    \"windowBuffer\":{\"ms\":25,\"count\":50}}}";

/// The body of a listing whose rows come in steps.
fn listed(steps: &[&[QueueRow]], broker_bytes: u64, next_after: Option<&str>) -> String {
    let style = ResponseStyle {
        http_1_0: true,
        keep_alive: false,
        head_only: false,
    };
    let mut out = BytesMut::new();
    let mut writer = ListWriter::begin(style, &mut out);
    for rows in steps {
        writer.rows(rows, &mut out);
    }
    writer.end(broker_bytes, next_after, &mut out);
    let text = std::str::from_utf8(&out).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn a_listing_in_steps_is_the_same_as_in_one() {
    let rows = [row("a"), row("b"), row("c")];
    let whole = listed(&[&rows], 99, Some("c"));
    assert_eq!(
        listed(&[&[], &rows[..1], &[], &rows[1..]], 99, Some("c")),
        whole
    );
    assert!(
        whole.starts_with(&format!("{{\"queues\":[{ROW},")),
        "{whole}"
    );
    let end = "],\"count\":3,\"cellBytes\":99,\"truncated\":true,\"nextAfter\":\"c\"}";
    assert!(whole.ends_with(end), "{whole}");
}

#[test]
fn an_empty_listing_is_chunked() {
    let mut out = BytesMut::new();
    let writer = ListWriter::begin(STYLE, &mut out);
    writer.end(0, None, &mut out);
    let text = std::str::from_utf8(&out).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("transfer-encoding: chunked"));
    assert!(body.ends_with("\r\n0\r\n\r\n"), "{body}");
    let parts: Vec<&str> = body.split("\r\n").collect();
    assert_eq!(parts[1], "{\"queues\":[");
    assert_eq!(parts[3], "],\"count\":0,\"cellBytes\":0}");
}

#[test]
fn seconds_of_a_row_are_rounded_up() {
    let mut short = row("a");
    short.options.ttl_ms = Some(1);
    short.options.lease_ms = 1_001;
    let body: Value = serde_json::from_str(&listed(&[&[short]], 0, None)).unwrap();
    let options = &body["queues"][0]["options"];
    assert_eq!(options["ttlSeconds"], 1);
    assert_eq!(options["ttlMs"], 1);
    assert_eq!(options["leaseSeconds"], 2);
    assert_eq!(body.get("truncated"), None);
}

#[test]
fn a_head_request_gets_the_length_alone() {
    let style = ResponseStyle {
        head_only: true,
        ..STYLE
    };
    let mut out = BytesMut::new();
    encode_reply(Echo::Nothing, &Reply::Pushed { count: 1 }, style, &mut out);
    assert!(out.ends_with(b"\r\n\r\n"));
}
