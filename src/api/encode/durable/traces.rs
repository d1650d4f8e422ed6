//! Traces that were looked up.

use bytes::{BufMut, BytesMut};

use super::admin::{put_id, put_key, put_named};
use crate::api::timestamp::put_timestamp;
use crate::api::write_json::{put, put_member, put_signed, put_text};
use crate::model::durable::{FoundTraces, TraceNameRow, TracePage, TraceRow};

/// Appends traces as JSON.
pub(in crate::api) fn put_traces(out: &mut BytesMut, found: &FoundTraces) {
    put(out, "{");
    match found {
        FoundTraces::Names { page, total, rows } => {
            put_rows(out, "trace_names", rows, put_trace_name);
            put_page(out, *page, *total);
        }
        FoundTraces::Named { page, total, rows } => {
            put_rows(out, "traces", rows, put_trace);
            put_page(out, *page, *total);
        }
        FoundTraces::OfMessage(rows) => put_rows(out, "traces", rows, put_trace),
    }
    put(out, "}");
}

fn put_rows<T>(out: &mut BytesMut, key: &str, rows: &[T], put_row: fn(&mut BytesMut, &T)) {
    put(out, "\"");
    put(out, key);
    put(out, "\":[");
    for (position, row) in rows.iter().enumerate() {
        put(out, if position > 0 { ",{" } else { "{" });
        put_row(out, row);
        put(out, "}");
    }
    put(out, "]");
}

fn put_page(out: &mut BytesMut, page: TracePage, total: u64) {
    put_member(out, "total", total);
    put(out, ",\"pagination\":{\"limit\":");
    put_signed(out, i64::from(page.limit));
    put_member(out, "offset", page.offset);
    put(out, "}");
}

fn put_trace_name(out: &mut BytesMut, row: &TraceNameRow) {
    put(out, "\"trace_name\":");
    put_text(out, &row.name);
    put_member(out, "trace_count", row.traces);
    put_member(out, "message_count", row.messages);
    put_key(out, "last_seen");
    put_timestamp(out, row.last_seen_us);
}

fn put_trace(out: &mut BytesMut, row: &TraceRow) {
    put(out, "\"id\":\"");
    put_signed(out, row.id);
    put(out, "\"");
    put_named(out, "transaction_id", &row.transaction_id);
    put_id(out, "partition_id", row.partition_id);
    put_named(out, "queue_name", &row.queue);
    put_named(out, "partition_name", &row.partition);
    put_named(out, "event_type", &row.event);
    put_key(out, "data");
    out.put_slice(&row.data);
    put_named(out, "consumer_group", &row.group);
    put_key(out, "worker_id");
    match &row.worker {
        Some(worker) => put_text(out, worker),
        None => put(out, "null"),
    }
    put_key(out, "created_at");
    put_timestamp(out, row.created_us);
    put(out, ",\"trace_names\":[");
    for (position, name) in row.names.iter().enumerate() {
        put(out, if position > 0 { "," } else { "" });
        put_text(out, name);
    }
    put(out, "]");
    put_key(out, "message_payload");
    match &row.payload {
        Some(payload) => out.put_slice(payload),
        None => put(out, "null"),
    }
}

#[cfg(test)]
#[path = "traces_test.rs"]
mod tests;
