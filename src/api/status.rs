//! What was refused, as status, code and body.

use std::borrow::Cow;

use bytes::BytesMut;
use uuid::Uuid;

use super::JSON;
use super::durable_fault::{DurableFault, DurableFaultKind, DurableShape};
use super::encode::{Shape, write_leg};
use super::write_json::{put, put_member, put_text};
use crate::auth::AuthFault;
use crate::http::{Fault, ResponseHead, ResponseStyle, write_response};
use crate::model::Refusal;
use crate::model::durable::Unopened;

/// Why a request did not become a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// This broker does not have the method at all (RFC 9110 section 15.6.2).
    MethodUnknown,
    /// The path is there, but not with this method (RFC 9110 section 15.5.6).
    MethodNotAllowed {
        /// The value of `Allow`.
        allow: &'static str,
    },
    /// There is no such path.
    NoSuchRoute,
    /// It is not known who asks, or that one may not.
    Auth(AuthFault),
    /// The body of a system route cannot be understood.
    BadSystemRequest(String),
    /// A command of the ephemeral class was refused.
    Refused(Refusal),
    /// A request of the durable class was refused.
    Durable(DurableFault),
}

/// An error answer.
struct ErrorAnswer<'a> {
    status: u16,
    code: &'a str,
    text: Cow<'a, str>,
    reason: Option<&'a str>,
    field: Option<&'a str>,
    retry_after_s: Option<u64>,
    allow: Option<&'static str>,
    challenge: Option<&'static str>,
    dress: Dress,
}

/// What stands around text and code.
#[derive(Clone, Copy, Debug)]
enum Dress {
    /// Nothing.
    Plain,
    /// An answer to a pop that has no messages.
    Pop,
    /// An answer to a step that did nothing.
    Step(Uuid),
    /// The code stands for the text, which is a detail.
    Detail,
}

impl<'a> ErrorAnswer<'a> {
    fn new(status: u16, code: &'a str, text: impl Into<Cow<'a, str>>) -> ErrorAnswer<'a> {
        ErrorAnswer {
            status,
            code,
            text: text.into(),
            reason: None,
            field: None,
            retry_after_s: None,
            allow: None,
            challenge: None,
            dress: Dress::Plain,
        }
    }

    fn retry_after(self, seconds: u64) -> ErrorAnswer<'a> {
        ErrorAnswer {
            retry_after_s: Some(seconds),
            ..self
        }
    }

    fn write(&self, shape: Shape, out: &mut BytesMut) {
        let style = match shape {
            Shape::Response(style) => style,
            Shape::Leg => return write_leg(self.status, out, |out| self.put_body(true, out)),
        };
        let head = ResponseHead {
            retry_after_s: self.retry_after_s,
            allow: self.allow,
            challenge: self.challenge,
            ..ResponseHead::new(self.status, JSON, style)
        };
        write_response(out, &head, |out| self.put_body(false, out));
    }

    /// A leg of an exchange has no head for what is told there.
    fn put_body(&self, is_leg: bool, out: &mut BytesMut) {
        put(out, "{");
        match self.dress {
            Dress::Plain | Dress::Detail => {}
            Dress::Pop => put(out, "\"success\":false,"),
            Dress::Step(id) => put_step(out, id, self.code),
        }
        let (error, detail) = match self.dress {
            Dress::Detail => (self.code, Some(&*self.text)),
            Dress::Plain | Dress::Pop | Dress::Step(_) => (&*self.text, None),
        };
        put(out, "\"error\":");
        put_text(out, error);
        put(out, ",\"code\":");
        put_text(out, self.code);
        let extras = [
            ("reason", self.reason),
            ("field", self.field),
            ("detail", detail),
        ];
        for (key, value) in extras {
            if let Some(value) = value {
                put(out, ",\"");
                put(out, key);
                put(out, "\":");
                put_text(out, value);
            }
        }
        if let Some(seconds) = self.retry_after_s.filter(|_| is_leg) {
            put_member(out, "retryAfter", seconds);
        }
        match self.dress {
            Dress::Plain | Dress::Detail => put(out, "}"),
            Dress::Pop => put(out, ",\"messages\":[]}"),
            Dress::Step(_) => put(out, ",\"results\":[]}"),
        }
    }
}

/// Appends the start of an answer to a step that did nothing.
fn put_step(out: &mut BytesMut, id: Uuid, reason: &str) {
    put(out, "\"transactionId\":");
    put_text(
        out,
        id.hyphenated().encode_lower(&mut Uuid::encode_buffer()),
    );
    put(out, ",\"success\":false,\"reason\":");
    put_text(out, reason);
    put(out, ",");
}

