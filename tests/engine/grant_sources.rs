//! Whether grants are required at all, and what holds until they are loaded.

use serde_json::json;

use crate::rig::{
    PATIENCE, assert_unavailable, database, database_alone, declare, durable, plan_on,
    wait_until_away, wait_until_connected,
};
use crate::support::broker::free_port;
use crate::support::{Broker, Queue, eventually_within};

const TENANT: &str = "11111111-2222-4333-8444-555555555555";
const OTHER: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
const REQUIRE: &str = "QUEEN_EPHEMERAL_REQUIRE_GRANT";
const TENANCY: &str = "QUEEN_TENANCY_HEADER";

/// Exit status of a broker whose settings are at fault.
const STATUS_SETTINGS: i32 = 78;

fn queue_of(broker: &Broker, tenant: &str) -> Queue {
    let queue = broker.queue_named("granted");
    queue.with_field("x-queen-tenant", tenant)
}

#[test]
fn grants_that_are_required_and_not_loaded_yet_are_503_and_not_403() {
    let database = database_alone();
    let plan = plan_on(&database).set(TENANCY, true);
    plan.clone().start().terminate();
    database.execute(&format!(
        "INSERT INTO queen.ephemeral_grant (tenant) VALUES ('{TENANT}')"
    ));
    database.server().stop();
    let broker = plan.start();
    wait_until_away(&broker);
    for tenant in [TENANT, OTHER] {
        let queue = queue_of(&broker, tenant);
        assert_unavailable(&queue.try_push(None, &[json!(1)]));
        assert_unavailable(&queue.get(&queue.pop_target("")));
        assert_unavailable(&queue.get(&queue.pop_target("wait=true&timeout=20000")));
        assert_unavailable(&queue.try_configure(json!({})));
    }
    database.server().start_again();
    wait_until_connected(&broker);
    queue_of(&broker, TENANT).push(&[json!(1)]);
    let answer = queue_of(&broker, OTHER).try_push(None, &[json!(1)]);
    answer.assert_refused(403, "feature_gated");
    // What was loaded once stays in force.
    database.server().stop();
    wait_until_away(&broker);
    queue_of(&broker, TENANT).push(&[json!(2)]);
    let answer = queue_of(&broker, OTHER).try_push(None, &[json!(1)]);
    answer.assert_refused(403, "feature_gated");
}

#[test]
fn tenancy_without_a_database_requires_no_grant() {
    let plan = durable().set("QUEEN_DURABLE", "off").set(TENANCY, true);
    let broker = plan.start();
    let queue = queue_of(&broker, TENANT);
    queue.push(&[json!(1)]);
    assert_eq!(queue.pop_payloads(""), [json!(1)]);
}

#[test]
fn grants_required_explicitly_without_a_database_refuse_the_start() {
    let plan = durable().set("QUEEN_DURABLE", "off").set(REQUIRE, true);
    let failure = plan.start_in_vain(free_port());
    let status = failure.status.and_then(|status| status.code());
    assert_eq!(status, Some(STATUS_SETTINGS), "{failure:?}");
    assert!(failure.output.contains(REQUIRE), "{failure:?}");
    assert!(failure.output.contains("database"), "{failure:?}");
}

#[test]
fn grants_are_not_required_without_tenancy_but_bound_where_they_are_given() {
    let database = database();
    let broker = plan_on(&database).start();
    let queue = broker.queue("q");
    queue.push(&[json!(1)]);
    database.execute(&format!(
        "INSERT INTO queen.ephemeral_grant (tenant, max_bytes) VALUES ('{}', 0)",
        queen::model::TenantId::DEFAULT
    ));
    eventually_within(PATIENCE, "the grant is in force", || {
        queue.try_push(None, &[json!(1)]).status == 403
    });
    let answer = queue.try_push(None, &[json!(1)]);
    answer.assert_refused(403, "ephemeral_quota_exceeded");
}

#[test]
fn grants_can_be_required_without_tenancy() {
    let database = database();
    let broker = plan_on(&database).set(REQUIRE, true).start();
    let queue = broker.queue("q");
    let answer = queue.try_push(None, &[json!(1)]);
    answer.assert_refused(403, "feature_gated");
    database.execute(&format!(
        "INSERT INTO queen.ephemeral_grant (tenant) VALUES ('{}')",
        queen::model::TenantId::DEFAULT
    ));
    eventually_within(PATIENCE, "the grant is in force", || {
        queue.try_push(None, &[json!(1)]).status == 201
    });
    declare(&queue, json!({}));
}
