//! `POST /api/v1/fetch` and `POST /api/v1/partitions/changed`.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{checked, time};
use crate::api::decode::BodyBytes;
use crate::api::decode::json::describe;
use crate::api::durable_fault::DurableFault;
use crate::api::reads::CURSOR_MARK;
use crate::limits::{FETCH_WAIT_MS_MAX, READ_BYTES_MAX, READ_ENTRIES_MAX, READ_ROWS_MAX};
use crate::model::durable::DEFAULT_PARTITION;
use crate::model::durable::read::{BadCursor, ChangedEntry, Fetch, FetchEntry};

/// Stored bytes that are read of a partition if the request does not say.
const ENTRY_BYTES_DEFAULT: u64 = 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object with entries")]
struct FetchBody {
    entries: Vec<FetchItem>,
    max_wait_ms: Option<u64>,
    min_bytes: Option<u64>,
    max_bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object as an entry")]
struct FetchItem {
    queue: String,
    partition: Option<PartitionText>,
    offset: u64,
    max_bytes: Option<u64>,
}

/// A partition by its name, which may be a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a string, a whole number or null as partition")]
enum PartitionText {
    Name(String),
    Number(i64),
}

#[derive(Deserialize)]
#[serde(expecting = "an object with entries")]
struct ChangedBody {
    #[serde(default)]
    entries: Vec<ChangedItem>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object as an entry")]
struct ChangedItem {
    queue: String,
    since: Option<String>,
    after: Option<String>,
    limit: Option<i64>,
}

pub(super) fn decode_fetch(body: BodyBytes<'_>) -> Result<Fetch, DurableFault> {
    let body: FetchBody = parse(body)?;
    check_length(body.entries.len())?;
    let entries = body.entries.into_iter().enumerate().map(fetch_entry);
    let wait_ms = body.max_wait_ms.unwrap_or(0);
    if wait_ms > FETCH_WAIT_MS_MAX {
        let text = format!("maxWaitMs must be at most {FETCH_WAIT_MS_MAX}");
        return Err(DurableFault::bad_request(text));
    }
    Ok(Fetch {
        entries: entries.collect::<Result<_, _>>()?,
        wait_ms,
        bytes_min: body.min_bytes.unwrap_or(1),
        bytes_max: bytes_max("maxBytes", body.max_bytes.unwrap_or(READ_BYTES_MAX))?,
    })
}

fn fetch_entry((place, item): (usize, FetchItem)) -> Result<FetchEntry, DurableFault> {
    let field = |key: &str| format!("entries[{place}].{key}");
    let partition = match item.partition {
        None => DEFAULT_PARTITION.into(),
        Some(PartitionText::Name(name)) => checked(&field("partition"), Cow::Owned(name))?,
        Some(PartitionText::Number(number)) => number.to_string().into(),
    };
    let offset = i64::try_from(item.offset).map_err(|_| {
        DurableFault::bad_request(format!("{} is larger than any offset", field("offset")))
    })?;
    Ok(FetchEntry {
        queue: checked(&field("queue"), Cow::Owned(item.queue))?,
        partition,
        offset,
        bytes_max: bytes_max(
            &field("maxBytes"),
            item.max_bytes.unwrap_or(ENTRY_BYTES_DEFAULT),
        )?,
    })
}

/// Who asks for more than there is gets that much; who asks for nothing would never get on.
fn bytes_max(field: &str, bytes: u64) -> Result<u64, DurableFault> {
    if bytes == 0 {
        let text = format!("{field} must be at least 1");
        return Err(DurableFault::bad_request(text));
    }
    Ok(bytes.min(READ_BYTES_MAX))
}

pub(super) fn decode_changed(body: BodyBytes<'_>) -> Result<Vec<ChangedEntry>, DurableFault> {
    let body: ChangedBody = parse(body)?;
    check_length(body.entries.len())?;
    body.entries
        .into_iter()
        .enumerate()
        .map(changed_entry)
        .collect()
}

fn changed_entry((place, item): (usize, ChangedItem)) -> Result<ChangedEntry, DurableFault> {
    let field = |key: &str| format!("entries[{place}].{key}");
    let after = item.after.filter(|after| !after.is_empty());
    let limit = i64::from(READ_ROWS_MAX);
    Ok(ChangedEntry {
        queue: checked(&field("queue"), Cow::Owned(item.queue))?,
        since_us: time(&field("since"), item.since.map(Cow::Owned))?,
        after: after.map(|after| cursor(&after)),
        // It tells by a further page what it has cut off.
        limit: item.limit.unwrap_or(limit).clamp(1, limit) as u32,
    })
}

/// A place in a listing: a mark, and the name behind which it goes on.
fn cursor(text: &str) -> Result<Box<str>, BadCursor> {
    let name = text.strip_prefix(CURSOR_MARK).ok_or(BadCursor)?;
    checked("after", Cow::Borrowed(name)).map_err(|_| BadCursor)
}

fn check_length(entries: usize) -> Result<(), DurableFault> {
    if entries > READ_ENTRIES_MAX {
        let text = format!("entries has {entries} items: at most {READ_ENTRIES_MAX} are read");
        return Err(DurableFault::bad_request(text));
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(body: BodyBytes<'_>) -> Result<T, DurableFault> {
    if body.text.is_empty() {
        return Err(DurableFault::bad_request("a JSON body is required"));
    }
    serde_json::from_slice(body.text).map_err(|fault| {
        DurableFault::bad_request(format!("the body is not valid: {}", describe(&fault)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(body: &str) -> Result<Fetch, DurableFault> {
        decode_fetch(BodyBytes::borrowed(body.as_bytes()))
    }

    fn changed(body: &str) -> Result<Vec<ChangedEntry>, DurableFault> {
        decode_changed(BodyBytes::borrowed(body.as_bytes()))
    }

    #[test]
    fn what_is_left_open_has_its_default() {
        let fetch = fetch(r#"{"entries":[{"queue":"q","offset":3,"partition":null}]}"#).unwrap();
        assert_eq!((fetch.wait_ms, fetch.bytes_min), (0, 1));
        assert_eq!(fetch.bytes_max, READ_BYTES_MAX);
        let entry = &fetch.entries[0];
        assert_eq!((&*entry.partition, entry.offset), ("Default", 3));
        assert_eq!(entry.bytes_max, ENTRY_BYTES_DEFAULT);
        let changed = changed(r#"{"entries":[{"queue":"q"}]}"#).unwrap();
        assert_eq!((changed[0].since_us, changed[0].limit), (None, 1_000));
        assert_eq!(changed[0].after, None);
    }

    #[test]
    fn everything_that_can_be_said() {
        let fetch = fetch(
            r#"{"entries":[{"queue":"q","partition":7,"offset":0,"maxBytes":99999999999},
            {"queue":"q","partition":"p","offset":1,"maxBytes":10}],"maxWaitMs":500,"minBytes":0,"x":1}"#,
        );
        let fetch = fetch.unwrap();
        assert_eq!((fetch.wait_ms, fetch.bytes_min), (500, 0));
        assert_eq!(&*fetch.entries[0].partition, "7");
        assert_eq!(fetch.entries[0].bytes_max, READ_BYTES_MAX);
        assert_eq!(fetch.entries[1].bytes_max, 10);
        let entries = format!(
            r#"{{"entries":[{{"queue":"q","since":"1970-01-01T00:00:01Z","after":"{CURSOR_MARK}p","limit":0}},
            {{"queue":"q","after":"p","limit":5000}},{{"queue":"q","after":"","limit":5}}]}}"#
        );
        let changed = changed(&entries).unwrap();
        assert_eq!(changed[0].since_us, Some(1_000_000));
        assert_eq!(changed[0].after, Some(Ok("p".into())));
        assert_eq!(changed[1].after, Some(Err(BadCursor)));
        assert_eq!(changed[2].after, None);
        assert_eq!(
            changed.iter().map(|entry| entry.limit).collect::<Vec<_>>(),
            [1, 1_000, 5]
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"entries":1}"#,
            r#"{"entries":[1]}"#,
            r#"{"entries":[{"queue":"q"}]}"#,
            r#"{"entries":[{"queue":"q","offset":-1}]}"#,
            r#"{"entries":[{"queue":"q","offset":1.5}]}"#,
            r#"{"entries":[{"queue":"q","offset":9223372036854775808}]}"#,
            r#"{"entries":[{"queue":"","offset":0}]}"#,
            r#"{"entries":[{"queue":"q","offset":0,"partition":true}]}"#,
            r#"{"entries":[{"queue":"q","offset":0,"partition":""}]}"#,
            r#"{"entries":[],"maxWaitMs":30001}"#,
            r#"{"entries":[],"maxWaitMs":"1"}"#,
        ] {
            assert!(fetch(body).is_err(), "{body}");
        }
        for body in [
            r#"{"entries":[{"queue":"q","since":"yesterday"}]}"#,
            r#"{"entries":[{"queue":"q","since":""}]}"#,
            r#"{"entries":[{"since":null}]}"#,
            r#"{"entries":[{"queue":"q\u0000"}]}"#,
        ] {
            assert!(changed(body).is_err(), "{body}");
        }
        let many = vec![r#"{"queue":"q","offset":0}"#; 1_025].join(",");
        assert!(fetch(&format!(r#"{{"entries":[{many}]}}"#)).is_err());
        assert_eq!(changed("{}").unwrap(), []);
    }
}
