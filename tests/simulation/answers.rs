//! Whether an answer with messages is allowed, and what it does to the model.

use queen::model::{Delivered, Popped};

use crate::model::{Lease, Life, Message, Model, Queue, Ring, State, Waiter, ensure};

/// A pop as it takes messages.
#[derive(Clone, Debug)]
pub(crate) struct Taker {
    pub(crate) queue: usize,
    pub(crate) partition: Option<String>,
    pub(crate) group: usize,
    pub(crate) batch: usize,
    pub(crate) auto_ack: bool,
    /// Partitions whose messages a window keeps for pops that have waited there for longer.
    pub(crate) reserved: Vec<String>,
    /// What came back by time in this very step may have come too late for it.
    pub(crate) lenient: bool,
}

/// What an allowed answer does.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    chunks: Vec<Chunk>,
    /// Every other partition was empty.
    drained: bool,
}

#[derive(Debug)]
struct Chunk {
    ring: usize,
    /// Places of the taken messages among the ring's.
    taken: Vec<usize>,
    /// Places of messages that must be gone, or not unread, because they were passed over.
    absent: Vec<usize>,
}

/// What a group may be given of a ring, in the only order allowed.
fn candidates(ring: &Ring, group: usize) -> Vec<usize> {
    let held = |one: &Message| matches!(one.life, Life::Live | Life::Passed);
    let of = |wanted: fn(&State) -> bool| {
        let all = ring.messages.iter().enumerate();
        all.filter(move |(_, one)| held(one) && wanted(&one.states[group]))
            .map(|(place, _)| place)
    };
    let pending = of(|state| matches!(state, State::Pending { .. }));
    let forward = of(|state| matches!(state, State::Unread | State::Maybe));
    pending.chain(forward).collect()
}

fn is_certain(one: &Message, group: usize) -> bool {
    one.is_live() && one.states[group] != State::Maybe
}

/// Takes the answer's messages of one ring out of its candidates.
fn walk(
    model: &Model,
    ring: &Ring,
    taker: &Taker,
    messages: &[Delivered],
    exhausted: bool,
) -> Result<(Vec<usize>, Vec<usize>), String> {
    let (mut taken, mut absent) = (Vec::new(), Vec::new());
    let mut lingering = None;
    let mut left = messages.iter().peekable();
    for place in candidates(ring, taker.group) {
        let one = &ring.messages[place];
        let state = one.states[taker.group];
        let next = left.peek();
        if next.is_none() && !exhausted {
            break;
        }
        if let Some(next) = next
            && next.payload == one.payload
        {
            check_delivered(ring, one, state, next)?;
            if one.life == Life::Passed {
                lingering = lingering.max(Some(one.index));
            }
            taken.push(place);
            left.next();
            continue;
        }
        if let State::Pending { ended_in, .. } = state
            && taker.lenient
            && ended_in == model.step
        {
            continue;
        }
        ensure!(
            !is_certain(one, taker.group),
            "{:?} was passed over in {} for {:?}",
            one.payload,
            ring.partition,
            next.map(|next| &next.payload)
        );
        ensure!(
            one.life != Life::Passed || lingering.is_none_or(|older| older >= one.index),
            "{:?} does not linger, but an older one does",
            one.payload
        );
        absent.push(place);
    }
    if let Some(extra) = left.next() {
        return Err(format!(
            "{:?} of {} is not to be had now: {:?}",
            extra.payload,
            ring.partition,
            ring.messages
                .iter()
                .find(|one| one.payload == extra.payload)
        ));
    }
    Ok((taken, absent))
}

fn check_delivered(
    ring: &Ring,
    one: &Message,
    state: State,
    delivered: &Delivered,
) -> Result<(), String> {
    let attempts = match state {
        State::Pending { deliveries, .. } => deliveries + 1,
        _ => 1,
    };
    ensure!(
        delivered.attempts == attempts,
        "{one:?} has attempts {} and not {attempts}",
        delivered.attempts
    );
    ensure!(delivered.pushed == one.pushed, "{one:?} changed its age");
    ensure!(
        delivered.delivery > one.last_delivery,
        "{one:?} has an old delivery number {}",
        delivered.delivery
    );
    match ring.base {
        Some(base) => ensure!(
            delivered.sequence == base + one.index,
            "{one:?} has number {} and not {}",
            delivered.sequence,
            base + one.index
        ),
        None => ensure!(
            delivered.sequence >= ring.floor + one.index,
            "{one:?} has number {}, which was used before: floor {}",
            delivered.sequence,
            ring.floor
        ),
    }
    Ok(())
}

