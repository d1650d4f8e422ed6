//! What everybody is answered once a batch is stored: the messages that pops have taken are what was just
//! packed, or are read, all of a batch at once.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::Answered;
use super::draft::{self, Answer, Draft};
use super::state::Memory;
use super::store::Store;
use crate::limits::DURABLE_TAIL_BYTES;
use crate::model::durable::{Claim, Piece, Popped, Reply};
use crate::model::{ClientRef, Refusal};
use crate::postgres::SessionFault;
use crate::postgres::durable::{Range, SegmentRow};

/// The answers of a draft, with the messages that pops have taken.
pub(super) fn answers_of(
    memory: &mut Memory,
    store: &mut dyn Store,
    draft: Draft,
) -> Vec<(ClientRef, Answered)> {
    let mut missing = Vec::new();
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
            Answer::Popped(popped) => {
                let popped = popped_of(memory, popped, &mut missing);
                Ok(Reply::Popped(Box::new(popped)))
            }
        };
        answers.push((client, answer));
    }
    if !missing.is_empty() {
        match store.read_segments(&missing) {
            Ok(rows) => fill(&mut answers, &rows),
            Err(fault) => refuse_unread(&mut answers, &fault),
        }
    }
    let now_us = memory.time_us(Instant::now());
    for &(slot, partition) in draft.appends.keys() {
        let kept = &mut memory.queue_mut(slot).partitions[partition];
        kept.tail.shrink_to(DURABLE_TAIL_BYTES);
        memory.weigh((slot, partition), now_us);
    }
    answers
}

/// What was taken cannot be read: it comes again when its lease ends. The rest is stored and holds.
fn refuse_unread(answers: &mut [(ClientRef, Answered)], fault: &SessionFault) {
    for (_, answer) in answers {
        let Ok(Reply::Popped(popped)) = answer else {
            continue;
        };
        let mut pieces = popped.claims.iter().flat_map(|claim| &claim.pieces);
        if pieces.any(|piece| piece.segment.is_empty()) {
            *answer = Err(Refusal::DurableAway {
                reason: fault.to_string(),
                uncertain: true,
            });
        }
    }
}

/// A pop's answer; what is not kept is noted as missing and left empty.
fn popped_of(memory: &Memory, popped: draft::Popped, missing: &mut Vec<Range>) -> Popped {
    let claims = popped.claims.into_iter().map(|claim| {
        let queue = memory.queue(claim.cursor.queue);
        let partition = &queue.partitions[claim.cursor.partition];
        let opened = claim.opened.map(|piece| vec![piece]);
        let kept = || partition.tail.pieces(claim.from, claim.to);
        let pieces = opened.or_else(kept).unwrap_or_else(|| {
            missing.push(Range {
                partition_id: partition.id,
                from: claim.from,
                to: claim.to,
            });
            // Told from what is there by its empty segment.
            vec![Piece {
                segment: Bytes::new(),
                base_offset: claim.from,
                from: claim.from,
                to: claim.to,
            }]
        });
        Claim {
            queue: Arc::clone(&queue.name),
            partition: Arc::clone(&partition.name),
            partition_id: partition.id,
            attempt: claim.attempt,
            pieces,
        }
    });
    Popped {
        queue: popped.queue,
        group: popped.group,
        lease_id: popped.lease_id,
        claims: claims.collect(),
    }
}

/// Puts what was read where it was missing.
fn fill(answers: &mut [(ClientRef, Answered)], rows: &[SegmentRow]) {
    for (_, answer) in answers {
        let Ok(Reply::Popped(popped)) = answer else {
            continue;
        };
        for claim in &mut popped.claims {
            let [piece] = &*claim.pieces else {
                continue;
            };
            if !piece.segment.is_empty() {
                continue;
            }
            let (from, to) = (piece.from, piece.to);
            let id = claim.partition_id;
            let end = |row: &SegmentRow| row.base_offset + i64::from(row.count);
            // They are in the order of partitions and offsets.
            let first = rows.partition_point(|row| (row.partition_id, end(row)) <= (id, from));
            let within = rows[first..]
                .iter()
                .take_while(|row| row.partition_id == id && row.base_offset < to);
            claim.pieces = within
                .map(|row| Piece {
                    segment: row.payload.clone(),
                    base_offset: row.base_offset,
                    from: from.max(row.base_offset),
                    to: to.min(end(row)),
                })
                .collect();
        }
    }
}
