//! Requests of the durable class: one file for each verb. What comes out owns its parts, because it
//! travels to the engine's core. The one place where decoding is not a pure function: whoever names no
//! id gets one.

mod ack;
mod admin;
mod configure;
mod extend;
mod pop;
mod push;
mod step;

use std::borrow::Cow;
use std::sync::Arc;

pub(super) use admin::decode_traces;

use serde_json::value::RawValue;
use uuid::{NoContext, Timestamp, Uuid};

use super::nesting::is_deeper_than;
use super::{BodyBytes, Call, DecodeRules, segment_text};
use crate::api::durable_fault::{DurableFault, DurableFaultKind, DurableShape};
use crate::api::routes::DurableRoute;
use crate::auth::{self, Principal};
use crate::http::Head;
use crate::limits;
use crate::model::durable::{
    Command, DEFAULT_PARTITION, PushItem, QUEUE_MODE_GROUP, Source, StepOperation,
};
use crate::model::{NameFault, QueueName};

/// A form of pushes that the published clients know and that has to be asked for.
const BINARY_PUSH: &str = "application/x-queen-push";

/// Decodes a request of the durable class.
pub(super) fn decode<'a>(
    route: DurableRoute<'a>,
    head: &Head<'a>,
    body: BodyBytes<'a>,
    rules: &DecodeRules<'_>,
    principal: &Principal,
) -> Result<Call<'a>, DurableFault> {
    let tenant = auth::tenant(head, rules.tenancy)
        .map_err(|fault| DurableFault::new(DurableFaultKind::BadTenant, fault.to_string()));
    let decoded = tenant.and_then(|tenant| {
        let mut command = decode_command(route, head, body, rules)?;
        if let Some(subject) = principal.subject() {
            stamp_producer(&mut command, subject);
        }
        Ok(Call::Durable { tenant, command })
    });
    decoded.map_err(|fault| fault.shaped(shape_of(route)))
}

/// Each message names who has sent it, if that is known.
fn stamp_producer(command: &mut Command, producer: &Arc<str>) {
    let stamp = |item: &mut PushItem| item.producer = Some(Arc::clone(producer));
    match command {
        Command::Push(items) => items.iter_mut().for_each(stamp),
        Command::Step(step) => {
            let pushes = step
                .operations
                .iter_mut()
                .filter_map(|operation| match operation {
                    StepOperation::Push(item) => Some(item),
                    StepOperation::Ack(_) => None,
                });
            pushes.for_each(stamp);
        }
        Command::Configure(_)
        | Command::Delete { .. }
        | Command::Pop(_)
        | Command::Ack(_)
        | Command::Extend(_)
        | Command::Administer(_)
        | Command::Release { .. }
        | Command::Abandon { .. } => {}
    }
}

fn shape_of(route: DurableRoute<'_>) -> DurableShape {
    match route {
        DurableRoute::Discover | DurableRoute::Pop(_) | DurableRoute::PopPartition { .. } => {
            DurableShape::Pop
        }
        DurableRoute::Step => DurableShape::Step(new_id()),
        DurableRoute::Configure
        | DurableRoute::Queue(_)
        | DurableRoute::Push
        | DurableRoute::Ack
        | DurableRoute::AckBatch
        | DurableRoute::Extend(_)
        | DurableRoute::Admin(_) => DurableShape::Plain,
    }
}

fn decode_command(
    route: DurableRoute<'_>,
    head: &Head<'_>,
    body: BodyBytes<'_>,
    rules: &DecodeRules<'_>,
) -> Result<Command, DurableFault> {
    let pop = |source| {
        let query = head.query.unwrap_or_default();
        pop::decode(source, query, rules.pop_default_timeout_ms).map(Command::Pop)
    };
    match route {
        DurableRoute::Configure => configure::decode(body).map(Command::Configure),
        DurableRoute::Queue(segment) => Ok(Command::Delete {
            queue: name_in_path("queue", segment)?,
        }),
        DurableRoute::Push => {
            refuse_binary(head)?;
            push::decode(body).map(Command::Push)
        }
        DurableRoute::Discover => pop(None),
        DurableRoute::Pop(queue) => pop(Some(Source::Queue(name_in_path("queue", queue)?))),
        DurableRoute::PopPartition { queue, partition } => pop(Some(Source::Partition {
            queue: name_in_path("queue", queue)?,
            partition: name_in_path("partition", partition)?,
        })),
        DurableRoute::Ack => ack::decode(body).map(Command::Ack),
        DurableRoute::AckBatch => ack::decode_batch(body).map(Command::Ack),
        DurableRoute::Extend(lease_id) => extend::decode(lease_id, body).map(Command::Extend),
        DurableRoute::Step => {
            refuse_binary(head)?;
            step::decode(body).map(Command::Step)
        }
        DurableRoute::Admin(route) => {
            let query = head.query.unwrap_or_default();
            let administer = admin::decode(route, query, body)?;
            Ok(Command::Administer(Box::new(administer)))
        }
    }
}

