use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::http::{FieldSlots, HeadScan, ParsedHead, parse_head};
use crate::limits;
use crate::model::{Ack, Configure, Policy, Pop, Push, QueueOptions, Verdict, WindowBuffer};

const RULES: DecodeRules = DecodeRules {
    tenancy: false,
    paused: false,
    pop_default_timeout_ms: 30_000,
};

/// Decodes a request and looks at the outcome, which borrows from it.
fn request<T>(
    line: &str,
    body: &[u8],
    rules: &DecodeRules,
    look: impl FnOnce(Result<Call<'_>, ApiFault>) -> T,
) -> T {
    let bytes = format!("{line} HTTP/1.1\r\nhost: a\r\n\r\n");
    let mut slots = FieldSlots::new();
    match parse_head(bytes.as_bytes(), &mut HeadScan::default(), &mut slots) {
        ParsedHead::Complete { head, .. } => look(decode(&head, BodyBytes::borrowed(body), rules)),
        other => panic!("{line}: {other:?}"),
    }
}

fn fault(line: &str, body: &str) -> ApiFault {
    request(line, body.as_bytes(), &RULES, |call| call.unwrap_err())
}

fn refusal_text(refusal: Refusal) -> String {
    match refusal {
        Refusal::BadRequest { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

fn push(body: &str) -> Result<Push<'_>, Refusal> {
    push::decode(BodyBytes::borrowed(body.as_bytes()))
}

fn push_error(body: &str) -> String {
    refusal_text(push(body).map(|push| panic!("{push:?}")).unwrap_err())
}

fn ack(body: &str) -> Result<Ack<'_>, Refusal> {
    ack::decode(BodyBytes::borrowed(body.as_bytes()))
}

fn configure(body: &str) -> Result<Configure<'_>, Refusal> {
    configure::decode(BodyBytes::borrowed(body.as_bytes()))
}

fn options(text: &str) -> Result<QueueOptions, Refusal> {
    let body = format!("{{\"queue\":\"q\",\"options\":{text}}}");
    configure(&body).map(|configure| configure.options)
}

fn pop(query: &str) -> Result<Pop<'_>, Refusal> {
    query::decode_pop(query.as_bytes(), 30_000)
}

