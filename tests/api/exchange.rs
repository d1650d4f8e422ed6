//! Several commands in one round trip.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Broker, Client, Plan, Queue, Setup, each_setup, eventually, eventually_within,
};

const EXCHANGE: &str = "/api/v1/ephemeral/exchange";

#[track_caller]
fn exchange(client: &mut Client, body: &Value) -> Value {
    client.post(EXCHANGE, body).expect(200)
}

fn push(queue: &Queue, payload: Value) -> Value {
    json!({"queue": queue.name, "messages": [{"payload": payload}]})
}

fn ids(pop: &Value) -> Vec<Value> {
    let messages = pop["messages"].as_array().expect("messages");
    messages
        .iter()
        .map(|message| json!({"id": message["id"]}))
        .collect()
}

#[test]
fn legs_are_answered_in_place_with_the_status_and_body_of_their_own_routes() {
    each_setup(|broker| {
        let (jobs, replies) = (broker.queue("jobs"), broker.queue("replies"));
        let mut client = broker.client();
        let first = exchange(
            &mut client,
            &json!({
                "pushes": [push(&jobs, json!(1)), push(&replies, json!({"a": 2})), push(&jobs, json!(3))],
                "pop": {"queue": jobs.name, "group": "g", "batch": 10},
            }),
        );
        let pushed = json!({"status": 201, "pushed": 1});
        assert_eq!(first["acks"], json!([]));
        assert_eq!(first["pushes"], json!([pushed, pushed, pushed]));
        assert_eq!(first["pop"]["status"], 200);
        assert_eq!(first["pop"]["queue"], jobs.name);
        let got = &first["pop"]["messages"];
        assert_eq!(
            (&got[0]["payload"], &got[1]["payload"]),
            (&json!(1), &json!(3))
        );
        let acks = ids(&first["pop"]);
        let second = exchange(
            &mut client,
            &json!({
                "acks": [
                    {"queue": jobs.name, "group": "g", "acks": [acks[0]]},
                    {"queue": jobs.name, "group": "g", "acks": [acks[1], {"id": "nonsense"}]},
                ],
            }),
        );
        let outcome = |at: usize, of: usize| &second["acks"][at]["results"][of]["outcome"];
        assert_eq!(second["acks"][0]["status"], 200);
        assert_eq!(second["acks"][0]["results"][0]["id"], acks[0]["id"]);
        assert_eq!(
            (outcome(0, 0), outcome(1, 0)),
            (&json!("acked"), &json!("acked"))
        );
        assert_eq!(outcome(1, 1), "unknown");
        assert_eq!(second["pushes"], json!([]));
        assert_eq!(second["pop"], Value::Null);
        assert_eq!(jobs.depth()["pending"], 0);
    });
}

#[test]
fn acks_come_before_pushes_and_pushes_before_the_pop() {
    each_setup(|broker| {
        let queue = broker.queue("order");
        queue.push(&[json!("first")]);
        let mut client = broker.client();
        let popped = exchange(&mut client, &json!({"pop": {"queue": queue.name}}));
        let id = popped["pop"]["messages"][0]["id"].clone();
        // The nack is there before the pop, and its message goes before what is pushed.
        let body = json!({
            "acks": [{"queue": queue.name, "acks": [{"id": id, "status": "retry"}]}],
            "pushes": [push(&queue, json!("second"))],
            "pop": {"queue": queue.name, "batch": 10},
        });
        let answer = exchange(&mut client, &body);
        assert_eq!(answer["acks"][0]["results"][0]["outcome"], "redelivered");
        let got = answer["pop"]["messages"].as_array().expect("messages");
        let payloads: Vec<&Value> = got.iter().map(|message| &message["payload"]).collect();
        assert_eq!(payloads, [&json!("first"), &json!("second")]);
        assert_eq!(got[0]["attempts"], 2);
    });
}

