//! Storing messages.

use super::room::{Room, Wanted};
use super::{Effect, Shard};
use crate::limits;
use crate::model::{ClientRef, Moment, Push, Refusal, Reply, TenantId};

/// What became of a push that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// Its messages are stored.
    Stored(u32),
    /// Other shards hold the room that it needs; they have been asked, if any could be.
    Waits,
    /// The queue died under it: look the name up anew.
    Died,
}

impl Shard {
    /// Stores all messages of a push or none. `None`: it waits for room.
    pub(super) fn push(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        push: &mut Push<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<Option<Reply>, Refusal> {
        if push.payloads.is_empty() {
            return Ok(Some(Reply::Pushed { count: 0 }));
        }
        // Pushes to a queue are stored in the order in which they came.
        if let Some(token) = self.held.token(tenant, push.queue.as_str()) {
            self.hold_behind(now, token, (client, push))?;
            return Ok(None);
        }
        let mut wanted = Wanted {
            messages: push.payloads.len() as u64,
            bytes: push.payloads.iter().map(|one| one.len() as u64).sum(),
            token: self.held.next_token(),
            reserved_outside: false,
        };
        match self.try_push(now, tenant, (push, &mut wanted), effects) {
            Ok(Some(count)) => Ok(Some(Reply::Pushed { count })),
            Ok(None) => {
                self.hold(now, tenant, (client, push, wanted));
                Ok(None)
            }
            Err(refusal) => {
                self.give_up(tenant, wanted);
                Err(refusal)
            }
        }
    }

    /// Stores a push; `None` if it has to wait for room. Whoever is told of a refusal, or gives up
    /// waiting, calls [`Shard::give_up`].
    pub(super) fn try_push(
        &mut self,
        now: Moment,
        tenant: TenantId,
        (push, wanted): (&mut Push<'_>, &mut Wanted),
        effects: &mut Vec<Effect>,
    ) -> Result<Option<u32>, Refusal> {
        for _ in 0..limits::LIVES_TRIED_MAX {
            match self.push_once(now, tenant, (push, wanted), effects)? {
                Tried::Stored(count) => return Ok(Some(count)),
                Tried::Waits => return Ok(None),
                Tried::Died => {}
            }
        }
        Err(Shard::TOO_MANY_LIVES)
    }

    fn push_once(
        &mut self,
        now: Moment,
        tenant: TenantId,
        (push, wanted): (&mut Push<'_>, &mut Wanted),
        effects: &mut Vec<Effect>,
    ) -> Result<Tried, Refusal> {
        let name = push.queue.as_str();
        let known = self.find_queue(now, tenant, name, effects);
        self.check_fits_empty(known, name, wanted.messages, wanted.bytes)?;
        let queue = match known {
            Some(queue) => queue,
            None => self.find_or_create_queue(now, tenant, name, effects)?,
        };
        let ring = self.find_ring(queue, push.partition.as_str());
        let fits = match ring {
            Some(_) => Ok(()),
            None => self.check_partition_fits(queue),
        };
        // A refusal leaves no trace: what was made for the push goes again.
        let room = fits.and_then(|()| self.reserve(now, queue, wanted, effects));
        match room {
            Ok(Room::Taken) => wanted.reserved_outside = false,
            Ok(Room::Held) => return Ok(Tried::Waits),
            Ok(Room::Died) => return Ok(Tried::Died),
            Err(refusal) => {
                if known.is_none() {
                    self.remove_queue(queue, effects);
                }
                return Err(refusal);
            }
        }
        let ring = ring.unwrap_or_else(|| self.create_ring(now, queue, push.partition.as_str()));
        self.queues[queue].cell.touch(now);
        self.store(now, ring, std::mem::take(&mut push.payloads), effects);
        Ok(Tried::Stored(wanted.messages as u32))
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
        let ring = &self.rings[key];
        let queue = ring.queue;
        self.highest_sequence = self.highest_sequence.max(ring.slots.tail());
        let groups = ring.groups.len() as u32;
        self.note_age(key);
        for group in 0..groups {
            self.mark_ready(key, group);
            self.serve(now, key, group, effects);
        }
        self.tell_age(queue);
        self.arm_ring(now, key);
    }
}
