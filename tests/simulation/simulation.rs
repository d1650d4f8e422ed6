//! One run: a broker core and the model side by side, driven by one seed.

use std::collections::VecDeque;
use std::sync::Arc;

use queen::channel::Port;
use queen::core_loop::{Answer, ShardCore};
use queen::directory::{Bounds, Directory};
use queen::model::{
    Ack, AckItem, ClientRef, Command, Configure, GroupName, Incarnation, ListQueues, MessageId,
    Moment, PartitionName, Pop, Popped, Push, QueueName, QueueOptions, Refusal, Reply, TenantId,
    Verdict,
};
use queen::shard::{Shard, ShardSettings};

use crate::answers::Taker;
use crate::model::{Model, Rules, Waiter, ensure};
use crate::settlement::AckTarget;

/// An answer with messages whose fate is open.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) life: u64,
    pub(crate) popped: Popped,
}

/// A delivered message that a client may ack.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) tenant: TenantId,
    pub(crate) queue: String,
    pub(crate) group: String,
    pub(crate) partition: String,
    pub(crate) sequence: u64,
}

/// What a pop asks for.
#[derive(Clone, Debug)]
pub(crate) struct PopAsked {
    pub(crate) tenant: TenantId,
    pub(crate) queue: String,
    pub(crate) partition: Option<String>,
    pub(crate) group: String,
    pub(crate) batch: u32,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) auto_ack: bool,
}

type Checked = Result<(), String>;

#[derive(Debug)]
pub(crate) struct Simulation {
    pub(crate) rules: Rules,
    pub(crate) model: Model,
    pub(crate) now: Moment,
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) tenants: Vec<TenantId>,
    /// Whether steps are told as they happen.
    pub(crate) trace: bool,
    directory: Arc<Directory>,
    core: ShardCore,
    answers: VecDeque<Answer>,
    clients: u32,
    /// The next command finds what is due undone.
    late: bool,
}

