//! Traces: `POST /api/v1/traces`, and the pages of what is looked up.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::values;
use crate::api::decode::BodyBytes;
use crate::api::decode::durable::ack::partition_id;
use crate::api::decode::durable::{check_nesting, group, name, required};
use crate::api::decode::json::{Fields, NullableText, Text, parse_body, store};
use crate::api::durable_fault::DurableFault;
use crate::limits::{TRACE_NAMES_MAX, TRACE_ROWS_DEFAULT, TRACE_ROWS_MAX};
use crate::model::durable::{Address, NewTrace, TracePage};

/// The kind of an event that does not say.
const EVENT_DEFAULT: &str = "info";

#[derive(Default)]
struct TraceBody<'a> {
    transaction_id: Option<Option<Cow<'a, str>>>,
    partition_id: Option<&'a RawValue>,
    group: Option<Option<Cow<'a, str>>>,
    names: Option<Option<Vec<Cow<'a, str>>>>,
    event: Option<Option<Cow<'a, str>>>,
    worker: Option<Option<Cow<'a, str>>>,
    data: Option<&'a RawValue>,
}

impl<'a> Fields<'a> for TraceBody<'a> {
    const NAME: &'static str = "a trace";
    const KEYS: &'static [&'static str] = &[
        "transactionId",
        "partitionId",
        "consumerGroup",
        "traceNames",
        "eventType",
        "workerId",
        "data",
    ];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        let slot = match key {
            0 => &mut self.transaction_id,
            1 => return store(&mut self.partition_id, name, map.next_value()?),
            2 => &mut self.group,
            3 => return store(&mut self.names, name, map.next_value_seed(Names(name))?),
            4 => &mut self.event,
            5 => &mut self.worker,
            _ => return store(&mut self.data, name, map.next_value()?),
        };
        store(slot, name, map.next_value_seed(NullableText(name))?)
    }
}

/// Reads an array of strings of a bounded length, or null.
struct Names(&'static str);

impl<'a> DeserializeSeed<'a> for Names {
    type Value = Option<Vec<Cow<'a, str>>>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Names {
    type Value = Option<Vec<Cow<'a, str>>>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "an array of strings or null as {}", self.0)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = array.next_element_seed(Text(self.0))? {
            if names.len() == TRACE_NAMES_MAX {
                let text = format_args!("{} has more than {TRACE_NAMES_MAX} names", self.0);
                return Err(A::Error::custom(text));
            }
            names.push(name);
        }
        Ok(Some(names))
    }
}

/// Decodes something to be noted of a message.
pub(super) fn decode_new(body: BodyBytes<'_>) -> Result<NewTrace, DurableFault> {
    let fields: TraceBody<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    let transaction_id = fields
        .transaction_id
        .flatten()
        .filter(|text| !text.is_empty());
    let transaction_id = required(transaction_id, || "transactionId".to_owned())?;
    let partition = fields
        .partition_id
        .map_or("", RawValue::get)
        .trim_matches('"')
        .into();
    let partition_id = partition_id(fields.partition_id, || "partitionId".to_owned())?;
    let data = required(fields.data, || "data".to_owned())?;
    let mut names: Vec<Box<str>> = Vec::new();
    for (position, text) in fields
        .names
        .flatten()
        .unwrap_or_default()
        .into_iter()
        .enumerate()
    {
        let text = name(text, || format!("traceNames[{position}]"))?;
        // A name that is there twice is one.
        if !names.contains(&text) {
            names.push(text);
        }
    }
    let worker = fields.worker.flatten();
    let event = fields.event.flatten().unwrap_or(EVENT_DEFAULT.into());
    Ok(NewTrace {
        message: Address {
            partition,
            partition_id,
            transaction_id: name(transaction_id, || "transactionId".to_owned())?,
        },
        group: group(fields.group.flatten(), || "consumerGroup".to_owned())?,
        names,
        event: name(event, || "eventType".to_owned())?,
        data: body.keep(check_nesting(data, || "data".to_owned())?),
        worker: worker
            .map(|text| name(text, || "workerId".to_owned()))
            .transpose()?,
    })
}

