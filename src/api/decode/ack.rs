//! `POST /api/v1/ephemeral/ack`.

use std::borrow::Cow;

use serde::de::MapAccess;

use super::json::{Fields, Items, NullableText, Text, parse_object, required, store};
use super::{BodyBytes, queue_name};
use crate::limits;
use crate::model::{Ack, AckItem, GroupName, Refusal, Verdict};

#[derive(Default)]
struct AckBody<'a> {
    queue: Option<Cow<'a, str>>,
    group: Option<Option<Cow<'a, str>>>,
    acks: Option<Vec<AckItem<'a>>>,
}

impl<'a> Fields<'a> for AckBody<'a> {
    const NAME: &'static str = "the body of an ack";
    const KEYS: &'static [&'static str] = &["queue", "group", "acks"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => store(&mut self.queue, name, map.next_value_seed(Text(name))?),
            1 => {
                let group = map.next_value_seed(NullableText(name))?;
                store(&mut self.group, name, group)
            }
            _ => {
                let items = map.next_value_seed(Items {
                    key: name,
                    max: limits::BATCH_ITEMS_MAX,
                    finish: Item::<'a>::finish,
                })?;
                store(&mut self.acks, name, items)
            }
        }
    }
}

#[derive(Default)]
struct Item<'a> {
    id: Option<Cow<'a, str>>,
    status: Option<Option<Cow<'a, str>>>,
}

impl<'a> Item<'a> {
    fn finish(self) -> Result<AckItem<'a>, &'static str> {
        Ok(AckItem {
            id: self.id.ok_or("has no id")?,
            verdict: verdict(self.status.flatten().as_deref()),
        })
    }
}

impl<'a> Fields<'a> for Item<'a> {
    const NAME: &'static str = "an item of acks";
    const KEYS: &'static [&'static str] = &["id", "status"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => store(&mut self.id, name, map.next_value_seed(Text(name))?),
            _ => {
                let status = map.next_value_seed(NullableText(name))?;
                store(&mut self.status, name, status)
            }
        }
    }
}

/// The words are case-sensitive; one that is not known must not settle a message.
fn verdict(status: Option<&str>) -> Verdict {
    match status {
        None | Some("completed" | "success" | "acked" | "ok") => Verdict::Completed,
        Some(_) => Verdict::Retry,
    }
}

/// Decodes an ack.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<Ack<'_>, Refusal> {
    let fields: AckBody<'_> = parse_object(body)?;
    let queue = queue_name(required(fields.queue, "queue")?)?;
    let group = match fields.group.flatten() {
        Some(text) if !text.is_empty() => {
            GroupName::new(text).map_err(|fault| Refusal::bad_request(format!("group {fault}")))?
        }
        _ => GroupName::QUEUE_MODE,
    };
    let acks = required(fields.acks, "acks")?;
    Ok(Ack { queue, group, acks })
}