impl Model {
    /// Whether a pop may be given these messages now, and what that means.
    pub(crate) fn plan(&self, taker: &Taker, popped: &Popped) -> Result<Plan, String> {
        let queue = &self.queues[taker.queue];
        ensure!(
            *popped.queue == *queue.name && popped.tenant == queue.tenant,
            "an answer of another queue: {popped:?}"
        );
        ensure!(
            popped.auto_ack == taker.auto_ack && popped.group as usize == taker.group,
            "an answer for another pop: {popped:?}"
        );
        ensure!(
            Some(popped.generation) == queue.generation || queue.generation.is_none(),
            "an answer of another life of the queue"
        );
        ensure!(popped.incarnation.0 == self.rules.incarnation, "a stale id");
        let total = popped.messages.len();
        ensure!(total <= taker.batch, "{total} messages for {taker:?}");
        let short = total < taker.batch;
        let mut plan = Plan::default();
        let mut rest = popped.messages.as_slice();
        while let Some(first) = rest.first() {
            let same = |one: &&Delivered| one.partition == first.partition;
            let (chunk, others) = rest.split_at(rest.iter().take_while(same).count());
            rest = others;
            let at = queue
                .rings
                .iter()
                .position(|ring| ring.partition == *first.partition);
            let Some(at) = at else {
                return Err(format!("{} does not exist", first.partition));
            };
            ensure!(
                plan.chunks.iter().all(|chunk| chunk.ring != at),
                "{} stands twice in one answer",
                first.partition
            );
            let exhausted = short || !rest.is_empty();
            let (taken, absent) = walk(self, &queue.rings[at], taker, chunk, exhausted)?;
            plan.chunks.push(Chunk {
                ring: at,
                taken,
                absent,
            });
        }
        if short {
            plan.drained = true;
            self.plan_drained(taker, &mut plan)?;
        }
        let asked = |partition: &str| match &taker.partition {
            Some(asked) => asked == partition,
            None => true,
        };
        let mut partitions = popped.messages.iter().map(|one| &one.partition);
        ensure!(
            partitions.all(|partition| asked(partition)),
            "messages of a partition that was not asked for"
        );
        if taker.partition.is_none() {
            self.check_round_robin(taker, &plan)?;
        }
        Ok(plan)
    }

    /// A batch that is not full left nothing behind.
    fn plan_drained(&self, taker: &Taker, plan: &mut Plan) -> Result<(), String> {
        let queue = &self.queues[taker.queue];
        for (at, ring) in queue.rings.iter().enumerate() {
            let asked = taker
                .partition
                .as_ref()
                .is_none_or(|p| *p == ring.partition);
            let reserved = taker.reserved.contains(&ring.partition);
            if !asked || reserved || plan.chunks.iter().any(|chunk| chunk.ring == at) {
                continue;
            }
            let (taken, absent) = walk(self, ring, taker, &[], true)?;
            plan.chunks.push(Chunk {
                ring: at,
                taken,
                absent,
            });
        }
        Ok(())
    }

    fn is_ready(&self, ring: &Ring, group: usize) -> bool {
        candidates(ring, group)
            .iter()
            .any(|&place| is_certain(&ring.messages[place], group))
    }

    /// No ready partition is passed over twice by pops that take from any.
    fn check_round_robin(&self, taker: &Taker, plan: &Plan) -> Result<(), String> {
        let queue = &self.queues[taker.queue];
        for (at, ring) in queue.rings.iter().enumerate() {
            let served = |chunk: &Chunk| chunk.ring == at && !chunk.taken.is_empty();
            let ready = self.is_ready(ring, taker.group);
            let reserved = taker.reserved.contains(&ring.partition);
            if !ready || reserved || plan.chunks.iter().any(served) {
                continue;
            }
            for chunk in plan.chunks.iter().filter(|chunk| !chunk.taken.is_empty()) {
                let other = &queue.rings[chunk.ring].partition;
                let over = ring.passed_over[taker.group].iter();
                let times = over
                    .filter(|(name, _)| name == other)
                    .map(|(_, times)| *times)
                    .sum::<u32>();
                ensure!(
                    times == 0 || taker.lenient,
                    "{} was passed over twice for {other}",
                    ring.partition
                );
            }
        }
        Ok(())
    }

