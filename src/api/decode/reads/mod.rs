//! Questions about what the durable class has stored: paths and queries here, `offsets` has the two that
//! have a body. What is out of its bounds is refused, except that a listing never has more rows than it
//! may: who asks for more gets that many.

mod offsets;

use std::borrow::Cow;

use super::durable::decode_traces;
use super::query::known;
use super::{BodyBytes, Call, DecodeRules, segment_text};
use crate::api::durable_fault::{DurableFault, DurableFaultKind};
use crate::api::routes::ReadRoute;
use crate::api::timestamp::parse_timestamp;
use crate::auth;
use crate::http::Head;
use crate::limits::{MESSAGES_LOOK_MAX, READ_GROUPS_MAX, READ_OFFSET_MAX, READ_ROWS_MAX};
use crate::model::durable::read::{
    DeadLetterFilter, MessageFilter, MessageStatus, OverviewForm, Page, QueueFilter, QueueForm,
    Read,
};
use crate::model::{NameFault, QueueName};

/// Rows of a listing that does not say.
const DEAD_LETTERS_DEFAULT: u32 = 100;
const MESSAGES_DEFAULT: u32 = 200;
const RANKS_DEFAULT: u32 = 610;
/// Seconds that a group is behind before it is told of.
const MIN_LAG_S_DEFAULT: u64 = 3_600;
/// A thousand years.
const MIN_LAG_S_MAX: u64 = 31_536_000_000;

/// Decodes a question.
pub(super) fn decode<'a>(
    route: ReadRoute<'a>,
    head: &Head<'a>,
    body: BodyBytes<'a>,
    rules: &DecodeRules<'_>,
) -> Result<Call<'a>, DurableFault> {
    if route == ReadRoute::Buffers {
        return Ok(Call::Buffers);
    }
    let tenant = auth::tenant(head, rules.tenancy)
        .map_err(|fault| DurableFault::new(DurableFaultKind::BadTenant, fault.to_string()))?;
    let query = head.query.unwrap_or_default();
    let read = match route {
        ReadRoute::Fetch => Read::Fetch(offsets::decode_fetch(body)?),
        ReadRoute::Changed => Read::Changed(offsets::decode_changed(body)?),
        route => decode_query(route, query)?,
    };
    Ok(Call::Read { tenant, read })
}

fn decode_query(route: ReadRoute<'_>, query: &[u8]) -> Result<Read, DurableFault> {
    Ok(match route {
        ReadRoute::Queues => queues(query, QueueForm::Resource)?,
        ReadRoute::StatusQueues => queues(query, QueueForm::Status)?,
        ReadRoute::Queue(queue) => one_queue(queue, query, QueueForm::Resource)?,
        ReadRoute::StatusQueue(queue) => one_queue(queue, query, QueueForm::Status)?,
        ReadRoute::Depth(queue) => {
            let [group] = values(query, ["group"])?;
            Read::Depth {
                queue: in_path("queue", queue)?,
                group: name("group", group)?,
                page: page(query)?,
            }
        }
        ReadRoute::Overview => Read::Overview(OverviewForm::Overview),
        ReadRoute::Status => overview(query, OverviewForm::Status)?,
        ReadRoute::Analytics => overview(query, OverviewForm::Analytics)?,
        ReadRoute::SystemMetrics => overview(query, OverviewForm::System)?,
        ReadRoute::WorkerMetrics => overview(query, OverviewForm::Workers)?,
        ReadRoute::Namespaces => Read::Namespaces,
        ReadRoute::Tasks => Read::Tasks,
        ReadRoute::Partitions => {
            let [queue, limit] = values(query, ["queue", "limit"])?;
            Read::Partitions {
                queue: name("queue", queue)?,
                limit: rows("limit", limit, RANKS_DEFAULT)?,
            }
        }
        ReadRoute::Messages => Read::Messages(messages(query)?),
        ReadRoute::Message {
            partition_id,
            transaction_id,
        } => Read::Message {
            partition_id: text_in_path(partition_id)?.parse().ok(),
            transaction_id: text_in_path(transaction_id)?.into(),
        },
        ReadRoute::DeadLetters => Read::DeadLetters(dead_letters(query)?),
        ReadRoute::Groups => Read::Groups(page_within(query, READ_GROUPS_MAX)?),
        ReadRoute::Lagging => {
            let [least] = values(query, ["minLagSeconds"])?;
            let bounds = (0, MIN_LAG_S_MAX);
            let least_s = number("minLagSeconds", least, bounds)?.unwrap_or(MIN_LAG_S_DEFAULT);
            Read::Lagging {
                min_lag_us: least_s as i64 * 1_000_000,
                page: page_within(query, READ_GROUPS_MAX)?,
            }
        }
        ReadRoute::Group(group) => Read::Group {
            group: in_path("consumerGroup", group)?,
            page: page_within(query, READ_GROUPS_MAX)?,
        },
        ReadRoute::TraceNames | ReadRoute::TracesNamed(_) | ReadRoute::TracesOf(_) => {
            Read::Traces(decode_traces(route, query)?)
        }
        ReadRoute::Refresh => Read::Refresh,
        ReadRoute::Buffers | ReadRoute::Fetch | ReadRoute::Changed => {
            unreachable!("{route:?} has no query")
        }
    })
}

