//! Dead letters: found to be pushed once more, and thrown away.

use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::groups::count;
use crate::limits::{LETTER_STEP_BYTES, LETTER_STEP_ROWS, SESSION_STATEMENT_MS};
use crate::model::TenantId;
use crate::model::durable::{Address, DEFAULT_PARTITION, LetterFilter};
use crate::postgres::durable::batch::storable;
use crate::postgres::durable::{BATCH_LOCK, uuid_of};
use crate::postgres::patience::Patience;
use crate::postgres::{Session, SessionFault};

/// Dead letters that are looked for.
#[derive(Clone, Copy, Debug)]
pub enum LettersWanted<'a> {
    /// One by its id.
    One(i64),
    /// The newest of a message.
    Newest(&'a Address),
    /// The oldest that are meant, as many as one commit takes.
    Meant(&'a LetterFilter),
}

/// Dead letters that were found.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    /// Oldest first.
    pub rows: Vec<LetterRow>,
    /// Whether there are more of them.
    pub more: bool,
}

/// A dead letter.
#[derive(Clone, Debug)]
pub struct LetterRow {
    /// Its id.
    pub id: i64,
    /// Its queue.
    pub queue: Box<str>,
    /// The name of its partition.
    pub partition: Box<str>,
    /// The partition's id.
    pub partition_id: i64,
    /// Its offset there.
    pub offset: i64,
    /// Who gave it up.
    pub group: Box<str>,
    /// The message as a segment of one.
    pub record: Bytes,
}

/// Whose letters, and which.
struct Meant<'a> {
    owner: uuid::Uuid,
    filter: &'a LetterFilter,
}

impl Meant<'_> {
    fn values(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.owner,
            &self.filter.queue,
            &self.filter.group,
            &self.filter.partition,
            &self.filter.from_us,
            &self.filter.to_us,
            &LETTER_STEP_ROWS,
        ]
    }
}

impl Session {
    /// Dead letters of a tenant. Of those that a filter means the oldest, at most
    /// [`LETTER_STEP_ROWS`] and, but for the first, [`LETTER_STEP_BYTES`].
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn find_letters(
        &mut self,
        tenant: TenantId,
        wanted: LettersWanted<'_>,
    ) -> Result<Letters, SessionFault> {
        let owner = uuid_of(tenant);
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        self.run(&patience, &mut || true, async |line, statements| {
            let (client, admin) = (&line.client, &statements.durable.admin);
            let rows = match wanted {
                LettersWanted::One(id) => client.query(&admin.find_letter, &[&owner, &id]).await?,
                LettersWanted::Newest(address) => {
                    let Some(partition_id) = address.partition_id else {
                        return Ok(Letters::default());
                    };
                    let id = storable(&address.transaction_id);
                    let values: [&(dyn ToSql + Sync); 3] = [&owner, &partition_id, &id];
                    client.query(&admin.newest_letter, &values).await?
                }
                LettersWanted::Meant(filter) => {
                    let meant = Meant { owner, filter };
                    let mut values = meant.values().to_vec();
                    values.push(&LETTER_STEP_BYTES);
                    client.query(&admin.find_letters, &values).await?
                }
            };
            let is_step = matches!(wanted, LettersWanted::Meant(_));
            let meant = match rows.first().filter(|_| is_step) {
                Some(row) => count(row, "meant")?,
                None => 0,
            };
            let rows = rows.iter().map(letter_of).collect::<Result<Vec<_>, _>>()?;
            Ok(Letters {
                more: meant > rows.len() as u64,
                rows,
            })
        })
    }

    /// Throws all dead letters of a message away; how many there were.
    ///
    /// # Errors
    /// `Write`: nothing has changed. `Away`: it is not known; it may be done again.
    pub fn discard_letters_of(
        &mut self,
        tenant: TenantId,
        address: &Address,
    ) -> Result<u64, SessionFault> {
        let Some(partition_id) = address.partition_id else {
            return Ok(0);
        };
        let (owner, id) = (uuid_of(tenant), storable(&address.transaction_id));
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            let statements = &statements.durable;
            client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
            let values: [&(dyn ToSql + Sync); 3] = [&owner, &partition_id, &id];
            let discard = &statements.admin.discard_letters_of;
            client.execute(discard, &values).await
        })
    }

    /// Throws the oldest dead letters away that are meant, at most [`LETTER_STEP_ROWS`]; how many they
    /// were, and whether there are more of them.
    ///
    /// # Errors
    /// As [`Session::discard_letters_of`].
    pub fn discard_letters(
        &mut self,
        tenant: TenantId,
        filter: &LetterFilter,
    ) -> Result<(u64, bool), SessionFault> {
        let owner = uuid_of(tenant);
        let meant = Meant { owner, filter };
        let timeout = Duration::from_millis(SESSION_STATEMENT_MS);
        self.write(timeout, async |client, statements| {
            let statements = &statements.durable;
            client.execute(&statements.lock, &[&BATCH_LOCK]).await?;
            let discard = &statements.admin.discard_letters;
            let row = client.query_one(discard, &meant.values()).await?;
            let (gone, meant) = (count(&row, "gone")?, count(&row, "meant")?);
            Ok((gone, meant > gone))
        })
    }
}

fn letter_of(row: &Row) -> Result<LetterRow, Error> {
    let partition: Option<Box<str>> = row.try_get("partition")?;
    Ok(LetterRow {
        id: row.try_get("id")?,
        queue: row.try_get("queue")?,
        // A partition that is gone has left its letters behind.
        partition: partition.unwrap_or_else(|| DEFAULT_PARTITION.into()),
        partition_id: row.try_get("partition_id")?,
        offset: row.try_get("message_offset")?,
        group: row.try_get("group_name")?,
        record: Bytes::copy_from_slice(row.try_get("record")?),
    })
}
