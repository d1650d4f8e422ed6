//! From a reply to JSON, written straight into the connection's buffer.

mod durable;

use bytes::{BufMut, BytesMut};

use super::JSON;
use super::status::put_refusal;
use super::write_json::{
    put, put_escaped, put_flag, put_hex, put_member, put_number, put_text, put_thousandths,
};
use crate::http::{ResponseHead, ResponseStyle, write_response};
use crate::model::{
    AckItem, AckOutcome, Command, Depth, DropCounts, EffectiveOptions, Exchanged, Policy, Popped,
    Reply, Tier, WindowBuffer,
};

pub use durable::DurableEcho;
pub(super) use durable::{put_options, put_traces};

/// What of a command its answer repeats.
#[derive(Clone, Copy, Debug)]
pub enum Echo<'a> {
    /// Nothing: push, pop, listing.
    Nothing,
    /// The ids of an ack, in request order.
    Acks(&'a [AckItem<'a>]),
    /// A declaration.
    Declaration {
        /// The queue.
        queue: &'a str,
        /// The options as JSON text, as sent.
        options: &'a str,
    },
    /// The queue of a reset or delete.
    Queue(&'a str),
    /// What a depth asked for.
    Depth {
        /// The queue.
        queue: &'a str,
        /// The group, if one was named.
        group: Option<&'a str>,
    },
    /// What a command of the durable class repeats.
    Durable(&'a DurableEcho),
}

impl<'a> Echo<'a> {
    /// What the answer to `command` repeats.
    pub fn of(command: &'a Command<'a>) -> Echo<'a> {
        match command {
            Command::Push(_) | Command::Pop(_) | Command::Queues(_) => Echo::Nothing,
            Command::Ack(ack) => Echo::Acks(&ack.acks),
            Command::Configure(configure) => Echo::Declaration {
                queue: configure.queue.as_str(),
                options: &configure.options_as_sent,
            },
            Command::Reset(queue) | Command::Delete(queue) => Echo::Queue(queue.as_str()),
            Command::Depth { queue, group } => Echo::Depth {
                queue: queue.as_str(),
                group: group.as_ref().map(|group| group.as_str()),
            },
        }
    }
}

/// Appends the answer to a command. A listing has a writer of its own, [`super::ListWriter`].
///
/// # Panics
/// If `echo` is not of the command that `reply` answers.
pub fn encode_reply(echo: Echo<'_>, reply: &Reply, style: ResponseStyle, out: &mut BytesMut) {
    put_reply(echo, reply, Shape::Response(style), out);
}

/// Appends the answer to an exchange: each leg with the status and the body of its own route.
///
/// # Panics
/// If a leg is answered by what does not answer it.
pub fn encode_exchanged(exchanged: &Exchanged<'_>, style: ResponseStyle, out: &mut BytesMut) {
    write_answer(200, Shape::Response(style), out, |out| {
        put(out, "{\"acks\":[");
        for (position, (command, reply)) in exchanged.acks.iter().enumerate() {
            put(out, if position > 0 { "," } else { "" });
            put_reply(Echo::of(command), reply, Shape::Leg, out);
        }
        put(out, "],\"pushes\":[");
        for (position, reply) in exchanged.pushes.iter().enumerate() {
            put(out, if position > 0 { "," } else { "" });
            put_reply(Echo::Nothing, reply, Shape::Leg, out);
        }
        put(out, "],\"pop\":");
        match &exchanged.pop {
            None => put(out, "null"),
            Some(reply) => put_reply(Echo::Nothing, reply, Shape::Leg, out),
        }
        put(out, "}");
    });
}

