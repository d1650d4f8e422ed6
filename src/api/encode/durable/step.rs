//! What became of a transaction. One that was refused has the status of one that was not: clients
//! read the body.

use bytes::BytesMut;

use super::{put_index, put_uuid, refusal_text};
use crate::api::write_json::{put, put_flag, put_text};
use crate::model::durable::{AckRefused, PushStatus, StepOutcome, StepRefused, StepResult};

pub(super) fn put_stepped(out: &mut BytesMut, outcome: &StepOutcome) {
    put(out, "{\"transactionId\":");
    put_uuid(out, &outcome.id);
    match &outcome.result {
        Ok(results) => {
            put(out, ",\"success\":true,\"results\":[");
            for (index, result) in results.iter().enumerate() {
                put(out, if index > 0 { ",{" } else { "{" });
                put_result(out, index, result);
                put(out, "}");
            }
            put(out, "]}");
        }
        Err(refused) => {
            let (reason, error) = told(refused);
            put(out, ",\"success\":false,\"reason\":");
            put_text(out, reason);
            put(out, ",\"error\":");
            put_text(out, &error);
            put(out, ",\"results\":[]}");
        }
    }
}

fn put_result(out: &mut BytesMut, index: usize, result: &StepResult) {
    put_index(out, index);
    match result {
        StepResult::Pushed { outcome } => {
            put(
                out,
                ",\"type\":\"push\",\"success\":true,\"transactionId\":",
            );
            put_text(out, &outcome.transaction_id);
            put(out, ",\"messageId\":");
            put_uuid(out, &outcome.message_id);
            put(out, ",\"queueName\":");
            put_text(out, &outcome.queue);
            if matches!(outcome.status, PushStatus::Duplicate { .. }) {
                put(out, ",\"duplicate\":true");
            }
        }
        StepResult::Acked {
            transaction_id,
            dead_lettered,
        } => {
            put(out, ",\"type\":\"ack\",\"success\":true,\"transactionId\":");
            put_text(out, transaction_id);
            put(out, ",\"error\":null,\"dlq\":");
            put_flag(out, *dead_lettered);
        }
    }
}

/// Reason and text of a refusal. The published clients print the text, with its tag.
fn told(refused: &StepRefused) -> (&'static str, String) {
    match refused {
        StepRefused::Ack {
            index,
            reason,
            transaction_id,
        } => {
            let why = refusal_text(*reason);
            let text = format!("QTXN ack of {transaction_id:?} (result {index}) is refused: {why}");
            ("rejected_ack", text)
        }
        StepRefused::Lease { lease_id } => {
            let why = refusal_text(AckRefused::Lease);
            let text = format!("QTXN the required lease {lease_id:?}: {why}");
            ("rejected_ack", text)
        }
        StepRefused::Duplicate {
            index,
            transaction_id,
        } => {
            let text = format!(
                "QDUP push of {transaction_id:?} (result {index}): a message with this \
                 transactionId is stored already"
            );
            ("duplicate", text)
        }
    }
}
