//! `POST /api/v1/configure`.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::Number;
use serde_json::value::RawValue;

use super::name;
use crate::api::decode::BodyBytes;
use crate::api::decode::json::{Fields, describe, parse_body, parse_text, store};
use crate::api::durable_fault::DurableFault;
use crate::limits;
use crate::model::durable::{Configure, OptionChange, OptionChanges};

const SINK_HOLD_SECONDS_MIN: u32 = 60;

const OPTION_COUNT: usize = 21;
const OPTION_KEYS: [&str; OPTION_COUNT] = [
    "leaseTime",
    "retryLimit",
    "retryDelay",
    "deadLetterQueue",
    "dlqAfterMaxRetries",
    "delayedProcessing",
    "windowBuffer",
    "retentionEnabled",
    "retentionSeconds",
    "completedRetentionSeconds",
    "maxWaitTimeSeconds",
    "encryptionEnabled",
    "dedupWindowSeconds",
    "minPopWaitTime",
    "maxSize",
    "ttl",
    "priority",
    "retentionSinkHold",
    "retentionSinkHoldMaxSeconds",
    "namespace",
    "task",
];

/// What the body has beside options, which may stand in it, too.
const OTHER_KEYS: [&str; 3] = ["queue", "options", "mode"];
const BODY_KEYS: [&str; OPTION_COUNT + OTHER_KEYS.len()] = {
    let mut keys = [""; OPTION_COUNT + OTHER_KEYS.len()];
    let mut at = 0;
    while at < keys.len() {
        keys[at] = if at < OPTION_COUNT {
            OPTION_KEYS[at]
        } else {
            OTHER_KEYS[at - OPTION_COUNT]
        };
        at += 1;
    }
    keys
};

/// Values that are not read yet, by position in `BODY_KEYS`.
#[derive(Default)]
struct ConfigureBody<'a> {
    values: [Option<&'a RawValue>; BODY_KEYS.len()],
}

impl<'a> Fields<'a> for ConfigureBody<'a> {
    const NAME: &'static str = "the body of a configure";
    const KEYS: &'static [&'static str] = &BODY_KEYS;

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        store(&mut self.values[key], Self::KEYS[key], map.next_value()?)
    }
}

/// The same, by position in `OPTION_KEYS`.
#[derive(Default)]
struct OptionBag<'a> {
    values: [Option<&'a RawValue>; OPTION_COUNT],
}

impl<'a> Fields<'a> for OptionBag<'a> {
    const NAME: &'static str = "options";
    const KEYS: &'static [&'static str] = &OPTION_KEYS;

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        store(&mut self.values[key], Self::KEYS[key], map.next_value()?)
    }
}

/// Decodes a declaration. Options that this class does not have are ignored.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<Configure, DurableFault> {
    let fields: ConfigureBody<'_> = parse_body(body).map_err(DurableFault::bad_request)?;
    let (outside, [queue, options, mode]) = split(fields.values);
    let queue: Option<String> = queue.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let queue = queue.ok_or_else(|| DurableFault::bad_request("queue is required"))?;
    let replace = match mode.map_or("null", RawValue::get) {
        "null" | "\"merge\"" => false,
        "\"replace\"" => true,
        _ => {
            let text = "mode must be \"merge\" or \"replace\"";
            return Err(DurableFault::bad_request(text));
        }
    };
    let bag: OptionBag<'_> = match options.map_or("null", RawValue::get) {
        "null" => OptionBag::default(),
        text => parse_text(text).map_err(|error| {
            DurableFault::bad_request(format!("options is not valid: {}", describe(&error)))
        })?,
    };
    Ok(Configure {
        queue: name(queue.into(), || "queue".to_owned())?,
        replace,
        changes: read_changes(&Options { bag, outside })?,
    })
}

type Values<'a, const COUNT: usize> = [Option<&'a RawValue>; COUNT];

fn split(values: Values<'_, { BODY_KEYS.len() }>) -> (Values<'_, OPTION_COUNT>, Values<'_, 3>) {
    let (options, others) = values.split_at(OPTION_COUNT);
    (
        options.try_into().expect("so many stand first"),
        others.try_into().expect("so many are left"),
    )
}

/// Options where they stand.
struct Options<'a> {
    bag: OptionBag<'a>,
    /// Those beside the bag, which hold where the bag has none.
    outside: Values<'a, OPTION_COUNT>,
}

