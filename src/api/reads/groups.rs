//! Consumer groups.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::{Shown, Time, seconds};
use crate::model::durable::QUEUE_MODE_GROUP;
use crate::model::durable::read::{GroupPlace, GroupRow, GroupSummary, LagRow};

/// Seconds that a group may be behind before it is called lagging.
const LAGGING_S: i64 = 300;

/// A group of a queue. A group of several queues is several rows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group<'a> {
    name: &'a str,
    topics: [&'a str; 1],
    queue_name: &'a str,
    members: i64,
    partition_cursors: i64,
    partitions_with_lag: i64,
    total_lag: i64,
    max_time_lag: i64,
    state: &'static str,
    storage: &'static str,
    subscription_mode: Option<&'a str>,
    subscription_timestamp: Option<Time>,
    subscription_created_at: Time,
    conflation: bool,
}

impl<'a> Group<'a> {
    fn of(group: &'a GroupSummary) -> Group<'a> {
        let max_time_lag = seconds(group.lag_us);
        // Without a group of its own a queue is consumed from its beginning: nobody has chosen that.
        let mode = match &*group.mode {
            "from" => "timestamp",
            mode => mode,
        };
        Group {
            name: &group.name,
            topics: [&group.queue],
            queue_name: &group.queue,
            members: group.members,
            partition_cursors: group.cursors,
            partitions_with_lag: group.partitions_behind,
            total_lag: group.lag,
            max_time_lag,
            state: if max_time_lag > LAGGING_S {
                "Lagging"
            } else {
                "Stable"
            },
            storage: "segments",
            subscription_mode: (*group.name != *QUEUE_MODE_GROUP).then_some(mode),
            subscription_timestamp: group.from_us.map(Time),
            subscription_created_at: Time(group.created_us),
            conflation: false,
        }
    }
}

pub(super) fn listing(groups: &[GroupSummary]) -> Vec<Group<'_>> {
    groups.iter().map(Group::of).collect()
}

/// A group that is behind in a partition; in snake case, other than all else.
#[derive(Serialize)]
pub(super) struct Lag<'a> {
    consumer_group: &'a str,
    queue_name: &'a str,
    partition_name: &'a str,
    partition_id: Shown<i64>,
    worker_id: Option<Shown<Uuid>>,
    offset_lag: i64,
    time_lag_seconds: i64,
    lag_hours: f64,
    oldest_unconsumed_at: Time,
    last_consumed_at: Option<Time>,
}

impl<'a> Lag<'a> {
    fn of(row: &'a LagRow) -> Lag<'a> {
        Lag {
            consumer_group: &row.group,
            queue_name: &row.queue,
            partition_name: &row.partition,
            partition_id: Shown(row.partition_id),
            worker_id: row.lease_id.map(Shown),
            offset_lag: row.lag,
            time_lag_seconds: seconds(row.lag_us),
            lag_hours: (seconds(row.lag_us) / 36) as f64 / 100.0,
            oldest_unconsumed_at: Time(row.oldest_us),
            last_consumed_at: row.settled_us.map(Time),
        }
    }
}

pub(super) fn lagging(rows: &[LagRow]) -> Vec<Lag<'_>> {
    rows.iter().map(Lag::of).collect()
}

/// The places of a group in one queue.
#[derive(Default, Serialize)]
pub(super) struct Places<'a> {
    conflation: bool,
    partitions: Vec<Place<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Place<'a> {
    partition: &'a str,
    worker_id: Option<Shown<Uuid>>,
    last_consumed_at: Option<Time>,
    total_consumed: i64,
    offset_lag: i64,
    time_lag_seconds: i64,
    lease_active: bool,
}

impl<'a> Place<'a> {
    fn of(place: &'a GroupPlace) -> Place<'a> {
        Place {
            partition: &place.partition,
            worker_id: place.lease_id.map(Shown),
            last_consumed_at: place.settled_us.map(Time),
            total_consumed: place.settled_count,
            offset_lag: place.lag,
            time_lag_seconds: place.lag_us.map_or(0, seconds),
            lease_active: place.lease_id.is_some(),
        }
    }
}

pub(super) fn detail(rows: &[GroupRow]) -> BTreeMap<&str, Places<'_>> {
    let mut queues: BTreeMap<&str, Places<'_>> = BTreeMap::new();
    for row in rows {
        let places = queues.entry(&row.queue).or_default();
        places.partitions.extend(row.place.as_ref().map(Place::of));
    }
    queues
}
