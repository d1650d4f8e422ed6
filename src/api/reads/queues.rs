//! Queues and partitions.

use serde::Serialize;

use super::{Options, Shown, Time, fine_seconds};
use crate::model::durable::read::{
    Counts, PartitionDepth, PartitionRanks, PartitionRow, PartitionSummary, QueueDepth,
    QueueDetail, QueueForm, QueueListing, QueueSummary,
};

/// A listing of queues, of either route.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listing<'a> {
    queues: Vec<Queue<'a>>,
    pagination: Pagination,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<&'a str>,
    #[serde(flatten)]
    others: Option<OtherClasses>,
}

/// What is asked for in a page.
#[derive(Serialize)]
pub(super) struct Pagination {
    pub(super) limit: u32,
    pub(super) offset: u32,
}

/// What the other parts of the broker hold: nothing that belongs to queues.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct OtherClasses {
    kv_rows: i64,
    kv_bytes: i64,
    timer_rows: i64,
    timer_bytes: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Queue<'a> {
    id: Shown<i64>,
    name: &'a str,
    namespace: &'a str,
    task: &'a str,
    created_at: Time,
    partitions: i64,
    retained_bytes: i64,
    segments: Segments,
    messages: Messages,
}

/// How the messages of a queue lie in rows.
#[derive(Serialize)]
struct Segments {
    segments: i64,
    messages: i64,
}

/// How many messages stand how.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Messages {
    total: i64,
    pending: i64,
    processing: i64,
    completed: i64,
    dead_letter: i64,
    failed: i64,
}

impl Messages {
    pub(super) fn of(counts: &Counts) -> Messages {
        Messages {
            total: counts.stored,
            pending: counts.pending,
            processing: counts.processing,
            completed: counts.completed(),
            dead_letter: counts.dead_letters,
            failed: counts.failed,
        }
    }
}

impl<'a> Queue<'a> {
    fn of(summary: &'a QueueSummary) -> Queue<'a> {
        Queue {
            id: Shown(summary.face.id),
            name: &summary.face.name,
            namespace: &summary.face.namespace,
            task: &summary.face.task,
            created_at: Time(summary.face.created_us),
            partitions: summary.partitions,
            retained_bytes: summary.bytes,
            segments: Segments {
                segments: summary.segments,
                messages: summary.counts.stored,
            },
            messages: Messages::of(&summary.counts),
        }
    }
}

pub(super) fn listing(listing: &QueueListing) -> Listing<'_> {
    let last = listing.rows.last().map(|row| &*row.face.name);
    Listing {
        queues: listing.rows.iter().map(Queue::of).collect(),
        pagination: Pagination {
            limit: listing.limit,
            offset: listing.offset,
        },
        truncated: listing.more.then_some(true),
        next_after: last.filter(|_| listing.more),
        others: (listing.form == QueueForm::Resource).then(OtherClasses::default),
    }
}

/// One queue, of either route.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Detail<'a> {
    Resource(Resource<'a>),
    Status(Status<'a>),
}

/// A queue with its options beside its numbers.
#[derive(Serialize)]
pub(super) struct Resource<'a> {
    id: Shown<i64>,
    #[serde(flatten)]
    body: Body<'a>,
    name: &'a str,
    namespace: &'a str,
    task: &'a str,
    #[serde(rename = "createdAt")]
    created_at: Time,
    options: Options<'a>,
    #[serde(rename = "retainedBytes")]
    retained_bytes: i64,
    segments: Segments,
}

/// A queue as an object of its own, with its options in it.
#[derive(Serialize)]
pub(super) struct Status<'a> {
    queue: Configured<'a>,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
struct Configured<'a> {
    #[serde(flatten)]
    queue: Queue<'a>,
    config: Options<'a>,
}

/// What both forms have.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    partitions: Vec<Partition<'a>>,
    totals: Messages,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Partition<'a> {
    id: Shown<i64>,
    name: &'a str,
    created_at: Time,
    stats: Messages,
    oldest_message: Option<Time>,
    newest_message: Option<Time>,
}

