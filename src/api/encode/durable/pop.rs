//! Messages on their way to a client.

use bytes::{BufMut, BytesMut};

use super::put_uuid;
use crate::api::timestamp::put_timestamp;
use crate::api::write_json::{put, put_member, put_signed, put_text};
use crate::model::durable::{Claim, Popped, Record, records_behind};

/// Appends the answer to a pop that has taken something. What stands at the top is that of the first
/// partition; every message has its own. `autopilot` is what the broker has chosen: partitions and
/// messages at most.
pub(super) fn put_popped(out: &mut BytesMut, popped: &Popped, autopilot: Option<(u32, u32)>) {
    let first = &popped.claims[0];
    put(out, "{\"success\":true,\"queue\":");
    put_text(out, popped.queue.as_deref().unwrap_or_default());
    put(out, ",\"partition\":");
    put_text(out, &first.partition);
    put(out, ",\"partitionId\":\"");
    put_signed(out, first.partition_id);
    put(out, "\"");
    put_lease(out, popped);
    put(out, ",\"messages\":[");
    let mut is_first = true;
    for claim in &popped.claims {
        put_claim(out, popped, claim, &mut is_first);
    }
    put(out, "]");
    put_member(out, "partitionsClaimed", popped.claims.len() as u64);
    if let Some((partitions, batch)) = autopilot {
        put(out, ",\"autopilot\":{\"partitions\":");
        put_signed(out, i64::from(partitions));
        put_member(out, "batch", u64::from(batch));
        put(out, "}");
    }
    put(out, "}");
}

fn put_lease(out: &mut BytesMut, popped: &Popped) {
    put(out, ",\"leaseId\":");
    match &popped.lease_id {
        Some(lease_id) => put_uuid(out, lease_id),
        None => put(out, "\"\""),
    }
    put(out, ",\"consumerGroup\":");
    put_text(out, &popped.group);
}

fn put_claim(out: &mut BytesMut, popped: &Popped, claim: &Claim, is_first: &mut bool) {
    // All messages of a claim end alike.
    let mut tail = BytesMut::new();
    put(&mut tail, ",\"partitionId\":\"");
    put_signed(&mut tail, claim.partition_id);
    put(&mut tail, "\",\"partition\":");
    put_text(&mut tail, &claim.partition);
    if popped.queue.is_none() {
        put(&mut tail, ",\"queue\":");
        put_text(&mut tail, &claim.queue);
    }
    put_lease(&mut tail, popped);
    put_member(&mut tail, "deliveryAttempt", u64::from(claim.attempt));
    put(&mut tail, "}");
    for piece in &claim.pieces {
        let skipped = usize::try_from(piece.from - piece.base_offset).unwrap_or(0);
        let records = records_behind(&piece.segment, skipped);
        for (offset, record) in (piece.from..piece.to).zip(records) {
            put(out, if *is_first { "{" } else { ",{" });
            *is_first = false;
            put_record(out, &record, offset);
            out.put_slice(&tail);
        }
    }
}

/// Appends what is a message's own.
fn put_record(out: &mut BytesMut, record: &Record, offset: i64) {
    put(out, "\"id\":");
    put_uuid(out, &record.message_id);
    put(out, ",\"transactionId\":");
    put_bytes(out, &record.transaction_id);
    put(out, ",\"traceId\":");
    match &record.trace_id {
        Some(trace_id) => put_uuid(out, trace_id),
        None => put(out, "null"),
    }
    put(out, ",\"data\":");
    assert!(!record.encrypted, "what is handed out has been decrypted");
    out.put_slice(&record.payload);
    put(out, ",\"producerSub\":");
    match &record.producer {
        Some(producer) => put_bytes(out, producer),
        None => put(out, "null"),
    }
    put(out, ",\"createdAt\":");
    put_timestamp(out, record.created_us);
    put(out, ",\"offset\":");
    put_signed(out, offset);
}

/// Appends text as it is stored.
fn put_bytes(out: &mut BytesMut, text: &[u8]) {
    put_text(out, &String::from_utf8_lossy(text));
}