fn put_reply(echo: Echo<'_>, reply: &Reply, shape: Shape, out: &mut BytesMut) {
    match (reply, echo) {
        (Reply::Pushed { count }, _) => write_answer(201, shape, out, |out| {
            put(out, "{\"pushed\":");
            put_number(out, u64::from(*count));
            put(out, "}");
        }),
        (Reply::Popped(popped), _) => put_popped(popped, shape, out),
        (Reply::Acked(outcomes), Echo::Acks(acks)) => {
            write_answer(200, shape, out, |out| put_outcomes(out, acks, outcomes));
        }
        (Reply::Configured { effective, durable }, Echo::Declaration { queue, options }) => {
            write_answer(201, shape, out, |out| {
                put(out, "{\"queue\":");
                put_text(out, queue);
                put(out, ",\"options\":");
                put(out, options);
                put(out, ",\"declared\":true,\"durable\":");
                put_flag(out, *durable);
                put(out, ",\"effective\":");
                put_effective(out, effective);
                put(out, "}");
            });
        }
        (Reply::Reset { dropped }, Echo::Queue(queue)) => write_answer(200, shape, out, |out| {
            put(out, "{\"queue\":");
            put_text(out, queue);
            put_member(out, "dropped", *dropped);
            put(out, "}");
        }),
        (Reply::Deleted { deleted, declared }, Echo::Queue(queue)) => {
            write_answer(200, shape, out, |out| {
                put(out, "{\"queue\":");
                put_text(out, queue);
                put(out, ",\"deleted\":");
                put_flag(out, *deleted);
                put(out, ",\"declared\":");
                put_flag(out, *declared);
                put(out, "}");
            });
        }
        (Reply::Depth(depth), Echo::Depth { queue, group }) => {
            write_answer(200, shape, out, |out| put_depth(out, queue, group, depth));
        }
        (Reply::Switched { enabled, mirrored }, _) => write_answer(200, shape, out, |out| {
            put(out, "{\"ephemeralEnabled\":");
            put_flag(out, *enabled);
            put(out, ",\"mirrored\":");
            put_flag(out, *mirrored);
            put(out, "}");
        }),
        (Reply::Exchanged(exchanged), _) => match shape {
            Shape::Response(style) => encode_exchanged(exchanged, style, out),
            Shape::Leg => panic!("an exchange is no leg of another one"),
        },
        (Reply::Durable(reply), Echo::Durable(echo)) => match shape {
            Shape::Response(style) => durable::put_reply(echo, reply, style, out),
            Shape::Leg => panic!("the durable class has no legs"),
        },
        (Reply::Written { status, body }, _) => {
            write_answer(*status, shape, out, |out| out.put_slice(body));
        }
        (Reply::Refused(refusal), Echo::Durable(echo)) => match shape {
            Shape::Response(style) => durable::put_refused(echo, refusal, style, out),
            Shape::Leg => panic!("the durable class has no legs"),
        },
        (Reply::Refused(refusal), _) => put_refusal(refusal, shape, out),
        (reply, echo) => panic!("the reply {reply:?} does not answer {echo:?}"),
    }
}

/// Appends the answer to a pop, parked or not.
pub fn encode_popped(popped: &Popped, style: ResponseStyle, out: &mut BytesMut) {
    put_popped(popped, Shape::Response(style), out);
}

fn put_popped(popped: &Popped, shape: Shape, out: &mut BytesMut) {
    write_answer(200, shape, out, |out| {
        put(out, "{\"queue\":");
        put_text(out, &popped.queue);
        put(out, ",\"messages\":[");
        for (position, message) in popped.messages.iter().enumerate() {
            put(
                out,
                if position > 0 {
                    ",{\"id\":\"e:"
                } else {
                    "{\"id\":\"e:"
                },
            );
            put_hex(out, popped.incarnation.0);
            put(out, ":");
            put_escaped(out, &message.partition);
            put(out, ":");
            put_number(out, message.sequence);
            put(out, "\",\"partition\":");
            put_text(out, &message.partition);
            put_member(out, "attempts", u64::from(message.attempts));
            put(out, ",\"payload\":");
            out.put_slice(&message.payload);
            put(out, "}");
        }
        put(out, "]}");
    });
}

/// What an answer is written as.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A response of its own.
    Response(ResponseStyle),
    /// A part of the answer to an exchange.
    Leg,
}

/// Writes an answer whose body is an object with members.
pub(super) fn write_answer(
    status: u16,
    shape: Shape,
    out: &mut BytesMut,
    write_body: impl FnOnce(&mut BytesMut),
) {
    match shape {
        Shape::Response(style) => {
            write_response(out, &ResponseHead::new(status, JSON, style), write_body);
        }
        Shape::Leg => write_leg(status, out, write_body),
    }
}

/// Writes the object that `write_body` writes with the status before its members.
pub(super) fn write_leg(status: u16, out: &mut BytesMut, write_body: impl FnOnce(&mut BytesMut)) {
    put(out, "{\"status\":");
    put_number(out, u64::from(status));
    let start = out.len();
    write_body(out);
    assert_eq!(out[start], b'{', "a body is an object");
    out[start] = b',';
}