fn queues(query: &[u8], form: QueueForm) -> Result<Read, DurableFault> {
    let [namespace, task] = values(query, ["namespace", "task"])?;
    Ok(Read::Queues {
        filter: QueueFilter {
            namespace: name("namespace", namespace)?,
            task: name("task", task)?,
        },
        page: page(query)?,
        form,
    })
}

fn one_queue(queue: &[u8], query: &[u8], form: QueueForm) -> Result<Read, DurableFault> {
    Ok(Read::Queue {
        queue: in_path("queue", queue)?,
        page: page(query)?,
        form,
    })
}

/// Sums are of now; a range of time is read, so that one that is none is told.
fn overview(query: &[u8], form: OverviewForm) -> Result<Read, DurableFault> {
    let [from, to] = values(query, ["from", "to"])?;
    time("from", from)?;
    time("to", to)?;
    Ok(Read::Overview(form))
}

fn messages(query: &[u8]) -> Result<MessageFilter, DurableFault> {
    let keys = [
        "queue",
        "partition",
        "namespace",
        "ns",
        "task",
        "status",
        "from",
        "to",
        "limit",
        "offset",
    ];
    let [
        queue,
        partition,
        namespace,
        ns,
        task,
        status,
        from,
        to,
        limit,
        offset,
    ] = values(query, keys)?;
    let filter = MessageFilter {
        queue: name("queue", queue)?,
        partition: name("partition", partition)?,
        namespace: name("namespace", namespace.or(ns))?,
        task: name("task", task)?,
        status: message_status(status)?,
        from_us: time("from", from)?,
        to_us: time("to", to)?,
        limit: rows("limit", limit, MESSAGES_DEFAULT)?,
        offset: offset_of(offset)?,
    };
    if filter.limit + filter.offset > MESSAGES_LOOK_MAX {
        return Err(DurableFault::bad_request(format!(
            "limit and offset must not exceed {MESSAGES_LOOK_MAX} together: to see older messages \
             set to"
        )));
    }
    Ok(filter)
}

fn message_status(text: Option<Cow<'_, str>>) -> Result<Option<MessageStatus>, DurableFault> {
    match text.as_deref() {
        None | Some("all") => Ok(None),
        Some("pending") => Ok(Some(MessageStatus::Pending)),
        Some("processing") => Ok(Some(MessageStatus::Processing)),
        Some("completed") => Ok(Some(MessageStatus::Completed)),
        Some("dead_letter" | "dlq" | "failed") => Ok(Some(MessageStatus::DeadLetter)),
        Some(_) => Err(DurableFault::bad_request(
            "status must be pending, processing, completed or dead_letter",
        )),
    }
}

