//! `GET /api/v1/ephemeral/queues`: an answer written in steps.

use bytes::BytesMut;

use super::JSON;
use super::encode::{put_bounds, put_drops, put_tier, put_window};
use super::write_json::{put, put_member, put_number, put_text};
use crate::http::{
    ResponseHead, ResponseStyle, end_streamed_response, start_streamed_response, write_chunk,
};
use crate::model::{EffectiveOptions, QueueRow};

/// Writes a listing whose length is not known when it begins.
#[derive(Debug)]
pub struct ListWriter {
    style: ResponseStyle,
    /// Rows written so far.
    rows: u64,
}

impl ListWriter {
    /// Appends the head and the start of the body.
    pub fn begin(style: ResponseStyle, out: &mut BytesMut) -> ListWriter {
        start_streamed_response(out, &ResponseHead::new(200, JSON, style));
        write_chunk(out, style, put_listing_start);
        ListWriter { style, rows: 0 }
    }

    /// Appends the next rows; there may be none.
    pub fn rows(&mut self, rows: &[QueueRow], out: &mut BytesMut) {
        let is_first = self.rows == 0;
        write_chunk(out, self.style, |out| put_rows(out, rows, is_first));
        self.rows += rows.len() as u64;
    }

    /// Appends the end. `broker_bytes` are the payload bytes held by the whole broker;
    /// `next_after` is the last name written if the limit of rows cut the listing.
    pub fn end(self, broker_bytes: u64, next_after: Option<&str>, out: &mut BytesMut) {
        write_chunk(out, self.style, |out| {
            put_listing_end(out, self.rows, broker_bytes, next_after);
        });
        end_streamed_response(out, self.style);
    }
}

pub(super) fn put_listing_start(out: &mut BytesMut) {
    put(out, "{\"queues\":[");
}

pub(super) fn put_rows(out: &mut BytesMut, rows: &[QueueRow], is_first: bool) {
    for (position, row) in rows.iter().enumerate() {
        if position > 0 || !is_first {
            put(out, ",");
        }
        put_row(out, row);
    }
}

pub(super) fn put_listing_end(
    out: &mut BytesMut,
    count: u64,
    broker_bytes: u64,
    next_after: Option<&str>,
) {
    put(out, "]");
    put_member(out, "count", count);
    put_member(out, "cellBytes", broker_bytes);
    if let Some(name) = next_after {
        put(out, ",\"truncated\":true,\"nextAfter\":");
        put_text(out, name);
    }
    put(out, "}");
}

fn put_row(out: &mut BytesMut, row: &QueueRow) {
    put(out, "{\"queue\":");
    put_text(out, &row.queue);
    put_tier(out, row.tier);
    put_member(out, "depth", row.depth);
    put_member(out, "bytes", row.bytes);
    put_member(out, "partitions", row.partitions);
    put_member(out, "groups", row.groups);
    put_drops(out, &row.drops);
    put(out, ",\"options\":");
    put_row_options(out, &row.options);
    put(out, "}");
}

/// Here seconds are whole numbers, rounded up so that only 0 means off.
fn put_row_options(out: &mut BytesMut, options: &EffectiveOptions) {
    put_bounds(out, options);
    let ttl_ms = options.ttl_ms.unwrap_or(0);
    put_member(out, "ttlSeconds", ttl_ms.div_ceil(1_000));
    put(out, ",\"ttlMs\":");
    match options.ttl_ms {
        None => put(out, "null"),
        Some(ttl_ms) => put_number(out, ttl_ms),
    }
    put_member(out, "leaseSeconds", options.lease_ms.div_ceil(1_000));
    put_member(out, "retryLimit", u64::from(options.retry_limit));
    put_window(out, options.window_buffer);
    put(out, "}");
}
