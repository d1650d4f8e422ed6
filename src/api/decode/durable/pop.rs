//! `GET /api/v1/pop`, `GET /api/v1/pop/queue/:queue` and `.../partition/:partition`.

use std::borrow::Cow;

use super::{group, name};
use crate::api::decode::query::known;
use crate::api::durable_fault::DurableFault;
use crate::api::timestamp::parse_timestamp;
use crate::limits;
use crate::model::durable::{Pop, QUEUE_MODE_GROUP, Source, Start};

/// Messages of a pop that does not say.
const BATCH_DEFAULT: u64 = 200;

const KEYS: [&str; 11] = [
    "batch",
    "partitions",
    "wait",
    "timeout",
    "consumerGroup",
    "namespace",
    "task",
    "autoAck",
    "subscriptionMode",
    "subscriptionFrom",
    "leaseSeconds",
];

/// Decodes the query of a pop. Without a source it is a discovery.
pub(super) fn decode(
    source: Option<Source>,
    query: &[u8],
    default_timeout_ms: u64,
) -> Result<Pop, DurableFault> {
    // An empty value says nothing.
    let values = known(query, KEYS).map_err(DurableFault::bad_request)?;
    let values = values.map(|value| value.filter(|text| !text.is_empty()));
    let [
        batch,
        partitions,
        wait,
        timeout,
        consumer_group,
        namespace,
        task,
        auto_ack,
        mode,
        from,
        lease,
    ] = values;
    let wait_max = limits::DURABLE_WAIT_MS_MAX;
    let timeout_ms = at_most("timeout", timeout, (0, wait_max))?
        .unwrap_or_else(|| default_timeout_ms.min(wait_max));
    let autopilot = is_autopilot(query)?;
    let partitions_max = u64::from(limits::POP_PARTITIONS_MAX);
    let partitions_default = match autopilot {
        true => limits::AUTOPILOT_PARTITIONS,
        false => 1,
    };
    let partitions = at_most("partitions", partitions, (1, partitions_max))?;
    let group = group(consumer_group, || "consumerGroup".to_owned())?;
    let start = read_start(mode, from)?;
    let waits = flag("wait", wait)?;
    Ok(Pop {
        source: match source {
            Some(source) => source,
            None => discovery(namespace, task)?,
        },
        batch: at_most("batch", batch, (1, limits::BATCH_ITEMS_MAX as u64))?
            .unwrap_or(BATCH_DEFAULT) as u32,
        partitions: partitions.map_or(partitions_default, |number| number as u32),
        autopilot,
        wait_ms: (waits && timeout_ms > 0).then_some(timeout_ms),
        auto_ack: flag("autoAck", auto_ack)?,
        lease_s: lease_seconds(lease)?,
        // The queue's own group has always begun at the beginning.
        start: if *group == *QUEUE_MODE_GROUP {
            Some(Start::All)
        } else {
            start
        },
        group,
    })
}

/// Whether the broker is to choose what the client leaves open.
fn is_autopilot(query: &[u8]) -> Result<bool, DurableFault> {
    let [autopilot] = known(query, ["autopilot"]).map_err(DurableFault::bad_request)?;
    flag("autopilot", autopilot.filter(|text| !text.is_empty()))
}

fn discovery(
    namespace: Option<Cow<'_, str>>,
    task: Option<Cow<'_, str>>,
) -> Result<Source, DurableFault> {
    if namespace.is_none() && task.is_none() {
        return Err(DurableFault::bad_request("namespace or task is required"));
    }
    let checked = |text: Option<Cow<'_, str>>, field: &str| {
        text.map(|text| name(text, || field.to_owned())).transpose()
    };
    Ok(Source::Discovery {
        namespace: checked(namespace, "namespace")?,
        task: checked(task, "task")?,
    })
}

