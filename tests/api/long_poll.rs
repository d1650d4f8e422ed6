//! Pops that wait: who is woken, by what, and what they survive.

use std::time::Duration;

use serde_json::json;

use crate::support::queue::{numbers, payloads};
use crate::support::{Message, each_setup, encode, unique};

#[test]
fn at_its_deadline_a_pop_answers_empty() {
    each_setup(|broker| {
        let queue = broker.queue("deadline");
        let mut parked = queue.park(broker.client(), "timeout=300");
        let answer = parked.answer();
        let took = parked.elapsed();
        assert_eq!(
            answer.expect(200),
            json!({"queue": queue.name, "messages": []})
        );
        assert!(took >= Duration::from_millis(295), "{took:?}");
        assert!(took < Duration::from_millis(1_500), "{took:?}");
    });
}

#[test]
fn a_message_that_is_there_is_no_reason_to_wait() {
    each_setup(|broker| {
        let queue = broker.queue("at-once");
        queue.push(&[json!(1)]);
        assert_eq!(queue.pop_payloads("wait=true&timeout=20000"), [json!(1)]);
        assert_eq!(
            queue.pop_payloads("wait=true&timeout=0"),
            [] as [serde_json::Value; 0]
        );
    });
}

#[test]
fn a_timeout_above_the_bound_is_clamped_not_refused() {
    each_setup(|broker| {
        let queue = broker.queue("clamped");
        let mut parked = queue.park(broker.client(), "timeout=999999999999");
        queue.push(&[json!(1)]);
        assert_eq!(parked.message().payload, 1);
    });
}

#[test]
fn as_many_waiters_wake_as_there_are_messages_oldest_first() {
    each_setup(|broker| {
        let queue = broker.queue("oldest-first");
        let mut first = queue.park(broker.client(), "group=g");
        let mut second = queue.park(broker.client(), "group=g");
        let mut third = queue.park(broker.client(), "group=g");
        queue.push(&numbers(0..2));
        assert_eq!(first.message().payload, 0);
        assert_eq!(second.message().payload, 1);
        third.assert_waiting();
        assert_eq!(queue.waiting(), 1);
        queue.push(&[json!(2)]);
        assert_eq!(third.message().payload, 2);
    });
}

#[test]
fn each_group_is_woken_for_itself() {
    each_setup(|broker| {
        let queue = broker.queue("per-group");
        let mut left = queue.park(broker.client(), "group=left");
        let mut right = queue.park(broker.client(), "group=right&autoAck=true");
        let mut nobody = queue.park(broker.client(), "");
        queue.push(&[json!("all")]);
        for parked in [&mut left, &mut right, &mut nobody] {
            assert_eq!(parked.message().payload, "all");
        }
    });
}

#[test]
fn a_pop_of_one_partition_is_not_woken_by_another() {
    each_setup(|broker| {
        let queue = broker.queue("own-partition");
        let mut parked = queue.park(broker.client(), "partition=mine");
        queue.push_to("other", &[json!("not mine")]);
        parked.assert_waiting();
        queue.push_to("mine", &[json!("mine")]);
        assert_eq!(parked.message().payload, "mine");
        assert_eq!(queue.pop_payloads(""), [json!("not mine")]);
    });
}

#[test]
fn a_pop_without_a_partition_is_woken_by_any() {
    each_setup(|broker| {
        let queue = broker.queue("any-partition");
        for partition in ["p", "q", "Default"] {
            let mut parked = queue.park(broker.client(), "autoAck=true");
            queue.push_to(partition, &[json!(partition)]);
            assert_eq!(parked.message().partition, partition);
        }
    });
}

#[test]
fn a_nack_wakes_a_waiter() {
    each_setup(|broker| {
        let queue = broker.queue("nack-wakes");
        queue.push(&[json!(1)]);
        let message = queue.pop_one("group=g");
        let mut parked = queue.park(broker.client(), "group=g");
        queue.settle_one(Some("g"), &message.id, "retry");
        let again = parked.message();
        assert_eq!((again.id, again.attempts), (message.id, 2));
    });
}

#[test]
fn a_woken_batch_takes_what_there_is() {
    each_setup(|broker| {
        let queue = broker.queue("woken-batch");
        let mut parked = queue.park(broker.client(), "batch=10");
        queue.push(&numbers(0..4));
        assert_eq!(payloads(&parked.messages()), numbers(0..4));
    });
}

