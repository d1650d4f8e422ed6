//! What refused and broken off changes leave: no slot, no descriptor, no disagreement.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{
    DATABASE_URL, PATIENCE, assert_unavailable, configure, database, database_alone, declare,
    end_sessions, has_option, plan_on, wait_for_option, wait_until_away, wait_until_connected,
    wait_until_degraded, wait_until_stored,
};
use crate::support::home::signal;
use crate::support::{Broker, Database, Queue, eventually_within};

const TENANT: &str = "11111111-2222-4333-8444-555555555555";
const OTHER: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

fn queue_of(broker: &Broker, name: &str, tenant: &str) -> Queue {
    let queue = broker.queue_named(name);
    queue.with_field("x-queen-tenant", tenant)
}

fn grant(database: &Database, columns: &str, values: &str) {
    database.execute(&format!(
        "INSERT INTO queen.ephemeral_grant (tenant, {columns}) VALUES ('{TENANT}', {values})"
    ));
}

#[test]
fn a_declaration_that_could_not_be_stored_takes_no_place_of_the_allowance() {
    let database = database_alone();
    let plan = plan_on(&database).set("QUEEN_TENANCY_HEADER", true);
    plan.clone().start().terminate();
    grant(&database, "max_queues", "2");
    let broker = plan.start();
    database.server().stop();
    wait_until_away(&broker);
    for number in 0..5 {
        let queue = queue_of(&broker, &format!("refused-{number}"), TENANT);
        assert_unavailable(&configure(&queue, json!({})));
    }
    database.server().start_again();
    wait_until_connected(&broker);
    for number in 0..2 {
        declare(&queue_of(&broker, &format!("q{number}"), TENANT), json!({}));
    }
    let answer = configure(&queue_of(&broker, "q2", TENANT), json!({}));
    answer.assert_refused(403, "ephemeral_quota_exceeded");
}

#[test]
fn what_is_stored_is_declared_although_the_allowance_is_smaller() {
    let database = database();
    let plan = plan_on(&database).set("QUEEN_TENANCY_HEADER", true);
    let broker = plan.clone().start();
    grant(&database, "max_queues", "1");
    database.execute(&format!(
        "INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         SELECT '{TENANT}', 'q' || number, '{{\"maxLength\": 7}}' FROM generate_series(1, 3) AS number"
    ));
    let first = queue_of(&broker, "q1", TENANT);
    eventually_within(PATIENCE, "the grant is in force", || {
        first.get("/api/v1/ephemeral/queues").status == 200
    });
    drop(first);
    let assert_serves_them = |broker: &Broker| {
        for number in 1..=3 {
            let queue = queue_of(broker, &format!("q{number}"), TENANT);
            wait_for_option(&queue, "maxLength", 7);
            queue.push(&[json!(1)]);
            declare(&queue, json!({"maxLength": 7}));
        }
        let answer = queue_of(broker, "q4", TENANT).try_push(None, &[json!(1)]);
        answer.assert_refused(403, "ephemeral_quota_exceeded");
    };
    assert_serves_them(&broker);
    broker.terminate();
    assert_serves_them(&broker.start_again());
}

#[test]
fn more_tenants_in_the_table_than_the_broker_may_have_leave_it_serving_the_others() {
    let database = database();
    let plan = plan_on(&database)
        .set("QUEEN_TENANCY_HEADER", true)
        .set("QUEEN_EPHEMERAL_REQUIRE_GRANT", false);
    plan.clone().start().terminate();
    database.execute(&format!(
        "INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         VALUES ('{TENANT}', 'q', '{{}}'), ('{OTHER}', 'q', '{{}}')"
    ));
    let broker = plan.set("QUEEN_KV_MAX_TENANTS", 1).start();
    let served = |tenant: &&str| {
        let queue = queue_of(&broker, "q", tenant);
        queue.try_push(None, &[json!(1)]).status == 201
    };
    assert_eq!(
        [TENANT, OTHER]
            .iter()
            .filter(|tenant| served(tenant))
            .count(),
        1
    );
}

#[test]
fn a_session_that_hangs_in_the_middle_of_a_change_is_answered_for_in_time() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    let queue = broker.queue("changed");
    declare(&queue, json!({}));
    for round in 0..3 {
        thread::scope(|scope| {
            let changes = scope.spawn(|| {
                let queue = broker.queue_named(&queue.name);
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(800) {
                    let answer = configure(&queue, json!({"maxLength": 7}));
                    if answer.status != 201 {
                        assert_unavailable(&answer);
                    }
                }
            });
            let hung = database.sessions();
            hung.iter().for_each(|&pid| signal(pid, Signal::STOP));
            changes.join().expect("all are answered in time");
            // It may hold the lock that all changes take.
            hung.iter().for_each(|&pid| signal(pid, Signal::CONT));
        });
        wait_until_stored(&queue, &json!({"maxLength": 10 + round}));
        wait_until_connected(&broker);
        assert!(has_option(&queue, "maxLength", 10 + round));
    }
}

#[test]
fn what_a_server_that_hung_has_stored_after_all_is_in_force() {
    let database = database_alone();
    let broker = plan_on(&database).start();
    let queue = broker.queue("perhaps");
    database.server().hang();
    assert_unavailable(&configure(&queue, json!({"maxLength": 7})));
    database.server().go_on();
    wait_until_connected(&broker);
    // Whatever becomes of the first one, this comes after it.
    declare(&broker.queue("later"), json!({}));
    let question = "SELECT count(*) FROM queen.ephemeral_queue WHERE queue = $1";
    let is_stored = || {
        let row = database.client().query_one(question, &[&queue.name]);
        row.expect("a count").get::<_, i64>(0) == 1
    };
    eventually_within(PATIENCE, "broker and table agree", || {
        is_stored() == has_option(&queue, "maxLength", 7)
    });
}

/// Descriptors and threads of a broker.
fn held(broker: &Broker) -> (usize, usize) {
    let count = |what: &str| {
        let entries = fs::read_dir(format!("/proc/{}/{what}", broker.pid()));
        entries.expect("the broker runs").count()
    };
    (count("fd"), count("task"))
}

#[test]
fn sessions_that_end_again_and_again_leave_no_descriptor_and_no_thread() {
    let database = database();
    let broker = plan_on(&database).start();
    let queue = broker.queue("declared");
    let again = || {
        end_sessions(&database);
        wait_until_stored(&queue, &json!({}));
        wait_until_connected(&broker);
    };
    again();
    let (descriptors, threads) = held(&broker);
    for _ in 0..10 {
        again();
    }
    eventually_within(PATIENCE, "as much is held as before", || {
        let after = held(&broker);
        // A connection of the test's own may still be open.
        after.0 <= descriptors + 4 && after.1 <= threads
    });
}

#[test]
fn a_login_that_may_have_no_more_sessions_is_told_so_until_it_may() {
    let database = database();
    let login = format!("{}_limited", database.name());
    let name = database.name();
    database.execute(&format!(
        "CREATE ROLE {login} LOGIN; GRANT CREATE ON DATABASE {name} TO {login}"
    ));
    let plan = plan_on(&database).set(DATABASE_URL, database.url_of(&login));
    let broker = plan.start();
    declare(&broker.queue("before"), json!({}));
    database.execute(&format!("ALTER ROLE {login} CONNECTION LIMIT 0"));
    end_sessions(&database);
    eventually_within(PATIENCE, "it is told", || {
        wait_until_degraded(&broker).contains("too many connections")
    });
    database.execute(&format!("ALTER ROLE {login} CONNECTION LIMIT -1"));
    wait_until_connected(&broker);
    declare(&broker.queue("after"), json!({}));
}
