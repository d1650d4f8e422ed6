//! What survives what: one test per line of the README's table of durable queues.

use serde_json::{Value, json};

use crate::rig::{wait_until_away, wait_until_connected};
use crate::support::life::{End, Life};
use crate::support::{Answer, Broker, Database, Plan, Server, unique};

fn plan_on(database: &Database) -> Plan {
    let plan = Plan::any().set("QUEEN_DURABLE", "on");
    plan.set("DATABASE_URL", database.url())
}

/// A queue, and what clients were told of it.
struct Told {
    queue: String,
    first_id: Value,
    leased: Value,
}

impl Told {
    /// Four messages in a partition: for group `g` the first is settled, the second given up, the third
    /// leased; two in another one that nobody has taken from.
    #[track_caller]
    fn on(broker: &Broker) -> Told {
        let mut told = Told {
            queue: unique("survivor"),
            first_id: Value::Null,
            leased: Value::Null,
        };
        let options = json!({"leaseTime": 300, "retryLimit": 7});
        let configure = json!({"queue": told.queue, "options": options});
        post(broker, "configure", &configure).expect(200);
        for (partition, numbers) in [("p", 1..=4), ("r", 5..=6)] {
            for number in numbers {
                let id = told.push(broker, partition, number)["message_id"].clone();
                if number == 1 {
                    told.first_id = id;
                }
            }
        }
        for status in ["completed", "dlq"] {
            let message = told.pop_one(broker);
            told.ack(broker, &message, status);
        }
        told.leased = told.pop_one(broker);
        assert_eq!(told.leased["data"], 3);
        told
    }

    /// Pushes a number under a transaction id that is the same number.
    #[track_caller]
    fn push(&self, broker: &Broker, partition: &str, number: u64) -> Value {
        let item = json!({
            "queue": self.queue, "partition": partition, "payload": number,
            "transactionId": number.to_string(),
        });
        post(broker, "push", &json!({"items": [item]})).expect(201)[0].clone()
    }

    #[track_caller]
    fn pop(&self, broker: &Broker, query: &str) -> Vec<Value> {
        let path = format!("/api/v1/pop/queue/{}?{query}", self.queue);
        let answer = broker.plain_client().get(&path);
        if answer.status == 204 {
            return Vec::new();
        }
        let popped = answer.expect(200);
        popped["messages"].as_array().expect("messages").clone()
    }

    #[track_caller]
    fn pop_one(&self, broker: &Broker) -> Value {
        let path = format!("/api/v1/pop/queue/{}/partition/p", self.queue);
        let query = "consumerGroup=g&subscriptionMode=all&batch=1";
        let answer = broker.plain_client().get(&format!("{path}?{query}"));
        answer.expect(200)["messages"][0].clone()
    }

    #[track_caller]
    fn ack(&self, broker: &Broker, message: &Value, status: &str) {
        let ack = json!({
            "transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "consumerGroup": "g", "status": status,
        });
        let outcome = post(broker, "ack", &ack).expect(200);
        assert_eq!(outcome[0]["success"], true, "{outcome}");
    }

    /// Nothing of what was told has changed.
    #[track_caller]
    fn assert_holds(&self, broker: &Broker) {
        let listed = get(broker, &format!("resources/queues/{}", self.queue)).expect(200);
        let options = &listed["options"];
        assert_eq!(
            (&options["leaseTime"], &options["retryLimit"]),
            (&json!(300), &json!(7))
        );
        let of_group = "consumerGroup=g&subscriptionMode=all&partitions=10&autoAck=true";
        assert_eq!(
            numbers(&self.pop(broker, of_group)),
            [5, 6],
            "one is leased"
        );
        self.ack(broker, &self.leased, "completed");
        assert_eq!(numbers(&self.pop(broker, of_group)), [4]);
        let letters = get(broker, &format!("dlq?queue={}", self.queue)).expect(200);
        assert_eq!(letters["total"], 1, "{letters}");
        assert_eq!(letters["messages"][0]["transactionId"], "2", "{letters}");
        let repeated = self.push(broker, "p", 1);
        assert_eq!(
            (&repeated["status"], &repeated["message_id"]),
            (&json!("duplicate"), &self.first_id)
        );
        let all = "consumerGroup=audit&subscriptionMode=all&partitions=10&autoAck=true";
        let mut of_each = [Vec::new(), Vec::new()];
        for message in self.pop(broker, all) {
            let partition = usize::from(message["partition"] == "r");
            of_each[partition].extend(message["data"].as_u64());
        }
        assert_eq!(of_each, [vec![1, 2, 3, 4], vec![5, 6]]);
    }
}