#[test]
fn a_parked_pop_survives_delete_and_gets_what_is_pushed_next() {
    each_setup(|broker| {
        let queue = broker.queue("survives-delete");
        queue.configure(json!({}));
        let mut anywhere = queue.park(broker.client(), "group=g");
        let mut fixed = queue.park(broker.client(), "group=h&partition=p");
        assert_eq!(queue.delete(), (true, true));
        anywhere.assert_waiting();
        fixed.assert_waiting();
        // A third group may take it first: the parked ones are registered again.
        queue.push_to("p", &[json!("next life")]);
        queue.pop("group=third&autoAck=true");
        assert_eq!(anywhere.message().payload, "next life");
        assert_eq!(fixed.message().payload, "next life");
    });
}

#[test]
fn a_parked_pop_survives_reset_and_gets_what_is_pushed_next() {
    each_setup(|broker| {
        let queue = broker.queue("survives-reset");
        queue.push_to("p", &[json!("leased")]);
        queue.pop_one("group=g");
        let mut anywhere = queue.park(broker.client(), "group=g");
        let mut fixed = queue.park(broker.client(), "group=h&partition=empty");
        assert_eq!(queue.reset(), 1);
        anywhere.assert_waiting();
        queue.push_to("p", &[json!("after")]);
        assert_eq!(anywhere.message().payload, "after");
        queue.push_to("empty", &[json!("after")]);
        assert_eq!(fixed.message().payload, "after");
    });
}

#[test]
fn requests_behind_a_parked_pop_are_applied_at_once_and_answered_in_order() {
    each_setup(|broker| {
        let watched = broker.queue("pipelined-watched");
        let queue = broker.queue("pipelined");
        let mut parked = queue.park(broker.client(), "timeout=1500");
        let body = json!({"queue": watched.name, "messages": [{"payload": "at once"}]});
        let client = parked.client();
        client.send(
            "POST",
            "/api/v1/ephemeral/push",
            Some(body.to_string().as_bytes()),
        );
        client.send("GET", "/health", None);
        let got = watched.pop("wait=true&timeout=1000");
        assert_eq!(payloads(&got), [json!("at once")]);
        parked.assert_waiting();
        assert_eq!(parked.messages(), []);
        let client = parked.client();
        assert_eq!(client.read().expect(201)["pushed"], 1);
        assert_eq!(client.read().expect(200)["status"], "healthy");
    });
}

#[test]
fn a_push_behind_a_parked_pop_wakes_it() {
    each_setup(|broker| {
        let queue = broker.queue("self-wake");
        let mut parked = queue.park(broker.client(), "");
        let body = json!({"queue": queue.name, "messages": [{"payload": "mine"}]});
        let client = parked.client();
        client.send(
            "POST",
            "/api/v1/ephemeral/push",
            Some(body.to_string().as_bytes()),
        );
        assert_eq!(parked.message().payload, "mine");
        assert_eq!(parked.client().read().expect(201)["pushed"], 1);
    });
}

#[test]
fn many_pipelined_requests_are_answered_in_order() {
    each_setup(|broker| {
        let queue = broker.queue("pipeline");
        let mut client = broker.client();
        let mut bytes = Vec::new();
        for number in 0..200 {
            let body = json!({"queue": queue.name, "messages": [{"payload": number}]}).to_string();
            let push =
                client.request_bytes("POST", "/api/v1/ephemeral/push", Some(body.as_bytes()));
            bytes.extend(push);
            let target = queue.pop_target("autoAck=true");
            bytes.extend(client.request_bytes("GET", &target, None));
        }
        client.send_raw(&bytes);
        for number in 0..200 {
            assert_eq!(client.read().expect(201)["pushed"], 1);
            let got = Message::all(&client.read());
            assert_eq!(payloads(&got), [json!(number)]);
        }
    });
}

#[test]
fn hundreds_of_waiters_on_queues_of_their_own_are_all_served() {
    each_setup(|broker| {
        let prefix = unique("own-inbox");
        let mut waiters: Vec<_> = (0..300)
            .map(|number| {
                let mut client = broker.client();
                let name = encode(&format!("{prefix}/{number}"));
                let target = format!("/api/v1/ephemeral/pop?queue={name}&wait=true&timeout=20000");
                client.send("GET", &target, None);
                client
            })
            .collect();
        let mut pusher = broker.client();
        for number in (0..300).rev() {
            let body = json!({
                "queue": format!("{prefix}/{number}"), "messages": [{"payload": number}],
            });
            pusher.post("/api/v1/ephemeral/push", &body).expect(201);
        }
        for (number, waiter) in waiters.iter_mut().enumerate() {
            let got = Message::all(&waiter.read());
            assert_eq!(payloads(&got), [json!(number)]);
        }
    });
}