impl<'a> Options<'a> {
    /// The text of an option; `None`: it is not named.
    fn text(&self, key: &str) -> Option<&'a str> {
        let position = OPTION_KEYS.iter().position(|known| *known == key);
        let position = position.expect("a key of this class");
        let inside = self.bag.values[position].map(RawValue::get);
        let outside = self.outside[position].map(RawValue::get);
        // Clients send these whether they mean something or not.
        let is_empty =
            |text: &&str| matches!(key, "namespace" | "task") && matches!(*text, "null" | "\"\"");
        inside.or(outside.filter(|text| !is_empty(text)))
    }

    /// An option, read by `read`.
    fn change<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, DurableFault>,
    ) -> Result<OptionChange<T>, DurableFault> {
        match self.text(key) {
            None => Ok(OptionChange::Keep),
            Some("null") => Ok(OptionChange::Reset),
            Some(text) => read(text).map(OptionChange::Set),
        }
    }

    fn number(&self, key: &str, (min, max): (u32, u32)) -> Result<OptionChange<u32>, DurableFault> {
        let bounds = (i64::from(min), i64::from(max));
        self.change(key, |text| Ok(whole(key, text, bounds)? as u32))
    }

    fn seconds(&self, key: &str) -> Result<OptionChange<u32>, DurableFault> {
        self.number(key, (0, limits::DURABLE_SECONDS_MAX))
    }

    /// A number that is moved into its bounds.
    fn clamped(&self, key: &str, max: u32) -> Result<OptionChange<u32>, DurableFault> {
        self.change(key, |text| {
            let value = whole(key, text, (i64::MIN, i64::MAX))?;
            Ok(value.clamp(0, i64::from(max)) as u32)
        })
    }

    fn flag(&self, key: &str) -> Result<OptionChange<bool>, DurableFault> {
        self.change(key, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => {
                let text = format!("{key} must be true or false");
                Err(DurableFault::bad_request(text))
            }
        })
    }

    /// A name, or none.
    fn label(&self, key: &str) -> Result<OptionChange<Box<str>>, DurableFault> {
        self.change(key, |text| match read_text(key, text)? {
            text if text.is_empty() => Ok("".into()),
            text => name(text, || key.to_owned()),
        })
    }
}

fn read_changes(options: &Options<'_>) -> Result<OptionChanges, DurableFault> {
    let seconds_max = limits::DURABLE_SECONDS_MAX;
    Ok(OptionChanges {
        lease_s: options.number("leaseTime", (1, seconds_max))?,
        retry_limit: options.number("retryLimit", (0, limits::DURABLE_RETRY_LIMIT_MAX))?,
        retry_delay_ms: options.number("retryDelay", (0, limits::RETRY_DELAY_MS_MAX))?,
        dead_letter_queue: options.flag("deadLetterQueue")?,
        dead_letter_after_retries: options.flag("dlqAfterMaxRetries")?,
        delay_s: options.seconds("delayedProcessing")?,
        window_s: options.seconds("windowBuffer")?,
        retention_enabled: options.flag("retentionEnabled")?,
        retention_s: options.seconds("retentionSeconds")?,
        completed_retention_s: options.seconds("completedRetentionSeconds")?,
        max_wait_s: options.seconds("maxWaitTimeSeconds")?,
        encryption: options.flag("encryptionEnabled")?,
        dedup_window_s: options.clamped("dedupWindowSeconds", seconds_max)?,
        min_pop_wait_ms: options.clamped("minPopWaitTime", limits::MIN_POP_WAIT_MS_MAX)?,
        max_size: options.change("maxSize", |text| {
            let bounds = (0, limits::DURABLE_SIZE_MAX as i64);
            Ok(whole("maxSize", text, bounds)? as u64)
        })?,
        ttl_s: options.seconds("ttl")?,
        priority: options.change("priority", |text| {
            let bounds = (i64::from(i32::MIN), i64::from(i32::MAX));
            Ok(whole("priority", text, bounds)? as i32)
        })?,
        sink_hold: options.change("retentionSinkHold", read_sink_hold)?,
        sink_hold_max_s: options.number(
            "retentionSinkHoldMaxSeconds",
            (SINK_HOLD_SECONDS_MIN, limits::SINK_HOLD_SECONDS_MAX),
        )?,
        namespace: options.label("namespace")?,
        task: options.label("task")?,
    })
}

fn read_sink_hold(text: &str) -> Result<Box<str>, DurableFault> {
    let value = read_text("retentionSinkHold", text)?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if value.len() > limits::SINK_HOLD_BYTES_MAX || !value.bytes().all(is_allowed) {
        return Err(DurableFault::bad_request(
            "retentionSinkHold must be at most 64 letters, digits, dots, underscores and hyphens",
        ));
    }
    Ok(value.into())
}

fn read_text<'a>(key: &str, text: &'a str) -> Result<Cow<'a, str>, DurableFault> {
    let value: String = serde_json::from_str(text)
        .map_err(|_| DurableFault::bad_request(format!("{key} must be a string")))?;
    Ok(value.into())
}

