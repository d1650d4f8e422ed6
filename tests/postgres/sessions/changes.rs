//! Following what others change: brokers, and operators with SQL.

use queen::model::{Grant, TenantId};
use queen::postgres::{Changes, Session, StoreItem, Target, TargetSettings};

use super::server::{CALM, RULES, Server};
use super::store::{TENANT, declare, declared, remove};

const SQL_TENANT: &str = "00000000-0000-0000-0000-000000000001";

fn everything(session: &mut Session) -> Changes {
    let changes = session.changes(None, &mut || true).expect("an answer");
    changes.expect("everything")
}

/// What is new since the last changes; there must be something.
#[track_caller]
fn since(session: &mut Session, last: &Changes) -> Changes {
    let changes = session.changes(Some(last.revision), &mut || true);
    let changes = changes.expect("an answer").expect("something is new");
    assert!(changes.revision > last.revision);
    changes
}

fn names(changes: &Changes) -> Vec<&str> {
    let mut names: Vec<&str> = changes
        .declared
        .iter()
        .map(|one| one.queue.as_str())
        .collect();
    names.sort_unstable();
    names
}

fn removed(changes: &Changes) -> Vec<&str> {
    let mut names: Vec<&str> = changes
        .removed
        .iter()
        .map(|(_, queue)| queue.as_str())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn another_broker_sees_what_one_stores() {
    let database = Server::shared().database();
    let (mut one, mut other) = (database.open(), database.open());
    let start = everything(&mut other);
    assert!(start.complete && start.declared.is_empty() && start.ephemeral_enabled);
    assert_eq!(other.changes(Some(start.revision), &mut || true), Ok(None));
    one.store(&[declare("a", "{}"), declare("b", "{}")], CALM)
        .expect("stored");
    let first = since(&mut other, &start);
    assert!(!first.complete);
    assert_eq!((names(&first), removed(&first)), (vec!["a", "b"], vec![]));
    one.store(
        &[remove("a"), declare("b", "{ }"), declare("c", "{}")],
        CALM,
    )
    .expect("stored");
    let second = since(&mut other, &first);
    assert_eq!(
        (names(&second), removed(&second)),
        (vec!["b", "c"], vec!["a"])
    );
    // Removed and declared again in between: it is declared.
    one.store(&[remove("b")], CALM).expect("stored");
    one.store(&[declare("b", "{}")], CALM).expect("stored");
    let third = since(&mut other, &second);
    assert_eq!((names(&third), removed(&third)), (vec!["b"], vec![]));
    // Who was away for both sees both.
    let both = since(&mut other, &first);
    assert_eq!((names(&both), removed(&both)), (vec!["b", "c"], vec!["a"]));
    assert_eq!(other.changes(Some(third.revision), &mut || true), Ok(None));
}

#[test]
fn changes_by_sql_are_seen() {
    let database = Server::shared().database();
    let mut session = database.open();
    let mut last = everything(&mut session);
    let mut step = |sql: &str, declared: &[&str], gone: &[&str]| {
        database.run(sql);
        let changes = since(&mut session, &last);
        assert_eq!(
            (names(&changes), removed(&changes)),
            (declared.to_vec(), gone.to_vec()),
            "{sql}"
        );
        last = changes;
    };
    step(
        &format!(
            "INSERT INTO queen.ephemeral_queue (tenant, queue, options) VALUES
             ('{SQL_TENANT}', 'a', '{{}}'), ('{SQL_TENANT}', 'b', '{{}}')"
        ),
        &["a", "b"],
        &[],
    );
    step(
        "UPDATE queen.ephemeral_queue SET options = '{ }' WHERE queue = 'a'",
        &["a"],
        &[],
    );
    step(
        "UPDATE queen.ephemeral_queue SET queue = 'c' WHERE queue = 'a'",
        &["c"],
        &["a"],
    );
    step(
        "DELETE FROM queen.ephemeral_queue WHERE queue = 'b'",
        &[],
        &["b"],
    );
    // Several in one transaction, one of them taken back.
    step(
        "BEGIN; DELETE FROM queen.ephemeral_queue; SAVEPOINT s;
         INSERT INTO queen.ephemeral_queue (tenant, queue, options)
         VALUES (gen_random_uuid(), 'never', '{}');
         ROLLBACK TO s; COMMIT",
        &[],
        &["c"],
    );
}

#[test]
fn a_truncate_by_sql_is_everything_anew() {
    let database = Server::shared().database();
    let mut session = database.open();
    session.store(&[declare("a", "{}")], CALM).expect("stored");
    let last = everything(&mut session);
    database.run("TRUNCATE queen.ephemeral_queue");
    let changes = since(&mut session, &last);
    assert!(changes.complete && changes.declared.is_empty());
    session.store(&[declare("b", "{}")], CALM).expect("stored");
    let changes = since(&mut session, &changes);
    assert!(!changes.complete);
    assert_eq!(names(&changes), ["b"]);
}

#[test]
fn grants_by_sql_are_seen_whole() {
    let database = Server::shared().database();
    let mut session = database.open();
    let mut last = everything(&mut session);
    assert_eq!(last.grants, []);
    let mut step = |sql: &str, grants: &[(TenantId, Grant)]| {
        database.run(sql);
        last = since(&mut session, &last);
        assert_eq!(last.grants, grants, "{sql}");
    };
    let open = Grant {
        enabled: true,
        max_bytes: None,
        max_queues: None,
        messages_per_second: None,
    };
    let insert = format!("INSERT INTO queen.ephemeral_grant (tenant) VALUES ('{SQL_TENANT}')");
    step(&insert, &[(TENANT, open)]);
    let bounded = Grant {
        enabled: false,
        max_bytes: Some(0),
        max_queues: Some(7),
        messages_per_second: Some(i64::MAX as u64),
    };
    step(
        "UPDATE queen.ephemeral_grant SET enabled = false, max_bytes = 0, max_queues = 7,
         max_messages_per_second = 9223372036854775807",
        &[(TENANT, bounded)],
    );
    step("DELETE FROM queen.ephemeral_grant", &[]);
    step(&insert, &[(TENANT, open)]);
    step("TRUNCATE queen.ephemeral_grant", &[]);
    for wrong in [
        "max_bytes = -1",
        "max_queues = -1",
        "max_messages_per_second = 0",
    ] {
        let sql = format!("{insert}; UPDATE queen.ephemeral_grant SET {wrong}");
        assert!(database.client().batch_execute(&sql).is_err(), "{wrong}");
    }
}

#[test]
fn the_switch_is_one_for_all_brokers() {
    let database = Server::shared().database();
    let (mut one, mut other) = (database.open(), database.open());
    let start = everything(&mut other);
    one.set_ephemeral_enabled(false, CALM).expect("set");
    let paused = since(&mut other, &start);
    assert!(!paused.ephemeral_enabled && !paused.complete);
    database.run("UPDATE queen.switch SET enabled = true WHERE name = 'ephemeral'");
    let resumed = since(&mut other, &paused);
    assert!(resumed.ephemeral_enabled);
    database.run("DELETE FROM queen.switch");
    assert!(since(&mut other, &resumed).ephemeral_enabled);
    one.set_ephemeral_enabled(false, CALM).expect("set");
    assert!(!everything(&mut other).ephemeral_enabled);
}

#[test]
fn an_operator_needs_rights_on_the_one_table_only() {
    let database = Server::shared().database();
    let mut session = database.open();
    let last = everything(&mut session);
    let user = format!("operator_{}", uuid::Uuid::new_v4().simple());
    database.run(&format!(
        "CREATE ROLE {user}; GRANT USAGE ON SCHEMA queen TO {user};
         GRANT SELECT, INSERT, UPDATE, DELETE ON queen.ephemeral_grant TO {user};
         SET ROLE {user};
         INSERT INTO queen.ephemeral_grant (tenant) VALUES ('{SQL_TENANT}')"
    ));
    assert_eq!(since(&mut session, &last).grants.len(), 1);
}

#[test]
fn a_broker_that_was_away_for_long_reads_everything() {
    let database = Server::shared().database();
    let mut session = database.open();
    session
        .store(&[declare("a", "{}"), declare("b", "{}")], CALM)
        .expect("stored");
    let before = everything(&mut session);
    session.store(&[remove("a")], CALM).expect("stored");
    let after = everything(&mut session);
    session.store(&[remove("b")], CALM).expect("stored");
    let kept = "SELECT count(*) FROM queen.ephemeral_queue_removed";
    session.beat("here:1", CALM).expect("a beat");
    assert_eq!(database.value(kept), "2");
    database.run(
        "UPDATE queen.ephemeral_queue_removed SET removed_at = now() - interval '2 hours'
         WHERE queue = 'a'",
    );
    session.beat("here:1", CALM).expect("a beat");
    assert_eq!(database.value(kept), "1");
    // Who has seen the removal that is forgotten needs nothing; who has not reads everything.
    let changes = since(&mut session, &after);
    assert!(!changes.complete);
    assert_eq!(removed(&changes), ["b"]);
    assert!(since(&mut session, &before).complete);
}

#[test]
fn a_database_that_was_put_back_is_read_anew() {
    let database = Server::shared().database();
    let mut session = database.open();
    session.store(&[declare("a", "{}")], CALM).expect("stored");
    let changes = session
        .changes(Some(1_000_000), &mut || true)
        .expect("an answer");
    let changes = changes.expect("everything");
    assert!(changes.complete);
    assert_eq!(names(&changes), ["a"]);
}

#[test]
fn a_large_set_is_loaded_in_steps_while_others_store() {
    let database = Server::shared().database();
    let (mut one, mut other) = (database.open(), database.open());
    let many: Vec<StoreItem> = (0..3_001)
        .map(|number| declare(&format!("queue-{number:05}"), "{}"))
        .collect();
    one.store(&many, CALM).expect("stored");
    let before = everything(&mut other);
    assert_eq!(before.declared.len(), many.len());
    std::thread::scope(|scope| {
        let storing = scope.spawn(|| {
            for number in 0..50 {
                let name = format!("queue-{number:05}");
                let batch = [remove(&name), declare(&format!("new-{number}"), "{}")];
                one.store(&batch, CALM).expect("stored");
            }
        });
        // As many come as go in each commit: every snapshot has the same number.
        while !storing.is_finished() {
            assert_eq!(declared(&mut other).len(), many.len());
        }
    });
    let changes = since(&mut other, &before);
    assert_eq!((changes.declared.len(), changes.removed.len()), (50, 50));
}

#[test]
fn brokers_see_each_other() {
    let database = Server::shared().database();
    let open = |incarnation: &str| {
        let settings: TargetSettings = database.settings();
        let target = Target::parse(&settings).expect("settings that are right");
        Session::open(&target, &RULES, incarnation, &mut || true).expect("a session")
    };
    let (mut one, mut other) = (open("one"), open("other"));
    assert_eq!(one.beat("host-1:6632", CALM), Ok(vec![]));
    assert_eq!(
        other.beat("host-2:6632", CALM),
        Ok(vec!["host-1:6632".to_owned()])
    );
    assert_eq!(
        one.beat("host-1:6633", CALM),
        Ok(vec!["host-2:6632".to_owned()])
    );
    let age = |seconds: u32| {
        let sql = format!(
            "UPDATE queen.broker SET seen_at = now() - interval '{seconds} seconds'
             WHERE incarnation = 'other'"
        );
        database.run(&sql);
    };
    age(16);
    assert_eq!(one.beat("host-1:6633", CALM), Ok(vec![]));
    assert_eq!(database.value("SELECT count(*) FROM queen.broker"), "2");
    age(86_401);
    assert_eq!(one.beat("host-1:6633", CALM), Ok(vec![]));
    assert_eq!(
        database.value("SELECT string_agg(name, ',') FROM queen.broker"),
        "host-1:6633"
    );
}
