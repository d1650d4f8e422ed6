//! Pops that gather: one that waits is held for a while where less is there than it asks for
//! (`minPopWaitTime`).

use super::pops::Look;
use super::{Judge, Judged};
use crate::engine::durable::image::{CursorRef, QueueSlot};
use crate::model::TenantId;
use crate::model::durable::{Pop, Source};

impl Judge<'_> {
    /// Until when a pop that begins to wait gathers; a time that is over: not at all. A discovery does
    /// not: its queues may each say something else.
    pub(super) fn gather_until(
        &mut self,
        tenant: TenantId,
        pop: &Pop,
        deadline_us: i64,
    ) -> Judged<i64> {
        let queue = match &pop.source {
            Source::Queue(queue) | Source::Partition { queue, .. } if pop.batch > 1 => queue,
            _ => return Ok(0),
        };
        let slot = self.queue(tenant, queue)?;
        let gather_us = i64::from(self.options(slot).min_pop_wait_ms) * 1_000;
        Ok(match gather_us {
            0 => 0,
            _ => (self.now_us + gather_us).min(deadline_us),
        })
    }

    /// Whether as many messages are ready for the group as the pop takes at most.
    pub(super) fn has_enough(
        &mut self,
        (queue, group): (QueueSlot, usize),
        pop: &Pop,
    ) -> Judged<bool> {
        let image = self.memory.queue(queue);
        let partitions: Vec<usize> = match &pop.source {
            Source::Partition { partition, .. } => image.partition(partition).into_iter().collect(),
            Source::Queue(_) | Source::Discovery { .. } => image.groups[group].turns().collect(),
        };
        let wanted = i64::from(pop.batch);
        let (mut ready, mut found) = (0, 0);
        for partition in partitions {
            if ready >= wanted || found >= pop.partitions {
                break;
            }
            let cursor = CursorRef {
                queue,
                group,
                partition,
            };
            match self.look(cursor, wanted - ready)? {
                Look::Nothing => {}
                Look::Later(time_us) => self.memory.look_again(time_us, cursor),
                Look::Ready { from, to } => {
                    ready += to - from;
                    found += 1;
                }
            }
        }
        Ok(ready >= wanted)
    }
}
