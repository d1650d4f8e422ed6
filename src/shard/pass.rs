//! Pops that name no partition, of a queue that lies on several shards.
//!
//! They come to the queue's home and park there. Each shard marks in the group's cell whether it has
//! something; a pop goes from one marked shard to the next until its batch is full, and the last one
//! answers the client. While it is on its way it is parked nowhere: a waiting one for which nothing
//! was left goes back to its client's core, which sends it home again. So it is always in one place,
//! and whatever is lost on the way is one client's.

use super::ring::Take;
use super::waiters::{Asker, Source, WaiterNumber};
use super::{Effect, Shard};
use crate::limits;
use crate::model::{self, Delivered, Moment, PeerMessage, Popped, QueueRef, Reply, cores_of};

/// The first of `shards` (a bit each) from `from` on, going round.
fn next_in(shards: u64, from: u16) -> Option<u16> {
    let later = shards & (u64::MAX << from);
    let candidates = if later != 0 { later } else { shards };
    (candidates != 0).then(|| candidates.trailing_zeros() as u16)
}

impl Shard {
    /// The other shards that say that they have something for a pop that names no partition, a bit
    /// each. They change at any time: what is decided by them goes by one look.
    pub(super) fn marks_elsewhere(&self, source: Source) -> u64 {
        if self.settings.shards == 1 || source.ring.is_some() {
            return 0;
        }
        let group = &self.queues[source.queue].groups[source.group as usize];
        group.cell.ready() & !(1 << self.settings.shard)
    }

    /// Marks that this shard has something for a group, and remembers to tell the queue's home.
    pub(super) fn tell_mark(&mut self, queue: u32, group: u32) {
        let place = &self.queues[queue].groups[group as usize];
        if place.ready.len() == 1 {
            place.cell.set_ready(self.settings.shard, true);
        }
        self.remember_ready(queue, group);
    }

    /// Remembers to tell the queue's home, if that is another shard, that there is something.
    fn remember_ready(&mut self, queue: u32, group: u32) {
        let local = &self.queues[queue];
        if local.home != self.settings.shard {
            self.ready.push((queue, local.cell.generation(), group));
        }
    }

    /// Takes the mark away: nothing is left for the group.
    pub(super) fn clear_mark(&mut self, queue: u32, group: u32) {
        let local = &self.queues[queue];
        if self.settings.shards > 1 && !local.has_window() {
            let place = &local.groups[group as usize];
            place.cell.set_ready(self.settings.shard, false);
        }
    }

    /// Takes for a pop where it is its turn to be served first, here or at one of `marked`, at least
    /// one other shard; `None` if it went on to another shard.
    pub(super) fn pass_round(
        &mut self,
        now: Moment,
        (source, take): (Source, Take),
        marked: u64,
        asker: Asker,
        effects: &mut Vec<Effect>,
    ) -> Option<Reply> {
        let here = self.settings.shard;
        let mut shards = marked;
        let group = &mut self.queues[source.queue].groups[source.group as usize];
        if !group.ready.is_empty() {
            shards |= 1 << here;
        }
        let first = next_in(shards, asker.first.unwrap_or(group.next_shard));
        let first = first.expect("a shard is marked");
        group.next_shard = (first + 1) % self.settings.shards;
        let mut messages = Vec::new();
        if first == here {
            messages = self.take(now, source, take, None);
            shards &= !(1 << here);
            if messages.len() >= take.batch {
                return Some(Reply::Popped(self.popped(source, take, messages)));
            }
        }
        let next = next_in(shards, first).expect("another shard is marked");
        self.pass_to(next, shards, (source, take, messages), asker, effects);
        None
    }

    fn pass_to(
        &self,
        next: u16,
        owners: u64,
        (source, take, messages): (Source, Take, Vec<Delivered>),
        asker: Asker,
        effects: &mut Vec<Effect>,
    ) {
        let message = PeerMessage::Take(model::Take {
            client: asker.client,
            popped: self.popped(source, take, messages),
            batch: take.batch as u32,
            owners,
            waits: asker.waits,
        });
        effects.push(Effect::Tell {
            shard: next,
            message,
        });
    }

