//! Questions about messages: where they lie, and how they stand for each group.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::answer::{Answered, Asking, Source};
use crate::engine::durable::hash_of;
use crate::engine::seal::Place;
use crate::limits::{MESSAGES_LOOK_MAX, READ_BYTES_MAX};
use crate::model::durable::read::{
    GivenUp, MessageDetail, MessageFilter, MessageGroup, MessagePage, MessageRow, MessageStatus,
    ReadReply,
};
use crate::model::durable::{QUEUE_MODE_GROUP, Record, records};
use crate::postgres::SessionFault;
use crate::postgres::durable::reads::{GivenUpAt, GroupState, MessagePartition, SegmentKey};

/// Microseconds that a listing goes back if it does not say.
const RANGE_DEFAULT_US: i64 = 3_600_000_000;

/// A stored message and where it is.
struct Found {
    key: SegmentKey,
    offset: i64,
    record: Record,
}

/// Partitions and offsets of messages that were given up.
type Letters = BTreeSet<(i64, i64)>;

impl Asking<'_> {
    /// Messages, newest first. With a status at most the newest [`MESSAGES_LOOK_MAX`] of the range are
    /// looked at.
    pub(super) fn messages(self, source: &mut Source<'_>, filter: &MessageFilter) -> Answered {
        let from_us = match filter.from_us {
            Some(from_us) => from_us,
            None => source.session.now_us(source.waiting)? - RANGE_DEFAULT_US,
        };
        let filter = MessageFilter {
            from_us: Some(from_us),
            ..filter.clone()
        };
        let looked_at = match filter.status {
            Some(_) => MESSAGES_LOOK_MAX,
            None => filter.limit + filter.offset,
        };
        let Source {
            session, waiting, ..
        } = source;
        let segments = session.message_segments(self.tenant, (&filter, looked_at), *waiting)?;
        let mut found = source.unpack(&segments)?;
        found.retain(|found| {
            let created_us = found.record.created_us;
            created_us >= from_us && filter.to_us.is_none_or(|to_us| created_us < to_us)
        });
        found.sort_by_key(|found| {
            let place = (found.key.partition_id, found.offset);
            Reverse((found.record.created_us, place))
        });
        found.truncate(looked_at as usize);
        let ids: BTreeSet<i64> = found.iter().map(|found| found.key.partition_id).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let Source {
            session, waiting, ..
        } = source;
        let partitions = session.message_partitions(self.tenant, &ids, *waiting)?;
        let letters = source.letters(&found, &ids)?;
        let page = source.page_of(found, (&partitions, &letters), &filter);
        Ok(ReadReply::Messages(page))
    }

    /// One message, stored or given up.
    pub(super) fn message(
        self,
        source: &mut Source<'_>,
        partition_id: Option<i64>,
        transaction_id: &str,
    ) -> Answered {
        let ids: Vec<i64> = partition_id.into_iter().collect();
        let Source {
            session, waiting, ..
        } = source;
        let partitions = session.message_partitions(self.tenant, &ids, *waiting)?;
        // What the database cannot store was never pushed.
        let Some(partition) = partitions
            .first()
            .filter(|_| !transaction_id.contains('\0'))
        else {
            return Ok(ReadReply::NoMessage);
        };
        let letter = session.dead_letter_of(partition.id, transaction_id, *waiting)?;
        let stored = source.find(partition.id, transaction_id)?;
        let found = stored.or_else(|| {
            let (letter, kept) = letter.as_ref()?;
            Some(Found {
                key: SegmentKey {
                    partition_id: partition.id,
                    base_offset: letter.offset,
                },
                offset: letter.offset,
                record: records(kept).next()?,
            })
        });
        let Some(found) = found else {
            return Ok(ReadReply::NoMessage);
        };
        // A later message of the same id is not the one that was given up.
        let letter = letter.map(|(letter, _)| letter);
        let letter = letter.filter(|letter| letter.offset == found.offset);
        let detail = source.detail_of(found, partition, letter);
        Ok(ReadReply::Message(Box::new(detail)))
    }
}

