//! Dead letters: `POST /api/v1/dlq/:id/replay`, and many at once by a filter.

use std::borrow::Cow;

use serde::de::MapAccess;

use super::{flag, named_time, values};
use crate::api::decode::durable::name;
use crate::api::decode::json::{Fields, NullableText, parse_body, store};
use crate::api::decode::{BodyBytes, segment_text};
use crate::api::durable_fault::DurableFault;
use crate::model::durable::{LetterFilter, Replay};

/// What a filter can name, and the word for everything.
const KEYS: [&str; 6] = ["queue", "consumerGroup", "partition", "from", "to", "all"];

type Text<'a> = Option<Cow<'a, str>>;

#[derive(Default)]
struct FilterBody<'a> {
    texts: [Option<Text<'a>>; 5],
    all: Option<Option<bool>>,
}

impl<'a> Fields<'a> for FilterBody<'a> {
    const NAME: &'static str = "the body of a replay";
    const KEYS: &'static [&'static str] = &KEYS;

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = KEYS[key];
        match self.texts.get_mut(key) {
            Some(slot) => store(slot, name, map.next_value_seed(NullableText(name))?),
            None => store(&mut self.all, name, map.next_value()?),
        }
    }
}

/// Decodes which dead letters are to be pushed once more.
pub(super) fn decode_filter_of_body(body: BodyBytes<'_>) -> Result<LetterFilter, DurableFault> {
    let fields: FilterBody<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    let all = fields.all.flatten().unwrap_or(false);
    filter(fields.texts.map(said), all)
}

/// An empty text says nothing.
fn said(text: Option<Text<'_>>) -> Text<'_> {
    text.flatten().filter(|text| !text.is_empty())
}

/// Decodes which dead letters are to be thrown away.
pub(super) fn decode_filter_of_query(query: &[u8]) -> Result<LetterFilter, DurableFault> {
    let [queue, group, partition, from, to, all] = values(query, KEYS)?;
    filter(
        [queue, group, partition, from, to],
        flag("all", all, false)?,
    )
}

/// Nobody means everything by saying nothing.
fn filter(
    [queue, group, partition, from, to]: [Text<'_>; 5],
    all: bool,
) -> Result<LetterFilter, DurableFault> {
    let checked =
        |text: Text<'_>, field: &str| text.map(|text| name(text, || field.to_owned())).transpose();
    let time = |text: Text<'_>, field: &str| {
        let time = text.map(|text| named_time(field, text)).transpose();
        time.map(|time| time.map(|time| time.time_us))
    };
    let filter = LetterFilter {
        queue: checked(queue, "queue")?,
        group: checked(group, "consumerGroup")?,
        partition: checked(partition, "partition")?,
        from_us: time(from, "from")?,
        to_us: time(to, "to")?,
    };
    if filter != LetterFilter::default() && all {
        return Err(DurableFault::bad_request(
            "all (true) stands alone: beside it no filter has a meaning",
        ));
    }
    if let (Some(from_us), Some(to_us)) = (filter.from_us, filter.to_us)
        && from_us > to_us
    {
        return Err(DurableFault::bad_request("from lies behind to"));
    }
    if filter == LetterFilter::default() && !all {
        return Err(DurableFault::bad_request(
            "one of queue, consumerGroup, partition, from and to is required, or all (true)",
        ));
    }
    Ok(filter)
}

#[derive(Default)]
struct ReplayBody<'a> {
    queue: Option<Text<'a>>,
    partition: Option<Text<'a>>,
}

impl<'a> Fields<'a> for ReplayBody<'a> {
    const NAME: &'static str = "the body of a replay";
    const KEYS: &'static [&'static str] = &["queue", "partition"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        let slot = match key {
            0 => &mut self.queue,
            _ => &mut self.partition,
        };
        store(slot, name, map.next_value_seed(NullableText(name))?)
    }
}

