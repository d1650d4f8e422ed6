//! Ends in the middle of a start, and starts that come to nothing: no server is left behind.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::private_cluster::home_with_cluster;
use crate::rig::{DATABASE_URL, PATIENCE, declare, durable, plan_in, wait_until_connected};
use crate::support::Broker;
use crate::support::broker::{STATUS_ADDRESS_TAKEN, free_port};
use crate::support::home::{Home, processes_naming};
use crate::support::poll::eventually_within;

/// A stop in the middle of a start ends within this time: nothing has to be drained.
const STOP_LIMIT: Duration = Duration::from_secs(5);

#[track_caller]
fn wait_for_output(broker: &Broker, text: &str) {
    eventually_within(PATIENCE, "the start has come so far", || {
        assert!(broker.is_running(), "{}", broker.output());
        broker.output().contains(text)
    });
}

#[track_caller]
fn assert_stops_at_once(broker: &Broker) {
    let begin = Instant::now();
    broker.terminate();
    assert!(begin.elapsed() < STOP_LIMIT, "{:?}", begin.elapsed());
}

#[test]
fn a_stop_while_the_cluster_is_created_leaves_no_process_and_no_half_of_it() {
    let home = Home::in_memory("data");
    let broker = plan_in(&home).spawn();
    wait_for_output(&broker, "initdb: ");
    assert_stops_at_once(&broker);
    eventually_within(PATIENCE, "nobody works on it any more", || {
        processes_naming(home.top()).is_empty()
    });
    assert_eq!(home.unfinished(), Vec::<std::path::PathBuf>::new());

    let broker = plan_in(&home).spawn();
    wait_for_output(&broker, "initdb: ");
    broker.kill();
    let broker = plan_in(&home).spawn();
    eventually_within(4 * PATIENCE, "the cluster is created", || {
        assert!(broker.is_running(), "{}", broker.output());
        broker.is_healthy()
    });
    wait_until_connected(&broker);
    declare(&broker.queue("private"), json!({}));
    broker.terminate();
    assert_eq!(processes_naming(home.top()), Vec::<u32>::new());
}

#[test]
fn a_stop_while_a_server_is_waited_for_is_obeyed_at_once() {
    let url = format!("postgres://queen@127.0.0.1:{}/nowhere", free_port());
    let broker = durable().set(DATABASE_URL, url).spawn();
    wait_for_output(&broker, "degraded");
    assert!(!broker.is_healthy());
    assert_stops_at_once(&broker);
}

#[test]
fn a_broker_whose_port_is_taken_leaves_no_server_behind() {
    let home = home_with_cluster(Home::in_memory("data"));
    let other = durable().set("QUEEN_DURABLE", "off").start();
    let failure = plan_in(&home).start_in_vain(other.address().port());
    let status = failure.status.and_then(|status| status.code());
    assert_eq!(status, Some(STATUS_ADDRESS_TAKEN), "{failure:?}");
    assert_eq!(processes_naming(home.top()), Vec::<u32>::new());
}

#[test]
fn a_cluster_is_stopped_and_started_again_many_times() {
    let home = home_with_cluster(Home::in_memory("data"));
    let mut broker = plan_in(&home).start();
    for length in 1..=4 {
        wait_until_connected(&broker);
        let queue = broker.queue_named("kept");
        if length > 1 {
            assert!(crate::rig::has_option(&queue, "maxLength", length - 1));
        }
        declare(&queue, json!({"maxLength": length}));
        drop(queue);
        broker.terminate();
        assert_eq!(processes_naming(home.top()), Vec::<u32>::new());
        broker = broker.start_again();
    }
    broker.terminate();
}
