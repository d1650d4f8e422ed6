//! The random program of one seed: who does what, with which rules and how often.

use bytes::Bytes;
use queen::model::{Policy, QUEUE_MODE_GROUP, QueueOptions, TenantId, Verdict, WindowBuffer};

use crate::model::Rules;
use crate::random::Random;
use crate::settlement::AckTarget;
use crate::simulation::{Held, PopAsked, Simulation};

const QUEUES: [&str; 4] = ["orders", "reply/1", "presence", "odd name"];
const PARTITIONS: [&str; 4] = ["Default", "a", "b:c", "zone 9"];
const GROUPS: [&str; 4] = [QUEUE_MODE_GROUP, "widget", "audit", "late"];

/// Steps of one run.
const STEPS: u64 = 600;

/// Steps between two looks at everything inside the shard.
const CHECK_EVERY: u64 = 8;

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
    GiveBack,
    Pause,
    Jump,
}

/// How often each action is chosen; a run draws some of them up or down.
const WEIGHTS: [(Action, u64); 12] = [
    (Action::Push, 300),
    (Action::Pop, 400),
    (Action::Ack, 220),
    (Action::Configure, 30),
    (Action::Reset, 10),
    (Action::Delete, 10),
    (Action::Depth, 60),
    (Action::List, 20),
    (Action::Vanish, 40),
    (Action::GiveBack, 80),
    (Action::Pause, 6),
    (Action::Jump, 40),
];

/// One seed's program.
#[derive(Debug)]
pub(crate) struct Program {
    random: Random,
    simulation: Simulation,
    weights: Vec<(Action, u64)>,
    held: Vec<Held>,
    payloads: u64,
    queues: usize,
    partitions: usize,
    groups: usize,
    late_percent: u64,
    undelivered_percent: u64,
    waiting_percent: u64,
    windows: bool,
}

fn rules(random: &mut Random) -> Rules {
    Rules {
        incarnation: random.below(u64::MAX),
        broker_bytes: *random.pick(&[200, 1_000, 20_000, 1 << 24]),
        queue_bytes: *random.pick(&[80, 400, 1 << 20]),
        queue_length: *random.pick(&[4, 12, 10_000]),
        lease_ms: *random.pick(&[50, 400, 3_000, 30_000]),
        retry_limit: random.between(1, 5) as u32,
        ttl_tick_ms: *random.pick(&[1, 100]),
        linger_ms: *random.pick(&[0, 1_000, 5_000, 60_000]),
        idle_ms: *random.pick(&[0, 1_500, 10_000, 300_000]),
    }
}