/// Decodes which part of a list is asked for.
pub(super) fn decode_page(query: &[u8]) -> Result<TracePage, DurableFault> {
    let [limit, offset] = values(query, ["limit", "offset"])?;
    let number = |key: &str, text: Option<Cow<'_, str>>, absent: u64, min: u64| {
        let Some(text) = text else {
            return Ok(absent);
        };
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().unwrap_or(u64::MAX);
        if is_number && value >= min {
            return Ok(value);
        }
        let text = format!("{key} must be a whole number of at least {min}");
        Err(DurableFault::bad_request(text))
    };
    let limit = number("limit", limit, u64::from(TRACE_ROWS_DEFAULT), 1)?;
    Ok(TracePage {
        limit: limit.min(u64::from(TRACE_ROWS_MAX)) as u32,
        offset: number("offset", offset, 0, 0)?.min(i64::MAX as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(body: &str) -> Result<NewTrace, DurableFault> {
        decode_new(BodyBytes::borrowed(body.as_bytes()))
    }

    #[test]
    fn a_trace_with_everything_and_one_with_nulls() {
        let trace = new(
            "{\"transactionId\":\"t\",\"partitionId\":\"17\",\"consumerGroup\":\"g\",\
             \"traceNames\":[\"a\",\"b\",\"a\"],\"eventType\":\"step\",\"workerId\":\"w\",\
             \"data\":{\"n\": 1},\"x\":1}",
        );
        let trace = trace.unwrap();
        assert_eq!(trace.message.partition_id, Some(17));
        assert_eq!(
            (&*trace.message.partition, &*trace.message.transaction_id),
            ("17", "t")
        );
        assert_eq!(
            (&*trace.group, &*trace.event, trace.worker.as_deref()),
            ("g", "step", Some("w"))
        );
        assert_eq!(trace.names, ["a".into(), "b".into()] as [Box<str>; 2]);
        assert_eq!(&*trace.data, b"{\"n\": 1}");
        for rest in [
            "",
            ",\"consumerGroup\":null,\"traceNames\":null,\"eventType\":null,\"workerId\":null",
            ",\"traceNames\":[]",
        ] {
            let body =
                format!("{{\"transactionId\":\"t\",\"partitionId\":\"x\",\"data\":null{rest}}}");
            let trace = new(&body).unwrap();
            assert_eq!((&*trace.group, &*trace.event), ("__QUEUE_MODE__", "info"));
            assert_eq!((trace.message.partition_id, trace.worker), (None, None));
            assert!(trace.names.is_empty());
        }
    }

    #[test]
    fn malformed_traces() {
        let base = "\"transactionId\":\"t\",\"partitionId\":\"1\"";
        let many = format!("[{}]", vec!["\"n\""; TRACE_NAMES_MAX + 1].join(","));
        let deep = format!("{}{}", "[".repeat(121), "]".repeat(121));
        for (body, part) in [
            (String::new(), "a JSON body is required"),
            (
                "{\"partitionId\":\"1\",\"data\":1}".to_owned(),
                "transactionId is required",
            ),
            (
                "{\"transactionId\":\"\",\"partitionId\":\"1\",\"data\":1}".to_owned(),
                "transactionId is",
            ),
            (
                "{\"transactionId\":\"t\",\"data\":1}".to_owned(),
                "partitionId is required",
            ),
            (format!("{{{base}}}"), "data is required"),
            (
                format!("{{{base},\"data\":1,\"traceNames\":\"a\"}}"),
                "an array of strings or null",
            ),
            (
                format!("{{{base},\"data\":1,\"traceNames\":[1]}}"),
                "as traceNames",
            ),
            (
                format!("{{{base},\"data\":1,\"traceNames\":[\"\"]}}"),
                "traceNames[0] must not be empty",
            ),
            (
                format!("{{{base},\"data\":1,\"traceNames\":{many}}}"),
                "more than",
            ),
            (
                format!("{{{base},\"data\":1,\"eventType\":\"\"}}"),
                "eventType must not be empty",
            ),
            (
                format!("{{{base},\"data\":1,\"consumerGroup\":5}}"),
                "as consumerGroup",
            ),
            (format!("{{{base},\"data\":{deep}}}"), "nested deeper"),
        ] {
            let fault = new(&body).unwrap_err();
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
    }

    #[test]
    fn pages() {
        let page =
            |query: &str| decode_page(query.as_bytes()).map(|page| (page.limit, page.offset));
        assert_eq!(page(""), Ok((TRACE_ROWS_DEFAULT, 0)));
        assert_eq!(page("limit=&offset=&from=x"), Ok((TRACE_ROWS_DEFAULT, 0)));
        assert_eq!(page("limit=7&offset=9"), Ok((7, 9)));
        assert_eq!(page("limit=99999999999999999999"), Ok((TRACE_ROWS_MAX, 0)));
        for query in ["limit=0", "limit=-1", "limit=x", "offset=-1", "offset=1.5"] {
            assert!(page(query).is_err(), "{query}");
        }
    }
}
