//! Stores a batch: one call of a function, one round trip.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Statement};

use super::epoch::Tails;
use super::{
    Batch, Committed, CursorWrite, Mark, NewDeadLetter, NewSegment, QueueRow, Statements, uuid_of,
};
use crate::limits::{
    BATCH_BYTES_LARGE, SESSION_BYTES_PER_MS, SESSION_MARGIN_MS, SESSION_STATEMENT_MS,
};
use crate::postgres::patience::Patience;
use crate::postgres::{Session, SessionFault};

/// What the function raises where something was written before it found out.
const STALE: &str = "QN001";

/// Which function stores a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Messages for partitions that are there, and nothing else.
    Appends,
    /// Places of groups, and nothing else.
    Moves,
    /// Anything.
    Any,
}

impl Form {
    fn of(batch: &Batch) -> Form {
        let has_more = !batch.queues.is_empty()
            || !batch.partitions.is_empty()
            || !batch.dead_letters.is_empty()
            || !batch.replayed_letters.is_empty()
            || batch.spooled.is_some();
        let appends = !batch.tails.is_empty() || !batch.segments.is_empty();
        match (has_more, appends, !batch.cursors.is_empty()) {
            (false, true, false) => Form::Appends,
            (false, false, true) => Form::Moves,
            _ => Form::Any,
        }
    }

    fn statement(self, statements: &Statements) -> &Statement {
        match self {
            Form::Appends => &statements.commit_appends,
            Form::Moves => &statements.commit_moves,
            Form::Any => &statements.commit_batch,
        }
    }
}

impl Session {
    /// Stores a batch, all of it or nothing; nothing if another broker has changed what it was judged
    /// on. It is on disk, and with a synchronous standby if the server has one, when this returns.
    ///
    /// Bound: [`SESSION_STATEMENT_MS`], and a millisecond for each [`SESSION_BYTES_PER_MS`] of a large
    /// batch.
    ///
    /// # Errors
    /// `Write`: nothing was stored. `Away`: it is not known whether the batch was stored.
    ///
    /// # Panics
    /// If something is appended to a partition that is neither new nor among the tails: nothing would
    /// keep brokers apart. Likewise if a cursor is there twice: it could not be stored at all.
    pub fn commit_batch(&mut self, batch: &Batch) -> Result<Committed, SessionFault> {
        assert_fenced(batch);
        if batch.is_empty() {
            return Ok(Committed::Stored);
        }
        let form = Form::of(batch);
        // Put back only where it is known what has become of this batch: an error forgets it.
        let epoch = std::mem::take(&mut self.epoch);
        let tails = epoch.unknown_first(&batch.tails);
        let columns = columns_of(batch, form, &tails);
        let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|one| &**one).collect();
        let more_ms = more_ms_for(batch);
        let patience = Patience::of_ms(SESSION_STATEMENT_MS + more_ms);
        let marks = Arc::clone(&self.marks);
        let commit = || {
            self.run(&patience, &mut || true, async |line, statements| {
                let client = &line.client;
                if more_ms > 0 {
                    client.batch_execute(&server_limit(more_ms)).await?;
                }
                // One statement by itself is a transaction, whose commit the server reports as its end:
                // this waits for that. Its own timeout holds for the statement only, not for the commit,
                // and whoever else ends a commit's wait for a standby is noticed by the line.
                let statement = form.statement(&statements.durable);
                assert_eq!(values.len(), statement.params().len(), "{form:?}");
                let called = client.query_one(statement, &values).await;
                if more_ms > 0 {
                    // What has become of the batch is known. Should this fail, the server's bound is wider
                    // than it need be, and the broker's own holds.
                    let _ = client.batch_execute(&server_limit(0)).await;
                }
                match called {
                    Ok(row) => row.try_get::<_, Option<i64>>("epoch"),
                    Err(error) if is_stale(&error) => Ok(None),
                    Err(error) => Err(error),
                }
            })
        };
        let stored = marks.noting(marks_of(batch), commit)?;
        self.epoch = epoch;
        let Some(number) = stored else {
            return Ok(Committed::Stale);
        };
        if form != Form::Moves {
            self.epoch.note(number, batch);
        }
        Ok(Committed::Stored)
    }
}

/// What a batch changes of what is listed.
fn marks_of(batch: &Batch) -> impl Iterator<Item = Mark> {
    let made = batch.partitions.iter().map(|row| Mark::Made {
        partition_id: row.id,
        queue_id: row.queue_id,
    });
    // Each has a tail to check, or is made.
    let appended = batch.tails.iter().map(|tail| tail.partition_id);
    let moved = batch.cursors.iter().map(|row| row.partition_id);
    made.chain(appended.chain(moved).map(Mark::Partition))
}

/// Milliseconds beyond those of any statement, where there is much to be stored.
fn more_ms_for(batch: &Batch) -> u64 {
    let segments = batch.segments.iter().map(|row| row.payload.len());
    let letters = batch.dead_letters.iter().map(|row| row.record.len());
    let bytes: usize = segments.chain(letters).sum();
    match u64::try_from(bytes) {
        Ok(bytes) if bytes >= BATCH_BYTES_LARGE => bytes / SESSION_BYTES_PER_MS,
        _ => 0,
    }
}

/// The server's own bound of a statement, in a round trip of its own.
fn server_limit(more_ms: u64) -> String {
    let limit_ms = SESSION_STATEMENT_MS - SESSION_MARGIN_MS + more_ms;
    format!("SET statement_timeout = {limit_ms}")
}

