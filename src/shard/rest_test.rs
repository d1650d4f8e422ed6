//! Shards on a clock that is set by hand.

use bytes::Bytes;

use super::*;
use crate::directory::{Bounds, Directory};
use crate::model::{
    ClientRef, Command, Configure, GroupName, Incarnation, PartitionName, Policy, Pop, Popped,
    Push, QueueName, QueueOptions, Reply, TenantId, WindowBuffer,
};
use crate::placement;
use crate::shard::{Effect, ShardSettings};

const IDLE_MS: u64 = 300_000;
const HOME_PARTITION: &str = "Default";
const WORKERS: &str = "workers";

struct Shards {
    shards: Vec<Shard>,
    /// The queue that commands go to.
    name: &'static str,
    at_ms: u64,
    clients: u32,
    answers: Vec<(u32, Reply)>,
}

/// Whom a pop is for, and how long it waits for what.
#[derive(Clone, Copy)]
struct Asked {
    partition: Option<&'static str>,
    group: &'static str,
    wait_ms: Option<u64>,
    auto_ack: bool,
    batch: u32,
}

const ANY: Asked = Asked {
    partition: None,
    group: WORKERS,
    wait_ms: None,
    auto_ack: true,
    batch: 10,
};

fn texts(popped: &Popped) -> Vec<String> {
    let payloads = popped.messages.iter().map(|message| &message.payload);
    let texts = payloads.map(|payload| String::from_utf8_lossy(payload).into_owned());
    texts.collect()
}

