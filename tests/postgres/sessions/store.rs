//! The store: batches, every name, and what fails without harm.

use std::time::{Duration, Instant};

use queen::model::{Declaration, TenantId};
use queen::postgres::{Session, SessionFault, StoreItem};

use super::server::{CALM, Database, Server, away, healing};

pub(crate) const TENANT: TenantId = TenantId::DEFAULT;

pub(crate) fn declare(queue: &str, options: &str) -> StoreItem {
    StoreItem::Declare(Declaration {
        tenant: TENANT,
        queue: queue.to_owned(),
        options: options.to_owned(),
    })
}

pub(crate) fn remove(queue: &str) -> StoreItem {
    StoreItem::Remove {
        tenant: TENANT,
        queue: queue.to_owned(),
    }
}

/// What is declared now, by name.
#[track_caller]
pub(crate) fn declared(session: &mut Session) -> Vec<(String, String)> {
    let changes = session.changes(None, &mut || true).expect("an answer");
    let changes = changes.expect("everything");
    assert!(changes.complete);
    let mut declared: Vec<(String, String)> = changes
        .declared
        .into_iter()
        .map(|one| (one.queue, one.options))
        .collect();
    declared.sort();
    declared
}

fn pair(queue: &str, options: &str) -> (String, String) {
    (queue.to_owned(), options.to_owned())
}

