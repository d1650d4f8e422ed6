//! `POST /api/v1/ephemeral/push`.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::value::RawValue;

use super::json::{Fields, Items, NullableText, Text, parse_object, required, store};
use super::nesting::is_deeper_than;
use super::{BodyBytes, queue_name};
use crate::limits;
use crate::model::{PartitionName, Push, Refusal};

#[derive(Default)]
struct PushBody<'a> {
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
    let fields: PushBody<'_> = parse_object(body)?;
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
