//! What each core does, so that an operator sees a hot one: families with the label `core`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::counters::queued;
use super::prometheus::signed;
use super::{CoreCounters, Figure};

/// The core a sample is about.
type OfCore = [(&'static str, usize); 1];

/// The core at the end of a lane, and the one at its beginning.
type OfLane = [(&'static str, usize); 2];

/// One figure of every core.
struct PerCore {
    name: &'static str,
    help: &'static str,
    figure: fn(&CoreCounters) -> &Figure,
}

const COUNTERS: [PerCore; 3] = [
    PerCore {
        name: "queen_core_requests",
        help: "HTTP requests read by the core",
        figure: |core| &core.requests,
    },
    PerCore {
        name: "queen_core_turns",
        help: "Turns of the core's loop",
        figure: |core| &core.turns,
    },
    PerCore {
        name: "queen_core_hops",
        help: "Frames that the core sent to other cores",
        figure: |core| &core.frames_sent,
    },
];

const GAUGES: [PerCore; 3] = [
    PerCore {
        name: "queen_core_connections",
        help: "Connections open on the core",
        figure: |core| &core.connections,
    },
    PerCore {
        name: "queen_core_parked_long_polls",
        help: "Pops that wait for a message on the core",
        figure: |core| &core.parked,
    },
    PerCore {
        name: "queen_core_lane_overflow_frames",
        help: "Frames that wait at the core for room in a lane to another one",
        figure: |core| &core.lane_overflow,
    },
];

/// Registers the families of all cores; a core's number is its place in `cores`.
pub(super) fn register_cores(registry: &mut Registry, cores: &[Arc<CoreCounters>]) {
    for per_core in COUNTERS {
        let family = Family::<OfCore, Counter>::default();
        for (number, core) in cores.iter().enumerate() {
            let count = (per_core.figure)(core).get();
            family.get_or_create(&[("core", number)]).inc_by(count);
        }
        registry.register(per_core.name, per_core.help, family);
    }
    for per_core in GAUGES {
        let family = Family::<OfCore, Gauge>::default();
        for (number, core) in cores.iter().enumerate() {
            let level = signed((per_core.figure)(core).get());
            family.get_or_create(&[("core", number)]).set(level);
        }
        registry.register(per_core.name, per_core.help, family);
    }
    let busy = Family::<OfCore, Counter<f64, AtomicU64>>::default();
    let lanes = Family::<OfLane, Gauge>::default();
    for (number, core) in cores.iter().enumerate() {
        let seconds = core.busy().as_secs_f64();
        busy.get_or_create(&[("core", number)]).inc_by(seconds);
        for (from, sender) in cores.iter().enumerate().filter(|&(from, _)| from != number) {
            let label = [("core", number), ("from", from)];
            let frames = queued(sender, core);
            lanes.get_or_create(&label).set(signed(frames));
        }
    }
    registry.register(
        "queen_core_busy_seconds",
        "Seconds that the core's thread was on a CPU",
        busy,
    );
    registry.register(
        "queen_core_lane_frames",
        "Frames sent to the core that it has not taken, by the core they come from",
        lanes,
    );
}

#[cfg(test)]
mod tests {
    use crate::observe::{Gauges, Observed, ProcessFigures, prometheus_text};

    #[test]
    fn every_core_has_its_samples() {
        let observed = Observed::new(2);
        let core = observed.core(1);
        core.requests.add(11);
        core.connections.set(12);
        core.parked.set(13);
        core.turns.add(14);
        core.frames_sent.add(15);
        core.lane_overflow.set(16);
        core.taken_from(0).set(3);
        observed.core(0).sent_to(1).set(20);
        observed.core(0).requests.add(1);
        let text = prometheus_text(&observed, &ProcessFigures::default(), &Gauges::default());
        for sample in [
            "queen_core_requests_total{core=\"0\"} 1",
            "queen_core_requests_total{core=\"1\"} 11",
            "queen_core_connections{core=\"1\"} 12",
            "queen_core_parked_long_polls{core=\"1\"} 13",
            "queen_core_turns_total{core=\"1\"} 14",
            "queen_core_busy_seconds_total{core=\"0\"} 0.0",
            "queen_core_hops_total{core=\"1\"} 15",
            "queen_core_lane_overflow_frames{core=\"1\"} 16",
            "queen_core_lane_frames{core=\"1\",from=\"0\"} 17",
            "queen_core_lane_frames{core=\"0\",from=\"1\"} 0",
            "queen_requests_total 12",
            "queen_ephemeral_forwarded_total 0",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
        }
        assert_eq!(text.matches("queen_core_lane_frames{").count(), 2);
    }

    #[test]
    fn one_core_alone_has_no_lanes() {
        let observed = Observed::new(1);
        let text = prometheus_text(&observed, &ProcessFigures::default(), &Gauges::default());
        assert!(!text.contains("queen_core_lane_frames{"), "{text}");
        assert!(text.contains("queen_core_lane_overflow_frames{core=\"0\"} 0\n"));
    }
}
