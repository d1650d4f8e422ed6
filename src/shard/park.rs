//! Parked pops: who is woken by what, oldest first, as many as there are messages.

use super::timers::Timer;
use super::waiters::{Asker, Source, Waiter, WaiterNumber};
use super::{Effect, Shard};
use crate::model::{ClientRef, Moment, Refusal, Reply};

impl Shard {
    /// Parks a pop; `false` if the queue has died.
    pub(super) fn park(&mut self, number: WaiterNumber, waiter: Waiter) -> bool {
        let queue = &mut self.queues[waiter.source.queue];
        if !queue.cell.add_waiter() {
            return false;
        }
        let first = match waiter.source.ring {
            Some(ring) => self.rings[ring].groups[waiter.source.group as usize]
                .waiters
                .insert(number),
            None => {
                assert_eq!(queue.home, self.settings.shard, "it parks away from home");
                let group = &mut queue.groups[waiter.source.group as usize];
                group.cell.add_waiter();
                group.waiters.insert(number)
            }
        };
        assert!(first);
        self.note_change(waiter.source.queue);
        self.timers
            .insert(waiter.deadline, Timer::Waiter(number.serial()));
        self.waiters.insert(number, waiter);
        true
    }

    /// Takes a parked pop out; `None` if it is not parked any more. A parked pop counts as polling
    /// until then.
    pub(super) fn unpark(&mut self, now: Moment, number: WaiterNumber) -> Option<Waiter> {
        let waiter = self.waiters.remove(number)?;
        let queue = &mut self.queues[waiter.source.queue];
        queue.cell.touch(now);
        queue.cell.remove_waiter();
        let was_listed = match waiter.source.ring {
            Some(ring) => {
                let ring = &mut self.rings[ring];
                ring.touched = now;
                ring.groups[waiter.source.group as usize]
                    .waiters
                    .remove(&number)
            }
            None => {
                let group = &mut queue.groups[waiter.source.group as usize];
                group.cell.remove_waiter();
                group.waiters.remove(&number)
            }
        };
        assert!(was_listed);
        self.note_change(waiter.source.queue);
        self.arm_rest(now, waiter.source.queue);
        Some(waiter)
    }

    /// Gives what a ring has for a group to those who wait for it, oldest first.
    pub(super) fn serve(&mut self, now: Moment, ring: u32, group: u32, effects: &mut Vec<Effect>) {
        let queue = self.rings[ring].queue;
        if self.serve_at(now, ring, group, effects) && self.queues[queue].has_window() {
            self.serve_everywhere(now, queue, group, effects);
        }
    }

    /// Serves the pops that wait at one source. Only a window keeps anybody waiting while something
    /// is there; without one there is nothing to do.
    pub(super) fn serve_source(&mut self, now: Moment, source: Source, effects: &mut Vec<Effect>) {
        if self.queues[source.queue].has_window() {
            self.serve_parked(now, source, effects);
        }
    }

    /// Serves the pops that wait at one source.
    pub(super) fn serve_parked(&mut self, now: Moment, source: Source, effects: &mut Vec<Effect>) {
        match source.ring {
            Some(ring) => self.serve(now, ring, source.group, effects),
            None => self.serve_everywhere(now, source.queue, source.group, effects),
        }
    }

    /// A pop that may take from any ring can have kept others waiting at each of them, by its
    /// window.
    pub(super) fn serve_everywhere(
        &mut self,
        now: Moment,
        queue: u32,
        group: u32,
        effects: &mut Vec<Effect>,
    ) {
        loop {
            let ready = self.queues[queue].groups[group as usize].ready.iter();
            let rings: Vec<u32> = ready.filter_map(|&entry| self.ring_of(entry)).collect();
            let mut released = false;
            for ring in rings {
                released |= self.serve_at(now, ring, group, effects);
            }
            if !released {
                break;
            }
        }
        if self.settings.shards > 1 {
            // Where nothing is here, other shards may have what a window waits for.
            while let Some(&first) = self.queues[queue].groups[group as usize].waiters.first()
                && self.serve_one(now, first, effects)
            {}
        }
    }

