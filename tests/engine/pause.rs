//! The operator's switch, which lives in the database.

use serde_json::{Value, json};

use crate::rig::{
    PATIENCE, database, database_alone, durable, plan_on, wait_until_away, wait_until_connected,
};
use crate::support::{Broker, eventually_within};

const SWITCH: &str = "/api/v1/system/ephemeral";

#[track_caller]
fn set(broker: &Broker, enabled: bool) -> Value {
    let body = json!({"enabled": enabled});
    crate::rig::in_time("the switch", || {
        broker.plain_client().post(SWITCH, &body).expect(200)
    })
}

#[track_caller]
fn get(broker: &Broker) -> Value {
    broker.plain_client().get(SWITCH).expect(200)
}

fn switch(enabled: bool, mirrored: bool) -> Value {
    json!({"ephemeralEnabled": enabled, "mirrored": mirrored})
}

fn push_status(broker: &Broker) -> u16 {
    broker
        .queue_named("paused")
        .try_push(None, &[json!(1)])
        .status
}

#[track_caller]
fn wait_for(broker: &Broker, enabled: bool) {
    eventually_within(PATIENCE, "the switch is seen", || {
        get(broker) == switch(enabled, true)
    });
    let expected = if enabled { 201 } else { 503 };
    assert_eq!(push_status(broker), expected);
}

#[test]
fn a_pause_holds_for_all_brokers_on_the_database_and_survives_the_restart_of_all() {
    let database = database();
    let plan = plan_on(&database);
    let (first, second) = (plan.clone().start(), plan.clone().start());
    assert_eq!(get(&first), switch(true, true));
    let queue = second.queue("parked");
    let mut parked = queue.park(second.client(), "group=g");
    assert_eq!(set(&first, false), switch(false, true));
    wait_for(&first, false);
    wait_for(&second, false);
    parked.answer().assert_refused(503, "ephemeral_disabled");
    drop(queue);
    first.terminate();
    second.kill();
    let (first, second) = (first.start_again(), second.start_again());
    for broker in [&first, &second] {
        assert_eq!(push_status(broker), 503);
        assert_eq!(get(broker), switch(false, true));
    }
    assert_eq!(set(&second, true), switch(true, true));
    wait_for(&second, true);
    wait_for(&first, true);
}

#[test]
fn a_pause_set_by_sql_is_seen() {
    let database = database();
    let broker = plan_on(&database).start();
    database.execute("UPDATE queen.switch SET enabled = false WHERE name = 'ephemeral'");
    wait_for(&broker, false);
    database.execute("DELETE FROM queen.switch");
    wait_for(&broker, true);
}

#[test]
fn a_pause_without_the_database_is_local_and_says_so() {
    let off = durable().set("QUEEN_DURABLE", "off").start();
    assert_eq!(get(&off), switch(true, false));
    assert_eq!(set(&off, false), switch(false, false));
    assert_eq!(get(&off), switch(false, false));
    assert_eq!(push_status(&off), 503);

    let database = database_alone();
    let broker = plan_on(&database).start();
    assert_eq!(get(&broker), switch(true, true));
    database.server().stop();
    wait_until_away(&broker);
    assert_eq!(set(&broker, false), switch(false, false));
    assert_eq!(get(&broker), switch(false, false));
    assert_eq!(push_status(&broker), 503);
    assert_eq!(set(&broker, true), switch(true, false));
    assert_eq!(push_status(&broker), 201);
    database.server().start_again();
    wait_until_connected(&broker);
    wait_for(&broker, true);
}

#[test]
fn a_pause_set_while_the_database_was_away_is_stored_when_it_is_back_and_holds_for_all() {
    let database = database_alone();
    let plan = plan_on(&database);
    let (first, second) = (plan.clone().start(), plan.start());
    database.server().stop();
    wait_until_away(&first);
    wait_until_away(&second);
    assert_eq!(set(&first, false), switch(false, false));
    assert_eq!(push_status(&second), 201);
    database.server().start_again();
    wait_for(&first, false);
    wait_for(&second, false);
    first.terminate();
    assert_eq!(push_status(&first.start_again()), 503);
}
