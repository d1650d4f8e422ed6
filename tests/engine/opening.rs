//! What is there when the listener opens.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{
    DATABASE_URL, assert_serves, assert_unavailable, configure, database, database_alone, declare,
    delete, durable, has_option, plan_on, wait_for_option, wait_until_away, wait_until_connected,
};
use crate::support::broker::free_port;
use crate::support::queue::numbers;
use crate::support::setup::in_parallel;
use crate::support::{Broker, Client, Plan};

/// How long a start waits for a database that is away, with what the start itself takes.
const OPENING_LIMIT: Duration = Duration::from_secs(8);

/// The answer to the first request that the broker takes, sent as soon as it lets a client in.
#[track_caller]
fn first_answer(broker: &Broker, method: &str, target: &str, body: Option<&[u8]>) -> Value {
    let deadline = Instant::now() + OPENING_LIMIT;
    loop {
        match Client::try_connect(broker.address()) {
            Ok(client) => {
                let mut client = client.with_field("x-queen-tenant", TENANT);
                return client.request(method, target, body).json();
            }
            Err(_) if Instant::now() < deadline => thread::yield_now(),
            Err(fault) => panic!("{fault}: {}", broker.output()),
        }
    }
}

const TENANT: &str = "11111111-2222-4333-8444-555555555555";

#[test]
fn the_first_request_sees_every_declaration() {
    let database = database();
    let plan = plan_on(&database);
    let broker = plan.clone().start();
    let queues: Vec<_> = (0..20).map(|_| broker.queue("early")).collect();
    for queue in &queues {
        declare(queue, json!({"maxLength": 7}));
    }
    drop(queues);
    broker.kill();
    for _ in 0..3 {
        let broker = plan.spawn();
        let list = first_answer(&broker, "GET", "/api/v1/ephemeral/queues", None);
        assert_eq!(list["count"], 20, "{list}");
        let rows = list["queues"].as_array().expect("queues");
        for row in rows {
            assert_eq!(row["tier"], "declared", "{row}");
            assert_eq!(row["options"]["maxLength"], 7, "{row}");
        }
    }
}

#[test]
fn row_59_the_first_request_finds_the_grants_loaded() {
    let database = database();
    let plan = plan_on(&database).set("QUEEN_TENANCY_HEADER", true);
    // Makes the table of grants.
    plan.clone().start().terminate();
    let grant = format!("INSERT INTO queen.ephemeral_grant (tenant) VALUES ('{TENANT}')");
    database.execute(&grant);
    for _ in 0..3 {
        let broker = plan.spawn();
        let body = json!({"queue": "granted", "messages": [{"payload": 1}]}).to_string();
        let target = "/api/v1/ephemeral/push";
        let answer = first_answer(&broker, "POST", target, Some(body.as_bytes()));
        assert_eq!(answer, json!({"pushed": 1}));
    }
}

#[test]
fn brokers_that_start_at_once_on_a_new_database_all_come_up() {
    let database = database();
    let plan = plan_on(&database);
    let brokers: Vec<Broker> = thread::scope(|scope| {
        let starts: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| plan.clone().start()))
            .collect();
        let brokers = starts.into_iter().map(|start| start.join());
        brokers.map(|broker| broker.expect("it starts")).collect()
    });
    let first = brokers[0].queue("together");
    declare(&first, json!({"maxLength": 7}));
    for broker in &brokers {
        wait_until_connected(broker);
        wait_for_option(&broker.queue_named(&first.name), "maxLength", 7);
    }
}

