//! `POST /api/v1/push`, and the messages of a transaction.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{check_nesting, name, new_id, partition, required};
use crate::api::decode::BodyBytes;
use crate::api::decode::json::{Fields, Items, NullableText, parse_body, store};
use crate::api::durable_fault::DurableFault;
use crate::limits;
use crate::model::durable::PushItem;

#[derive(Default)]
struct PushBody<'a> {
    items: Option<Vec<Item<'a>>>,
}

impl<'a> Fields<'a> for PushBody<'a> {
    const NAME: &'static str = "the body of a push";
    const KEYS: &'static [&'static str] = &["items"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        store(&mut self.items, name, map.next_value_seed(items(name))?)
    }
}

/// A bounded array of messages.
pub(super) fn items<'a>(key: &'static str) -> Items<Item<'a>, Item<'a>> {
    Items {
        key,
        max: limits::BATCH_ITEMS_MAX,
        finish: Ok,
    }
}

/// A message, read and not judged.
#[derive(Default)]
pub(super) struct Item<'a> {
    queue: Option<Option<Cow<'a, str>>>,
    partition: Option<Option<Cow<'a, str>>>,
    transaction_id: Option<Option<Cow<'a, str>>>,
    payload: Option<&'a RawValue>,
    /// Another name of the payload, in a transaction.
    data: Option<&'a RawValue>,
    trace_id: Option<&'a RawValue>,
}

impl<'a> Fields<'a> for Item<'a> {
    const NAME: &'static str = "an item";
    const KEYS: &'static [&'static str] = &[
        "queue",
        "partition",
        "transactionId",
        "payload",
        "data",
        "traceId",
    ];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => store(
                &mut self.queue,
                name,
                map.next_value_seed(NullableText(name))?,
            ),
            1 => store(
                &mut self.partition,
                name,
                map.next_value_seed(NullableText(name))?,
            ),
            2 => store(
                &mut self.transaction_id,
                name,
                map.next_value_seed(NullableText(name))?,
            ),
            3 => store(&mut self.payload, name, map.next_value()?),
            4 => store(&mut self.data, name, map.next_value()?),
            _ => store(&mut self.trace_id, name, map.next_value()?),
        }
    }
}

/// Decodes a push. Payloads come out as the exact bytes that stand in the body.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<Vec<PushItem>, DurableFault> {
    let fields: PushBody<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    let items = required(fields.items, || "items".to_owned())?;
    let mut judged = Vec::with_capacity(items.len());
    for (position, item) in items.into_iter().enumerate() {
        let item = Item {
            data: None,
            trace_id: None,
            ..item
        };
        let at = |field: &str| format!("items[{position}].{field}");
        judged.push(item.judge(body, "null", at)?);
    }
    Ok(judged)
}