/// Decodes where a dead letter goes. An id that is no number is that of none.
pub(super) fn decode_replay(id: &[u8], body: BodyBytes<'_>) -> Result<Replay, DurableFault> {
    let id = segment_text(id).map_err(DurableFault::bad_request)?;
    let fields: ReplayBody<'_> = if body.is_empty() {
        ReplayBody::default()
    } else {
        parse_body(body).map_err(DurableFault::bad_request)?
    };
    let checked = |text: Option<Text<'_>>, field: &str| {
        text.flatten()
            .map(|text| name(text, || field.to_owned()))
            .transpose()
    };
    Ok(Replay::One {
        letter_id: super::id_of(&id),
        id: id.into(),
        queue: checked(fields.queue, "queue")?,
        partition: checked(fields.partition, "partition")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::durable_fault::DurableFaultKind;

    fn of_body(body: &str) -> Result<LetterFilter, DurableFault> {
        decode_filter_of_body(BodyBytes::borrowed(body.as_bytes()))
    }

    #[test]
    fn filters_are_the_same_in_both_forms() {
        let everything = LetterFilter {
            queue: Some("q".into()),
            group: Some("g/1".into()),
            partition: Some("p".into()),
            from_us: Some(0),
            to_us: Some(1_000_000),
        };
        let query =
            "queue=q&consumerGroup=g%2F1&partition=p&from=1970-01-01&to=1970-01-01T00:00:01Z";
        assert_eq!(
            decode_filter_of_query(query.as_bytes()),
            Ok(everything.clone())
        );
        let body = "{\"queue\":\"q\",\"consumerGroup\":\"g/1\",\"partition\":\"p\",\
                    \"from\":\"1970-01-01\",\"to\":\"1970-01-01T00:00:01Z\",\"all\":null,\"x\":1}";
        assert_eq!(of_body(body), Ok(everything));
        let all = LetterFilter::default();
        assert_eq!(decode_filter_of_query(b"all=true&queue="), Ok(all.clone()));
        assert_eq!(of_body("{\"all\":true,\"queue\":null}"), Ok(all));
    }

    #[test]
    fn nothing_is_not_everything() {
        for query in ["", "queue=", "all=false", "limit=5"] {
            let fault = decode_filter_of_query(query.as_bytes()).unwrap_err();
            assert!(
                fault.text.contains("or all (true)"),
                "{query}: {}",
                fault.text
            );
        }
        for body in ["{}", "{\"queue\":\"\"}", "{\"all\":false}"] {
            let fault = of_body(body).unwrap_err();
            assert!(
                fault.text.contains("or all (true)"),
                "{body}: {}",
                fault.text
            );
        }
    }

    #[test]
    fn malformed_filters() {
        for (query, part) in [
            ("queue=%0a", "queue must not"),
            ("consumerGroup=%0a", "consumerGroup must not"),
            ("partition=%0a", "partition must not"),
            ("from=yesterday", "from must be"),
            ("queue=q&to=17", "to must be"),
            ("all=maybe", "all must be"),
            ("queue=a&queue=b", "more than once"),
            ("queue=a&all=true", "stands alone"),
            ("from=2024-01-02&to=2024-01-01", "from lies behind to"),
        ] {
            let fault = decode_filter_of_query(query.as_bytes()).unwrap_err();
            assert!(fault.text.contains(part), "{query}: {}", fault.text);
        }
        for (body, part) in [
            ("", "a JSON body is required"),
            ("[]", "an object as the body of a replay"),
            ("{\"queue\":1}", "as queue"),
            ("{\"all\":\"true\"}", "not valid"),
        ] {
            let fault = of_body(body).unwrap_err();
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
        let long = format!("queue={}", "x".repeat(513));
        let fault = decode_filter_of_query(long.as_bytes()).unwrap_err();
        assert_eq!(fault.kind, DurableFaultKind::NameTooLong);
    }

    #[test]
    fn a_letter_may_go_elsewhere() {
        let replay = |id: &str, body: &str| {
            decode_replay(id.as_bytes(), BodyBytes::borrowed(body.as_bytes()))
        };
        for body in ["", "{}", "{\"queue\":null,\"partition\":null,\"x\":1}"] {
            let here = Replay::One {
                id: "7".into(),
                letter_id: Some(7),
                queue: None,
                partition: None,
            };
            assert_eq!(replay("7", body), Ok(here), "{body}");
        }
        let elsewhere = Replay::One {
            id: "x".into(),
            letter_id: None,
            queue: Some("q".into()),
            partition: Some("p".into()),
        };
        assert_eq!(
            replay("x", "{\"queue\":\"q\",\"partition\":\"p\"}"),
            Ok(elsewhere)
        );
        for (body, part) in [
            ("[]", "an object as the body of a replay"),
            ("{\"queue\":\"\"}", "queue must not be empty"),
            ("{\"partition\":\"\\u0001\"}", "partition must not"),
            ("{\"queue\":5}", "as queue"),
        ] {
            let fault = replay("7", body).unwrap_err();
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
    }
}
