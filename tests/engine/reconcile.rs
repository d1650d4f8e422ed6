//! Several brokers on one database: what one of them or a person at a console changes is seen by all.

use std::sync::{Arc, Mutex, Weak};

use serde_json::json;

use crate::rig::{
    PATIENCE, common, database, declare, has_option, plan_on, wait_for_option, wait_until_unlisted,
};
use crate::support::queue::{numbers, unique};
use crate::support::{Broker, Database, Plan, Queue, eventually_within};

const FIELD: &str = "x-queen-tenant";

/// Two brokers on one database, for tests that use names and tenants of their own.
pub(crate) struct Pair {
    pub(crate) first: Broker,
    pub(crate) second: Broker,
    pub(crate) database: Database,
}

impl Pair {
    fn start(plan: impl Fn(&Database) -> Plan) -> Arc<Pair> {
        let database = database();
        Arc::new(Pair {
            first: plan(&database).start(),
            second: plan(&database).start(),
            database,
        })
    }

    /// The pair without tenants.
    pub(crate) fn common() -> Arc<Pair> {
        static PAIR: Mutex<Weak<Pair>> = Mutex::new(Weak::new());
        common(&PAIR, || Pair::start(plan_on))
    }

    /// The pair with tenants that need no grant.
    fn with_tenants() -> Arc<Pair> {
        static PAIR: Mutex<Weak<Pair>> = Mutex::new(Weak::new());
        let plan = |database: &Database| {
            plan_on(database)
                .set("QUEEN_TENANCY_HEADER", true)
                .set("QUEEN_EPHEMERAL_REQUIRE_GRANT", false)
        };
        common(&PAIR, || Pair::start(plan))
    }

    /// A new name, as a queue of either broker.
    pub(crate) fn queues(&self, name: &str) -> (Queue, Queue) {
        let name = unique(name);
        (
            self.first.queue_named(&name),
            self.second.queue_named(&name),
        )
    }
}

#[test]
fn a_declaration_a_change_and_a_deletion_on_one_broker_are_seen_on_the_other() {
    let pair = Pair::common();
    let (here, there) = pair.queues("seen");
    declare(&here, json!({"maxLength": 7}));
    wait_for_option(&there, "maxLength", 7);
    declare(&there, json!({"maxLength": 8}));
    wait_for_option(&here, "maxLength", 8);
    // What one broker holds is its own: only the options are the same.
    here.push(&numbers(0..3));
    there.push(&numbers(3..5));
    declare(&here, json!({"ttlSeconds": 300}));
    wait_for_option(&there, "ttlSeconds", 300);
    assert!(has_option(&there, "maxLength", 10_000));
    assert_eq!(here.pop_payloads("group=g&batch=10"), numbers(0..3));
    assert_eq!(there.pop_payloads("group=g&batch=10"), numbers(3..5));
    assert_eq!(there.delete(), (true, true));
    wait_until_unlisted(&here);
}

#[test]
fn row_60_a_declaration_removed_elsewhere_drops_the_declared_queue_and_nothing_else() {
    const OTHER: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
    const TENANT: &str = "11111111-2222-4333-8444-555555555555";
    let pair = Pair::with_tenants();
    let of =
        |broker: &Broker, name: &str, tenant| broker.queue_named(name).with_field(FIELD, tenant);
    let removed = of(&pair.first, "row-60", TENANT);
    declare(&removed, json!({"maxLength": 7}));
    declare(&of(&pair.first, "row-60", OTHER), json!({"maxLength": 8}));
    declare(
        &of(&pair.first, "row-60-kept", TENANT),
        json!({"maxLength": 9}),
    );

    let there = of(&pair.second, "row-60", TENANT);
    let others = of(&pair.second, "row-60", OTHER);
    let kept = of(&pair.second, "row-60-kept", TENANT);
    let implicit = of(&pair.second, "row-60-implicit", TENANT);
    wait_for_option(&there, "maxLength", 7);
    wait_for_option(&others, "maxLength", 8);
    wait_for_option(&kept, "maxLength", 9);
    for queue in [&there, &others, &kept, &implicit] {
        queue.push(&numbers(0..3));
    }
    let leased = implicit.pop_one("group=g");

    assert_eq!(removed.delete(), (true, true));
    wait_until_unlisted(&there);
    assert_eq!(there.pop("group=g"), []);
    assert!(has_option(&others, "maxLength", 8));
    assert!(has_option(&kept, "maxLength", 9));
    implicit.ack(Some("g"), &[leased]);
    assert_eq!(implicit.pop_payloads("group=g&batch=10"), numbers(1..3));
    for queue in [&others, &kept] {
        assert_eq!(queue.pop_payloads("group=g&batch=10"), numbers(0..3));
    }
    // And again, by the name that is free now.
    there.push(&[json!("implicit")]);
    assert_eq!(there.row().expect("it is listed")["tier"], "implicit");
}