/// Appends the answer to bytes that are not a request.
pub fn encode_fault(fault: &Fault, style: ResponseStyle, out: &mut BytesMut) {
    ErrorAnswer::new(fault.status, fault.code, fault.text).write(Shape::Response(style), out);
}

/// Appends the answer to a request that did not become a call.
pub fn encode_api_fault(fault: &ApiFault, style: ResponseStyle, out: &mut BytesMut) {
    let answer = match fault {
        ApiFault::MethodUnknown => ErrorAnswer::new(
            501,
            "method_not_implemented",
            "this broker does not have the method",
        ),
        ApiFault::MethodNotAllowed { allow } => ErrorAnswer {
            allow: Some(allow),
            ..ErrorAnswer::new(
                405,
                "method_not_allowed",
                "the route does not take the method; the header allow names those it takes",
            )
        },
        ApiFault::NoSuchRoute => ErrorAnswer::new(404, "no_such_route", "there is no such route"),
        ApiFault::Auth(fault) => return encode_auth_fault(*fault, style, out),
        ApiFault::BadSystemRequest(text) => ErrorAnswer::new(400, "bad_request", text),
        ApiFault::Refused(refusal) => return encode_refusal(refusal, style, out),
        ApiFault::Durable(fault) => return encode_durable_fault(fault, style, out),
    };
    answer.write(Shape::Response(style), out);
}

/// The challenges are those of RFC 6750 section 3, the status of a field that cannot be read excepted:
/// there is no token in it either.
fn encode_auth_fault(fault: AuthFault, style: ResponseStyle, out: &mut BytesMut) {
    let (status, code, challenge) = match fault {
        AuthFault::Missing => (401, "unauthorized", "Bearer realm=\"queen\""),
        AuthFault::MalformedHeader => {
            let challenge = "Bearer realm=\"queen\", error=\"invalid_request\"";
            (401, "unauthorized", challenge)
        }
        AuthFault::TooLong
        | AuthFault::Malformed
        | AuthFault::Claim(_)
        | AuthFault::OtherAlgorithm
        | AuthFault::Signature
        | AuthFault::WrongIssuer
        | AuthFault::WrongAudience
        | AuthFault::Expired
        | AuthFault::NotYetValid => {
            let challenge = "Bearer realm=\"queen\", error=\"invalid_token\"";
            (401, "unauthorized", challenge)
        }
        AuthFault::Forbidden { .. } => {
            let challenge = "Bearer realm=\"queen\", error=\"insufficient_scope\"";
            (403, "forbidden", challenge)
        }
    };
    let answer = ErrorAnswer {
        challenge: Some(challenge),
        ..ErrorAnswer::new(status, code, fault.to_string())
    };
    answer.write(Shape::Response(style), out);
}

/// Appends the answer to a command that was refused.
pub fn encode_refusal(refusal: &Refusal, style: ResponseStyle, out: &mut BytesMut) {
    put_refusal(refusal, Shape::Response(style), out);
}

pub(super) fn put_refusal(refusal: &Refusal, shape: Shape, out: &mut BytesMut) {
    refusal_answer(refusal).write(shape, out);
}

/// Appends the refusal of a pop of the durable class.
pub(super) fn put_refused_pop(refusal: &Refusal, style: ResponseStyle, out: &mut BytesMut) {
    let answer = ErrorAnswer {
        dress: Dress::Pop,
        ..refusal_answer(refusal)
    };
    answer.write(Shape::Response(style), out);
}

fn encode_durable_fault(fault: &DurableFault, style: ResponseStyle, out: &mut BytesMut) {
    let text = fault.text.as_str();
    let dress = match fault.shape {
        DurableShape::Plain => Dress::Plain,
        DurableShape::Pop => Dress::Pop,
        DurableShape::Step(id) => Dress::Step(id),
    };
    let plain = |status, code| ErrorAnswer {
        dress,
        ..ErrorAnswer::new(status, code, text)
    };
    // Keys and timers tell what is wrong in a way of their own.
    let away = |code| ErrorAnswer {
        dress: Dress::Detail,
        reason: Some(code),
        ..ErrorAnswer::new(503, code, text).retry_after(1)
    };
    let answer = match fault.kind {
        DurableFaultKind::BadRequest => plain(400, "bad_request"),
        DurableFaultKind::NameTooLong => plain(400, "name_too_long"),
        DurableFaultKind::BadTenant => plain(400, "bad_tenant"),
        DurableFaultKind::MediaType => plain(415, "unsupported_media_type"),
        DurableFaultKind::KeysAway => away("kv_unavailable"),
        DurableFaultKind::TimersAway => away("timers_unavailable"),
    };
    answer.write(Shape::Response(style), out);
}

