//! The answers to questions about what the durable class has stored, as JSON. They are written where the
//! questions are answered and not on a shard core.

mod groups;
mod messages;
mod offsets;
mod queues;
mod sums;

use std::fmt;

use bytes::BytesMut;
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

use super::encode::{put_options, put_traces};
use super::status::unopened_code;
use super::timestamp::put_timestamp;
use crate::model::durable::read::ReadReply;
use crate::model::durable::{QueueOptions, Unopened};

/// What a place in a listing of partitions begins with, so that what is none is told.
pub(super) const CURSOR_MARK: &str = "name:";

/// Status and body of an answer.
pub fn encode_read(reply: &ReadReply) -> (u16, Vec<u8>) {
    match reply {
        ReadReply::Queues(listing) => ok(&queues::listing(listing)),
        ReadReply::Queue(detail) => ok(&queues::detail(detail)),
        ReadReply::NoQueue => not_found("Queue not found"),
        ReadReply::Depth(depth) => ok(&queues::depth(depth)),
        ReadReply::Overview(overview) => ok(&sums::overview(overview)),
        ReadReply::Namespaces(rows) => ok(&sums::namespaces(rows)),
        ReadReply::Tasks(rows) => ok(&sums::tasks(rows)),
        ReadReply::Partitions(ranks) => ok(&queues::ranks(ranks)),
        ReadReply::Messages(page) => ok(&messages::page(page)),
        ReadReply::Message(detail) => match detail.row.payload {
            Ok(_) => ok(&messages::detail(detail)),
            Err(why) => unopened(why),
        },
        ReadReply::NoMessage => not_found("Message not found"),
        ReadReply::DeadLetters(page) => ok(&messages::dead_letters(page)),
        ReadReply::Groups(groups) => ok(&groups::listing(groups)),
        ReadReply::Lagging(rows) => ok(&groups::lagging(rows)),
        ReadReply::Group(rows) => ok(&groups::detail(rows)),
        ReadReply::Fetched(answer) => ok(&offsets::fetched(answer)),
        ReadReply::Changed(answer) => ok(&offsets::changed(answer)),
        ReadReply::Traces(found) => {
            let mut body = BytesMut::new();
            put_traces(&mut body, found);
            (200, body.to_vec())
        }
        // Every number is counted when it is asked for: there is nothing to bring up to date.
        ReadReply::Refreshed => ok(&serde_json::json!({"success": true, "refreshed": true})),
    }
}

fn ok(body: &impl Serialize) -> (u16, Vec<u8>) {
    let body = serde_json::to_vec(body).expect("plain values become JSON");
    (200, body)
}

fn not_found(text: &str) -> (u16, Vec<u8>) {
    let body = serde_json::json!({"error": text, "code": "not_found"});
    (404, body.to_string().into_bytes())
}

fn unopened(why: Unopened) -> (u16, Vec<u8>) {
    let text = format!("the message {}", why.text());
    let body = serde_json::json!({"error": text, "code": unopened_code(why)});
    (500, body.to_string().into_bytes())
}

/// A time, in microseconds since 1970: UTC, with milliseconds.
struct Time(i64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}Z", text_of(self.0)))
    }
}

/// The same with microseconds, so that times that are compared as text compare as times.
struct FineTime(i64);

impl Serialize for FineTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rest_us = self.0.rem_euclid(1_000);
        serializer.collect_str(&format_args!("{}{rest_us:03}Z", text_of(self.0)))
    }
}

/// A time without the mark of its zone.
fn text_of(us: i64) -> String {
    let mut quoted = BytesMut::new();
    put_timestamp(&mut quoted, us);
    let text = String::from_utf8_lossy(&quoted);
    text.trim_matches(['"', 'Z']).to_owned()
}

/// Something that is told as the text that shows it: an id is opaque to clients.
struct Shown<T>(T);

impl<T: fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// JSON text as it is stored, with null for what is none: somebody else may have written to the
/// database.
struct Payload<'a>(&'a [u8]);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_slice::<&RawValue>(self.0) {
            Ok(text) => text.serialize(serializer),
            Err(_) => serializer.serialize_unit(),
        }
    }
}

/// The options of a queue in force.
struct Options<'a>(&'a QueueOptions);

impl Serialize for Options<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = BytesMut::from("{");
        put_options(&mut out, self.0);
        out.extend_from_slice(b"}");
        let text = serde_json::from_slice::<&RawValue>(&out).map_err(S::Error::custom)?;
        text.serialize(serializer)
    }
}

/// Microseconds as whole seconds.
fn seconds(us: i64) -> i64 {
    us / 1_000_000
}

/// Microseconds as seconds with milliseconds.
fn fine_seconds(us: i64) -> f64 {
    (us as f64 / 1_000.0).round() / 1_000.0
}
