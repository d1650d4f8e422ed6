//! The random program of one seed for several cores: who does what where, and what arrives when.

use queen::model::{
    Ack, AckItem, Command, Configure, GroupName, ListQueues, MessageId, PartitionName, Policy,
    Push, QueueName, QueueOptions, TenantId, Verdict, WindowBuffer,
};

use crate::mesh::MeshRules;
use crate::mesh_ledger::{GROUPS, Place};
use crate::mesh_world::{Held, Judged, Kind, PopAsked, World};
use crate::random::Random;

/// Names of queues, some of which a run uses: by their names they live on different cores.
const QUEUES: [&str; 12] = [
    "orders", "reply/1", "odd name", "presence", "q:4", "five", "6", "seven", "a/b", "ninth", "x",
    "last",
];

/// Partitions of a run.
pub(crate) const PARTITIONS: [&str; 6] = ["Default", "a", "b:c", "zone 9", "d", "e"];

/// Steps of one run.
const STEPS: u64 = 400;

/// Steps between two looks at everything inside the shards.
const CHECK_EVERY: u64 = 8;

type Checked = Result<(), String>;

#[derive(Clone, Copy, Debug)]
enum Action {
    Push,
    Pop,
    Ack,
    Configure,
    Reset,
    Delete,
    Depth,
    List,
    Vanish,
    HalfClose,
    Pause,
    Receive,
    Tick,
    Sleep,
    Stall,
    Jump,
    Rest,
    Windows,
}

const WEIGHTS: [(Action, u64); 18] = [
    (Action::Push, 200),
    (Action::Pop, 260),
    (Action::Ack, 140),
    (Action::Configure, 14),
    (Action::Reset, 8),
    (Action::Delete, 8),
    (Action::Depth, 20),
    (Action::List, 4),
    (Action::Vanish, 30),
    (Action::HalfClose, 15),
    (Action::Pause, 3),
    (Action::Receive, 600),
    (Action::Tick, 60),
    (Action::Sleep, 60),
    (Action::Stall, 4),
    (Action::Jump, 12),
    (Action::Rest, 12),
    (Action::Windows, 20),
];

/// One seed's program.
#[derive(Debug)]
pub(crate) struct MeshProgram {
    random: Random,
    pub(crate) world: World,
    weights: Vec<(Action, u64)>,
    held: Vec<Held>,
    tenants: Vec<TenantId>,
    queues: &'static [&'static str],
    partitions: usize,
    groups: usize,
    undelivered_percent: u64,
    waiting_percent: u64,
    window_percent: u64,
    named_percent: u64,
    long_leases: bool,
    bounded: bool,
}

fn rules(random: &mut Random) -> MeshRules {
    MeshRules {
        cores: *random.pick(&[2, 2, 2, 3, 4, 4, 1]),
        request_slots: *random.pick(&[1, 2, 3, 8, 64, 64]),
        reply_slots: *random.pick(&[1, 2, 8, 64]),
        sleeps: random.chance(60),
        lag_us: *random.pick(&[0, 0, 1, 700]),
        incarnation: random.below(u64::MAX),
        broker_bytes: *random.pick(&[300, 2_000, 1 << 24, 1 << 24]),
        queue_bytes: *random.pick(&[150, 1 << 20, 1 << 20]),
        queue_length: *random.pick(&[5, 20, 10_000, 10_000]),
        lease_ms: *random.pick(&[100, 2_000, 30_000]),
        retry_limit: random.between(1, 5) as u32,
        ttl_tick_ms: *random.pick(&[1, 100]),
        linger_ms: *random.pick(&[0, 1_000, 60_000]),
        idle_ms: *random.pick(&[0, 0, 0, 1_500, 10_000]),
    }
}

