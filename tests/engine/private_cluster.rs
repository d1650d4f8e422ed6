//! The private cluster as a user of the broker meets it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{
    PATIENCE, assert_serves, assert_unavailable, configure, declare, delete, durable, has_option,
    health, plan_in, wait_until_connected, wait_until_degraded, wait_until_stored,
};
use crate::support::broker::free_port;
use crate::support::home::{Home, is_alive, signal, wait_until_gone};
use crate::support::poll::eventually_within;
use crate::support::{Broker, Plan, eventually};

/// How long creation may take on a busy machine.
const CREATION_LIMIT: Duration = Duration::from_secs(120);

/// Within this time a broker stops, its server included.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A cluster that is there already, for the broker: what it writes must be as safe as it asks for.
pub(crate) fn home_with_cluster(home: Home) -> Home {
    home.put_cluster();
    let conf = home.cluster().join("postgresql.conf");
    let text = fs::read_to_string(&conf).expect("its settings");
    fs::write(&conf, format!("{text}\nfsync = on\n")).expect("its settings");
    home
}

fn home() -> Home {
    home_with_cluster(Home::in_memory("data"))
}

/// The process id of its server.
#[track_caller]
fn postmaster(home: &Home) -> u32 {
    home.postmaster().expect("the server runs")
}

/// SIGTERM; the broker and its server are gone in time.
#[track_caller]
fn assert_stops(broker: &Broker, home: &Home) {
    let pid = postmaster(home);
    let begin = Instant::now();
    broker.terminate();
    assert!(begin.elapsed() < STOP_LIMIT, "{:?}", begin.elapsed());
    assert!(!is_alive(pid), "the server is stopped with the broker");
}

#[test]
fn a_first_start_creates_a_cluster_and_shows_its_progress() {
    let home = Home::in_memory("a folder with spaces/and one more");
    let broker = plan_in(&home).spawn();
    eventually_within(CREATION_LIMIT, "the broker comes up", || {
        assert!(broker.is_running(), "{}", broker.output());
        broker.is_healthy()
    });
    wait_until_connected(&broker);
    let output = broker.output();
    for step in [
        "creating a private PostgreSQL",
        "initdb: ",
        "starting PostgreSQL",
    ] {
        assert!(output.contains(step), "{step} in {output}");
    }
    let queue = broker.queue("private");
    declare(&queue, json!({"maxLength": 7}));
    let name = queue.name.clone();
    assert_stops(&broker, &home);
    let broker = broker.start_again();
    assert!(has_option(&broker.queue_named(&name), "maxLength", 7));
    assert_stops(&broker, &home);
}

#[test]
fn a_data_folder_may_have_a_long_path_with_anything_in_it() {
    let long = "a folder with a rather long name".repeat(5);
    let home = home_with_cluster(Home::in_memory(&format!("{long}/it's \"mine\" \u{e9}")));
    let broker = plan_in(&home).start();
    wait_until_connected(&broker);
    declare(&broker.queue("private"), json!({}));
    assert_stops(&broker, &home);
}

#[test]
fn the_server_of_a_killed_broker_is_adopted_by_the_next_one() {
    let home = home();
    let broker = plan_in(&home).start();
    let queue = broker.queue("kept");
    declare(&queue, json!({"maxLength": 7}));
    let name = queue.name.clone();
    let pid = postmaster(&home);
    broker.kill();
    assert!(is_alive(pid));
    let broker = broker.start_again();
    assert_eq!(postmaster(&home), pid);
    assert!(has_option(&broker.queue_named(&name), "maxLength", 7));
    assert_stops(&broker, &home);
}

