//! What time does to the model: messages reach their TTL, leases end.

use queen::model::{Moment, Tier};

use crate::model::{Life, Message, Model, Queue, Ring, State};

impl Model {
    /// Everything that is due at `now` happens.
    pub(crate) fn advance(&mut self, now: Moment) {
        assert!(now >= self.now);
        self.now = now;
        self.step += 1;
        self.note_busy();
        let (step, lingers) = (self.step, self.lingers());
        for queue in &mut self.queues {
            for at in 0..queue.rings.len() {
                expire_due(queue, at, now);
                end_due_leases(queue, at, now, step);
            }
            self.totals.dropped.ttl += queue.settle_ttl();
            queue.retire(lingers);
            let messages = queue.rings.iter().flat_map(|ring| &ring.messages);
            let leased = messages.filter(|one| matches!(one.life, Life::Expired { .. }));
            self.reached.expired_under_lease += leased.count() as u64;
        }
        self.sum_drops();
    }

    /// Totals of what queues that still exist have dropped are kept per queue as well; this adds
    /// what [`end_due_leases`] counted there.
    fn sum_drops(&mut self) {
        for queue in &mut self.queues {
            self.totals.dropped.retry += std::mem::take(&mut queue.retry_news);
        }
    }

    /// Notes who holds something now.
    pub(crate) fn note_busy(&mut self) {
        let now = self.now;
        for queue in &mut self.queues {
            let waiters = || self.waiters.iter().filter(|one| one.life == queue.life);
            if queue.live() > 0 || waiters().next().is_some() {
                queue.busy = now;
            }
            // The end of a window looks at every partition.
            if queue.has_window() && waiters().any(|one| one.partition.is_none()) {
                queue.last_use = now;
            }
            for ring in &mut queue.rings {
                let watched = waiters().any(|one| one.partition.as_ref() == Some(&ring.partition));
                if watched || !ring.is_empty() {
                    ring.busy = now;
                }
            }
        }
    }

    /// Nothing lingers in a ring that has been left alone for long enough.
    pub(crate) fn forget_lingering(&mut self) {
        let (now, linger_ms) = (self.now, self.rules.linger_ms.max(1_000));
        for queue in &mut self.queues {
            if queue.last_use.after_ms(linger_ms) <= now {
                for ring in &mut queue.rings {
                    ring.let_go(u64::MAX);
                }
            }
        }
    }

    /// The first moment at which something is certain to be due.
    pub(crate) fn next_due(&self) -> Moment {
        let mut next = Moment::NEVER;
        for waiter in &self.waiters {
            next = next.min(waiter.deadline);
        }
        for queue in &self.queues {
            for one in queue.rings.iter().flat_map(|ring| &ring.messages) {
                for state in &one.states {
                    if let State::Leased(lease) = state {
                        next = next.min(lease.deadline);
                    }
                }
                if let Some(ttl_ms) = queue.options.ttl_ms.filter(|_| one.is_live()) {
                    let tick_us = self.rules.ttl_tick_ms * 1_000;
                    let due_us = one.pushed.after_ms(ttl_ms).as_us();
                    next = next.min(Moment::from_us(due_us.next_multiple_of(tick_us)));
                }
            }
        }
        next
    }

    /// Whether the queue may be collected now.
    pub(crate) fn may_collect(&self, queue: &Queue) -> bool {
        self.rules.idle_ms > 0
            && queue.tier == Tier::Implicit
            && queue.live() == 0
            && self.waiters.iter().all(|one| one.life != queue.life)
            && queue.touched.after_ms(self.rules.idle_ms) <= self.now
    }

    /// Whether the queue must have been collected by now: looked at again within another idle time.
    pub(crate) fn must_collect(&self, queue: &Queue) -> bool {
        let since = queue.touched.max(queue.busy);
        self.may_collect(queue) && since.after_ms(self.rules.idle_ms) <= self.now
    }

