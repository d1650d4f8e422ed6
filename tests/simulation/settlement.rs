//! Acks, give-backs and the model's parked pops.

use queen::model::{AckOutcome, ClientRef, Delivered, Moment, Popped, TenantId, Verdict};

use crate::answers::Taker;
use crate::clockwork::Ended;
use crate::model::{Life, Model, Queue, Ring, State, Waiter, ensure};

/// What an ack names.
#[derive(Clone, Debug)]
pub(crate) enum AckTarget {
    Garbage,
    /// An id of another process.
    Foreign,
    Ours {
        partition: String,
        sequence: u64,
    },
}

impl Model {
    /// Does what one ack does, if its outcome is allowed.
    pub(crate) fn ack(
        &mut self,
        (tenant, queue, group): (TenantId, &str, &str),
        target: &AckTarget,
        verdict: Verdict,
        outcome: AckOutcome,
    ) -> Result<(), String> {
        let wanted = self.settle((tenant, queue, group), target, verdict, outcome);
        ensure!(
            wanted.contains(&outcome),
            "{target:?} by {group} of {queue}: {outcome:?} and not {wanted:?}"
        );
        if outcome == AckOutcome::Acked && verdict == Verdict::Completed {
            self.totals.acked += 1;
        }
        Ok(())
    }

    fn settle(
        &mut self,
        (tenant, queue, group): (TenantId, &str, &str),
        target: &AckTarget,
        verdict: Verdict,
        outcome: AckOutcome,
    ) -> Vec<AckOutcome> {
        let (now, lingers) = (self.now, self.lingers());
        let queue = self.find(tenant, queue);
        if let Some(queue) = queue {
            self.queues[queue].touched = now;
            self.queues[queue].last_use = now;
        }
        let (partition, sequence) = match target {
            AckTarget::Garbage => return vec![AckOutcome::Unknown],
            AckTarget::Foreign => return vec![AckOutcome::Stale],
            AckTarget::Ours {
                partition,
                sequence,
            } => (partition, *sequence),
        };
        let Some(queue) = queue.map(|queue| &mut self.queues[queue]) else {
            return vec![AckOutcome::Unknown];
        };
        let Some(group) = queue.group(group) else {
            return vec![AckOutcome::Unknown];
        };
        let at = queue
            .rings
            .iter()
            .position(|ring| ring.partition == *partition);
        let Some(at) = at else {
            return vec![AckOutcome::Unknown];
        };
        let wanted = queue.settle_lease((at, sequence, group), verdict, outcome);
        queue.rings[at].touched = now;
        self.totals.dropped.ttl += queue.settle_ttl();
        self.totals.dropped.retry += std::mem::take(&mut queue.retry_news);
        queue.retire(lingers);
        wanted
    }

    /// The queue's place if an answer still speaks of it.
    fn still_there(&self, life: u64) -> Option<usize> {
        self.by_life(life)
    }

    /// An answer arrived: nothing of it can come back.
    pub(crate) fn delivered(&mut self, life: u64, popped: &Popped) {
        let Some(queue) = self.still_there(life) else {
            return;
        };
        for message in &popped.messages {
            self.unpin(queue, message, popped.auto_ack);
        }
    }

    fn unpin(&mut self, queue: usize, message: &Delivered, auto_ack: bool) {
        if let Some(ring) = self.queues[queue].ring(&message.partition)
            && let Some(one) = ring.by_sequence(message.sequence)
        {
            one.pins -= u32::from(auto_ack);
        }
    }

    /// One message of an answer that could not be delivered comes back.
    pub(crate) fn give_back(&mut self, life: u64, popped: &Popped, message: &Delivered) {
        let Some(at) = self.still_there(life) else {
            return;
        };
        self.unpin(at, message, popped.auto_ack);
        let Some(ring) = self.queues[at].ring(&message.partition) else {
            return;
        };
        let Some(index) = ring.by_sequence(message.sequence).map(|one| one.index) else {
            return;
        };
        if popped.auto_ack {
            self.give_back_settled(at, popped.group as usize, message, index);
        } else {
            self.reached.lease_given_back += 1;
            give_back_lease(ring, popped.group as usize, message, index);
            let queue = &mut self.queues[at];
            self.totals.dropped.ttl += queue.settle_ttl();
        }
        let lingers = self.lingers();
        self.queues[at].retire(lingers);
    }

