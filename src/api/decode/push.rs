//! `POST /api/v1/ephemeral/push`.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::value::RawValue;

use super::json::{Fields, Items, NullableText, Text, parse_object, required, store};
use super::nesting::is_deeper_than;
use super::{BodyBytes, queue_name};
use crate::limits;
use crate::model::{PartitionName, Push, Refusal};

/// A push, read and not judged.
#[derive(Default)]
pub(super) struct PushBody<'a> {
    queue: Option<Cow<'a, str>>,
    partition: Option<Option<Cow<'a, str>>>,
    messages: Option<Vec<&'a RawValue>>,
}

impl<'a> Fields<'a> for PushBody<'a> {
    const NAME: &'static str = "the body of a push";
    const KEYS: &'static [&'static str] = &["queue", "partition", "messages"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => store(&mut self.queue, name, map.next_value_seed(Text(name))?),
            1 => {
                let partition = map.next_value_seed(NullableText(name))?;
                store(&mut self.partition, name, partition)
            }
            _ => {
                let items = map.next_value_seed(Items {
                    key: name,
                    max: limits::BATCH_ITEMS_MAX,
                    finish: |message: Message<'a>| message.payload.ok_or("has no payload"),
                })?;
                store(&mut self.messages, name, items)
            }
        }
    }
}

#[derive(Default)]
struct Message<'a> {
    payload: Option<&'a RawValue>,
}

impl<'a> Fields<'a> for Message<'a> {
    const NAME: &'static str = "an item of messages";
    const KEYS: &'static [&'static str] = &["payload"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        store(&mut self.payload, Self::KEYS[key], map.next_value()?)
    }
}

/// Decodes a push. Payloads come out as the exact bytes that stand in the body.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<Push<'_>, Refusal> {
    finish(parse_object(body)?, body)
}

/// Judges a push that stands in `body`.
pub(super) fn finish<'a>(fields: PushBody<'a>, body: BodyBytes<'a>) -> Result<Push<'a>, Refusal> {
    let queue = queue_name(required(fields.queue, "queue")?)?;
    let partition = match fields.partition.flatten() {
        None => PartitionName::DEFAULT,
        Some(text) => PartitionName::new(text)
            .map_err(|fault| Refusal::bad_request(format!("partition {fault}")))?,
    };
    let messages = required(fields.messages, "messages")?;
    let mut payloads = Vec::with_capacity(messages.len());
    for (position, raw) in messages.into_iter().enumerate() {
        if is_deeper_than(raw.get(), limits::NESTING_MAX) {
            return Err(Refusal::bad_request(format!(
                "messages[{position}].payload is nested deeper than {} levels",
                limits::NESTING_MAX
            )));
        }
        payloads.push(body.keep(raw.get()));
    }
    Ok(Push {
        queue,
        partition,
        payloads,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::api::decode::tests::refusal_text;

    fn push(body: &str) -> Result<Push<'_>, Refusal> {
        decode(BodyBytes::borrowed(body.as_bytes()))
    }

    fn push_error(body: &str) -> String {
        refusal_text(push(body).map(|push| panic!("{push:?}")).unwrap_err())
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
            let body =
                format!("{{\"queue\":\"q\",\"messages\":[{{\"payload\": \n{payload}\t }}]}}");
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
        ] {
            let text = push_error(body);
            assert!(text.contains(part), "{body}: {text}");
        }
        let body = b"{\"queue\":\"q\",\"ignored\":\"\xff\",\"messages\":[]}";
        let refusal = decode(BodyBytes::borrowed(body)).unwrap_err();
        let text = refusal_text(refusal);
        assert_eq!(text, "the body is not UTF-8: bad byte at offset 24");
    }

    #[test]
    fn pushes_of_the_wrong_shape_say_which_key() {
        for (body, part) in [
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
            format!(
                "{{\"queue\":\"q\",\"messages\":[{{\"payload\":1}},{{\"payload\":{payload}}}]}}"
            )
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
        let is_inside =
            |body: &Bytes, payload: &Bytes| body.as_ptr_range().contains(&payload.as_ptr());
        let kept = |large: usize, small: usize| {
            let body = body_of(large, small);
            let push = decode(BodyBytes::owned(&body)).unwrap();
            assert_eq!(push.payloads[0].len(), large + 2);
            assert!(!is_inside(&body, &push.payloads[1]));
            is_inside(&body, &push.payloads[0])
        };
        assert!(kept(100_000, 10));
        assert!(!kept(100_000, 99_999));
        assert!(!kept(4_000, 10));
        let body = body_of(100_000, 10);
        let push = decode(BodyBytes::borrowed(&body)).unwrap();
        assert!(!is_inside(&body, &push.payloads[0]));
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
            let push = decode(BodyBytes::owned(&body)).unwrap();
            prop_assert_eq!(push.payloads, texts);
        }
    }
}