#[test]
fn a_requester_and_a_responder_need_one_call_each() {
    each_setup(|broker| {
        let (requests, inbox) = (broker.queue("requests"), broker.queue("inbox"));
        let mut requester = broker.client();
        let body = json!({
            "pushes": [push(&requests, json!({"replyTo": inbox.name, "n": 12}))],
            "pop": {"queue": inbox.name, "wait": true, "timeout": 20_000, "autoAck": true},
        });
        requester.send("POST", EXCHANGE, Some(body.to_string().as_bytes()));
        let mut responder = broker.client();
        let wait =
            json!({"queue": requests.name, "group": "workers", "wait": true, "timeout": 20_000});
        let work = exchange(&mut responder, &json!({"pop": wait}));
        let n = work["pop"]["messages"][0]["payload"]["n"]
            .as_u64()
            .expect("a number");
        // Acknowledges, answers and takes the next in one call.
        let next = json!({
            "acks": [{"queue": requests.name, "group": "workers", "acks": ids(&work["pop"])}],
            "pushes": [push(&inbox, json!({"square": n * n}))],
            "pop": {"queue": requests.name, "group": "workers", "wait": true, "timeout": 50},
        });
        let answer = exchange(&mut responder, &next);
        assert_eq!(answer["acks"][0]["results"][0]["outcome"], "acked");
        assert_eq!(answer["pushes"][0], json!({"status": 201, "pushed": 1}));
        assert_eq!(answer["pop"]["messages"], json!([]));
        let reply = requester.read().expect(200);
        assert_eq!(reply["pushes"][0]["status"], 201);
        assert_eq!(
            reply["pop"]["messages"][0]["payload"],
            json!({"square": 144})
        );
    });
}

#[test]
fn a_refused_leg_stops_no_other_one() {
    each_setup(|broker| {
        let (full, other) = (broker.queue("full"), broker.queue("other"));
        full.configure(json!({"maxLength": 1}));
        let answer = exchange(
            &mut broker.client(),
            &json!({
                "pushes": [push(&full, json!(1)), push(&full, json!(2)), push(&other, json!(3))],
                "pop": {"queue": full.name, "autoAck": true},
            }),
        );
        let refused = &answer["pushes"][1];
        assert_eq!(
            (&refused["status"], &refused["code"]),
            (&json!(429), &json!("queue_full"))
        );
        assert_eq!(refused["retryAfter"], 1);
        assert!(
            refused["error"]
                .as_str()
                .is_some_and(|text| text.contains("full"))
        );
        assert_eq!(answer["pushes"][2]["status"], 201);
        assert_eq!(answer["pop"]["messages"][0]["payload"], 1);
    });
}

#[test]
fn a_body_that_is_not_right_begins_nothing() {
    each_setup(|broker| {
        let queue = broker.queue("untouched");
        let good = push(&queue, json!(1));
        let mut client = broker.client();
        for body in [
            json!({}),
            json!({"pushes": [good, {"queue": queue.name}]}),
            json!({"pushes": [good], "pop": {"queue": queue.name, "batch": "1"}}),
            json!({"pushes": [good], "pop": {"queue": queue.name, "wait": "true"}}),
            json!({"pushes": [good], "acks": [{"queue": ""}]}),
            json!({"pushes": vec![good.clone(); 1_001]}),
        ] {
            client
                .post(EXCHANGE, &body)
                .assert_refused(400, "ephemeral_bad_request");
        }
        assert_eq!(queue.row(), None);
    });
}

#[test]
fn a_client_that_vanishes_while_its_pop_waits_takes_nothing() {
    each_setup(|broker| {
        for reset in [false, true] {
            let (queue, noted) = (broker.queue("vanish"), broker.queue("noted"));
            let mut client = broker.client();
            let body = json!({
                "pushes": [push(&noted, json!("stays"))],
                "pop": {"queue": queue.name, "group": "g", "wait": true, "timeout": 30_000},
            });
            client.send("POST", EXCHANGE, Some(body.to_string().as_bytes()));
            eventually("it waits", || queue.row().is_some() && queue.waiting() == 1);
            if reset {
                client.reset();
            } else {
                drop(client);
            }
            eventually("the broker has noticed", || queue.waiting() == 0);
            queue.push(&[json!("for the next")]);
            let message = queue.pop_one("group=g");
            assert_eq!(message.attempts, 1);
            assert_eq!(noted.pop_payloads("batch=10"), [json!("stays")]);
        }
    });
}

