//! What operators ask for: groups that go or move (`groups`), dead letters (`letters`), and traces
//! (`traces`).

mod groups;
mod letters;
mod traces;

use std::borrow::Cow;

use super::name_in_path;
use crate::api::decode::query::known;
use crate::api::decode::{BodyBytes, segment_text};
use crate::api::durable_fault::DurableFault;
use crate::api::routes::{AdminRoute, MessagePath, ReadRoute};
use crate::api::timestamp::parse_timestamp;
use crate::model::durable::{Address, Administer, FindTraces, NamedTime, Replay};

/// Decodes a request of an operator.
pub(super) fn decode(
    route: AdminRoute<'_>,
    query: &[u8],
    body: BodyBytes<'_>,
) -> Result<Administer, DurableFault> {
    let group_in_path = |segment| name_in_path("consumerGroup", segment);
    match route {
        AdminRoute::Group(group) => {
            let group = group_in_path(group)?;
            groups::decode_delete(group, None, query).map(Administer::DeleteGroup)
        }
        AdminRoute::GroupOfQueue { group, queue } => {
            let (group, queue) = (group_in_path(group)?, name_in_path("queue", queue)?);
            groups::decode_delete(group, Some(queue), query).map(Administer::DeleteGroup)
        }
        AdminRoute::Seek {
            group,
            queue,
            partition,
        } => {
            let (group, queue) = (group_in_path(group)?, name_in_path("queue", queue)?);
            let partition = partition.map(|segment| name_in_path("partition", segment));
            groups::decode_seek((group, queue, partition.transpose()?), body).map(Administer::Seek)
        }
        AdminRoute::Subscription(group) => {
            groups::decode_subscription(group_in_path(group)?, body).map(Administer::Subscribe)
        }
        AdminRoute::Letters => {
            letters::decode_filter_of_query(query).map(Administer::DiscardLetters)
        }
        AdminRoute::ReplayLetters => {
            letters::decode_filter_of_body(body).map(Administer::ReplayLetters)
        }
        AdminRoute::ReplayLetter(id) => letters::decode_replay(id, body).map(Administer::Replay),
        AdminRoute::Message(path) => address(path).map(Administer::DiscardLetter),
        AdminRoute::Retry(path) => {
            address(path).map(|address| Administer::Replay(Replay::Newest(address)))
        }
        AdminRoute::Traces => {
            let trace = traces::decode_new(body)?;
            Ok(Administer::RecordTrace(Box::new(trace)))
        }
    }
}

/// Decodes which traces are looked up.
pub(in crate::api::decode) fn decode_traces(
    route: ReadRoute<'_>,
    query: &[u8],
) -> Result<FindTraces, DurableFault> {
    Ok(match route {
        ReadRoute::TraceNames => FindTraces::Names(traces::decode_page(query)?),
        ReadRoute::TracesNamed(name) => FindTraces::Name {
            name: name_in_path("name", name)?,
            page: traces::decode_page(query)?,
        },
        ReadRoute::TracesOf(path) => FindTraces::Message(address(path)?),
        other => unreachable!("{other:?} is no route of traces"),
    })
}

/// Any text is an address; one that is no number is that of no partition.
fn address(path: MessagePath<'_>) -> Result<Address, DurableFault> {
    let text = |segment| segment_text(segment).map_err(DurableFault::bad_request);
    let partition = text(path.partition)?;
    Ok(Address {
        partition_id: id_of(&partition),
        partition: partition.into(),
        transaction_id: text(path.transaction)?.into(),
    })
}

/// The id that a text is, if it is one.
fn id_of(text: &str) -> Option<i64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// A time that was named.
fn named_time(field: &str, text: Cow<'_, str>) -> Result<NamedTime, DurableFault> {
    match parse_timestamp(&text) {
        Some(time_us) => Ok(NamedTime {
            text: text.into(),
            time_us,
        }),
        None => Err(DurableFault::bad_request(format!(
            "{field} must be an ISO 8601 time such as 2026-01-31T12:00:00.000Z"
        ))),
    }
}

/// The values of the known keys of a query; an empty value says nothing.
fn values<'a, const COUNT: usize>(
    query: &'a [u8],
    keys: [&str; COUNT],
) -> Result<[Option<Cow<'a, str>>; COUNT], DurableFault> {
    let values = known(query, keys).map_err(DurableFault::bad_request)?;
    Ok(values.map(|value| value.filter(|text| !text.is_empty())))
}

/// A word of a query that is true or false.
fn flag(key: &str, text: Option<Cow<'_, str>>, absent: bool) -> Result<bool, DurableFault> {
    match text.as_deref() {
        None => Ok(absent),
        Some(_) => super::pop::flag(key, text),
    }
}