    /// What was settled when it was taken is live again if it is not due and there is room.
    fn give_back_settled(&mut self, at: usize, group: usize, message: &Delivered, index: u64) {
        let bytes = message.payload.len() as u64;
        let outside = self.broker_bytes() + bytes <= self.rules.broker_bytes;
        let (now, dropped) = (self.now, &mut self.totals.dropped);
        let queue = &mut self.queues[at];
        let options = queue.options;
        let room = outside
            && queue.live() < options.max_length
            && queue.bytes() + bytes <= options.max_bytes;
        let drops = &mut queue.drops;
        let mut rings = queue.rings.iter_mut();
        let ring = rings.find(|ring| ring.partition == *message.partition);
        let ring = ring.expect("it was just found");
        let mut messages = ring.messages.iter_mut();
        let one = messages.find(|one| one.index == index);
        let one = one.expect("it was just found");
        if one.states[group] != State::Done {
            return;
        }
        if let Life::Expired { missed, .. } = &mut one.life {
            // What has expired does not come back; it is judged with the last lease.
            ring.skipped[group] += 1;
            *missed = true;
            return;
        }
        if one.dropped {
            // Nor does what was dropped, which has been counted.
            ring.skipped[group] += 1;
            self.reached.dropped_given_back += 1;
            return;
        }
        if !one.is_live() && one.is_due(&options, now) {
            ring.skipped[group] += 1;
            one.dropped = true;
            drops.ttl += 1;
            dropped.ttl += 1;
            return;
        }
        if !one.is_live() && !room {
            ring.skipped[group] += 1;
            one.dropped = true;
            drops.bounds += 1;
            dropped.bounds += 1;
            return;
        }
        self.reached.settled_given_back += 1;
        if !one.is_live() {
            one.life = Life::Live;
            for state in &mut one.states {
                if *state == State::Unread {
                    *state = State::Maybe;
                }
            }
        }
        one.states[group] = State::Pending {
            deliveries: message.attempts - 1,
            ended_in: 0,
        };
    }

    pub(crate) fn park(&mut self, waiter: Waiter) {
        self.waiters.push(waiter);
    }

    pub(crate) fn waiter(&self, client: ClientRef) -> Option<usize> {
        self.waiters.iter().position(|one| one.client == client)
    }

    /// Takes a parked pop out; it counted as polling until now.
    pub(crate) fn unpark(&mut self, at: usize) -> Waiter {
        let waiter = self.waiters.remove(at);
        let now = self.now;
        let queue = self.by_life(waiter.life).expect("its queue");
        let queue = &mut self.queues[queue];
        queue.touched = now;
        queue.last_use = now;
        if let Some(partition) = &waiter.partition {
            queue.ring(partition).expect("its ring").touched = now;
        }
        waiter
    }

    /// Whether an answer to a parked pop is allowed now; if so, what it does is done.
    pub(crate) fn answer_parked(
        &mut self,
        client: ClientRef,
        popped: &Popped,
        lenient: bool,
    ) -> Result<u64, String> {
        let Some(at) = self.waiter(client) else {
            return Err(format!("{client:?} does not wait and was answered"));
        };
        let waiter = self.waiters[at].clone();
        let taker = Taker {
            queue: self.by_life(waiter.life).expect("its queue"),
            partition: waiter.partition.clone(),
            group: waiter.group,
            batch: waiter.batch,
            auto_ack: waiter.auto_ack,
            reserved: self.reserved(at),
            lenient,
        };
        let plan = self.plan(&taker, popped)?;
        self.check_turn(at, popped)?;
        self.note_reached(&waiter, popped);
        self.take(&taker, popped, &plan);
        self.unpark(at);
        Ok(waiter.life)
    }

    fn note_reached(&mut self, waiter: &Waiter, popped: &Popped) {
        let queue = self.queue_of(waiter);
        let windowed = queue.has_window() && waiter.batch > 1 && waiter.deadline > self.now;
        let short = popped.messages.len() < wanted(waiter, queue.options.window_buffer.count);
        self.reached.parked_answered += u64::from(!popped.messages.is_empty());
        self.reached.window_closed_short += u64::from(windowed && short);
        self.reached.window_filled += u64::from(windowed && !short);
    }

    /// Partitions that a pop from any has to leave to older ones that a window keeps waiting there.
    fn reserved(&self, at: usize) -> Vec<String> {
        let waiter = &self.waiters[at];
        let queue = self.queue_of(waiter);
        let windowed = queue.has_window() || queue.window_since == self.now;
        if !windowed {
            return Vec::new();
        }
        let rivals = self.waiters[..at].iter().filter(|older| {
            older.life == waiter.life && older.group == waiter.group && waiter.partition.is_none()
        });
        rivals.filter_map(|older| older.partition.clone()).collect()
    }

