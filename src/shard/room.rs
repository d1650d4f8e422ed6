//! Room for a push: the bounds of the queue, of the tenant and of the broker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::RingRef;
use super::{Effect, Shard};
use crate::directory::DeadCell;
use crate::model::{EffectiveOptions, MakeRoom, Moment, PeerMessage, Policy, Refusal, TenantId};

const TENANT_FULL: Refusal = Refusal::QuotaExceeded {
    text: "the tenant's allowance of payload bytes is used up; consume, reset or delete queues to \
           free it",
};

const BROKER_FULL: Refusal = Refusal::Unavailable {
    text: "the broker holds as many payload bytes as QUEEN_EPHEMERAL_MAX_BYTES allows; consume \
           messages or raise it",
};

/// The room that a push needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// The number under which the push waits if it has to.
    pub(super) token: u64,
    /// Whether the tenant and the broker have reserved it: that comes before anything is dropped for
    /// it, and lasts while it waits.
    pub(super) reserved_outside: bool,
}

/// What became of the room that a push needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It is reserved.
    Taken,
    /// Another shard has it and was asked, or it is on its way there.
    Held,
    /// The queue died.
    Died,
}

impl Shard {
    /// A name whose queues die faster than they can be used.
    pub(super) const TOO_MANY_LIVES: Refusal = Refusal::Overloaded {
        text: "the queue is being deleted over and over; try again",
    };

    /// Refuses what the queue could not hold even if it were empty.
    pub(super) fn check_fits_empty(
        &self,
        queue: Option<u32>,
        name: &str,
        count: u64,
        bytes: u64,
    ) -> Result<(), Refusal> {
        let options = match queue {
            Some(queue) => self.options(queue),
            None => self.directory.implicit_options(),
        };
        let never = |bound, limit, wanted| {
            Err(Refusal::NeverFits {
                queue: name.into(),
                bound,
                limit,
                wanted,
            })
        };
        if bytes > options.max_bytes {
            return never("maxBytes", options.max_bytes, bytes);
        }
        if count > options.max_length {
            return never("maxLength", options.max_length, count);
        }
        Ok(())
    }

    /// The options in force, as this shard knows them.
    pub(super) fn options(&self, queue: u32) -> &EffectiveOptions {
        &self.queues[queue].options
    }

    /// Reserves room in the queue, the tenant and the broker, in this order; a refusal takes
    /// nothing. A queue that drops the oldest makes room once the other two have reserved theirs: the
    /// oldest of all shards goes first, so another one may have to be asked.
    pub(super) fn reserve(
        &mut self,
        now: Moment,
        queue: u32,
        wanted: &mut Wanted,
        effects: &mut Vec<Effect>,
    ) -> Result<Room, Refusal> {
        let options = *self.options(queue);
        if !wanted.reserved_outside && self.check_fits_outside(queue, wanted.bytes).is_err() {
            if let Some(ttl_ms) = options.ttl_ms {
                self.expire_queue(now, queue, ttl_ms, effects);
            }
            self.check_before_taking(queue, wanted, &options)?;
        }
        let Ok(mut in_queue) = self.reserve_in_queue(queue, wanted) else {
            return Ok(Room::Died);
        };
        if !in_queue && let Some(ttl_ms) = options.ttl_ms {
            // What is past its TTL is no reason to refuse or to drop anything else.
            self.expire_queue(now, queue, ttl_ms, effects);
            let Ok(reserved) = self.reserve_in_queue(queue, wanted) else {
                return Ok(Room::Died);
            };
            in_queue = reserved;
            let elsewhere = self.oldest_elsewhere(queue);
            if !in_queue
                && let Some((shard, age)) = elsewhere
                && age.after_ms(ttl_ms) <= now
            {
                self.ask_for_room(queue, shard, wanted, effects);
                return Ok(Room::Held);
            }
        }
        if !in_queue && options.policy == Policy::Reject {
            return Err(self.queue_full(queue, wanted.bytes));
        }
        if !wanted.reserved_outside
            && let Err(refusal) = self.reserve_outside(queue, wanted.bytes)
        {
            if in_queue {
                let cell = &self.queues[queue].cell;
                cell.release(wanted.messages, wanted.bytes);
            }
            return Err(refusal);
        }
        wanted.reserved_outside = true;
        if in_queue {
            return Ok(Room::Taken);
        }
        Ok(self.make_room(now, (queue, wanted), effects))
    }

