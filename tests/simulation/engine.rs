//! Shard cores and what the engine sends them: whatever the order in which frames arrive, each queue
//! ends up as the last transaction has left it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use queen::channel::{Answer, Forwarded, Frame, Port, mesh};
use queen::core_loop::{EngineLine, Outcome, ShardCore};
use queen::directory::{Bounds, Directory};
use queen::engine::Status;
use queen::limits::ENGINE_JOBS_MAX;
use queen::model::{
    Change, ClientRef, Command, Configure, DEFAULT_PARTITION, Incarnation, Job, Moment,
    PartitionName, Push, QueueName, QueueOptions, Reply, TenantId, Tier,
};
use queen::placement;
use queen::shard::{Shard, ShardSettings};

use crate::random::Random;

const SHARDS: u16 = 3;
const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
const TENANT: TenantId = TenantId::DEFAULT;
const SEEDS: u64 = 300;
const STEPS: usize = 400;

/// Cores, and an engine that stores whatever it is asked to.
struct Rig {
    cores: Vec<ShardCore>,
    engine: Port,
    inbox: Receiver<Job>,
    directory: Arc<Directory>,
    /// The options of what is declared, by queue.
    stored: BTreeMap<String, u64>,
    requests: u64,
    answers: u64,
}

impl Rig {
    fn new() -> Rig {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: 1 << 20,
            queue_bytes: 1 << 20,
            queue_length: 1 << 20,
            lease_ms: 30_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 10,
            shards: SHARDS,
        }));
        let status = Arc::new(Status::starting());
        status.connected();
        let (sender, inbox) = crossbeam_channel::bounded(ENGINE_JOBS_MAX);
        let line = EngineLine::new(sender, status);
        // Small lanes, so that frames wait as well.
        let mut ports = mesh(SHARDS + 1, 4, 4);
        let engine = ports.pop().expect("the engine's");
        let core = |port: Port| {
            let settings = ShardSettings {
                incarnation: Incarnation(7),
                shard: port.core(),
                shards: SHARDS,
                ttl_tick_ms: 100,
                linger_ms: 0,
                implicit_idle_ms: 0,
            };
            let shard = Shard::new(settings, Arc::clone(&directory));
            ShardCore::new(port, shard, Arc::clone(&directory)).with_engine(line.clone())
        };
        Rig {
            cores: ports.into_iter().map(core).collect(),
            engine,
            inbox,
            directory,
            stored: BTreeMap::new(),
            requests: 0,
            answers: 0,
        }
    }

    fn ask(&mut self, core: usize, command: Command<'_>) {
        self.requests += 1;
        let client = ClientRef {
            core: core as u16,
            connection: 1,
            request: self.requests,
            generation: 1,
        };
        let outcome = self.cores[core].command(Moment::ZERO, client, TENANT, command);
        self.answers += u64::from(matches!(outcome, Outcome::Answered { .. }));
        self.drain(core);
    }

    fn drain(&mut self, core: usize) {
        while self.cores[core].next_answer().is_some() {
            self.answers += 1;
        }
        let _ = self.cores[core].end_turn();
    }

    /// One frame to `core` from `from`, if there is one.
    fn deliver(&mut self, core: usize, from: u16) -> bool {
        if usize::from(from) == core {
            return false;
        }
        let Some(frame) = self.cores[core].port_mut().receive_from(from) else {
            return false;
        };
        self.cores[core].receive(Moment::ZERO, from, frame);
        self.drain(core);
        true
    }

    /// The engine stores the next change and sends it on; false when nothing waits.
    fn store_one(&mut self) -> bool {
        self.engine.flush();
        let _ = self.engine.take_rings();
        let Ok(job) = self.inbox.try_recv() else {
            return false;
        };
        let command = match job.change {
            Change::Declare(configure) => {
                let length = configure.options.max_length.expect("given");
                self.stored
                    .insert(configure.queue.as_str().to_owned(), length);
                Command::Configure(Configure {
                    stored: true,
                    ..configure
                })
            }
            Change::Remove(queue) => {
                self.stored.remove(queue.as_str());
                Command::Delete(queue)
            }
            Change::Switch { enabled } => {
                self.directory.set_paused(!enabled);
                let answer = Box::new(Answer {
                    client: job.client,
                    reply: Reply::Switched {
                        enabled,
                        mirrored: true,
                    },
                });
                self.engine.reply(job.client.core, Frame::Reply(answer));
                return true;
            }
            Change::Durable(_) => unreachable!("the simulation has no durable class"),
        };
        self.send_home(job.client, command);
        true
    }

    fn send_home(&mut self, client: ClientRef, command: Command<'static>) {
        let queue = match &command {
            Command::Configure(configure) => &configure.queue,
            Command::Delete(queue) => queue,
            other => panic!("{other:?}"),
        };
        let home = placement::owner(TENANT, queue.as_str(), DEFAULT_PARTITION, SHARDS);
        let forwarded = Forwarded {
            client,
            tenant: TENANT,
            command,
        };
        self.engine.send(home, Frame::Request(Box::new(forwarded)));
        let _ = self.engine.take_rings();
    }

    fn settle(&mut self) {
        for _ in 0..STEPS {
            let mut moved = self.store_one();
            for core in 0..self.cores.len() {
                // What waits at a core leaves at the end of its turns.
                self.drain(core);
                for from in 0..=SHARDS {
                    moved |= self.deliver(core, from);
                }
            }
            let waiting: usize = self.cores.iter().map(|core| core.port().waiting()).sum();
            if !moved && waiting == 0 && self.engine.waiting() == 0 {
                return;
            }
        }
        panic!("it does not come to rest");
    }
}