    /// Sends on a parked pop for which other shards, those of `marked`, have something.
    pub(super) fn pass_waiter(
        &mut self,
        now: Moment,
        (number, marked): (WaiterNumber, u64),
        first: Option<u16>,
        effects: &mut Vec<Effect>,
    ) {
        let waiter = self.unpark(now, number).expect("it is parked");
        let source = (waiter.source, waiter.take());
        let asker = Asker {
            client: waiter.client,
            waits: true,
            first,
        };
        if let Some(reply) = self.pass_round(now, source, marked, asker, effects) {
            effects.push(Effect::Answer {
                client: waiter.client,
                reply,
            });
        }
    }

    /// Answers a pop with what was taken here, or fills it up at `owners`, other shards.
    pub(super) fn answer_or_pass(
        &mut self,
        (source, take, messages): (Source, Take, Vec<Delivered>),
        owners: u64,
        asker: Asker,
        effects: &mut Vec<Effect>,
    ) {
        if messages.len() < take.batch
            && let Some(next) = next_in(owners, self.settings.shard)
        {
            let group = &self.queues[source.queue].groups[source.group as usize];
            group.cell.forget_available(owners);
            self.pass_to(next, owners, (source, take, messages), asker, effects);
            return;
        }
        effects.push(Effect::Answer {
            client: asker.client,
            reply: Reply::Popped(self.popped(source, take, messages)),
        });
    }

    /// Takes this shard's share for a pop that is on its way over the owners.
    pub(super) fn on_take(
        &mut self,
        now: Moment,
        mut asked: model::Take,
        effects: &mut Vec<Effect>,
    ) {
        asked.owners &= !(1 << self.settings.shard);
        let life = asked.popped.life();
        let mut windowed = false;
        if let Some(queue) = self.find_life(now, &life, effects) {
            self.queues[queue].cell.touch(now);
            self.note_change(queue);
            self.take_share(now, queue, &mut asked);
            windowed = self.queues[queue].has_window();
        } else {
            // Its marks are those of a life that is over.
            asked.owners = 0;
        }
        let full = asked.popped.messages.len() >= asked.batch as usize;
        if !full && let Some(shard) = next_in(asked.owners, self.settings.shard) {
            let message = PeerMessage::Take(asked);
            effects.push(Effect::Tell { shard, message });
            return;
        }
        if windowed {
            // What those have to whom it did not come counts again.
            self.tell_to_look(&life, asked.owners, effects);
        }
        let missed = asked.popped.messages.is_empty() && asked.waits;
        effects.push(Effect::Answer {
            client: asked.client,
            reply: if missed {
                Reply::Missed
            } else {
                Reply::Popped(asked.popped)
            },
        });
    }

    fn take_share(&mut self, now: Moment, queue: u32, asked: &mut model::Take) {
        let Popped {
            group,
            auto_ack,
            messages,
            ..
        } = &mut asked.popped;
        let take = Take {
            group: *group,
            auto_ack: *auto_ack,
            batch: asked.batch as usize,
        };
        let before = messages.len();
        let youngest = Some(WaiterNumber::YOUNGEST);
        self.take_round_robin(now, queue, (take, youngest), messages);
        self.statistics.popped += (messages.len() - before) as u64;
        let local = &self.queues[queue];
        let more = !local.groups[*group as usize].ready.is_empty();
        if more && !local.has_window() {
            self.remember_ready(queue, *group);
        }
    }

    /// Tells the other ones of `shards`, a bit each, to look at a queue.
    pub(super) fn tell_to_look(&self, queue: &QueueRef, shards: u64, effects: &mut Vec<Effect>) {
        for shard in cores_of(shards & !(1 << self.settings.shard)) {
            let message = PeerMessage::Look(queue.clone());
            effects.push(Effect::Tell { shard, message });
        }
    }

    /// Tells the homes of queues that there is something for pops which wait there.
    pub(super) fn tell_ready(&mut self, effects: &mut Vec<Effect>) {
        for (queue, generation, group) in std::mem::take(&mut self.ready) {
            let Some(local) = self.queues.get(queue) else {
                continue;
            };
            if local.cell.generation() == generation && self.has_ready(queue, group) {
                self.tell_home(queue, group, effects);
            }
        }
    }

    /// Whether a ring may really have something for a group; those that do not are let go of.
    pub(super) fn has_ready(&mut self, queue: u32, group: u32) -> bool {
        loop {
            let place = &mut self.queues[queue].groups[group as usize];
            let Some(&entry) = place.ready.front() else {
                self.clear_mark(queue, group);
                return false;
            };
            match self.ring_of(entry) {
                Some(ring) if self.rings[ring].has_available(group) => return true,
                Some(ring) => self.rings[ring].groups[group as usize].ready = false,
                None => {
                    let place = &mut self.queues[queue].groups[group as usize];
                    place.stale = place.stale.saturating_sub(1);
                }
            }
            let place = &mut self.queues[queue].groups[group as usize];
            place.ready.pop_front();
        }
    }