impl Shards {
    fn new(count: u16, linger_ms: u64) -> Shards {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: 1 << 20,
            queue_bytes: 1 << 20,
            queue_length: 100,
            lease_ms: 30_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 1,
            shards: count,
        }));
        let shard = |shard| {
            let settings = ShardSettings {
                incarnation: Incarnation(1),
                shard,
                shards: count,
                ttl_tick_ms: 100,
                linger_ms,
                implicit_idle_ms: IDLE_MS,
            };
            Shard::new(settings, Arc::clone(&directory))
        };
        Shards {
            shards: (0..count).map(shard).collect(),
            name: "inbox",
            at_ms: 0,
            clients: 0,
            answers: Vec::new(),
        }
    }

    fn queue(&self) -> QueueName<'static> {
        QueueName::new(self.name).expect("a valid name")
    }

    fn owner(&self, partition: &str) -> u16 {
        let count = self.shards.len() as u16;
        placement::owner(TenantId::DEFAULT, self.name, partition, count)
    }

    fn home(&self) -> u16 {
        self.owner(HOME_PARTITION)
    }

    /// A partition of each shard but the home.
    fn partitions_away(&self) -> Vec<&'static str> {
        let mut found = vec![self.home()];
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let is_new = |name: &&str| {
            let owner = self.owner(name);
            let is_new = !found.contains(&owner);
            found.push(owner);
            is_new
        };
        let names: Vec<&str> = names.into_iter().filter(is_new).collect();
        assert_eq!(names.len() + 1, self.shards.len());
        names
    }

    fn now(&self) -> Moment {
        Moment::ZERO.after_ms(self.at_ms)
    }

    fn check(&self) {
        self.shards.iter().for_each(Shard::check);
    }

    /// Does what a turn of `shard` has led to, everywhere.
    fn carry_out(&mut self, shard: u16, effects: Vec<Effect>) {
        let queues = self.queues(shard);
        if queues.0 + queues.1 < 10 {
            self.shards[usize::from(shard)].check();
        }
        for effect in effects {
            match effect {
                Effect::Answer { client, reply } => self.answers.push((client.connection, reply)),
                Effect::Tell { shard: to, message } => {
                    let (now, mut effects) = (self.now(), Vec::new());
                    self.shards[usize::from(to)].on_peer(now, shard, message, &mut effects);
                    self.carry_out(to, effects);
                }
            }
        }
    }

    /// The client that sends a command to a shard.
    fn command(&mut self, shard: u16, mut command: Command<'_>) -> ClientRef {
        self.clients += 1;
        let client = ClientRef {
            core: shard,
            connection: self.clients,
            request: 0,
            generation: 0,
        };
        let (now, mut effects) = (self.now(), Vec::new());
        let tenant = TenantId::DEFAULT;
        self.shards[usize::from(shard)].apply(now, client, tenant, &mut command, &mut effects);
        self.carry_out(shard, effects);
        client
    }

    fn reply(&mut self, client: ClientRef) -> Option<Reply> {
        let mut answers = self.answers.iter();
        let at = answers.position(|&(answered, _)| answered == client.connection)?;
        Some(self.answers.remove(at).1)
    }

    fn popped(&mut self, client: ClientRef) -> Option<Popped> {
        self.reply(client).map(|reply| match reply {
            Reply::Popped(popped) => popped,
            other => panic!("{other:?}"),
        })
    }

    fn push(&mut self, partition: &'static str, text: &'static str) {
        let push = Command::Push(Push {
            queue: self.queue(),
            partition: PartitionName::new(partition).expect("a valid name"),
            payloads: vec![Bytes::from_static(text.as_bytes())],
        });
        let client = self.command(self.owner(partition), push);
        let reply = self.reply(client);
        assert!(matches!(reply, Some(Reply::Pushed { count: 1 })));
    }

    fn ask(&mut self, asked: Asked) -> ClientRef {
        let name = |partition| PartitionName::new(partition).expect("a valid name");
        let pop = Command::Pop(Pop {
            queue: self.queue(),
            partition: asked.partition.map(name),
            group: GroupName::new(asked.group).expect("a valid name"),
            batch: asked.batch,
            wait_ms: asked.wait_ms,
            since: None,
            auto_ack: asked.auto_ack,
        });
        self.command(self.owner(asked.partition.unwrap_or(HOME_PARTITION)), pop)
    }

    fn pop(&mut self, asked: Asked) -> Vec<String> {
        let client = self.ask(asked);
        let popped = self.popped(client);
        texts(&popped.expect("a pop that does not wait is answered"))
    }

    fn configure(&mut self, options: QueueOptions) {
        let configure = Command::Configure(Configure {
            queue: self.queue(),
            options,
            options_as_sent: "{}".into(),
            stored: false,
        });
        let client = self.command(self.home(), configure);
        let reply = self.reply(client);
        assert!(matches!(reply, Some(Reply::Configured { .. })));
    }

    /// Whether there was something to delete.
    fn delete(&mut self) -> bool {
        let client = self.command(self.home(), Command::Delete(self.queue()));
        match self.reply(client) {
            Some(Reply::Deleted { deleted, .. }) => deleted,
            other => panic!("{other:?}"),
        }
    }

    fn on(&mut self, shard: u16, act: impl FnOnce(&mut Shard, Moment, &mut Vec<Effect>)) {
        let (now, mut effects) = (self.now(), Vec::new());
        act(&mut self.shards[usize::from(shard)], now, &mut effects);
        self.carry_out(shard, effects);
    }

    /// Lets time pass, and everything be done at its moment.
    fn pass(&mut self, until_ms: u64) {
        let until = Moment::ZERO.after_ms(until_ms);
        for turn in 0.. {
            assert!(turn < 100_000, "something is due again and again");
            let deadlines = self.shards.iter().map(Shard::next_deadline);
            let due = (0..)
                .zip(deadlines)
                .filter_map(|(at, due)| Some((due?, at)));
            let Some((due, shard)) = due.min().filter(|&(due, _)| due <= until) else {
                break;
            };
            self.at_ms = self.at_ms.max(due.as_us().div_ceil(1_000));
            self.on(shard, |shard, now, effects| shard.run_due(now, effects));
        }
        self.at_ms = until_ms;
    }

    /// Queues that are awake at a shard, and those at rest.
    fn queues(&self, shard: u16) -> (usize, usize) {
        let shard = &self.shards[usize::from(shard)];
        (shard.queues.len(), shard.resting.len())
    }
}