    /// Refuses what the tenant or the broker has no room for, before it takes room in the queue: that
    /// could refuse others, even if it was for a moment.
    fn check_before_taking(
        &self,
        queue: u32,
        wanted: &Wanted,
        options: &EffectiveOptions,
    ) -> Result<(), Refusal> {
        let Err(refusal) = self.check_fits_outside(queue, wanted.bytes) else {
            return Ok(());
        };
        let has_room = self.has_room(queue, wanted.messages, wanted.bytes);
        match options.ttl_ms {
            // What is past its TTL on other shards may be in the way.
            Some(_) if !has_room => Ok(()),
            None if !has_room && options.policy == Policy::Reject => {
                Err(self.queue_full(queue, wanted.bytes))
            }
            _ => Err(refusal),
        }
    }

    /// Gives back what was reserved for a push that is refused.
    pub(super) fn give_up(&mut self, tenant: TenantId, wanted: Wanted) {
        if wanted.reserved_outside {
            let tenant = self.tenant(tenant).expect("it has reserved room");
            tenant.budget().release(wanted.bytes);
            self.directory.broker().release(wanted.bytes);
        }
    }

    /// Drops the oldest messages until there is room in the queue.
    fn make_room(
        &mut self,
        now: Moment,
        (queue, wanted): (u32, &Wanted),
        effects: &mut Vec<Effect>,
    ) -> Room {
        loop {
            let here = self.oldest_here(queue);
            let elsewhere = self.oldest_elsewhere(queue);
            match (here, elsewhere) {
                (here, Some((shard, age))) if here.is_none_or(|(oldest, _)| age < oldest) => {
                    self.tell_age(queue);
                    self.ask_for_room(queue, shard, wanted, effects);
                    return Room::Held;
                }
                (Some((_, ring)), _) => self.evict_oldest(now, ring),
                (None, _) => {
                    // Other pushes have reserved what they have not stored yet.
                    assert!(
                        self.settings.shards > 1,
                        "a push that fits an empty queue found no room in one"
                    );
                    return Room::Held;
                }
            }
            match self.reserve_in_queue(queue, wanted) {
                Ok(true) => return Room::Taken,
                Ok(false) => {}
                Err(DeadCell) => return Room::Died,
            }
        }
    }

    /// Drops a ring's oldest message; what is left without any gives its memory back in time.
    fn evict_oldest(&mut self, now: Moment, ring: u32) {
        self.on_ring(ring, |ring, changes| ring.evict_oldest(changes));
        if self.rings[ring].slots.live() == 0 {
            self.arm_shrinking(now, ring);
        }
    }

    fn oldest_elsewhere(&self, queue: u32) -> Option<(u16, Moment)> {
        let cell = &self.queues[queue].cell;
        cell.oldest_elsewhere(self.settings.shard)
    }

    fn ask_for_room(&self, queue: u32, shard: u16, wanted: &Wanted, effects: &mut Vec<Effect>) {
        let message = PeerMessage::MakeRoom(MakeRoom {
            queue: self.queues[queue].reference(),
            token: wanted.token,
            messages: wanted.messages,
            bytes: wanted.bytes,
        });
        effects.push(Effect::Tell { shard, message });
    }

    /// Expires what is due and drops the oldest, as far as the queue's oldest are here.
    pub(super) fn on_make_room(
        &mut self,
        now: Moment,
        from: u16,
        asked: &MakeRoom,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(queue) = self.find_life(now, &asked.queue, effects) {
            let options = *self.options(queue);
            if let Some(ttl_ms) = options.ttl_ms {
                self.expire_queue(now, queue, ttl_ms, effects);
            }
            while options.policy == Policy::DropOldest
                && !self.has_room(queue, asked.messages, asked.bytes)
                && let Some((oldest, ring)) = self.oldest_here(queue)
                && self
                    .oldest_elsewhere(queue)
                    .is_none_or(|(_, age)| oldest <= age)
            {
                self.evict_oldest(now, ring);
            }
            self.tell_age(queue);
        }
        let message = PeerMessage::RoomMade { token: asked.token };
        effects.push(Effect::Tell {
            shard: from,
            message,
        });
    }

    fn has_room(&self, queue: u32, messages: u64, bytes: u64) -> bool {
        let cell = &self.queues[queue].cell;
        let options = self.options(queue);
        cell.length() + messages <= options.max_length && cell.bytes() + bytes <= options.max_bytes
    }