/// A time beats a word. A word that is not `new` is one for the beginning, whatever it is.
fn read_start(
    mode: Option<Cow<'_, str>>,
    from: Option<Cow<'_, str>>,
) -> Result<Option<Start>, DurableFault> {
    let from = match from.as_deref() {
        None => None,
        Some("now") => Some(Start::New),
        Some(text) => Some(Start::At(parse_timestamp(text).ok_or_else(|| {
            DurableFault::bad_request(
                "subscriptionFrom must be \"now\" or an ISO 8601 time such as \
                 2026-01-31T12:00:00.000Z",
            )
        })?)),
    };
    let mode = mode.as_deref().map(|mode| match mode {
        "new" | "new-only" => Start::New,
        _ => Start::All,
    });
    Ok(from.or(mode))
}

fn lease_seconds(text: Option<Cow<'_, str>>) -> Result<Option<u32>, DurableFault> {
    let Some(text) = text else {
        return Ok(None);
    };
    let max = limits::DURABLE_SECONDS_MAX;
    match text.parse() {
        Ok(seconds) if (1..=max).contains(&seconds) => Ok(Some(seconds)),
        _ => Err(DurableFault::bad_request(format!(
            "leaseSeconds must be a whole number from 1 to {max}"
        ))),
    }
}

/// A whole number of at least the lower bound. The upper one is what the broker gives at most: who
/// asks for more gets that much.
fn at_most(
    key: &str,
    text: Option<Cow<'_, str>>,
    (min, max): (u64, u64),
) -> Result<Option<u64>, DurableFault> {
    let Some(text) = text else {
        return Ok(None);
    };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse().unwrap_or(u64::MAX);
    if !is_number || value < min {
        let text = format!("{key} must be a whole number of at least {min}");
        return Err(DurableFault::bad_request(text));
    }
    Ok(Some(value.min(max)))
}