fn post(broker: &Broker, path: &str, body: &Value) -> Answer {
    broker.plain_client().post(&format!("/api/v1/{path}"), body)
}

fn get(broker: &Broker, path: &str) -> Answer {
    broker.plain_client().get(&format!("/api/v1/{path}"))
}

fn numbers(messages: &[Value]) -> Vec<u64> {
    let number = |message: &Value| message["data"].as_u64();
    messages.iter().filter_map(number).collect()
}

#[track_caller]
fn assert_survives(end: End) {
    let database = Server::start().database();
    let life = Life::begin(end, plan_on(&database));
    wait_until_connected(&life.broker);
    let told = Told::on(&life.broker);
    let next = life.end();
    wait_until_connected(&next);
    told.assert_holds(&next);
}

#[test]
fn durable_queues_survive_a_clean_exit() {
    assert_survives(End::CleanExit);
}

#[test]
fn durable_queues_survive_a_crash() {
    assert_survives(End::Crash);
}

#[test]
fn durable_queues_survive_a_deploy() {
    assert_survives(End::Deploy);
}

#[test]
fn durable_queues_survive_a_failover_to_another_broker() {
    assert_survives(End::Failover);
}

#[test]
fn durable_queues_survive_a_restart_of_postgresql() {
    let database = Server::start().database();
    let broker = plan_on(&database).start();
    wait_until_connected(&broker);
    let told = Told::on(&broker);
    database.server().stop();
    wait_until_away(&broker);
    database.server().start_again();
    wait_until_connected(&broker);
    told.assert_holds(&broker);
}

#[test]
fn a_lease_of_several_queues_is_extended_whole_after_a_crash_and_after_changes_of_its_queues() {
    let database = Server::start().database();
    let broker = plan_on(&database).start();
    wait_until_connected(&broker);
    let queues = ["shop.a", "shop.b", "shop.c"];
    let push = |broker: &Broker, queues: &[&str]| {
        let item = |queue: &&str| json!({"queue": queue, "payload": 1});
        let items: Vec<Value> = queues.iter().map(item).collect();
        post(broker, "push", &json!({"items": items})).expect(201);
    };
    let configure = |broker: &Broker| {
        for queue in queues {
            let options = json!({"leaseTime": 60});
            let body = json!({"queue": queue, "namespace": "shop", "options": options});
            post(broker, "configure", &body).expect(200);
        }
    };
    let extend = |broker: &Broker, lease: &Value| {
        let path = format!("lease/{}/extend", lease.as_str().expect("a lease"));
        let extended = post(broker, &path, &json!({"seconds": 300})).expect(200);
        assert_eq!(
            (&extended["success"], &extended["renewed"]),
            (&json!(true), &json!(3)),
            "{extended}"
        );
    };
    configure(&broker);
    push(&broker, &queues);
    let discover = "pop?namespace=shop&consumerGroup=g&subscriptionMode=all&partitions=10&batch=10";
    let popped = get(&broker, discover).expect(200);
    let messages = popped["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 3, "{popped}");
    let lease = &messages[0]["leaseId"];
    configure(&broker);
    push(&broker, &queues[..1]);
    extend(&broker, lease);
    broker.kill();
    let next = broker.start_again();
    wait_until_connected(&next);
    push(&next, &queues[..1]);
    extend(&next, lease);
    assert_eq!(get(&next, discover).status, 204);
}
