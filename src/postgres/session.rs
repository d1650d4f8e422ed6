//! One connection to the server: opened, asked, given up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error, Statement};

use super::changes::{Changes, Questions};
use super::dial::{Line, dial};
use super::durable;
use super::fault::text_of;
use super::patience::{Patience, Unfinished};
use super::schema::{bring_up_to_date, check_server};
use super::store::{Orders, StoreItem};
use super::{SessionFault, Target};
use crate::limits::{
    BROKER_KEPT_S, BROKER_SEEN_S, PURGE_STEP_ROWS, REMOVED_KEPT_S, SESSION_CANCEL_MS,
    SESSION_CONNECT_MS, SESSION_IDLE_MS, SESSION_LOAD_STALL_MS, SESSION_LOCK_MS, SESSION_MARGIN_MS,
    SESSION_MIGRATE_MS, SESSION_STATEMENT_MS,
};

/// What is asked of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerRules {
    /// Whether a server with `fsync = off` may be used.
    pub allow_fsync_off: bool,
}

/// Said where a commit is on the server's disk, but its wait for a standby was ended.
const UNCONFIRMED: &str = "PostgreSQL was told to wait for a standby no longer: whether one has what was stored is not known";

/// Said of what the caller did not wait for.
const BROKEN_OFF: &str = "the broker stops and waits for PostgreSQL no longer";

/// One connection. All calls block, each within its bound whatever the server does. After a fault of
/// the kind `Away` every call answers `Away`: open another one, which begins with
/// `changes(None, ...)`, as it may have reached another server.
pub struct Session {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    line: Line,
    statements: Statements,
    incarnation: String,
    /// Where the partitions end that this session has appended to.
    pub(super) epoch: durable::Epoch,
    /// Where what it changes is noted.
    pub(super) marks: Arc<durable::Marks>,
    /// Why there is no connection any more.
    over: Option<String>,
}

/// What is prepared once.
pub(super) struct Statements {
    pub(super) durable: durable::Statements,
    questions: Questions,
    orders: Orders,
    switch: Statement,
    beat: Statement,
    is_purge_due: Statement,
    purge: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Result<Statements, Error> {
        Ok(Statements {
            durable: durable::Statements::prepare(client).await?,
            questions: Questions::prepare(client).await?,
            orders: Orders::prepare(client).await?,
            switch: client.prepare(include_str!("sql/switch.sql")).await?,
            beat: client.prepare(include_str!("sql/beat.sql")).await?,
            is_purge_due: client.prepare(include_str!("sql/is_purge_due.sql")).await?,
            purge: client.prepare(include_str!("sql/purge.sql")).await?,
        })
    }
}

