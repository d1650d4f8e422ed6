//! What tenants may use, as the table of grants says: rows 57 and 58.

use std::sync::{Arc, Mutex, Weak};
use std::thread;

use serde_json::{Value, json};

use crate::rig::{PATIENCE, common, database, declare, plan_on};
use crate::support::queue::numbers;
use crate::support::{Answer, Broker, Database, Queue, eventually_within};

/// A broker whose tenants need grants. Every test has tenants of its own.
struct Granting {
    broker: Broker,
    database: Database,
}

impl Granting {
    fn common() -> Arc<Granting> {
        static KEPT: Mutex<Weak<Granting>> = Mutex::new(Weak::new());
        common(&KEPT, || {
            let database = database();
            // Under tenancy grants are required unless the operator says otherwise.
            let broker = plan_on(&database).set("QUEEN_TENANCY_HEADER", true).start();
            Arc::new(Granting { broker, database })
        })
    }

    fn tenant(&self) -> Tenant<'_> {
        Tenant {
            granting: self,
            id: uuid::Uuid::new_v4().to_string(),
        }
    }
}

struct Tenant<'a> {
    granting: &'a Granting,
    id: String,
}

impl Tenant<'_> {
    fn queue(&self, name: &str) -> Queue {
        let queue = self.granting.broker.queue_named(name);
        queue.with_field("x-queen-tenant", &self.id)
    }

    /// Grants columns with these values, in place of what was granted before.
    fn grant(&self, columns: &str, values: &str) {
        let (comma, id) = (if columns.is_empty() { "" } else { ", " }, &self.id);
        self.granting.database.execute(&format!(
            "DELETE FROM queen.ephemeral_grant WHERE tenant = '{id}';
             INSERT INTO queen.ephemeral_grant (tenant{comma}{columns})
             VALUES ('{id}'{comma}{values})"
        ));
    }

    /// Grants, and waits until the first request is admitted.
    #[track_caller]
    fn grant_and_wait(&self, columns: &str, values: &str) {
        self.grant(columns, values);
        let queue = self.queue("admitted");
        eventually_within(PATIENCE, "the grant is in force", || {
            queue.get("/api/v1/ephemeral/queues");
            queue.get(&queue.pop_target("")).status == 200
        });
        queue.delete();
    }
}

#[track_caller]
fn assert_gated(answer: &Answer) {
    answer.assert_refused(403, "feature_gated");
    assert_eq!(answer.header("retry-after"), None);
}

/// Waits until a push is answered so.
#[track_caller]
fn wait_for_push(queue: &Queue, status: u16) -> Answer {
    let mut last = None;
    eventually_within(PATIENCE, "the change of the grant is in force", || {
        let answer = queue.try_push(None, &[json!(1)]);
        let is_so = answer.status == status;
        last = Some(answer);
        is_so
    });
    last.expect("an answer")
}

#[track_caller]
fn assert_all_gated(queue: &Queue) {
    assert_gated(&queue.try_push(None, &[json!(1)]));
    assert_gated(&queue.get(&queue.pop_target("")));
    assert_gated(&queue.get(&queue.pop_target("wait=true&timeout=20000")));
    assert_gated(&queue.try_configure(json!({})));
}

#[test]
fn row_57_without_the_grant_that_is_required_push_and_pop_are_403() {
    let granting = Granting::common();
    assert_all_gated(&granting.tenant().queue("q"));
}

#[test]
fn a_disabled_grant_is_403_as_if_there_was_none() {
    let granting = Granting::common();
    let tenant = granting.tenant();
    tenant.grant_and_wait("", "");
    let queue = tenant.queue("q");
    queue.push(&numbers(0..3));
    tenant.grant("enabled", "false");
    eventually_within(PATIENCE, "the grant is off", || {
        queue.get(&queue.pop_target("group=other")).status == 403
    });
    assert_all_gated(&queue);
    // What was there before is there again.
    tenant.grant_and_wait("", "");
    assert_eq!(queue.pop_payloads("group=g&batch=10"), numbers(0..3));
}

#[test]
fn row_58_over_the_allowance_of_bytes_the_refusal_speaks_of_the_allowance() {
    let granting = Granting::common();
    let tenant = granting.tenant();
    tenant.grant_and_wait("max_bytes", "200");
    let queue = tenant.queue("q");
    let payload = json!("x".repeat(28));
    let mut pushed = 0;
    let refused = loop {
        let answer = queue.try_push(None, std::slice::from_ref(&payload));
        if answer.status != 201 {
            break answer;
        }
        pushed += 1;
    };
    // 30 bytes each with its quotes.
    assert_eq!(pushed, 6);
    refused.assert_refused(403, "ephemeral_quota_exceeded");
    let text = refused.json()["error"].as_str().expect("a text").to_owned();
    assert!(text.contains("allowance"), "{text}");
    assert!(!text.contains("the queue"), "{text}");
    assert_eq!(refused.header("retry-after"), None);
    // Over all queues of the tenant, and only of this one.
    let other = tenant.queue("other");
    let answer = other.try_push(None, std::slice::from_ref(&payload));
    answer.assert_refused(403, "ephemeral_quota_exceeded");
    let message = queue.pop_one("");
    queue.ack(None, &[message]);
    other.push(&[payload]);
}