impl Source<'_> {
    /// The messages of some segments, as many as an answer has room for.
    fn unpack(&mut self, segments: &[(SegmentKey, i64)]) -> Result<Vec<Found>, SessionFault> {
        let mut room = READ_BYTES_MAX.cast_signed();
        let mut keys = Vec::new();
        for &(key, bytes) in segments {
            if room <= 0 {
                break;
            }
            room -= bytes;
            keys.push(key);
        }
        let payloads = self.session.segments(&keys, self.waiting)?;
        let mut found = Vec::new();
        for (key, payload) in keys.into_iter().zip(payloads) {
            found.extend(
                payload
                    .iter()
                    .flat_map(|(payload, _)| unpacked(key, payload)),
            );
        }
        Ok(found)
    }

    fn page_of(
        &self,
        found: Vec<Found>,
        (partitions, letters): (&[MessagePartition], &Letters),
        filter: &MessageFilter,
    ) -> MessagePage {
        let by_id: BTreeMap<i64, &MessagePartition> = partitions
            .iter()
            .map(|partition| (partition.id, partition))
            .collect();
        let rows = found.into_iter().filter_map(|found| {
            let partition = by_id.get(&found.key.partition_id)?;
            let is_dead = letters.contains(&(found.key.partition_id, found.offset));
            Some(self.row_of(found, partition, is_dead))
        });
        let wanted = |row: &MessageRow| filter.status.is_none_or(|status| row.status == status);
        let rows: Vec<MessageRow> = rows
            .filter(wanted)
            .skip(filter.offset as usize)
            .take(filter.limit as usize)
            .collect();
        let groups = || partitions.iter().flat_map(|partition| &partition.groups);
        let is_queue_mode = |group: &GroupState| *group.name == *QUEUE_MODE_GROUP;
        MessagePage {
            rows,
            has_queue_mode: groups().any(is_queue_mode),
            has_groups: groups().any(|group| !is_queue_mode(group)),
        }
    }

    fn detail_of(
        &self,
        found: Found,
        partition: &MessagePartition,
        letter: Option<GivenUpAt>,
    ) -> MessageDetail {
        let given_up: Option<GivenUp> = letter.map(|letter| letter.given_up);
        MessageDetail {
            row: self.row_of(found, partition, given_up.is_some()),
            queue: partition.queue.clone(),
            given_up,
        }
    }

    fn row_of(&self, found: Found, partition: &MessagePartition, is_dead: bool) -> MessageRow {
        let Found {
            key,
            offset,
            record,
        } = found;
        let groups = partition.groups.iter();
        let groups: Vec<MessageGroup> = groups
            .map(|group| group_of(group, offset, partition.now_us))
            .collect();
        let place = Place::Stored {
            partition_id: partition.id,
            offset,
        };
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into();
        MessageRow {
            message_id: record.message_id,
            transaction_id: text(&record.transaction_id),
            transaction_hash: hash_of(&record.transaction_id),
            partition_id: partition.id,
            queue: partition.queue.name.clone(),
            partition: partition.name.clone(),
            namespace: partition.queue.namespace.clone(),
            task: partition.queue.task.clone(),
            priority: partition.queue.options.priority,
            status: status_of(&groups, is_dead),
            base_offset: key.base_offset,
            offset,
            groups,
            trace_id: record.trace_id,
            producer: record.producer.as_ref().map(text),
            created_us: record.created_us,
            encrypted: record.encrypted,
            payload: self.seal.open(place, record).map(|record| record.payload),
        }
    }

    /// Which of some messages were given up.
    fn letters(&mut self, found: &[Found], ids: &[i64]) -> Result<Letters, SessionFault> {
        let Some(first) = found.iter().map(|found| found.offset).min() else {
            return Ok(Letters::new());
        };
        let letters = self.session.given_up(ids, first, self.waiting)?;
        let places = letters
            .iter()
            .map(|letter| (letter.partition_id, letter.offset));
        Ok(places.collect())
    }

    /// The newest stored message with a transaction id, found by the hash that is stored beside it.
    fn find(
        &mut self,
        partition_id: i64,
        transaction_id: &str,
    ) -> Result<Option<Found>, SessionFault> {
        let hash = hash_of(transaction_id.as_bytes()).to_le_bytes();
        let mut before = i64::MAX;
        loop {
            let asked = (partition_id, before);
            let candidates = self.session.find_hash(asked, &hash, self.waiting)?;
            let Some(&(last, _)) = candidates.last() else {
                return Ok(None);
            };
            // The bytes may also stand across two hashes.
            let holds = |hashes: &Bytes| hashes.chunks(hash.len()).any(|one| one == hash);
            let likely = candidates.iter().filter(|(_, hashes)| holds(hashes));
            let keys: Vec<SegmentKey> = likely
                .map(|&(base_offset, _)| SegmentKey {
                    partition_id,
                    base_offset,
                })
                .collect();
            let payloads = self.session.segments(&keys, self.waiting)?;
            for (key, payload) in keys.into_iter().zip(payloads) {
                let messages = payload
                    .iter()
                    .flat_map(|(payload, _)| unpacked(key, payload));
                let same = |found: &Found| found.record.transaction_id == transaction_id;
                if let Some(found) = messages.filter(same).last() {
                    return Ok(Some(found));
                }
            }
            before = last;
        }
    }
}