    /// Counts who was passed over; who is not ready, or was served, starts anew.
    fn note_round_robin(&mut self, taker: &Taker, plan: &Plan) {
        let ready: Vec<bool> = self.queues[taker.queue]
            .rings
            .iter()
            .map(|ring| self.is_ready(ring, taker.group))
            .collect();
        let queue = &mut self.queues[taker.queue];
        let served: Vec<(usize, String)> = plan
            .chunks
            .iter()
            .filter(|chunk| !chunk.taken.is_empty())
            .map(|chunk| (chunk.ring, queue.rings[chunk.ring].partition.clone()))
            .collect();
        for (at, ring) in queue.rings.iter_mut().enumerate() {
            let over = &mut ring.passed_over[taker.group];
            let reserved = taker.reserved.contains(&ring.partition);
            if !ready[at] || reserved || served.iter().any(|(ring, _)| *ring == at) {
                over.clear();
            } else if taker.partition.is_none() && !taker.lenient {
                over.extend(served.iter().map(|(_, name)| (name.clone(), 1)));
            }
        }
    }

    /// Whoever is not ready now cannot be passed over.
    pub(crate) fn note_ready(&mut self) {
        for queue in 0..self.queues.len() {
            for at in 0..self.queues[queue].rings.len() {
                for group in 0..self.queues[queue].groups.len() {
                    if !self.is_ready(&self.queues[queue].rings[at], group) {
                        self.queues[queue].rings[at].passed_over[group].clear();
                    }
                }
            }
        }
    }

    /// Does what an allowed answer does.
    pub(crate) fn take(&mut self, taker: &Taker, popped: &Popped, plan: &Plan) {
        self.note_round_robin(taker, plan);
        let (now, lingers) = (self.now, self.lingers());
        let queue = &mut self.queues[taker.queue];
        let deadline = now.after_ms(queue.options.lease_ms);
        queue.last_use = now;
        let mut delivered = popped.messages.iter();
        for chunk in &plan.chunks {
            let ring = &mut queue.rings[chunk.ring];
            for (&place, one) in chunk.taken.iter().zip(&mut delivered) {
                if ring.base.is_none() {
                    let base = one.sequence - ring.messages[place].index;
                    ring.base = Some(base);
                    self.highest = self.highest.max(base + ring.count);
                }
                let message = &mut ring.messages[place];
                self.reached.lingering_read_late += u64::from(message.life == Life::Passed);
                message.last_delivery = one.delivery;
                message.pins += u32::from(taker.auto_ack);
                message.states[taker.group] = if taker.auto_ack {
                    State::Done
                } else {
                    State::Leased(Lease {
                        deadline,
                        delivery: one.delivery,
                        attempts: one.attempts,
                    })
                };
            }
            if !chunk.taken.is_empty() {
                ring.touched = now;
            }
            let gone = absent_index(ring, chunk, taker.group);
            if let Some(index) = gone {
                ring.let_go(index);
            }
        }
        queue.retire(lingers);
        self.totals.popped += popped.messages.len() as u64;
    }

    /// What a parked pop could certainly be given, and what it could be given at most.
    pub(crate) fn available(&self, waiter: &Waiter) -> (usize, usize) {
        let queue = &self.queues[self.by_life(waiter.life).expect("its queue")];
        let (mut certain, mut most) = (0, 0);
        for ring in &queue.rings {
            if waiter
                .partition
                .as_ref()
                .is_none_or(|p| *p == ring.partition)
            {
                let places = candidates(ring, waiter.group);
                let sure = |place: &&usize| is_certain(&ring.messages[**place], waiter.group);
                certain += places.iter().filter(sure).count();
                most += places.len();
            }
        }
        (certain, most)
    }

    /// How the queue must look to a pop of a group.
    pub(crate) fn queue_of(&self, waiter: &Waiter) -> &Queue {
        &self.queues[self.by_life(waiter.life).expect("its queue")]
    }
}

/// Settles what must be absent: the newest that was passed over while it might have lingered.
fn absent_index(ring: &mut Ring, chunk: &Chunk, group: usize) -> Option<u64> {
    let mut newest = None;
    for &place in &chunk.absent {
        let one = &mut ring.messages[place];
        if one.states[group] == State::Maybe {
            one.states[group] = State::Done;
        } else {
            newest = newest.max(Some(one.index));
        }
    }
    newest
}
