//! `POST /api/v1/ephemeral/configure` and `POST /api/v1/ephemeral/reset`.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::value::RawValue;

use super::json::{Fields, Text, describe, parse_object, parse_text, required, store};
use super::{BodyBytes, queue_name};
use crate::limits;
use crate::model::{Configure, Policy, QueueName, QueueOptions, Refusal, WindowBuffer};

/// Characters of a client's text that an error quotes.
const QUOTED_CHARS_MAX: usize = 64;

#[derive(Default)]
struct ConfigureBody<'a> {
    queue: Option<Cow<'a, str>>,
    options: Option<&'a RawValue>,
}

impl<'a> Fields<'a> for ConfigureBody<'a> {
    const NAME: &'static str = "the body of a configure";
    const KEYS: &'static [&'static str] = &["queue", "options"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => store(&mut self.queue, name, map.next_value_seed(Text(name))?),
            _ => store(&mut self.options, name, map.next_value()?),
        }
    }
}

#[derive(Default)]
struct ResetBody<'a> {
    queue: Option<Cow<'a, str>>,
}

impl<'a> Fields<'a> for ResetBody<'a> {
    const NAME: &'static str = "the body of a reset";
    const KEYS: &'static [&'static str] = &["queue"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        store(&mut self.queue, name, map.next_value_seed(Text(name))?)
    }
}

const OPTION_KEYS: [&str; 7] = [
    "maxBytes",
    "maxLength",
    "policy",
    "ttlSeconds",
    "leaseSeconds",
    "retryLimit",
    "windowBuffer",
];

/// The values of the options, not read yet, by position in `OPTION_KEYS`.
#[derive(Default)]
struct OptionsText<'a> {
    values: [Option<&'a RawValue>; OPTION_KEYS.len()],
    unknown: Option<String>,
}

impl<'a> Fields<'a> for OptionsText<'a> {
    const NAME: &'static str = "options";
    const KEYS: &'static [&'static str] = &OPTION_KEYS;

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        store(&mut self.values[key], Self::KEYS[key], map.next_value()?)
    }

    fn unknown(&mut self, key: &str) {
        self.unknown.get_or_insert_with(|| quoted(key));
    }
}

#[derive(Default)]
struct WindowText<'a> {
    values: [Option<&'a RawValue>; 2],
    unknown: Option<String>,
}

impl<'a> Fields<'a> for WindowText<'a> {
    const NAME: &'static str = "options.windowBuffer";
    const KEYS: &'static [&'static str] = &["ms", "count"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        store(&mut self.values[key], Self::KEYS[key], map.next_value()?)
    }

    fn unknown(&mut self, key: &str) {
        self.unknown.get_or_insert_with(|| quoted(key));
    }
}

/// Decodes a configure. Values are as asked; whoever declares the queue clamps them.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<Configure<'_>, Refusal> {
    let fields: ConfigureBody<'_> = parse_object(body)?;
    let queue = queue_name(required(fields.queue, "queue")?)?;
    let (options, options_as_sent) = match fields.options.map(RawValue::get) {
        None | Some("null") => (QueueOptions::default(), "{}"),
        Some(text) if text.len() > limits::OPTIONS_BYTES_MAX => {
            return Err(Refusal::bad_request(format!(
                "options must be at most {} bytes of JSON",
                limits::OPTIONS_BYTES_MAX
            )));
        }
        Some(text) => (read_options(text)?, text),
    };
    Ok(Configure {
        queue,
        options,
        options_as_sent: Cow::Borrowed(options_as_sent),
        stored: false,
    })
}

/// Reads a declaration that is stored.
pub(super) fn read_stored(queue: &str, options: &str) -> Result<Configure<'static>, Refusal> {
    Ok(Configure {
        queue: queue_name(queue.to_owned())?,
        options: read_options(options)?,
        options_as_sent: Cow::Owned(options.to_owned()),
        stored: true,
    })
}