#[test]
fn broker_and_server_may_be_killed_in_either_order() {
    let home = home();
    let broker = plan_in(&home).start();
    let queue = broker.queue("kept");
    declare(&queue, json!({"maxLength": 7}));
    let name = queue.name.clone();
    drop(queue);
    let pid = postmaster(&home);
    broker.kill();
    signal(pid, Signal::KILL);
    wait_until_gone(pid);
    let broker = broker.start_again();
    let queue = broker.queue_named(&name);
    assert!(has_option(&queue, "maxLength", 7));
    declare(&queue, json!({"maxLength": 8}));
    drop(queue);
    let pid = postmaster(&home);
    signal(pid, Signal::KILL);
    wait_until_gone(pid);
    broker.kill();
    let broker = broker.start_again();
    assert!(has_option(&broker.queue_named(&name), "maxLength", 8));
    assert_stops(&broker, &home);
}

#[test]
fn a_server_that_is_killed_is_brought_back_while_the_broker_serves() {
    let home = home();
    let broker = plan_in(&home).start();
    let queue = broker.queue("kept");
    declare(&queue, json!({"maxLength": 7}));
    crate::traffic::with_traffic(&broker, &queue.name, || {
        let pid = postmaster(&home);
        signal(pid, Signal::KILL);
        wait_until_gone(pid);
        configure(&queue, json!({"maxLength": 8}));
        wait_until_stored(&queue, &json!({"maxLength": 9}));
        // A session outlives its postmaster for a moment.
        eventually("another server runs", || {
            home.postmaster().is_some_and(|now| now != pid)
        });
        wait_until_connected(&broker);
    });
    assert_stops(&broker, &home);
}

#[test]
fn a_server_that_takes_long_to_recover_holds_up_nobody() {
    let home = home();
    let broker = plan_in(&home).start();
    let queue = broker.queue("kept");
    declare(&queue, json!({"maxLength": 7}));
    // Asks an archive that is slow and has nothing, as often as recovery wants to know.
    let conf = home.cluster().join("postgresql.conf");
    let text = fs::read_to_string(&conf).expect("its settings");
    let slow = format!("{text}\nrestore_command = 'sleep 3; false'\n");
    fs::write(&conf, slow).expect("its settings");
    fs::write(home.cluster().join("recovery.signal"), "").expect("a wish");
    crate::traffic::with_traffic(&broker, &queue.name, || {
        let pid = postmaster(&home);
        signal(pid, Signal::KILL);
        wait_until_gone(pid);
        wait_until_degraded(&broker);
        assert_unavailable(&configure(&queue, json!({"maxLength": 8})));
        assert_unavailable(&delete(&queue));
        wait_until_stored(&queue, &json!({"maxLength": 9}));
        wait_until_connected(&broker);
    });
    assert_stops(&broker, &home);
}

#[test]
fn what_a_killed_broker_has_spooled_is_stored_by_the_next_one() {
    let home = home();
    let mut broker = plan_in(&home).start();
    wait_until_connected(&broker);
    let push = |broker: &Broker, id: u32| {
        let items = json!({"items": [{"queue": "orders", "payload": id}]});
        let pushed = broker.plain_client().post("/api/v1/push", &items);
        pushed.expect(201)[0]["status"].clone()
    };
    assert_eq!(push(&broker, 1), "queued");
    let pid = postmaster(&home);
    let all = || {
        let children = crate::support::home::children_of(pid);
        children.into_iter().chain([pid]).collect::<Vec<u32>>()
    };
    all().into_iter().for_each(|pid| signal(pid, Signal::STOP));
    assert_eq!(push(&broker, 2), "buffered");
    broker.kill();
    all().into_iter().for_each(|pid| signal(pid, Signal::CONT));
    broker = broker.start_again();
    eventually_within(PATIENCE, "it is stored", || {
        let health = health(&broker);
        health["database"] == "connected" && health.get("buffered").is_none()
    });
    let target = "/api/v1/pop/queue/orders?consumerGroup=g&subscriptionMode=all&batch=10";
    let popped = broker.plain_client().get(target).expect(200);
    let messages = popped["messages"].as_array().expect("messages");
    let payloads: Vec<_> = messages.iter().map(|message| &message["data"]).collect();
    assert_eq!(payloads, [1, 2]);
    assert_stops(&broker, &home);
}

