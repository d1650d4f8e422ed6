//! Storing messages.

use super::{Effect, Shard};
use crate::model::{Moment, Push, Refusal, Reply, TenantId};

impl Shard {
    /// Stores all messages of a push or none.
    pub(super) fn push(
        &mut self,
        now: Moment,
        tenant: TenantId,
        push: &mut Push<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<Reply, Refusal> {
        let count = push.payloads.len();
        if count == 0 {
            return Ok(Reply::Pushed { count: 0 });
        }
        let bytes = push
            .payloads
            .iter()
            .map(|payload| payload.len() as u64)
            .sum();
        let known = self.find_queue(tenant, push.queue.as_str());
        self.check_fits_empty(known, push.queue.as_str(), count as u64, bytes)?;
        let queue = match known {
            Some(queue) => queue,
            None => self.find_or_create_queue(now, tenant, push.queue.as_str())?,
        };
        let ring = self.find_ring(queue, push.partition.as_str());
        let fits = match ring {
            Some(_) => Ok(()),
            None => self.check_partition_fits(queue),
        };
        // A refusal leaves no trace: what was made for the push goes again.
        let reserved = fits.and_then(|()| self.reserve(now, queue, count as u64, bytes, effects));
        if let Err(refusal) = reserved {
            if known.is_none() {
                self.remove_queue(queue);
            }
            return Err(refusal);
        }
        let ring = ring.unwrap_or_else(|| self.create_ring(now, queue, push.partition.as_str()));
        self.queues[queue as usize].cell.touch(now);
        self.store(now, ring, std::mem::take(&mut push.payloads), effects);
        Ok(Reply::Pushed {
            count: count as u32,
        })
    }

    fn store(
        &mut self,
        now: Moment,
        key: u32,
        payloads: Vec<bytes::Bytes>,
        effects: &mut Vec<Effect>,
    ) {
        let pushed = now.max(Moment::from_us(self.last_push.as_us() + 1));
        self.last_push = pushed;
        self.statistics.pushed += payloads.len() as u64;
        self.on_ring(key, |ring, _| {
            ring.touched = now;
            ring.push(payloads, pushed);
        });
        let ring = &self.rings[key as usize];
        self.highest_sequence = self.highest_sequence.max(ring.slots.tail());
        let groups = ring.groups.len() as u32;
        self.note_age(key);
        for group in 0..groups {
            self.mark_ready(key, group);
            self.serve(now, key, group, effects);
        }
        self.arm_ring(now, key);
    }
}
