//! Answers of the durable class.

mod admin;
mod pop;
mod step;
mod traces;

use bytes::BytesMut;
use uuid::Uuid;

use crate::api::JSON;
use crate::api::status::put_refused_pop;
use crate::api::timestamp::put_timestamp;
use crate::api::write_json::{put, put_escaped, put_flag, put_member, put_signed, put_text};
use crate::http::{ResponseHead, ResponseStyle, write_response};
use crate::model::Refusal;
use crate::model::durable::{
    AckOutcome, AckRefused, Command, Configured, Extended, PushOutcome, PushStatus, QueueOptions,
    Reply,
};

pub(in crate::api) use traces::put_traces;

/// What the answer says of `retryDelay` where it was never set.
const RETRY_DELAY_MS_SHOWN: u32 = 1_000;

/// What of a command of the durable class its answer repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DurableEcho {
    /// Nothing.
    Nothing,
    /// That it was a pop: a refusal looks like one, too.
    Pop,
    /// The queue that was to be removed.
    Delete {
        /// Its name.
        queue: Box<str>,
    },
}

impl DurableEcho {
    /// What the answer to `command` repeats.
    pub fn of(command: &Command) -> DurableEcho {
        match command {
            Command::Pop(_) => DurableEcho::Pop,
            Command::Delete { queue } => DurableEcho::Delete {
                queue: queue.clone(),
            },
            Command::Configure(_)
            | Command::Push(_)
            | Command::Ack(_)
            | Command::Extend(_)
            | Command::Step(_)
            | Command::Administer(_)
            | Command::Release { .. }
            | Command::Abandon { .. } => DurableEcho::Nothing,
        }
    }
}

/// Appends the answer to a command of the durable class.
pub(super) fn put_reply(
    echo: &DurableEcho,
    reply: &Reply,
    style: ResponseStyle,
    out: &mut BytesMut,
) {
    let ok = ResponseHead::new(200, JSON, style);
    match reply {
        Reply::Configured(configured) => {
            write_response(out, &ok, |out| put_configured(out, configured));
        }
        Reply::Deleted { existed } => {
            let DurableEcho::Delete { queue } = echo else {
                panic!("{echo:?} is no removal of a queue");
            };
            write_response(out, &ok, |out| put_deleted(out, queue, *existed));
        }
        Reply::Pushed(outcomes) => {
            let head = ResponseHead::new(201, JSON, style);
            write_response(out, &head, |out| put_array(out, outcomes, put_pushed));
        }
        Reply::Popped(popped) if popped.claims.is_empty() => {
            write_response(out, &ResponseHead::new(204, JSON, style), |_| {});
        }
        Reply::Popped(popped) => write_response(out, &ok, |out| pop::put_popped(out, popped)),
        Reply::Acked(outcomes) => {
            write_response(out, &ok, |out| put_array(out, outcomes, put_acked));
        }
        Reply::Extended(extended) => write_response(out, &ok, |out| put_extended(out, extended)),
        Reply::Administered(answer) => admin::put_administered(answer, style, out),
        Reply::Stepped(outcome) => write_response(out, &ok, |out| step::put_stepped(out, outcome)),
    }
}

/// Appends the refusal of a command of the durable class.
pub(super) fn put_refused(
    echo: &DurableEcho,
    refusal: &Refusal,
    style: ResponseStyle,
    out: &mut BytesMut,
) {
    match echo {
        DurableEcho::Pop => put_refused_pop(refusal, style, out),
        DurableEcho::Nothing | DurableEcho::Delete { .. } => {
            crate::api::encode_refusal(refusal, style, out);
        }
    }
}

fn put_array<T>(out: &mut BytesMut, items: &[T], put_item: fn(&mut BytesMut, usize, &T)) {
    put(out, "[");
    for (index, item) in items.iter().enumerate() {
        put(out, if index > 0 { ",{" } else { "{" });
        put_item(out, index, item);
        put(out, "}");
    }
    put(out, "]");
}

fn put_index(out: &mut BytesMut, index: usize) {
    put(out, "\"index\":");
    put_signed(out, index as i64);
}

fn put_uuid(out: &mut BytesMut, id: &Uuid) {
    let mut text = Uuid::encode_buffer();
    put(out, "\"");
    put(out, id.hyphenated().encode_lower(&mut text));
    put(out, "\"");
}

fn put_pushed(out: &mut BytesMut, index: usize, outcome: &PushOutcome) {
    put_index(out, index);
    put(out, ",\"message_id\":");
    put_uuid(out, &outcome.message_id);
    put(out, ",\"transaction_id\":");
    put_text(out, &outcome.transaction_id);
    put(out, ",\"queueName\":");
    put_text(out, &outcome.queue);
    let (status, offset) = match outcome.status {
        PushStatus::Queued { offset } => (",\"status\":\"queued\"", Some(offset)),
        PushStatus::Duplicate { offset } => (",\"status\":\"duplicate\"", Some(offset)),
        PushStatus::Buffered => (",\"status\":\"buffered\"", None),
        PushStatus::BufferedBefore => (",\"status\":\"duplicate\"", None),
    };
    put(out, status);
    if let Some(offset) = offset {
        put(out, ",\"offset\":");
        put_signed(out, offset);
    }
}

