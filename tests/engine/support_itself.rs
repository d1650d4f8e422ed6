//! The server that the tests do things to, without a broker.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use postgres::NoTls;
use serde_json::json;

use crate::rig::{database_alone, plan_on, wait_until_connected};
use crate::support::home::is_alive;

/// Whether a server answers a request for TLS (the manual's chapter on the protocol).
fn says_something(port: u16) -> bool {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let limit = Some(Duration::from_millis(500));
    stream.set_read_timeout(limit).expect("a limit");
    stream.write_all(&SSL_REQUEST).expect("it is taken");
    stream.read_exact(&mut [0]).is_ok()
}

#[test]
fn a_server_is_hung_killed_and_started_again_and_leaves_nothing() {
    let database = database_alone();
    let server = database.server();
    database.execute("CREATE TABLE kept (number int); INSERT INTO kept VALUES (1)");
    for end in [
        crate::support::Server::stop,
        crate::support::Server::stop_immediately,
        crate::support::Server::kill,
    ] {
        end(server);
        assert!(!server.is_running());
        server.start_again();
        let row = database.client().query_one("SELECT * FROM kept", &[]);
        assert_eq!(row.expect("a row").get::<_, i32>(0), 1);
    }
    let url = database.url();
    let client = postgres::Client::connect(&url, NoTls).expect("over the port");
    assert_eq!(database.sessions().len(), 1);
    drop(client);
    server.hang();
    assert!(!says_something(server.port()));
    server.go_on();
    assert!(says_something(server.port()));
    let client = postgres::Client::connect(&database.socket_url(), NoTls);
    let client = client.expect("over the socket");
    server.hang();
    let processes = crate::support::home::children_of(server.pid());
    assert!(processes.len() > 3, "{processes:?}");
    let top = server.home().top().to_owned();
    drop(client);
    drop(database);
    assert!(!processes.into_iter().any(is_alive));
    assert!(!top.exists());
}

/// What a broker accepts while it has no database lies in a folder of its own.
#[test]
fn each_broker_has_a_data_folder_which_goes_with_the_last_that_was_started_in_it() {
    let database = database_alone();
    let brokers = [plan_on(&database).start(), plan_on(&database).start()];
    brokers.iter().for_each(wait_until_connected);
    database.server().stop_immediately();
    for broker in &brokers {
        let items = json!({"items": [{"queue": "orders", "payload": 1}]});
        let pushed = broker
            .plain_client()
            .post("/api/v1/push", &items)
            .expect(201);
        assert_eq!(pushed[0]["status"], "buffered", "{}", broker.output());
        assert!(broker.data_folder().join("spool/lock").exists());
    }
    let [first, second] = brokers;
    assert_ne!(first.data_folder(), second.data_folder());
    second.kill();
    let again = second.start_again();
    assert_eq!(again.data_folder(), second.data_folder());
    let folders = [&first, &again].map(|broker| broker.data_folder().to_owned());
    drop((first, second));
    assert_eq!(
        folders.each_ref().map(|folder| folder.exists()),
        [false, true]
    );
    drop(again);
    assert!(!folders[1].exists());
}
