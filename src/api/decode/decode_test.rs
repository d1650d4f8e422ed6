use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::http::{FieldSlots, HeadScan, ParsedHead, parse_head};

pub(super) const RULES: DecodeRules<'static> = DecodeRules {
    tenancy: false,
    admits: &|_| Ok(()),
    pop_default_timeout_ms: 30_000,
    authenticator: None,
};

/// Decodes a request and looks at the outcome, which borrows from it.
pub(super) fn request<T>(
    line: &str,
    body: &[u8],
    rules: &DecodeRules<'_>,
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

pub(super) fn refusal_text(refusal: Refusal) -> String {
    match refusal {
        Refusal::BadRequest { text, .. } => text,
        other => panic!("{other:?}"),
    }
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
    assert_eq!(kind("DELETE /api/v1/ephemeral/queue"), "NoSuchRoute");
    assert!(kind("DELETE /api/v1/ephemeral/queue/").contains("queue must not be empty"));
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
        admits: &|_| Err(Refusal::Paused),
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
            assert!(matches!(&command, Command::Push(push) if push.payloads.is_empty()));
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn the_tenant_is_judged_before_everything_but_the_form_of_a_push() {
    const OTHER: &str = "00000000-0000-0000-0000-000000000002";
    let gated = Refusal::FeatureGated { text: "x" };
    let rules = DecodeRules {
        admits: &|tenant| match tenant {
            TenantId::DEFAULT => Err(Refusal::FeatureGated { text: "x" }),
            other => panic!("{other}"),
        },
        ..RULES
    };
    let refused = |line: &str, body: &str| {
        request(line, body.as_bytes(), &rules, |call| match call {
            Err(ApiFault::Refused(refusal)) => refusal,
            other => panic!("{line}: {other:?}"),
        })
    };
    for line in [
        "GET /api/v1/ephemeral/pop",
        "POST /api/v1/ephemeral/ack",
        "POST /api/v1/ephemeral/configure",
        "POST /api/v1/ephemeral/reset",
        "DELETE /api/v1/ephemeral/queue/%ff",
        "GET /api/v1/ephemeral/queues",
        "GET /api/v1/ephemeral/queues/%ff/depth",
    ] {
        assert_eq!(refused(line, "{"), gated, "{line}");
    }
    let push = "POST /api/v1/ephemeral/push";
    for body in ["{", "{\"queue\":\"\",\"messages\":[{\"payload\":1}]}"] {
        assert!(matches!(refused(push, body), Refusal::BadRequest { .. }));
    }
    let full = "{\"queue\":\"q\",\"messages\":[{\"payload\":1}]}";
    assert_eq!(refused(push, full), gated);
    let empty = b"{\"queue\":\"q\",\"messages\":[]}";
    request(push, empty, &rules, |call| assert!(call.is_ok()));
    for line in [
        "GET /health",
        "GET /metrics",
        "GET /api/v1/system/ephemeral",
    ] {
        request(line, b"", &rules, |call| assert!(call.is_ok(), "{line}"));
    }
    // Whoever is asked about is the tenant that the request names.
    let named = DecodeRules {
        tenancy: true,
        admits: &|tenant| {
            assert_eq!(tenant.to_string(), OTHER);
            Err(Refusal::FeatureGated { text: "x" })
        },
        ..RULES
    };
    let line = "GET /api/v1/ephemeral/queues";
    let bytes = format!("{line} HTTP/1.1\r\nhost: a\r\nx-queen-tenant: {OTHER}\r\n\r\n");
    let mut slots = FieldSlots::new();
    match parse_head(bytes.as_bytes(), &mut HeadScan::default(), &mut slots) {
        ParsedHead::Complete { head, .. } => {
            let call = decode(&head, BodyBytes::borrowed(b""), &named);
            assert!(matches!(call, Err(ApiFault::Refused(refusal)) if refusal == gated));
        }
        other => panic!("{other:?}"),
    }
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

proptest! {
    #[test]
    fn no_body_makes_a_decoder_panic(body in any::<Vec<u8>>()) {
        let body = BodyBytes::borrowed(&body);
        let _ = push::decode(body);
        let _ = ack::decode(body);
        let _ = configure::decode(body);
        let _ = configure::decode_reset(body);
        let _ = pause::decode(body);
    }
}
