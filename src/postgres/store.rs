//! Stores what clients declare and remove, a batch in a constant number of statements.

use std::collections::BTreeMap;

use tokio_postgres::{Client, Error, Statement};
use uuid::Uuid;

use crate::model::{Declaration, TenantId};

/// One change of what is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreItem {
    /// The queue is declared with these options from now on.
    Declare(Declaration),
    /// The queue is not declared any more.
    Remove {
        /// Whose queue it is.
        tenant: TenantId,
        /// The queue.
        queue: String,
    },
}

impl StoreItem {
    fn key(&self) -> (TenantId, &str) {
        match self {
            StoreItem::Declare(declaration) => (declaration.tenant, &declaration.queue),
            StoreItem::Remove { tenant, queue } => (*tenant, queue),
        }
    }

    /// The options that it leaves behind.
    fn options(&self) -> Option<&str> {
        match self {
            StoreItem::Declare(declaration) => Some(&declaration.options),
            StoreItem::Remove { .. } => None,
        }
    }
}

/// Taken before anything is looked at, so that nothing changes between the look and the change, and
/// nobody waits for somebody who waits in turn.
const LOCK: &str = "SELECT FROM queen.revision FOR UPDATE";

/// The prepared statements of this file.
pub(super) struct Orders {
    lock: Statement,
    compare: Statement,
    declare: Statement,
    remove: Statement,
}

/// The queues of a batch, each once, as arrays of the same length.
#[derive(Default)]
struct Columns<'a> {
    tenants: Vec<Uuid>,
    queues: Vec<&'a str>,
    options: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, (tenant, queue): (TenantId, &'a str), options: Option<&'a str>) {
        self.tenants.push(Uuid::from_u128(tenant.as_u128()));
        self.queues.push(queue);
        self.options.push(options);
    }
}

impl Orders {
    pub(super) async fn prepare(client: &Client) -> Result<Orders, Error> {
        Ok(Orders {
            lock: client.prepare(LOCK).await?,
            compare: client.prepare(include_str!("sql/compare.sql")).await?,
            declare: client.prepare(include_str!("sql/declare.sql")).await?,
            remove: client.prepare(include_str!("sql/remove.sql")).await?,
        })
    }

    /// Stores the batch within the transaction of the client. What is as it should be already is not
    /// written, so that a client that declares its queues at each start changes nothing.
    pub(super) async fn store(&self, client: &Client, items: &[StoreItem]) -> Result<(), Error> {
        // The last one of a queue wins.
        let wanted: BTreeMap<(TenantId, &str), Option<&str>> = items
            .iter()
            .map(|item| (item.key(), item.options()))
            .collect();
        let mut asked = Columns::default();
        for (&key, &options) in &wanted {
            asked.push(key, options);
        }
        client.execute(&self.lock, &[]).await?;
        let rows = client
            .query(
                &self.compare,
                &[&asked.tenants, &asked.queues, &asked.options],
            )
            .await?;
        let mut is_same: Vec<Option<bool>> = vec![None; wanted.len()];
        for row in &rows {
            let place: i64 = row.try_get("place")?;
            let place = usize::try_from(place - 1).expect("the places of an array begin at 1");
            is_same[place] = Some(row.try_get::<_, Option<bool>>("is_same")?.unwrap_or(false));
        }
        let (mut declared, mut removed) = (Columns::default(), Columns::default());
        for ((&key, &options), stored) in wanted.iter().zip(is_same) {
            match (options, stored) {
                (Some(_), Some(true)) | (None, None) => {}
                (Some(_), _) => declared.push(key, options),
                (None, Some(_)) => removed.push(key, None),
            }
        }
        if !removed.queues.is_empty() {
            client
                .execute(&self.remove, &[&removed.tenants, &removed.queues])
                .await?;
        }
        if !declared.queues.is_empty() {
            client
                .execute(
                    &self.declare,
                    &[&declared.tenants, &declared.queues, &declared.options],
                )
                .await?;
        }
        Ok(())
    }
}
