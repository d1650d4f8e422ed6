//! Reads by offsets, and partitions that were written to.

use super::answer::{Answered, Asking, Source};
use crate::engine::seal::Place;
use crate::limits::SAFE_TIME_MS;
use crate::model::durable::read::{
    ChangedAnswer, ChangedEntry, ChangedPage, Fetch, FetchAnswer, FetchEntry, FetchFault, Fetched,
    ReadReply,
};
use crate::model::durable::{Unopened, is_whole, records};
use crate::postgres::SessionFault;
use crate::postgres::durable::reads::{FetchPlace, SegmentKey, SizeQuery};

/// Segments that one read tells of, over all its entries: what a look at their sizes may cost.
const SEGMENTS_MAX: usize = 65_536;

/// Segments of a partition that one read tells of, whatever else it reads.
const SEGMENTS_MIN: usize = 64;

impl Asking<'_> {
    /// Stored messages from some offsets on. What an entry has no room for comes with the next read.
    pub(super) fn fetch(self, source: &mut Source<'_>, fetch: &Fetch) -> Answered {
        let entries = &fetch.entries;
        let Source {
            session,
            seal,
            waiting,
            ..
        } = source;
        let places = session.fetch_places(self.tenant, entries, *waiting)?;
        let answers = entries.iter().zip(&places);
        let mut answers: Vec<Fetched> = answers
            .map(|(entry, place)| fetched_of(entry, *place))
            .collect();
        let has_more = |at: &usize| {
            let answer = &answers[*at];
            answer.fault.is_none() && entries[*at].offset < answer.next_offset
        };
        let wanted: Vec<usize> = (0..entries.len()).filter(has_more).collect();
        let queries = wanted.iter().map(|&at| SizeQuery {
            partition_id: places[at].expect("it is known").partition_id,
            first_offset: entries[at].offset,
            room: entries[at].bytes_max.cast_signed(),
        });
        let queries: Vec<SizeQuery> = queries.collect();
        if queries.is_empty() {
            return Ok(ReadReply::Fetched(FetchAnswer { entries: answers }));
        }
        let segments_max = (SEGMENTS_MAX / queries.len()).max(SEGMENTS_MIN) as i64;
        let sizes = session.segment_sizes(&queries, segments_max, *waiting)?;
        let chosen = choose(&sizes, fetch.bytes_max);
        let keys: Vec<SegmentKey> = chosen.iter().map(|&(_, key)| key).collect();
        let payloads = session.segments(&keys, *waiting)?;
        for (&(query, key), payload) in chosen.iter().zip(payloads) {
            let at = wanted[query];
            let Some((payload, count)) = payload else {
                continue;
            };
            if !is_whole(&payload, count) {
                let first = key.base_offset.max(entries[at].offset);
                answers[at].add(first, Err(Unopened::Damaged));
                continue;
            }
            let messages = records(&payload).zip(key.base_offset..);
            let messages = messages.filter(|(_, offset)| *offset >= entries[at].offset);
            for (record, offset) in messages {
                let place = Place::Stored {
                    partition_id: key.partition_id,
                    offset,
                };
                answers[at].add(offset, seal.open(place, record));
            }
        }
        Ok(ReadReply::Fetched(FetchAnswer { entries: answers }))
    }

    /// Partitions that were written to, queue by queue.
    pub(super) fn changed(self, source: &mut Source<'_>, entries: &[ChangedEntry]) -> Answered {
        let now_us = source.session.now_us(source.waiting)?;
        let pages: Result<Vec<ChangedPage>, SessionFault> = entries
            .iter()
            .map(|entry| self.changed_page(source, entry))
            .collect();
        Ok(ReadReply::Changed(ChangedAnswer {
            // What has an earlier time than that can be seen already, or will never be: a message has
            // its time when it is judged, and is stored within the bounds of a batch.
            safe_us: now_us - SAFE_TIME_MS as i64 * 1_000,
            entries: pages?,
        }))
    }

    fn changed_page(
        self,
        source: &mut Source<'_>,
        entry: &ChangedEntry,
    ) -> Result<ChangedPage, SessionFault> {
        let empty = |fault| ChangedPage {
            queue: entry.queue.clone(),
            partitions: Vec::new(),
            next: None,
            fault,
        };
        let after = match &entry.after {
            None => None,
            Some(Ok(after)) => Some(&**after),
            Some(Err(_)) => return Ok(empty(Some(FetchFault::BadCursor))),
        };
        let Source {
            session, waiting, ..
        } = source;
        let (queue, range) = ((self.tenant, &*entry.queue), (after, entry.since_us));
        let found = session.changed_partitions(queue, range, entry.limit + 1, *waiting)?;
        let Some(mut partitions) = found else {
            return Ok(empty(Some(FetchFault::Unknown)));
        };
        let has_more = partitions.len() > entry.limit as usize;
        partitions.truncate(entry.limit as usize);
        let last = partitions.last().map(|last| last.name.clone());
        Ok(ChangedPage {
            next: last.filter(|_| has_more),
            partitions,
            ..empty(None)
        })
    }
}

