//! `POST /api/v1/ephemeral/ack`.

use std::borrow::Cow;

use serde::de::MapAccess;

use super::json::{Fields, Items, NullableText, Text, parse_object, required, store};
use super::{BodyBytes, queue_name};
use crate::limits;
use crate::model::{Ack, AckItem, GroupName, Refusal, Verdict};

/// Acks, read and not judged.
#[derive(Default)]
pub(super) struct AckBody<'a> {
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
    finish(parse_object(body)?)
}

/// Judges acks.
pub(super) fn finish(fields: AckBody<'_>) -> Result<Ack<'_>, Refusal> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::decode::tests::refusal_text;

    fn ack(body: &str) -> Result<Ack<'_>, Refusal> {
        decode(BodyBytes::borrowed(body.as_bytes()))
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
}