/// A body in a form that would be taken for broken JSON is refused for what it is.
fn refuse_binary(head: &Head<'_>) -> Result<(), DurableFault> {
    let is_binary = |value: &[u8]| {
        let end = memchr::memchr(b';', value).unwrap_or(value.len());
        let media_type = value[..end].trim_ascii();
        media_type.eq_ignore_ascii_case(BINARY_PUSH.as_bytes())
    };
    if head.fields("content-type").any(is_binary) {
        let text = "this broker reads JSON only: switch the client's binary push off";
        return Err(DurableFault::new(DurableFaultKind::MediaType, text));
    }
    Ok(())
}

fn name_in_path(field: &str, segment: &[u8]) -> Result<Box<str>, DurableFault> {
    let text = segment_text(segment).map_err(DurableFault::bad_request)?;
    name(text, || field.to_owned())
}

/// A name by the rules of names; `field` says where it stands.
fn name(text: Cow<'_, str>, field: impl FnOnce() -> String) -> Result<Box<str>, DurableFault> {
    match QueueName::new(&*text) {
        Ok(_) => Ok(text.into_owned().into_boxed_str()),
        Err(fault) => {
            let kind = match fault {
                NameFault::TooLong => DurableFaultKind::NameTooLong,
                NameFault::Empty | NameFault::Control => DurableFaultKind::BadRequest,
            };
            Err(DurableFault::new(kind, format!("{} {fault}", field())))
        }
    }
}

/// A group's name; an absent or empty one is the queue's own.
fn group(
    text: Option<Cow<'_, str>>,
    field: impl FnOnce() -> String,
) -> Result<Box<str>, DurableFault> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(QUEUE_MODE_GROUP.into()),
        Some(text) => name(text, field),
    }
}

/// A partition's name; an absent one is the default.
fn partition(
    text: Option<Cow<'_, str>>,
    field: impl FnOnce() -> String,
) -> Result<Box<str>, DurableFault> {
    match text {
        None => Ok(DEFAULT_PARTITION.into()),
        Some(text) => name(text, field),
    }
}

fn required<T>(value: Option<T>, field: impl FnOnce() -> String) -> Result<T, DurableFault> {
    value.ok_or_else(|| DurableFault::bad_request(format!("{} is required", field())))
}

/// A new id. Ids of version 7 sort by their time, which a database likes.
fn new_id() -> Uuid {
    Uuid::new_v7(Timestamp::now(NoContext))
}