/// Decodes a reset.
pub(super) fn decode_reset(body: BodyBytes<'_>) -> Result<QueueName<'_>, Refusal> {
    let fields: ResetBody<'_> = parse_object(body)?;
    queue_name(required(fields.queue, "queue")?)
}

fn read_options(text: &str) -> Result<QueueOptions, Refusal> {
    let fields: OptionsText<'_> = parse_part("options", text)?;
    if let Some(key) = fields.unknown {
        return Err(unknown_option("options", &key));
    }
    let [
        max_bytes,
        max_length,
        policy,
        ttl_seconds,
        lease_seconds,
        retry_limit,
        window_buffer,
    ] = fields.values;
    let unless_zero = |value: Option<u64>| value.filter(|value| *value > 0);
    Ok(QueueOptions {
        max_bytes: unless_zero(whole("options.maxBytes", max_bytes)?),
        max_length: unless_zero(whole("options.maxLength", max_length)?),
        policy: read_policy(policy)?,
        ttl_ms: unless_zero(read_ttl_seconds(ttl_seconds)?).map(|seconds| seconds * 1_000),
        lease_ms: unless_zero(whole("options.leaseSeconds", lease_seconds)?)
            .map(|seconds| seconds.saturating_mul(1_000)),
        retry_limit: whole("options.retryLimit", retry_limit)?,
        window_buffer: read_window(window_buffer)?,
    })
}

fn read_policy(raw: Option<&RawValue>) -> Result<Policy, Refusal> {
    let Some(raw) = raw else {
        return Ok(Policy::default());
    };
    match serde_json::from_str::<String>(raw.get()).as_deref() {
        Ok("reject") => Ok(Policy::Reject),
        Ok("dropOldest") => Ok(Policy::DropOldest),
        _ => Err(Refusal::bad_request(format!(
            "options.policy must be \"reject\" or \"dropOldest\", not {}",
            quoted(raw.get())
        ))),
    }
}

fn read_window(raw: Option<&RawValue>) -> Result<WindowBuffer, Refusal> {
    let text = match raw.map(RawValue::get) {
        None | Some("null") => return Ok(WindowBuffer::default()),
        Some(text) => text,
    };
    let fields: WindowText<'_> = parse_part("options.windowBuffer", text)?;
    if let Some(key) = fields.unknown {
        return Err(unknown_option("options.windowBuffer", &key));
    }
    let [ms, count] = fields.values;
    Ok(WindowBuffer {
        ms: whole("options.windowBuffer.ms", ms)?.unwrap_or(0),
        count: whole("options.windowBuffer.count", count)?.unwrap_or(0),
    })
}

fn read_ttl_seconds(raw: Option<&RawValue>) -> Result<Option<u64>, Refusal> {
    const FIELD: &str = "options.ttlSeconds";
    const SECONDS_MAX: u64 = limits::TTL_MS_MAX / 1_000;
    let text = raw.map_or("null", RawValue::get);
    let (reason, rule) = match Whole::read(text) {
        Whole::Absent => return Ok(None),
        Whole::Value(seconds) if seconds <= SECONDS_MAX => return Ok(Some(seconds)),
        Whole::Value(_) => ("ttl_too_large", "must be at most 315360000 (3650 days)"),
        Whole::Negative => ("ttl_negative", "must not be negative"),
        Whole::Other => ("ttl_not_integer", "must be an integer"),
    };
    Err(Refusal::BadRequest {
        text: format!("{FIELD} {rule}, not {}", quoted(text)),
        reason: Some(reason),
        field: Some(FIELD.to_owned()),
    })
}

/// A number of an option; one that is too large for any bound counts as the largest.
fn whole(field: &str, raw: Option<&RawValue>) -> Result<Option<u64>, Refusal> {
    let text = raw.map_or("null", RawValue::get);
    match Whole::read(text) {
        Whole::Absent => Ok(None),
        Whole::Value(value) => Ok(Some(value)),
        Whole::Negative | Whole::Other => Err(Refusal::bad_request(format!(
            "{field} must be an integer of at least 0, not {}",
            quoted(text)
        ))),
    }
}

/// What a JSON value is as a whole number.
enum Whole {
    Absent,
    Value(u64),
    Negative,
    Other,
}

impl Whole {
    /// Reads well-formed JSON text without whitespace around it.
    fn read(text: &str) -> Whole {
        if text == "null" {
            return Whole::Absent;
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            Whole::Other
        } else if digits == "0" {
            Whole::Value(0)
        } else if digits.len() < text.len() {
            Whole::Negative
        } else {
            Whole::Value(digits.parse().unwrap_or(u64::MAX))
        }
    }
}

fn parse_part<'a, F: Fields<'a>>(field: &str, text: &'a str) -> Result<F, Refusal> {
    parse_text(text).map_err(|error| {
        let message = describe(&error);
        Refusal::bad_request(format!("{field} is not valid: {message} of its own text"))
    })
}

/// The client means something that this class does not do: silence would hide that from it.
fn unknown_option(object: &str, key: &str) -> Refusal {
    let durable_only = object == "options" && matches!(key, "onExpired" | "expiredQueue");
    let (reason, rule) = if durable_only {
        ("option_not_on_class", "does not exist on ephemeral queues")
    } else {
        ("unknown_option", "is not an option")
    };
    Refusal::BadRequest {
        text: format!("{object}.{key} {rule}"),
        reason: Some(reason),
        field: Some(format!("{object}.{key}")),
    }
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::decode::tests::refusal_text;

    fn configure(body: &str) -> Result<Configure<'_>, Refusal> {
        decode(BodyBytes::borrowed(body.as_bytes()))
    }

    fn options(text: &str) -> Result<QueueOptions, Refusal> {
        let body = format!("{{\"queue\":\"q\",\"options\":{text}}}");
        configure(&body).map(|configure| configure.options)
    }

    #[test]
    fn configure_without_options_takes_the_defaults() {
        for body in [
            "{\"queue\":\"q\"}",
            "{\"queue\":\"q\",\"options\": null }",
            "{\"queue\":\"q\",\"options\":{}}",
        ] {
            let configure = configure(body).unwrap();
            assert_eq!(configure.options, QueueOptions::default());
            assert_eq!(configure.options_as_sent, "{}");
        }
    }

    #[test]
    fn configure_reads_all_options_and_keeps_their_text() {
        let sent = "{ \"maxLength\":7, \"maxBytes\":99999999999999999999999, \
                \"policy\":\"drop\\u004fldest\",\"ttlSeconds\":300,\"leaseSeconds\":2,\
                \"retryLimit\":0,\"windowBuffer\":{\"count\":5} }";
        let body = format!("{{\"options\": {sent} ,\"queue\":\"q\",\"x\":1}}");
        let configure = configure(&body).unwrap();
        assert_eq!(configure.options_as_sent, sent);
        assert_eq!(
            configure.options,
            QueueOptions {
                max_bytes: Some(u64::MAX),
                max_length: Some(7),
                policy: Policy::DropOldest,
                ttl_ms: Some(300_000),
                lease_ms: Some(2_000),
                retry_limit: Some(0),
                window_buffer: WindowBuffer { ms: 0, count: 5 },
            }
        );
    }

    #[test]
    fn null_and_zero_options() {
        let nulls = "{\"maxBytes\":null,\"maxLength\":null,\"ttlSeconds\":null,\
                 \"leaseSeconds\":null,\"retryLimit\":null,\"windowBuffer\":null}";
        assert_eq!(options(nulls), Ok(QueueOptions::default()));
        let zeros = "{\"maxBytes\":0,\"maxLength\":0,\"ttlSeconds\":0,\"leaseSeconds\":0,\
                 \"windowBuffer\":{\"ms\":null,\"count\":0}}";
        assert_eq!(options(zeros), Ok(QueueOptions::default()));
    }

    #[test]
    fn unknown_options_are_named() {
        let named = |text: &str| match options(text).unwrap_err() {
            Refusal::BadRequest {
                text,
                reason: Some(reason),
                field: Some(field),
            } => {
                assert!(text.contains(&field), "{text}");
                (reason, field)
            }
            other => panic!("{other:?}"),
        };
        let unknown = |field: &str| ("unknown_option", field.to_owned());
        assert_eq!(named("{\"ttlSecond\":1}"), unknown("options.ttlSecond"));
        assert_eq!(named("{\"ttl\":1}"), unknown("options.ttl"));
        assert_eq!(named("{\"MaxBytes\":1}"), unknown("options.MaxBytes"));
        assert_eq!(
            named("{\"windowBuffer\":{\"ms\":1,\"size\":{\"a\":1}}}"),
            unknown("options.windowBuffer.size")
        );
        for key in ["onExpired", "expiredQueue"] {
            let (reason, field) = named(&format!("{{\"{key}\":\"dlq\"}}"));
            assert_eq!(reason, "option_not_on_class");
            assert_eq!(field, format!("options.{key}"));
        }
        let (_, field) = named(&format!("{{\"{}\":1}}", "k".repeat(10_000)));
        assert!(field.len() < 100);
    }

    #[test]
    fn malformed_options() {
        for key in ["maxBytes", "maxLength", "leaseSeconds", "retryLimit"] {
            for value in ["-1", "1.5", "5.0", "1e3", "\"5\"", "true", "[]", "{}"] {
                let refusal = options(&format!("{{\"{key}\":{value}}}")).unwrap_err();
                let text = refusal_text(refusal);
                assert!(text.contains(&format!("options.{key} must be")), "{text}");
            }
        }
        for value in ["null", "\"REJECT\"", "\"\"", "1", "true"] {
            let refusal = options(&format!("{{\"policy\":{value}}}")).unwrap_err();
            assert!(refusal_text(refusal).contains("options.policy must be"));
        }
        for (text, part) in [
            ("[]", "options is not valid"),
            ("\"x\"", "options is not valid"),
            (
                "{\"policy\":\"reject\",\"policy\":\"reject\"}",
                "duplicate key \"policy\"",
            ),
            ("{\"windowBuffer\":5}", "options.windowBuffer is not valid"),
            (
                "{\"windowBuffer\":[1,2]}",
                "options.windowBuffer is not valid",
            ),
            (
                "{\"windowBuffer\":{\"ms\":-1}}",
                "options.windowBuffer.ms must be",
            ),
            (
                "{\"windowBuffer\":{\"ms\":1,\"ms\":1}}",
                "duplicate key \"ms\"",
            ),
        ] {
            let text = refusal_text(options(text).unwrap_err());
            assert!(text.contains(part), "{text}");
        }
        let refusal = configure("{\"options\":{}}").unwrap_err();
        assert_eq!(refusal_text(refusal), "queue is required");
    }

    #[test]
    fn faults_of_a_ttl_have_a_reason() {
        for (value, expected) in [
            ("\"60\"", "ttl_not_integer"),
            ("5.0", "ttl_not_integer"),
            ("1e3", "ttl_not_integer"),
            ("-1.5", "ttl_not_integer"),
            ("true", "ttl_not_integer"),
            ("[]", "ttl_not_integer"),
            ("-1", "ttl_negative"),
            ("315360001", "ttl_too_large"),
            ("99999999999999999999999999999999", "ttl_too_large"),
        ] {
            match options(&format!("{{\"ttlSeconds\":{value}}}")).unwrap_err() {
                Refusal::BadRequest { reason, field, .. } => {
                    assert_eq!(reason, Some(expected), "{value}");
                    assert_eq!(field.as_deref(), Some("options.ttlSeconds"));
                }
                other => panic!("{other:?}"),
            }
        }
        let longest = options("{\"ttlSeconds\":315360000}").unwrap();
        assert_eq!(longest.ttl_ms, Some(limits::TTL_MS_MAX));
    }

    #[test]
    fn reset_reads_a_queue() {
        let reset = |body: &'static str| {
            decode_reset(BodyBytes::borrowed(body.as_bytes()))
                .map(|queue| queue.as_str().to_owned())
                .map_err(refusal_text)
        };
        assert_eq!(reset("{\"queue\":\"q\",\"more\":1}"), Ok("q".to_owned()));
        assert_eq!(reset("{}"), Err("queue is required".to_owned()));
        assert_eq!(reset(""), Err("a JSON body is required".to_owned()));
    }
}