impl Session {
    /// Connects, checks the server, and brings the schema up to date. `incarnation` is this run of
    /// the broker. `waiting` is asked at least every 50 ms whether to go on.
    ///
    /// Bounds: for each host [`SESSION_CONNECT_MS`], once more where `sslmode` says to try again
    /// without TLS or with it; [`SESSION_STATEMENT_MS`] for what is asked of the server; and
    /// [`SESSION_MIGRATE_MS`] for the schema.
    ///
    /// # Errors
    /// `Away` or `Refused`.
    pub fn open(
        target: &Target,
        rules: &ServerRules,
        incarnation: &str,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Session, SessionFault> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|fault| SessionFault::away(format!("no runtime for a session: {fault}")))?;
        let opened = runtime.block_on(open(target, rules, incarnation, waiting));
        match opened {
            Ok((line, statements)) => Ok(Session {
                runtime: Some(runtime),
                line,
                statements,
                incarnation: incarnation.to_owned(),
                epoch: durable::Epoch::default(),
                marks: Arc::default(),
                over: None,
            }),
            Err(fault) => {
                // The look-up of a name may hang; nobody waits for it.
                runtime.shutdown_background();
                Err(fault)
            }
        }
    }

    /// Notes from now on what it changes for the durable class.
    pub fn note_changes(&mut self, marks: &Arc<durable::Marks>) {
        self.marks = Arc::clone(marks);
    }

    /// What has changed since the revision `known`; `None` when nothing has. Without `known`
    /// everything. One consistent snapshot. `waiting` is asked at least every 50 ms whether to go on.
    ///
    /// Bounds: [`SESSION_STATEMENT_MS`] for the question, [`SESSION_LOAD_STALL_MS`] without a further
    /// row.
    ///
    /// # Errors
    /// `Away`, or `Write` when a statement failed.
    pub fn changes(
        &mut self,
        known: Option<u64>,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Changes>, SessionFault> {
        if known.is_some() {
            let patience = Patience::of_ms(SESSION_STATEMENT_MS);
            let now = self.run(&patience, waiting, async |line, statements| {
                statements.questions.revision(&line.client).await
            })?;
            if Some(now) == known {
                return Ok(None);
            }
        }
        let patience = Patience::of_ms(SESSION_LOAD_STALL_MS);
        let changes = self.run(&patience, waiting, async |line, statements| {
            let questions = &statements.questions;
            questions.load(&mut line.client, known, &patience).await
        })?;
        Ok(Some(changes))
    }

    /// Stores a batch in one transaction, as if item by item in order.
    ///
    /// # Errors
    /// `Write`: nothing was stored. `Away`: it is not known whether the batch was stored; it may be
    /// stored again.
    pub fn store(&mut self, items: &[StoreItem], timeout: Duration) -> Result<(), SessionFault> {
        if items.is_empty() {
            return Ok(());
        }
        self.write(timeout, async |client, statements| {
            statements.orders.store(client, items).await
        })
    }

    /// Sets the operator's switch of the ephemeral class for all brokers.
    ///
    /// # Errors
    /// As [`Session::store`].
    pub fn set_ephemeral_enabled(
        &mut self,
        enabled: bool,
        timeout: Duration,
    ) -> Result<(), SessionFault> {
        self.write(timeout, async |client, statements| {
            client.execute(&statements.switch, &[&enabled]).await?;
            Ok(())
        })
    }

    /// Says that this broker lives, under a name such as its host and port; answers with the names of
    /// others that were seen lately. Forgets brokers and removals of long ago. As it writes, it also
    /// finds out whether the server can.
    ///
    /// # Errors
    /// As [`Session::store`].
    pub fn beat(&mut self, name: &str, timeout: Duration) -> Result<Vec<String>, SessionFault> {
        let incarnation = self.incarnation.clone();
        self.write(timeout, async |client, statements| {
            let (seen, kept) = (f64::from(BROKER_SEEN_S), f64::from(BROKER_KEPT_S));
            let rows = client
                .query(&statements.beat, &[&incarnation, &name, &seen, &kept])
                .await?;
            let kept = f64::from(REMOVED_KEPT_S);
            let oldest = client.query_opt(&statements.is_purge_due, &[&kept]).await?;
            let is_due = oldest.map(|row| row.try_get("is_due")).transpose()?;
            if is_due == Some(true) {
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
                    [&kept, &PURGE_STEP_ROWS];
                client.execute(&statements.purge, &values).await?;
            }
            rows.iter().map(|row| row.try_get("name")).collect()
        })
    }

    /// One transaction within a time.
    pub(super) fn write<T>(
        &mut self,
        timeout: Duration,
        work: impl AsyncFnOnce(&Client, &Statements) -> Result<T, Error>,
    ) -> Result<T, SessionFault> {
        let patience = Patience::of(timeout);
        self.run(&patience, &mut || true, async |line, statements| {
            let client = &line.client;
            let begun = client.batch_execute(&begin(timeout)).await;
            let done = match begun {
                Ok(()) => work(client, statements).await,
                Err(error) => Err(error),
            };
            // A commit that waits for a standby must not be taken for done when the server's own
            // timeout ends the wait: only the broker's bound holds here.
            let ended = match &done {
                Ok(_) => {
                    client
                        .batch_execute("SET LOCAL statement_timeout = 0; COMMIT")
                        .await
                }
                Err(_) => client.batch_execute("ROLLBACK").await,
            };
            match (done, ended) {
                (Ok(value), Ok(())) => Ok(value),
                (Ok(_), Err(error)) => {
                    client.batch_execute("ROLLBACK").await?;
                    Err(error)
                }
                (Err(error), _) => Err(error),
            }
        })
    }

    /// Runs some work within its bound. When the time is over, the server is asked to cancel, and the
    /// session is given up. So it is when the server did not wait for a standby to the end: whoever
    /// cancelled that, the commit is not what it was asked for.
    pub(super) fn run<T>(
        &mut self,
        patience: &Patience,
        waiting: &mut dyn FnMut() -> bool,
        work: impl AsyncFnOnce(&mut Line, &Statements) -> Result<T, Error>,
    ) -> Result<T, SessionFault> {
        if let Some(reason) = &self.over {
            return Err(SessionFault::away(reason.clone()));
        }
        let runtime = self.runtime.as_ref().expect("it is not being dropped");
        let (line, statements) = (&mut self.line, &self.statements);
        let token = line.client.cancel_token();
        let outcome = runtime.block_on(async {
            match patience.bound(work(line, statements), waiting).await {
                Ok(Ok(_)) if line.is_unconfirmed() => Err(SessionFault::away(UNCONFIRMED)),
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) if error.as_db_error().is_none() => Err(line.reason(&error).await),
                Ok(Err(error)) => Err(SessionFault::of_statement(&error)),
                Err(end) => {
                    let cancel = Line::cancel(token, line.connector());
                    // Whether it is done is not waited for for long, and changes nothing.
                    let _ = Patience::of_ms(SESSION_CANCEL_MS)
                        .bound(cancel, waiting)
                        .await;
                    Err(SessionFault::away(match end {
                        Unfinished::BrokenOff => BROKEN_OFF.to_owned(),
                        Unfinished::Late => {
                            let limit_ms = patience.limit().as_millis();
                            format!("PostgreSQL did not answer within {limit_ms} ms")
                        }
                    }))
                }
            }
        });
        if let Err(SessionFault::Away { reason }) = &outcome {
            self.over = Some(reason.clone());
        }
        outcome
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The look-up of a name may hang; nobody waits for it.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// Begins a transaction whose statements the server itself ends shortly before the broker would.
fn begin(timeout: Duration) -> String {
    let limit_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let statement_ms = limit_ms.saturating_sub(SESSION_MARGIN_MS).max(limit_ms / 2);
    // What PostgreSQL takes for a setting ends at 2^31 - 1.
    let statement_ms = statement_ms.clamp(1, 1 << 30);
    let lock_ms = SESSION_LOCK_MS.min(statement_ms * 3 / 4).max(1);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {statement_ms}; \
         SET LOCAL lock_timeout = {lock_ms}"
    )
}