#[test]
fn an_emptied_inbox_rests_and_wakes_as_it_was() {
    let mut shards = Shards::new(1, 0);
    let sequence = |shards: &mut Shards| {
        let client = shards.ask(ANY);
        let popped = shards.popped(client).expect("it does not wait");
        popped.messages[0].sequence
    };
    shards.push(HOME_PARTITION, "1");
    assert_eq!(sequence(&mut shards), 1);
    shards.pass(999);
    assert_eq!(shards.queues(0), (1, 0));
    shards.pass(1_000);
    assert_eq!(shards.queues(0), (0, 1));
    assert_eq!(shards.shards[0].directory.cursors(), 1);
    shards.push(HOME_PARTITION, "2");
    assert_eq!(shards.queues(0), (1, 0));
    assert_eq!(sequence(&mut shards), 2, "the numbers go on");
    shards.pass(7_000);
    assert_eq!(shards.queues(0), (0, 1));
    // What is at rest is collected like what is not.
    shards.pass(1_000 + 2 * IDLE_MS);
    let directory = &shards.shards[0].directory;
    assert_eq!((directory.queue_count(), directory.cursors()), (0, 0));
    assert_eq!(shards.queues(0), (0, 0));
    assert_eq!(shards.shards[0].next_deadline(), None);
}

#[test]
fn what_is_still_needed_does_not_rest() {
    let mut shards = Shards::new(1, 0);
    let leased = Asked {
        auto_ack: false,
        ..ANY
    };
    shards.push(HOME_PARTITION, "1");
    shards.pass(2_000);
    assert_eq!(shards.queues(0), (1, 0), "a message is there");
    assert_eq!(shards.pop(leased), ["1"]);
    shards.pass(5_000);
    assert_eq!(shards.queues(0), (1, 0), "it is leased");
    shards.pass(40_000);
    assert_eq!(shards.pop(ANY), ["1"]);
    shards.push("other", "2");
    assert_eq!(shards.pop(ANY), ["2"]);
    shards.pass(50_000);
    assert_eq!(shards.queues(0), (1, 0), "it has two partitions");
    // One of them is used on, the other is collected.
    for turn in 1..=IDLE_MS / 10_000 {
        shards.push("other", "3");
        assert_eq!(shards.pop(ANY), ["3"]);
        shards.pass(50_000 + turn * 10_000);
    }
    assert_eq!(shards.queues(0), (0, 1));
}

#[test]
fn a_queue_whose_pop_waited_in_vain_rests_soon() {
    let leave: [fn(&mut Shards, ClientRef); 3] = [
        |shards, client| {
            shards.pass(10_000);
            assert!(texts(&shards.popped(client).expect("its time is up")).is_empty());
        },
        |shards, client| shards.on(0, |shard, now, effects| shard.abandon(now, client, effects)),
        |shards, client| {
            shards.on(0, |shard, now, effects| {
                shard.refuse_all_parked(now, effects)
            });
            assert!(matches!(shards.reply(client), Some(Reply::Refused(_))));
        },
    ];
    for partition in [None, Some(HOME_PARTITION)] {
        for leave in leave {
            for is_new in [true, false] {
                let mut shards = Shards::new(1, 0);
                if !is_new {
                    shards.push(HOME_PARTITION, "1");
                    assert_eq!(shards.pop(ANY), ["1"]);
                }
                let wait_ms = Some(10_000);
                let client = shards.ask(Asked {
                    partition,
                    wait_ms,
                    ..ANY
                });
                shards.pass(9_000);
                assert_eq!(shards.queues(0), (1, 0), "somebody waits");
                leave(&mut shards, client);
                shards.pass(11_000);
                assert_eq!(shards.queues(0), (0, 1));
            }
        }
    }
}

