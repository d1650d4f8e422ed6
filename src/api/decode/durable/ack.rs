//! `POST /api/v1/ack`, `POST /api/v1/ack/batch`, and the acks of a transaction.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::value::RawValue;

use super::{group, required};
use crate::api::decode::BodyBytes;
use crate::api::decode::json::{Fields, Items, NullableText, parse_body, store};
use crate::api::durable_fault::{DurableFault, DurableFaultKind};
use crate::limits;
use crate::model::NameFault;
use crate::model::durable::{Ack, Verdict};

/// An ack, read and not judged.
#[derive(Default)]
pub(super) struct AckFields<'a> {
    pub(super) transaction_id: Option<Option<Cow<'a, str>>>,
    partition_id: Option<&'a RawValue>,
    status: Option<Option<Cow<'a, str>>>,
    group: Option<Option<Cow<'a, str>>>,
    lease_id: Option<Option<Cow<'a, str>>>,
    error: Option<Option<Cow<'a, str>>>,
}

impl<'a> Fields<'a> for AckFields<'a> {
    const NAME: &'static str = "an ack";
    const KEYS: &'static [&'static str] = &[
        "transactionId",
        "partitionId",
        "status",
        "consumerGroup",
        "leaseId",
        "error",
    ];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        let slot = match key {
            0 => &mut self.transaction_id,
            1 => return store(&mut self.partition_id, name, map.next_value()?),
            2 => &mut self.status,
            3 => &mut self.group,
            4 => &mut self.lease_id,
            _ => &mut self.error,
        };
        store(slot, name, map.next_value_seed(NullableText(name))?)
    }
}

#[derive(Default)]
struct BatchBody<'a> {
    acknowledgments: Option<Vec<AckFields<'a>>>,
    group: Option<Option<Cow<'a, str>>>,
}

impl<'a> Fields<'a> for BatchBody<'a> {
    const NAME: &'static str = "the body of acks";
    const KEYS: &'static [&'static str] = &["acknowledgments", "consumerGroup"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => {
                let items = Items {
                    key: name,
                    max: limits::BATCH_ITEMS_MAX,
                    finish: Ok,
                };
                let items = map.next_value_seed(items)?;
                store(&mut self.acknowledgments, name, items)
            }
            _ => {
                let group = map.next_value_seed(NullableText(name))?;
                store(&mut self.group, name, group)
            }
        }
    }
}

/// Decodes one ack.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<Vec<Ack>, DurableFault> {
    let fields: AckFields<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    Ok(vec![fields.judge(None, str::to_owned)?])
}

/// Decodes acks. Their group stands beside them; one that names its own means that one.
pub(super) fn decode_batch(body: BodyBytes<'_>) -> Result<Vec<Ack>, DurableFault> {
    let fields: BatchBody<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    let acks = required(fields.acknowledgments, || "acknowledgments".to_owned())?;
    let group = fields.group.flatten();
    let acks = acks.into_iter().enumerate();
    let judged = acks.map(|(position, ack)| {
        let at = |field: &str| format!("acknowledgments[{position}].{field}");
        ack.judge(group.as_deref(), at)
    });
    judged.collect()
}

impl AckFields<'_> {
    /// The ack. `at` names a field by its place in the request.
    pub(super) fn judge(
        self,
        default_group: Option<&str>,
        at: impl Fn(&str) -> String,
    ) -> Result<Ack, DurableFault> {
        let transaction_id = self.transaction_id.flatten();
        let transaction_id = required(transaction_id, || at("transactionId"))?;
        check_length(&transaction_id, || at("transactionId"))?;
        let own_group = self.group.flatten();
        let group_text = own_group.or(default_group.map(Cow::Borrowed));
        let lease_id = self.lease_id.flatten().filter(|text| !text.is_empty());
        Ok(Ack {
            partition_id: partition_id(self.partition_id, || at("partitionId"))?,
            transaction_id: transaction_id.into(),
            verdict: verdict(self.status.flatten().as_deref()),
            group: group(group_text, || at("consumerGroup"))?,
            lease_id: lease_id.map(Into::into),
            error: self.error.flatten().map(|text| failure_text(&text)),
        })
    }
}