/// Whether another broker was faster: the function says so, or the server, where a cursor is there that
/// was not. Any other key that is taken is a fault of the database, and one that does not heal.
fn is_stale(error: &Error) -> bool {
    error.as_db_error().is_some_and(|fault| {
        let is_cursor = fault.constraint() == Some("durable_cursor_pkey");
        fault.code().code() == STALE || (*fault.code() == SqlState::UNIQUE_VIOLATION && is_cursor)
    })
}

fn assert_fenced(batch: &Batch) {
    let mut known: HashSet<i64> = batch.tails.iter().map(|tail| tail.partition_id).collect();
    known.extend(batch.partitions.iter().map(|partition| partition.id));
    for segment in &batch.segments {
        let id = segment.partition_id;
        assert!(known.contains(&id), "partition {id} has no tail to check");
    }
    let mut cursors = HashSet::with_capacity(batch.cursors.len());
    for cursor in &batch.cursors {
        let key = (cursor.group_id, cursor.partition_id);
        assert!(cursors.insert(key), "the cursor {key:?} is there twice");
    }
}

/// The parameters of the function, in its order.
struct Columns<'a>(Vec<Box<dyn ToSql + Sync + 'a>>);

impl<'a> Columns<'a> {
    fn push<R, V: ToSql + Sync + 'a>(&mut self, rows: &'a [R], value: impl Fn(&'a R) -> V) {
        let column: Vec<V> = rows.iter().map(value).collect();
        self.0.push(Box::new(column));
    }
}

fn columns_of<'a>(
    batch: &'a Batch,
    form: Form,
    tails: &'a Tails,
) -> Vec<Box<dyn ToSql + Sync + 'a>> {
    let mut columns = Columns(Vec::new());
    if form == Form::Any {
        push_queues(&mut columns, &batch.queues);
        columns.push(&batch.partitions, |row| row.id);
        columns.push(&batch.partitions, |row| row.queue_id);
        columns.push(&batch.partitions, |row| &*row.name);
        columns.push(&batch.partitions, |row| row.created_us);
    }
    if form != Form::Moves {
        push_appends(&mut columns, tails, &batch.segments);
    }
    if form != Form::Appends {
        push_cursors(&mut columns, &batch.cursors);
    }
    if form == Form::Any {
        push_dead_letters(&mut columns, &batch.dead_letters);
        columns.push(&batch.replayed_letters, |id| *id);
        let steps = batch.spooled.as_slice();
        columns.push(steps, |step| step.identity);
        columns.push(steps, |step| step.from);
        columns.push(steps, |step| step.to);
    }
    columns.0
}

fn push_queues<'a>(columns: &mut Columns<'a>, rows: &'a [QueueRow]) {
    columns.push(rows, |row| row.id);
    columns.push(rows, |row| uuid_of(row.tenant));
    columns.push(rows, |row| &*row.name);
    columns.push(rows, |row| &*row.namespace);
    columns.push(rows, |row| &*row.task);
    columns.push(rows, options_text);
    columns.push(rows, |row| row.created_us);
}

/// The options as they are stored.
pub(super) fn options_text(row: &QueueRow) -> String {
    serde_json::to_string(&row.options).expect("numbers, switches and text are JSON")
}

fn push_appends<'a>(columns: &mut Columns<'a>, tails: &'a Tails, rows: &'a [NewSegment]) {
    columns.push(&tails.unknown_first, |tail| tail.partition_id);
    columns.push(&tails.unknown_first, |tail| tail.next_offset);
    columns.0.push(Box::new(tails.unknown_count));
    columns.0.push(Box::new(tails.epoch));
    columns.push(rows, |row| row.partition_id);
    columns.push(rows, |row| row.base_offset);
    columns.push(rows, |row| row.created_us);
    columns.push(rows, |row| row.count);
    columns.push(rows, |row| &*row.hashes);
    columns.push(rows, |row| &*row.payload);
}

fn push_cursors<'a>(columns: &mut Columns<'a>, rows: &'a [CursorWrite]) {
    let mut groups: Vec<i64> = rows.iter().map(|row| row.group_id).collect();
    groups.sort_unstable();
    groups.dedup();
    columns.0.push(Box::new(groups));
    columns.push(rows, |row| row.group_id);
    columns.push(rows, |row| row.partition_id);
    columns.push(rows, |row| row.version);
    columns.push(rows, |row| row.state.committed);
    columns.push(rows, |row| row.state.batch_end);
    columns.push(rows, |row| row.state.lease_until_us);
    columns.push(rows, |row| row.state.held_until_us);
    columns.push(rows, |row| row.state.settled_us);
    columns.push(rows, |row| row.state.settled_count);
    columns.push(rows, |row| row.state.retries);
    columns.push(rows, |row| row.state.attempts);
    columns.push(rows, |row| row.state.lease_id);
}

fn push_dead_letters<'a>(columns: &mut Columns<'a>, rows: &'a [NewDeadLetter]) {
    columns.push(rows, |row| row.queue_id);
    columns.push(rows, |row| row.partition_id);
    columns.push(rows, |row| &*row.group);
    columns.push(rows, |row| row.offset);
    columns.push(rows, |row| storable(&row.error));
    columns.push(rows, |row| row.retries);
    columns.push(rows, |row| row.failed_us);
    columns.push(rows, |row| storable(&row.transaction_id));
    columns.push(rows, |row| &*row.record);
}

/// The text as PostgreSQL can keep it: NUL is a character like any other to JSON, but none to it. What
/// was sent stands in the record.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}").into(),
        false => text.into(),
    }
}
