//! PostgreSQL away, hanging, and the broker killed with what it has spooled: pushes are accepted all the
//! same and stored later, once and in order; everything else is refused in time and heals by itself.

use std::fs::OpenOptions;
use std::io::Write;

use queen::limits::SPOOL_READ_ENTRIES;
use serde_json::{Value, json};

use crate::rig::{wait_until_away, wait_until_stored};
use crate::support::home::Home;
use crate::support::{Broker, Database, Plan, Server, unique};

struct Scene {
    database: Database,
    home: Home,
    broker: Broker,
    queue: String,
}

/// A broker on a database, with a data folder.
fn broker(database: &Database, home: &Home) -> Broker {
    let plan = Plan::any().set("QUEEN_DURABLE", "on");
    let plan = plan.set("DATABASE_URL", database.url());
    plan.set("QUEEN_DATA_DIR", home.data().display()).start()
}

impl Scene {
    fn begin() -> Scene {
        let (database, home) = (Server::start().database(), Home::empty());
        let broker = broker(&database, &home);
        let scene = Scene {
            database,
            home,
            broker,
            queue: unique("outage"),
        };
        wait_until_stored(&scene.broker);
        scene
    }

    /// Pushes one message; its status.
    #[track_caller]
    fn push(&self, id: &str) -> (String, String) {
        let item = json!({
            "queue": self.queue, "partition": "p", "payload": id, "transactionId": id,
        });
        let answer = self
            .broker
            .plain_client()
            .post("/api/v1/push", &json!({"items": [item]}))
            .expect(201);
        let text = |key: &str| answer[0][key].as_str().expect("text").to_owned();
        (text("status"), text("message_id"))
    }

    /// Ends the broker after an outage of which everything is stored: the message `a`.
    fn end_with_an_emptied_spool(&mut self) {
        self.database.server().stop_immediately();
        wait_until_away(&self.broker);
        assert_eq!(self.push("a").0, "buffered");
        self.database.server().start_again();
        wait_until_stored(&self.broker);
        self.broker.terminate();
    }

    /// Everything that a new group gets: transaction ids and message ids.
    fn all(&self, group: &str) -> Vec<(String, String)> {
        let target = format!(
            "/api/v1/pop/queue/{}?consumerGroup={group}&subscriptionMode=all&batch=10000&autoAck=true",
            self.queue
        );
        let answer = self.broker.plain_client().get(&target);
        if answer.status == 204 {
            return Vec::new();
        }
        let popped = answer.expect(200);
        let messages = popped["messages"].as_array().cloned().unwrap_or_default();
        let text = |message: &Value, key: &str| message[key].as_str().expect("text").to_owned();
        messages
            .iter()
            .map(|message| (text(message, "transactionId"), text(message, "id")))
            .collect()
    }
}

#[test]
fn pushes_are_spooled_while_the_database_is_away_and_stored_in_order_when_it_is_back() {
    let scene = Scene::begin();
    let mut expected = vec![("a".to_owned(), scene.push("a").1)];
    scene.database.server().stop_immediately();
    wait_until_away(&scene.broker);
    for id in ["b", "c", "d"] {
        let (status, message_id) = scene.push(id);
        assert_eq!(status, "buffered");
        expected.push((id.to_owned(), message_id));
    }
    let (status, message_id) = scene.push("c");
    assert_eq!((&*status, &message_id), ("duplicate", &expected[2].1));
    let mut client = scene.broker.plain_client();
    let counts = client.get("/api/v1/status/buffers").expect(200);
    assert_eq!(
        (&counts["pending"], &counts["dbHealthy"]),
        (&json!(3), &json!(false))
    );
    let pop = client.get(&format!("/api/v1/pop/queue/{}", scene.queue));
    assert_eq!((pop.status, pop.header("retry-after")), (503, Some("1")));
    let step = json!({"operations": [{"type": "push", "queue": scene.queue, "payload": 1}]});
    let step = client.post("/api/v1/transaction", &step);
    assert_eq!(step.json()["code"], "durable_unavailable");
    scene.database.server().start_again();
    wait_until_stored(&scene.broker);
    expected.push(("e".to_owned(), scene.push("e").1));
    assert_eq!(scene.all("audit"), expected);
}

#[test]
fn a_database_that_hangs_holds_no_push_up() {
    let scene = Scene::begin();
    scene.push("a");
    scene.database.server().hang();
    // Whether it was on its way when the session broke or came later: it is accepted.
    let (status, message_id) = scene.push("b");
    assert_eq!(status, "buffered");
    scene.database.server().go_on();
    wait_until_stored(&scene.broker);
    let all = scene.all("audit");
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[1], ("b".to_owned(), message_id));
}

#[test]
fn a_spool_outlives_its_broker_without_what_is_torn() {
    let mut scene = Scene::begin();
    scene.push("a");
    scene.database.server().stop_immediately();
    wait_until_away(&scene.broker);
    assert_eq!(scene.push("b").0, "buffered");
    scene.broker.kill();
    let folder = scene.home.data().join("spool");
    let files = std::fs::read_dir(&folder).expect("the spool is there");
    let last = files
        .filter_map(|file| file.ok().map(|file| file.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "spool")
        })
        .max()
        .expect("a file");
    let mut file = OpenOptions::new()
        .append(true)
        .open(last)
        .expect("it opens");
    file.write_all(&[200, 0, 0, 0, 1, 2, 3])
        .expect("it is written");
    drop(file);
    scene.broker = scene.broker.start_again();
    assert_eq!(scene.push("c").0, "buffered");
    scene.database.server().start_again();
    wait_until_stored(&scene.broker);
    let ids: Vec<String> = scene.all("audit").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[test]
fn an_emptied_spool_is_none_to_another_database() {
    let mut scene = Scene::begin();
    scene.end_with_an_emptied_spool();
    let other = scene.database.server().database();
    scene.broker = broker(&other, &scene.home);
    wait_until_stored(&scene.broker);
    for id in ["b", "c"] {
        assert_eq!(scene.push(id).0, "queued", "{}", scene.broker.output());
    }
    other.server().stop_immediately();
    wait_until_away(&scene.broker);
    assert_eq!(scene.push("d").0, "buffered");
    other.server().start_again();
    wait_until_stored(&scene.broker);
    let ids: Vec<String> = scene.all("audit").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["b", "c", "d"]);
    let output = scene.broker.output();
    assert!(!output.contains("nothing where the database"), "{output}");
}

/// More than one step of storing takes: what the first one leaves must not go with it.
#[test]
fn a_second_outage_after_a_restart_loses_nothing_of_a_long_spool() {
    let mut scene = Scene::begin();
    scene.end_with_an_emptied_spool();
    scene.broker = scene.broker.start_again();
    wait_until_stored(&scene.broker);
    scene.database.server().stop_immediately();
    wait_until_away(&scene.broker);
    let ids: Vec<String> = (0..2 * SPOOL_READ_ENTRIES + 1)
        .map(|number| number.to_string())
        .collect();
    let items: Vec<Value> = ids
        .iter()
        .map(
            |id| json!({"queue": scene.queue, "partition": "p", "payload": 1, "transactionId": id}),
        )
        .collect();
    let mut client = scene.broker.plain_client();
    let pushed = client
        .post("/api/v1/push", &json!({"items": items}))
        .expect(201);
    assert_eq!(pushed[0]["status"], "buffered");
    scene.database.server().start_again();
    wait_until_stored(&scene.broker);
    let all = scene.all("audit").into_iter().map(|(id, _)| id);
    let expected = ["a".to_owned()].into_iter().chain(ids);
    assert!(all.eq(expected), "{}", scene.broker.output());
}