/// The way from nothing to a session.
async fn open(
    target: &Target,
    rules: &ServerRules,
    incarnation: &str,
    waiting: &mut dyn FnMut() -> bool,
) -> Result<(Line, Statements), SessionFault> {
    let tries = 2 * u64::try_from(target.endpoints.len()).expect("a few");
    // Every try has its own bound; this one is for what is between them.
    let patience = Patience::of_ms(tries * SESSION_CONNECT_MS + SESSION_MARGIN_MS);
    let dialed = patience.bound(dial(target), waiting).await;
    let hangs = |end: Unfinished, what: &str| {
        SessionFault::away(match end {
            Unfinished::BrokenOff => BROKEN_OFF.to_owned(),
            Unfinished::Late => format!("PostgreSQL at {target} did not answer in time: {what}"),
        })
    };
    let line = dialed
        .map_err(|end| hangs(end, "the connection"))?
        .map_err(SessionFault::away)?;
    let client = &line.client;
    Patience::of_ms(SESSION_STATEMENT_MS)
        .bound(
            async {
                set_up(client, incarnation).await?;
                check_server(client, rules).await
            },
            waiting,
        )
        .await
        .map_err(|end| hangs(end, "the first questions"))??;
    Patience::of_ms(SESSION_MIGRATE_MS + SESSION_MARGIN_MS)
        .bound(bring_up_to_date(client), waiting)
        .await
        .map_err(|end| hangs(end, "the change of its schema"))??;
    let prepared = Patience::of_ms(SESSION_STATEMENT_MS)
        .bound(Statements::prepare(client), waiting)
        .await
        .map_err(|end| hangs(end, "the preparation of statements"))?;
    let statements = prepared.map_err(|error| SessionFault::away(text_of(&error)))?;
    Ok((line, statements))
}

async fn set_up(client: &Client, incarnation: &str) -> Result<(), SessionFault> {
    let statement = (SESSION_STATEMENT_MS - SESSION_MARGIN_MS).to_string();
    let (lock, idle) = (SESSION_LOCK_MS.to_string(), SESSION_IDLE_MS.to_string());
    let away = |error: Error| SessionFault::away(text_of(&error));
    // By itself and first: a default of a few milliseconds would end whatever takes longer.
    let first = format!("SET statement_timeout = {statement}");
    client.batch_execute(&first).await.map_err(away)?;
    client
        .execute(
            include_str!("sql/session.sql"),
            &[&statement, &lock, &idle, &incarnation],
        )
        .await
        .map_err(away)?;
    Ok(())
}