fn refusal_answer(refusal: &Refusal) -> ErrorAnswer<'_> {
    match refusal {
        Refusal::BadRequest {
            text,
            reason,
            field,
        } => ErrorAnswer {
            reason: *reason,
            field: field.as_deref(),
            ..ErrorAnswer::new(400, "ephemeral_bad_request", text)
        },
        Refusal::QueueFull {
            queue,
            bound,
            limit,
        } => queue_full(full_text(queue, bound, *limit)),
        Refusal::NeverFits {
            queue,
            bound,
            limit,
            wanted,
        } => never_fits(queue, (bound, *limit), *wanted),
        Refusal::QuotaExceeded { text } => ErrorAnswer::new(403, "ephemeral_quota_exceeded", *text),
        Refusal::FeatureGated { text } => ErrorAnswer::new(403, "feature_gated", *text),
        Refusal::RateLimited { retry_after_s } => {
            let text = "the tenant pushes more messages a second than its grant or, without one, \
                        QUEEN_EPHEMERAL_RATE allows; retry after the time that the header \
                        retry-after gives";
            ErrorAnswer::new(429, "rate_limited", text).retry_after((*retry_after_s).max(1))
        }
        Refusal::Unavailable { text } => ErrorAnswer::new(503, "ephemeral_unavailable", *text),
        Refusal::DatabaseAway { reason } => {
            let text = format!(
                "declarations cannot be stored now: {reason}; queues go on as they are; retry \
                 once GET /health says healthy"
            );
            ErrorAnswer::new(503, "ephemeral_unavailable", text)
        }
        Refusal::StoreFailed { removal, reason } => store_failed(*removal, reason),
        Refusal::DurableAway { reason, uncertain } => {
            let code = if *uncertain {
                "outcome_unknown"
            } else {
                "durable_unavailable"
            };
            ErrorAnswer::new(503, code, reason.as_str()).retry_after(1)
        }
        Refusal::DurableFailed { reason } => {
            ErrorAnswer::new(500, "durable_failed", reason.as_str())
        }
        Refusal::Unopened { message, why } => {
            let text = format!("{message} {}; nothing has changed", why.text());
            ErrorAnswer::new(500, unopened_code(*why), text)
        }
        Refusal::Overloaded { text } => ErrorAnswer::new(429, "overloaded", *text).retry_after(1),
        Refusal::Paused => {
            let text = "ephemeral queues are paused by the operator; retry later";
            ErrorAnswer::new(503, "ephemeral_disabled", text).retry_after(1)
        }
        Refusal::QueueNotFound { queue } => {
            let text = format!("queue {queue:?} does not exist");
            ErrorAnswer::new(404, "ephemeral_queue_not_found", text)
        }
    }
}

/// The word for an encrypted message that cannot be read.
pub(super) fn unopened_code(why: Unopened) -> &'static str {
    match why {
        Unopened::NoKey | Unopened::OtherKey => "wrong_encryption_key",
        Unopened::Damaged => "message_damaged",
    }
}

fn full_text(queue: &str, bound: &str, limit: u64) -> String {
    // A durable queue drops nothing.
    let policy = match bound {
        "maxSize" => "",
        _ => " or with policy dropOldest",
    };
    format!(
        "queue {queue:?} is full ({bound} {limit}); retry once messages were consumed, or \
         configure it with a larger {bound}{policy}"
    )
}

/// What can never fit is told so that nobody tries again.
fn never_fits(queue: &str, (bound, limit): (&str, u64), wanted: u64) -> ErrorAnswer<'static> {
    let text = |evicted: &str| {
        format!(
            "the push needs {bound} {wanted} but queue {queue:?} has {limit} in all: it can never \
             fit and must not be retried; {evicted}split it or configure the queue with a larger \
             {bound}"
        )
    };
    match bound {
        "maxSize" => ErrorAnswer::new(429, "queue_full", text("")),
        _ => queue_full(text("nothing was evicted for it; ")),
    }
}

fn queue_full(text: String) -> ErrorAnswer<'static> {
    ErrorAnswer::new(429, "queue_full", text).retry_after(1)
}