    /// Serves those who wait for what one ring has, oldest first; whether a pop that waited at all
    /// rings was among them.
    fn serve_at(&mut self, now: Moment, ring: u32, group: u32, effects: &mut Vec<Effect>) -> bool {
        let mut released = false;
        loop {
            let Some(ring) = self.rings.get(ring) else {
                return released;
            };
            let here = ring.groups[group as usize].waiters.first();
            let anywhere = self.queues[ring.queue].groups[group as usize]
                .waiters
                .first();
            let (oldest, is_anywhere) = match (here, anywhere) {
                (Some(here), Some(anywhere)) => (here.min(anywhere), anywhere < here),
                (Some(here), None) => (here, false),
                (None, Some(anywhere)) => (anywhere, true),
                (None, None) => return released,
            };
            if !ring.has_available(group) || !self.serve_one(now, *oldest, effects) {
                return released;
            }
            released |= is_anywhere;
        }
    }

    /// Answers a parked pop, or sends it on, if there is something for it and its window does not hold
    /// it.
    fn serve_one(&mut self, now: Moment, number: WaiterNumber, effects: &mut Vec<Effect>) -> bool {
        let waiter = self.waiters.get(number).expect("a listed waiter is parked");
        let (source, take) = (waiter.source, waiter.take());
        if self.window_holds(now, number) {
            return false;
        }
        let messages = self.take(now, source, take, Some(number));
        let windowed = self.queues[source.queue].has_window();
        let owners = if windowed {
            self.marks_elsewhere(source)
        } else {
            0
        };
        if messages.is_empty() && owners == 0 {
            return false;
        }
        let waiter = self.unpark(now, number).expect("it is parked");
        let asker = Asker {
            client: waiter.client,
            waits: waiter.deadline > now,
            first: None,
        };
        self.answer_or_pass((source, take, messages), owners, asker, effects);
        true
    }

    /// Whether the queue's window keeps a parked pop waiting for more. The window opens with the
    /// first message that is there; it closes by count, by time or with a full batch.
    fn window_holds(&mut self, now: Moment, number: WaiterNumber) -> bool {
        let waiter = self.waiters.get(number).expect("it is parked");
        if !self.queues[waiter.source.queue].has_window() {
            return false;
        }
        let window = self.options(waiter.source.queue).window_buffer;
        if waiter.window_closes.is_some_and(|at| at <= now) || waiter.deadline <= now {
            return false;
        }
        let batch = u64::from(waiter.batch);
        let wanted = if window.count > 0 {
            window.count.min(batch)
        } else {
            batch
        };
        let available = self.available(waiter.source, number, wanted as usize);
        if available >= wanted as usize {
            return false;
        }
        let opened = waiter.window_closes.is_some();
        if available > 0 && !opened && window.ms > 0 {
            let at = now.after_ms(window.ms);
            self.timers.insert(at, Timer::Window(number.serial()));
            self.waiters
                .get_mut(number)
                .expect("it is parked")
                .window_closes = Some(at);
        }
        true
    }

    /// How many messages a parked pop could be given, counted up to `most`.
    fn available(&self, source: Source, number: WaiterNumber, most: usize) -> usize {
        if let Some(ring) = source.ring {
            return self.rings[ring].available(source.group, most);
        }
        let group = &self.queues[source.queue].groups[source.group as usize];
        let mut count = group.cell.available_elsewhere(self.settings.shard);
        for &entry in &group.ready {
            if count >= most {
                break;
            }
            if let Some(ring) = self.ring_of(entry)
                && !self.is_awaited_longer(ring, source.group, Some(number))
            {
                count += self.rings[ring].available(source.group, most - count);
            }
        }
        count
    }

