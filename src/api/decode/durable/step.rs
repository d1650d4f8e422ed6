//! `POST /api/v1/transaction`.

use std::borrow::Cow;

use serde::de::{Error, IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use super::ack::AckFields;
use super::push::{Item, items};
use super::required;
use crate::api::decode::BodyBytes;
use crate::api::decode::json::{Fields, Items, NullableText, parse_body, store};
use crate::api::durable_fault::{DurableFault, DurableFaultKind};
use crate::limits;
use crate::model::durable::{Step, StepOperation};

#[derive(Default)]
struct StepBody<'a> {
    operations: Option<Vec<Operation<'a>>>,
    required_leases: Option<Option<Vec<Box<str>>>>,
    kv: Option<&'a RawValue>,
    timers: Option<&'a RawValue>,
}

impl<'a> Fields<'a> for StepBody<'a> {
    const NAME: &'static str = "the body of a transaction";
    const KEYS: &'static [&'static str] = &["operations", "requiredLeases", "kv", "timers"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => {
                let items = Items {
                    key: name,
                    max: limits::BATCH_ITEMS_MAX,
                    finish: Ok,
                };
                store(&mut self.operations, name, map.next_value_seed(items)?)
            }
            1 => {
                let wrong = |_| A::Error::custom("requiredLeases must be an array of strings");
                store(
                    &mut self.required_leases,
                    name,
                    map.next_value().map_err(wrong)?,
                )
            }
            2 => store(&mut self.kv, name, map.next_value()?),
            _ => store(&mut self.timers, name, map.next_value()?),
        }
    }
}

/// An operation, read and not judged. A push may have its one message beside its type.
#[derive(Default)]
struct Operation<'a> {
    kind: Option<Option<Cow<'a, str>>>,
    items: Option<Vec<Item<'a>>>,
    item: Item<'a>,
    ack: AckFields<'a>,
}

/// Keys of an operation that are not those of a message or an ack.
const OPERATION_KEYS: [&str; 2] = ["type", "items"];

/// The one key that messages and acks share.
const TRANSACTION_ID: &str = "transactionId";

impl<'a> Fields<'a> for Operation<'a> {
    const NAME: &'static str = "an operation";
    const KEYS: &'static [&'static str] = &[
        OPERATION_KEYS[0],
        OPERATION_KEYS[1],
        TRANSACTION_ID,
        "queue",
        "partition",
        "payload",
        "data",
        "traceId",
        "partitionId",
        "status",
        "consumerGroup",
        "leaseId",
        "error",
    ];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        let position = |keys: &[&str]| keys.iter().position(|known| *known == name);
        match name {
            "type" => store(
                &mut self.kind,
                name,
                map.next_value_seed(NullableText(name))?,
            ),
            "items" => store(&mut self.items, name, map.next_value_seed(items(name))?),
            _ => match (position(AckFields::KEYS), position(Item::KEYS)) {
                (Some(key), _) => self.ack.read(key, map),
                (None, Some(key)) => self.item.read(key, map),
                (None, None) => unreachable!("a key of neither"),
            },
        }
    }
}

/// Decodes a transaction.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<Step, DurableFault> {
    let fields: StepBody<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    let operations = required(fields.operations, || "operations".to_owned())?;
    refuse_riders(fields.kv, "kv", DurableFaultKind::KeysAway)?;
    refuse_riders(fields.timers, "timers", DurableFaultKind::TimersAway)?;
    let mut judged = Vec::with_capacity(operations.len());
    for (position, operation) in operations.into_iter().enumerate() {
        operation.judge(position, body, &mut judged)?;
    }
    if judged.is_empty() {
        let text = "operations must have at least one push or ack";
        return Err(DurableFault::bad_request(text));
    }
    if judged.len() > limits::BATCH_ITEMS_MAX {
        let max = limits::BATCH_ITEMS_MAX;
        let text = format!("operations has more than {max} messages and acks");
        return Err(DurableFault::bad_request(text));
    }
    let mut required_leases = fields.required_leases.flatten().unwrap_or_default();
    required_leases.retain(|lease_id| !lease_id.is_empty());
    if required_leases.len() > limits::BATCH_ITEMS_MAX {
        let max = limits::BATCH_ITEMS_MAX;
        let text = format!("requiredLeases has more than {max} leases");
        return Err(DurableFault::bad_request(text));
    }
    Ok(Step {
        operations: judged,
        required_leases,
    })
}

