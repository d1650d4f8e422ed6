//! The messages that pops have taken, looked up before a batch is stored: they are what was just packed, or
//! are read, all of a batch at once. And what everybody is answered once it is.

use std::sync::Arc;

use hashbrown::HashSet;

use super::Answered;
use super::draft::{self, Answer, Draft};
use super::image::CursorRef;
use super::state::Memory;
use super::store::Store;
use crate::model::ClientRef;
use crate::model::durable::{Claim, Piece, Popped, Reply, is_whole_and_plain};
use crate::postgres::SessionFault;
use crate::postgres::durable::{Range, SegmentRow};

/// Looks up what pops have taken; what is appended is packed already. Answers with the queues in which
/// something is damaged or encrypted that should not be: nothing of the draft may be stored then, and
/// messages of theirs are to be opened before they are taken.
pub(super) fn gather(
    memory: &Memory,
    store: &mut dyn Store,
    draft: &mut Draft,
) -> Result<HashSet<i64>, SessionFault> {
    let mut missing = Vec::new();
    for claim in claims_of(draft) {
        let partition = &memory.queue(claim.cursor.queue).partitions[claim.cursor.partition];
        claim.pieces = partition.tail.pieces(claim.from, claim.to);
        if claim.pieces.is_none() {
            missing.push((claim.cursor, claim.from..claim.to));
        }
    }
    let mut suspects = HashSet::new();
    if missing.is_empty() {
        return Ok(suspects);
    }
    let asked: Vec<Range> = missing
        .into_iter()
        .map(|(cursor, range)| Range {
            partition_id: memory.queue(cursor.queue).partitions[cursor.partition].id,
            from: range.start,
            to: stored_end(draft, cursor, range.end),
        })
        .collect();
    let rows = store.read_segments(&asked)?;
    let ends: Vec<i64> = asked.iter().map(|range| range.to).collect();
    let unread = claims_of(draft).zip(ends);
    for (claim, end) in unread {
        let queue = memory.queue(claim.cursor.queue);
        let partition = &queue.partitions[claim.cursor.partition];
        let (mut pieces, is_well) = cut(&rows, partition.id, claim.from..end);
        if !is_well {
            let row = queue.row.as_ref().expect("a queue with messages is there");
            suspects.insert(row.id);
        }
        if end < claim.to {
            let packed = partition.tail.pieces(end, claim.to);
            pieces.extend(packed.expect("what is appended was just packed"));
        }
        claim.pieces = Some(pieces);
    }
    Ok(suspects)
}

/// What was taken and is not looked up yet.
fn claims_of(draft: &mut Draft) -> impl Iterator<Item = &mut draft::Claim> {
    let popped = draft
        .answers
        .iter_mut()
        .filter_map(|(_, answer)| match answer {
            Answer::Popped(popped) => Some(popped),
            Answer::Reply(_) | Answer::Refused(_) => None,
        });
    let claims = popped.flat_map(|popped| &mut popped.claims);
    claims.filter(|claim| claim.pieces.is_none())
}

/// The end of what the database holds of a range: the rest is about to be stored.
fn stored_end(draft: &Draft, cursor: CursorRef, end: i64) -> i64 {
    let append = draft.appends.get(&(cursor.queue, cursor.partition));
    append.map_or(end, |append| append.base_offset.min(end))
}

/// The pieces of a range, and whether they are what should be there. That its beginning is missing, or
/// all of it, is no damage: retention was faster.
fn cut(rows: &[SegmentRow], id: i64, range: std::ops::Range<i64>) -> (Vec<Piece>, bool) {
    // They are in the order of partitions and offsets.
    let first = rows.partition_point(|row| (row.partition_id, end_of(row)) <= (id, range.start));
    let within = rows[first..]
        .iter()
        .take_while(|row| row.partition_id == id && row.base_offset < range.end);
    let (mut pieces, mut is_well, mut behind) = (Vec::new(), true, None);
    for row in within {
        is_well &= behind.is_none_or(|behind| behind == row.base_offset);
        is_well &= is_whole_and_plain(&row.payload, row.count);
        behind = Some(end_of(row));
        pieces.push(Piece {
            segment: row.payload.clone(),
            base_offset: row.base_offset,
            from: range.start.max(row.base_offset),
            to: range.end.min(end_of(row)),
        });
    }
    is_well &= behind.is_none_or(|behind| behind >= range.end);
    (pieces, is_well)
}

/// The offset behind a segment.
pub(super) fn end_of(row: &SegmentRow) -> i64 {
    row.base_offset.saturating_add(i64::from(row.count))
}

/// The answers of a draft that is stored.
pub(super) fn answers_of(memory: &Memory, draft: Draft) -> Vec<(ClientRef, Answered)> {
    let mut answers = Vec::with_capacity(draft.answers.len());
    for (client, answer) in draft.answers {
        let answer = match answer {
            Answer::Reply(reply) => Ok(reply),
            Answer::Refused(refusal) => Err(refusal),
            Answer::Popped(draft::Popped {
                unopened: Some(refusal),
                claims,
                ..
            }) if claims.is_empty() => Err(refusal),
            Answer::Popped(popped) => Ok(Reply::Popped(Box::new(popped_of(memory, popped)))),
        };
        answers.push((client, answer));
    }
    answers
}

/// A pop's answer.
fn popped_of(memory: &Memory, popped: draft::Popped) -> Popped {
    let claims = popped.claims.into_iter().map(|claim| {
        let queue = memory.queue(claim.cursor.queue);
        let partition = &queue.partitions[claim.cursor.partition];
        Claim {
            queue: Arc::clone(&queue.name),
            partition: Arc::clone(&partition.name),
            partition_id: partition.id,
            attempt: claim.attempt,
            pieces: claim.pieces.expect("it was looked up"),
        }
    });
    Popped {
        queue: popped.queue,
        group: popped.group,
        lease_id: popped.lease_id,
        claims: claims.collect(),
    }
}
