//! Migrations: several brokers at once, an older schema, a newer one, one that is not the broker's.

use std::thread;

use super::server::{Database, Server, away, refused};

const FIRST: &str = include_str!("../../../src/postgres/sql/0001_ephemeral.sql");
const TABLE: &str = include_str!("../../../src/postgres/sql/migration_table.sql");

fn open_at_once(database: &Database, count: usize) {
    thread::scope(|scope| {
        let opening: Vec<_> = (0..count)
            .map(|_| scope.spawn(|| database.open()))
            .collect();
        for one in opening {
            let mut session = one.join().expect("a session");
            assert!(session.changes(None, &mut || true).is_ok());
        }
    });
}

/// The migrations, in order.
const ALL: &str = "1 ephemeral, 2 broker, 3 durable, 4 administration, 5 followers, 6 outage, 7 retention, 8 idle, 9 commit, 10 sweep, 11 commit in parts, 12 epoch";

fn applied(database: &Database) -> String {
    database.value(
        "SELECT string_agg(number || ' ' || name, ', ' ORDER BY number) FROM queen.migration",
    )
}

#[test]
fn brokers_that_start_at_once_do_not_collide() {
    let server = Server::shared();
    for count in [2, 8, 2, 8, 2] {
        let database = server.database();
        open_at_once(&database, count);
        assert_eq!(applied(&database), ALL);
    }
}

#[test]
fn an_older_schema_is_upgraded_and_keeps_what_it_has() {
    let database = Server::shared().database();
    database.run(TABLE);
    database.run(FIRST);
    database.run(
        "INSERT INTO queen.migration (number, name) VALUES (1, 'ephemeral');
         INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         VALUES ('00000000-0000-0000-0000-000000000001', 'kept', '{}')",
    );
    open_at_once(&database, 4);
    assert_eq!(applied(&database), ALL);
    let changes = database.open().changes(None, &mut || true);
    let changes = changes.expect("an answer").expect("everything");
    assert_eq!(changes.declared.len(), 1);
    assert_eq!(changes.declared[0].queue, "kept");
}

#[test]
fn functions_that_an_earlier_broker_has_made_are_replaced() {
    let database = Server::shared().database();
    drop(database.open());
    // As a broker of step 10 has left it: a function of 45 parameters that knows of no epoch.
    database.run(
        "DO $$
         DECLARE
           old text;
           new regprocedure;
         BEGIN
           SELECT pg_get_functiondef(oid) INTO old FROM pg_proc
           WHERE proname = 'commit_batch' AND pronargs = 45;
           EXECUTE regexp_replace(old, 'AS .function.*', 'AS ''SELECT false''');
           SELECT oid INTO new FROM pg_proc WHERE proname = 'commit_batch' AND pronargs = 47;
           EXECUTE 'DROP FUNCTION ' || new;
         END $$;
         DELETE FROM queen.migration WHERE number > 8;
         DROP FUNCTION queen.end_epoch CASCADE;
         DROP FUNCTION queen.epoch_for_tails, queen.commit_appends;
         DROP TABLE queen.durable_epoch",
    );
    drop(database.open());
    assert_eq!(applied(&database), ALL);
    let old = "SELECT prosrc LIKE '%SELECT queen.commit_batch(%' FROM pg_proc
               WHERE proname = 'commit_batch' AND pronargs = 45";
    assert_eq!(database.value(old), "true");
}

#[test]
fn a_newer_schema_is_refused_with_both_numbers() {
    let database = Server::shared().database();
    drop(database.open());
    database.run("INSERT INTO queen.migration (number, name) VALUES (13, 'of the future')");
    let reason = refused(database.try_open());
    assert!(
        reason.contains("version 13") && reason.contains("up to 12"),
        "{reason}"
    );
    database.run("DELETE FROM queen.migration WHERE number = 13");
    drop(database.open());
}

#[test]
fn what_is_not_the_brokers_is_not_touched() {
    let database = Server::shared().database();
    database.run("CREATE SCHEMA queen; CREATE TABLE queen.ephemeral_grant (mine text)");
    let reason = refused(database.try_open());
    assert!(reason.contains("ephemeral_grant"), "{reason}");
    assert_eq!(
        database.value("SELECT to_regclass('queen.ephemeral_queue')"),
        ""
    );
    assert_eq!(database.value("SELECT to_regclass('queen.migration')"), "");
}

#[test]
fn a_table_of_that_name_which_counts_no_migrations_is_refused() {
    for columns in ["x text", "number text", "number uuid"] {
        let database = Server::shared().database();
        database.run(&format!(
            "CREATE SCHEMA queen; CREATE TABLE queen.migration ({columns});
             INSERT INTO queen.migration VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')"
        ));
        let reason = refused(database.try_open());
        assert!(reason.contains("not as a broker has left it"), "{reason}");
    }
}

#[test]
fn a_schema_that_vanishes_is_made_anew_by_the_next_session() {
    let database = Server::shared().database();
    let mut session = database.open();
    database.run("DROP SCHEMA queen CASCADE");
    away(session.changes(None, &mut || true));
    let mut session = database.open();
    assert!(session.changes(None, &mut || true).is_ok());
}

#[test]
fn every_column_for_operators_is_explained() {
    let database = Server::shared().database();
    drop(database.open());
    let silent = "SELECT string_agg(attrelid::regclass || '.' || attname, ', ') FROM pg_attribute
                  WHERE attrelid IN ('queen.ephemeral_grant'::regclass, 'queen.switch'::regclass)
                  AND attnum > 0 AND NOT attisdropped AND col_description(attrelid, attnum) IS NULL";
    assert_eq!(database.value(silent), "");
}
