//! What was answered is stored, whatever is killed in the same moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::json;

use crate::rig::{
    PATIENCE, database_alone, has_option, plan_on, wait_until_connected, wait_until_stored,
};
use crate::support::poll::eventually_within;
use crate::support::setup::in_parallel;
use crate::support::{Broker, Client, Database};

const CLIENTS: u64 = 4;

/// Changes that must have been answered before the end comes.
const ANSWERED_MIN: u64 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    BrokerKilled,
    BrokerStopped,
    ServerKilled,
    ServerStopped,
    /// All its processes, in a database that is lazy by default.
    LazyServerKilled,
}

/// What a client was told last of each of its queues: its length, or that it is deleted. Nothing is
/// known of a queue while a change of it is not answered with success.
type Told = BTreeMap<String, Option<u64>>;

/// One client that declares, changes and deletes queues until the broker refuses or is gone.
fn change_until_the_end(broker: &Broker, client: u64, count: &AtomicU64, end: &AtomicBool) -> Told {
    let mut told = Told::new();
    let Ok(mut connection) = Client::try_connect(broker.address()) else {
        return told;
    };
    for number in 1.. {
        let name = format!("client-{client}.{}", number % 7);
        let (method, target, body) = if number % 3 == 0 {
            ("DELETE", format!("/api/v1/ephemeral/queue/{name}"), None)
        } else {
            let body = json!({"queue": name, "options": {"maxLength": number}});
            let target = "/api/v1/ephemeral/configure".to_owned();
            ("POST", target, Some(body.to_string()))
        };
        told.remove(&name);
        let body = body.as_ref().map(String::as_bytes);
        let request = connection.request_bytes(method, &target, body);
        let sent = connection.try_send_raw(&request);
        match sent.and_then(|()| connection.try_read()) {
            Ok(answer) if answer.status == 201 => told.insert(name, Some(number)),
            Ok(answer) if answer.status == 200 => told.insert(name, None),
            _ => return told,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if end.load(Ordering::Relaxed) && number > 10 * ANSWERED_MIN {
            return told;
        }
    }
    told
}

#[track_caller]
fn assert_has_what_was_told(broker: &Broker, database: &Database, told: &Told) {
    for (name, length) in told {
        let queue = broker.queue_named(name);
        let question = "SELECT options FROM queen.ephemeral_queue WHERE queue = $1";
        let row = database.client().query_opt(question, &[&name]);
        let stored = row.expect("an answer").map(|row| row.get::<_, String>(0));
        let expected = length.map(|length| format!(r#"{{"maxLength":{length}}}"#));
        assert_eq!(stored, expected, "{name} in the database");
        match length {
            Some(length) => assert!(has_option(&queue, "maxLength", *length), "{name}"),
            None => assert_eq!(queue.row(), None, "{name}"),
        }
    }
}

#[test]
fn what_was_answered_is_stored_whatever_is_killed_in_that_moment() {
    use Victim::{BrokerKilled, BrokerStopped, LazyServerKilled, ServerKilled, ServerStopped};
    in_parallel(
        &[
            BrokerKilled,
            BrokerStopped,
            ServerKilled,
            ServerStopped,
            LazyServerKilled,
        ],
        |&victim| {
            let database = database_alone();
            if victim == LazyServerKilled {
                let name = database.name();
                database.execute(&format!(
                    "ALTER DATABASE {name} SET synchronous_commit = off"
                ));
            }
            let broker = plan_on(&database).start();
            let (count, end) = (AtomicU64::new(0), AtomicBool::new(false));
            let told: Vec<Told> = thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|client| {
                        let (broker, count, end) = (&broker, &count, &end);
                        scope.spawn(move || change_until_the_end(broker, client, count, end))
                    })
                    .collect();
                eventually_within(PATIENCE, "changes are answered", || {
                    count.load(Ordering::Relaxed) >= ANSWERED_MIN
                });
                match victim {
                    BrokerKilled => broker.kill(),
                    BrokerStopped => broker.terminate(),
                    ServerKilled => database.server().kill(),
                    ServerStopped => database.server().stop_immediately(),
                    LazyServerKilled => database.server().kill_all(),
                }
                end.store(true, Ordering::Relaxed);
                let told = clients.into_iter().map(|client| client.join());
                told.map(|told| told.expect("it ends")).collect()
            });
            let broker = match victim {
                BrokerKilled | BrokerStopped => broker.start_again(),
                ServerKilled | ServerStopped | LazyServerKilled => {
                    database.server().start_again();
                    broker
                }
            };
            wait_until_stored(&broker.queue("after"), &json!({}));
            wait_until_connected(&broker);
            for told in &told {
                assert_has_what_was_told(&broker, &database, told);
            }
            assert!(told.iter().any(|told| !told.is_empty()));
        },
    );
}
