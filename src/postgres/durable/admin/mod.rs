//! What operators change: groups that go or move (`groups`), dead letters (`letters`), traces
//! (`traces`). The statements are in `sql/durable/admin/`. What a batch may have been judged on changes
//! under the lock of the batches.

mod groups;
mod letters;
mod traces;

pub use groups::GroupsChanged;
pub use letters::{LetterRow, Letters, LettersWanted};

use tokio_postgres::{Client, Error, Statement};

/// The prepared statements of this folder.
pub(in crate::postgres) struct Statements {
    delete_groups_named: Statement,
    reset_groups_named: Statement,
    partitions_meant: Statement,
    seek: Statement,
    set_group_start: Statement,
    find_letter: Statement,
    newest_letter: Statement,
    find_letters: Statement,
    discard_letters_of: Statement,
    discard_letters: Statement,
    record_trace: Statement,
}

/// Prepares a statement of `sql/durable/admin/`.
macro_rules! prepare {
    ($client:expr, $name:literal) => {
        $client
            .prepare(include_str!(concat!(
                "../../sql/durable/admin/",
                $name,
                ".sql"
            )))
            .await?
    };
}

impl Statements {
    pub(in crate::postgres) async fn prepare(client: &Client) -> Result<Statements, Error> {
        Ok(Statements {
            delete_groups_named: prepare!(client, "delete_groups_named"),
            reset_groups_named: prepare!(client, "reset_groups_named"),
            partitions_meant: prepare!(client, "partitions_meant"),
            seek: prepare!(client, "seek"),
            set_group_start: prepare!(client, "set_group_start"),
            find_letter: prepare!(client, "find_letter"),
            newest_letter: prepare!(client, "newest_letter"),
            find_letters: prepare!(client, "find_letters"),
            discard_letters_of: prepare!(client, "discard_letters_of"),
            discard_letters: prepare!(client, "discard_letters"),
            record_trace: prepare!(client, "record_trace"),
        })
    }
}
