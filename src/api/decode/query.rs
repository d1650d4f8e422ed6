//! Queries: `GET .../pop`, `GET .../queues` and `GET .../queues/:queue/depth`.

use std::borrow::Cow;

use super::{ListRequest, bad_target, queue_name};
use crate::http::form_pairs;
use crate::limits;
use crate::model::{GroupName, PartitionName, Pop, Refusal};

/// The values of the known keys, in the order of `keys`. Other keys are ignored.
pub(super) fn known<'a, const COUNT: usize>(
    query: &'a [u8],
    keys: [&str; COUNT],
) -> Result<[Option<Cow<'a, str>>; COUNT], String> {
    let mut values = [const { None }; COUNT];
    for pair in form_pairs(query) {
        let (key, value) = pair.map_err(|fault| bad_target("query", fault))?;
        let Some(position) = keys.iter().position(|known| *known == key) else {
            continue;
        };
        if values[position].replace(value).is_some() {
            return Err(format!("the query has {} more than once", keys[position]));
        }
    }
    Ok(values)
}

/// Decodes the query of a pop.
pub(super) fn decode_pop(query: &[u8], default_timeout_ms: u64) -> Result<Pop<'_>, Refusal> {
    let [
        queue,
        partition,
        batch,
        wait,
        timeout,
        group,
        auto_ack,
        commit_on_delivery,
    ] = known(
        query,
        [
            "queue",
            "partition",
            "batch",
            "wait",
            "timeout",
            "group",
            "autoAck",
            "commitOnDelivery",
        ],
    )
    .map_err(Refusal::bad_request)?;
    let queue = queue.ok_or_else(|| Refusal::bad_request("queue is required"))?;
    let batch = batch.and_then(|text| clamped(&text, 1, limits::BATCH_ITEMS_MAX as u64));
    let timeout = timeout.and_then(|text| clamped(&text, 0, limits::POP_WAIT_MS_MAX));
    let timeout_ms = timeout.unwrap_or(default_timeout_ms);
    Ok(Pop {
        queue: queue_name(queue)?,
        partition: partition_name(partition)?,
        group: group_name(group)?.unwrap_or(GroupName::QUEUE_MODE),
        batch: batch.unwrap_or(1) as u32,
        wait_ms: (is_true(wait) && timeout_ms > 0).then_some(timeout_ms),
        since: None,
        auto_ack: is_true(auto_ack) || is_true(commit_on_delivery),
    })
}

/// Decodes the query of a depth: the group, if one is asked for.
pub(super) fn decode_depth(query: &[u8]) -> Result<Option<GroupName<'_>>, Refusal> {
    let [group] = known(query, ["group"]).map_err(Refusal::bad_request)?;
    group_name(group)
}

/// Decodes the query of a listing.
pub(super) fn decode_listing(query: &[u8]) -> Result<ListRequest<'_>, Refusal> {
    let keys = ["limit", "after", "prefix"];
    let [limit, after, prefix] = known(query, keys).map_err(Refusal::bad_request)?;
    Ok(ListRequest {
        after: after.filter(|text| !text.is_empty()),
        prefix: prefix.unwrap_or_default(),
        limit: limit.and_then(|text| clamped(&text, 1, u64::MAX)),
    })
}

/// A partition's name; an empty one counts as absent.
pub(super) fn partition_name(
    text: Option<Cow<'_, str>>,
) -> Result<Option<PartitionName<'_>>, Refusal> {
    text.filter(|text| !text.is_empty())
        .map(PartitionName::new)
        .transpose()
        .map_err(|fault| Refusal::bad_request(format!("partition {fault}")))
}