/// What stands beside the operations and is not served.
fn refuse_riders(
    raw: Option<&RawValue>,
    key: &str,
    kind: DurableFaultKind,
) -> Result<(), DurableFault> {
    let Some(raw) = raw else {
        return Ok(());
    };
    let riders: Option<Vec<IgnoredAny>> = serde_json::from_str(raw.get())
        .map_err(|_| DurableFault::bad_request(format!("{key} must be an array")))?;
    match riders {
        Some(riders) if !riders.is_empty() => Err(DurableFault::new(
            kind,
            format!("this broker cannot do what {key} of a transaction asks for; nothing was done"),
        )),
        _ => Ok(()),
    }
}

impl<'a> Operation<'a> {
    /// Appends what is to be done.
    fn judge(
        self,
        position: usize,
        body: BodyBytes<'a>,
        judged: &mut Vec<StepOperation>,
    ) -> Result<(), DurableFault> {
        const PAYLOAD_DEFAULT: &str = "{}";
        let at = |field: &str| format!("operations[{position}].{field}");
        match (self.kind.flatten().as_deref(), self.items) {
            (Some("push"), Some(items)) => {
                for (place, item) in items.into_iter().enumerate() {
                    let at = |field: &str| at(&format!("items[{place}].{field}"));
                    let item = item.judge(body, PAYLOAD_DEFAULT, at)?;
                    judged.push(StepOperation::Push(item));
                }
            }
            (Some("push"), None) => {
                let item = self.item.with_transaction_id(self.ack.transaction_id);
                let item = item.judge(body, PAYLOAD_DEFAULT, at)?;
                judged.push(StepOperation::Push(item));
            }
            (Some("ack"), _) => judged.push(StepOperation::Ack(self.ack.judge(None, at)?)),
            _ => {
                let text = format!("{} must be \"push\" or \"ack\"", at("type"));
                return Err(DurableFault::bad_request(text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::durable::{Ack, PushItem, Verdict};

    fn step(body: &str) -> Result<Step, DurableFault> {
        decode(BodyBytes::borrowed(body.as_bytes()))
    }

    fn pushes(step: Step) -> Vec<PushItem> {
        let operations = step.operations.into_iter();
        let pushes = operations.map(|operation| match operation {
            StepOperation::Push(item) => item,
            StepOperation::Ack(ack) => panic!("{ack:?}"),
        });
        pushes.collect()
    }

    fn acks(step: Step) -> Vec<Ack> {
        let operations = step.operations.into_iter();
        let acks = operations.map(|operation| match operation {
            StepOperation::Ack(ack) => ack,
            StepOperation::Push(item) => panic!("{item:?}"),
        });
        acks.collect()
    }

    #[test]
    fn messages_and_acks_come_in_the_order_of_their_slots() {
        let body = "{\"operations\":[\
            {\"type\":\"push\",\"items\":[{\"queue\":\"a\"},{\"queue\":\"b\"}]},\
            {\"type\":\"ack\",\"transactionId\":\"t\",\"partitionId\":\"1\"},\
            {\"type\":\"push\",\"queue\":\"c\",\"transactionId\":\"u\"}],\
            \"requiredLeases\":[\"l\",\"\",\"m\"],\"kv\":[],\"timers\":null,\"more\":1}";
        let step = step(body).unwrap();
        let kinds = step.operations.iter().map(|operation| match operation {
            StepOperation::Push(item) => item.queue.clone(),
            StepOperation::Ack(ack) => ack.transaction_id.clone(),
        });
        assert_eq!(kinds.collect::<Vec<_>>().join(" "), "a b t c");
        assert_eq!(
            step.required_leases,
            ["l".into(), "m".into()] as [Box<str>; 2]
        );
    }

    #[test]
    fn a_message_of_a_step_carries_its_trace_and_has_two_names_for_its_payload() {
        let trace = "018f4d3e-2b7c-7e0f-9d6e-0a1b2c3d4e5f";
        for (rest, payload, has_trace) in [
            ("", "{}", false),
            (",\"payload\":null", "null", false),
            (",\"data\":[1]", "[1]", false),
            (",\"data\":1,\"payload\":2", "2", false),
            (&*format!(",\"traceId\":\"{trace}\""), "{}", true),
            (",\"traceId\":\"no uuid\"", "{}", false),
            (",\"traceId\":null", "{}", false),
            (",\"traceId\":5", "{}", false),
        ] {
            for operation in [
                format!("{{\"type\":\"push\",\"queue\":\"q\"{rest}}}"),
                format!("{{\"type\":\"push\",\"items\":[{{\"queue\":\"q\"{rest}}}]}}"),
            ] {
                let body = format!("{{\"operations\":[{operation}]}}");
                let item = pushes(step(&body).unwrap()).remove(0);
                assert_eq!(item.payload, payload, "{rest}");
                assert_eq!(item.trace_id.is_some(), has_trace, "{rest}");
                assert_eq!(&*item.partition, "Default");
                assert_eq!(item.transaction_id.len(), 36, "one is minted");
            }
        }
    }

    #[test]
    fn an_ack_of_a_step_is_read_like_any_other() {
        let body = "{\"operations\":[{\"type\":\"ack\",\"transactionId\":\"t\",\
            \"partitionId\":\"x\",\"status\":\"failed\",\"consumerGroup\":\"\",\
            \"leaseId\":\"l\",\"error\":\"e\"}]}";
        let ack = acks(step(body).unwrap()).remove(0);
        assert_eq!((ack.partition_id, ack.verdict), (None, Verdict::Failed));
        assert_eq!(&*ack.group, "__QUEUE_MODE__");
        assert_eq!(
            (ack.lease_id, ack.error),
            (Some("l".into()), Some("e".into()))
        );
    }

    #[test]
    fn malformed_steps() {
        let ack = "{\"type\":\"ack\",\"transactionId\":\"t\",\"partitionId\":\"1\"}";
        for (body, part) in [
            ("", "a JSON body is required"),
            ("{}", "operations is required"),
            ("{\"operations\":null}", "an array as operations"),
            ("{\"operations\":[]}", "at least one push or ack"),
            (
                "{\"operations\":[{\"type\":\"push\",\"items\":[]}]}",
                "at least one",
            ),
            ("{\"operations\":[5]}", "an object as an operation"),
            ("{\"operations\":[{}]}", "operations[0].type must be"),
            (
                "{\"operations\":[{\"type\":\"kv\"}]}",
                "operations[0].type must be",
            ),
            (
                "{\"operations\":[{\"type\":\"push\"}]}",
                "operations[0].queue is required",
            ),
            (
                "{\"operations\":[{\"type\":\"push\",\"items\":[{\"queue\":\"q\"},{}]}]}",
                "operations[0].items[1].queue is required",
            ),
            (
                "{\"operations\":[{\"type\":\"ack\"}]}",
                "operations[0].transactionId is required",
            ),
            (
                &format!("{{\"operations\":[{ack}],\"requiredLeases\":\"l\"}}"),
                "requiredLeases must be an array of strings",
            ),
            (
                &format!("{{\"operations\":[{ack}],\"requiredLeases\":[5]}}"),
                "requiredLeases must be an array of strings",
            ),
            (
                &format!("{{\"operations\":[{ack}],\"kv\":{{}}}}"),
                "kv must be an array",
            ),
        ] {
            let fault = step(body).unwrap_err();
            assert_eq!(fault.kind, DurableFaultKind::BadRequest, "{body}");
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
    }

    #[test]
    fn keys_and_timers_are_not_served() {
        let kind = |rest: &str| {
            let body = format!("{{\"operations\":[],{rest}}}");
            step(&body).unwrap_err().kind
        };
        assert_eq!(kind("\"kv\":[{}]"), DurableFaultKind::KeysAway);
        assert_eq!(kind("\"timers\":[{}]"), DurableFaultKind::TimersAway);
        assert_eq!(
            kind("\"timers\":[{}],\"kv\":[{}]"),
            DurableFaultKind::KeysAway
        );
    }

    #[test]
    fn a_step_is_bounded() {
        let items = vec!["{\"queue\":\"q\"}"; limits::BATCH_ITEMS_MAX].join(",");
        let push = format!("{{\"type\":\"push\",\"items\":[{items}]}}");
        assert!(step(&format!("{{\"operations\":[{push}]}}")).is_ok());
        let fault = step(&format!("{{\"operations\":[{push},{push}]}}")).unwrap_err();
        assert!(fault.text.contains("more than 10000 messages and acks"));
    }
}