    /// Nobody is answered before his time, nor before an older one who could have had it.
    fn check_turn(&self, at: usize, popped: &Popped) -> Result<(), String> {
        let waiter = &self.waiters[at];
        let timed_out = waiter.deadline <= self.now;
        ensure!(
            timed_out || !popped.messages.is_empty(),
            "an empty answer before its time: {waiter:?}"
        );
        if timed_out {
            return Ok(());
        }
        let queue = self.queue_of(waiter);
        let wants = |older: &&Waiter| {
            let mut partitions = popped.messages.iter().map(|one| &*one.partition);
            older.life == waiter.life
                && older.group == waiter.group
                && partitions.any(|one| older.partition.as_ref().is_none_or(|p| p == one))
        };
        let older = self.waiters[..at].iter().find(wants);
        ensure!(
            older.is_none(),
            "{waiter:?} was served before the older {older:?}"
        );
        let window = queue.options.window_buffer;
        if !queue.has_window() || queue.window_since > waiter.parked {
            return Ok(());
        }
        let wanted = wanted(waiter, window.count);
        let by_time = waiter.first_seen.map_or(Moment::NEVER, |seen| {
            if window.ms == 0 {
                Moment::NEVER
            } else {
                seen.after_ms(window.ms)
            }
        });
        ensure!(
            popped.messages.len() >= wanted || by_time <= self.now,
            "a window closed with {} of {wanted} messages: {waiter:?}",
            popped.messages.len()
        );
        Ok(())
    }
}

impl Queue {
    /// Settles one lease by a verdict; the outcomes that are allowed.
    fn settle_lease(
        &mut self,
        (at, sequence, group): (usize, u64, usize),
        verdict: Verdict,
        outcome: AckOutcome,
    ) -> Vec<AckOutcome> {
        let ring = &mut self.rings[at];
        let index = ring.base.and_then(|base| sequence.checked_sub(base));
        let mut places = ring.messages.iter();
        let Some(place) = places.position(|one| Some(one.index) == index) else {
            return vec![AckOutcome::Unknown];
        };
        if !matches!(ring.messages[place].states[group], State::Leased(_)) {
            return vec![AckOutcome::Unknown];
        }
        if verdict == Verdict::Completed {
            ring.messages[place].states[group] = State::Done;
            return vec![AckOutcome::Acked];
        }
        let ended = self.end_lease(at, place, group, 0);
        let allowed = match ended {
            Ended::Redelivered => return vec![AckOutcome::Redelivered],
            Ended::Dropped => return vec![AckOutcome::Acked],
            Ended::Nothing => return vec![AckOutcome::Acked, AckOutcome::Unknown],
            Ended::MaybeRedelivered => vec![AckOutcome::Redelivered, AckOutcome::Unknown],
            Ended::MaybeDropped => {
                self.retry_slack -= 1;
                let counted = u64::from(outcome == AckOutcome::Acked);
                self.drops.retry += counted;
                self.retry_news += counted;
                vec![AckOutcome::Acked, AckOutcome::Unknown]
            }
        };
        if outcome == AckOutcome::Unknown {
            let ring = &mut self.rings[at];
            ring.messages[place].states[group] = State::Done;
            ring.let_go(ring.messages[place].index);
        }
        allowed
    }
}

/// A lease comes back without having spent an attempt, if it is still the one that was given.
fn give_back_lease(ring: &mut Ring, group: usize, message: &Delivered, index: u64) {
    let mut messages = ring.messages.iter_mut();
    let one = messages.find(|one| one.index == index);
    let one = one.expect("it was just found");
    let State::Leased(lease) = one.states[group] else {
        return;
    };
    if lease.delivery != message.delivery {
        return;
    }
    one.states[group] = match &mut one.life {
        Life::Live | Life::Passed => State::Pending {
            deliveries: message.attempts - 1,
            ended_in: 0,
        },
        Life::Expired { missed, counted } => {
            if *counted {
                *missed = true;
                ring.skipped[group] += 1;
            }
            State::Done
        }
        Life::Gone => State::Done,
    };
}

/// Messages that end a window's hold.
pub(crate) fn wanted(waiter: &Waiter, count: u64) -> usize {
    match count as usize {
        0 => waiter.batch,
        count => count.min(waiter.batch),
    }
}