impl<'a> Partition<'a> {
    fn of(partition: &'a PartitionSummary) -> Partition<'a> {
        Partition {
            id: Shown(partition.id),
            name: &partition.name,
            created_at: Time(partition.created_us),
            stats: Messages::of(&partition.counts),
            oldest_message: partition.oldest_us.map(Time),
            newest_message: partition.newest_us.map(Time),
        }
    }
}

pub(super) fn detail(detail: &QueueDetail) -> Detail<'_> {
    let summary = &detail.summary;
    let last = detail.partitions.last().map(|last| &*last.name);
    let body = Body {
        partitions: detail.partitions.iter().map(Partition::of).collect(),
        totals: Messages::of(&summary.counts),
        truncated: detail.more.then_some(true),
        next_after: last.filter(|_| detail.more),
    };
    let queue = Queue::of(summary);
    match detail.form {
        QueueForm::Resource => Detail::Resource(Resource {
            id: queue.id,
            body,
            name: queue.name,
            namespace: queue.namespace,
            task: queue.task,
            created_at: queue.created_at,
            options: Options(&summary.face.options),
            retained_bytes: queue.retained_bytes,
            segments: queue.segments,
        }),
        QueueForm::Status => Detail::Status(Status {
            queue: Configured {
                queue,
                config: Options(&summary.face.options),
            },
            body,
        }),
    }
}

/// What is left to do in a queue. There is no conflation: the effective numbers are the plain ones.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Depth<'a> {
    queue: &'a str,
    group: Option<&'a str>,
    pending: i64,
    processing: i64,
    ready: i64,
    partitions_pending: i64,
    partitions_ready: i64,
    conflation: bool,
    effective_pending: i64,
    effective_ready: i64,
    partitions: Vec<Share<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<&'a str>,
}

#[derive(Serialize)]
struct Share<'a> {
    partition: &'a str,
    pending: i64,
    processing: i64,
    ready: i64,
}

impl<'a> Share<'a> {
    fn of(partition: &'a PartitionDepth) -> Share<'a> {
        Share {
            partition: &partition.name,
            pending: partition.pending,
            processing: partition.processing,
            ready: (partition.pending - partition.processing).max(0),
        }
    }
}

pub(super) fn depth(depth: &QueueDepth) -> Depth<'_> {
    let counts = &depth.counts;
    let last = depth.partitions.last().map(|last| &*last.name);
    Depth {
        queue: &depth.queue,
        group: depth.group.as_deref(),
        pending: counts.pending,
        processing: counts.processing,
        ready: counts.ready(),
        partitions_pending: depth.partitions_pending,
        partitions_ready: depth.partitions_ready,
        conflation: false,
        effective_pending: counts.pending,
        effective_ready: counts.ready(),
        partitions: depth.partitions.iter().map(Share::of).collect(),
        truncated: depth.more.then_some(true),
        next_after: last.filter(|_| depth.more),
    }
}

/// Partitions by what is left to do.
#[derive(Serialize)]
pub(super) struct Ranks<'a> {
    partitions: Vec<Rank<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rank<'a> {
    queue: &'a str,
    partition: &'a str,
    id: Shown<i64>,
    pending: i64,
    processing: i64,
    lag_seconds: Option<f64>,
}

impl<'a> Rank<'a> {
    fn of(row: &'a PartitionRow) -> Rank<'a> {
        Rank {
            queue: &row.queue,
            partition: &row.name,
            id: Shown(row.id),
            pending: row.pending,
            processing: row.processing,
            lag_seconds: row.lag_us.map(fine_seconds),
        }
    }
}

pub(super) fn ranks(ranks: &PartitionRanks) -> Ranks<'_> {
    Ranks {
        partitions: ranks.rows.iter().map(Rank::of).collect(),
    }
}