    /// Whether the partition may be collected now.
    pub(crate) fn may_collect_ring(&self, queue: &Queue, ring: &Ring) -> bool {
        let watched = self
            .waiters
            .iter()
            .any(|one| one.life == queue.life && one.partition.as_ref() == Some(&ring.partition));
        self.rules.idle_ms > 0
            && ring.is_empty()
            && !watched
            && ring.touched.after_ms(self.rules.idle_ms) <= self.now
    }

    /// Whether the partition must have been collected by now.
    pub(crate) fn must_collect_ring(&self, queue: &Queue, ring: &Ring) -> bool {
        let since = queue.last_use.max(ring.busy);
        self.may_collect_ring(queue, ring) && since.after_ms(self.rules.idle_ms) <= self.now
    }
}

/// At its TTL a message is out of every count. Who never got it, or was to get it again, has skipped
/// it; who leases it is judged when the lease ends.
fn expire_due(queue: &mut Queue, at: usize, now: Moment) {
    let (options, ring) = (queue.options, &mut queue.rings[at]);
    for one in &mut ring.messages {
        let counted = match one.life {
            Life::Live => true,
            Life::Passed => false,
            Life::Expired { .. } | Life::Gone => continue,
        };
        if !one.is_due(&options, now) {
            continue;
        }
        let mut missed = one.states.is_empty();
        for (group, state) in one.states.iter_mut().enumerate() {
            match *state {
                State::Unread | State::Pending { .. } if counted => {
                    ring.skipped[group] += 1;
                    missed = true;
                    if *state != State::Unread {
                        *state = State::Done;
                    }
                }
                State::Pending { .. } => *state = State::Done,
                State::Unread | State::Maybe | State::Leased(_) | State::Done => {}
            }
        }
        one.life = Life::Expired { missed, counted };
    }
}

fn end_due_leases(queue: &mut Queue, at: usize, now: Moment, step: u64) {
    for message in 0..queue.rings[at].messages.len() {
        for group in 0..queue.groups.len() {
            let state = queue.rings[at].messages[message].states[group];
            if let State::Leased(lease) = state
                && lease.deadline <= now
            {
                queue.end_lease(at, message, group, step);
            }
        }
    }
}

/// What became of a lease that ended without a completed ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Redelivered,
    Dropped,
    /// It may linger, or be gone.
    MaybeRedelivered,
    MaybeDropped,
    /// It lingered and its TTL is over, or it is gone.
    Nothing,
}

impl Queue {
    /// Ends a lease by time or by a nack.
    pub(crate) fn end_lease(
        &mut self,
        at: usize,
        message: usize,
        group: usize,
        step: u64,
    ) -> Ended {
        let limit = self.options.retry_limit.max(1);
        let ring = &mut self.rings[at];
        let one: &mut Message = &mut ring.messages[message];
        let State::Leased(lease) = one.states[group] else {
            panic!("no lease to end");
        };
        let pending = State::Pending {
            deliveries: lease.attempts,
            ended_in: step,
        };
        let spent = lease.attempts >= limit;
        let (state, ended) = match &mut one.life {
            Life::Live if spent => {
                self.drops.retry += 1;
                self.retry_news += 1;
                (State::Done, Ended::Dropped)
            }
            Life::Live => (pending, Ended::Redelivered),
            Life::Passed if spent => {
                self.retry_slack += 1;
                (State::Done, Ended::MaybeDropped)
            }
            Life::Passed => (pending, Ended::MaybeRedelivered),
            Life::Expired {
                missed,
                counted: true,
            } => {
                *missed = true;
                ring.skipped[group] += 1;
                (State::Done, Ended::Dropped)
            }
            Life::Expired { counted: false, .. } | Life::Gone => (State::Done, Ended::Nothing),
        };
        one.states[group] = state;
        ended
    }

    /// Counts what expired once its last lease has ended: dropped if some group missed it.
    pub(crate) fn settle_ttl(&mut self) -> u64 {
        let mut dropped = 0;
        for one in self.rings.iter_mut().flat_map(|ring| &mut ring.messages) {
            if let Life::Expired { missed, .. } = one.life
                && !one.has_leases()
            {
                dropped += u64::from(missed);
                one.dropped = missed;
                one.life = Life::Gone;
            }
        }
        self.drops.ttl += dropped;
        dropped
    }
}