pub(super) fn flag(key: &str, text: Option<Cow<'_, str>>) -> Result<bool, DurableFault> {
    let Some(text) = text else {
        return Ok(false);
    };
    let is_one_of = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_one_of(["true", "1", "yes", "on"]) {
        Ok(true)
    } else if is_one_of(["false", "0", "no", "off"]) {
        Ok(false)
    } else {
        let text = format!("{key} must be true or false");
        Err(DurableFault::bad_request(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::durable_fault::DurableFaultKind;

    fn pop(query: &str) -> Result<Pop, DurableFault> {
        decode(Some(Source::Queue("q".into())), query.as_bytes(), 30_000)
    }

    #[test]
    fn what_is_left_open_has_its_default() {
        for query in [
            "",
            "batch=&partitions=&wait=&timeout=&consumerGroup=&namespace=&task=&autoAck=\
             &subscriptionMode=&subscriptionFrom=&leaseSeconds=&autopilot=",
            "wait=false&timeout=30000&frames=true&conflation=true&x=%20",
            "autopilot=off&autoAck=false",
        ] {
            let pop = pop(query).unwrap();
            assert_eq!(pop.source, Source::Queue("q".into()));
            assert_eq!((pop.batch, pop.partitions), (200, 1), "{query}");
            assert_eq!(
                (pop.wait_ms, pop.auto_ack, pop.lease_s),
                (None, false, None)
            );
            assert_eq!(&*pop.group, "__QUEUE_MODE__");
            assert_eq!(pop.start, Some(Start::All));
        }
    }

    #[test]
    fn everything_that_can_be_said() {
        let pop = pop(
            "batch=10&partitions=4&wait=true&timeout=2000&consumerGroup=a%20b%2F&autoAck=true\
             &subscriptionMode=new&leaseSeconds=7&autopilot=true",
        );
        let pop = pop.unwrap();
        assert_eq!((pop.batch, pop.partitions), (10, 4));
        assert_eq!((pop.wait_ms, pop.lease_s), (Some(2_000), Some(7)));
        assert_eq!((&*pop.group, pop.auto_ack), ("a b/", true));
        assert_eq!(pop.start, Some(Start::New));
    }

    #[test]
    fn more_than_there_is_gives_what_there_is() {
        let sizes = |query: &str| pop(query).map(|pop| (pop.batch, pop.partitions));
        assert_eq!(sizes("batch=10001&partitions=257"), Ok((10_000, 256)));
        assert_eq!(sizes("batch=99999999999999999999999"), Ok((10_000, 1)));
        assert_eq!(sizes("autopilot=true"), Ok((200, 64)));
        assert_eq!(sizes("autopilot=true&batch=10"), Ok((10, 64)));
        assert_eq!(sizes("autopilot=true&partitions=1"), Ok((200, 1)));
        let wait = |query: &str| pop(query).map(|pop| pop.wait_ms);
        assert_eq!(wait("wait=TRUE"), Ok(Some(30_000)));
        assert_eq!(wait("wait=1&timeout=300000"), Ok(Some(60_000)));
        assert_eq!(wait("wait=true&timeout=0"), Ok(None));
        let long = decode(Some(Source::Queue("q".into())), b"wait=true", 300_000);
        assert_eq!(long.unwrap().wait_ms, Some(60_000));
    }

    #[test]
    fn where_a_group_starts() {
        let start = |query: &str| pop(&format!("consumerGroup=g&{query}")).map(|pop| pop.start);
        assert_eq!(start(""), Ok(None));
        for (word, expected) in [
            ("new", Start::New),
            ("new-only", Start::New),
            ("all", Start::All),
            ("from_beginning", Start::All),
            ("anything", Start::All),
        ] {
            assert_eq!(
                start(&format!("subscriptionMode={word}")),
                Ok(Some(expected))
            );
        }
        assert_eq!(start("subscriptionFrom=now"), Ok(Some(Start::New)));
        let time = "subscriptionMode=new&subscriptionFrom=1970-01-01T01:00:00%2B01:00";
        assert_eq!(start(time), Ok(Some(Start::At(0))));
        let now = "subscriptionMode=all&subscriptionFrom=now";
        assert_eq!(start(now), Ok(Some(Start::New)));
        assert_eq!(pop("subscriptionFrom=now").unwrap().start, Some(Start::All));
    }

    #[test]
    fn a_discovery_needs_something_to_go_by() {
        let discover = |query: &str| decode(None, query.as_bytes(), 30_000).map(|pop| pop.source);
        let both = discover("namespace=a&task=b%2Fc").unwrap();
        assert_eq!(
            both,
            Source::Discovery {
                namespace: Some("a".into()),
                task: Some("b/c".into()),
            }
        );
        let task = discover("namespace=&task=b").unwrap();
        assert_eq!(
            task,
            Source::Discovery {
                namespace: None,
                task: Some("b".into()),
            }
        );
        for query in ["", "namespace=&task=", "queue=q"] {
            let fault = discover(query).unwrap_err();
            assert_eq!(fault.text, "namespace or task is required");
        }
    }

    #[test]
    fn malformed_pops() {
        for (query, part) in [
            ("batch=0", "batch must be a whole number of at least 1"),
            ("batch=-1", "batch must be"),
            ("batch=1.5", "batch must be"),
            ("batch=many", "batch must be"),
            ("batch=%zz", "the query is malformed"),
            ("batch=1&batch=1", "batch more than once"),
            ("partitions=0", "partitions must be"),
            ("timeout=-5", "timeout must be"),
            ("timeout=soon", "timeout must be"),
            ("wait=maybe", "wait must be true or false"),
            ("autoAck=2", "autoAck must be"),
            ("autopilot=2", "autopilot must be"),
            ("leaseSeconds=0", "leaseSeconds must be"),
            ("leaseSeconds=-1", "leaseSeconds must be"),
            ("leaseSeconds=315360001", "leaseSeconds must be"),
            ("consumerGroup=%0a", "consumerGroup must not"),
            (
                "consumerGroup=g&subscriptionFrom=yesterday",
                "subscriptionFrom must be",
            ),
            ("subscriptionFrom=yesterday", "subscriptionFrom must be"),
        ] {
            let fault = pop(query).unwrap_err();
            assert_eq!(fault.kind, DurableFaultKind::BadRequest, "{query}");
            assert!(fault.text.contains(part), "{query}: {}", fault.text);
        }
        let fault = pop(&format!("consumerGroup={}", "x".repeat(513))).unwrap_err();
        assert_eq!(fault.kind, DurableFaultKind::NameTooLong);
    }
}
