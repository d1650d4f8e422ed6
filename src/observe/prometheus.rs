//! Text of `GET /metrics/prometheus` in the OpenMetrics text format. Every family is there from the
//! first scrape, at 0. No label names a tenant.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::core_families::register_cores;
use super::{Observed, ProcessFigures, Totals};
use crate::limits::PARKED_SERIES_MAX;

/// The series of all other queues: undeclared ones, those above the maximum, and with tenancy on
/// every queue.
const PARKED_REST: &str = "eph:*";

/// The series of all durable queues.
const PARKED_DURABLE: &str = "*";

/// Levels that the cores do not count.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Payload bytes held by the broker.
    pub bytes: u64,
    /// Queues, declared and implicit.
    pub queues: u64,
    /// Parked pops of declared queues; empty with tenancy on.
    pub parked: Vec<ParkedQueue>,
    /// Parked pops of all queues together; those not in `parked` go to the series of the rest.
    pub parked_total: u64,
    /// Pops of durable queues that wait.
    pub parked_durable: u64,
    /// The database.
    pub database: DatabaseFigures,
}

/// What the broker knows of its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseFigures {
    /// Sessions that are open now.
    pub open: u64,
    /// Sessions that were opened since the start.
    pub sessions: u64,
    /// Transactions that have stored changes.
    pub transactions: u64,
    /// Changes that were stored.
    pub changes: u64,
}

/// Parked pops of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedQueue {
    /// The queue's name.
    pub queue: String,
    /// Pops parked on it.
    pub parked: u64,
}

/// The text of one scrape.
pub fn prometheus_text(observed: &Observed, process: &ProcessFigures, gauges: &Gauges) -> String {
    let mut registry = Registry::default();
    register_ephemeral(&mut registry, &observed.totals(), gauges);
    register_database(&mut registry, &gauges.database);
    register_process(&mut registry, observed, process);
    register_cores(&mut registry, observed.cores());
    let mut text = String::with_capacity(4096);
    text::encode(&mut text, &registry).expect("writing to a string cannot fail");
    text
}

/// A label set of one label.
type OneLabel = [(&'static str, &'static str); 1];