    /// Tells the home that there is something for a group, if pops wait there and it has heard of the
    /// last time.
    fn tell_home(&self, queue: u32, group: u32, effects: &mut Vec<Effect>) {
        let local = &self.queues[queue];
        let cell = &local.groups[group as usize].cell;
        if cell.is_awaited() && cell.tell(self.settings.shard) {
            let message = PeerMessage::Ready {
                queue: local.reference(),
                group,
            };
            effects.push(Effect::Tell {
                shard: local.home,
                message,
            });
        }
    }

    /// Another shard has something for a group whose pops wait here.
    pub(super) fn on_ready(
        &mut self,
        now: Moment,
        from: u16,
        (queue, group): (QueueRef, u32),
        effects: &mut Vec<Effect>,
    ) {
        let Some(queue) = self.find_life(now, &queue, effects) else {
            return;
        };
        // Whatever it has from now on it says anew.
        self.queues[queue].groups[group as usize].cell.hear(from);
        if self.queues[queue].has_window() {
            self.serve_everywhere(now, queue, group, effects);
            return;
        }
        let place = &self.queues[queue].groups[group as usize];
        let marked = place.cell.ready() & !(1 << self.settings.shard);
        if let Some(&oldest) = place.waiters.first()
            && marked & (1 << from) != 0
        {
            self.pass_waiter(now, (oldest, marked), Some(from), effects);
        }
    }

    /// Remembers that what a windowed queue has for pops without partition may have changed here.
    pub(super) fn note_change(&mut self, queue: u32) {
        let local = &mut self.queues[queue];
        let counts = self.settings.shards > 1
            && local.home != self.settings.shard
            && !local.changed
            && local.has_window();
        if counts {
            local.changed = true;
            self.changed.push((queue, local.cell.generation()));
        }
    }

    /// Says how much this shard has for the windows that pops hold open at the homes of their queues.
    pub(super) fn tell_windows(&mut self, effects: &mut Vec<Effect>) {
        for (queue, generation) in std::mem::take(&mut self.changed) {
            let known = self.queues.get_mut(queue);
            let Some(local) = known.filter(|local| local.cell.generation() == generation) else {
                continue;
            };
            local.changed = false;
            if !local.has_window() {
                continue;
            }
            for group in 0..self.queues[queue].groups.len() as u32 {
                let count = self.unawaited(queue, group) as u32;
                let cell = &self.queues[queue].groups[group as usize].cell;
                let (shard, shards) = (self.settings.shard, self.settings.shards);
                let before = cell.set_available(shard, shards, count);
                if count > 0 && count != before {
                    self.tell_home(queue, group, effects);
                }
            }
        }
    }

    /// Messages that nobody waits for at their own partition, counted up to a full batch.
    fn unawaited(&self, queue: u32, group: u32) -> usize {
        let most = limits::BATCH_ITEMS_MAX;
        let mut count = 0;
        for &entry in &self.queues[queue].groups[group as usize].ready {
            if let Some(ring) = self.ring_of(entry)
                && self.rings[ring].groups[group as usize].waiters.is_empty()
            {
                count += self.rings[ring].available(group, most - count);
            }
            if count >= most {
                break;
            }
        }
        count
    }

    /// Sets the marks of a queue anew whose window began or ended.
    pub(super) fn renew_marks(&mut self, queue: u32) {
        if self.settings.shards == 1 {
            return;
        }
        self.note_change(queue);
        if self.queues[queue].has_window() {
            return;
        }
        for group in 0..self.queues[queue].groups.len() as u32 {
            let place = &self.queues[queue].groups[group as usize];
            let ready = !place.ready.is_empty();
            place.cell.set_ready(self.settings.shard, ready);
            if ready {
                self.remember_ready(queue, group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_visited_in_turn() {
        assert_eq!(next_in(0b1010, 0), Some(1));
        assert_eq!(next_in(0b1010, 2), Some(3));
        assert_eq!(next_in(0b0010, 3), Some(1));
        assert_eq!(next_in(1 << 63, 63), Some(63));
        assert_eq!(next_in(0, 5), None);
    }
}