/// A payload, unless no published client could read it back.
fn check_nesting(payload: &RawValue, field: impl FnOnce() -> String) -> Result<&str, DurableFault> {
    let text = payload.get();
    if is_deeper_than(text, limits::NESTING_MAX) {
        let max = limits::NESTING_MAX;
        let text = format!("{} is nested deeper than {max} levels", field());
        return Err(DurableFault::bad_request(text));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use serde_json::Value;

    use super::*;
    use crate::api::decode::tests::{RULES, request};
    use crate::api::{ApiFault, encode_api_fault};
    use crate::http::ResponseStyle;
    use crate::model::TenantId;

    const TENANTS: DecodeRules<'static> = DecodeRules {
        tenancy: true,
        ..RULES
    };

    fn call(
        line: &str,
        body: &str,
        rules: &DecodeRules<'_>,
    ) -> Result<(TenantId, Command), ApiFault> {
        request(line, body.as_bytes(), rules, |call| match call {
            Ok(Call::Durable { tenant, command }) => Ok((tenant, command)),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(fault) => Err(fault),
        })
    }

    /// Status, head and body of a refusal.
    fn refused(line: &str, body: &str, rules: &DecodeRules<'_>) -> (u16, String, Value) {
        let mut out = BytesMut::new();
        let fault = call(line, body, rules).unwrap_err();
        encode_api_fault(&fault, ResponseStyle::CLOSING, &mut out);
        let text = std::str::from_utf8(&out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), serde_json::from_str(body).unwrap())
    }

    #[test]
    fn every_route_becomes_its_command() {
        let push = "{\"items\":[{\"queue\":\"q\"}]}";
        let ack = "{\"transactionId\":\"t\",\"partitionId\":\"1\"}";
        let acks = "{\"acknowledgments\":[]}";
        let step = "{\"operations\":[{\"type\":\"push\",\"queue\":\"q\"}]}";
        for (line, body, expected) in [
            (
                "POST /api/v1/configure",
                "{\"queue\":\"q\"}",
                "Configure(Configure { queue: \"q\"",
            ),
            (
                "DELETE /api/v1/resources/queues/a%2Fb",
                "",
                "Delete { queue: \"a/b\" }",
            ),
            ("POST /api/v1/push", push, "Push([PushItem { queue: \"q\""),
            (
                "GET /api/v1/pop?task=t",
                "",
                "Pop(Pop { source: Discovery {",
            ),
            (
                "GET /api/v1/pop/queue/a%20b",
                "",
                "Pop(Pop { source: Queue(\"a b\")",
            ),
            (
                "GET /api/v1/pop/queue/a/partition/p%2Fq?batch=1",
                "",
                "Pop(Pop { source: Partition { queue: \"a\", partition: \"p/q\" }",
            ),
            ("POST /api/v1/ack", ack, "Ack([Ack { partition_id: Some(1)"),
            ("POST /api/v1/ack/batch", acks, "Ack([])"),
            (
                "POST /api/v1/lease/l%201/extend",
                "",
                "Extend(Extend { lease_id: \"l 1\"",
            ),
            (
                "POST /api/v1/transaction",
                step,
                "Step(Step { operations: [Push(",
            ),
        ] {
            let (tenant, command) = call(line, body, &RULES).unwrap();
            assert_eq!(tenant, TenantId::DEFAULT);
            let text = format!("{command:?}");
            assert!(text.starts_with(expected), "{line}: {text}");
        }
    }

    #[test]
    fn a_route_refuses_in_its_own_shape() {
        let (status, _, body) = refused("POST /api/v1/push", "{}", &RULES);
        assert_eq!((status, &body["code"]), (400, &"bad_request".into()));
        assert_eq!(body.as_object().unwrap().len(), 2);
        let (status, _, body) = refused("GET /api/v1/pop", "", &RULES);
        assert_eq!((status, &body["code"]), (400, &"bad_request".into()));
        assert_eq!(body["error"], "namespace or task is required");
        assert_eq!(
            (&body["success"], &body["messages"]),
            (&false.into(), &Value::Array(vec![]))
        );
        let (status, _, body) = refused("POST /api/v1/transaction", "{}", &RULES);
        assert_eq!((status, &body["code"]), (400, &"bad_request".into()));
        assert_eq!(
            (&body["success"], &body["results"]),
            (&false.into(), &Value::Array(vec![]))
        );
        assert_eq!(body["reason"], "bad_request");
        assert_eq!(body["transactionId"].as_str().unwrap().len(), 36);
        let long = format!("DELETE /api/v1/resources/queues/{}", "x".repeat(513));
        let (status, _, body) = refused(&long, "", &RULES);
        assert_eq!((status, &body["code"]), (400, &"name_too_long".into()));
        let (status, _, body) = refused("DELETE /api/v1/resources/queues/", "", &RULES);
        assert_eq!(
            (status, &body["error"]),
            (400, &"queue must not be empty".into())
        );
        let (status, _, body) = refused("GET /api/v1/pop/queue/q/partition/%00", "", &RULES);
        assert_eq!((status, &body["code"]), (400, &"bad_request".into()));
    }

    #[test]
    fn keys_and_timers_are_refused_in_the_shape_of_their_own_routes() {
        for key in ["kv", "timers"] {
            let body = format!("{{\"operations\":[],\"{key}\":[{{}}]}}");
            let (status, head, body) = refused("POST /api/v1/transaction", &body, &RULES);
            assert_eq!(status, 503);
            assert!(head.contains("retry-after: 1"), "{head}");
            let code = format!("{key}_unavailable");
            assert_eq!(body["error"], code);
            assert_eq!(body["code"], code);
            assert!(body["detail"].as_str().unwrap().contains(key));
        }
    }

    #[test]
    fn a_binary_body_is_refused_for_what_it_is() {
        for route in ["push", "transaction"] {
            for media_type in [
                "application/x-queen-push",
                "Application/X-Queen-Push ; version=1",
            ] {
                let line =
                    format!("POST /api/v1/{route} HTTP/1.1\r\ncontent-type: {media_type}\r\nx:");
                let (status, _, body) = refused(&line, "QPB1", &RULES);
                assert_eq!(
                    (status, &body["code"]),
                    (415, &"unsupported_media_type".into())
                );
            }
        }
        let line = "POST /api/v1/push HTTP/1.1\r\ncontent-type: text/plain\r\nx:";
        assert!(call(line, "{\"items\":[]}", &RULES).is_ok());
    }

    #[test]
    fn a_tenant_has_to_be_named_where_there_are_several() {
        let line = "GET /api/v1/pop/queue/q";
        let (status, _, body) = refused(line, "", &TENANTS);
        assert_eq!((status, &body["code"]), (400, &"bad_tenant".into()));
        assert_eq!(body["messages"], Value::Array(vec![]));
        let with = |tenant: &str| format!("{line} HTTP/1.1\r\nx-queen-tenant: {tenant}\r\nx:");
        let (status, _, body) = refused(&with("me"), "", &TENANTS);
        assert_eq!((status, &body["code"]), (400, &"bad_tenant".into()));
        let id = "11111111-2222-4333-8444-555555555555";
        let (tenant, _) = call(&with(id), "", &TENANTS).unwrap();
        assert_eq!(Some(tenant), TenantId::parse(id));
    }
}
