//! Messages that a group has not passed and that are too old.

use super::{CursorRef, Judge, Judged};
use crate::engine::durable::settle::{self, GivenUp};
use crate::postgres::durable::Expired;

/// Why such a message is among the dead letters.
const EXPIRED: &str = "expired";

impl Judge<'_> {
    /// The group passes what is too old, leased or not; it becomes dead letters where those are kept.
    pub(in crate::engine::durable) fn expire(&mut self, expired: &Expired) -> Judged<()> {
        let slot = self.queue(expired.tenant, &expired.queue)?;
        let queue = self.memory.queue(slot);
        let group = queue.group_of_id(expired.group_id);
        let place = group.zip(queue.partition_of_id(expired.partition_id));
        // What is not known is gone, or another broker has just made it: the next round finds it.
        let Some((group, partition)) = place else {
            return Ok(());
        };
        let kept = &queue.partitions[partition];
        let (first_offset, end) = (kept.first_offset, expired.offset.min(kept.next_offset));
        let cursor = CursorRef {
            queue: slot,
            group,
            partition,
        };
        let state = self.cursor_state(cursor);
        if state.committed >= end {
            return Ok(());
        }
        if self.options(slot).keeps_dead_letters() {
            let range = state.committed.max(first_offset)..end;
            for (offset, record) in self.records(slot, partition, range)? {
                let given_up = GivenUp {
                    offset,
                    error: EXPIRED.to_owned(),
                    retries: if offset == state.committed {
                        state.retries
                    } else {
                        0
                    },
                };
                self.bury(cursor, &given_up, &record);
            }
        }
        self.move_cursor(cursor, settle::expire(&state, end, self.now_us));
        Ok(())
    }
}