fn put_outcomes(out: &mut BytesMut, acks: &[AckItem<'_>], outcomes: &[AckOutcome]) {
    // Clients match results to their acks by position.
    assert_eq!(acks.len(), outcomes.len());
    put(out, "{\"results\":[");
    for (position, (ack, outcome)) in acks.iter().zip(outcomes).enumerate() {
        put(
            out,
            if position > 0 {
                ",{\"id\":"
            } else {
                "{\"id\":"
            },
        );
        put_text(out, &ack.id);
        put(
            out,
            match outcome {
                AckOutcome::Acked => ",\"outcome\":\"acked\"}",
                AckOutcome::Redelivered => ",\"outcome\":\"redelivered\"}",
                AckOutcome::Stale => ",\"outcome\":\"stale\"}",
                AckOutcome::Unknown => ",\"outcome\":\"unknown\"}",
            },
        );
    }
    put(out, "]}");
}

fn put_effective(out: &mut BytesMut, options: &EffectiveOptions) {
    put_bounds(out, options);
    put(out, ",\"ttlSeconds\":");
    match options.ttl_ms {
        None => put(out, "null,\"ttlMs\":null"),
        Some(ttl_ms) => {
            put_thousandths(out, ttl_ms);
            put_member(out, "ttlMs", ttl_ms);
        }
    }
    put(out, ",\"leaseSeconds\":");
    put_thousandths(out, options.lease_ms);
    put_member(out, "retryLimit", u64::from(options.retry_limit));
    put_window(out, options.window_buffer);
    put(out, "}");
}

/// Appends the start of an object of options: the two bounds and the policy.
pub(super) fn put_bounds(out: &mut BytesMut, options: &EffectiveOptions) {
    put(out, "{\"maxBytes\":");
    put_number(out, options.max_bytes);
    put_member(out, "maxLength", options.max_length);
    put(
        out,
        match options.policy {
            Policy::Reject => ",\"policy\":\"reject\"",
            Policy::DropOldest => ",\"policy\":\"dropOldest\"",
        },
    );
}

pub(super) fn put_window(out: &mut BytesMut, window: WindowBuffer) {
    put(out, ",\"windowBuffer\":{\"ms\":");
    put_number(out, window.ms);
    put_member(out, "count", window.count);
    put(out, "}");
}

pub(super) fn put_drops(out: &mut BytesMut, drops: &DropCounts) {
    put(out, ",\"drops\":{\"bounds\":");
    put_number(out, drops.bounds);
    put_member(out, "ttl", drops.ttl);
    put_member(out, "retry", drops.retry);
    put(out, "}");
}

pub(super) fn put_tier(out: &mut BytesMut, tier: Tier) {
    put(
        out,
        match tier {
            Tier::Declared => ",\"tier\":\"declared\"",
            Tier::Implicit => ",\"tier\":\"implicit\"",
        },
    );
}

fn put_depth(out: &mut BytesMut, queue: &str, group: Option<&str>, depth: &Depth) {
    put(out, "{\"queue\":");
    put_text(out, queue);
    put(out, ",\"group\":");
    match group {
        None => put(out, "null"),
        Some(group) => put_text(out, group),
    }
    put_tier(out, depth.tier);
    put_member(out, "pending", depth.pending);
    put_member(out, "partitionsPending", depth.partitions_pending);
    put_member(out, "bytes", depth.bytes);
    put(out, ",\"partitions\":[");
    for (position, row) in depth.partitions.iter().enumerate() {
        put(
            out,
            if position > 0 {
                ",{\"partition\":"
            } else {
                "{\"partition\":"
            },
        );
        put_text(out, &row.partition);
        put_member(out, "pending", row.pending);
        put_member(out, "bytes", row.bytes);
        put(out, "}");
    }
    put(out, "],\"groups\":[");
    for (position, row) in depth.groups.iter().enumerate() {
        put(
            out,
            if position > 0 {
                ",{\"group\":"
            } else {
                "{\"group\":"
            },
        );
        put_text(out, &row.group);
        put_member(out, "pending", row.pending);
        put_member(out, "skipped", row.skipped);
        put(out, "}");
    }
    put(out, "]");
    put_drops(out, &depth.drops);
    put_member(out, "waiting", depth.waiting);
    put(out, "}");
}

#[cfg(test)]
#[path = "encode_test.rs"]
mod tests;
