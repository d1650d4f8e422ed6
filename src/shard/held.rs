//! Pushes that wait for room which messages of other shards take up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use super::names::{NameRef, QueueName};
use super::room::Wanted;
use super::timers::Timer;
use super::{Effect, Shard};
use crate::limits;
use crate::model::{ClientRef, Moment, Push, Refusal, Reply, TenantId};

/// A push that waits.
#[derive(Debug)]
struct HeldPush {
    client: ClientRef,
    push: Push<'static>,
    wanted: Wanted,
    /// When it is refused.
    until: Moment,
    tries: u32,
}

/// The pushes that wait at one queue, in the order in which they came; the first has asked for room.
#[derive(Debug)]
struct HeldQueue {
    tenant: TenantId,
    name: Arc<str>,
    pushes: VecDeque<HeldPush>,
    /// When the first looks again, answered or not.
    again: Moment,
}

/// All pushes of a shard that wait for room.
#[derive(Debug, Default)]
pub(super) struct Held {
    queues: BTreeMap<u64, HeldQueue>,
    by_name: HashMap<QueueName, u64>,
    last: u64,
}

impl Held {
    /// Queues at which pushes wait.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// The number under which pushes to this queue wait, if any do.
    pub(super) fn token(&self, tenant: TenantId, name: &str) -> Option<u64> {
        if self.queues.is_empty() {
            return None;
        }
        self.by_name.get(&NameRef(tenant, name)).copied()
    }

    /// When the first of those that wait under this number looks again.
    pub(super) fn again(&self, token: u64) -> Option<Moment> {
        self.queues.get(&token).map(|held| held.again)
    }

    pub(super) fn next_token(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Shard {
    /// Payload bytes that are reserved for pushes which wait for room, by tenant. For the simulation.
    pub fn waiting_bytes(&self) -> impl Iterator<Item = (TenantId, u64)> {
        self.held.queues.values().flat_map(|held| {
            let reserved = held.pushes.iter().map(|push| push.wanted);
            let reserved = reserved.filter(|wanted| wanted.reserved_outside);
            reserved.map(|wanted| (held.tenant, wanted.bytes))
        })
    }

    /// Holds the first push that waits at its queue.
    pub(super) fn hold(
        &mut self,
        now: Moment,
        tenant: TenantId,
        (client, push, wanted): (ClientRef, &mut Push<'_>, Wanted),
    ) {
        let held = HeldQueue {
            tenant,
            name: push.queue.as_str().into(),
            pushes: VecDeque::from([held_push(now, client, push, wanted)]),
            again: Moment::NEVER,
        };
        self.keep_held(now.after_ms(limits::ROOM_RETRY_MS), wanted.token, held);
    }

    /// Holds a push behind others to the same queue, of which there may be so many.
    pub(super) fn hold_behind(
        &mut self,
        now: Moment,
        token: u64,
        (client, push): (ClientRef, &mut Push<'_>),
    ) -> Result<(), Refusal> {
        let held = self.held.queues.get_mut(&token).expect("somebody waits");
        if held.pushes.len() >= limits::HELD_PUSHES_MAX {
            return Err(NO_ROOM_IN_TIME);
        }
        let wanted = Wanted {
            messages: push.payloads.len() as u64,
            bytes: push.payloads.iter().map(|one| one.len() as u64).sum(),
            token,
            reserved_outside: false,
        };
        held.pushes.push_back(held_push(now, client, push, wanted));
        Ok(())
    }

    /// Whoever was asked answers; where nobody could be asked, room that was on its way is there a
    /// moment later: the first looks `again` by itself.
    fn keep_held(&mut self, again: Moment, token: u64, mut held: HeldQueue) {
        held.again = again;
        self.timers.insert(held.again, Timer::Held(token));
        let name = QueueName(held.tenant, Arc::clone(&held.name));
        self.held.by_name.insert(name, token);
        self.held.queues.insert(token, held);
    }

    /// Tries the pushes that wait at a queue, in their order, until one has to wait on: another shard
    /// has made room or says that it cannot, or nothing was heard in time.
    /// Whether none is left that could be tried now.
    pub(super) fn go_on(&mut self, now: Moment, token: u64, effects: &mut Vec<Effect>) -> bool {
        let Some(mut held) = self.held.queues.remove(&token) else {
            return true;
        };
        let name = NameRef(held.tenant, &held.name);
        self.held.by_name.remove(&name);
        for _ in 0..limits::HELD_STEP_MAX {
            let Some(mut first) = held.pushes.pop_front() else {
                return true;
            };
            let tried = if first.tries >= limits::ROOM_TRIES_MAX || first.until <= now {
                Err(NO_ROOM_IN_TIME)
            } else {
                let wanted = &mut first.wanted;
                self.try_push(now, held.tenant, (&mut first.push, wanted), effects)
            };
            let reply = match tried {
                Ok(Some(count)) => Reply::Pushed { count },
                Err(refusal) => {
                    self.give_up(held.tenant, first.wanted);
                    Reply::Refused(refusal)
                }
                Ok(None) => {
                    first.tries += 1;
                    held.pushes.push_front(first);
                    self.keep_held(now.after_ms(limits::ROOM_RETRY_MS), token, held);
                    return true;
                }
            };
            effects.push(Effect::Answer {
                client: first.client,
                reply,
            });
        }
        let finished = held.pushes.is_empty();
        if !finished {
            self.keep_held(now, token, held);
        }
        finished
    }
}

const NO_ROOM_IN_TIME: Refusal = Refusal::Overloaded {
    text: "the oldest messages of the queue could not be dropped in time; try again",
};

fn held_push(now: Moment, client: ClientRef, push: &mut Push<'_>, wanted: Wanted) -> HeldPush {
    let taken = Push {
        queue: push.queue.clone(),
        partition: push.partition.clone(),
        payloads: std::mem::take(&mut push.payloads),
    };
    HeldPush {
        client,
        push: taken.into_owned(),
        wanted,
        until: now.after_ms(limits::ROOM_WAIT_MS),
        tries: 0,
    }
}
