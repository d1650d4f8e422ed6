//! What a session knows of where partitions end, and need not ask: the epochs of `sql/0012_epoch.sql`.

use hashbrown::HashMap;

use super::{Batch, Tail};
use crate::limits::EPOCH_PARTITIONS_MAX;

/// The epoch in which a session appends, and where the partitions end to which it has appended in it.
/// To be forgotten with any error: what was stored is not known then.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Epoch {
    /// 0, which no epoch is: nothing was appended yet, or there are other brokers.
    number: i64,
    /// By partition, the offset of its next message.
    ends: HashMap<i64, i64>,
}

/// The tails of a batch as they are asked for.
#[derive(Debug)]
pub(super) struct Tails {
    /// Those that the server must look up, then those that are known.
    pub(super) unknown_first: Vec<Tail>,
    /// How many are not known.
    pub(super) unknown_count: i32,
    /// The epoch in which the others are known; 0: none.
    pub(super) epoch: i64,
}

impl Epoch {
    /// The tails of a batch, first those that the server must look up.
    pub(super) fn unknown_first(&self, tails: &[Tail]) -> Tails {
        let is_known = |tail: &Tail| self.ends.get(&tail.partition_id) == Some(&tail.next_offset);
        let (known, mut unknown_first): (Vec<Tail>, Vec<Tail>) =
            tails.iter().copied().partition(is_known);
        let unknown_count = i32::try_from(unknown_first.len()).expect("a batch is bounded");
        unknown_first.extend(known);
        Tails {
            unknown_first,
            unknown_count,
            epoch: self.number,
        }
    }

    /// Remembers where a batch that is stored in the epoch `number` leaves its partitions; 0 is no epoch:
    /// then nothing is remembered. Forgets what was known of another epoch, and all where it would be more than
    /// [`EPOCH_PARTITIONS_MAX`].
    pub(super) fn note(&mut self, number: i64, batch: &Batch) {
        let more = batch.tails.len() + batch.segments.len();
        if number != self.number || self.ends.len() + more > EPOCH_PARTITIONS_MAX {
            self.number = number;
            self.ends.clear();
        }
        if number == 0 || more > EPOCH_PARTITIONS_MAX {
            return;
        }
        for tail in &batch.tails {
            self.ends.insert(tail.partition_id, tail.next_offset);
        }
        for row in &batch.segments {
            let end = row.base_offset + i64::from(row.count);
            self.ends.insert(row.partition_id, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::durable::NewSegment;

    fn tail(partition_id: i64, next_offset: i64) -> Tail {
        Tail {
            partition_id,
            next_offset,
        }
    }

    fn appends(partition_id: i64, base_offset: i64, counts: &[i32]) -> Batch {
        let mut batch = Batch {
            tails: vec![tail(partition_id, base_offset)],
            ..Batch::default()
        };
        let mut at = base_offset;
        for &count in counts {
            batch.segments.push(NewSegment {
                partition_id,
                base_offset: at,
                count,
                created_us: 1,
                hashes: Default::default(),
                payload: Default::default(),
            });
            at += i64::from(count);
        }
        batch
    }

    #[test]
    fn only_where_it_has_left_a_partition_is_one_known() {
        let mut epoch = Epoch::default();
        epoch.note(7, &appends(1, 10, &[3, 2]));
        let asked = epoch.unknown_first(&[tail(1, 15), tail(2, 0), tail(1, 13)]);
        assert_eq!(asked.unknown_first, [tail(2, 0), tail(1, 13), tail(1, 15)]);
        assert_eq!((asked.unknown_count, asked.epoch), (2, 7));
    }

    #[test]
    fn what_was_known_in_another_epoch_is_not() {
        let mut epoch = Epoch::default();
        epoch.note(7, &appends(1, 0, &[1]));
        epoch.note(9, &appends(2, 0, &[1]));
        let asked = epoch.unknown_first(&[tail(1, 1), tail(2, 1)]);
        assert_eq!((asked.unknown_count, asked.epoch), (1, 9));
        assert_eq!(asked.unknown_first[0], tail(1, 1));
    }

    #[test]
    fn in_no_epoch_nothing_is_known() {
        let mut epoch = Epoch::default();
        epoch.note(7, &appends(1, 0, &[1]));
        epoch.note(0, &appends(1, 1, &[1]));
        assert_eq!(epoch.unknown_first(&[tail(1, 2)]).unknown_count, 1);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut epoch = Epoch::default();
        for id in 0..=EPOCH_PARTITIONS_MAX {
            epoch.note(7, &appends(i64::try_from(id).expect("a few"), 0, &[1]));
            assert!(epoch.ends.len() <= EPOCH_PARTITIONS_MAX);
        }
        assert_eq!(epoch.unknown_first(&[tail(0, 1)]).unknown_count, 1);
    }
}
