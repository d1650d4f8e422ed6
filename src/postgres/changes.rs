//! What has changed in the database: declarations, grants and the operator's switch.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, IsolationLevel, Row, Statement, Transaction};
use uuid::Uuid;

use super::patience::Patience;
use crate::limits::LOAD_STEP_ROWS;
use crate::model::{Declaration, Grant, TenantId};

/// What has changed, or everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// To be named in the next question.
    pub revision: u64,
    /// Whether `declared` holds everything: what is not in it is not declared.
    pub complete: bool,
    /// Declared queues, the changed ones or all.
    pub declared: Vec<Declaration>,
    /// Queues that are not declared any more; empty where `complete`.
    pub removed: Vec<(TenantId, String)>,
    /// All grants, always.
    pub grants: Vec<(TenantId, Grant)>,
    /// The operator's switch of the class.
    pub ephemeral_enabled: bool,
}

/// The prepared statements of this file.
pub(super) struct Questions {
    state: Statement,
    all_queues: Statement,
    changed_queues: Statement,
    removed_queues: Statement,
    grants: Statement,
}

impl Questions {
    pub(super) async fn prepare(client: &Client) -> Result<Questions, Error> {
        Ok(Questions {
            state: client.prepare(include_str!("sql/state.sql")).await?,
            all_queues: client.prepare(include_str!("sql/all_queues.sql")).await?,
            changed_queues: client
                .prepare(include_str!("sql/changed_queues.sql"))
                .await?,
            removed_queues: client
                .prepare(include_str!("sql/removed_queues.sql"))
                .await?,
            grants: client.prepare(include_str!("sql/grants.sql")).await?,
        })
    }

    /// The revision of now.
    pub(super) async fn revision(&self, client: &Client) -> Result<u64, Error> {
        let row = client.query_one(&self.state, &[]).await?;
        Ok(unsigned(row.try_get("revision")?))
    }

    /// Everything since `known` in one snapshot, in steps; each is progress.
    pub(super) async fn load(
        &self,
        client: &mut Client,
        known: Option<u64>,
        patience: &Patience,
    ) -> Result<Changes, Error> {
        let snapshot = client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await?;
        let state = snapshot.query_one(&self.state, &[]).await?;
        let revision = unsigned(state.try_get("revision")?);
        let purged = unsigned(state.try_get("purged")?);
        // A revision of the future is of another past: the database was put back.
        let since = known.filter(|known| *known >= purged && *known <= revision);
        let mut changes = Changes {
            revision,
            complete: since.is_none(),
            declared: Vec::new(),
            removed: Vec::new(),
            grants: Vec::new(),
            ephemeral_enabled: state.try_get("ephemeral_enabled")?,
        };
        let mut declare = |row: &Row| {
            changes.declared.push(Declaration {
                tenant: tenant_of(row)?,
                queue: row.try_get("queue")?,
                options: row.try_get("options")?,
            });
            Ok(())
        };
        let reading = Reading::new(&snapshot, patience);
        match since {
            None => reading.each(&self.all_queues, &[], &mut declare).await?,
            Some(since) => {
                let since = since.cast_signed();
                let (changed, removed) = (&self.changed_queues, &self.removed_queues);
                reading.each(changed, &[&since], &mut declare).await?;
                let mut remove = |row: &Row| {
                    changes
                        .removed
                        .push((tenant_of(row)?, row.try_get("queue")?));
                    Ok(())
                };
                reading.each(removed, &[&since], &mut remove).await?;
            }
        }
        let mut grant = |row: &Row| {
            changes.grants.push((tenant_of(row)?, grant_of(row)?));
            Ok(())
        };
        reading.each(&self.grants, &[], &mut grant).await?;
        snapshot.commit().await?;
        Ok(changes)
    }
}

/// A snapshot that is read in steps.
pub(super) struct Reading<'a> {
    snapshot: &'a Transaction<'a>,
    patience: &'a Patience,
}

impl<'a> Reading<'a> {
    pub(super) fn new(snapshot: &'a Transaction<'a>, patience: &'a Patience) -> Reading<'a> {
        Reading { snapshot, patience }
    }

    pub(super) async fn each(
        &self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
        take: &mut dyn FnMut(&Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let portal = self.snapshot.bind(statement, values).await?;
        loop {
            let rows = self.snapshot.query_portal(&portal, LOAD_STEP_ROWS).await?;
            self.patience.progress();
            rows.iter().try_for_each(&mut *take)?;
            if rows.len() < LOAD_STEP_ROWS as usize {
                return Ok(());
            }
        }
    }

    /// Appends all rows, as they are read.
    pub(super) async fn read_all<T>(
        &self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
        rows: &mut Vec<T>,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<(), Error> {
        let mut take = |row: &Row| {
            rows.push(read(row)?);
            Ok(())
        };
        self.each(statement, values, &mut take).await
    }
}

fn tenant_of(row: &Row) -> Result<TenantId, Error> {
    let tenant: Uuid = row.try_get("tenant")?;
    Ok(TenantId::from_u128(tenant.as_u128()))
}

fn grant_of(row: &Row) -> Result<Grant, Error> {
    let bound = |name: &str| {
        row.try_get::<_, Option<i64>>(name)
            .map(|bound| bound.map(unsigned))
    };
    Ok(Grant {
        enabled: row.try_get("enabled")?,
        max_bytes: bound("max_bytes")?,
        max_queues: bound("max_queues")?,
        messages_per_second: bound("max_messages_per_second")?,
    })
}

/// A number that the schema keeps at 0 or above.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