fn configure(queue: &'static str, length: u64) -> Command<'static> {
    Command::Configure(Configure {
        queue: QueueName::new(queue).expect("a name"),
        options: QueueOptions {
            max_length: Some(length),
            ..QueueOptions::default()
        },
        options_as_sent: format!("{{\"maxLength\":{length}}}").into(),
        stored: false,
    })
}

fn push(queue: &'static str, partition: &'static str) -> Command<'static> {
    Command::Push(Push {
        queue: QueueName::new(queue).expect("a name"),
        partition: PartitionName::new(partition).expect("a name"),
        payloads: vec![bytes::Bytes::from_static(b"1")],
    })
}

fn step(rig: &mut Rig, random: &mut Random) {
    let core = random.below(u64::from(SHARDS)) as usize;
    let queue = QUEUES[random.below(QUEUES.len() as u64) as usize];
    match random.below(10) {
        0 => {
            let length = 1 + random.below(100);
            rig.ask(core, configure(queue, length));
        }
        1 => rig.ask(
            core,
            Command::Delete(QueueName::new(queue).expect("a name")),
        ),
        2 => {
            let partition = ["Default", "p", "q", "r"][random.below(4) as usize];
            rig.ask(core, push(queue, partition));
        }
        3 => {
            rig.store_one();
        }
        // Another broker has changed something: nobody is answered.
        4 => {
            let length = 1 + random.below(100);
            rig.stored.insert(queue.to_owned(), length);
            let Command::Configure(configure) = configure(queue, length) else {
                unreachable!("a configure")
            };
            let stored = true;
            let command = Command::Configure(Configure {
                stored,
                ..configure
            });
            rig.send_home(ClientRef::NOBODY, command);
        }
        _ => {
            let from = random.below(u64::from(SHARDS) + 1) as u16;
            rig.deliver(core, from);
        }
    }
}

/// Runs one seed: every request is answered once, and what is declared is what was stored last.
fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut rig = Rig::new();
    for _ in 0..STEPS {
        step(&mut rig, &mut random);
    }
    rig.settle();
    assert_eq!(rig.answers, rig.requests, "seed {seed}: answers");
    for queue in QUEUES {
        let cell = rig.directory.peek(TENANT, queue);
        let declared = cell.and_then(|cell| {
            let configuration = cell.configuration();
            (configuration.tier == Tier::Declared).then_some(configuration.effective.max_length)
        });
        assert_eq!(
            declared,
            rig.stored.get(queue).copied(),
            "seed {seed}: {queue}"
        );
    }
    for core in &rig.cores {
        core.shard().check();
    }
}

#[test]
fn a_queue_ends_up_as_the_last_transaction_has_left_it() {
    (0..SEEDS).for_each(run);
}

#[test]
fn declaring_costs_three_hops_and_removing_too() {
    for command in [
        configure("a", 7),
        Command::Delete(QueueName::new("a").expect("a name")),
    ] {
        let mut rig = Rig::new();
        let home = placement::owner(TENANT, "a", DEFAULT_PARTITION, SHARDS);
        let client = usize::from((home + 1) % SHARDS);
        rig.ask(client, configure("a", 1));
        rig.settle();
        let sent = |rig: &Rig| {
            let cores = rig.cores.iter().map(|core| core.port().sent());
            rig.engine.sent() + cores.sum::<u64>()
        };
        let before = sent(&rig);
        rig.ask(client, command);
        rig.settle();
        // The first is the job, which takes a channel of its own.
        assert_eq!(sent(&rig) - before, 2);
        assert_eq!(rig.answers, rig.requests);
    }
}

#[test]
fn a_pause_stands_in_the_way_of_nothing_that_is_stored() {
    let mut rig = Rig::new();
    rig.ask(0, configure("a", 7));
    rig.directory.set_paused(true);
    rig.settle();
    let cell = rig.directory.peek(TENANT, "a").expect("it is there");
    assert_eq!(cell.configuration().tier, Tier::Declared);
}
