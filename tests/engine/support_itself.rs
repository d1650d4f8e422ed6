//! The server that the tests do things to, without a broker.

use std::time::{Duration, Instant};

use postgres::NoTls;

use crate::rig::database_alone;
use crate::support::home::is_alive;

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
    let mut url: postgres::Config = database.url().parse().expect("a URL");
    url.connect_timeout(Duration::from_secs(5));
    let client = url.connect(NoTls).expect("over the port");
    assert_eq!(database.sessions().len(), 1);
    drop(client);
    server.hang();
    let begin = Instant::now();
    assert!(
        url.connect_timeout(Duration::from_millis(200))
            .connect(NoTls)
            .is_err()
    );
    assert!(begin.elapsed() >= Duration::from_millis(200));
    server.go_on();
    let client = url.connect_timeout(Duration::from_secs(5)).connect(NoTls);
    assert!(client.is_ok());
    server.hang();
    let processes = crate::support::server::children_of(server.pid());
    assert!(processes.len() > 3, "{processes:?}");
    let top = server.home().top().to_owned();
    drop(client);
    drop(database);
    assert!(!processes.into_iter().any(is_alive));
    assert!(!top.exists());
}
