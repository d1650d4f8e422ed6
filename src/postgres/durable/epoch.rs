//! What a session knows of where partitions end, and need not ask: the epochs of `sql/0012_epoch.sql`.

use hashbrown::HashMap;

use super::{Batch, Tail};
use crate::limits::EPOCH_PARTITIONS_MAX;

/// The epoch in which a session appends, and where the partitions end to which it has appended in it.
/// To be forgotten with any error: what was stored is not known then.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Epoch {
    /// 0, which no epoch is: nothing was appended yet.
    number: i64,
    ends: HashMap<i64, i64>,
}

/// The tails of a batch as they are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tails {
    /// Those that are not known, then those that are.
    pub(super) unknown_first: Vec<Tail>,
    /// How many are not known.
    pub(super) unknown: i32,
    /// The epoch in which the others are.
    pub(super) epoch: i64,
}

impl Epoch {
    /// What is to be asked.
    pub(super) fn order(&self, tails: &[Tail]) -> Tails {
        let is_known = |tail: &&Tail| self.ends.get(&tail.partition_id) == Some(&tail.next_offset);
        let (known, mut unknown_first): (Vec<&Tail>, Vec<&Tail>) = tails.iter().partition(is_known);
        let unknown = i32::try_from(unknown_first.len()).expect("a batch is bounded");
        unknown_first.extend(known);
        Tails {
            unknown_first: unknown_first.into_iter().copied().collect(),
            unknown,
            epoch: self.number,
        }
    }

    /// A batch is stored, in this epoch.
    pub(super) fn note(&mut self, number: i64, batch: &Batch) {
        let more = batch.tails.len() + batch.segments.len();
        if number != self.number || self.ends.len() + more > EPOCH_PARTITIONS_MAX {
            self.number = number;
            self.ends.clear();
        }
        let tails = batch
            .tails
            .iter()
            .map(|tail| (tail.partition_id, tail.next_offset));
        self.ends.extend(tails);
        let segments = batch.segments.iter();
        self.ends
            .extend(segments.map(|row| (row.partition_id, row.base_offset + i64::from(row.count))));
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
        let asked = epoch.order(&[tail(1, 15), tail(2, 0), tail(1, 13)]);
        assert_eq!(asked.unknown_first, [tail(2, 0), tail(1, 13), tail(1, 15)]);
        assert_eq!((asked.unknown, asked.epoch), (2, 7));
    }

    #[test]
    fn what_was_known_in_another_epoch_is_not() {
        let mut epoch = Epoch::default();
        epoch.note(7, &appends(1, 0, &[1]));
        epoch.note(9, &appends(2, 0, &[1]));
        let asked = epoch.order(&[tail(1, 1), tail(2, 1)]);
        assert_eq!((asked.unknown, asked.epoch), (1, 9));
        assert_eq!(asked.unknown_first[0], tail(1, 1));
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut epoch = Epoch::default();
        for id in 0..=EPOCH_PARTITIONS_MAX {
            epoch.note(7, &appends(i64::try_from(id).expect("a few"), 0, &[1]));
            assert!(epoch.ends.len() <= EPOCH_PARTITIONS_MAX);
        }
        assert_eq!(epoch.order(&[tail(0, 1)]).unknown, 1);
    }
}