impl MeshProgram {
    /// The program of `seed`.
    pub(crate) fn new(seed: u64, trace: bool) -> MeshProgram {
        let mut random = Random::new(seed);
        let style = random.below(8);
        let mut rules = rules(&mut random);
        if style == 3 {
            // So that nothing comes back while windows are watched.
            rules.lease_ms = 30_000;
            rules.cores = rules.cores.max(3);
        }
        let tenants = (1..=random.between(1, 2))
            .map(|number| {
                let text = format!("00000000-0000-0000-0000-{number:012}");
                TenantId::parse(&text).expect("a UUID")
            })
            .collect();
        let mut weights: Vec<(Action, u64)> = WEIGHTS
            .iter()
            .map(|&(action, weight)| (action, weight * *random.pick(&[1, 2, 2, 2, 4, 8]) / 2))
            .collect();
        let (deletes, resets) = (random.chance(50), random.chance(50));
        let configures = random.chance(60);
        for (action, weight) in &mut weights {
            let off = match action {
                Action::Delete => !deletes,
                Action::Reset => !resets,
                Action::Configure => !configures,
                _ => false,
            };
            if off {
                *weight = 0;
            }
        }
        let mut program = MeshProgram {
            world: World::new(rules, trace),
            weights,
            held: Vec::new(),
            tenants,
            queues: {
                let first = random.below(QUEUES.len() as u64 - 2) as usize;
                &QUEUES[first..first + random.between(1, 3) as usize]
            },
            partitions: random.between(1, PARTITIONS.len() as u64) as usize,
            groups: *random.pick(&[1, 1, 2, 3]),
            undelivered_percent: *random.pick(&[0, 10, 40]),
            waiting_percent: *random.pick(&[20, 60, 90]),
            window_percent: *random.pick(&[0, 0, 0, 50, 90]),
            named_percent: 40,
            long_leases: random.chance(50),
            bounded: false,
            random,
        };
        match style {
            0 => program.press(),
            1 => program.travel(),
            2 => program.churn(),
            3 => program.gather(),
            _ => {}
        }
        program
    }

    fn weigh(&mut self, by: impl Fn(Action) -> (u64, u64)) {
        for (action, weight) in &mut self.weights {
            let (times, of) = by(*action);
            *weight = *weight * times / of;
        }
    }

    /// One small queue on all cores, into which many push.
    fn press(&mut self) {
        self.bounded = true;
        self.queues = &self.queues[..1];
        self.partitions = PARTITIONS.len();
        self.weigh(|action| match action {
            Action::Push => (4, 1),
            Action::Configure => (2, 1),
            Action::Pop => (1, 2),
            _ => (1, 1),
        });
    }

    /// Many wait for anything of one queue, on whatever core it is.
    fn travel(&mut self) {
        self.named_percent = 5;
        self.waiting_percent = 95;
        self.queues = &self.queues[..1];
        self.partitions = PARTITIONS.len();
        self.groups = self.groups.min(2);
        self.weigh(|action| match action {
            Action::Pop => (3, 2),
            Action::Jump => (1, 4),
            _ => (1, 1),
        });
    }

    /// Windows of one queue gather what lies on all cores.
    fn gather(&mut self) {
        self.travel();
        self.window_percent = 100;
        self.long_leases = true;
        self.bounded = true;
        self.groups = 1;
        self.weigh(|action| match action {
            Action::Windows => (4, 1),
            Action::Jump | Action::Pause | Action::Stall | Action::Delete => (0, 1),
            _ => (1, 1),
        });
    }

