//! Messages that may be encrypted or damaged, opened before they are taken.

use std::ops::Range;

use super::{Judge, Judged};
use crate::engine::durable::image::CursorRef;
use crate::engine::seal::Place;
use crate::model::Refusal;
use crate::model::durable::{Piece, SegmentWriter, Unopened};

impl Judge<'_> {
    /// Decrypts the messages of a range, up to the first one that cannot be. That is known before
    /// anything is taken: who settles at delivery could not have it once more.
    ///
    /// Answers with nothing where there is none: retention was faster.
    pub(super) fn open(
        &mut self,
        cursor: CursorRef,
        range: Range<i64>,
    ) -> Judged<Result<Option<Piece>, Refusal>> {
        let found = self.find(cursor.queue, cursor.partition, range.clone())?;
        let queue = self.memory.queue(cursor.queue);
        let partition = &queue.partitions[cursor.partition];
        let mut writer = SegmentWriter::default();
        let mut base_offset = None;
        let mut failed = found.damaged.map(|offset| (offset, Unopened::Damaged));
        let end = found.damaged.unwrap_or(range.end);
        for (offset, record) in found.records {
            if offset >= end {
                break;
            }
            let place = Place::Stored {
                partition_id: partition.id,
                offset,
            };
            match self.memory.rules.seal.open(place, record) {
                Ok(record) => writer.push(&record),
                Err(why) => {
                    failed = Some((offset, why));
                    break;
                }
            }
            base_offset.get_or_insert(offset);
        }
        let count = i64::from(writer.count());
        Ok(match (base_offset, failed) {
            (Some(base_offset), _) => Ok(Some(Piece {
                segment: writer.finish(),
                base_offset,
                from: base_offset,
                to: base_offset + count,
            })),
            (None, Some((offset, why))) => Err(Refusal::Unopened {
                message: format!(
                    "the message at offset {offset} of partition {:?} of queue {:?}",
                    partition.name, queue.name
                ),
                why,
            }),
            (None, None) => Ok(None),
        })
    }
}
