//! Without the database nothing is told, and everything again when it is back.

use serde_json::json;

use crate::support::{Plan, Server, eventually};

#[test]
fn reads_are_refused_while_the_database_is_away_and_heal_by_themselves() {
    let database = Server::start().database();
    let plan = Plan::any().set("QUEEN_DURABLE", "on");
    let broker = plan.set("DATABASE_URL", database.url()).start();
    let get = |path: &str| broker.plain_client().get(&format!("/api/v1/{path}"));
    eventually("queues are told", || get("resources/queues").status == 200);
    database.server().stop();
    eventually("queues are not told", || {
        get("resources/queues").status == 503
    });
    let refused = get("resources/overview");
    refused.assert_refused(503, "durable_unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    eventually("the broker knows that its database is away", || {
        get("status/buffers").expect(200)["dbHealthy"] == false
    });
    database.server().start_again();
    eventually("queues are told again", || {
        get("resources/queues").status == 200
    });
    eventually("the broker has its database", || {
        get("status/buffers").expect(200)["dbHealthy"] == true
    });
}

#[test]
fn a_read_that_waits_is_answered_when_the_broker_stops() {
    let database = Server::start().database();
    let plan = Plan::any().set("QUEEN_DURABLE", "on");
    let broker = plan.set("DATABASE_URL", database.url()).start();
    let push = json!({"items": [{"queue": "q", "partition": "p", "payload": 1}]});
    eventually("a push is stored", || {
        broker.plain_client().post("/api/v1/push", &push).status == 201
    });
    let body = json!({"entries": [{"queue": "q", "partition": "p", "offset": 1}],
        "maxWaitMs": 30_000});
    let mut client = broker.plain_client();
    client.send("POST", "/api/v1/fetch", Some(body.to_string().as_bytes()));
    // Answered behind it: the read waits by now, or is about to.
    broker
        .plain_client()
        .get("/api/v1/resources/queues")
        .expect(200);
    broker.send_sigterm();
    let answer = client.read();
    assert!([200, 503].contains(&answer.status), "{}", answer.text());
    broker.wait_for_exit();
}

#[test]
fn without_a_database_the_reason_is_told() {
    let broker = Plan::any().set("QUEEN_DURABLE", "off").start();
    let answer = broker.plain_client().get("/api/v1/resources/queues");
    answer.assert_refused(503, "durable_unavailable");
    let buffers = broker
        .plain_client()
        .get("/api/v1/status/buffers")
        .expect(200);
    assert_eq!(buffers["worker"], "off");
}
