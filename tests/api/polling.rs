//! A core that polls for a while after the last event (`QUEEN_SPIN_US`).

use std::time::Duration;

use serde_json::json;

use crate::support::poll::let_pass;
use crate::support::setup::in_parallel;
use crate::support::{Broker, Plan, Setup, eventually};

/// A plan with cores that poll: pinned, so that it is granted.
fn polling(setup: Setup, spin_us: u64) -> Plan {
    let cpus: Vec<String> = (0..setup.shards).map(|cpu| cpu.to_string()).collect();
    Plan::new(setup)
        .set("QUEEN_PIN", cpus.join(","))
        .set("QUEEN_SPIN_US", spin_us)
}

/// The setups that this machine has a CPU for each shard of.
fn setups() -> Vec<Setup> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let all = Setup::all().iter().copied();
    all.filter(|setup| usize::from(setup.shards) <= cpus)
        .collect()
}

fn busy_s(broker: &Broker, shards: u16) -> f64 {
    let text = broker.metrics();
    let core = |core| {
        let name = format!("queen_core_busy_seconds_total{{core=\"{core}\"}}");
        crate::support::queue::metrics_sample(&text, &name)
    };
    (0..shards).map(core).sum()
}

#[test]
fn parked_pops_timers_and_other_cores_are_served_while_a_core_polls() {
    in_parallel(&setups(), |&setup| {
        // So long that it never sleeps between two events.
        let broker = polling(setup, 100_000).start();
        let queue = broker.queue("polled");
        queue.configure(json!({"leaseSeconds": 1}));
        for round in 0..20 {
            let mut parked = queue.park(broker.client(), "group=g");
            let partition = format!("p{round}");
            queue.push_to(&partition, &[json!(round)]);
            let message = parked.message();
            assert_eq!(message.payload, round);
            queue.ack(Some("g"), &[message]);
        }
        // A lease that ends wakes whoever waits, by the clock alone.
        queue.push(&[json!("leased")]);
        assert_eq!(queue.pop_one("group=g").attempts, 1);
        let mut parked = queue.park(broker.client(), "group=g");
        assert_eq!(parked.message().attempts, 2);
        broker.terminate();
    });
}

#[test]
fn an_idle_core_sleeps_again() {
    in_parallel(&setups(), |&setup| {
        let broker = polling(setup, 2_000).start();
        let queue = broker.queue("idle");
        queue.push(&[json!(1)]);
        // Each look at it is an event and costs its own time of polling.
        let window = Duration::from_millis(400);
        eventually("the cores sleep most of the time", || {
            let before = busy_s(&broker, setup.shards);
            let_pass(window);
            let busy = busy_s(&broker, setup.shards) - before;
            busy < window.as_secs_f64() / 4.0
        });
        assert_eq!(queue.pop_payloads("autoAck=true"), [json!(1)]);
    });
}
