//! Acks, give-backs and the model's parked pops.

use queen::model::{AckOutcome, ClientRef, Delivered, Moment, Popped, TenantId, Verdict};

use crate::answers::Taker;
use crate::clockwork::Ended;
use crate::model::{Life, Model, State, Waiter, ensure};

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
        let ring = &mut queue.rings[at];
        ring.touched = now;
        let index = ring.base.and_then(|base| sequence.checked_sub(base));
        let place = ring
            .messages
            .iter()
            .position(|one| Some(one.index) == index);
        let Some(place) = place else {
            return vec![AckOutcome::Unknown];
        };
        if !matches!(ring.messages[place].states[group], State::Leased(_)) {
            return vec![AckOutcome::Unknown];
        }
        let wanted = if verdict == Verdict::Completed {
            ring.messages[place].states[group] = State::Done;
            vec![AckOutcome::Acked]
        } else {
            match queue.end_lease(at, place, group, 0) {
                Ended::Redelivered => vec![AckOutcome::Redelivered],
                Ended::Dropped => vec![AckOutcome::Acked],
                Ended::Nothing => vec![AckOutcome::Acked, AckOutcome::Unknown],
                ended @ (Ended::MaybeRedelivered | Ended::MaybeDropped) => {
                    let ring = &mut queue.rings[at];
                    if outcome == AckOutcome::Unknown {
                        ring.messages[place].states[group] = State::Done;
                        ring.let_go(ring.messages[place].index);
                    }
                    if ended == Ended::MaybeDropped {
                        queue.retry_slack -= 1;
                        let counted = u64::from(outcome == AckOutcome::Acked);
                        queue.drops.retry += counted;
                        queue.retry_news += counted;
                        vec![AckOutcome::Acked, AckOutcome::Unknown]
                    } else {
                        vec![AckOutcome::Redelivered, AckOutcome::Unknown]
                    }
                }
            }
        };
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
        let lingers = self.lingers();
        self.unpin(at, message, popped.auto_ack);
        let group = popped.group as usize;
        let room = {
            let queue = &self.queues[at];
            let bytes = message.payload.len() as u64;
            queue.live() < queue.options.max_length
                && queue.bytes() + bytes <= queue.options.max_bytes
                && self.broker_bytes() + bytes <= self.rules.broker_bytes
        };
        let now = self.now;
        let queue = &mut self.queues[at];
        let options = queue.options;
        let Some(ring) = queue.ring(&message.partition) else {
            return;
        };
        let Some(place) = ring.by_sequence(message.sequence).map(|one| one.index) else {
            return;
        };
        let place = ring.messages.iter().position(|one| one.index == place);
        let place = place.expect("just found");
        let one = &mut ring.messages[place];
        let pending = State::Pending {
            deliveries: message.attempts - 1,
            ended_in: 0,
        };
        if !popped.auto_ack {
            let State::Leased(lease) = one.states[group] else {
                return;
            };
            if lease.delivery != message.delivery {
                return;
            }
            one.states[group] = match &mut one.life {
                Life::Live | Life::Passed => pending,
                Life::Expired { missed, counted } => {
                    if *counted {
                        *missed = true;
                        ring.skipped[group] += 1;
                    }
                    State::Done
                }
                Life::Gone => State::Done,
            };
            self.totals.dropped.ttl += queue.settle_ttl();
            return;
        }
        if one.states[group] != State::Done {
            return;
        }
        if one.is_live() {
            one.states[group] = pending;
        } else if one.is_due(&options, now) {
            ring.skipped[group] += 1;
            queue.drops.ttl += 1;
            self.totals.dropped.ttl += 1;
        } else if !room {
            ring.skipped[group] += 1;
            queue.drops.bounds += 1;
            self.totals.dropped.bounds += 1;
        } else {
            one.life = Life::Live;
            one.states[group] = pending;
            for state in &mut one.states {
                if *state == State::Unread {
                    *state = State::Maybe;
                }
            }
        }
        queue.retire(lingers);
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
        self.take(&taker, popped, &plan);
        self.unpark(at);
        Ok(waiter.life)
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

/// Messages that end a window's hold.
pub(crate) fn wanted(waiter: &Waiter, count: u64) -> usize {
    match count as usize {
        0 => waiter.batch,
        count => count.min(waiter.batch),
    }
}