#[test]
fn a_server_that_hangs_is_waited_for_and_does_not_hold_up_the_stop() {
    let home = home();
    let broker = plan_in(&home).start();
    let queue = broker.queue("kept");
    declare(&queue, json!({"maxLength": 7}));
    let pid = postmaster(&home);
    let all = || {
        let children = crate::support::home::children_of(pid);
        children.into_iter().chain([pid]).collect::<Vec<u32>>()
    };
    all().into_iter().for_each(|pid| signal(pid, Signal::STOP));
    configure(&queue, json!({"maxLength": 8}));
    wait_until_degraded(&broker);
    assert_serves(&broker.queue("served"));
    all().into_iter().for_each(|pid| signal(pid, Signal::CONT));
    wait_until_stored(&queue, &json!({"maxLength": 9}));
    wait_until_connected(&broker);
    all().into_iter().for_each(|pid| signal(pid, Signal::STOP));
    assert_stops(&broker, &home);
}

#[test]
fn a_second_broker_on_the_same_folder_is_refused_and_told_who_has_it() {
    let home = home();
    // As an outage leaves it: that the other broker has this folder, too, is not worth a word.
    fs::create_dir(home.data().join("spool")).expect("a folder");
    let broker = plan_in(&home).start();
    let failure = plan_in(&home).start_in_vain(free_port());
    let status = failure.status.and_then(|status| status.code());
    assert_eq!(status, Some(73), "{failure:?}");
    let holder = broker.pid().to_string();
    assert!(failure.output.contains(&holder), "{failure:?}");
    let folder = home.data().display().to_string();
    assert!(failure.output.contains(&folder), "{failure:?}");
    assert!(!failure.output.contains("spool"), "{failure:?}");
    wait_until_connected(&broker);
    declare(&broker.queue("undisturbed"), json!({}));
    assert_stops(&broker, &home);
}

#[test]
fn durable_off_makes_no_folder_and_starts_no_server() {
    let home = Home::empty();
    let broker = plan_in(&home).set("QUEEN_DURABLE", "off").start();
    assert_eq!(health(&broker)["database"], "off");
    let body = broker.queue("fleeting").configure(json!({}));
    assert_eq!(body["durable"], false, "{body}");
    assert!(!home.data().exists());
    broker.terminate();
}

#[test]
fn a_folder_of_programs_that_has_none_refuses_the_start_and_names_the_setting() {
    let home = Home::empty();
    let plan: Plan = plan_in(&home).set("QUEEN_PG_BIN", home.top().join("nowhere").display());
    let failure = plan.start_in_vain(free_port());
    let status = failure.status.and_then(|status| status.code());
    assert_eq!(status, Some(78), "{failure:?}");
    assert!(failure.output.contains("QUEEN_PG_BIN"), "{failure:?}");
}

#[test]
fn a_cluster_that_cannot_start_counts_as_away_and_is_told_with_the_reason() {
    let home = home();
    let conf = home.cluster().join("postgresql.conf");
    let text = fs::read_to_string(&conf).expect("its settings");
    fs::write(&conf, format!("{text}\nno_such_setting = 1\n")).expect("its settings");
    let broker = plan_in(&home).start();
    let reason = wait_until_degraded(&broker);
    assert!(reason.contains("no_such_setting"), "{reason}");
    assert_serves(&broker.queue("served"));
    fs::write(&conf, text).expect("its settings");
    wait_until_connected(&broker);
    declare(&broker.queue("healed"), json!({}));
    assert_stops(&broker, &home);
}

#[test]
fn a_named_server_makes_no_private_cluster() {
    let database = crate::rig::database();
    let home = Home::empty();
    let plan = durable().set("QUEEN_DATA_DIR", home.data().display());
    let broker = plan.set("DATABASE_URL", database.url()).start();
    wait_until_connected(&broker);
    assert!(!home.cluster().exists());
}