#[test]
fn a_queue_without_a_ring_rests() {
    let mut shards = Shards::new(1, 0);
    shards.configure(QueueOptions::default());
    shards.pass(1_000);
    assert_eq!(shards.queues(0), (0, 1));
    // It was not declared when it was made: it is looked at once more, and then no more.
    shards.pass(2 * IDLE_MS);
    assert_eq!(shards.queues(0), (0, 1));
    assert_eq!(shards.shards[0].next_deadline(), None);
    shards.push(HOME_PARTITION, "1");
    assert_eq!(shards.pop(ANY), ["1"]);
    // Without its ring, which is collected, it rests again.
    shards.pass(4 * IDLE_MS);
    assert_eq!(shards.queues(0), (0, 1));
    let resting = shards.shards[0].resting.iter().next();
    assert!(resting.is_some_and(|(_, resting)| resting.ring.is_none()));
    assert_eq!(shards.shards[0].directory.cursors(), 0);
    assert!(shards.delete());
    assert_eq!(shards.queues(0), (0, 0));

    let mut shards = Shards::new(1, 0);
    assert!(shards.pop(ANY).is_empty());
    shards.pass(2_000);
    assert_eq!(shards.queues(0), (0, 1));
    shards.pass(2 * IDLE_MS);
    assert_eq!(shards.queues(0), (0, 0));
    assert_eq!(shards.shards[0].directory.queue_count(), 0);
}

#[test]
fn a_queue_that_others_hold_rests_until_it_may_be_collected_again() {
    let mut shards = Shards::new(2, 0);
    let partition = shards.partitions_away()[0];
    let home = shards.home();
    assert!(shards.pop(ANY).is_empty());
    shards.push(partition, "1");
    for turn in 1..5 {
        shards.pass(turn * IDLE_MS + 2_000);
        assert_eq!(shards.queues(home), (0, 1));
        let next = shards.shards[usize::from(home)].next_deadline();
        assert!(next.is_some_and(|at| at > shards.now()));
    }
    assert_eq!(shards.pop(ANY), ["1"]);
    shards.pass(7 * IDLE_MS);
    assert_eq!((shards.queues(0), shards.queues(1)), ((0, 0), (0, 0)));
}

#[test]
fn a_queue_that_is_polled_does_not_rest_in_between() {
    let mut shards = Shards::new(1, 0);
    shards.push(HOME_PARTITION, "1");
    assert_eq!(shards.pop(ANY), ["1"]);
    let serial = shards.shards[0].ring_serial;
    for turn in 1..100 {
        shards.pass(turn * 100);
        assert_eq!(shards.queues(0), (1, 0));
        assert!(shards.pop(ANY).is_empty());
    }
    assert_eq!(shards.shards[0].ring_serial, serial);
    shards.pass(11_000);
    assert_eq!(shards.queues(0), (0, 1));
}

#[test]
fn a_partition_that_others_emptied_gives_its_memory_back() {
    let mut shards = Shards::new(1, 0);
    shards.configure(QueueOptions {
        max_length: Some(2),
        policy: Policy::DropOldest,
        ..QueueOptions::default()
    });
    shards.push("full", "1");
    shards.pass(10_000);
    shards.push(HOME_PARTITION, "2");
    shards.push(HOME_PARTITION, "3");
    shards.pass(12_000);
    let mut rings = shards.shards[0].rings.iter();
    assert!(rings.all(|(_, ring)| (ring.slots.capacity() > 0) == (ring.slots.live() > 0)));
}