    /// Queues come and go.
    fn churn(&mut self) {
        self.queues = &self.queues[..1];
        self.weigh(|action| match action {
            Action::Delete | Action::Reset => (8, 1),
            Action::Jump => (2, 1),
            _ => (1, 1),
        });
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// What the broker did that it must not, and at which step.
    pub(crate) fn run(&mut self) -> Checked {
        if self.world.trace {
            eprintln!("{:?}", self.world.mesh.rules);
        }
        if self.random.chance(60) {
            self.begin()?;
        }
        for step in 0..STEPS {
            self.step()
                .map_err(|fault| format!("step {step}: {fault}"))?;
            if step % CHECK_EVERY == 0 {
                for core in &self.world.mesh.cores {
                    core.shard().check();
                }
            }
        }
        self.world
            .finish()
            .map_err(|fault| format!("end: {fault}"))?;
        self.world.end((self.tenants[0], self.queues[0]))
    }

    /// Every queue is declared and knows its groups before anything is pushed.
    fn begin(&mut self) -> Checked {
        for tenant in self.tenants.clone() {
            for queue in self.queues {
                if self.bounded || self.random.chance(50) {
                    self.configure((tenant, queue))?;
                }
                for group in 0..self.groups {
                    let asked = PopAsked {
                        partition: None,
                        group,
                        batch: 1,
                        wait_ms: None,
                        auto_ack: false,
                    };
                    self.world.settle_lanes()?;
                    self.world.pop(0, (tenant, queue), asked)?;
                }
            }
        }
        self.world.settle_lanes()
    }

    fn step(&mut self) -> Checked {
        self.settle_in_flight()?;
        let sum = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.below(sum);
        let mut chosen = Action::Receive;
        for &(action, weight) in &self.weights {
            if drawn < weight {
                chosen = action;
                break;
            }
            drawn -= weight;
        }
        self.act(chosen)
    }

    /// Most answers arrive at once, some come back, some stay on their way.
    fn settle_in_flight(&mut self) -> Checked {
        let mut at = 0;
        while at < self.world.in_flight.len() {
            if self.random.chance(self.undelivered_percent) {
                if self.random.chance(50) && !self.world.mesh.is_stalled(self.core_of(at)) {
                    self.world.give_back(at)?;
                } else {
                    at += 1;
                }
            } else {
                let held = self.world.deliver(at);
                self.held.extend(held);
            }
        }
        let excess = self.held.len().saturating_sub(40);
        self.held.drain(..excess);
        Ok(())
    }

    fn core_of(&self, at: usize) -> usize {
        self.world.in_flight[at].core
    }

    /// A core that has turns; `None`: this one has none.
    fn core(&mut self) -> Option<usize> {
        let core = self.random.below(self.world.mesh.len() as u64) as usize;
        (!self.world.mesh.is_stalled(core)).then_some(core)
    }

    fn act(&mut self, action: Action) -> Checked {
        let tenant = *self.random.skewed(&self.tenants);
        let &queue = self.random.skewed(self.queues);
        let paused = self.world.mesh.directory.paused();
        match action {
            Action::Receive => self.receive(),
            Action::Tick => match self.core() {
                Some(core) => self.world.tick(core),
                None => Ok(()),
            },
            Action::Sleep => {
                let ms = *self.random.skewed(&[1, 5, 30, 200]);
                self.sleep(ms)
            }
            Action::Jump => {
                let idle_ms = self.world.mesh.rules.idle_ms;
                let ms = *self.random.pick(&[300, 1_000, 4_000, idle_ms + 1]);
                self.sleep(ms)
            }
            Action::Stall => {
                if let Some(core) = self.core() {
                    self.world.reach("a core that stalls");
                    self.world.mesh.stall(core, 1_000);
                }
                Ok(())
            }
            Action::Rest => self.world.check_rest(false),
            Action::Windows => self.world.check_windows(),
            Action::Vanish | Action::HalfClose => self.leave(action),
            Action::Pause => self.pause(),
            _ if paused => {
                if self.random.chance(50) {
                    self.world.mesh.directory.set_paused(false);
                }
                Ok(())
            }
            Action::Push => self.push((tenant, queue)),
            Action::Pop => self.pop((tenant, queue)),
            Action::Ack => self.ack(),
            Action::Configure => self.configure((tenant, queue)),
            Action::Reset | Action::Delete | Action::Depth | Action::List => {
                self.whole(action, (tenant, queue))
            }
        }
    }

    fn pause(&mut self) -> Checked {
        match self.core() {
            Some(core) => self.world.pause(core),
            None => Ok(()),
        }
    }

    /// Some frames of one sender, or of all, arrive at one core.
    fn receive(&mut self) -> Checked {
        let Some(core) = self.core() else {
            return Ok(());
        };
        let from = self.random.below(self.world.mesh.len() as u64) as usize;
        for _ in 0..self.random.between(1, 4) {
            if !self.world.receive(core, from)? {
                break;
            }
        }
        if self.random.chance(30) && self.world.mesh.rules.sleeps {
            self.world.mesh.end_turn(core);
            self.world.mesh.try_sleep(core);
        }
        Ok(())
    }

    /// Time passes; what is due then is done in time, or left to the next turn of its core.
    fn sleep(&mut self, ms: u64) -> Checked {
        if self.random.chance(40) {
            self.world.mesh.now = self.world.mesh.now.after_ms(ms);
            return Ok(());
        }
        self.world.sleep_ms(ms)
    }

    fn leave(&mut self, action: Action) -> Checked {
        let clients: Vec<_> = self
            .world
            .open
            .iter()
            .filter(|(_, asked)| !self.world.mesh.is_stalled(asked.core))
            .map(|(client, asked)| (*client, matches!(asked.kind, Kind::Pop(_))))
            .collect();
        if clients.is_empty() {
            return Ok(());
        }
        let &(client, is_pop) = self.random.pick(&clients);
        if matches!(action, Action::HalfClose) && is_pop {
            self.world.half_close(client)
        } else {
            self.world.vanish(client)
        }
    }

    fn partition(&mut self) -> &'static str {
        let name: &&str = self.random.skewed(&PARTITIONS[..self.partitions]);
        name
    }

