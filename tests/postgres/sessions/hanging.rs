//! Servers that hang instead of dying: every call returns within its bound, and a new session works
//! once the server does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use queen::postgres::{Session, SessionFault};
use rustix::process::Signal;

use super::server::{CALM, Database, Server, away};
use super::store::{declare, declared};
use crate::home::signal;
use crate::poll::eventually;

/// What the cancel and a busy machine may add to a bound.
const MARGIN: Duration = Duration::from_secs(2);

/// The server's process of the broker's only session.
fn backend(database: &Database) -> u32 {
    let pid = "SELECT pid FROM pg_stat_activity \
               WHERE application_name = 'queen' AND datname = current_database()";
    database.value(pid).parse().expect("a process id")
}

#[track_caller]
fn within<T>(bound: Duration, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    let spent = begin.elapsed();
    assert!(spent < bound + MARGIN, "{spent:?} instead of {bound:?}");
    done
}

const STATEMENT: Duration = Duration::from_secs(2);

#[test]
fn a_session_whose_backend_hangs_is_given_up() {
    let server = Server::shared();
    type Call = fn(&mut Session) -> Result<(), SessionFault>;
    let calls: [(Duration, Call); 4] = [
        (STATEMENT, |session| {
            session.changes(Some(0), &mut || ()).map(drop)
        }),
        (Duration::from_millis(700), |session| {
            let batch = [declare("a", "{}")];
            session.store(&batch, Duration::from_millis(700))
        }),
        (Duration::from_millis(700), |session| {
            session.set_ephemeral_enabled(true, Duration::from_millis(700))
        }),
        (Duration::from_millis(700), |session| {
            session.beat("here:1", Duration::from_millis(700)).map(drop)
        }),
    ];
    let database = server.database();
    for (bound, call) in calls {
        let mut session = database.open();
        let pid = backend(&database);
        signal(pid, Signal::STOP);
        let reason = away(within(bound, || call(&mut session)));
        assert!(reason.contains("did not answer"), "{reason}");
        // It is over, and says so at once.
        let again = within(Duration::ZERO, || session.changes(None, &mut || ()));
        assert_eq!(away(again), reason);
        // Others are served meanwhile.
        assert!(declared(&mut database.open()).len() <= 1);
        drop(session);
        signal(pid, Signal::CONT);
        let sql = "SELECT count(*) FROM pg_stat_activity \
                   WHERE application_name = 'queen' AND datname = current_database()";
        eventually("the session's process ends", || database.value(sql) == "0");
    }
}

#[test]
fn loading_is_given_up_where_it_stalls() {
    let database = Server::shared().database();
    let mut session = database.open();
    let pid = backend(&database);
    signal(pid, Signal::STOP);
    let (mut calls, begin) = (0, Instant::now());
    let loaded = within(Duration::from_secs(5), || {
        session.changes(None, &mut || calls += 1)
    });
    away(loaded);
    // Meant to be every 50 ms; the machine may be busy.
    assert!(calls >= 10, "{calls} in {:?}", begin.elapsed());
    signal(pid, Signal::CONT);
}

#[test]
fn a_postmaster_that_hangs_lets_open_sessions_work_and_new_ones_wait_in_vain() {
    let server: Arc<Server> = Server::own();
    let database = server.database();
    let mut session = database.open();
    signal(server.pid(), Signal::STOP);
    let reason = away(within(STATEMENT, || database.try_open()));
    assert!(reason.contains("no answer"), "{reason}");
    assert_eq!(session.store(&[declare("a", "{}")], CALM), Ok(()));
    signal(server.pid(), Signal::CONT);
    assert_eq!(declared(&mut database.open()).len(), 1);

    // A commit that no standby confirms: it must not be taken for stored.
    let mut tool = server.client("postgres");
    let wait = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
    tool.batch_execute(wait).expect("set");
    tool.batch_execute("SELECT pg_reload_conf()").expect("read");
    eventually("it is in force", || {
        database.value("SELECT current_setting('synchronous_standby_names')") == "nobody"
    });
    let mut session = database.open();
    let bound = Duration::from_millis(1_000);
    let stored = within(bound, || session.store(&[declare("b", "{}")], bound));
    away(stored);
    let wait = "ALTER SYSTEM RESET synchronous_standby_names";
    tool.batch_execute(wait).expect("set");
    tool.batch_execute("SELECT pg_reload_conf()").expect("read");

    // Everything hangs, the sessions' processes too, and the cancel with them.
    let mut session = database.open();
    let pid = backend_of_newest(&database);
    signal(server.pid(), Signal::STOP);
    signal(pid, Signal::STOP);
    let bound = Duration::from_millis(500);
    let stored = within(bound, || session.store(&[declare("c", "{}")], bound));
    away(stored);
    signal(pid, Signal::CONT);
    signal(server.pid(), Signal::CONT);
    let mut session = database.open();
    assert_eq!(session.store(&[declare("c", "{}")], CALM), Ok(()));
}

fn backend_of_newest(database: &Database) -> u32 {
    let pid = "SELECT pid FROM pg_stat_activity WHERE application_name = 'queen' \
               AND datname = current_database() ORDER BY backend_start DESC LIMIT 1";
    database.value(pid).parse().expect("a process id")
}

#[test]
fn a_broker_that_changes_the_schema_is_waited_for() {
    let database = Server::shared().database();
    let mut other = database.client();
    // What a broker takes while it changes the schema.
    other
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(x'00717565656e0001'::bit(64)::bigint)")
        .expect("the lock");
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| database.try_open());
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        eventually("it waits for its turn", || database.value(waits) == "1");
        other.batch_execute("COMMIT").expect("the lock is free");
        let opened = opening.join().expect("it returns");
        opened.expect("a session");
    });
}