impl<'a> Item<'a> {
    /// The message with the transaction id that was read elsewhere.
    pub(super) fn with_transaction_id(self, text: Option<Option<Cow<'a, str>>>) -> Item<'a> {
        Item {
            transaction_id: text,
            ..self
        }
    }

    /// The message, if it can be stored. `default` is the payload of one that has none; `at` names a
    /// field by its place in the request.
    pub(super) fn judge(
        self,
        body: BodyBytes<'a>,
        default: &'static str,
        at: impl Fn(&str) -> String,
    ) -> Result<PushItem, DurableFault> {
        let queue = required(self.queue.flatten(), || at("queue"))?;
        let transaction_id = self.transaction_id.flatten();
        let payload = match self.payload.or(self.data) {
            None => default.into(),
            Some(payload) => body.keep(check_nesting(payload, || at("payload"))?),
        };
        Ok(PushItem {
            queue: name(queue, || at("queue"))?,
            partition: partition(self.partition.flatten(), || at("partition"))?,
            message_id: new_id(),
            transaction_id: match transaction_id.filter(|text| !text.is_empty()) {
                None => new_id().to_string().into(),
                Some(text) => name(text, || at("transactionId"))?,
            },
            payload,
            // What is no UUID is dropped.
            trace_id: self.trace_id.and_then(|trace_id| {
                let text: String = serde_json::from_str(trace_id.get()).ok()?;
                Uuid::try_parse(&text).ok()
            }),
            producer: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::api::durable_fault::DurableFaultKind;

    fn push(body: &str) -> Result<Vec<PushItem>, DurableFault> {
        decode(BodyBytes::borrowed(body.as_bytes()))
    }

    fn one(item: &str) -> Result<PushItem, DurableFault> {
        let mut items = push(&format!("{{\"items\":[{item}]}}"))?;
        assert_eq!(items.len(), 1);
        Ok(items.remove(0))
    }

    #[test]
    fn an_item_with_everything_and_one_with_nothing() {
        let item = one(
            "{\"queue\":\"a/b\",\"partition\":\"p\\u00e9\",\"transactionId\":\"t 1\",\
             \"payload\": {\"n\" : [1.0] } ,\"traceId\":[7],\"producerSub\":5,\"more\":{}}",
        );
        let item = item.unwrap();
        assert_eq!((&*item.queue, &*item.partition), ("a/b", "p\u{e9}"));
        assert_eq!(&*item.transaction_id, "t 1");
        assert_eq!(item.payload, "{\"n\" : [1.0] }");
        assert_eq!((item.trace_id, item.producer), (None, None));
        let trace = "018f4d3e-2b7c-7e0f-9d6e-0a1b2c3d4e5f";
        for text in [
            "",
            ",\"partition\":null,\"transactionId\":null",
            ",\"transactionId\":\"\"",
        ] {
            let item = format!("{{\"queue\":\"q\"{text},\"data\":1,\"traceId\":\"{trace}\"}}");
            let item = one(&item).unwrap();
            assert_eq!(&*item.partition, "Default");
            assert_eq!(item.payload, "null", "data is no name of a push");
            assert_eq!(item.trace_id, None, "a push carries none");
            let minted = Uuid::try_parse(&item.transaction_id).unwrap();
            assert_eq!(minted.get_version_num(), 7);
        }
        assert_eq!(push("{\"items\":[]}").unwrap().len(), 0);
    }

    #[test]
    fn payloads_come_out_as_they_went_in() {
        for payload in [
            "null",
            "1e400",
            "\"\\ud800\"",
            "{ \"b\":1,\"b\":2 }",
            "[[],{}]",
            "true",
        ] {
            let item = one(&format!("{{\"queue\":\"q\",\"payload\":\t{payload}\n}}")).unwrap();
            assert_eq!(item.payload, payload);
        }
    }

    #[test]
    fn malformed_pushes() {
        let long = "x".repeat(513);
        let deep = format!("{}{}", "[".repeat(121), "]".repeat(121));
        for (body, part) in [
            ("", "a JSON body is required"),
            ("{}", "items is required"),
            ("[]", "an object as the body of a push"),
            ("{\"items\":{}}", "an array as items"),
            ("{\"items\":[],\"items\":[]}", "duplicate key"),
            ("{\"items\":[1]}", "an object as an item"),
            ("{\"items\":[{}]}", "items[0].queue is required"),
            (
                "{\"items\":[{\"queue\":null}]}",
                "items[0].queue is required",
            ),
            ("{\"items\":[{\"queue\":1}]}", "as queue"),
            (
                "{\"items\":[{\"queue\":\"\"}]}",
                "items[0].queue must not be empty",
            ),
            (
                "{\"items\":[{\"queue\":\"a\\u0000\"}]}",
                "control characters",
            ),
            (
                "{\"items\":[{\"queue\":\"q\",\"partition\":\"\"}]}",
                "items[0].partition",
            ),
            (
                "{\"items\":[{\"queue\":\"q\",\"partition\":1}]}",
                "as partition",
            ),
            (
                "{\"items\":[{\"queue\":\"q\",\"transactionId\":1}]}",
                "as transactionId",
            ),
            (
                "{\"items\":[{\"queue\":\"q\",\"transactionId\":\"\\n\"}]}",
                "transactionId must not",
            ),
            (
                &format!("{{\"items\":[{{\"queue\":\"q\",\"payload\":{deep}}}]}}"),
                "120 levels",
            ),
        ] {
            let fault = push(body).unwrap_err();
            assert_eq!(fault.kind, DurableFaultKind::BadRequest, "{body}");
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
        for key in ["queue", "partition", "transactionId"] {
            let rest = if key == "queue" {
                ""
            } else {
                "\"queue\":\"q\","
            };
            let fault = one(&format!("{{{rest}\"{key}\":\"{long}\"}}")).unwrap_err();
            assert_eq!(fault.kind, DurableFaultKind::NameTooLong);
            assert!(fault.text.starts_with(&format!("items[0].{key} ")));
        }
    }

    #[test]
    fn a_push_is_bounded_and_a_large_payload_shares_its_body() {
        let items = vec!["{\"queue\":\"q\"}"; limits::BATCH_ITEMS_MAX + 1].join(",");
        let fault = push(&format!("{{\"items\":[{items}]}}")).unwrap_err();
        assert!(fault.text.contains("more than 10000"), "{}", fault.text);
        let payload = format!("\"{}\"", "x".repeat(100_000));
        let body = Bytes::from(format!(
            "{{\"items\":[{{\"queue\":\"q\",\"payload\":{payload}}}]}}"
        ));
        let items = decode(BodyBytes::owned(&body)).unwrap();
        assert!(body.as_ptr_range().contains(&items[0].payload.as_ptr()));
    }
}
