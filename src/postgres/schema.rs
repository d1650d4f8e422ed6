//! Checks a server and brings the schema `queen` up to date: numbered migrations, applied once.

use std::fmt::Write as _;

use tokio_postgres::{Client, Error};

use super::fault::text_of;
use super::{ServerRules, SessionFault};
use crate::limits::SESSION_MIGRATE_MS;

/// One step of the schema; the numbers go up from 1 without a gap.
struct Migration {
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; 12] = [
    Migration {
        name: "ephemeral",
        sql: include_str!("sql/0001_ephemeral.sql"),
    },
    Migration {
        name: "broker",
        sql: include_str!("sql/0002_broker.sql"),
    },
    Migration {
        name: "durable",
        sql: include_str!("sql/0003_durable.sql"),
    },
    Migration {
        name: "administration",
        sql: include_str!("sql/0004_administration.sql"),
    },
    Migration {
        name: "followers",
        sql: include_str!("sql/0005_followers.sql"),
    },
    Migration {
        name: "outage",
        sql: include_str!("sql/0006_outage.sql"),
    },
    Migration {
        name: "retention",
        sql: include_str!("sql/0007_retention.sql"),
    },
    Migration {
        name: "idle",
        sql: include_str!("sql/0008_idle.sql"),
    },
    Migration {
        name: "commit",
        sql: include_str!("sql/0009_commit.sql"),
    },
    Migration {
        name: "sweep",
        sql: include_str!("sql/0010_sweep.sql"),
    },
    Migration {
        name: "commit in parts",
        sql: include_str!("sql/0011_commit.sql"),
    },
    Migration {
        name: "epoch",
        sql: include_str!("sql/0012_epoch.sql"),
    },
];

/// The number of the newest migration that this broker knows.
const NEWEST: i32 = MIGRATIONS.len() as i32;

const MIGRATION_TABLE: &str = include_str!("sql/migration_table.sql");
/// Asked of the catalogue itself: `to_regclass` may still answer from before the wait for the lock.
const IS_THERE: &str = "SELECT EXISTS (
  SELECT FROM pg_catalog.pg_class AS class
  JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
  WHERE namespace.nspname = 'queen' AND class.relname = 'migration'
)";
const SERVER: &str = include_str!("sql/server.sql");

/// The oldest server that has all that the statements use: PostgreSQL 12.
const VERSION_MIN: i32 = 120_000;

/// Held while the schema is changed: brokers that start at once take turns. The number is the broker's
/// own, among the advisory locks of its database.
const LOCK: i64 = 0x0071_7565_656e_0001;

fn away(error: Error) -> SessionFault {
    SessionFault::away(text_of(&error))
}