    fn group(&mut self) -> usize {
        // The last group is named late in a run, if at all.
        if self.world.step() > 400 && self.random.chance(3) {
            return GROUPS.len() - 1;
        }
        self.random.below(self.groups as u64) as usize
    }

    fn push(&mut self, (tenant, queue): (TenantId, &'static str)) -> Checked {
        let partition = self.partition();
        let Some(core) = self.core() else {
            return Ok(());
        };
        let count: usize = *self.random.skewed(&[1, 2, 3, 5]);
        let widths: Vec<usize> = (0..count)
            .map(|_| self.random.between(6, 30) as usize)
            .collect();
        let place = Place {
            tenant,
            queue,
            partition,
        };
        let step = self.world.step() + 1;
        let (push, payloads) = self.world.ledger.push((place, core), step, &widths);
        let command = Command::Push(Push {
            queue: QueueName::new(queue).expect("a name"),
            partition: PartitionName::new(partition).expect("a name"),
            payloads,
        });
        self.world
            .ask(core, (tenant, queue), Kind::Push(push), command)?;
        Ok(())
    }

    fn pop(&mut self, name: (TenantId, &'static str)) -> Checked {
        let asked = PopAsked {
            partition: self
                .random
                .chance(self.named_percent)
                .then(|| self.partition()),
            group: self.group(),
            batch: *self.random.skewed(&[1, 2, 4, 10]),
            wait_ms: self
                .random
                .chance(self.waiting_percent)
                .then(|| *self.random.pick(&[0, 30, 500, 4_000, 60_000])),
            auto_ack: self.random.chance(35),
        };
        match self.core() {
            Some(core) => self.world.pop(core, name, asked),
            None => Ok(()),
        }
    }

    fn ack(&mut self) -> Checked {
        let Some(core) = self.core().filter(|_| !self.held.is_empty()) else {
            return Ok(());
        };
        let first = *self.random.pick(&self.held);
        let same = |one: &&Held| {
            (one.tenant, one.queue, one.group) == (first.tenant, first.queue, first.group)
        };
        let mut chosen: Vec<Held> = self.held.iter().filter(same).copied().collect();
        chosen.truncate(self.random.between(1, 5) as usize);
        let mut acks = Vec::new();
        for one in chosen {
            let verdict = if self.random.chance(65) {
                Verdict::Completed
            } else {
                Verdict::Retry
            };
            acks.push(match self.random.below(40) {
                0 => Judged::Foreign,
                1 => Judged::Garbage,
                _ => Judged::Message(one.message, verdict),
            });
        }
        let group = if self.random.chance(4) {
            self.group()
        } else {
            first.group
        };
        let items = acks.iter().map(|judged| self.item(*judged)).collect();
        let command = Command::Ack(Ack {
            queue: QueueName::new(first.queue).expect("a name"),
            group: GroupName::new(GROUPS[group]).expect("a name"),
            acks: items,
        });
        let kind = Kind::Ack { group, acks };
        self.world
            .ask(core, (first.tenant, first.queue), kind, command)?;
        Ok(())
    }

    fn item(&self, judged: Judged) -> AckItem<'static> {
        let incarnation = queen::model::Incarnation(self.world.mesh.rules.incarnation);
        let (id, verdict) = match judged {
            Judged::Garbage => ("e:zz:not:an:id".to_owned(), Verdict::Completed),
            Judged::Foreign => (
                format!("e:{:x}:Default:1", incarnation.0 ^ 1),
                Verdict::Retry,
            ),
            Judged::Message(message, verdict) => {
                let partition = self.world.place_of(message).partition;
                let (_, sequence) = self.world.ledger.messages[message].id.expect("delivered");
                let id = MessageId {
                    incarnation,
                    partition,
                    sequence,
                };
                (id.to_string(), verdict)
            }
        };
        AckItem {
            id: id.into(),
            verdict,
        }
    }

    fn configure(&mut self, (tenant, queue): (TenantId, &'static str)) -> Checked {
        let options = self.options();
        let Some(core) = self.core() else {
            return Ok(());
        };
        let effective = self.world.mesh.directory.bounds().effective(&options);
        let named = self.world.named(tenant, queue);
        named.length_max = named.length_max.max(effective.max_length);
        named.lease_ms = named.lease_ms.min(effective.lease_ms);
        named.expires |= effective.ttl_ms.is_some();
        named.evicts |= effective.policy == Policy::DropOldest;
        let command = Command::Configure(Configure {
            queue: QueueName::new(queue).expect("a name"),
            options,
            options_as_sent: "{}".into(),
            stored: false,
        });
        self.world
            .ask(core, (tenant, queue), Kind::Configure(effective), command)?;
        Ok(())
    }

    fn whole(&mut self, action: Action, (tenant, queue): (TenantId, &'static str)) -> Checked {
        let Some(core) = self.core() else {
            return Ok(());
        };
        let name = QueueName::new(queue).expect("a name");
        let (kind, command) = match action {
            Action::Reset => (Kind::Reset, Command::Reset(name)),
            Action::Delete => (Kind::Delete, Command::Delete(name)),
            Action::Depth => {
                let group = GroupName::new(GROUPS[self.group()]).expect("a name");
                let group = self.random.chance(60).then_some(group);
                (Kind::Depth, Command::Depth { queue: name, group })
            }
            _ => {
                let list = ListQueues {
                    after: None,
                    prefix: "".into(),
                    limit: 2,
                };
                (Kind::Queues, Command::Queues(list))
            }
        };
        if matches!(action, Action::Delete) {
            let with_pops = self.world.mesh.cores.iter();
            if with_pops.filter(|core| core.parked() > 0).count() > 1 {
                self.world
                    .reach("a delete with pops parked on several cores");
            }
        }
        self.world.ask(core, (tenant, queue), kind, command)?;
        Ok(())
    }

    fn options(&mut self) -> QueueOptions {
        let (long_leases, bounded) = (self.long_leases, self.bounded);
        let random = &mut self.random;
        let window_buffer = if random.chance(self.window_percent) {
            WindowBuffer {
                ms: *random.pick(&[0, 20, 300]),
                count: *random.pick(&[0, 2, 3]),
            }
        } else {
            WindowBuffer::default()
        };
        QueueOptions {
            max_bytes: random.chance(30).then(|| random.between(0, 200)),
            max_length: random
                .chance(if bounded { 100 } else { 50 })
                .then(|| random.between(u64::from(bounded), 12)),
            policy: if random.chance(if bounded { 90 } else { 50 }) {
                Policy::DropOldest
            } else {
                Policy::Reject
            },
            ttl_ms: random.chance(30).then(|| random.below(40) * 50),
            lease_ms: (!long_leases && random.chance(60)).then(|| random.below(900)),
            retry_limit: random.chance(60).then(|| random.below(4)),
            window_buffer,
        }
    }
}