    /// Whether somebody has waited at this very ring for longer: a window keeps him, and what is
    /// there is his.
    pub(super) fn is_awaited_longer(
        &self,
        ring: u32,
        group: u32,
        number: Option<WaiterNumber>,
    ) -> bool {
        let waiters = &self.rings[ring].groups[group as usize].waiters;
        number.is_some_and(|number| waiters.first().is_some_and(|first| *first < number))
    }

    /// Cancels the end of a parked pop's window: the next message opens it anew.
    pub(super) fn forget_window(&mut self, number: WaiterNumber) {
        let waiter = self.waiters.get_mut(number).expect("it is parked");
        waiter.window_closes = None;
    }

    /// A window's time is up: its pop is answered with what is there, or waits for a new first one.
    pub(super) fn close_window(
        &mut self,
        now: Moment,
        number: WaiterNumber,
        effects: &mut Vec<Effect>,
    ) {
        let Some(waiter) = self.waiters.get(number) else {
            return;
        };
        let source = waiter.source;
        if !self.serve_one(now, number, effects) {
            self.waiters
                .get_mut(number)
                .expect("it is parked")
                .window_closes = None;
        }
        self.serve_source(now, source, effects);
    }

    /// A pop's time is up: it is answered with what is there, usually nothing.
    pub(super) fn time_out(
        &mut self,
        now: Moment,
        number: WaiterNumber,
        effects: &mut Vec<Effect>,
    ) {
        let Some(waiter) = self.unpark(now, number) else {
            return;
        };
        let (source, take) = (waiter.source, waiter.take());
        let messages = self.take(now, source, take, None);
        let asker = Asker {
            client: waiter.client,
            waits: false,
            first: None,
        };
        let owners = self.marks_elsewhere(source);
        self.answer_or_pass((source, take, messages), owners, asker, effects);
        self.serve_source(now, source, effects);
    }

    /// The client of a parked pop is gone.
    pub fn abandon(&mut self, now: Moment, client: ClientRef, effects: &mut Vec<Effect>) {
        let Some(number) = self.waiters.of_client(client) else {
            return;
        };
        let source = self.unpark(now, number).expect("it is parked").source;
        // A window that it held open may have kept others waiting.
        self.serve_source(now, source, effects);
        self.end_turn(effects);
    }

    /// The client of a pop that came from another core has closed its half: it does not wait.
    pub fn hurry(&mut self, now: Moment, client: ClientRef, effects: &mut Vec<Effect>) {
        if self.is_parked(client) {
            self.abandon(now, client, effects);
            let reply = Reply::Gone;
            effects.push(Effect::Answer { client, reply });
        }
    }

    /// Answers every parked pop with nothing: the broker stops.
    pub fn answer_all_empty(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for number in self.waiters.numbers() {
            let waiter = self.unpark(now, number).expect("it is parked");
            let popped = self.popped(waiter.source, waiter.take(), Vec::new());
            let reply = Reply::Popped(popped);
            effects.push(Effect::Answer {
                client: waiter.client,
                reply,
            });
        }
        self.end_turn(effects);
    }

    /// Refuses every parked pop: the class is paused.
    pub fn refuse_all_parked(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for number in self.waiters.numbers() {
            let waiter = self.unpark(now, number).expect("it is parked");
            let reply = Reply::Refused(Refusal::Paused);
            effects.push(Effect::Answer {
                client: waiter.client,
                reply,
            });
        }
        self.end_turn(effects);
    }

    pub(super) fn check_waiter(&self, number: WaiterNumber) {
        let waiter = self.waiters.get(number).expect("it is parked");
        let queue = &self.queues[waiter.source.queue];
        let group = waiter.source.group as usize;
        let listed = match waiter.source.ring {
            Some(ring) => self.rings[ring].groups[group].waiters.contains(&number),
            None => queue.groups[group].waiters.contains(&number),
        };
        assert!(listed, "a parked pop that nobody can wake");
    }
}