#[test]
fn a_batch_is_as_if_item_by_item() {
    let database = Server::shared().database();
    let mut session = database.open();
    let stored = session.store(
        &[
            remove("a"),
            declare("a", "{}"),
            remove("a"),
            remove("a"),
            declare("b", r#"{"maxLength":1}"#),
            declare("b", r#"{"maxLength":2}"#),
            declare("c", "{}"),
        ],
        CALM,
    );
    assert_eq!(stored, Ok(()));
    assert_eq!(
        declared(&mut session),
        [pair("b", r#"{"maxLength":2}"#), pair("c", "{}")]
    );
    let stored = session.store(
        &[remove("b"), remove("c"), declare("c", "{ }"), remove("d")],
        CALM,
    );
    assert_eq!(stored, Ok(()));
    assert_eq!(declared(&mut session), [pair("c", "{ }")]);
    assert_eq!(session.store(&[], CALM), Ok(()));
}

#[test]
fn tenants_do_not_share_names() {
    let database = Server::shared().database();
    let mut session = database.open();
    let other = TenantId::from_u128(u128::MAX);
    let of_other = StoreItem::Declare(Declaration {
        tenant: other,
        queue: "a".to_owned(),
        options: "{}".to_owned(),
    });
    session
        .store(&[declare("a", "{}"), of_other], CALM)
        .expect("stored");
    session.store(&[remove("a")], CALM).expect("removed");
    let changes = session.changes(None, &mut || true).expect("an answer");
    let left = changes.expect("everything").declared;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].tenant, other);
}

#[test]
fn what_is_there_already_is_not_written_again() {
    let database = Server::shared().database();
    let mut session = database.open();
    session
        .store(&[declare("a", "{}"), declare("b", "{}")], CALM)
        .expect("stored");
    let revision = "SELECT revision FROM queen.revision";
    let before = database.value(revision);
    let again = [declare("a", "{}"), declare("b", "{}"), remove("c")];
    assert_eq!(session.store(&again, CALM), Ok(()));
    assert_eq!(database.value(revision), before);
}

#[test]
fn every_name_and_long_options_are_kept_exactly() {
    let database = Server::shared().database();
    let mut session = database.open();
    let long = format!("{{\"note\": \"{}\"}}", "x".repeat(64 * 1024));
    let mut names = vec![
        "plain".to_owned(),
        "it's".to_owned(),
        r#"a "quoted" one"#.to_owned(),
        r"back\slash \N \x00 \.".to_owned(),
        "{a,b}".to_owned(),
        "NULL".to_owned(),
        "null".to_owned(),
        "$1 %s ? :x; --".to_owned(),
        "\u{7f}".to_owned(),
        "\u{1f980} e\u{301} \u{e9} \u{202e}".to_owned(),
        " ".to_owned(),
        "A".to_owned(),
        "a".to_owned(),
        "\u{10ffff}".to_owned(),
        "x".repeat(512),
    ];
    let items: Vec<StoreItem> = names.iter().map(|name| declare(name, &long)).collect();
    session.store(&items, CALM).expect("stored");
    let found: Vec<String> = declared(&mut session)
        .into_iter()
        .map(|(name, options)| {
            assert_eq!(options, long);
            name
        })
        .collect();
    names.sort();
    assert_eq!(found, names);
    let items: Vec<StoreItem> = names.iter().map(|name| remove(name)).collect();
    assert_eq!(session.store(&items, CALM), Ok(()));
    assert_eq!(declared(&mut session), []);
}

/// The statements that the server has logged for a database.
fn statements(database: &Database) -> usize {
    let log = database.server.log();
    let of_database = format!("{}|LOG:  ", database.name);
    let is_statement = |line: &&str| {
        line.strip_prefix(&of_database)
            .is_some_and(|rest| rest.starts_with("statement:") || rest.starts_with("execute"))
    };
    log.lines().filter(is_statement).count()
}

#[test]
fn ten_thousand_items_are_as_many_statements_as_one() {
    let database = Server::shared().database();
    drop(database.open());
    database.run(&format!(
        "ALTER DATABASE {} SET log_statement = 'all'",
        database.name
    ));
    let mut session = database.open();
    let mut count = |items: &[StoreItem]| {
        let before = statements(&database);
        session.store(items, CALM).expect("stored");
        statements(&database) - before
    };
    let few = count(&[declare("one", "{}"), remove("two")]);
    let many: Vec<StoreItem> = (0..10_000)
        .map(|number| declare(&format!("queue-{number}"), "{}"))
        .collect();
    assert_eq!(count(&many), few);
    let mut mixed: Vec<StoreItem> = (0..5_000)
        .map(|number| remove(&format!("queue-{number}")))
        .collect();
    mixed.extend((5_000..10_000).map(|number| declare(&format!("queue-{number}"), "[]")));
    // One statement more: this one removes too.
    assert_eq!(count(&mixed), few + 1);
    assert!(few <= 8, "{few}");
}

#[test]
fn a_row_that_the_schema_refuses_sinks_its_batch_only() {
    let database = Server::shared().database();
    let mut session = database.open();
    let batch = [declare("good", "{}"), declare(&"x".repeat(513), "{}")];
    let stored = session.store(&batch, CALM);
    let fault = stored.expect_err("the name is too long");
    assert!(
        matches!(fault, SessionFault::Write { heals: false, .. }),
        "{fault:?}"
    );
    let stored = session.store(&[declare("\0", "{}")], CALM);
    assert!(
        matches!(stored, Err(SessionFault::Write { heals: false, .. })),
        "{stored:?}"
    );
    assert_eq!(declared(&mut session), []);
    session
        .store(&[declare("good", "{}")], CALM)
        .expect("stored");
}

#[test]
fn a_lock_of_another_session_is_not_waited_for_beyond_the_bound() {
    let database = Server::shared().database();
    let mut session = database.open();
    let mut other = database.client();
    other
        .batch_execute("BEGIN; UPDATE queen.ephemeral_grant SET enabled = true")
        .expect("the revision is locked");
    let timeout = Duration::from_secs(2);
    let begin = Instant::now();
    let reason = healing(session.store(&[declare("a", "{}")], timeout));
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    assert!(reason.contains("lock timeout"), "{reason}");
    healing(session.set_ephemeral_enabled(false, Duration::from_secs(1)));
    // Reading and beating go on.
    assert!(session.changes(None, &mut || true).is_ok());
    assert!(session.beat("here:1", timeout).is_ok());
    other.batch_execute("COMMIT").expect("the lock is free");
    assert_eq!(session.store(&[declare("a", "{}")], CALM), Ok(()));
    // One that keeps even readers out.
    other
        .batch_execute("BEGIN; LOCK TABLE queen.ephemeral_queue")
        .expect("the table is locked");
    let begin = Instant::now();
    let reason = healing(session.changes(None, &mut || true));
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "{:?}",
        begin.elapsed()
    );
    assert!(reason.contains("lock timeout"), "{reason}");
    other.batch_execute("COMMIT").expect("the lock is free");
    assert_eq!(declared(&mut session), [pair("a", "{}")]);
}

#[test]
fn a_database_that_only_reads_is_read_and_heals() {
    let database = Server::shared().database();
    drop(database.open());
    let set = |value: &str| {
        database.run(&format!(
            "ALTER DATABASE {} SET default_transaction_read_only = {value}",
            database.name
        ));
    };
    set("on");
    let mut session = database.open();
    healing(session.store(&[declare("a", "{}")], CALM));
    healing(session.beat("here:1", CALM));
    assert_eq!(declared(&mut session), []);
}

#[test]
fn sessions_that_store_at_once_do_not_deadlock() {
    let database = Server::shared().database();
    drop(database.open());
    std::thread::scope(|scope| {
        for offset in 0..4 {
            let database = &database;
            scope.spawn(move || {
                let mut session = database.open();
                for round in 0..20 {
                    // The same queues in another order each time.
                    let batch: Vec<StoreItem> = (0..50)
                        .map(|number| (number * 7 + offset * 13 + round) % 50)
                        .map(|number| format!("queue-{number}"))
                        .map(|name| match (round + offset) % 3 {
                            0 => remove(&name),
                            _ => declare(&name, &format!("{{\"maxLength\":{round}}}")),
                        })
                        .collect();
                    session.store(&batch, CALM).expect("stored");
                }
            });
        }
    });
}

#[test]
fn a_session_that_is_ended_says_so_and_the_next_one_works() {
    let database = Server::shared().database();
    let mut session = database.open();
    let ended = "SELECT bool_and(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE application_name = 'queen' AND datname = current_database()";
    assert_eq!(database.value(ended), "true");
    // Which of the two is seen first, the server's last words or that it has hung up, is chance.
    let reason = away(session.store(&[declare("a", "{}")], CALM));
    let told = ["administrator command", "Broken pipe", "connection closed"];
    assert!(told.iter().any(|text| reason.contains(text)), "{reason}");
    assert_eq!(away(session.changes(None, &mut || true)), reason);
    let mut session = database.open();
    assert_eq!(session.store(&[declare("a", "{}")], CALM), Ok(()));
}
