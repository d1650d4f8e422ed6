//! The durable class as rows: what a broker loads of it, and the statements that store what was judged.
//! How the rows lie, why, and what keeps several brokers apart stands in `sql/0003_durable.sql`, how a
//! batch is stored in `sql/0011_commit.sql` and `sql/0012_epoch.sql`; the statements are in
//! `sql/durable/`.
//!
//! In reading order: `rows`, `load`, `marks`, `epoch`, `batch`, `groups`, `read`, `queues`, `retention`, `admin`,
//! `followers`.

mod admin;
mod batch;
mod epoch;
mod followers;
mod groups;
mod load;
mod marks;
mod queues;
mod read;
pub mod reads;
mod retention;
mod rows;

pub use admin::{GroupsChanged, LetterRow, Letters, LettersWanted};
pub(super) use epoch::Epoch;
pub use followers::DurableChanges;
pub use marks::{Mark, Marks, Ticket};
pub use retention::{Expired, ExpiredStep, Removed, RetainStep, Round};
pub use rows::{
    Batch, Committed, CursorRow, CursorState, CursorWrite, GroupRow, GroupStart, HashRow,
    NewDeadLetter, NewPartition, NewSegment, PartitionRow, QueueLoad, QueueRow, Range, SegmentRow,
    SpoolStep, Tail,
};

use tokio_postgres::{Client, Error, Statement};
use uuid::Uuid;

use crate::model::TenantId;

/// Held by whatever changes what a batch may have been judged on, so that it happens one after another.
/// The broker's own number, beside the one for changes of the schema; the functions of `sql/` have it too.
const BATCH_LOCK: i64 = 0x0071_7565_656e_0002;

/// The prepared statements of this folder.
pub(super) struct Statements {
    lock: Statement,
    reserve_ids: Statement,
    database_time: Statement,
    find_queue: Statement,
    partitions_of_queue: Statement,
    partitions: Statement,
    groups_of_queue: Statement,
    cursors_of_queue: Statement,
    cursors_of_partitions: Statement,
    cursors_of_group: Statement,
    find_group: Statement,
    insert_group: Statement,
    place_group: Statement,
    commit_batch: Statement,
    commit_appends: Statement,
    commit_moves: Statement,
    read_segments: Statement,
    read_hashes: Statement,
    save_queue: Statement,
    delete_queue: Statement,
    delete_groups: Statement,
    find_partition: Statement,
    discover_queues: Statement,
    sweep_leftovers: Statement,
    retain: Statement,
    remove_idle: Statement,
    expired: Statement,
    changes: Statement,
    last_change: Statement,
    forget_changes: Statement,
    note_queue: Statement,
    spool_position: Statement,
    find_home: Statement,
    find_leased: Statement,
    admin: admin::Statements,
}

/// Prepares a statement of `sql/durable/`, with what else ends it.
macro_rules! prepare {
    ($client:expr, $name:literal $(, $end:literal)?) => {
        $client
            .prepare(concat!(
                include_str!(concat!("../sql/durable/", $name, ".sql"))
                $(, $end)?
            ))
            .await?
    };
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Statements, Error> {
        Ok(Statements {
            lock: prepare!(client, "lock"),
            reserve_ids: prepare!(client, "reserve_ids"),
            database_time: prepare!(client, "database_time"),
            find_queue: prepare!(client, "find_queue"),
            partitions_of_queue: prepare!(client, "partitions", "WHERE stored.queue_id = $1"),
            partitions: prepare!(client, "partitions", "WHERE stored.id = ANY ($1::bigint[])"),
            groups_of_queue: prepare!(client, "groups_of_queue"),
            cursors_of_queue: prepare!(client, "cursors_of_queue"),
            cursors_of_partitions: prepare!(client, "cursors_of_partitions"),
            cursors_of_group: prepare!(client, "cursors_of_group"),
            find_group: prepare!(client, "find_group"),
            insert_group: prepare!(client, "insert_group"),
            place_group: prepare!(client, "place_group"),
            commit_batch: prepare!(client, "commit_batch"),
            commit_appends: prepare!(client, "commit_appends"),
            commit_moves: prepare!(client, "commit_moves"),
            read_segments: prepare!(client, "read_segments"),
            read_hashes: prepare!(client, "read_hashes"),
            save_queue: prepare!(client, "save_queue"),
            delete_queue: prepare!(client, "delete_queue"),
            delete_groups: prepare!(client, "delete_groups"),
            find_partition: prepare!(client, "find_partition"),
            discover_queues: prepare!(client, "discover_queues"),
            sweep_leftovers: prepare!(client, "sweep_leftovers"),
            retain: prepare!(client, "retain"),
            remove_idle: prepare!(client, "remove_idle"),
            expired: prepare!(client, "expired"),
            changes: prepare!(client, "changes"),
            last_change: prepare!(client, "last_change"),
            forget_changes: prepare!(client, "forget_changes"),
            spool_position: prepare!(client, "spool_position"),
            find_home: prepare!(client, "find_home"),
            find_leased: prepare!(client, "find_leased"),
            note_queue: client.prepare("SELECT queen.note_queue($1, $2)").await?,
            admin: admin::Statements::prepare(client).await?,
        })
    }
}

fn uuid_of(tenant: TenantId) -> Uuid {
    Uuid::from_u128(tenant.as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_take_the_same_lock() {
        let taken = format!("pg_advisory_xact_lock({BATCH_LOCK})");
        for (schema, times) in [
            (include_str!("../sql/0008_idle.sql"), 1),
            (include_str!("../sql/0011_commit.sql"), 1),
            (include_str!("../sql/0012_epoch.sql"), 2),
        ] {
            assert_eq!(schema.matches("advisory_xact_lock").count(), times);
            assert_eq!(schema.matches(&taken).count(), times, "{taken}");
        }
    }
}