#[test]
fn a_parked_pop_stays_parked_while_another_broker_declares_and_deletes_its_queue() {
    let pair = Pair::common();
    let (elsewhere, queue) = pair.queues("parked");
    let mut fixed = queue.park(pair.second.client(), "group=fixed&partition=p");
    let mut anywhere = queue.park(pair.second.client(), "group=anywhere");
    declare(&elsewhere, json!({"maxLength": 7}));
    wait_for_option(&queue, "maxLength", 7);
    assert_eq!(queue.waiting(), 2);
    assert_eq!(elsewhere.delete(), (true, true));
    eventually_within(PATIENCE, "the declaration is gone", || {
        let declared = |row: serde_json::Value| row["tier"] == "declared";
        !queue.row().is_some_and(declared)
    });
    fixed.assert_waiting();
    anywhere.assert_waiting();
    queue.push_to("p", &[json!("at last")]);
    assert_eq!(fixed.message().payload, "at last");
    assert_eq!(anywhere.message().payload, "at last");
}

#[test]
fn a_live_implicit_queue_that_another_broker_declares_keeps_what_it_holds() {
    let pair = Pair::common();
    let (elsewhere, queue) = pair.queues("promoted");
    queue.push(&numbers(0..3));
    let leased = queue.pop_one("group=g");
    declare(&elsewhere, json!({"maxLength": 7}));
    wait_for_option(&queue, "maxLength", 7);
    queue.ack(Some("g"), &[leased]);
    assert_eq!(queue.pop_payloads("group=g&batch=10"), numbers(1..3));
}

#[test]
fn declarations_made_changed_and_removed_by_sql_are_seen_by_every_broker() {
    let pair = Pair::common();
    let (here, there) = pair.queues("by-sql");
    let name = &here.name;
    let tenant = queen::model::TenantId::DEFAULT;
    pair.database.execute(&format!(
        "INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         VALUES ('{}', '{name}', '{{\"maxLength\": 7}}')",
        tenant
    ));
    for queue in [&here, &there] {
        wait_for_option(queue, "maxLength", 7);
    }
    pair.database.execute(&format!(
        "UPDATE queen.ephemeral_queue SET options = '{{\"maxLength\": 8}}' WHERE queue = '{name}'"
    ));
    for queue in [&here, &there] {
        wait_for_option(queue, "maxLength", 8);
    }
    let renamed = unique("by-sql-renamed");
    pair.database.execute(&format!(
        "UPDATE queen.ephemeral_queue SET queue = '{renamed}' WHERE queue = '{name}'"
    ));
    for broker in [&pair.first, &pair.second] {
        wait_for_option(&broker.queue_named(&renamed), "maxLength", 8);
        wait_until_unlisted(&broker.queue_named(name));
    }
    pair.database.execute(&format!(
        "DELETE FROM queen.ephemeral_queue WHERE queue = '{renamed}'"
    ));
    for broker in [&pair.first, &pair.second] {
        wait_until_unlisted(&broker.queue_named(&renamed));
    }
}

#[test]
fn what_stands_in_the_table_and_no_broker_understands_harms_no_other_queue() {
    let pair = Pair::common();
    let (strange, _) = pair.queues("strange");
    let (here, there) = pair.queues("sound");
    pair.database.execute(&format!(
        "INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         VALUES ('{}', '{}', 'no JSON'), ('{0}', E'line\\nbreak', '{{}}'),
                ('{0}', '{}', '{{\"maxLength\": 7}}')",
        queen::model::TenantId::DEFAULT,
        strange.name,
        here.name
    ));
    for queue in [&here, &there] {
        wait_for_option(queue, "maxLength", 7);
    }
    let body = crate::rig::health(&pair.first);
    assert_eq!(body["status"], "healthy", "{body}");
    pair.database
        .execute("DELETE FROM queen.ephemeral_queue WHERE queue = E'line\\nbreak'");
    declare(&strange, json!({"maxLength": 8}));
    assert_eq!(strange.delete(), (true, true));
}