#[test]
fn a_queue_with_a_window_rests_away_from_its_home() {
    let mut shards = Shards::new(2, 0);
    let partition = shards.partitions_away()[0];
    let away = shards.owner(partition);
    shards.configure(QueueOptions {
        window_buffer: WindowBuffer { ms: 0, count: 2 },
        ..QueueOptions::default()
    });
    let wait_ms = Some(60_000);
    for texts in [["1", "2"], ["3", "4"]] {
        let client = shards.ask(Asked { wait_ms, ..ANY });
        shards.push(partition, texts[0]);
        assert!(shards.popped(client).is_none(), "the window holds it");
        shards.push(partition, texts[1]);
        let popped = shards.popped(client).expect("the window closes");
        assert_eq!(self::texts(&popped), texts);
        shards.pass(shards.at_ms + 2_000);
        assert_eq!(shards.queues(away), (0, 1));
    }
    let cell = &shards.shards[0]
        .directory
        .peek(TenantId::DEFAULT, shards.name);
    let groups = cell.as_ref().expect("it lives").groups_since(0);
    assert_eq!(groups[0].available_elsewhere(shards.home()), 0);
}

#[test]
fn whose_turn_it_is_survives_a_rest() {
    let mut shards = Shards::new(3, 0);
    let partitions = shards.partitions_away();
    shards.push(HOME_PARTITION, "0");
    assert_eq!(shards.pop(ANY), ["0"]);
    for partition in &partitions {
        for _ in 0..3 {
            shards.push(partition, partition);
        }
    }
    let mut seen = Vec::new();
    for _ in 0..6 {
        shards.pass(shards.at_ms + 5_000);
        assert_eq!(shards.queues(shards.home()), (0, 1));
        seen.extend(shards.pop(Asked { batch: 1, ..ANY }));
    }
    let mut pairs = seen.windows(2);
    assert!(
        pairs.all(|pair| pair[0] != pair[1]),
        "not in turn: {seen:?}"
    );
    assert!(shards.delete());
    assert!(shards.shards.iter().all(|one| one.resting_turns.is_empty()));
}

#[test]
fn a_group_that_came_while_the_queue_rested_misses_nothing() {
    let mut shards = Shards::new(2, 0);
    let partition = shards.partitions_away()[0];
    let away = shards.owner(partition);
    let late = Asked {
        group: "late",
        ..ANY
    };
    shards.push(partition, "1");
    shards.push(HOME_PARTITION, "2");
    let mut first = shards.pop(ANY);
    first.sort_unstable();
    assert_eq!(first, ["1", "2"]);
    shards.pass(2_000);
    assert_eq!((shards.queues(0), shards.queues(1)), ((0, 1), (0, 1)));
    let named = Asked {
        partition: Some(HOME_PARTITION),
        ..late
    };
    assert!(shards.pop(named).is_empty());
    assert_eq!(shards.queues(away), (0, 1), "it has heard of nothing");
    shards.push(partition, "3");
    assert_eq!(shards.pop(ANY), ["3"]);
    assert_eq!(shards.pop(late), ["3"]);
    // And so for one that waits at the home while the other shard rests.
    shards.pass(4_000);
    assert_eq!(shards.queues(away), (0, 1));
    let client = shards.ask(Asked {
        wait_ms: Some(60_000),
        ..late
    });
    shards.pass(6_000);
    shards.push(partition, "4");
    assert_eq!(texts(&shards.popped(client).expect("woken")), ["4"]);
    assert_eq!(shards.pop(ANY), ["4"]);
}

#[test]
fn a_group_below_the_tail_gets_what_comes_back() {
    let mut shards = Shards::new(2, 2_000);
    let partition = shards.partitions_away()[0];
    let home = shards.home();
    shards.push(HOME_PARTITION, "1");
    let client = shards.ask(ANY);
    let lost = shards.popped(client).expect("it does not wait");
    assert_eq!(texts(&lost), ["1"]);
    // It is known from now on, at the message that lingers, and has taken nothing of it.
    let late = Asked {
        group: "late",
        ..ANY
    };
    let named = Asked {
        partition: Some(partition),
        ..late
    };
    assert!(shards.pop(named).is_empty());
    shards.pass(10_000);
    assert_eq!(shards.queues(home), (1, 0), "the group is not at the tail");
    shards.on(home, |shard, now, effects| {
        shard.give_back(now, lost, effects)
    });
    assert_eq!(shards.pop(late), ["1"]);
    assert_eq!(shards.pop(ANY), ["1"]);
}