#[test]
fn a_pop_of_a_partition_finds_what_its_exchange_has_pushed_there() {
    each_setup(|broker| {
        // The queue is full of messages of one partition. A push to another one waits for room where that
        // is on another core.
        for number in 0..20 {
            let queue = broker.queue("full");
            queue.configure(json!({"maxLength": 2, "policy": "dropOldest"}));
            queue.push_to("old", &[json!(1), json!(2)]);
            let partition = format!("new {number}");
            let body = json!({
                "pushes": [{"queue": queue.name, "partition": partition, "messages": [{"payload": 3}]}],
                "pop": {"queue": queue.name, "partition": partition, "autoAck": true},
            });
            let answer = exchange(&mut broker.client(), &body);
            assert_eq!(answer["pushes"][0]["status"], 201);
            assert_eq!(answer["pop"]["messages"][0]["payload"], 3, "{answer}");
        }
    });
}

#[test]
fn pushes_that_wait_for_room_answer_their_exchange_however_many_there_are() {
    each_setup(|broker| {
        for _ in 0..40 {
            // The oldest of a full queue lies in another partition, which may be another core's.
            let queue = broker.queue("crowded");
            queue.configure(json!({"maxLength": 600, "policy": "dropOldest"}));
            queue.push_to("old", &[json!(0)]);
            queue.push_to("new", &vec![json!(0); 599]);
            let one =
                json!({"queue": queue.name, "partition": "new", "messages": [{"payload": 1}]});
            let request = |client: &Client, pushes: usize| {
                let body = json!({"pushes": vec![&one; pushes]}).to_string();
                client.request_bytes("POST", EXCHANGE, Some(body.as_bytes()))
            };
            let mut clients: Vec<Client> = (0..8).map(|_| broker.client()).collect();
            let first = request(&clients[0], 450);
            clients[0].send_raw(&first);
            for client in &mut clients {
                let few = [3, 60, 20].map(|pushes| request(client, pushes)).concat();
                client.send_raw(&few);
            }
            for (number, client) in clients.iter_mut().enumerate() {
                for _ in 0..3 + usize::from(number == 0) {
                    client.read().expect(200);
                }
            }
        }
    });
}

#[test]
fn whoever_closes_its_half_while_other_legs_are_open_does_not_wait() {
    each_setup(|broker| {
        let queue = broker.queue("hurried");
        for number in 0..10 {
            queue.push_to(&format!("p{number}"), &[json!(number)]);
        }
        let mut client = broker.client();
        let taken = exchange(
            &mut client,
            &json!({"pop": {"queue": queue.name, "batch": 10}}),
        );
        // Settled once; what follows is of no effect, but all cores have something to say.
        let acks = vec![ids(&taken["pop"]); 300].concat();
        for _ in 0..20 {
            let client = &mut broker.client();
            let body = json!({
                "acks": [{"queue": queue.name, "acks": acks}],
                "pop": {"queue": queue.name, "wait": true, "timeout": 300_000},
            });
            client.send("POST", EXCHANGE, Some(body.to_string().as_bytes()));
            client.close_sending();
            client.set_read_limit(Duration::from_secs(20));
            assert!(client.is_closed(), "it waits");
        }
    });
}

#[test]
fn a_pause_refuses_every_leg_and_a_stop_answers_who_waits() {
    for &setup in Setup::all() {
        let broker = Plan::new(setup).start();
        let queue = broker.queue("paused");
        let mut client = broker.client();
        let waits = json!({"queue": queue.name, "wait": true, "timeout": 30_000});
        let mut parked = park(&broker, &queue, &waits);
        client
            .post("/api/v1/system/ephemeral", &json!({"enabled": false}))
            .expect(200);
        let answer = parked.read().expect(200);
        assert_eq!(answer["pop"]["code"], "ephemeral_disabled");
        let body = json!({"pushes": [push(&queue, json!(1))], "pop": waits});
        let answer = exchange(&mut client, &body);
        assert_eq!(answer["pushes"][0]["status"], 503);
        assert_eq!(answer["pop"]["status"], 503);
        client
            .post("/api/v1/system/ephemeral", &json!({"enabled": true}))
            .expect(200);
        let mut parked = park(&broker, &queue, &waits);
        broker.send_sigterm();
        assert_eq!(parked.read().expect(200)["pop"]["messages"], json!([]));
        assert_eq!(broker.wait_for_exit().code(), Some(0));
    }
}

fn park(broker: &Broker, queue: &Queue, pop: &Value) -> Client {
    let mut client = broker.client();
    let body = json!({"pop": pop}).to_string();
    client.send("POST", EXCHANGE, Some(body.as_bytes()));
    eventually_within(Duration::from_secs(10), "it waits", || {
        queue.row().is_some() && queue.waiting() == 1
    });
    client
}