/// What is known of an entry before its messages are read.
fn fetched_of(entry: &FetchEntry, place: Option<FetchPlace>) -> Fetched {
    let (first_offset, next_offset, fault) = match place {
        None => (0, 0, Some(FetchFault::Unknown)),
        Some(place) => {
            let kept = place.first_offset..=place.next_offset;
            let fault = (!kept.contains(&entry.offset)).then_some(FetchFault::OutOfRange);
            (place.first_offset, place.next_offset, fault)
        }
    };
    Fetched {
        queue: entry.queue.clone(),
        partition: entry.partition.clone(),
        records: Vec::new(),
        next_offset,
        first_offset,
        is_cut: false,
        fault,
    }
}

/// The segments that an answer has room for, in order of the entries; the first is always among them.
fn choose(sizes: &[Vec<(SegmentKey, i64)>], bytes_max: u64) -> Vec<(usize, SegmentKey)> {
    let mut left = bytes_max.cast_signed();
    let mut chosen = Vec::new();
    for (query, segments) in sizes.iter().enumerate() {
        for &(key, bytes) in segments {
            if left < bytes && !chosen.is_empty() {
                return chosen;
            }
            left -= bytes;
            chosen.push((query, key));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition_id: i64, base_offset: i64) -> SegmentKey {
        SegmentKey {
            partition_id,
            base_offset,
        }
    }

    #[test]
    fn an_answer_has_at_least_one_segment_and_then_what_fits() {
        let sizes = [
            vec![(key(1, 0), 100), (key(1, 5), 100)],
            vec![],
            vec![(key(2, 0), 50)],
        ];
        let all = vec![(0, key(1, 0)), (0, key(1, 5)), (2, key(2, 0))];
        assert_eq!(choose(&sizes, 250), all);
        assert_eq!(choose(&sizes, 249), all[..2]);
        assert_eq!(choose(&sizes, 199), all[..1]);
        assert_eq!(choose(&sizes, 0), all[..1]);
        assert_eq!(choose(&[], 10), []);
    }

    #[test]
    fn an_offset_is_one_that_is_kept_or_the_next() {
        let entry = |offset| FetchEntry {
            queue: "q".into(),
            partition: "p".into(),
            offset,
            bytes_max: 1,
        };
        let place = FetchPlace {
            partition_id: 1,
            first_offset: 5,
            next_offset: 9,
        };
        let fault = |offset| fetched_of(&entry(offset), Some(place)).fault;
        assert_eq!((fault(5), fault(9)), (None, None));
        assert_eq!(fault(4), Some(FetchFault::OutOfRange));
        assert_eq!(fault(10), Some(FetchFault::OutOfRange));
        assert_eq!(fetched_of(&entry(0), None).fault, Some(FetchFault::Unknown));
    }
}