#[test]
fn routes_and_methods() {
    let kind = |line: &str| {
        request(line, b"{\"enabled\":false}", &RULES, |call| match call {
            Ok(Call::Ephemeral { command, .. }) => format!("{command:?}"),
            Ok(other) => format!("{other:?}"),
            Err(other) => format!("{other:?}"),
        })
    };
    assert_eq!(kind("GET /health"), "Health");
    assert_eq!(kind("HEAD /health"), "Health");
    assert_eq!(kind("GET /metrics"), "Metrics");
    assert_eq!(kind("GET /metrics/prometheus"), "Prometheus");
    assert_eq!(kind("GET /api/v1/system/ephemeral"), "PauseGet");
    assert_eq!(kind("POST /api/v1/system/ephemeral"), "PauseSet(false)");
    assert_eq!(kind("GET /nowhere"), "NoSuchRoute");
    assert_eq!(kind("OPTIONS /nowhere"), "NoSuchRoute");
    assert_eq!(kind("DELETE /api/v1/ephemeral/queue/"), "NoSuchRoute");
    for line in [
        "BREW /health",
        "TRACE /health",
        "CONNECT a:1",
        "get /health",
    ] {
        assert_eq!(kind(line), "MethodUnknown", "{line}");
    }
    let allow = |line: &str| match fault(line, "") {
        ApiFault::MethodNotAllowed { allow } => allow,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(allow("HEAD /api/v1/ephemeral/pop?queue=q"), "GET, OPTIONS");
    assert_eq!(allow("GET /api/v1/ephemeral/push"), "POST, OPTIONS");
    assert_eq!(allow("PUT /api/v1/ephemeral/queue/q"), "DELETE, OPTIONS");
    assert_eq!(
        allow("PATCH /api/v1/ephemeral/queues"),
        "GET, HEAD, OPTIONS"
    );
    let options = |line: &str| {
        request(line, b"", &RULES, |call| match call {
            Ok(Call::Options { allow }) => allow,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(options("OPTIONS /api/v1/ephemeral/pop"), "GET, OPTIONS");
    assert_eq!(options("OPTIONS *"), "GET, HEAD, POST, DELETE, OPTIONS");
}

#[test]
fn a_path_segment_is_decoded_once() {
    let deleted = |line: &str| {
        request(line, b"", &RULES, |call| match call {
            Ok(Call::Ephemeral {
                command: Command::Delete(queue),
                tenant,
            }) => {
                assert_eq!(tenant, TenantId::DEFAULT);
                queue.as_str().to_owned()
            }
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(
        deleted("DELETE /api/v1/ephemeral/queue/reply%2F42"),
        "reply/42"
    );
    assert_eq!(deleted("DELETE /api/v1/ephemeral/queue/a%252F+b"), "a%2F+b");
    let text = |line: &str| match fault(line, "") {
        ApiFault::Refused(refusal) => refusal_text(refusal),
        other => panic!("{other:?}"),
    };
    assert!(text("DELETE /api/v1/ephemeral/queue/%ff").contains("UTF-8"));
    assert!(text("DELETE /api/v1/ephemeral/queue/a%00").contains("control characters"));
    let long = format!("DELETE /api/v1/ephemeral/queue/{}", "x".repeat(513));
    assert!(text(&long).contains("512"));
}

#[test]
fn depth_and_listing() {
    request(
        "GET /api/v1/ephemeral/queues/a%2Fb/depth?group=g+1&x=y",
        b"",
        &RULES,
        |call| match call {
            Ok(Call::Ephemeral {
                command: Command::Depth { queue, group },
                ..
            }) => {
                assert_eq!(queue.as_str(), "a/b");
                assert_eq!(group.unwrap().as_str(), "g 1");
            }
            other => panic!("{other:?}"),
        },
    );
    let listing = |query: &str| {
        let line = format!("GET /api/v1/ephemeral/queues{query}");
        request(&line, b"", &RULES, |call| match call {
            Ok(Call::Listing { listing, .. }) => (
                listing.limit,
                listing.after.map(Cow::into_owned),
                listing.prefix.into_owned(),
            ),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(listing(""), (None, None, String::new()));
    assert_eq!(listing("?limit=ten&after="), (None, None, String::new()));
    assert_eq!(listing("?limit=0").0, Some(1));
    let full = listing("?limit=10&after=a%2Fb&prefix=a+");
    assert_eq!(full, (Some(10), Some("a/b".to_owned()), "a ".to_owned()));
}

#[test]
fn a_pause_refuses_all_but_an_empty_push() {
    let paused = DecodeRules {
        paused: true,
        ..RULES
    };
    let refused = |line: &str, body: &str| {
        request(line, body.as_bytes(), &paused, |call| match call {
            Err(ApiFault::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        })
    };
    let push = "POST /api/v1/ephemeral/push";
    let full = "{\"queue\":\"q\",\"messages\":[{\"payload\":1}]}";
    assert_eq!(refused(push, full), Refusal::Paused);
    assert!(matches!(refused(push, "{"), Refusal::BadRequest { .. }));
    assert_eq!(refused("GET /api/v1/ephemeral/pop", ""), Refusal::Paused);
    assert_eq!(refused("GET /api/v1/ephemeral/queues", ""), Refusal::Paused);
    let empty = b"{\"queue\":\"q\",\"messages\":[]}";
    request(push, empty, &paused, |call| match call {
        Ok(Call::Ephemeral { command, .. }) => {
            assert!(matches!(
                answer_at_once(&command),
                Some(Reply::Pushed { count: 0 })
            ));
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn tenancy_is_for_the_ephemeral_routes_only() {
    let rules = DecodeRules {
        tenancy: true,
        ..RULES
    };
    for line in [
        "GET /health",
        "GET /metrics",
        "GET /metrics/prometheus",
        "GET /api/v1/system/ephemeral",
    ] {
        request(line, b"", &rules, |call| assert!(call.is_ok(), "{line}"));
    }
    request(
        "GET /api/v1/ephemeral/queues",
        b"",
        &rules,
        |call| match call {
            Err(ApiFault::Refused(refusal)) => {
                assert!(refusal_text(refusal).contains("x-queen-tenant is required"));
            }
            other => panic!("{other:?}"),
        },
    );
}

#[test]
fn push_takes_the_documented_shape() {
    let body = " {\"queue\":\"a b\",\"partition\":\"p\\u00e9\",\"transactionId\":[{}],\
                \"messages\":[{\"payload\":{\"n\":1},\"transactionId\":\"t\"},{\"payload\":null}]}\n";
    let push = push(body).unwrap();
    assert_eq!(push.queue.as_str(), "a b");
    assert_eq!(push.partition.as_str(), "p\u{e9}");
    assert_eq!(push.payloads, ["{\"n\":1}", "null"]);
}

#[test]
fn an_absent_or_null_partition_is_the_default() {
    for body in [
        "{\"queue\":\"q\",\"messages\":[]}",
        "{\"queue\":\"q\",\"partition\":null,\"messages\":[]}",
    ] {
        let push = push(body).unwrap();
        assert_eq!(push.partition.as_str(), "Default");
        assert!(push.payloads.is_empty());
    }
    let text = push_error("{\"queue\":\"q\",\"partition\":\"\",\"messages\":[]}");
    assert_eq!(text, "partition must not be empty");
}

#[test]
fn payload_bytes_come_out_as_they_went_in() {
    for payload in [
        "null",
        "1.0",
        "-0",
        "1e400",
        "123456789012345678901234567890",
        "\"\\ud800\"",
        "\"\\ud800\\ud800 \\u00e9 \u{e9} \\/\"",
        "{\"b\":1,\"a\":2,\"b\":3}",
        "{ \"a\" :\t[ 1 , 2 ],\r\n \"b\" : { } }",
        "\"\u{1f600}\u{7f}\"",
        "[[],{}]",
    ] {
        let body = format!("{{\"queue\":\"q\",\"messages\":[{{\"payload\": \n{payload}\t }}]}}");
        assert_eq!(push(&body).unwrap().payloads, [payload], "{payload}");
    }
}

#[test]
fn malformed_pushes_say_what_and_where() {
    for (body, part) in [
        ("", "a JSON body is required"),
        (" ", "line 1 column 1"),
        (
            "\u{feff}{\"queue\":\"q\",\"messages\":[]}",
            "line 1 column 1",
        ),
        (
            "{\"queue\":\"q\",\"messages\":[]} x",
            "trailing characters at line 1",
        ),
        ("{\"queue\":\"q\",\"messages\":[]}{}", "trailing characters"),
        ("{\"queue\":\"q\",\n\"messages\":[}", "line 2 column 13"),
        (
            "{\"queue\":\"q\",\"messages\":[{\"payload\":NaN}]}",
            "line 1 column",
        ),
        (
            "{\"queue\":\"q\",\"messages\":[{\"payload\":01}]}",
            "line 1 column",
        ),
        (
            "{\"queue\":\"q\",\"messages\":[{\"payload\":\"\n\"}]}",
            "control character",
        ),
        (
            "{\"queue\":\"q\",\"messages\":[{}]}",
            "messages[0] has no payload",
        ),
        (
            "{\"queue\":\"q\",\"messages\":[{\"payload\":1,\"payload\":1}]}",
            "\"payload\"",
        ),
        (
            "{\"queue\":\"q\",\"queue\":\"q\",\"messages\":[]}",
            "duplicate key \"queue\"",
        ),
        (
            "{\"queue\":\"q\",\"messages\":[],\"messages\":[]}",
            "duplicate key \"messages\"",
        ),
        (
            "{\"queue\":\"q\",\"qu\\u0065ue\":\"q\",\"messages\":[]}",
            "duplicate key \"queue\"",
        ),
        (
            "{\"partition\":null,\"partition\":null}",
            "duplicate key \"partition\"",
        ),
        ("{\"messages\":[]}", "queue is required"),
        ("{\"queue\":\"q\"}", "messages is required"),
        (
            "{\"queue\":null,\"messages\":[]}",
            "a string as queue at line 1 column 13",
        ),
        ("{\"queue\":5,\"messages\":[]}", "a string as queue"),
        ("{\"queue\":\"\\ud800\",\"messages\":[]}", "line 1 column"),
        (
            "{\"queue\":\"q\",\"partition\":1,\"messages\":[]}",
            "as partition",
        ),
        ("{\"queue\":\"q\",\"messages\":{}}", "an array as messages"),
        (
            "{\"queue\":\"q\",\"messages\":null}",
            "an array as messages",
        ),
        (
            "{\"queue\":\"q\",\"messages\":[[1]]}",
            "an item of messages",
        ),
        ("{\"queue\":\"q\",\"messages\":[1]}", "an item of messages"),
        ("[\"q\",null,[]]", "the body of a push"),
        ("null", "the body of a push"),
        (
            "{\"queue\":\"\",\"messages\":[]}",
            "queue must not be empty",
        ),
        (
            "{\"queue\":\"a\\nb\",\"messages\":[]}",
            "queue must not contain control",
        ),
    ] {
        let text = push_error(body);
        assert!(text.contains(part), "{body}: {text}");
    }
    let body = b"{\"queue\":\"q\",\"ignored\":\"\xff\",\"messages\":[]}";
    let refusal = push::decode(BodyBytes::borrowed(body)).unwrap_err();
    let text = refusal_text(refusal);
    assert_eq!(text, "the body is not UTF-8: bad byte at offset 24");
}

#[test]
fn an_error_does_not_repeat_a_huge_value() {
    let body = format!(
        "{{\"queue\":\"q\",\"messages\":\"{}\"}}",
        "\u{e9}".repeat(100_000)
    );
    let text = push_error(&body);
    assert!(text.len() < 600, "{}", text.len());
    assert!(text.contains("... at line 1 column"), "{text}");
}

#[test]
fn a_push_has_at_most_ten_thousand_items() {
    let body = |count: usize| {
        let items = vec!["{\"payload\":1}"; count].join(",");
        format!("{{\"queue\":\"q\",\"messages\":[{items}]}}")
    };
    let max = limits::BATCH_ITEMS_MAX;
    assert_eq!(push(&body(max)).unwrap().payloads.len(), max);
    assert!(push_error(&body(max + 1)).contains("messages has more than 10000 items"));
}

#[test]
fn nesting_is_bounded() {
    let body = |payload: &str| {
        format!("{{\"queue\":\"q\",\"messages\":[{{\"payload\":1}},{{\"payload\":{payload}}}]}}")
    };
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(push(&body(&nested(120))).is_ok());
    let text = push_error(&body(&nested(121)));
    assert_eq!(text, "messages[1].payload is nested deeper than 120 levels");
    assert!(push_error(&body(&nested(100_000))).contains("nested deeper"));
    assert!(push(&body(&format!("\"{}\"", "[{".repeat(500)))).is_ok());
    // What is ignored is not bounded, and costs no stack either.
    let deep = nested(100_000);
    let body = format!("{{\"x\":{deep},\"queue\":\"q\",\"messages\":[]}}");
    assert!(push(&body).is_ok());
}

#[test]
fn a_body_is_kept_only_for_a_payload_that_is_most_of_it() {
    let body_of = |large: usize, small: usize| {
        let (large, small) = ("a".repeat(large), "b".repeat(small));
        let text = format!(
            "{{\"queue\":\"q\",\"messages\":[{{\"payload\":\"{large}\"}},{{\"payload\":\"{small}\"}}]}}"
        );
        Bytes::from(text)
    };
    let is_inside = |body: &Bytes, payload: &Bytes| body.as_ptr_range().contains(&payload.as_ptr());
    let kept = |large: usize, small: usize| {
        let body = body_of(large, small);
        let push = push::decode(BodyBytes::owned(&body)).unwrap();
        assert_eq!(push.payloads[0].len(), large + 2);
        assert!(!is_inside(&body, &push.payloads[1]));
        is_inside(&body, &push.payloads[0])
    };
    assert!(kept(100_000, 10));
    assert!(!kept(100_000, 99_999));
    assert!(!kept(4_000, 10));
    let body = body_of(100_000, 10);
    let push = push::decode(BodyBytes::borrowed(&body)).unwrap();
    assert!(!is_inside(&body, &push.payloads[0]));
}

#[test]
fn ack_takes_the_documented_shape() {
    let body = "{\"queue\":\"q\",\"group\":\"g\",\"acks\":[\
                {\"id\":\"e:1:p:0\",\"status\":\"retry\",\"error\":{\"any\":[1]}},\
                {\"id\":\"a\\\"b\"},{\"id\":\"\",\"status\":null,\"error\":5}]}";
    let ack = ack(body).unwrap();
    assert_eq!(ack.group.as_str(), "g");
    let ids: Vec<&str> = ack.acks.iter().map(|ack| &*ack.id).collect();
    assert_eq!(ids, ["e:1:p:0", "a\"b", ""]);
    let verdicts: Vec<Verdict> = ack.acks.iter().map(|ack| ack.verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Retry, Verdict::Completed, Verdict::Completed]
    );
}

#[test]
fn only_four_words_complete() {
    for (status, verdict) in [
        ("completed", Verdict::Completed),
        ("success", Verdict::Completed),
        ("acked", Verdict::Completed),
        ("ok", Verdict::Completed),
        ("retry", Verdict::Retry),
        ("failed", Verdict::Retry),
        ("dlq", Verdict::Retry),
        ("COMPLETED", Verdict::Retry),
        ("", Verdict::Retry),
    ] {
        let body =
            format!("{{\"queue\":\"q\",\"acks\":[{{\"id\":\"i\",\"status\":\"{status}\"}}]}}");
        assert_eq!(ack(&body).unwrap().acks[0].verdict, verdict, "{status}");
    }
}

#[test]
fn an_absent_group_is_the_shared_cursor() {
    for group in ["", "\"group\":null,", "\"group\":\"\","] {
        let body = format!("{{{group}\"queue\":\"q\",\"acks\":[]}}");
        let ack = ack(&body).unwrap();
        assert_eq!(ack.group.as_str(), "__QUEUE_MODE__");
        assert!(ack.acks.is_empty());
    }
}

#[test]
fn malformed_acks() {
    for (body, part) in [
        ("", "a JSON body is required"),
        ("{\"queue\":\"q\"}", "acks is required"),
        ("{\"acks\":[]}", "queue is required"),
        (
            "{\"queue\":\"q\",\"acks\":[{\"status\":\"ok\"}]}",
            "acks[0] has no id",
        ),
        ("{\"queue\":\"q\",\"acks\":[{\"id\":5}]}", "a string as id"),
        (
            "{\"queue\":\"q\",\"acks\":[{\"id\":null}]}",
            "a string as id",
        ),
        (
            "{\"queue\":\"q\",\"acks\":[{\"id\":\"i\",\"status\":1}]}",
            "as status",
        ),
        (
            "{\"queue\":\"q\",\"acks\":[{\"id\":\"i\",\"id\":\"i\"}]}",
            "duplicate key \"id\"",
        ),
        ("{\"queue\":\"q\",\"acks\":[\"i\"]}", "an item of acks"),
        ("{\"queue\":\"q\",\"group\":1,\"acks\":[]}", "as group"),
    ] {
        let text = refusal_text(ack(body).map(|ack| panic!("{ack:?}")).unwrap_err());
        assert!(text.contains(part), "{body}: {text}");
    }
    let items = vec!["{\"id\":\"i\"}"; limits::BATCH_ITEMS_MAX + 1].join(",");
    let body = format!("{{\"queue\":\"q\",\"acks\":[{items}]}}");
    assert!(refusal_text(ack(&body).unwrap_err()).contains("more than 10000"));
}

#[test]
fn configure_without_options_takes_the_defaults() {
    for body in [
        "{\"queue\":\"q\"}",
        "{\"queue\":\"q\",\"options\": null }",
        "{\"queue\":\"q\",\"options\":{}}",
    ] {
        let configure = configure(body).unwrap();
        assert_eq!(configure.options, QueueOptions::default());
        assert_eq!(configure.options_as_sent, "{}");
    }
}

#[test]
fn configure_reads_all_options_and_keeps_their_text() {
    let sent = "{ \"maxLength\":7, \"maxBytes\":99999999999999999999999, \
                \"policy\":\"drop\\u004fldest\",\"ttlSeconds\":300,\"leaseSeconds\":2,\
                \"retryLimit\":0,\"windowBuffer\":{\"count\":5} }";
    let body = format!("{{\"options\": {sent} ,\"queue\":\"q\",\"x\":1}}");
    let configure = configure(&body).unwrap();
    assert_eq!(configure.options_as_sent, sent);
    assert_eq!(
        configure.options,
        QueueOptions {
            max_bytes: Some(u64::MAX),
            max_length: Some(7),
            policy: Policy::DropOldest,
            ttl_ms: Some(300_000),
            lease_ms: Some(2_000),
            retry_limit: Some(0),
            window_buffer: WindowBuffer { ms: 0, count: 5 },
        }
    );
}

#[test]
fn null_and_zero_options() {
    let nulls = "{\"maxBytes\":null,\"maxLength\":null,\"ttlSeconds\":null,\
                 \"leaseSeconds\":null,\"retryLimit\":null,\"windowBuffer\":null}";
    assert_eq!(options(nulls), Ok(QueueOptions::default()));
    let zeros = "{\"maxBytes\":0,\"maxLength\":0,\"ttlSeconds\":0,\"leaseSeconds\":0,\
                 \"windowBuffer\":{\"ms\":null,\"count\":0}}";
    assert_eq!(options(zeros), Ok(QueueOptions::default()));
}

#[test]
fn unknown_options_are_named() {
    let named = |text: &str| match options(text).unwrap_err() {
        Refusal::BadRequest {
            text,
            reason: Some(reason),
            field: Some(field),
        } => {
            assert!(text.contains(&field), "{text}");
            (reason, field)
        }
        other => panic!("{other:?}"),
    };
    let unknown = |field: &str| ("unknown_option", field.to_owned());
    assert_eq!(named("{\"ttlSecond\":1}"), unknown("options.ttlSecond"));
    assert_eq!(named("{\"ttl\":1}"), unknown("options.ttl"));
    assert_eq!(named("{\"MaxBytes\":1}"), unknown("options.MaxBytes"));
    assert_eq!(
        named("{\"windowBuffer\":{\"ms\":1,\"size\":{\"a\":1}}}"),
        unknown("options.windowBuffer.size")
    );
    for key in ["onExpired", "expiredQueue"] {
        let (reason, field) = named(&format!("{{\"{key}\":\"dlq\"}}"));
        assert_eq!(reason, "option_not_on_class");
        assert_eq!(field, format!("options.{key}"));
    }
    let (_, field) = named(&format!("{{\"{}\":1}}", "k".repeat(10_000)));
    assert!(field.len() < 100);
}

#[test]
fn malformed_options() {
    for key in ["maxBytes", "maxLength", "leaseSeconds", "retryLimit"] {
        for value in ["-1", "1.5", "5.0", "1e3", "\"5\"", "true", "[]", "{}"] {
            let refusal = options(&format!("{{\"{key}\":{value}}}")).unwrap_err();
            let text = refusal_text(refusal);
            assert!(text.contains(&format!("options.{key} must be")), "{text}");
        }
    }
    for value in ["null", "\"REJECT\"", "\"\"", "1", "true"] {
        let refusal = options(&format!("{{\"policy\":{value}}}")).unwrap_err();
        assert!(refusal_text(refusal).contains("options.policy must be"));
    }
    for (text, part) in [
        ("[]", "options is not valid"),
        ("\"x\"", "options is not valid"),
        (
            "{\"policy\":\"reject\",\"policy\":\"reject\"}",
            "duplicate key \"policy\"",
        ),
        ("{\"windowBuffer\":5}", "options.windowBuffer is not valid"),
        (
            "{\"windowBuffer\":[1,2]}",
            "options.windowBuffer is not valid",
        ),
        (
            "{\"windowBuffer\":{\"ms\":-1}}",
            "options.windowBuffer.ms must be",
        ),
        (
            "{\"windowBuffer\":{\"ms\":1,\"ms\":1}}",
            "duplicate key \"ms\"",
        ),
    ] {
        let text = refusal_text(options(text).unwrap_err());
        assert!(text.contains(part), "{text}");
    }
    let refusal = configure("{\"options\":{}}").unwrap_err();
    assert_eq!(refusal_text(refusal), "queue is required");
}

#[test]
fn faults_of_a_ttl_have_a_reason() {
    for (value, expected) in [
        ("\"60\"", "ttl_not_integer"),
        ("5.0", "ttl_not_integer"),
        ("1e3", "ttl_not_integer"),
        ("-1.5", "ttl_not_integer"),
        ("true", "ttl_not_integer"),
        ("[]", "ttl_not_integer"),
        ("-1", "ttl_negative"),
        ("315360001", "ttl_too_large"),
        ("99999999999999999999999999999999", "ttl_too_large"),
    ] {
        match options(&format!("{{\"ttlSeconds\":{value}}}")).unwrap_err() {
            Refusal::BadRequest { reason, field, .. } => {
                assert_eq!(reason, Some(expected), "{value}");
                assert_eq!(field.as_deref(), Some("options.ttlSeconds"));
            }
            other => panic!("{other:?}"),
        }
    }
    let longest = options("{\"ttlSeconds\":315360000}").unwrap();
    assert_eq!(longest.ttl_ms, Some(limits::TTL_MS_MAX));
}

#[test]
fn reset_reads_a_queue() {
    let reset = |body: &'static str| {
        configure::decode_reset(BodyBytes::borrowed(body.as_bytes()))
            .map(|queue| queue.as_str().to_owned())
            .map_err(refusal_text)
    };
    assert_eq!(reset("{\"queue\":\"q\",\"more\":1}"), Ok("q".to_owned()));
    assert_eq!(reset("{}"), Err("queue is required".to_owned()));
    assert_eq!(reset(""), Err("a JSON body is required".to_owned()));
}

#[test]
fn a_plain_pop() {
    let pop = pop("queue=inbox").unwrap();
    assert_eq!(pop.queue.as_str(), "inbox");
    assert_eq!(pop.partition, None);
    assert_eq!(pop.group.as_str(), "__QUEUE_MODE__");
    assert_eq!((pop.batch, pop.wait_ms, pop.auto_ack), (1, None, false));
}

#[test]
fn a_full_pop_in_both_encodings_of_a_space() {
    for query in [
        "queue=a%20b&partition=p%2F1&batch=10&wait=true&timeout=2000&group=g%26h&autoAck=true",
        "autoAck=1&group=g%26h&x=y&timeout=2000&wait=1&batch=10&partition=p/1&queue=a+b",
        "queue=a+b&partition=p/1&batch=10&wait=true&timeout=2000&group=g%26h&commitOnDelivery=true",
    ] {
        let pop = pop(query).unwrap();
        assert_eq!(pop.queue.as_str(), "a b");
        assert_eq!(pop.partition.unwrap().as_str(), "p/1");
        assert_eq!(pop.group.as_str(), "g&h");
        assert_eq!(
            (pop.batch, pop.wait_ms, pop.auto_ack),
            (10, Some(2_000), true)
        );
    }
}

#[test]
fn pop_values_are_clamped_or_fall_back() {
    let batch = |value: &str| pop(&format!("queue=q&batch={value}")).map(|pop| pop.batch);
    assert_eq!(batch("0"), Ok(1));
    assert_eq!(batch("-7"), Ok(1));
    assert_eq!(batch("10001"), Ok(10_000));
    assert_eq!(batch("99999999999999999999999"), Ok(10_000));
    assert_eq!(batch("many"), Ok(1));
    assert_eq!(batch(""), Ok(1));
    let wait = |value: &str| pop(&format!("queue=q&wait=true{value}")).map(|pop| pop.wait_ms);
    assert_eq!(wait(""), Ok(Some(30_000)));
    assert_eq!(wait("&timeout=soon"), Ok(Some(30_000)));
    assert_eq!(wait("&timeout=300001"), Ok(Some(300_000)));
    assert_eq!(wait("&timeout=99999999999999999999999"), Ok(Some(300_000)));
    assert_eq!(wait("&timeout=0"), Ok(None));
    assert_eq!(wait("&timeout=-1"), Ok(None));
    for value in ["false", "TRUE", "yes", "", "0"] {
        let query = format!("queue=q&wait={value}&autoAck={value}&commitOnDelivery={value}");
        let pop = pop(&query).unwrap();
        assert_eq!((pop.wait_ms, pop.auto_ack), (None, false), "{value}");
    }
    let empty = pop("queue=q&partition=&group=").unwrap();
    assert_eq!(empty.partition, None);
    assert_eq!(empty.group.as_str(), "__QUEUE_MODE__");
}

#[test]
fn malformed_pops() {
    for (query, part) in [
        ("", "queue is required"),
        ("queue=", "queue must not be empty"),
        ("queue=a%01", "queue must not contain control"),
        ("queue=q&partition=%0a", "partition must not"),
        ("queue=q&group=%0a", "group must not"),
        ("queue=q&batch=%zz", "the query is malformed"),
        ("queue=%ff", "the query is malformed"),
        ("queue=q&queue=q", "the query has queue more than once"),
        (
            "queue=q&timeout=1&timeout=2",
            "the query has timeout more than once",
        ),
    ] {
        let text = refusal_text(pop(query).map(|pop| panic!("{pop:?}")).unwrap_err());
        assert!(text.contains(part), "{query}: {text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_value_is_pushed_byte_for_byte(values in prop::collection::vec(any_json(), 0..4), pretty: bool) {
        let texts: Vec<String> = values
            .iter()
            .map(|value| if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) })
            .collect::<Result<_, _>>()
            .unwrap();
        let items: Vec<String> = texts.iter().map(|text| format!("{{\"payload\":{text}}}")).collect();
        let body = Bytes::from(format!("{{\"queue\":\"q\",\"messages\":[{}]}}", items.join(",")));
        let push = push::decode(BodyBytes::owned(&body)).unwrap();
        prop_assert_eq!(push.payloads, texts);
    }

    #[test]
    fn no_body_makes_a_decoder_panic(body in any::<Vec<u8>>()) {
        let body = BodyBytes::borrowed(&body);
        let _ = push::decode(body);
        let _ = ack::decode(body);
        let _ = configure::decode(body);
        let _ = configure::decode_reset(body);
        let _ = decode_pause(body);
    }
}
