//! Clients that vanish: what they would have got goes to the next one without costing an attempt.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Broker, Client, Parked, Queue, each_setup, eventually, eventually_within};

/// How a client goes away.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Both halves are closed: FIN.
    Close,
    /// The connection is torn down: RST.
    Reset,
    /// Only the sending half is closed; the socket stays open.
    HalfClose,
}

const WAYS: [Way; 3] = [Way::Close, Way::Reset, Way::HalfClose];

/// Makes the client go away; what is returned must outlive the test's checks.
fn leave(client: Client, way: Way) -> Option<Client> {
    match way {
        Way::Close => {
            drop(client);
            None
        }
        Way::Reset => {
            client.reset();
            None
        }
        Way::HalfClose => {
            client.close_sending();
            Some(client)
        }
    }
}

#[track_caller]
fn assert_next_is_untouched(queue: &Queue, next: &mut Parked) {
    queue.push(&[json!("for the next")]);
    let message = next.message();
    assert_eq!(message.payload, "for the next");
    assert_eq!(message.attempts, 1);
}

#[test]
fn a_client_that_vanishes_while_parked_takes_nothing() {
    each_setup(|broker| {
        for way in WAYS {
            let queue = broker.queue("vanish");
            let gone = queue.park(broker.client(), "group=g");
            let mut next = queue.park(broker.client(), "group=g");
            let _open = leave(gone.into_client(), way);
            eventually("the broker has noticed", || queue.waiting() == 1);
            assert_next_is_untouched(&queue, &mut next);
        }
    });
}

#[test]
fn a_client_that_vanishes_takes_nothing_with_it_when_it_settles_at_delivery() {
    each_setup(|broker| {
        for way in WAYS {
            let queue = broker.queue("vanish-auto-ack");
            let gone = queue.park(broker.client(), "group=g&autoAck=true");
            let mut next = queue.park(broker.client(), "group=g&autoAck=true");
            let _open = leave(gone.into_client(), way);
            eventually("the broker has noticed", || queue.waiting() == 1);
            assert_next_is_untouched(&queue, &mut next);
        }
    });
}

#[test]
fn bytes_pipelined_behind_the_pop_hide_nothing() {
    each_setup(|broker| {
        for way in WAYS {
            let queue = broker.queue("vanish-pipelined");
            let mut gone = queue.park(broker.client(), "group=g");
            for _ in 0..3 {
                gone.client().send("GET", "/health", None);
            }
            gone.client()
                .send_raw(b"POST /api/v1/ephemeral/push HTTP/1.1\r\nhost: x\r\nconte");
            let mut next = queue.park(broker.client(), "group=g");
            let _open = leave(gone.into_client(), way);
            eventually("the broker has noticed", || queue.waiting() == 1);
            assert_next_is_untouched(&queue, &mut next);
        }
    });
}

#[test]
fn a_push_that_meets_a_client_on_its_way_out_is_not_lost() {
    each_setup(|broker| {
        let queue = broker.queue("vanish-race");
        queue.configure(json!({"leaseSeconds": 1}));
        for round in 0..10 {
            let gone = queue.park(broker.client(), "group=g");
            gone.into_client().reset();
            queue.push(&[json!(round)]);
            // Whoever had it: it comes back, at the latest when the lease ends.
            let got = queue.pop("group=g&wait=true&timeout=5000&autoAck=true");
            assert_eq!(got.len(), 1, "round {round} was lost");
            assert_eq!(got[0].payload, round);
        }
        assert_eq!(queue.held(), (0, 0));
    });
}

/// Fifteen megabytes: more than the buffers of both sockets hold.
fn push_more_than_sockets_hold(queue: &Queue) {
    let large: Vec<Value> = (0..15).map(|_| json!("x".repeat(262_000))).collect();
    for _ in 0..4 {
        queue.push(&large);
    }
}

fn pop_without_reading(broker: &Broker, queue: &Queue, query: &str) -> Client {
    let mut client = broker.client();
    client.send("GET", &queue.pop_target(query), None);
    eventually("the messages are taken", || {
        queue.depth_of("g")["pending"] == 0
    });
    client
}

#[test]
fn an_answer_that_cannot_be_delivered_is_given_back() {
    each_setup(|broker| {
        for mode in ["", "&autoAck=true"] {
            let queue = broker.queue("undelivered");
            // A second group, so that what the first settles at delivery stays held.
            assert_eq!(queue.pop("group=keeper"), []);
            push_more_than_sockets_hold(&queue);
            let client = pop_without_reading(broker, &queue, &format!("batch=60&group=g{mode}"));
            client.reset();
            eventually("the messages are back", || {
                queue.depth_of("g")["pending"] == 60
            });
            let again = queue.pop("batch=60&group=g");
            assert_eq!(again.len(), 60);
            assert!(again.iter().all(|message| message.attempts == 1));
            queue.delete();
        }
    });
}

#[test]
fn what_is_given_back_wakes_the_next_waiter() {
    each_setup(|broker| {
        let queue = broker.queue("undelivered-wakes");
        push_more_than_sockets_hold(&queue);
        let client = pop_without_reading(broker, &queue, "batch=60&group=g");
        let mut next = queue.park(broker.client(), "batch=60&group=g");
        client.reset();
        let got = next.messages();
        assert!(!got.is_empty());
        assert!(got.iter().all(|message| message.attempts == 1));
        queue.delete();
    });
}

#[test]
fn a_client_that_does_not_read_stops_no_other() {
    each_setup(|broker| {
        let queue = broker.queue("slow-reader");
        push_more_than_sockets_hold(&queue);
        let slow = pop_without_reading(broker, &queue, "batch=60&group=g");
        let other = broker.queue("slow-reader-other");
        for number in 0..100 {
            other.push(&[json!(number)]);
            assert_eq!(other.pop_payloads("autoAck=true"), [json!(number)]);
        }
        drop(slow);
        queue.delete();
    });
}

#[test]
fn the_end_of_input_after_a_complete_request_does_not_eat_its_answer() {
    each_setup(|broker| {
        let queue = broker.queue("half-closed-request");
        queue.push(&[json!("answered")]);
        let mut client = broker.client();
        client.send("GET", &queue.pop_target("autoAck=true"), None);
        client.close_sending();
        let answer = client.read().expect(200);
        assert_eq!(answer["messages"][0]["payload"], "answered");
        assert!(client.is_closed());
    });
}

#[test]
fn the_count_of_connections_comes_back_down() {
    each_setup(|broker| {
        let clients: Vec<Client> = (0..50).map(|_| broker.client()).collect();
        eventually("they are counted", || {
            broker.sample("queen_connections") >= 50.0
        });
        drop(clients);
        eventually_within(Duration::from_secs(10), "they are gone", || {
            broker.sample("queen_connections") < 50.0
        });
    });
}