fn counters(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    label: &'static str,
    values: &[(&'static str, u64)],
) {
    let family = Family::<OneLabel, Counter>::default();
    for &(value, count) in values {
        family.get_or_create(&[(label, value)]).inc_by(count);
    }
    registry.register(name, help, family);
}

fn counter(registry: &mut Registry, name: &'static str, help: &'static str, count: u64) {
    let metric = Counter::<u64>::default();
    metric.inc_by(count);
    registry.register(name, help, metric);
}

fn gauge(registry: &mut Registry, name: &'static str, help: &'static str, level: u64) {
    let metric = Gauge::<i64>::default();
    metric.set(signed(level));
    registry.register(name, help, metric);
}

pub(super) fn signed(level: u64) -> i64 {
    i64::try_from(level).unwrap_or(i64::MAX)
}

fn register_database(registry: &mut Registry, database: &DatabaseFigures) {
    gauge(
        registry,
        "queen_database_up",
        "1 while the broker has a session with its database",
        u64::from(database.open > 0),
    );
    for (name, help, count) in [
        (
            "queen_engine_sessions",
            "Sessions with the database that were opened",
            database.sessions,
        ),
        (
            "queen_engine_transactions",
            "Transactions that stored changes",
            database.transactions,
        ),
        (
            "queen_engine_changes",
            "Changes that were stored: declarations, removals, switches",
            database.changes,
        ),
    ] {
        counter(registry, name, help, count);
    }
}

fn register_ephemeral(registry: &mut Registry, totals: &Totals, gauges: &Gauges) {
    counters(
        registry,
        "queen_ephemeral_messages",
        "Messages of the ephemeral class; acked counts completed acks only",
        "verb",
        &[
            ("pushed", totals.pushed),
            ("popped", totals.popped),
            ("acked", totals.acked),
        ],
    );
    counters(
        registry,
        "queen_ephemeral_dropped",
        "Messages dropped unconsumed; retry counts once per group",
        "cause",
        &[
            ("bounds", totals.dropped.bounds),
            ("ttl", totals.dropped.ttl),
            ("retry", totals.dropped.retry),
        ],
    );
    counter(
        registry,
        "queen_ephemeral_forwarded",
        "Requests relayed to another broker",
        0,
    );
    counter(
        registry,
        "queen_ephemeral_wipes",
        "Rings dropped because another broker took them over",
        0,
    );
    gauge(
        registry,
        "queen_ephemeral_bytes",
        "Payload bytes held",
        gauges.bytes,
    );
    gauge(
        registry,
        "queen_ephemeral_queues",
        "Queues, declared and implicit",
        gauges.queues,
    );
    register_parked(registry, gauges);
}

fn register_parked(registry: &mut Registry, gauges: &Gauges) {
    let family = Family::<[(&'static str, String); 1], Gauge>::default();
    let mut named = 0u64;
    for row in gauges.parked.iter().take(PARKED_SERIES_MAX) {
        let label = format!("eph:{}", row.queue);
        // A queue that is itself named `*` shares the series of the rest.
        if label == PARKED_REST {
            continue;
        }
        named += row.parked;
        family
            .get_or_create(&[("queue", label)])
            .set(signed(row.parked));
    }
    // The levels were read one after the other, so the parts may exceed the total for a moment.
    let rest = gauges.parked_total.saturating_sub(named);
    family
        .get_or_create(&[("queue", PARKED_REST.to_owned())])
        .set(signed(rest));
    family
        .get_or_create(&[("queue", PARKED_DURABLE.to_owned())])
        .set(signed(gauges.parked_durable));
    registry.register(
        "queen_parked_long_polls",
        "Pops that wait for a message",
        family,
    );
}

fn register_process(registry: &mut Registry, observed: &Observed, process: &ProcessFigures) {
    let totals = observed.totals();
    counter(
        registry,
        "queen_requests",
        "HTTP requests read",
        totals.requests,
    );
    counter(
        registry,
        "queen_requests_refused",
        "HTTP requests answered with a 4xx or 5xx status",
        totals.refused,
    );
    counter(
        registry,
        "queen_connections_accepted",
        "Connections accepted",
        totals.accepted,
    );
    gauge(
        registry,
        "queen_connections",
        "Connections open",
        totals.connections,
    );
    gauge(
        registry,
        "queen_uptime_seconds",
        "Seconds since the start",
        observed.uptime().as_secs(),
    );
    gauge(
        registry,
        "process_resident_memory_bytes",
        "Bytes of memory resident",
        process.resident_bytes,
    );
    let cpu = Counter::<f64, AtomicU64>::default();
    cpu.inc_by(process.cpu_user_s + process.cpu_system_s);
    registry.register("process_cpu_seconds", "Seconds of processor time", cpu);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(observed: &Observed, gauges: &Gauges) -> String {
        prometheus_text(observed, &ProcessFigures::default(), gauges)
    }

    #[test]
    fn every_family_is_there_on_a_fresh_process() {
        let text = scrape(&Observed::new(1), &Gauges::default());
        for sample in [
            "queen_ephemeral_messages_total{verb=\"pushed\"} 0",
            "queen_ephemeral_messages_total{verb=\"popped\"} 0",
            "queen_ephemeral_messages_total{verb=\"acked\"} 0",
            "queen_ephemeral_dropped_total{cause=\"bounds\"} 0",
            "queen_ephemeral_dropped_total{cause=\"ttl\"} 0",
            "queen_ephemeral_dropped_total{cause=\"retry\"} 0",
            "queen_ephemeral_forwarded_total 0",
            "queen_ephemeral_wipes_total 0",
            "queen_ephemeral_bytes 0",
            "queen_ephemeral_queues 0",
            "queen_parked_long_polls{queue=\"eph:*\"} 0",
            "queen_parked_long_polls{queue=\"*\"} 0",
            "queen_requests_total 0",
            "queen_connections 0",
            "queen_core_requests_total{core=\"0\"} 0",
            "queen_core_connections{core=\"0\"} 0",
            "queen_core_parked_long_polls{core=\"0\"} 0",
            "queen_core_turns_total{core=\"0\"} 0",
            "queen_core_busy_seconds_total{core=\"0\"} 0.0",
            "queen_core_hops_total{core=\"0\"} 0",
            "queen_core_lane_overflow_frames{core=\"0\"} 0",
            "process_resident_memory_bytes 0",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
        }
        assert!(!text.contains("total_total"), "{text}");
        assert!(text.contains("process_cpu_seconds_total 0"), "{text}");
    }

    #[test]
    fn parked_pops_are_named_up_to_the_maximum_and_summed_beyond() {
        let mut gauges = Gauges {
            parked_total: 1_005 + 7,
            parked_durable: 3,
            ..Gauges::default()
        };
        for number in 0..1_005 {
            gauges.parked.push(ParkedQueue {
                queue: format!("q{number}\"\n"),
                parked: 1,
            });
        }
        let text = scrape(&Observed::new(1), &gauges);
        assert!(text.contains("queen_parked_long_polls{queue=\"eph:*\"} 12\n"));
        assert!(text.contains("queen_parked_long_polls{queue=\"eph:q0\\\"\\n\"} 1\n"));
        let series = text.matches("queen_parked_long_polls{").count();
        assert!(text.contains("queen_parked_long_polls{queue=\"*\"} 3\n"));
        assert_eq!(series, PARKED_SERIES_MAX + 2);
    }
}