#[test]
fn the_allowance_of_queues_counts_declared_and_implicit_ones_and_is_exact() {
    let granting = Granting::common();
    let tenant = granting.tenant();
    tenant.grant_and_wait("max_queues", "3");
    let queues: Vec<Queue> = (0..5).map(|n| tenant.queue(&format!("q{n}"))).collect();
    declare(&queues[0], json!({}));
    queues[1].push(&[json!(1)]);
    declare(&queues[2], json!({}));
    let refusals = || {
        [
            queues[3].try_push(None, &[json!(1)]),
            queues[3].try_configure(json!({})),
        ]
    };
    for refused in refusals() {
        refused.assert_refused(403, "ephemeral_quota_exceeded");
    }
    // Those that are there may be declared anew and promoted.
    declare(&queues[0], json!({"maxLength": 7}));
    declare(&queues[1], json!({"maxLength": 7}));
    assert_eq!(queues[0].delete(), (true, true));
    declare(&queues[4], json!({}));
    for refused in refusals() {
        refused.assert_refused(403, "ephemeral_quota_exceeded");
    }
    let stored = "SELECT count(*) FROM queen.ephemeral_queue WHERE tenant::text = $1";
    let row = granting
        .database
        .client()
        .query_one(stored, &[&tenant.id])
        .expect("a count");
    assert_eq!(row.get::<_, i64>(0), 3, "what was refused is not stored");
}

#[test]
fn clients_that_declare_and_push_at_once_get_exactly_the_queues_they_are_granted() {
    let granting = Granting::common();
    let tenant = granting.tenant();
    tenant.grant_and_wait("max_queues", "5");
    let statuses: Vec<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (0..10)
            .map(|number| {
                let tenant = &tenant;
                scope.spawn(move || {
                    let queue = tenant.queue(&format!("q{number}"));
                    let answer = if number % 2 == 0 {
                        queue.try_configure(json!({}))
                    } else {
                        queue.try_push(None, &[json!(1)])
                    };
                    answer.status
                })
            })
            .collect();
        let statuses = clients.into_iter().map(|client| client.join());
        statuses.map(|status| status.expect("an answer")).collect()
    });
    let granted = statuses.iter().filter(|&&status| status == 201).count();
    let refused = statuses.iter().filter(|&&status| status == 403).count();
    assert_eq!((granted, refused), (5, 5), "{statuses:?}");
    let list = tenant.queue("any").get("/api/v1/ephemeral/queues");
    assert_eq!(list.expect(200)["count"], 5);
}

#[test]
fn the_granted_rate_is_both_rate_and_burst() {
    let granting = Granting::common();
    let tenant = granting.tenant();
    tenant.grant_and_wait("max_messages_per_second", "5");
    let queue = tenant.queue("q");
    queue.push(&numbers(0..5));
    let refused = queue.try_push(None, &numbers(5..10));
    refused.assert_refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(queue.pop_payloads("group=g&batch=10"), numbers(0..5));
    eventually_within(PATIENCE, "the bucket fills", || {
        queue.try_push(None, &numbers(5..10)).status == 201
    });
}

#[test]
fn grants_are_refreshed_while_the_broker_runs() {
    let granting = Granting::common();
    let tenant = granting.tenant();
    let queue = tenant.queue("q");
    assert_gated(&queue.try_push(None, &[json!(1)]));
    tenant.grant("", "");
    wait_for_push(&queue, 201);
    tenant.grant("max_bytes", "0");
    let refused = wait_for_push(&queue, 403);
    refused.assert_refused(403, "ephemeral_quota_exceeded");
    // Lowering evicts nothing.
    assert_eq!(queue.pop_one("group=g").payload, 1);
    tenant.grant("max_bytes", "NULL");
    wait_for_push(&queue, 201);
    let id = &tenant.id;
    let revoke = format!("DELETE FROM queen.ephemeral_grant WHERE tenant = '{id}'");
    granting.database.execute(&revoke);
    assert_gated(&wait_for_push(&queue, 403));
}

#[test]
fn the_grant_of_one_tenant_bounds_no_other() {
    let granting = Granting::common();
    let (bounded, free) = (granting.tenant(), granting.tenant());
    bounded.grant_and_wait("max_bytes, max_queues", "10, 1");
    free.grant_and_wait("", "");
    bounded.queue("q").push(&[json!(1)]);
    let payload: Value = json!("x".repeat(1_000));
    for number in 0..5 {
        free.queue(&format!("q{number}"))
            .push(std::slice::from_ref(&payload));
    }
    let answer = bounded.queue("q").try_push(None, &[payload]);
    answer.assert_refused(403, "ephemeral_quota_exceeded");
}
