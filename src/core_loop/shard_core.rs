//! One turn of a shard core: a command in, its answer and the answers to others out.

use std::collections::VecDeque;

use crate::dispatch;
use crate::model::{ClientRef, Command, Moment, Popped, Refusal, Reply, TenantId};
use crate::shard::{Effect, Shard, Statistics};

/// An answer to somebody who waited.
#[derive(Debug)]
pub struct Answer {
    /// Who is answered.
    pub client: ClientRef,
    /// The answer.
    pub reply: Reply,
}

/// The shard of a core and what its turns have left to do.
#[derive(Debug)]
pub struct ShardCore {
    core: u16,
    shards: u16,
    shard: Shard,
    /// Reused between turns.
    effects: Vec<Effect>,
    answers: VecDeque<Answer>,
}

impl ShardCore {
    /// Core number `core` of `shards`.
    pub fn new(core: u16, shards: u16, shard: Shard) -> ShardCore {
        assert!(core < shards);
        ShardCore {
            core,
            shards,
            shard,
            effects: Vec::new(),
            answers: VecDeque::new(),
        }
    }

    /// Serves one command; `None` if it parked. Answers to others are left in
    /// [`ShardCore::next_answer`].
    pub fn command(
        &mut self,
        now: Moment,
        client: ClientRef,
        tenant: TenantId,
        command: &mut Command<'_>,
    ) -> Option<Reply> {
        assert_eq!(dispatch::owner_of(tenant, command, self.shards), self.core);
        self.shard
            .apply(now, client, tenant, command, &mut self.effects);
        let mut own = None;
        for Effect::Answer {
            client: other,
            reply,
        } in self.effects.drain(..)
        {
            if other == client {
                assert!(own.is_none(), "a request was answered twice");
                own = Some(reply);
            } else {
                self.answers.push_back(Answer {
                    client: other,
                    reply,
                });
            }
        }
        own
    }

    /// Charges a push to its tenant's rate, before it is placed.
    pub fn charge(&mut self, now: Moment, tenant: TenantId, messages: u64) -> Result<(), Refusal> {
        self.shard.charge(now, tenant, messages)
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment) {
        self.run(|shard, effects| shard.run_due(now, effects));
    }

    /// When [`ShardCore::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.shard.next_deadline()
    }

    /// The client of a parked pop is gone.
    pub fn abandon(&mut self, now: Moment, client: ClientRef) {
        self.run(|shard, effects| shard.abandon(now, client, effects));
    }

    /// What an answer took could not be delivered.
    pub fn give_back(&mut self, now: Moment, popped: Popped) {
        self.run(|shard, effects| shard.give_back(now, popped, effects));
    }

    /// The class is paused: nobody stays parked.
    pub fn refuse_all_parked(&mut self, now: Moment) {
        self.run(|shard, effects| shard.refuse_all_parked(now, effects));
    }

    /// The broker stops: nobody stays parked.
    pub fn answer_all_empty(&mut self, now: Moment) {
        self.run(|shard, effects| shard.answer_all_empty(now, effects));
    }

    /// The oldest answer to somebody else that a turn has left.
    pub fn next_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Totals since the start.
    pub fn statistics(&self) -> Statistics {
        self.shard.statistics()
    }

    /// Pops that are parked now.
    pub fn parked(&self) -> usize {
        self.shard.parked()
    }

    /// What must hold between turns, by looking at everything. For the simulation.
    pub fn check(&self) {
        self.shard.check();
    }

    fn run(&mut self, turn: impl FnOnce(&mut Shard, &mut Vec<Effect>)) {
        turn(&mut self.shard, &mut self.effects);
        let answers = self.effects.drain(..);
        self.answers
            .extend(answers.map(|Effect::Answer { client, reply }| Answer { client, reply }));
    }
}