fn unpacked(key: SegmentKey, payload: &Bytes) -> impl Iterator<Item = Found> {
    let messages = records(payload).zip(key.base_offset..);
    messages.map(move |(record, offset)| Found {
        key,
        offset,
        record,
    })
}

/// How a message stands for a group that stands there.
fn group_of(group: &GroupState, offset: i64, now_us: i64) -> MessageGroup {
    let is_held = (group.committed..group.batch_end).contains(&offset);
    let is_leased = is_held && group.lease_until_us > now_us;
    MessageGroup {
        name: group.name.clone(),
        consumed: offset < group.committed,
        lease_until_us: is_leased.then_some(group.lease_until_us),
        retries: if offset == group.committed {
            group.retries
        } else {
            0
        },
        settled_us: (group.settled_us > 0).then_some(group.settled_us),
    }
}

fn status_of(groups: &[MessageGroup], is_dead: bool) -> MessageStatus {
    if is_dead {
        MessageStatus::DeadLetter
    } else if groups.iter().any(|group| group.lease_until_us.is_some()) {
        MessageStatus::Processing
    } else if !groups.is_empty() && groups.iter().all(|group| group.consumed) {
        MessageStatus::Completed
    } else {
        MessageStatus::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(committed: i64, batch_end: i64, lease_until_us: i64) -> GroupState {
        GroupState {
            name: "g".into(),
            committed,
            batch_end,
            retries: 2,
            settled_us: 0,
            lease_until_us,
        }
    }

    fn status(states: &[GroupState], offset: i64) -> MessageStatus {
        let groups: Vec<MessageGroup> = states
            .iter()
            .map(|state| group_of(state, offset, 100))
            .collect();
        status_of(&groups, false)
    }

    #[test]
    fn a_message_stands_as_its_groups_do() {
        assert_eq!(status(&[], 0), MessageStatus::Pending);
        let (done, holds, held) = (state(5, 5, 0), state(2, 5, 101), state(2, 5, 100));
        assert_eq!(
            status(std::slice::from_ref(&done), 4),
            MessageStatus::Completed
        );
        assert_eq!(
            status(std::slice::from_ref(&done), 5),
            MessageStatus::Pending
        );
        assert_eq!(
            status(&[done.clone(), holds.clone()], 4),
            MessageStatus::Processing
        );
        assert_eq!(
            status(&[done.clone(), holds.clone()], 1),
            MessageStatus::Completed
        );
        assert_eq!(status(&[holds], 5), MessageStatus::Pending);
        assert_eq!(status(&[done, held], 4), MessageStatus::Pending);
        let dead = status_of(&[], true);
        assert_eq!(dead, MessageStatus::DeadLetter);
    }

    #[test]
    fn failures_are_those_of_the_first_in_line() {
        let state = state(2, 5, 0);
        assert_eq!(group_of(&state, 2, 0).retries, 2);
        assert_eq!(group_of(&state, 3, 0).retries, 0);
        assert_eq!(group_of(&state, 2, 0).settled_us, None);
    }
}
