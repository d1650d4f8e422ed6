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
        Some(text) => (read_options(text)?, text),
    };
    Ok(Configure {
        queue,
        options,
        options_as_sent: Cow::Borrowed(options_as_sent),
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
        Whole::NotWhole => ("ttl_not_integer", "must be an integer"),
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
        Whole::Negative | Whole::NotWhole => Err(Refusal::bad_request(format!(
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
    NotWhole,
}

impl Whole {
    /// Reads well-formed JSON text without whitespace around it.
    fn read(text: &str) -> Whole {
        if text == "null" {
            return Whole::Absent;
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            Whole::NotWhole
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