/// Any text is an id; `None`: one that no partition has.
pub(super) fn partition_id(
    raw: Option<&RawValue>,
    field: impl Fn() -> String,
) -> Result<Option<i64>, DurableFault> {
    let raw = raw.map(RawValue::get).filter(|text| *text != "null");
    let text = required(raw, &field)?;
    let text: Cow<'_, str> = match text.as_bytes()[0] {
        b'"' => serde_json::from_str::<String>(text)
            .map_err(|_| DurableFault::bad_request(format!("{} is no text", field())))?
            .into(),
        b'-' | b'0'..=b'9' => text.into(),
        _ => {
            let text = format!("{} must be a string", field());
            return Err(DurableFault::bad_request(text));
        }
    };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    Ok(text.parse().ok().filter(|_| is_number))
}

/// Any text may be asked for but one that is too long to be an id.
fn check_length(transaction_id: &str, field: impl Fn() -> String) -> Result<(), DurableFault> {
    if transaction_id.len() <= limits::NAME_BYTES_MAX {
        return Ok(());
    }
    let text = format!("{} {}", field(), NameFault::TooLong);
    Err(DurableFault::new(DurableFaultKind::NameTooLong, text))
}

/// The words are case-sensitive; one that is not known must not settle a message.
fn verdict(status: Option<&str>) -> Verdict {
    match status {
        None | Some("completed" | "success" | "acked" | "ok") => Verdict::Completed,
        Some("retry") => Verdict::Retry,
        Some("dlq") => Verdict::DeadLetter,
        Some(_) => Verdict::Failed,
    }
}