    fn reserve_in_queue(&self, queue: u32, wanted: &Wanted) -> Result<bool, DeadCell> {
        let queue = &self.queues[queue];
        queue
            .cell
            .reserve(wanted.messages, wanted.bytes, &queue.options)
    }

    fn queue_full(&self, queue: u32, bytes: u64) -> Refusal {
        let cell = &self.queues[queue].cell;
        let options = self.options(queue);
        let (bound, limit) = if cell.bytes() + bytes > options.max_bytes {
            ("maxBytes", options.max_bytes)
        } else {
            ("maxLength", options.max_length)
        };
        Refusal::QueueFull {
            queue: cell.name().clone(),
            bound,
            limit,
        }
    }

    pub(super) fn reserve_outside(&self, queue: u32, bytes: u64) -> Result<(), Refusal> {
        self.check_fits_outside(queue, bytes)?;
        let tenant = self.queues[queue].cell.tenant();
        if !tenant.budget().reserve(bytes) {
            return Err(TENANT_FULL);
        }
        if !self.directory.broker().reserve(bytes) {
            tenant.budget().release(bytes);
            return Err(BROKER_FULL);
        }
        Ok(())
    }

    /// Refuses what the tenant's budget or the broker's has no room for now.
    fn check_fits_outside(&self, queue: u32, bytes: u64) -> Result<(), Refusal> {
        if !self.queues[queue].cell.tenant().budget().fits(bytes) {
            return Err(TENANT_FULL);
        }
        if !self.directory.broker().fits(bytes) {
            return Err(BROKER_FULL);
        }
        Ok(())
    }

    /// Expires what is due in a queue; looks only at rings that have something due.
    fn expire_queue(&mut self, now: Moment, queue: u32, ttl_ms: u64, effects: &mut Vec<Effect>) {
        let terms = self.terms(queue);
        let mut steps = usize::MAX;
        while let Some((age, key)) = self.oldest_here(queue)
            && age.after_ms(ttl_ms) <= now
        {
            let (_, redelivered) = self.on_ring(key, |ring, changes| {
                ring.refresh(now, terms, &mut steps, changes)
            });
            for group in redelivered {
                self.serve(now, key, group, effects);
            }
        }
    }

    /// Says to the other shards how old the oldest message here is, if the queue keeps it so.
    pub(super) fn tell_age(&mut self, queue: u32) {
        if self.queues[queue].cell.has_ages() {
            let oldest = self.oldest_here(queue).map(|(age, _)| age);
            let cell = &self.queues[queue].cell;
            cell.set_oldest(self.settings.shard, oldest);
        }
    }

    /// Enters a ring among its queue's rings by age, if the queue keeps them so.
    pub(super) fn note_age(&mut self, key: u32) {
        let ring = &mut self.rings[key];
        let queue = &mut self.queues[ring.queue];
        let Some(by_age) = &mut queue.by_age else {
            return;
        };
        if !ring.aged
            && let Some(pushed) = ring.oldest_live_pushed()
        {
            by_age.push(Reverse((
                pushed,
                RingRef {
                    key,
                    serial: ring.serial,
                },
            )));
            ring.aged = true;
            queue.bound_by_age();
        }
    }

    /// The age of the queue's oldest message on this shard, and its ring.
    fn oldest_here(&mut self, queue: u32) -> Option<(Moment, u32)> {
        if self.queues[queue].by_age.is_none() {
            self.queues[queue].by_age = Some(BinaryHeap::new());
            for ring in self.queues[queue].rings() {
                self.rings[ring].aged = false;
                self.note_age(ring);
            }
        }
        loop {
            let by_age = &mut self.queues[queue].by_age;
            let by_age = by_age.get_or_insert_default();
            let &Reverse((age, entry)) = by_age.peek()?;
            let key = self.ring_of(entry);
            let oldest = key.and_then(|key| self.rings[key].oldest_live_pushed());
            if let Some(key) = key
                && oldest.is_some_and(|oldest| oldest <= age)
            {
                return Some((age, key));
            }
            // A ring's entry may be older than its oldest message: it is entered anew.
            let by_age = &mut self.queues[queue].by_age;
            by_age.get_or_insert_default().pop();
            if let Some(key) = key {
                self.rings[key].aged = false;
                self.note_age(key);
            }
        }
    }
}