/// A group's name; an empty one counts as absent.
pub(super) fn group_name(text: Option<Cow<'_, str>>) -> Result<Option<GroupName<'_>>, Refusal> {
    text.filter(|text| !text.is_empty())
        .map(GroupName::new)
        .transpose()
        .map_err(|fault| Refusal::bad_request(format!("group {fault}")))
}

fn is_true(text: Option<Cow<'_, str>>) -> bool {
    matches!(text.as_deref(), Some("true" | "1"))
}

/// An integer of any size, moved into the bounds; `None` if it is not one.
fn clamped(text: &str, min: u64, max: u64) -> Option<u64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.starts_with('-') {
        return Some(min);
    }
    Some(digits.parse().unwrap_or(u64::MAX).clamp(min, max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::decode::tests::refusal_text;

    #[test]
    fn integers_are_clamped() {
        for (text, expected) in [
            ("5", Some(5)),
            ("005", Some(5)),
            ("+5", Some(5)),
            ("0", Some(1)),
            ("-5", Some(1)),
            ("-99999999999999999999999999", Some(1)),
            ("11", Some(10)),
            ("99999999999999999999999999", Some(10)),
            ("", None),
            ("-", None),
            (" 5", None),
            ("5.0", None),
            ("1e1", None),
            ("five", None),
        ] {
            assert_eq!(clamped(text, 1, 10), expected, "{text}");
        }
    }

    fn pop(query: &str) -> Result<Pop<'_>, Refusal> {
        decode_pop(query.as_bytes(), 30_000)
    }

    #[test]
    fn a_plain_pop() {
        let pop = pop("queue=inbox").unwrap();
        assert_eq!(pop.queue.as_str(), "inbox");
        assert_eq!(pop.partition, None);
        assert_eq!(pop.group.as_str(), "__QUEUE_MODE__");
        assert_eq!((pop.batch, pop.wait_ms, pop.auto_ack), (1, None, false));
    }

    #[test]
    fn a_full_pop_in_both_encodings_of_a_space() {
        for query in [
            "queue=a%20b&partition=p%2F1&batch=10&wait=true&timeout=2000&group=g%26h&autoAck=true",
            "autoAck=1&group=g%26h&x=y&timeout=2000&wait=1&batch=10&partition=p/1&queue=a+b",
            "queue=a+b&partition=p/1&batch=10&wait=true&timeout=2000&group=g%26h&commitOnDelivery=true",
        ] {
            let pop = pop(query).unwrap();
            assert_eq!(pop.queue.as_str(), "a b");
            assert_eq!(pop.partition.unwrap().as_str(), "p/1");
            assert_eq!(pop.group.as_str(), "g&h");
            assert_eq!(
                (pop.batch, pop.wait_ms, pop.auto_ack),
                (10, Some(2_000), true)
            );
        }
    }

    #[test]
    fn pop_values_are_clamped_or_fall_back() {
        let batch = |value: &str| pop(&format!("queue=q&batch={value}")).map(|pop| pop.batch);
        assert_eq!(batch("0"), Ok(1));
        assert_eq!(batch("-7"), Ok(1));
        assert_eq!(batch("10001"), Ok(10_000));
        assert_eq!(batch("99999999999999999999999"), Ok(10_000));
        assert_eq!(batch("many"), Ok(1));
        assert_eq!(batch(""), Ok(1));
        let wait = |value: &str| pop(&format!("queue=q&wait=true{value}")).map(|pop| pop.wait_ms);
        assert_eq!(wait(""), Ok(Some(30_000)));
        assert_eq!(wait("&timeout=soon"), Ok(Some(30_000)));
        assert_eq!(wait("&timeout=300001"), Ok(Some(300_000)));
        assert_eq!(wait("&timeout=99999999999999999999999"), Ok(Some(300_000)));
        assert_eq!(wait("&timeout=0"), Ok(None));
        assert_eq!(wait("&timeout=-1"), Ok(None));
        for value in ["false", "TRUE", "yes", "", "0"] {
            let query = format!("queue=q&wait={value}&autoAck={value}&commitOnDelivery={value}");
            let pop = pop(&query).unwrap();
            assert_eq!((pop.wait_ms, pop.auto_ack), (None, false), "{value}");
        }
        let empty = pop("queue=q&partition=&group=").unwrap();
        assert_eq!(empty.partition, None);
        assert_eq!(empty.group.as_str(), "__QUEUE_MODE__");
    }

    #[test]
    fn malformed_pops() {
        for (query, part) in [
            ("", "queue is required"),
            ("queue=", "queue must not be empty"),
            ("queue=a%01", "queue must not contain control"),
            ("queue=q&partition=%0a", "partition must not"),
            ("queue=q&group=%0a", "group must not"),
            ("queue=q&batch=%zz", "the query is malformed"),
            ("queue=%ff", "the query is malformed"),
            ("queue=q&queue=q", "the query has queue more than once"),
            (
                "queue=q&timeout=1&timeout=2",
                "the query has timeout more than once",
            ),
        ] {
            let text = refusal_text(pop(query).map(|pop| panic!("{pop:?}")).unwrap_err());
            assert!(text.contains(part), "{query}: {text}");
        }
    }
}