#[test]
fn waiting_pops_outlive_deletes_around_a_rest() {
    for count in [1, 2, 4] {
        let mut shards = Shards::new(count, 0);
        let away = shards.partitions_away();
        let partition = away.first().copied().unwrap_or(HOME_PARTITION);
        let owner = shards.owner(partition);
        for _ in 0..3 {
            shards.push(partition, "1");
            assert_eq!(shards.pop(ANY), ["1"]);
            shards.pass(shards.at_ms + 2_000);
            assert_eq!(shards.queues(owner), (0, 1));
            let wait_ms = Some(60_000);
            let client = shards.ask(Asked { wait_ms, ..ANY });
            for _ in 0..3 {
                assert!(shards.delete());
                assert!(shards.popped(client).is_none(), "it waits on");
                shards.pass(shards.at_ms + 2_000);
            }
            shards.push(partition, "2");
            assert_eq!(texts(&shards.popped(client).expect("woken")), ["2"]);
            shards.pass(shards.at_ms + 2_000);
            assert!(shards.delete());
            let queues = shards
                .shards
                .iter()
                .map(|one| one.queues.len() + one.resting.len());
            assert_eq!(queues.sum::<usize>(), 0);
        }
    }
}

#[test]
fn names_that_come_and_go_leave_nothing() {
    let names: Vec<&'static str> = (0..500)
        .map(|at| &*Box::leak(format!("inbox-{at}").into_boxed_str()))
        .collect();
    for count in [1, 2, 4] {
        let mut shards = Shards::new(count, 1_000);
        let mut random: u64 = 7;
        for step in 0..20_000_u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            shards.name = names[(random >> 8) as usize % names.len()];
            let partition = [HOME_PARTITION, "a"][(random >> 20) as usize % 2];
            let wait_ms = Some(3_000).filter(|_| random & (1 << 30) != 0);
            let named = Some(partition).filter(|_| random & (1 << 31) != 0);
            let asked = Asked {
                partition: named,
                wait_ms,
                ..ANY
            };
            match random % 16 {
                0..6 => {
                    shards.push(partition, "1");
                    shards.pop(ANY);
                }
                6..8 => shards.push(partition, "2"),
                8..11 => {
                    shards.ask(asked);
                }
                11..13 => {
                    let client = shards.ask(asked);
                    let owner = shards.owner(named.unwrap_or(HOME_PARTITION));
                    shards.on(owner, |shard, now, effects| {
                        shard.abandon(now, client, effects)
                    });
                }
                13 => {
                    shards.delete();
                }
                14 => {
                    shards.command(shards.home(), Command::Reset(shards.queue()));
                }
                _ => {
                    let (queue, group) = (shards.queue(), None);
                    shards.command(shards.home(), Command::Depth { queue, group });
                }
            }
            shards.answers.clear();
            shards.pass(shards.at_ms + (random >> 40) % 50);
            if step % 1_000 == 0 {
                shards.check();
            }
        }
        for name in &names {
            shards.name = name;
            shards.pop(Asked { batch: 100, ..ANY });
        }
        shards.pass(shards.at_ms + 3 * IDLE_MS);
        shards.check();
        assert!((0..count).all(|shard| shards.queues(shard) == (0, 0)));
        assert!(
            shards
                .shards
                .iter()
                .all(|one| one.next_deadline().is_none())
        );
        let directory = &shards.shards[0].directory;
        assert_eq!((directory.queue_count(), directory.cursors()), (0, 0));
    }
}
