//! Answers to operators.

use bytes::BytesMut;

use super::put_uuid;
use crate::api::JSON;
use crate::api::write_json::{put, put_flag, put_member, put_signed, put_text};
use crate::http::{ResponseHead, ResponseStyle, write_response};
use crate::model::durable::{
    Address, Administered, DeleteGroup, Replay, Replayed, Seek, SeekTo, replayed_id,
};

/// Appends the answer to an operator.
pub(super) fn put_administered(answer: &Administered, style: ResponseStyle, out: &mut BytesMut) {
    let head = ResponseHead::new(status_of(answer), JSON, style);
    write_response(out, &head, |out| {
        put(out, "{");
        put_members(out, answer);
        put(out, "}");
    });
}

fn status_of(answer: &Administered) -> u16 {
    match answer {
        Administered::Sought { partitions: 0, .. }
        | Administered::Replayed { replayed: None, .. }
        | Administered::LetterDiscarded { discarded: 0, .. }
        | Administered::TraceRecorded { id: None, .. } => 404,
        Administered::TraceRecorded { .. } => 201,
        Administered::GroupDeleted { .. }
        | Administered::Sought { .. }
        | Administered::Subscribed { .. }
        | Administered::Replayed { .. }
        | Administered::LetterDiscarded { .. }
        | Administered::LettersReplayed { .. }
        | Administered::LettersDiscarded { .. } => 200,
    }
}

fn put_members(out: &mut BytesMut, answer: &Administered) {
    match answer {
        Administered::GroupDeleted { asked, cursors } => put_group_deleted(out, asked, *cursors),
        Administered::Sought { asked, partitions } => put_sought(out, asked, *partitions),
        Administered::Subscribed { asked, queues } => {
            put(out, "\"success\":true");
            put_named(out, "consumerGroup", &asked.group);
            // Exactly what was sent: clients compare it.
            put_named(out, "newTimestamp", &asked.from.text);
            put_member(out, "rowsUpdated", *queues);
        }
        Administered::Replayed { asked, replayed } => match replayed {
            Some(replayed) => put_replayed(out, replayed),
            None => put_nothing_replayed(out, asked),
        },
        Administered::LetterDiscarded { asked, discarded } => {
            put_discarded(out, asked, *discarded);
        }
        Administered::LettersReplayed {
            moved,
            duplicates,
            unreadable,
            more,
        } => {
            put(out, "\"success\":true");
            put_member(out, "replayed", moved + duplicates);
            put_member(out, "moved", *moved);
            put_member(out, "duplicates", *duplicates);
            put_member(out, "unreadable", *unreadable);
            put_more(out, *more);
        }
        Administered::LettersDiscarded { discarded, more } => {
            put(out, "\"success\":true");
            put_member(out, "deleted", *discarded);
            put_more(out, *more);
        }
        Administered::TraceRecorded { message, id } => match id {
            Some(id) => {
                put(out, "\"success\":true");
                put_id(out, "traceId", *id);
            }
            None => put_not_found(out, message),
        },
    }
}

/// Appends `,"key":"text"`. `key` needs no escaping.
pub(super) fn put_named(out: &mut BytesMut, key: &str, text: &str) {
    put_key(out, key);
    put_text(out, text);
}

pub(super) fn put_key(out: &mut BytesMut, key: &str) {
    put(out, ",\"");
    put(out, key);
    put(out, "\":");
}

/// Ids are texts on the wire.
pub(super) fn put_id(out: &mut BytesMut, key: &str, id: i64) {
    put_key(out, key);
    put(out, "\"");
    put_signed(out, id);
    put(out, "\"");
}

fn put_more(out: &mut BytesMut, more: bool) {
    put_key(out, "more");
    put_flag(out, more);
}

fn put_group_deleted(out: &mut BytesMut, asked: &DeleteGroup, cursors: u64) {
    put(out, "\"success\":true");
    put_named(out, "consumerGroup", &asked.group);
    if let Some(queue) = &asked.queue {
        put_named(out, "queueName", queue);
    }
    put_member(out, "deletedPartitions", cursors);
    put_key(out, "metadataDeleted");
    put_flag(out, asked.registration);
}

fn put_sought(out: &mut BytesMut, asked: &Seek, partitions: u64) {
    put(out, "\"success\":");
    put_flag(out, partitions > 0);
    if partitions == 0 {
        put_named(out, "error", "Queue not found or has no partitions");
        put_named(out, "code", "not_found");
    }
    put_named(out, "consumerGroup", &asked.group);
    put_named(out, "queueName", &asked.queue);
    if let Some(partition) = &asked.partition {
        put_named(out, "partitionName", partition);
        put_key(out, "updated");
        put_flag(out, partitions > 0);
    }
    put_key(out, "seekToEnd");
    put_flag(out, asked.to == SeekTo::End);
    put_key(out, "targetTimestamp");
    match &asked.to {
        SeekTo::Time(time) => put_text(out, &time.text),
        SeekTo::End | SeekTo::Offset(_) => put(out, "null"),
    }
    if let SeekTo::Offset(offset) = asked.to {
        put_key(out, "targetOffset");
        put_signed(out, offset);
    }
    put_member(out, "partitionsUpdated", partitions);
}

fn put_replayed(out: &mut BytesMut, replayed: &Replayed) {
    put(out, "\"success\":true");
    let result = if replayed.duplicate {
        "duplicate"
    } else {
        "moved"
    };
    put_named(out, "result", result);
    put_named(out, "queue", &replayed.queue);
    put_named(out, "partition", &replayed.partition);
    put_named(out, "consumerGroup", &replayed.group);
    put_id(out, "dlqId", replayed.letter_id);
    put_named(out, "originalTransactionId", &replayed.transaction_id);
    put(out, ",\"replayedAs\":{\"index\":0,\"message_id\":");
    put_uuid(out, &replayed.message_id);
    put_named(out, "transaction_id", &replayed_id(replayed.letter_id));
    put_named(out, "queueName", &replayed.queue);
    let status = if replayed.duplicate {
        "duplicate"
    } else {
        "queued"
    };
    put_named(out, "status", status);
    put_key(out, "offset");
    put_signed(out, replayed.offset);
    put(out, "},\"dlqRowRemoved\":true");
}

fn put_nothing_replayed(out: &mut BytesMut, asked: &Replay) {
    match asked {
        Replay::Newest(address) => put_not_found(out, address),
        Replay::One { id, .. } => {
            put(out, "\"success\":false,\"result\":\"gone\"");
            put_named(out, "dlqId", id);
            put_named(out, "error", "Dead letter not found");
            put_named(out, "code", "not_found");
        }
    }
}

fn put_discarded(out: &mut BytesMut, asked: &Address, discarded: u64) {
    if discarded == 0 {
        return put_not_found(out, asked);
    }
    put(out, "\"success\":true");
    put_address(out, asked);
    put_named(out, "message", "Message deleted from the dead letters");
}

fn put_address(out: &mut BytesMut, address: &Address) {
    put_named(out, "partitionId", &address.partition);
    put_named(out, "transactionId", &address.transaction_id);
}

fn put_not_found(out: &mut BytesMut, address: &Address) {
    put(out, "\"success\":false");
    put_address(out, address);
    put_named(out, "error", "Message not found");
    put_named(out, "code", "not_found");
    put_named(
        out,
        "message",
        "there is no such message among the dead letters",
    );
}

#[cfg(test)]
#[path = "admin_test.rs"]
mod tests;