fn store_failed(removal: bool, reason: &str) -> ErrorAnswer<'static> {
    let code = if removal {
        "ephemeral_delete_failed"
    } else {
        "ephemeral_configure_failed"
    };
    let text = format!("the database refuses the declaration and nothing changed: {reason}");
    ErrorAnswer::new(500, code, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    const STYLE: ResponseStyle = ResponseStyle {
        http_1_0: false,
        keep_alive: true,
        head_only: false,
    };

    fn refused(refusal: &Refusal) -> (String, Value) {
        let mut out = BytesMut::new();
        encode_api_fault(&ApiFault::Refused(refusal.clone()), STYLE, &mut out);
        split(&out)
    }

    fn split(out: &[u8]) -> (String, Value) {
        let text = std::str::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), serde_json::from_str(body).unwrap())
    }

    /// Status, code and `retry-after` of a refusal, whose body has nothing but a code and a text.
    fn assert_answer(refusal: Refusal, status: u16, code: &str, retry_after: Option<&str>) {
        let (head, body) = refused(&refusal);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(body["code"], code);
        assert!(!body["error"].as_str().unwrap().is_empty());
        assert_eq!(body.as_object().unwrap().len(), 2);
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix("retry-after: "));
        assert_eq!(line, retry_after);
    }

    #[test]
    fn refusals_for_what_was_asked_have_their_status_code_and_advice() {
        let queue: Arc<str> = Arc::from("in\"box");
        let text = "x";
        let full = Refusal::QueueFull {
            queue: Arc::clone(&queue),
            bound: "maxLength",
            limit: 2,
        };
        let never = Refusal::NeverFits {
            queue: Arc::clone(&queue),
            bound: "maxBytes",
            limit: 10,
            wanted: 11,
        };
        let bad = Refusal::bad_request("x");
        assert_answer(bad, 400, "ephemeral_bad_request", None);
        assert_answer(full, 429, "queue_full", Some("1"));
        assert_answer(never, 429, "queue_full", Some("1"));
        let quota = Refusal::QuotaExceeded { text };
        assert_answer(quota, 403, "ephemeral_quota_exceeded", None);
        let gated = Refusal::FeatureGated { text };
        assert_answer(gated, 403, "feature_gated", None);
        for (retry_after_s, shown) in [(7, "7"), (0, "1")] {
            let limited = Refusal::RateLimited { retry_after_s };
            assert_answer(limited, 429, "rate_limited", Some(shown));
        }
        let missing = Refusal::QueueNotFound { queue };
        assert_answer(missing, 404, "ephemeral_queue_not_found", None);
    }

    #[test]
    fn refusals_for_the_broker_s_state_have_their_status_code_and_advice() {
        let text = "x";
        let unavailable = Refusal::Unavailable { text };
        assert_answer(unavailable, 503, "ephemeral_unavailable", None);
        let overloaded = Refusal::Overloaded { text };
        assert_answer(overloaded, 429, "overloaded", Some("1"));
        assert_answer(Refusal::Paused, 503, "ephemeral_disabled", Some("1"));
        let reason = || "x".to_owned();
        let away = Refusal::DatabaseAway { reason: reason() };
        assert_answer(away, 503, "ephemeral_unavailable", None);
        for (removal, code) in [
            (false, "ephemeral_configure_failed"),
            (true, "ephemeral_delete_failed"),
        ] {
            let reason = reason();
            assert_answer(Refusal::StoreFailed { removal, reason }, 500, code, None);
        }
    }

    #[test]
    fn what_never_fits_says_so() {
        let (_, body) = refused(&Refusal::NeverFits {
            queue: Arc::from("q"),
            bound: "maxBytes",
            limit: 10,
            wanted: 11,
        });
        let text = body["error"].as_str().unwrap();
        assert!(text.contains("can never fit and must not be retried"));
        assert!(text.contains("maxBytes 11") && text.contains("10"));
    }

    #[test]
    fn reason_and_field_stand_beside_the_code() {
        let (_, body) = refused(&Refusal::BadRequest {
            text: "no".to_owned(),
            reason: Some("ttl_negative"),
            field: Some("options.ttlSeconds".to_owned()),
        });
        assert_eq!(
            body,
            json!({
                "error": "no",
                "code": "ephemeral_bad_request",
                "reason": "ttl_negative",
                "field": "options.ttlSeconds",
            })
        );
    }

    #[test]
    fn faults_of_routing_and_of_bytes() {
        let mut out = BytesMut::new();
        encode_fault(&Fault::BODY_TOO_LARGE, STYLE, &mut out);
        let (head, body) = split(&out);
        assert!(head.starts_with("HTTP/1.1 413 "));
        assert_eq!(body["code"], Fault::BODY_TOO_LARGE.code);
        for (fault, status, code) in [
            (ApiFault::MethodUnknown, 501, "method_not_implemented"),
            (ApiFault::NoSuchRoute, 404, "no_such_route"),
            (
                ApiFault::MethodNotAllowed { allow: "GET" },
                405,
                "method_not_allowed",
            ),
            (
                ApiFault::BadSystemRequest("x".to_owned()),
                400,
                "bad_request",
            ),
        ] {
            out.clear();
            encode_api_fault(&fault, STYLE, &mut out);
            let (head, body) = split(&out);
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            assert_eq!(head.contains("\r\nallow: GET"), status == 405, "{head}");
            assert_eq!(body["code"], code);
        }
    }
}
