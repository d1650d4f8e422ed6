//! What the durable class tells of itself: a session that only reads, apart from the one that stores, so
//! that a long look at many rows holds up nobody who pushes.
//!
//! In reading order: `queues`, `ledger`, `groups`, `messages`, `dead_letters`, `offsets`, `traces`; the statements are in
//! `sql/durable/reads/`.

mod dead_letters;
mod groups;
mod ledger;
mod messages;
mod offsets;
mod queues;
mod traces;

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

pub use ledger::Ledger;
pub use messages::{GivenUpAt, GroupState, MessagePartition};
pub use offsets::{FetchPlace, SegmentKey, SizeQuery};
pub use queues::{QueueQuery, QueueSums};

use crate::limits::{READ_STATEMENT_MS, SESSION_MARGIN_MS, SESSION_STATEMENT_MS};
use crate::model::TenantId;
use crate::postgres::patience::Patience;
use crate::postgres::{ServerRules, Session, SessionFault, Target};

/// A session that only reads. As with [`Session`], every call blocks within its bound.
#[derive(Debug)]
pub struct ReadSession {
    session: Session,
    /// Prepared when it is first asked for.
    statements: HashMap<&'static str, Statement>,
}

impl ReadSession {
    /// Connects. `waiting` is asked at least every 50 ms whether to go on.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open(
        target: &Target,
        rules: &ServerRules,
        incarnation: &str,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<ReadSession, SessionFault> {
        let mut session = Session::open(target, rules, incarnation, waiting)?;
        let patience = Patience::of_ms(SESSION_STATEMENT_MS);
        let statement_ms = (READ_STATEMENT_MS - SESSION_MARGIN_MS).to_string();
        session.run(&patience, waiting, async |line, _| {
            let set_up = include_str!("../../sql/durable/reads/session.sql");
            line.client.execute(set_up, &[&statement_ms]).await
        })?;
        Ok(ReadSession {
            session,
            statements: HashMap::new(),
        })
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn look(&mut self, waiting: &mut dyn FnMut() -> bool) -> Result<(), SessionFault> {
        self.ask("SELECT 1", &[], waiting).map(|_| ())
    }

    /// The database's time, in microseconds since 1970.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn now_us(&mut self, waiting: &mut dyn FnMut() -> bool) -> Result<i64, SessionFault> {
        let text = include_str!("../../sql/durable/database_time.sql");
        let rows = self.ask(text, &[], waiting)?;
        let row = rows.first().expect("a select without tables has a row");
        row.try_get(0).map_err(unreadable)
    }

    /// The rows of a statement.
    fn ask(
        &mut self,
        text: &'static str,
        values: &[&(dyn ToSql + Sync)],
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Row>, SessionFault> {
        let patience = Patience::of(Duration::from_millis(READ_STATEMENT_MS));
        let statements = &mut self.statements;
        self.session.run(&patience, waiting, async |line, _| {
            if !statements.contains_key(text) {
                let prepared = line.client.prepare(text).await?;
                statements.insert(text, prepared);
            }
            line.client.query(&statements[text], values).await
        })
    }
}

fn uuid_of(tenant: TenantId) -> Uuid {
    Uuid::from_u128(tenant.as_u128())
}

/// What a row lacks or has in another type: the schema is another one than this broker's.
fn unreadable(fault: tokio_postgres::Error) -> SessionFault {
    SessionFault::of_statement(&fault)
}

/// A time that is zero where there is none.
fn time_of(us: i64) -> Option<i64> {
    (us > 0).then_some(us)
}