impl Program {
    /// The program of `seed`.
    pub(crate) fn new(seed: u64, trace: bool) -> Program {
        let mut random = Random::new(seed);
        let rules = rules(&mut random);
        let tenants = (1..=random.between(1, 3))
            .map(|number| {
                let text = format!("00000000-0000-0000-0000-{number:012}");
                TenantId::parse(&text).expect("a UUID")
            })
            .collect();
        let weights = WEIGHTS
            .iter()
            .map(|&(action, weight)| (action, weight * *random.pick(&[1, 2, 2, 2, 4, 8]) / 2))
            .collect();
        let mut simulation = Simulation::new(rules, tenants);
        simulation.trace = trace;
        Program {
            weights,
            held: Vec::new(),
            payloads: 0,
            queues: random.between(1, QUEUES.len() as u64) as usize,
            partitions: random.between(1, PARTITIONS.len() as u64) as usize,
            groups: random.between(1, GROUPS.len() as u64) as usize,
            late_percent: *random.pick(&[0, 0, 10]),
            undelivered_percent: *random.pick(&[0, 10, 40]),
            waiting_percent: *random.pick(&[20, 60, 90]),
            windows: random.chance(30),
            random,
            simulation,
        }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// What the broker did that the model does not allow.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        if self.simulation.trace {
            eprintln!("{:?}", self.simulation.rules);
        }
        for step in 0..STEPS {
            self.step()
                .map_err(|fault| format!("step {step}: {fault}"))?;
            if step % CHECK_EVERY == 0 {
                self.simulation.check_inside();
            }
        }
        self.finish()
    }

    /// When everything is deleted, nothing is left.
    fn finish(&mut self) -> Result<(), String> {
        self.simulation.release_parked(true)?;
        for tenant in self.simulation.tenants.clone() {
            for queue in QUEUES {
                self.simulation.delete(tenant, queue)?;
            }
        }
        assert!(self.simulation.model.queues.is_empty());
        while !self.simulation.in_flight.is_empty() {
            self.simulation.give_back(0)?;
        }
        self.simulation.check_inside();
        self.simulation.check()
    }

    fn step(&mut self) -> Result<(), String> {
        let late = self.random.chance(self.late_percent);
        let grid_ms = self.simulation.rules.ttl_tick_ms;
        let ticks = match self.random.below(10) {
            0..7 => 1,
            7 | 8 => self.random.between(2, 30),
            _ => self.random.between(1, 600 / grid_ms.min(20)),
        };
        self.sleep(ticks * grid_ms, late)?;
        self.settle_in_flight()?;
        let sum = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.below(sum);
        let mut chosen = Action::Jump;
        for &(action, weight) in &self.weights {
            if drawn < weight {
                chosen = action;
                break;
            }
            drawn -= weight;
        }
        self.act(chosen)
    }

    /// Sleeps to a moment on the grid of the ticks.
    fn sleep(&mut self, ms: u64, late: bool) -> Result<(), String> {
        let grid_us = self.simulation.rules.ttl_tick_ms * 1_000;
        let target = (self.simulation.now.as_us() + ms * 1_000) / grid_us * grid_us;
        self.simulation
            .sleep(target - self.simulation.now.as_us(), late)
    }

    /// Most answers arrive at once, some come back, some stay on their way.
    fn settle_in_flight(&mut self) -> Result<(), String> {
        let mut at = 0;
        while at < self.simulation.in_flight.len() {
            if self.random.chance(self.undelivered_percent) {
                if self.random.chance(50) {
                    self.simulation.give_back(at)?;
                } else {
                    at += 1;
                }
            } else {
                self.held.extend(self.simulation.deliver(at));
            }
        }
        let excess = self.held.len().saturating_sub(40);
        self.held.drain(..excess);
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        let tenant = *self.random.skewed(&self.simulation.tenants);
        let queue = *self.random.skewed(&QUEUES[..self.queues]);
        match action {
            Action::Push => self.push(tenant, queue),
            Action::Pop => self.pop(tenant, queue),
            Action::Ack => self.ack(),
            Action::Configure => {
                let options = self.options();
                self.simulation.configure(tenant, queue, options)
            }
            Action::Reset => self.simulation.reset(tenant, queue),
            Action::Delete => self.simulation.delete(tenant, queue),
            Action::Depth => {
                let group = *self.random.pick(&GROUPS);
                let group = self.random.chance(60).then_some(group);
                self.simulation.depth(tenant, queue, group)
            }
            Action::List => {
                let after = self.random.chance(30).then_some("p");
                let prefix = *self.random.pick(&["", "", "o", "pres"]);
                let limit = self.random.between(1, 5) as u32;
                self.simulation.list(tenant, (after, prefix, limit))
            }
            Action::Vanish => {
                let clients: Vec<_> = self.simulation.model.waiters.iter().collect();
                if clients.is_empty() {
                    return Ok(());
                }
                let client = self.random.pick(&clients).client;
                self.simulation.vanish(client)
            }
            Action::GiveBack => {
                let on_their_way = self.simulation.in_flight.len() as u64;
                if on_their_way == 0 {
                    return Ok(());
                }
                let at = self.random.below(on_their_way) as usize;
                self.simulation.give_back(at)
            }
            Action::Pause => self.simulation.release_parked(false),
            Action::Jump => {
                let idle_ms = self.simulation.rules.idle_ms;
                let ms = *self
                    .random
                    .pick(&[1_000, 2_000, 12_000, 70_000, idle_ms * 2 + 1_000]);
                let late = self.random.chance(self.late_percent);
                self.sleep(ms, late)
            }
        }
    }

    fn partition(&mut self) -> &'static str {
        let name: &&str = self.random.skewed(&PARTITIONS[..self.partitions]);
        name
    }

    fn group(&mut self) -> &'static str {
        // The last group is named late in a run, if at all.
        let late = self.simulation.now.as_us() > 4_000_000 && self.random.chance(5);
        if late {
            return GROUPS[3];
        }
        let name: &&str = self.random.skewed(&GROUPS[..self.groups]);
        name
    }

    fn push(&mut self, tenant: TenantId, queue: &str) -> Result<(), String> {
        let partition = self.partition();
        let count = *self.random.skewed(&[1, 2, 3, 0, 5, 8]);
        let payloads: Vec<Bytes> = (0..count)
            .map(|_| {
                self.payloads += 1;
                let width = self.random.between(4, 30) as usize;
                Bytes::from(format!("{:<width$}", self.payloads))
            })
            .collect();
        self.simulation.push(tenant, (queue, partition), &payloads)
    }

    fn pop(&mut self, tenant: TenantId, queue: &str) -> Result<(), String> {
        let asked = PopAsked {
            tenant,
            queue: queue.to_owned(),
            partition: self.random.chance(50).then(|| self.partition().to_owned()),
            group: self.group().to_owned(),
            batch: *self.random.skewed(&[1, 2, 4, 10]),
            wait_ms: self
                .random
                .chance(self.waiting_percent)
                .then(|| *self.random.pick(&[0, 30, 500, 4_000, 60_000])),
            auto_ack: self.random.chance(35),
        };
        self.simulation.pop(&asked)
    }

    fn ack(&mut self) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        let first = self.random.pick(&self.held).clone();
        let same: Vec<Held> = self
            .held
            .iter()
            .filter(|one| {
                (one.tenant, &one.queue, &one.group) == (first.tenant, &first.queue, &first.group)
            })
            .cloned()
            .collect();
        let mut acks = Vec::new();
        for number in 0..self.random.between(1, 4) {
            let one = if number == 0 {
                first.clone()
            } else {
                self.random.pick(&same).clone()
            };
            let target = match self.random.below(30) {
                0 => AckTarget::Garbage,
                1 => AckTarget::Foreign,
                2 => AckTarget::Ours {
                    partition: self.partition().to_owned(),
                    sequence: one.sequence,
                },
                _ => AckTarget::Ours {
                    partition: one.partition,
                    sequence: one.sequence,
                },
            };
            let verdict = if self.random.chance(60) {
                Verdict::Completed
            } else {
                Verdict::Retry
            };
            acks.push((target, verdict));
        }
        let group = if self.random.chance(5) {
            self.group()
        } else {
            &first.group
        };
        self.simulation
            .ack((first.tenant, &first.queue, group), &acks)
    }

    fn options(&mut self) -> QueueOptions {
        let grid_ms = self.simulation.rules.ttl_tick_ms;
        let random = &mut self.random;
        let window_buffer = if self.windows && random.chance(60) {
            WindowBuffer {
                ms: *random.pick(&[0, 20, 300]),
                count: *random.pick(&[0, 2, 3]),
            }
        } else {
            WindowBuffer::default()
        };
        QueueOptions {
            max_bytes: random.chance(30).then(|| random.between(0, 200)),
            max_length: random.chance(50).then(|| random.between(0, 12)),
            policy: if random.chance(50) {
                Policy::DropOldest
            } else {
                Policy::Reject
            },
            ttl_ms: random.chance(50).then(|| random.below(40) * grid_ms),
            lease_ms: random.chance(60).then(|| random.below(900)),
            retry_limit: random.chance(60).then(|| random.below(4)),
            window_buffer,
        }
    }
}