/// Whether the server may be used at all.
///
/// # Errors
/// `Refused` where it must not be, `Away` where it cannot be asked.
pub(super) async fn check_server(client: &Client, rules: &ServerRules) -> Result<(), SessionFault> {
    let row = client.query_one(SERVER, &[]).await.map_err(away)?;
    let version: i32 = row.try_get("version").map_err(away)?;
    let encoding: String = row.try_get("encoding").map_err(away)?;
    let fsync: bool = row.try_get("fsync").map_err(away)?;
    if version < VERSION_MIN {
        return Err(SessionFault::refused(format!(
            "PostgreSQL {} is too old: the broker needs version {} or newer",
            version / 10_000,
            VERSION_MIN / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(SessionFault::refused(format!(
            "the database has the encoding {encoding}: the broker needs one that was created with \
             ENCODING 'UTF8'"
        )));
    }
    if !fsync && !rules.allow_fsync_off {
        return Err(SessionFault::refused(
            "PostgreSQL runs with fsync = off: what it has confirmed may be lost in a crash; set fsync = \
             on, or allow it with QUEEN_ALLOW_FSYNC_OFF",
        ));
    }
    Ok(())
}

/// Applies the migrations that are missing.
///
/// # Errors
/// `Refused` where the schema is newer than this broker or not its own; `Away` where an operator or
/// time can help.
pub(super) async fn bring_up_to_date(client: &Client) -> Result<(), SessionFault> {
    let found = newest(client).await?;
    if found == NEWEST {
        return Ok(());
    }
    let row = client.query_one("SHOW transaction_read_only", &[]);
    let read_only: String = row.await.map_err(away)?.try_get(0).map_err(away)?;
    if read_only == "on" {
        return Err(SessionFault::away(format!(
            "the database has {} of the schema queen and needs version {NEWEST}, but this server only \
             reads: connect a broker to the primary once",
            match found {
                0 => "nothing".to_owned(),
                found => format!("version {found}"),
            }
        )));
    }
    let changed = change(client).await;
    if changed.is_err() {
        // What has failed is reported; without a connection there is nothing to roll back either.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    changed
}

/// The number of the newest migration in the database; 0 without any.
async fn newest(client: &Client) -> Result<i32, SessionFault> {
    let row = client.query_one(IS_THERE, &[]).await.map_err(away)?;
    if !row.try_get::<_, bool>(0).map_err(away)? {
        return Ok(0);
    }
    let number = "SELECT coalesce(max(number), 0)::integer FROM queen.migration";
    let row = client.query_one(number, &[]).await.map_err(of_look)?;
    let found: i32 = row.try_get(0).map_err(away)?;
    if found > NEWEST {
        return Err(SessionFault::refused(format!(
            "the database has version {found} of the schema queen, and this broker knows versions up to \
             {NEWEST}: start a newer broker, or use another database"
        )));
    }
    Ok(found)
}

/// The missing migrations in one transaction.
async fn change(client: &Client) -> Result<(), SessionFault> {
    let begin = format!(
        "BEGIN; SET LOCAL statement_timeout = {SESSION_MIGRATE_MS}; \
         SET LOCAL lock_timeout = {SESSION_MIGRATE_MS}; SELECT pg_advisory_xact_lock({LOCK})"
    );
    client.batch_execute(&begin).await.map_err(of_change)?;
    // Another broker may have been here while this one waited.
    let found = newest(client).await?;
    let missing = usize::try_from(found).unwrap_or(0);
    let mut sql = MIGRATION_TABLE.to_owned();
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(missing) {
        let (number, name) = (at + 1, migration.name);
        sql.push_str(migration.sql);
        write!(
            sql,
            "INSERT INTO queen.migration (number, name) VALUES ({number}, '{name}');"
        )
        .expect("a String takes everything");
    }
    sql.push_str("COMMIT");
    client.batch_execute(&sql).await.map_err(of_change)?;
    if missing < MIGRATIONS.len() {
        tracing::info!(from = found, to = NEWEST, "the schema queen is up to date");
    }
    Ok(())
}

/// What a failed look at the schema means.
fn of_look(error: Error) -> SessionFault {
    let text = text_of(&error);
    match is_of_another_shape(&error) {
        true => not_as_left(&text),
        false => SessionFault::away(text),
    }
}

/// What a failed change of the schema means.
fn of_change(error: Error) -> SessionFault {
    let text = text_of(&error);
    if is_of_another_shape(&error) {
        return not_as_left(&text);
    }
    match error.code().map(|code| code.code()) {
        Some("42501") => SessionFault::away(format!(
            "the broker's user must not create its schema: {text}; an operator can help with GRANT CREATE \
             ON DATABASE, or with CREATE SCHEMA queen AUTHORIZATION"
        )),
        _ => SessionFault::away(format!(
            "the schema queen was not brought up to date: {text}"
        )),
    }
}

/// Whether tables, functions or columns are there already, are missing, or are of another type or kind
/// (PostgreSQL's manual, appendix "Error Codes").
fn is_of_another_shape(error: &Error) -> bool {
    let shapes = [
        "42P07", "42723", "42710", "42701", "42P06", "42P01", "42703", "42804", "42809", "42846",
        "42883", "22P02",
    ];
    let code = error.code().map(|code| code.code());
    code.is_some_and(|code| shapes.contains(&code))
}

fn not_as_left(text: &str) -> SessionFault {
    SessionFault::refused(format!(
        "the schema queen is not as a broker has left it: {text}; use another database, or remove what \
         stands in the way"
    ))
}
