//! Encrypted messages, decrypted before they are taken.

use std::ops::Range;

use super::{Judge, Judged};
use crate::engine::durable::image::CursorRef;
use crate::engine::seal::Place;
use crate::model::Refusal;
use crate::model::durable::{Piece, SegmentWriter};

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
        let found = self.records(cursor.queue, cursor.partition, range)?;
        let Some(&(base_offset, _)) = found.first() else {
            return Ok(Ok(None));
        };
        let queue = self.memory.queue(cursor.queue);
        let partition = &queue.partitions[cursor.partition];
        let mut writer = SegmentWriter::default();
        for (expected, (offset, record)) in (base_offset..).zip(found) {
            assert_eq!(offset, expected, "what is kept of a partition has no gap");
            let place = Place::Stored {
                partition_id: partition.id,
                offset,
            };
            match self.memory.rules.seal.open(place, record) {
                Ok(record) => writer.push(&record),
                Err(why) if writer.is_empty() => {
                    return Ok(Err(Refusal::Unopened {
                        message: format!(
                            "the message at offset {offset} of partition {:?} of queue {:?}",
                            partition.name, queue.name
                        ),
                        why,
                    }));
                }
                Err(_) => break,
            }
        }
        let count = i64::from(writer.count());
        Ok(Ok(Some(Piece {
            segment: writer.finish(),
            base_offset,
            from: base_offset,
            to: base_offset + count,
        })))
    }
}