#[test]
fn a_start_without_the_database_opens_after_five_seconds_and_serves_implicit_queues() {
    let database = database_alone();
    let plan = plan_on(&database);
    let broker = plan.clone().start();
    let stored = broker.queue("stored");
    declare(&stored, json!({"maxLength": 7}));
    let (stored, unused) = (stored.name.clone(), broker.queue("unused").name.clone());
    broker.terminate();
    database.server().stop();

    let begin = Instant::now();
    let broker = plan.start();
    assert!(begin.elapsed() < OPENING_LIMIT, "{:?}", begin.elapsed());
    wait_until_away(&broker);
    let implicit = broker.queue("implicit");
    assert_serves(&implicit);
    // Nothing is known of what is declared, so nothing is changed about it.
    for queue in [&broker.queue_named(&stored), &implicit] {
        assert_unavailable(&configure(queue, json!({})));
        assert_unavailable(&delete(queue));
    }
    let early = broker.queue_named(&stored);
    early.push(&numbers(0..9));
    let leased = early.pop_one("group=g");
    assert_eq!(early.row().expect("it is listed")["tier"], "implicit");

    database.server().start_again();
    wait_until_connected(&broker);
    // With what it holds, although that is more than what is declared.
    assert!(has_option(&early, "maxLength", 7));
    early.ack(Some("g"), &[leased]);
    assert_eq!(early.pop_payloads("group=g&batch=20"), numbers(1..9));
    assert_eq!(implicit.row().expect("it is listed")["tier"], "implicit");
    declare(&broker.queue_named(&unused), json!({}));
    assert_eq!(early.delete(), (true, true));
}

#[test]
fn a_start_waits_for_a_database_that_comes_in_time() {
    let database = database_alone();
    let plan = plan_on(&database);
    let broker = plan.clone().start();
    let queue = broker.queue("waited-for");
    declare(&queue, json!({"maxLength": 7}));
    drop(queue);
    broker.terminate();
    database.server().stop();
    let broker = plan.spawn();
    assert!(!broker.is_healthy());
    database.server().start_again();
    let list = first_answer(&broker, "GET", "/api/v1/ephemeral/queues", None);
    assert_eq!(list["count"], 1, "{list}");
    wait_until_connected(&broker);
}

/// A server that takes connections and never says a word must not hold up a start.
#[test]
fn a_start_on_a_database_that_hangs_opens_too() {
    let database = database_alone();
    let plan = plan_on(&database);
    database.server().hang();
    let begin = Instant::now();
    let broker = plan.start();
    assert!(begin.elapsed() < OPENING_LIMIT, "{:?}", begin.elapsed());
    wait_until_away(&broker);
    let queue = broker.queue("hanging");
    assert_serves(&queue);
    assert_unavailable(&configure(&queue, json!({})));
    database.server().go_on();
    wait_until_connected(&broker);
    declare(&queue, json!({}));
}

/// Somebody else who is making the schema and does not come to an end must not hold up anybody.
#[test]
fn a_schema_that_somebody_else_is_making_is_waited_for_without_holding_up_clients() {
    let database = database();
    let mut somebody = database.client();
    somebody
        .batch_execute("BEGIN; CREATE SCHEMA queen")
        .expect("a schema");
    let begin = Instant::now();
    let broker = plan_on(&database).start();
    assert!(begin.elapsed() < OPENING_LIMIT, "{:?}", begin.elapsed());
    wait_until_away(&broker);
    let queue = broker.queue("early");
    for _ in 0..3 {
        assert_serves(&queue);
        assert_unavailable(&configure(&queue, json!({})));
    }
    somebody.batch_execute("ROLLBACK").expect("it gives up");
    wait_until_connected(&broker);
    declare(&queue, json!({}));
}

/// The settings that name a database by its parts.
fn by_parts(database: &crate::support::Database, host: &str) -> Plan {
    durable()
        .set("PG_HOST", host)
        .set("PG_PORT", database.server().port())
        .set("PG_USER", "queen")
        .set("PG_DATABASE", database.name())
}

#[test]
fn a_database_is_named_by_a_url_or_by_parts_over_a_port_or_a_socket() {
    let database = database();
    let socket_folder = database.socket_folder().display().to_string();
    let plans = [
        durable().set(DATABASE_URL, database.url()),
        durable().set(DATABASE_URL, database.socket_url()),
        by_parts(&database, "127.0.0.1"),
        by_parts(&database, &socket_folder),
    ];
    in_parallel(&plans, |plan| {
        let broker = plan.clone().start();
        wait_until_connected(&broker);
        declare(&broker.queue("named"), json!({}));
    });
}

#[test]
fn a_database_nobody_listens_for_is_told_with_its_address() {
    let port = free_port();
    let url = format!("postgres://queen@127.0.0.1:{port}/nowhere");
    let broker = durable().set(DATABASE_URL, url).start();
    let reason = wait_until_away(&broker);
    assert!(reason.contains(&port.to_string()), "{reason}");
    broker.terminate();
}
