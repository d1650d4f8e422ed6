//! Tenants by header: row 23.

use std::sync::Arc;

use serde_json::json;

use crate::support::{Broker, Client, Queue, each_plan, each_setup, shared};

const FIRST: &str = "11111111-2222-4333-8444-555555555555";
const SECOND: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

fn each_with_tenants(test: impl Fn(&Broker) + Sync) {
    each_plan(|plan| {
        let broker: Arc<Broker> = shared(plan.set("QUEEN_TENANCY_HEADER", "true"));
        test(&broker);
    });
}

fn queue_of(broker: &Broker, tenant: &str, name: &str) -> Queue {
    broker
        .queue_named(name)
        .with_field("x-queen-tenant", tenant)
}

fn client_of(broker: &Broker, tenant: &str) -> Client {
    broker.client().with_field("x-queen-tenant", tenant)
}

#[test]
fn row_23_two_tenants_share_a_name_and_nothing_else() {
    each_with_tenants(|broker| {
        let first = queue_of(broker, FIRST, "row-23");
        let second = queue_of(broker, SECOND, "row-23");
        first.push(&[json!("mine")]);
        assert_eq!(second.pop(""), []);
        assert_eq!(second.held(), (0, 0));
        assert_eq!(second.reset(), 0);
        second.delete();
        let message = first.pop_one("");
        let outcome = second.settle_one(None, &message.id, "completed");
        assert_eq!(outcome, "unknown");
        first.ack(None, &[message]);
        assert_eq!(second.row(), None);
        assert!(first.row().is_some());
        first.delete();
    });
}

#[test]
fn a_parked_pop_waits_for_its_own_tenant() {
    each_with_tenants(|broker| {
        let first = queue_of(broker, FIRST, "tenant-parked");
        let second = queue_of(broker, SECOND, "tenant-parked");
        let mut parked = first.park(client_of(broker, FIRST), "");
        second.push(&[json!("theirs")]);
        parked.assert_waiting();
        first.push(&[json!("ours")]);
        assert_eq!(parked.message().payload, "ours");
    });
}

#[test]
fn the_header_is_required_and_must_be_a_uuid() {
    each_with_tenants(|broker| {
        let push = json!({"queue": "q", "messages": [{"payload": 1}]});
        let targets = ["/api/v1/ephemeral/pop?queue=q", "/api/v1/ephemeral/queues"];
        let strangers = [
            broker.client(),
            client_of(broker, "not-a-uuid"),
            client_of(broker, ""),
            client_of(broker, FIRST).with_field("x-queen-tenant", SECOND),
        ];
        for mut client in strangers {
            let answer = client.post("/api/v1/ephemeral/push", &push);
            answer.assert_refused(400, "ephemeral_bad_request");
            for target in targets {
                let answer = client.get(target);
                answer.assert_refused(400, "ephemeral_bad_request");
            }
        }
    });
}

#[test]
fn health_metrics_and_the_switch_need_no_tenant() {
    each_with_tenants(|broker| {
        let mut client = broker.client();
        for target in [
            "/health",
            "/metrics",
            "/metrics/prometheus",
            "/api/v1/system/ephemeral",
        ] {
            assert_eq!(client.get(target).status, 200, "{target}");
        }
    });
}

#[test]
fn metrics_name_no_tenant_and_no_queue_of_one() {
    each_with_tenants(|broker| {
        let queue = queue_of(broker, FIRST, "secret-name");
        queue.configure(json!({}));
        let mut parked = queue.park(client_of(broker, FIRST), "");
        let text = broker.client().get("/metrics/prometheus").text();
        assert!(!text.contains("secret-name"), "{text}");
        assert!(!text.contains(FIRST), "{text}");
        queue.push(&[json!(1)]);
        parked.message();
    });
}

#[test]
fn without_the_switch_the_header_means_nothing() {
    each_setup(|broker| {
        let name = crate::support::unique("no-tenancy");
        let first = queue_of(broker, FIRST, &name);
        let second = queue_of(broker, "not-a-uuid", &name);
        first.push(&[json!("shared")]);
        assert_eq!(second.pop_payloads(""), [json!("shared")]);
    });
}

#[test]
fn a_full_table_of_tenants_refuses_the_next_one_only() {
    each_plan(|plan| {
        let broker = plan
            .set("QUEEN_TENANCY_HEADER", "true")
            .set("QUEEN_KV_MAX_TENANTS", 2)
            .start();
        let first = queue_of(&broker, FIRST, "q");
        let second = queue_of(&broker, SECOND, "q");
        first.push(&[json!(1)]);
        second.push(&[json!(2)]);
        let third = queue_of(&broker, "99999999-2222-4333-8444-555555555555", "q");
        let answer = third.try_push(None, &[json!(3)]);
        answer.assert_refused(503, "ephemeral_unavailable");
        assert_eq!(first.pop_payloads(""), [json!(1)]);
        assert_eq!(second.pop_payloads(""), [json!(2)]);
    });
}