/// A whole number within its bounds, both included, as JSON text.
pub(super) fn whole(field: &str, text: &str, (min, max): (i64, i64)) -> Result<i64, DurableFault> {
    let number: Option<Number> = serde_json::from_str(text).ok();
    let value = number.and_then(|number| match number.as_i64() {
        Some(value) => Some(value),
        // Whole, however it is written; what is out of range stays so.
        None => number
            .as_f64()
            .filter(|value| value.fract() == 0.0)
            .map(|value| value as i64),
    });
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| {
            let text = match (min, max) {
                (i64::MIN, i64::MAX) => format!("{field} must be a whole number"),
                _ => format!("{field} must be a whole number from {min} to {max}"),
            };
            DurableFault::bad_request(text)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::durable_fault::DurableFaultKind;
    use crate::model::durable::OptionChange::{Keep, Reset, Set};

    fn configure(body: &str) -> Result<Configure, DurableFault> {
        decode(BodyBytes::borrowed(body.as_bytes()))
    }

    fn changes(options: &str) -> OptionChanges {
        let body = format!("{{\"queue\":\"q\",\"options\":{options}}}");
        configure(&body).unwrap().changes
    }

    #[test]
    fn a_queue_alone_changes_nothing() {
        for rest in [
            "",
            ",\"options\":{}",
            ",\"options\":null,\"mode\":null",
            ",\"mode\":\"merge\"",
        ] {
            let configure = configure(&format!("{{\"queue\":\"a.b\"{rest}}}")).unwrap();
            assert_eq!((&*configure.queue, configure.replace), ("a.b", false));
            assert_eq!(configure.changes, OptionChanges::default());
        }
        let replace = configure("{\"queue\":\"q\",\"mode\":\"replace\"}").unwrap();
        assert!(replace.replace);
    }

    #[test]
    fn every_option_is_read() {
        let all = changes(
            "{\"leaseTime\":30,\"retryLimit\":0,\"retryDelay\":2500,\"deadLetterQueue\":false,\
             \"dlqAfterMaxRetries\":false,\"delayedProcessing\":3,\"windowBuffer\":2,\
             \"retentionEnabled\":true,\"retentionSeconds\":60,\"completedRetentionSeconds\":61,\
             \"maxWaitTimeSeconds\":7,\"encryptionEnabled\":true,\"dedupWindowSeconds\":62,\
             \"minPopWaitTime\":250,\"maxSize\":1000,\"ttl\":4242,\"priority\":-3,\
             \"retentionSinkHold\":\"a.B_c-9\",\"retentionSinkHoldMaxSeconds\":60,\
             \"namespace\":\"n\",\"task\":\"t\",\"somethingElse\":[]}",
        );
        let expected = OptionChanges {
            lease_s: Set(30),
            retry_limit: Set(0),
            retry_delay_ms: Set(2_500),
            dead_letter_queue: Set(false),
            dead_letter_after_retries: Set(false),
            delay_s: Set(3),
            window_s: Set(2),
            retention_enabled: Set(true),
            retention_s: Set(60),
            completed_retention_s: Set(61),
            max_wait_s: Set(7),
            encryption: Set(true),
            dedup_window_s: Set(62),
            min_pop_wait_ms: Set(250),
            max_size: Set(1_000),
            ttl_s: Set(4_242),
            priority: Set(-3),
            sink_hold: Set("a.B_c-9".into()),
            sink_hold_max_s: Set(60),
            namespace: Set("n".into()),
            task: Set("t".into()),
        };
        assert_eq!(all, expected);
        let nulls = OPTION_KEYS.map(|key| format!("\"{key}\":null")).join(",");
        let all = changes(&format!("{{{nulls}}}"));
        assert_eq!((all.lease_s, all.priority), (Reset, Reset));
        assert_eq!((all.namespace, all.sink_hold), (Reset, Reset));
    }

    #[test]
    fn options_may_stand_beside_the_bag_which_comes_first() {
        let configure = configure(
            "{\"queue\":\"q\",\"leaseTime\":5,\"retryLimit\":6,\"ttl\":null,\
             \"namespace\":\"outside\",\"task\":\"outside\",\
             \"options\":{\"leaseTime\":7,\"task\":\"inside\"}}",
        );
        let changes = configure.unwrap().changes;
        assert_eq!((changes.lease_s, changes.retry_limit), (Set(7), Set(6)));
        assert_eq!(changes.ttl_s, Reset);
        assert_eq!(changes.namespace, Set("outside".into()));
        assert_eq!(changes.task, Set("inside".into()));
    }

    #[test]
    fn an_empty_namespace_says_something_in_the_bag_only() {
        for outside in ["null", "\"\""] {
            let body = format!("{{\"queue\":\"q\",\"namespace\":{outside},\"task\":{outside}}}");
            let changes = configure(&body).unwrap().changes;
            assert_eq!((changes.namespace, changes.task), (Keep, Keep));
        }
        assert_eq!(changes("{\"namespace\":\"\"}").namespace, Set("".into()));
    }

    #[test]
    fn some_numbers_are_moved_into_their_bounds() {
        for (options, wait, window) in [
            (
                "{\"minPopWaitTime\":90000,\"dedupWindowSeconds\":-1}",
                60_000,
                0,
            ),
            ("{\"minPopWaitTime\":-5,\"dedupWindowSeconds\":0}", 0, 0),
            (
                "{\"minPopWaitTime\":60000.0,\"dedupWindowSeconds\":99999999999999999999}",
                60_000,
                315_360_000,
            ),
        ] {
            let changes = changes(options);
            assert_eq!(changes.min_pop_wait_ms, Set(wait));
            assert_eq!(changes.dedup_window_s, Set(window));
        }
    }

    #[test]
    fn malformed_declarations() {
        for (body, part) in [
            ("", "a JSON body is required"),
            ("{}", "queue is required"),
            ("{\"queue\":null}", "queue is required"),
            ("{\"queue\":5}", "queue is required"),
            ("{\"queue\":\"\"}", "queue must not be empty"),
            (
                "{\"queue\":\"q\",\"mode\":\"upsert\"}",
                "\"merge\" or \"replace\"",
            ),
            ("{\"queue\":\"q\",\"mode\":1}", "\"merge\" or \"replace\""),
            ("{\"queue\":\"q\",\"options\":[]}", "an object as options"),
            ("{\"queue\":\"q\",\"leaseTime\":\"x\"}", "leaseTime must be"),
            (
                "{\"queue\":\"q\",\"namespace\":5}",
                "namespace must be a string",
            ),
            (
                "{\"queue\":\"q\",\"namespace\":\"\\n\"}",
                "namespace must not",
            ),
        ] {
            let fault = configure(body).unwrap_err();
            assert_eq!(fault.kind, DurableFaultKind::BadRequest, "{body}");
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
        let long = "x".repeat(513);
        for body in [
            format!("{{\"queue\":\"{long}\"}}"),
            format!("{{\"queue\":\"q\",\"options\":{{\"task\":\"{long}\"}}}}"),
        ] {
            let fault = configure(&body).unwrap_err();
            assert_eq!(fault.kind, DurableFaultKind::NameTooLong);
        }
    }

    #[test]
    fn options_out_of_their_bounds() {
        for option in [
            "\"leaseTime\":0",
            "\"leaseTime\":-1",
            "\"leaseTime\":1.5",
            "\"leaseTime\":315360001",
            "\"leaseTime\":1e300",
            "\"leaseTime\":true",
            "\"retryLimit\":-1",
            "\"retryLimit\":1000001",
            "\"retryDelay\":-1",
            "\"retryDelay\":86400001",
            "\"deadLetterQueue\":1",
            "\"dlqAfterMaxRetries\":\"true\"",
            "\"delayedProcessing\":-1",
            "\"windowBuffer\":{}",
            "\"retentionEnabled\":0",
            "\"retentionSeconds\":-1",
            "\"completedRetentionSeconds\":\"1\"",
            "\"maxWaitTimeSeconds\":-1",
            "\"encryptionEnabled\":[]",
            "\"dedupWindowSeconds\":\"1\"",
            "\"minPopWaitTime\":0.5",
            "\"maxSize\":-1",
            "\"maxSize\":1000000000001",
            "\"ttl\":-1",
            "\"priority\":2147483648",
            "\"retentionSinkHold\":\"a b\"",
            "\"retentionSinkHold\":7",
            "\"retentionSinkHoldMaxSeconds\":59",
            "\"retentionSinkHoldMaxSeconds\":31536001",
            "\"namespace\":{}",
            "\"task\":true",
        ] {
            let key = option.split('"').nth(1).unwrap();
            for body in [
                format!("{{\"queue\":\"q\",\"options\":{{{option}}}}}"),
                format!("{{\"queue\":\"q\",{option}}}"),
            ] {
                let fault = configure(&body).unwrap_err();
                assert!(fault.text.starts_with(key), "{body}: {}", fault.text);
            }
        }
        let long = format!("\"{}\"", "x".repeat(65));
        let body = format!("{{\"queue\":\"q\",\"retentionSinkHold\":{long}}}");
        assert!(configure(&body).is_err());
    }
}