fn put_acked(out: &mut BytesMut, index: usize, outcome: &AckOutcome) {
    put_index(out, index);
    put(out, ",\"transactionId\":");
    put_text(out, &outcome.transaction_id);
    put(out, ",\"success\":");
    put_flag(out, outcome.refused.is_none());
    put(out, ",\"error\":");
    match outcome.refused {
        None => put(out, "null"),
        Some(refused) => put_text(out, refusal_text(refused)),
    }
    put(out, ",\"leaseReleased\":");
    put_flag(out, outcome.lease_released);
    put(out, ",\"dlq\":");
    put_flag(out, outcome.dead_lettered);
    put(out, ",\"noop\":");
    put_flag(out, outcome.noop);
}

/// Clients look for words of these texts.
fn refusal_text(refused: AckRefused) -> &'static str {
    match refused {
        AckRefused::Lease => "invalid or expired lease",
        AckRefused::Committed => "the message is committed: it was settled before",
        AckRefused::Unresolved => {
            "unresolvable transactionId: the partition has no message with it"
        }
        AckRefused::NotTaken => "the group has not taken the message yet",
        AckRefused::NoConsumer => {
            "consumer not found: there is no such partition, or the group has never taken from it"
        }
    }
}

fn put_extended(out: &mut BytesMut, extended: &Extended) {
    put(out, "{\"leaseId\":");
    put_text(out, &extended.lease_id);
    put(out, ",\"success\":");
    put_flag(out, extended.renewed > 0);
    put_member(out, "renewed", u64::from(extended.renewed));
    // Each of the published clients has its own name for it.
    for key in ["newExpiresAt", "expiresAt", "lease_expires_at"] {
        put(out, ",\"");
        put(out, key);
        put(out, "\":");
        match extended.expires_us {
            Some(expires_us) => put_timestamp(out, expires_us),
            None => put(out, "null"),
        }
    }
    put(out, "}");
}

fn put_deleted(out: &mut BytesMut, queue: &str, existed: bool) {
    put(out, "{\"deleted\":");
    put_flag(out, existed);
    put(out, ",\"existed\":");
    put_flag(out, existed);
    put(out, ",\"queue\":");
    put_text(out, queue);
    if !existed {
        put(out, ",\"message\":\"there is no such queue\"");
    }
    put(out, "}");
}

fn put_configured(out: &mut BytesMut, configured: &Configured) {
    put(out, "{\"configured\":true,\"queueId\":\"");
    put_signed(out, configured.queue_id);
    put(out, "\",\"partitionId\":null,\"queue\":");
    put_text(out, &configured.queue);
    put_labels(out, configured);
    put(out, ",\"storage\":\"segments\",\"options\":{");
    put_options(out, &configured.options);
    put_labels(out, configured);
    put(out, "}");
    if configured.unencrypted {
        put(
            out,
            ",\"warning\":\"encryptionEnabled has no effect: the broker has no key \
             (QUEEN_ENCRYPTION_KEY), and messages are stored as plain text\"",
        );
    }
    put(out, "}");
}

fn put_labels(out: &mut BytesMut, configured: &Configured) {
    put(out, ",\"namespace\":");
    put_text(out, &configured.namespace);
    put(out, ",\"task\":");
    put_text(out, &configured.task);
}

/// Appends the members of an object of options.
pub(in crate::api) fn put_options(out: &mut BytesMut, options: &QueueOptions) {
    let number = |value: u32| u64::from(value);
    let flag = |out: &mut BytesMut, key: &str, value: bool| {
        put(out, ",\"");
        put(out, key);
        put(out, "\":");
        put_flag(out, value);
    };
    put(out, "\"leaseTime\":");
    put_signed(out, i64::from(options.lease_s));
    put_member(out, "retryLimit", number(options.retry_limit));
    let retry_delay_ms = options.retry_delay_ms.unwrap_or(RETRY_DELAY_MS_SHOWN);
    put_member(out, "retryDelay", number(retry_delay_ms));
    flag(out, "deadLetterQueue", options.dead_letter_queue);
    flag(out, "dlqAfterMaxRetries", options.dead_letter_after_retries);
    put_member(out, "delayedProcessing", number(options.delay_s));
    put_member(out, "windowBuffer", number(options.window_s));
    flag(out, "retentionEnabled", options.retention_enabled);
    put_member(out, "retentionSeconds", number(options.retention_s));
    let completed = number(options.completed_retention_s);
    put_member(out, "completedRetentionSeconds", completed);
    put_member(out, "maxWaitTimeSeconds", number(options.max_wait_s));
    flag(out, "encryptionEnabled", options.encryption);
    put_member(out, "dedupWindowSeconds", number(options.dedup_window_s));
    put_member(out, "minPopWaitTime", number(options.min_pop_wait_ms));
    put_member(out, "maxSize", options.max_size);
    put_member(out, "ttl", number(options.ttl_s));
    put(out, ",\"priority\":");
    put_signed(out, i64::from(options.priority));
    put(out, ",\"retentionSinkHold\":\"");
    put_escaped(out, &options.sink_hold);
    put(out, "\"");
    let sink_hold_max = number(options.sink_hold_max_s);
    put_member(out, "retentionSinkHoldMaxSeconds", sink_hold_max);
}

#[cfg(test)]
#[path = "durable_test.rs"]
mod tests;
