//! The operator's switch. Each test has a broker of its own: the switch is for all queues.

use serde_json::json;

use crate::support::{Answer, Broker, each_plan};

const SWITCH: &str = "/api/v1/system/ephemeral";

fn each_own(test: impl Fn(&Broker) + Sync) {
    each_plan(|plan| {
        test(&plan.start());
    });
}

#[track_caller]
fn assert_paused(answer: &Answer) {
    answer.assert_refused(503, "ephemeral_disabled");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn the_switch_answers_the_same_object_to_get_and_post() {
    each_own(|broker| {
        let mut client = broker.client();
        let on = json!({"ephemeralEnabled": true, "mirrored": false});
        let off = json!({"ephemeralEnabled": false, "mirrored": false});
        assert_eq!(client.get(SWITCH).expect(200), on);
        let answer = client.post(SWITCH, &json!({"enabled": false}));
        assert_eq!(answer.expect(200), off);
        assert_eq!(client.get(SWITCH).expect(200), off);
        let answer = client.post(SWITCH, &json!({"enabled": true}));
        assert_eq!(answer.expect(200), on);
        assert_eq!(client.get(SWITCH).expect(200), on);
    });
}

#[test]
fn while_paused_every_verb_is_refused_and_nothing_is_lost() {
    each_own(|broker| {
        let queue = broker.queue("paused");
        queue.configure(json!({}));
        queue.push(&[json!("kept")]);
        let mut client = broker.client();
        client.post(SWITCH, &json!({"enabled": false})).expect(200);
        assert_paused(&queue.try_push(None, &[json!(1)]));
        assert_paused(&queue.get(&queue.pop_target("")));
        assert_paused(&queue.get(&queue.pop_target("wait=true&timeout=5000")));
        assert_paused(&queue.try_configure(json!({})));
        assert_paused(&queue.try_depth(""));
        assert_paused(&queue.get("/api/v1/ephemeral/queues"));
        let named = json!({"queue": queue.name});
        assert_paused(&queue.post("/api/v1/ephemeral/reset", &named));
        let ack = json!({"queue": queue.name, "acks": [{"id": "e:1:p:1"}]});
        assert_paused(&queue.post("/api/v1/ephemeral/ack", &ack));
        let target = format!("/api/v1/ephemeral/queue/{}", queue.name);
        assert_paused(&client.delete(&target));
        assert_eq!(client.get("/health").status, 200);
        assert_eq!(client.get("/metrics/prometheus").status, 200);
        client.post(SWITCH, &json!({"enabled": true})).expect(200);
        assert_eq!(queue.pop_payloads(""), [json!("kept")]);
    });
}

#[test]
fn a_pause_answers_parked_pops_too() {
    each_own(|broker| {
        let queue = broker.queue("paused-parked");
        let mut anywhere = queue.park(broker.client(), "group=g");
        let mut fixed = queue.park(broker.client(), "partition=p");
        let mut client = broker.client();
        client.post(SWITCH, &json!({"enabled": false})).expect(200);
        assert_paused(&anywhere.answer());
        assert_paused(&fixed.answer());
        client.post(SWITCH, &json!({"enabled": true})).expect(200);
        queue.push(&[json!(1)]);
        assert_eq!(queue.pop_payloads("group=g"), [json!(1)]);
        // The connections are as good as before.
        assert_eq!(anywhere.client().get("/health").status, 200);
    });
}

#[test]
fn the_switch_wants_a_boolean() {
    each_own(|broker| {
        let mut client = broker.client();
        for body in [
            json!({}),
            json!({"enabled": "no"}),
            json!({"enabled": null}),
        ] {
            let answer = client.post(SWITCH, &body);
            assert_eq!(answer.status, 400, "{body}");
            assert_eq!(answer.json()["error"], "enabled (boolean) is required");
        }
        assert_eq!(client.post(SWITCH, &json!([])).status, 400);
        assert_eq!(client.get(SWITCH).expect(200)["ephemeralEnabled"], true);
    });
}