fn dead_letters(query: &[u8]) -> Result<DeadLetterFilter, DurableFault> {
    let keys = [
        "queue",
        "consumerGroup",
        "partition",
        "from",
        "to",
        "limit",
        "offset",
    ];
    let [queue, group, partition, from, to, limit, offset] = values(query, keys)?;
    Ok(DeadLetterFilter {
        queue: name("queue", queue)?,
        group: name("consumerGroup", group)?,
        partition: name("partition", partition)?,
        from_us: time("from", from)?,
        to_us: time("to", to)?,
        limit: rows("limit", limit, DEAD_LETTERS_DEFAULT)?,
        offset: offset_of(offset)?,
    })
}

fn page(query: &[u8]) -> Result<Page, DurableFault> {
    page_within(query, READ_ROWS_MAX)
}

/// A page of at most so many rows, and of so many without a limit.
fn page_within(query: &[u8], rows_max: u32) -> Result<Page, DurableFault> {
    let [limit, offset, after] = values(query, ["limit", "offset", "after"])?;
    let limit = number("limit", limit, (1, u64::MAX))?;
    Ok(Page {
        limit: limit.map_or(rows_max, |limit| limit.min(u64::from(rows_max)) as u32),
        offset: offset_of(offset)?,
        after: name("after", after)?,
    })
}

/// The values of some keys; an empty one says nothing.
fn values<'a, const COUNT: usize>(
    query: &'a [u8],
    keys: [&str; COUNT],
) -> Result<[Option<Cow<'a, str>>; COUNT], DurableFault> {
    let values = known(query, keys).map_err(DurableFault::bad_request)?;
    Ok(values.map(|value| value.filter(|text| !text.is_empty())))
}

fn rows(key: &str, text: Option<Cow<'_, str>>, default: u32) -> Result<u32, DurableFault> {
    let limit = number(key, text, (1, u64::MAX))?;
    Ok(limit.map_or(default, |limit| limit.min(u64::from(READ_ROWS_MAX)) as u32))
}

fn offset_of(text: Option<Cow<'_, str>>) -> Result<u32, DurableFault> {
    let offset = number("offset", text, (0, u64::from(READ_OFFSET_MAX)))?;
    Ok(offset.unwrap_or(0) as u32)
}

fn number(
    key: &str,
    text: Option<Cow<'_, str>>,
    (min, max): (u64, u64),
) -> Result<Option<u64>, DurableFault> {
    let Some(text) = text else {
        return Ok(None);
    };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse().unwrap_or(u64::MAX);
    if is_number && (min..=max).contains(&value) {
        return Ok(Some(value));
    }
    let bounds = match max {
        u64::MAX => format!("of at least {min}"),
        _ => format!("from {min} to {max}"),
    };
    Err(DurableFault::bad_request(format!(
        "{key} must be a whole number {bounds}"
    )))
}

fn time(key: &str, text: Option<Cow<'_, str>>) -> Result<Option<i64>, DurableFault> {
    let read = |text: Cow<'_, str>| {
        parse_timestamp(&text).ok_or_else(|| {
            DurableFault::bad_request(format!(
                "{key} must be an ISO 8601 time such as 2026-01-31T12:00:00.000Z"
            ))
        })
    };
    text.map(read).transpose()
}

fn name(key: &str, text: Option<Cow<'_, str>>) -> Result<Option<Box<str>>, DurableFault> {
    text.map(|text| checked(key, text)).transpose()
}

fn in_path(key: &str, segment: &[u8]) -> Result<Box<str>, DurableFault> {
    checked(key, text_in_path(segment)?)
}

fn text_in_path(segment: &[u8]) -> Result<Cow<'_, str>, DurableFault> {
    segment_text(segment).map_err(DurableFault::bad_request)
}

fn checked(key: &str, text: Cow<'_, str>) -> Result<Box<str>, DurableFault> {
    match QueueName::new(&*text) {
        Ok(_) => Ok(text.into()),
        Err(fault) => {
            let kind = match fault {
                NameFault::TooLong => DurableFaultKind::NameTooLong,
                NameFault::Empty | NameFault::Control => DurableFaultKind::BadRequest,
            };
            Err(DurableFault::new(kind, format!("{key} {fault}")))
        }
    }
}
