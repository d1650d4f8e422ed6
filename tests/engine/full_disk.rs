//! A server without room on its disk, on a small file system of its own.

use std::fs;

use serde_json::json;

use crate::rig::{
    PATIENCE, assert_unavailable, configure, declare, delete, has_option, health, plan_on,
    wait_until_connected, wait_until_degraded, wait_until_stored,
};
use crate::support::home::{Home, note};
use crate::support::poll::eventually_within;
use crate::support::{Broker, Server};
use crate::traffic::with_traffic;

/// Declarations that are tried before one of them must have found no room: a page of the table holds
/// a few of them.
const DECLARATIONS_MAX: usize = 200;

/// Declares queues with long names until there is no room for another one; all are answered in time.
#[track_caller]
fn declare_until_full(broker: &Broker) {
    for _ in 0..DECLARATIONS_MAX {
        let noise: String = (0..12).map(|_| uuid::Uuid::new_v4().to_string()).collect();
        let answer = configure(&broker.queue_named(&noise), json!({"maxLength": 7}));
        if answer.status != 201 {
            assert_unavailable(&answer);
            return;
        }
    }
    panic!("{DECLARATIONS_MAX} declarations found room on a full disk");
}

#[test]
fn a_full_disk_is_told_and_heals_when_there_is_room() {
    let mut home = Home::empty();
    if !home.mount("160m") {
        note("mounting is not allowed: the full disk of a server did not run");
        return;
    }
    home.put_cluster();
    let server = Server::start_in(home, &[]);
    let database = server.database();
    let broker = plan_on(&database).start();
    let declared = broker.queue("declared");
    declare(&declared, json!({"maxLength": 7}));
    with_traffic(&broker, &declared.name, || {
        let filler = server.home().fill();
        declare_until_full(&broker);
        let reason = wait_until_degraded(&broker);
        assert!(reason.contains("No space left on device"), "{reason}");
        assert!(has_option(&declared, "maxLength", 7));
        fs::remove_file(&filler).expect("the filler");
        wait_until_connected(&broker);
        wait_until_stored(&declared, &json!({"maxLength": 8}));

        // Without room for its log the server ends itself, and its recovery may fail, too.
        let filler = server.home().fill();
        let mut client = database.client();
        let logs = "SELECT pg_logical_emit_message(true, 'filler', repeat('x', 1000000))";
        eventually_within(PATIENCE, "the server has no room for its log", || {
            let mut written = (0..16).map(|_| client.batch_execute(logs));
            written.any(|written| written.is_err())
        });
        for answer in [
            configure(&declared, json!({"maxLength": 9})),
            delete(&declared),
        ] {
            if answer.status >= 300 {
                assert_unavailable(&answer);
            }
        }
        fs::remove_file(&filler).expect("the filler");
        eventually_within(PATIENCE, "the database is back", || {
            // When it gives up for good is its own matter.
            if !server.is_running() {
                server.start_again();
            }
            health(&broker)["database"] == "connected"
        });
        wait_until_stored(&declared, &json!({"maxLength": 10}));
    });
}