/// A reason is for people: it is cut where it is too long for the database, not refused, and neither
/// is the one character that PostgreSQL's text cannot hold.
fn failure_text(text: &str) -> Box<str> {
    let text = &text[..text.floor_char_boundary(limits::FAILURE_TEXT_BYTES_MAX)];
    if text.contains('\0') {
        return text.replace('\0', "\u{fffd}").into();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(body: &str) -> Result<Ack, DurableFault> {
        let mut acks = decode(BodyBytes::borrowed(body.as_bytes()))?;
        assert_eq!(acks.len(), 1);
        Ok(acks.remove(0))
    }

    #[test]
    fn an_id_that_is_too_long_is_refused_and_others_are_looked_for() {
        let with = |id: &str| {
            one(&format!(
                "{{\"transactionId\":\"{id}\",\"partitionId\":\"1\"}}"
            ))
        };
        assert!(with(&"x".repeat(512)).is_ok());
        assert!(with("\\u0001").is_ok() && with("").is_ok());
        let fault = with(&"x".repeat(513)).unwrap_err();
        assert_eq!(fault.kind, DurableFaultKind::NameTooLong);
    }

    fn batch(body: &str) -> Result<Vec<Ack>, DurableFault> {
        decode_batch(BodyBytes::borrowed(body.as_bytes()))
    }

    #[test]
    fn an_ack_with_everything_and_one_with_nulls() {
        let ack = one(
            "{\"transactionId\":\"t\",\"partitionId\":\"17\",\"status\":\"failed\",\
             \"consumerGroup\":\"g\",\"leaseId\":\"l\",\"error\":\"boom\",\"more\":1}",
        );
        let ack = ack.unwrap();
        assert_eq!((&*ack.transaction_id, ack.partition_id), ("t", Some(17)));
        assert_eq!((ack.verdict, &*ack.group), (Verdict::Failed, "g"));
        assert_eq!(
            (ack.lease_id, ack.error),
            (Some("l".into()), Some("boom".into()))
        );
        for rest in [
            "",
            ",\"status\":null,\"consumerGroup\":null,\"leaseId\":null,\"error\":null",
            ",\"status\":\"ok\",\"consumerGroup\":\"\",\"leaseId\":\"\"",
        ] {
            let ack = format!("{{\"transactionId\":\"t\",\"partitionId\":\"1\"{rest}}}");
            let ack = one(&ack).unwrap();
            assert_eq!(
                (ack.verdict, &*ack.group),
                (Verdict::Completed, "__QUEUE_MODE__")
            );
            assert_eq!((ack.lease_id, ack.error), (None, None));
        }
    }

    #[test]
    fn words_and_what_they_mean() {
        for (word, verdict) in [
            ("completed", Verdict::Completed),
            ("success", Verdict::Completed),
            ("acked", Verdict::Completed),
            ("ok", Verdict::Completed),
            ("retry", Verdict::Retry),
            ("dlq", Verdict::DeadLetter),
            ("failed", Verdict::Failed),
            ("OK", Verdict::Failed),
            ("", Verdict::Failed),
        ] {
            let ack =
                format!("{{\"transactionId\":\"t\",\"partitionId\":\"1\",\"status\":\"{word}\"}}");
            assert_eq!(one(&ack).unwrap().verdict, verdict, "{word}");
        }
    }

    #[test]
    fn an_id_that_is_no_number_is_unknown() {
        for (id, expected) in [
            ("\"5\"", Some(5)),
            ("5", Some(5)),
            ("\"9223372036854775807\"", Some(i64::MAX)),
            ("\"9223372036854775808\"", None),
            ("\"00000000-0000-0000-0000-000000000000\"", None),
            ("\"-5\"", None),
            ("-5", None),
            ("\"+5\"", None),
            ("1.5", None),
            ("\"\"", None),
        ] {
            let ack = format!("{{\"transactionId\":\"t\",\"partitionId\":{id}}}");
            assert_eq!(one(&ack).unwrap().partition_id, expected, "{id}");
        }
    }

    #[test]
    fn a_batch_has_one_group_and_an_ack_may_have_its_own() {
        let acks = batch(
            "{\"consumerGroup\":\"g\",\"acknowledgments\":[\
             {\"transactionId\":\"a\",\"partitionId\":\"1\"},\
             {\"transactionId\":\"b\",\"partitionId\":\"2\",\"consumerGroup\":\"h\"}]}",
        );
        let groups: Vec<_> = acks.unwrap().into_iter().map(|ack| ack.group).collect();
        assert_eq!(groups, ["g".into(), "h".into()] as [Box<str>; 2]);
        let none = batch("{\"acknowledgments\":[],\"consumerGroup\":null}");
        assert!(none.unwrap().is_empty());
    }

    #[test]
    fn a_reason_is_cut_and_never_refused() {
        let ack = |error: &str| {
            let ack =
                format!("{{\"transactionId\":\"t\",\"partitionId\":\"1\",\"error\":\"{error}\"}}");
            one(&ack).unwrap().error.unwrap()
        };
        assert_eq!(&*ack("a\\u0000b"), "a\u{fffd}b");
        let long = ack(&format!("a{}", "\u{e9}".repeat(10_000)));
        assert_eq!(long.len(), limits::FAILURE_TEXT_BYTES_MAX - 1);
    }

    #[test]
    fn malformed_acks() {
        for (body, part) in [
            ("", "a JSON body is required"),
            ("{\"partitionId\":\"1\"}", "transactionId is required"),
            (
                "{\"transactionId\":null,\"partitionId\":\"1\"}",
                "transactionId is required",
            ),
            (
                "{\"transactionId\":1,\"partitionId\":\"1\"}",
                "as transactionId",
            ),
            ("{\"transactionId\":\"t\"}", "partitionId is required"),
            (
                "{\"transactionId\":\"t\",\"partitionId\":null}",
                "partitionId is required",
            ),
            (
                "{\"transactionId\":\"t\",\"partitionId\":{}}",
                "partitionId must be a string",
            ),
            (
                "{\"transactionId\":\"t\",\"partitionId\":\"\\ud800\"}",
                "partitionId is no text",
            ),
            (
                "{\"transactionId\":\"t\",\"partitionId\":\"1\",\"status\":1}",
                "as status",
            ),
            (
                "{\"transactionId\":\"t\",\"partitionId\":\"1\",\"error\":{}}",
                "as error",
            ),
            (
                "{\"transactionId\":\"t\",\"partitionId\":\"1\",\"leaseId\":1}",
                "as leaseId",
            ),
            (
                "{\"transactionId\":\"t\",\"partitionId\":\"1\",\"consumerGroup\":\"\\n\"}",
                "consumerGroup must not",
            ),
        ] {
            let fault = one(body).unwrap_err();
            assert_eq!(fault.kind, DurableFaultKind::BadRequest, "{body}");
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
        for (body, part) in [
            ("{}", "acknowledgments is required"),
            ("{\"acknowledgments\":{}}", "an array as acknowledgments"),
            ("{\"acknowledgments\":[1]}", "an object as an ack"),
            (
                "{\"acknowledgments\":[{}]}",
                "acknowledgments[0].transactionId is required",
            ),
        ] {
            let fault = batch(body).unwrap_err();
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
    }
}
