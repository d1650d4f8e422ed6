//! Groups: `DELETE /api/v1/consumer-groups/...`, seeks and subscriptions.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::value::RawValue;

use super::{flag, named_time, values};
use crate::api::decode::BodyBytes;
use crate::api::decode::durable::required;
use crate::api::decode::json::{Fields, NullableText, parse_body, store};
use crate::api::durable_fault::DurableFault;
use crate::model::durable::{DeleteGroup, Seek, SeekTo, Subscribe};

/// Decodes the query of a deletion.
pub(super) fn decode_delete(
    group: Box<str>,
    queue: Option<Box<str>>,
    query: &[u8],
) -> Result<DeleteGroup, DurableFault> {
    let [registration] = values(query, ["deleteMetadata"])?;
    Ok(DeleteGroup {
        group,
        queue,
        registration: flag("deleteMetadata", registration, true)?,
    })
}

#[derive(Default)]
struct SeekBody<'a> {
    to_end: Option<Option<bool>>,
    timestamp: Option<Option<Cow<'a, str>>>,
    offset: Option<&'a RawValue>,
    says_something: bool,
}

impl<'a> Fields<'a> for SeekBody<'a> {
    const NAME: &'static str = "the body of a seek";
    const KEYS: &'static [&'static str] = &["toEnd", "timestamp", "offset"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        self.says_something = true;
        let name = Self::KEYS[key];
        match key {
            0 => store(&mut self.to_end, name, map.next_value()?),
            1 => {
                let text = map.next_value_seed(NullableText(name))?;
                store(&mut self.timestamp, name, text)
            }
            _ => store(&mut self.offset, name, map.next_value()?),
        }
    }

    fn unknown(&mut self, _key: &str) {
        self.says_something = true;
    }
}

/// Decodes a seek. In one partition a body that says nothing means its end.
pub(super) fn decode_seek(
    (group, queue, partition): (Box<str>, Box<str>, Option<Box<str>>),
    body: BodyBytes<'_>,
) -> Result<Seek, DurableFault> {
    let fields: SeekBody<'_> = if body.is_empty() && partition.is_some() {
        SeekBody::default()
    } else {
        parse_body(body).map_err(DurableFault::bad_request)?
    };
    let to = if !fields.says_something && partition.is_some() {
        SeekTo::End
    } else {
        fields.judge()?
    };
    Ok(Seek {
        group,
        queue,
        partition,
        to,
    })
}

impl SeekBody<'_> {
    fn judge(self) -> Result<SeekTo, DurableFault> {
        let to_end = self.to_end.flatten().unwrap_or(false);
        let timestamp = self.timestamp.flatten();
        let offset = self.offset.filter(|raw| raw.get() != "null");
        match (to_end, timestamp, offset) {
            (true, None, None) => Ok(SeekTo::End),
            (false, Some(text), None) => named_time("timestamp", text).map(SeekTo::Time),
            (false, None, Some(raw)) => match raw.get().parse() {
                Ok(offset) if offset >= 0 => Ok(SeekTo::Offset(offset)),
                _ => Err(DurableFault::bad_request(
                    "offset must be a whole number from 0",
                )),
            },
            _ => Err(DurableFault::bad_request(
                "one of toEnd (true), timestamp and offset is required",
            )),
        }
    }
}

#[derive(Default)]
struct SubscriptionBody<'a> {
    timestamp: Option<Option<Cow<'a, str>>>,
}

impl<'a> Fields<'a> for SubscriptionBody<'a> {
    const NAME: &'static str = "the body of a subscription";
    const KEYS: &'static [&'static str] = &["subscriptionTimestamp"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        let text = map.next_value_seed(NullableText(name))?;
        store(&mut self.timestamp, name, text)
    }
}