impl Simulation {
    pub(crate) fn new(rules: Rules, tenants: Vec<TenantId>) -> Simulation {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: rules.broker_bytes,
            queue_bytes: rules.queue_bytes,
            queue_length: rules.queue_length,
            lease_ms: rules.lease_ms,
            retry_limit: rules.retry_limit,
            rate: None,
            require_grant: false,
            tenants: 10,
            shards: 1,
        }));
        let settings = ShardSettings {
            incarnation: Incarnation(rules.incarnation),
            shard: 0,
            shards: 1,
            ttl_tick_ms: rules.ttl_tick_ms,
            linger_ms: rules.linger_ms,
            implicit_idle_ms: rules.idle_ms,
        };
        let shard = Shard::new(settings, Arc::clone(&directory));
        Simulation {
            rules,
            model: Model::new(rules),
            now: Moment::ZERO,
            in_flight: Vec::new(),
            tenants,
            trace: false,
            core: ShardCore::new(Port::alone(), shard, Arc::clone(&directory)),
            directory,
            answers: VecDeque::new(),
            clients: 0,
            late: false,
        }
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>12} us  {}", self.now.as_us(), text());
        }
    }

    /// Lets time pass. On time: the core is turned at every deadline on the way. Late: what is due
    /// is left to the next command.
    pub(crate) fn sleep(&mut self, us: u64, late: bool) -> Checked {
        let target = Moment::from_us(self.now.as_us() + us);
        if late && !self.may_collect_at(target) {
            self.now = target;
            self.late = self.core.next_deadline().is_some_and(|next| next <= target);
            if !self.late {
                self.model.now = target;
            }
            return Ok(());
        }
        let mut turns = 0;
        while let Some(next) = self.core.next_deadline().filter(|next| *next <= target) {
            self.now = self.now.max(next);
            self.turn()?;
            turns += 1;
            ensure!(turns < 100_000, "the clock does not get on at {next:?}");
        }
        self.now = target;
        self.model.now = target;
        Ok(())
    }

    fn may_collect_at(&mut self, target: Moment) -> bool {
        let now = std::mem::replace(&mut self.model.now, target);
        // What expires on the way may leave something empty.
        let idle = |since: Moment| since.after_ms(self.rules.idle_ms) <= target;
        let may = self.rules.idle_ms > 0
            && self.model.queues.iter().any(|queue| {
                idle(queue.touched) || queue.rings.iter().any(|ring| idle(ring.touched))
            });
        self.model.now = now;
        may
    }

    /// Does what is due.
    pub(crate) fn turn(&mut self) -> Checked {
        self.late = false;
        self.tell(|| "tick".to_owned());
        let late = self
            .core
            .next_deadline()
            .is_some_and(|next| next < self.now);
        self.core.tick(self.now);
        self.model.advance(self.now);
        if late {
            self.model.forget_windows();
        }
        self.model.note_windows();
        self.collect_answers();
        self.accept_all(true)?;
        self.adopt()?;
        self.model.check_after_tick()?;
        self.check()
    }

    fn collect_answers(&mut self) {
        self.answers
            .extend(std::iter::from_fn(|| self.core.next_answer()));
    }

    /// Adopts what was collected by now.
    fn adopt(&mut self) -> Checked {
        for life in self.model.adopt_collected(&self.directory)? {
            let at = self.model.by_life(life).expect("it was just seen");
            let queue = &self.model.queues[at];
            let (tenant, name) = (queue.tenant, queue.name.clone());
            let depth = self.ask_depth(tenant, &name, None)?;
            self.model.adopt_partitions(life, &depth)?;
        }
        Ok(())
    }

    fn ask_depth(
        &mut self,
        tenant: TenantId,
        name: &str,
        group: Option<&str>,
    ) -> Result<queen::model::Depth, String> {
        let command = Command::Depth {
            queue: QueueName::new(name).expect("a name"),
            group: group.map(|group| GroupName::new(group).expect("a name")),
        };
        let client = self.client();
        let reply = self.core.command(self.now, client, tenant, command).reply();
        self.collect_answers();
        match reply {
            Some(Reply::Depth(depth)) => Ok(*depth),
            other => Err(format!("{other:?} is no depth of {name}")),
        }
    }

    fn client(&mut self) -> ClientRef {
        self.clients += 1;
        ClientRef {
            core: 0,
            connection: self.clients,
            request: 0,
            generation: 0,
        }
    }

    /// Runs a command; its reply, if it did not park.
    fn command(
        &mut self,
        tenant: TenantId,
        command: Command<'_>,
    ) -> Result<(ClientRef, Option<Reply>), String> {
        let late = std::mem::take(&mut self.late);
        let client = self.client();
        self.tell(|| format!("{tenant} {client:?} late {late}: {command:?}"));
        let reply = self.core.command(self.now, client, tenant, command).reply();
        self.tell(|| format!("    {reply:?}"));
        self.collect_answers();
        self.model.advance(self.now);
        self.model.note_windows();
        if late {
            self.model.forget_windows();
            self.accept_some(true)?;
        }
        Ok((client, reply))
    }

    /// Takes answers to others as long as they are allowed as things stand.
    fn accept_some(&mut self, lenient: bool) -> Checked {
        while let Some(answer) = self.answers.front() {
            let Reply::Popped(popped) = &answer.reply else {
                return Err(format!("{answer:?} to a parked pop"));
            };
            let client = answer.client;
            let Ok(life) = self.model.answer_parked(client, popped, lenient) else {
                return Ok(());
            };
            self.tell(|| format!("    to {client:?}: {popped:?}"));
            self.settle_front(life);
            self.model.note_windows();
        }
        Ok(())
    }

    fn settle_front(&mut self, life: u64) {
        if let Some(Answer {
            reply: Reply::Popped(popped),
            ..
        }) = self.answers.pop_front()
        {
            self.in_flight.push(InFlight { life, popped });
        }
    }

    /// Takes all answers to others; one that is not allowed fails the run.
    fn accept_all(&mut self, lenient: bool) -> Checked {
        self.model.note_windows();
        self.accept_some(lenient)?;
        if let Some(answer) = self.answers.front()
            && let Reply::Popped(popped) = &answer.reply
        {
            let fault = self.model.answer_parked(answer.client, popped, lenient);
            return Err(format!("{}: {answer:?}", fault.expect_err("not allowed")));
        }
        Ok(())
    }

    /// What must hold after every step.
    pub(crate) fn check(&mut self) -> Checked {
        for (tenant, name, group) in self.model.undecided() {
            let depth = self.ask_depth(tenant, &name, Some(&group))?;
            self.model.decide((tenant, &name), &group, &depth)?;
        }
        self.model.note_busy();
        self.model.check_cells(&self.directory)?;
        for &tenant in &self.tenants {
            let cell = self.directory.tenant(tenant).expect("few tenants");
            self.model.check_tenant(tenant, cell.budget().used())?;
        }
        self.model
            .check_totals(self.core.statistics(), self.core.parked())?;
        self.model.note_windows();
        self.model.note_ready();
        self.model.check_waiters()?;
        self.model.check_deadline(self.core.next_deadline())?;
        self.model.forget_lingering();
        self.model.prune();
        Ok(())
    }

    /// What the shard says of itself.
    pub(crate) fn check_inside(&self) {
        self.core.shard().check();
    }

    pub(crate) fn push(
        &mut self,
        tenant: TenantId,
        (queue, partition): (&str, &str),
        payloads: &[bytes::Bytes],
    ) -> Checked {
        let command = Command::Push(Push {
            queue: QueueName::new(queue).expect("a name"),
            partition: PartitionName::new(partition).expect("a name"),
            payloads: payloads.to_vec(),
        });
        let (_, reply) = self.command(tenant, command)?;
        let bytes = payloads.iter().map(|one| one.len() as u64).sum();
        let count = payloads.len() as u64;
        if count == 0 {
            ensure!(
                matches!(reply, Some(Reply::Pushed { count: 0 })),
                "an empty push: {reply:?}"
            );
            return self.finish();
        }
        match (self.model.judge_push(tenant, queue, count, bytes), reply) {
            (Ok(()), Some(Reply::Pushed { count: told })) if u64::from(told) == count => {
                self.model.push(tenant, queue, partition, payloads);
            }
            (Err(refused), Some(Reply::Refused(refusal))) if refused.matches(&refusal) => {}
            (verdict, reply) => {
                return Err(format!("a push: {reply:?} and not {verdict:?}"));
            }
        }
        self.finish()
    }

    fn finish(&mut self) -> Checked {
        self.accept_all(true)?;
        self.check()
    }

    pub(crate) fn pop(&mut self, asked: &PopAsked) -> Checked {
        let command = Command::Pop(Pop {
            queue: QueueName::new(asked.queue.as_str()).expect("a name"),
            partition: asked
                .partition
                .as_deref()
                .map(|partition| PartitionName::new(partition).expect("a name")),
            group: GroupName::new(asked.group.as_str()).expect("a name"),
            batch: asked.batch,
            wait_ms: asked.wait_ms,
            since: None,
            auto_ack: asked.auto_ack,
        });
        let (client, reply) = self.command(asked.tenant, command)?;
        let queue = self.model.find_or_create(asked.tenant, &asked.queue);
        let group = self.model.register(queue, &asked.group);
        let now = self.now;
        if let Some(partition) = &asked.partition {
            let ring = self.model.find_or_create_ring(queue, partition);
            self.model.queues[queue].rings[ring].touched = now;
        }
        self.model.queues[queue].touched = now;
        self.model.queues[queue].last_use = now;
        let window = self.model.queues[queue].has_window() && asked.wait_ms.is_some();
        let life = self.model.queues[queue].life;
        if window || reply.is_none() {
            self.model.park(Waiter {
                client,
                life,
                partition: asked.partition.clone(),
                group,
                batch: asked.batch as usize,
                auto_ack: asked.auto_ack,
                parked: now,
                deadline: now.after_ms(asked.wait_ms.unwrap_or(0)),
                first_seen: None,
                opened: None,
            });
        }
        match reply {
            None => {
                ensure!(asked.wait_ms.is_some(), "a pop parked that must not wait");
                self.finish()
            }
            Some(Reply::Popped(popped)) => {
                // Others were served before it.
                self.accept_all(true)?;
                if window {
                    self.model.answer_parked(client, &popped, false)?;
                } else {
                    self.answer_pop(asked, queue, group, &popped)?;
                }
                self.in_flight.push(InFlight { life, popped });
                self.finish()
            }
            other => Err(format!("a pop: {other:?}")),
        }
    }

    fn answer_pop(
        &mut self,
        asked: &PopAsked,
        queue: usize,
        group: usize,
        popped: &Popped,
    ) -> Checked {
        let waits = asked.wait_ms.is_some_and(|wait_ms| wait_ms > 0);
        ensure!(
            !waits || !popped.messages.is_empty(),
            "a waiting pop was answered with nothing"
        );
        let taker = Taker {
            queue,
            partition: asked.partition.clone(),
            group,
            batch: asked.batch as usize,
            auto_ack: asked.auto_ack,
            reserved: Vec::new(),
            lenient: false,
        };
        let plan = self.model.plan(&taker, popped)?;
        self.model.take(&taker, popped, &plan);
        Ok(())
    }

    pub(crate) fn ack(
        &mut self,
        (tenant, queue, group): (TenantId, &str, &str),
        acks: &[(AckTarget, Verdict)],
    ) -> Checked {
        let items = acks.iter().map(|(target, verdict)| AckItem {
            id: self.id_of(target).into(),
            verdict: *verdict,
        });
        let command = Command::Ack(Ack {
            queue: QueueName::new(queue).expect("a name"),
            group: GroupName::new(group).expect("a name"),
            acks: items.collect(),
        });
        let (_, reply) = self.command(tenant, command)?;
        let Some(Reply::Acked(outcomes)) = reply else {
            return Err(format!("an ack: {reply:?}"));
        };
        ensure!(outcomes.len() == acks.len(), "not one outcome per ack");
        for ((target, verdict), outcome) in acks.iter().zip(outcomes) {
            self.model
                .ack((tenant, queue, group), target, *verdict, outcome)?;
            self.model.note_windows();
            self.accept_some(true)?;
        }
        self.finish()
    }

    fn id_of(&self, target: &AckTarget) -> String {
        let (incarnation, partition, sequence) = match target {
            AckTarget::Garbage => return "e:zz:not:an:id".to_owned(),
            AckTarget::Foreign => (self.rules.incarnation ^ 1, "Default", 1),
            AckTarget::Ours {
                partition,
                sequence,
            } => (self.rules.incarnation, partition.as_str(), *sequence),
        };
        let id = MessageId {
            incarnation: Incarnation(incarnation),
            partition,
            sequence,
        };
        id.to_string()
    }

    pub(crate) fn configure(
        &mut self,
        tenant: TenantId,
        queue: &str,
        options: QueueOptions,
    ) -> Checked {
        // Whether an answer went out by the old options or the new could not be told otherwise.
        self.be_on_time()?;
        let command = Command::Configure(Configure {
            queue: QueueName::new(queue).expect("a name"),
            options,
            options_as_sent: "{}".into(),
            stored: false,
        });
        let (_, reply) = self.command(tenant, command)?;
        let expected = self.model.configure(tenant, queue, &options);
        // A shorter TTL is in force at once.
        self.model.advance(self.now);
        ensure!(
            matches!(&reply, Some(Reply::Configured { effective, durable: false }) if *effective == expected),
            "configure: {reply:?} and not {expected:?}"
        );
        self.finish()
    }

    pub(crate) fn reset(&mut self, tenant: TenantId, queue: &str) -> Checked {
        // What became of leases that ended before could not be asked any more.
        self.be_on_time()?;
        let command = Command::Reset(QueueName::new(queue).expect("a name"));
        let (_, reply) = self.command(tenant, command)?;
        let expected = self.model.reset(tenant, queue);
        ensure!(
            matches!(reply, Some(Reply::Reset { dropped }) if dropped == expected),
            "reset: {reply:?} and not {expected}"
        );
        self.finish()
    }

    pub(crate) fn delete(&mut self, tenant: TenantId, queue: &str) -> Checked {
        // What became of leases that ended before could not be asked any more.
        self.be_on_time()?;
        let command = Command::Delete(QueueName::new(queue).expect("a name"));
        let (_, reply) = self.command(tenant, command)?;
        let expected = self.model.delete(tenant, queue);
        ensure!(
            matches!(reply, Some(Reply::Deleted { deleted, declared }) if (deleted, declared) == expected),
            "delete: {reply:?} and not {expected:?}"
        );
        self.finish()
    }

    pub(crate) fn depth(&mut self, tenant: TenantId, queue: &str, group: Option<&str>) -> Checked {
        let command = Command::Depth {
            queue: QueueName::new(queue).expect("a name"),
            group: group.map(|group| GroupName::new(group).expect("a name")),
        };
        let (_, reply) = self.command(tenant, command)?;
        self.model.adopt_retry_drops(&self.directory)?;
        match reply {
            Some(Reply::Depth(depth)) => self.model.check_depth((tenant, queue), group, &depth)?,
            Some(Reply::Refused(Refusal::QueueNotFound { .. })) => ensure!(
                self.model.find(tenant, queue).is_none(),
                "{queue} was not found"
            ),
            other => return Err(format!("depth: {other:?}")),
        }
        self.finish()
    }

    pub(crate) fn list(
        &mut self,
        tenant: TenantId,
        (after, prefix, limit): (Option<&str>, &str, u32),
    ) -> Checked {
        let command = Command::Queues(ListQueues {
            after: after.map(Into::into),
            prefix: prefix.into(),
            limit,
        });
        let (_, reply) = self.command(tenant, command)?;
        let Some(Reply::Queues(page)) = reply else {
            return Err(format!("list: {reply:?}"));
        };
        self.model.adopt_retry_drops(&self.directory)?;
        self.model
            .check_list(tenant, (after, prefix, limit as usize), &page)?;
        self.finish()
    }

    /// Does what is due before something that does not do so itself.
    fn be_on_time(&mut self) -> Checked {
        self.late = false;
        if self
            .core
            .next_deadline()
            .is_some_and(|next| next <= self.now)
        {
            self.turn()?;
        }
        Ok(())
    }

    /// The client of a parked pop vanishes.
    pub(crate) fn vanish(&mut self, client: ClientRef) -> Checked {
        self.be_on_time()?;
        let Some(at) = self.model.waiter(client) else {
            return Ok(());
        };
        self.tell(|| format!("{client:?} vanishes"));
        self.core.abandon(self.now, client);
        self.collect_answers();
        self.model.step += 1;
        self.model.unpark(at);
        self.finish()
    }

    /// An answer could not be delivered.
    pub(crate) fn give_back(&mut self, at: usize) -> Checked {
        self.be_on_time()?;
        let InFlight { life, popped } = self.in_flight.swap_remove(at);
        self.tell(|| format!("give back {popped:?}"));
        let copy = Popped {
            queue: Arc::clone(&popped.queue),
            messages: Vec::new(),
            ..popped
        };
        let messages: Vec<_> = popped.messages.iter().map(clone_of).collect();
        self.core.give_back(self.now, popped);
        self.collect_answers();
        self.model.step += 1;
        for message in messages {
            self.model.give_back(life, &copy, &message);
            self.model.note_windows();
            self.accept_some(true)?;
        }
        self.finish()?;
        // What it left idle for long enough is due at once.
        self.be_on_time()
    }

    /// An answer arrived; what its client holds now.
    pub(crate) fn deliver(&mut self, at: usize) -> Vec<Held> {
        let InFlight { life, popped } = self.in_flight.swap_remove(at);
        self.model.delivered(life, &popped);
        let group = self
            .model
            .by_life(life)
            .map(|queue| self.model.queues[queue].groups[popped.group as usize].clone());
        let Some(group) = group else {
            return Vec::new();
        };
        let held = popped.messages.iter().map(|one| Held {
            tenant: popped.tenant,
            queue: popped.queue.to_string(),
            group: group.clone(),
            partition: one.partition.to_string(),
            sequence: one.sequence,
        });
        held.collect()
    }

    /// The class is paused, or the broker stops: nobody stays parked.
    pub(crate) fn release_parked(&mut self, stops: bool) -> Checked {
        self.be_on_time()?;
        self.tell(|| "everybody is released".to_owned());
        if stops {
            self.core.stop(self.now);
        } else {
            self.core.refuse_all_parked(self.now);
        }
        self.model.step += 1;
        while let Some(answer) = self.core.next_answer() {
            let fits = match &answer.reply {
                Reply::Popped(popped) => stops && popped.messages.is_empty(),
                Reply::Refused(Refusal::Paused) => !stops,
                _ => false,
            };
            let oldest = self.model.waiters.first().map(|one| one.client);
            ensure!(
                fits && oldest == Some(answer.client),
                "{answer:?} to {oldest:?}"
            );
            self.model.unpark(0);
        }
        ensure!(self.model.waiters.is_empty(), "somebody stays parked");
        self.finish()
    }
}

fn clone_of(one: &queen::model::Delivered) -> queen::model::Delivered {
    queen::model::Delivered {
        partition: Arc::clone(&one.partition),
        payload: one.payload.clone(),
        ..*one
    }
}