/// Decodes from when on a group counts.
pub(super) fn decode_subscription(
    group: Box<str>,
    body: BodyBytes<'_>,
) -> Result<Subscribe, DurableFault> {
    let fields: SubscriptionBody<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    let field = "subscriptionTimestamp";
    let text = required(fields.timestamp.flatten(), || field.to_owned())?;
    Ok(Subscribe {
        group,
        from: named_time(field, text)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seek(partition: Option<&str>, body: &str) -> Result<SeekTo, DurableFault> {
        let body = BodyBytes::borrowed(body.as_bytes());
        decode_seek(("g".into(), "q".into(), partition.map(Into::into)), body).map(|seek| seek.to)
    }

    #[test]
    fn places_to_go_to() {
        for (body, to) in [
            ("{\"toEnd\":true}", SeekTo::End),
            (
                "{\"toEnd\":true,\"timestamp\":null,\"offset\":null}",
                SeekTo::End,
            ),
            ("{\"offset\":17}", SeekTo::Offset(17)),
            (
                "{\"offset\":0,\"toEnd\":false,\"position\":\"x\"}",
                SeekTo::Offset(0),
            ),
        ] {
            assert_eq!(seek(None, body), Ok(to.clone()), "{body}");
            assert_eq!(seek(Some("p"), body), Ok(to), "{body}");
        }
        for body in ["", "{}", " { } "] {
            assert_eq!(seek(Some("p"), body), Ok(SeekTo::End), "{body}");
        }
        let Ok(SeekTo::Time(time)) = seek(None, "{\"timestamp\":\"1970-01-01T00:00:01+00:00\"}")
        else {
            panic!("a time is one");
        };
        assert_eq!(
            (&*time.text, time.time_us),
            ("1970-01-01T00:00:01+00:00", 1_000_000)
        );
    }

    #[test]
    fn malformed_seeks() {
        for (body, part) in [
            ("[]", "an object as the body of a seek"),
            (
                "{\"position\":\"earliest\"}",
                "one of toEnd (true), timestamp and offset",
            ),
            ("{\"toEnd\":false}", "one of toEnd"),
            ("{\"toEnd\":null}", "one of toEnd"),
            ("{\"toEnd\":1}", "not valid"),
            ("{\"toEnd\":true,\"offset\":1}", "one of toEnd"),
            (
                "{\"timestamp\":\"1970-01-01\",\"offset\":1}",
                "one of toEnd",
            ),
            (
                "{\"timestamp\":\"yesterday\"}",
                "timestamp must be an ISO 8601 time",
            ),
            ("{\"timestamp\":17}", "as timestamp"),
            ("{\"offset\":-1}", "offset must be a whole number"),
            ("{\"offset\":1.5}", "offset must be"),
            ("{\"offset\":\"1\"}", "offset must be"),
            ("{\"offset\":9223372036854775808}", "offset must be"),
        ] {
            for partition in [None, Some("p")] {
                let fault = seek(partition, body).unwrap_err();
                assert!(fault.text.contains(part), "{body}: {}", fault.text);
            }
        }
        for body in ["", "{}"] {
            seek(None, body).unwrap_err();
        }
    }

    #[test]
    fn whether_the_registration_goes_too() {
        let delete = |query: &str| decode_delete("g".into(), None, query.as_bytes());
        for (query, registration) in [
            ("", true),
            ("deleteMetadata=", true),
            ("deleteMetadata=true&x=y", true),
            ("deleteMetadata=false", false),
        ] {
            assert_eq!(delete(query).map(|one| one.registration), Ok(registration));
        }
        let fault = delete("deleteMetadata=maybe").unwrap_err();
        assert!(fault.text.contains("deleteMetadata must be true or false"));
    }

    #[test]
    fn a_subscription_needs_a_time() {
        let subscribe = |body: &str| {
            let body = BodyBytes::borrowed(body.as_bytes());
            decode_subscription("g".into(), body)
        };
        let text = "2026-11-30T11:42:00.123456789+01:00";
        let body = format!("{{\"subscriptionTimestamp\":\"{text}\"}}");
        assert_eq!(&*subscribe(&body).unwrap().from.text, text);
        for (body, part) in [
            ("", "a JSON body is required"),
            ("{}", "subscriptionTimestamp is required"),
            (
                "{\"subscriptionTimestamp\":null}",
                "subscriptionTimestamp is required",
            ),
            ("{\"subscriptionTimestamp\":5}", "as subscriptionTimestamp"),
            (
                "{\"subscriptionTimestamp\":\"now\"}",
                "must be an ISO 8601 time",
            ),
        ] {
            let fault = subscribe(body).unwrap_err();
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
    }
}
