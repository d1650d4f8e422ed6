//! One test per fault that was found after its code was thought to be done.

#[path = "simulation/found.rs"]
mod found_by_simulation;
#[path = "regressions/several_shards.rs"]
mod several_shards;
#[path = "support/mod.rs"]
mod support;
#[path = "regressions/waiting_pushes.rs"]
mod waiting_pushes;

use std::borrow::Cow;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use queen::directory::{Bounds, Directory};
use queen::limits;
use queen::model::{
    self, ClientRef, Configure, GroupName, Incarnation, Moment, PartitionName, Policy, Pop, Push,
    QueueName, QueueOptions, Refusal, Reply, TenantId,
};
use queen::shard::{Effect, Shard, ShardSettings};
use rustix::process::{Pid, Signal, kill_process};

use support::broker::{Plan, free_port};
use support::{Client, eventually};

/// A shard whose clock the test moves.
struct Rig {
    shard: Shard,
    now: Moment,
    requests: u64,
    effects: Vec<Effect>,
}

impl Rig {
    fn new() -> Rig {
        Rig::lingering(60_000)
    }

    fn lingering(linger_ms: u64) -> Rig {
        let directory = Arc::new(Directory::new(bounds(1)));
        let settings = ShardSettings {
            incarnation: Incarnation(1),
            shard: 0,
            shards: 1,
            ttl_tick_ms: 100,
            linger_ms,
            implicit_idle_ms: 600_000,
        };
        Rig {
            shard: Shard::new(settings, directory),
            now: Moment::ZERO,
            requests: 0,
            effects: Vec::new(),
        }
    }

    /// Applies a command at `ms`; its own answer, unless it parked.
    fn apply(&mut self, ms: u64, mut command: model::Command<'_>) -> Option<Reply> {
        self.now = Moment::ZERO.after_ms(ms);
        self.requests += 1;
        let client = ClientRef {
            core: 0,
            connection: 0,
            request: self.requests,
            generation: 0,
        };
        let tenant = TenantId::DEFAULT;
        self.shard
            .apply(self.now, client, tenant, &mut command, &mut self.effects);
        let mut own = None;
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Answer { client: to, reply } if to == client => own = Some(reply),
                Effect::Answer { .. } => {}
                Effect::Tell { .. } => panic!("a lone shard has nobody to tell"),
            }
        }
        own
    }

    fn run_due(&mut self, ms: u64) {
        self.now = Moment::ZERO.after_ms(ms);
        self.shard.run_due(self.now, &mut self.effects);
        self.effects.clear();
    }

    fn configure(&mut self, ms: u64, options: QueueOptions) {
        let reply = self.apply(
            ms,
            model::Command::Configure(Configure {
                queue: queue(),
                options,
                options_as_sent: Cow::Borrowed("{}"),
                stored: false,
            }),
        );
        assert!(matches!(reply, Some(Reply::Configured { .. })));
    }

    fn push(&mut self, ms: u64, partition: &str, count: usize) -> Option<Reply> {
        let payloads = vec![Bytes::from_static(b"1"); count];
        self.apply(
            ms,
            model::Command::Push(Push {
                queue: queue(),
                partition: PartitionName::new(partition).expect("a name"),
                payloads,
            }),
        )
    }

    fn pop(&mut self, ms: u64, pop: Pop<'_>) -> Option<Reply> {
        self.apply(ms, model::Command::Pop(pop))
    }
}

fn bounds(shards: u16) -> Bounds {
    Bounds {
        broker_bytes: 1 << 30,
        queue_bytes: 1 << 28,
        queue_length: 1 << 20,
        lease_ms: 1_000,
        retry_limit: 5,
        rate: None,
        require_grant: false,
        tenants: 10,
        shards,
    }
}

fn queue() -> QueueName<'static> {
    QueueName::new("q").expect("a name")
}

fn pop_of(group: &str) -> Pop<'_> {
    Pop {
        queue: queue(),
        partition: None,
        group: GroupName::new(group).expect("a name"),
        batch: 10_000,
        wait_ms: None,
        since: None,
        auto_ack: false,
    }
}

fn popped(reply: Option<Reply>) -> usize {
    match reply {
        Some(Reply::Popped(popped)) => popped.messages.len(),
        other => panic!("{other:?}"),
    }
}

/// A ring whose expiry took exactly one step, and that meanwhile gave a message whose lease had
/// ended to a parked pop, had two timers; the second outlived the ring and ended the process.
#[test]
fn a_ring_that_is_deleted_in_the_middle_of_its_expiry_leaves_no_timer() {
    let mut rig = Rig::new();
    rig.configure(
        0,
        QueueOptions {
            ttl_ms: Some(2_000),
            ..QueueOptions::default()
        },
    );
    assert_eq!(popped(rig.pop(0, pop_of("slow"))), 0);
    rig.push(0, "p", limits::EXPIRE_STEP_MAX);
    let quick = || Pop {
        auto_ack: true,
        ..pop_of("quick")
    };
    while popped(rig.pop(1, quick())) > 0 {}
    rig.push(1_500, "p", 1);
    assert_eq!(popped(rig.pop(1_500, pop_of("quick"))), 1);
    let waiting = Pop {
        wait_ms: Some(60_000),
        ..pop_of("quick")
    };
    assert!(rig.pop(1_600, waiting).is_none(), "nothing is there");
    // The lease has ended and a whole step of messages is past its TTL.
    let deleted = rig.apply(2_600, model::Command::Delete(queue()));
    assert!(matches!(
        deleted,
        Some(Reply::Deleted { deleted: true, .. })
    ));
    rig.run_due(1_000_000);
    rig.shard.check();
    assert_eq!(rig.shard.next_deadline(), None);
}

/// What was due in many rings at once was done in one turn, while nobody else was served.
#[test]
fn one_turn_does_a_bounded_part_of_what_is_due() {
    let mut rig = Rig::new();
    rig.configure(
        0,
        QueueOptions {
            ttl_ms: Some(1_000),
            ..QueueOptions::default()
        },
    );
    let partitions = 3 * limits::DUE_STEP_MAX;
    for number in 0..partitions {
        rig.push(0, &format!("p{number}"), 1);
    }
    for turn in 1..=3 {
        rig.run_due(2_000);
        let dropped = rig.shard.statistics().dropped.ttl as usize;
        assert_eq!(dropped, turn * limits::DUE_STEP_MAX);
        let due = rig.shard.next_deadline().is_some_and(|at| at <= rig.now);
        assert_eq!(due, turn < 3);
    }
    // The same for messages of few rings, and for leases.
    rig.push(3_000, "p0", limits::EXPIRE_STEP_MAX);
    rig.push(3_000, "p1", limits::EXPIRE_STEP_MAX);
    let before = rig.shard.statistics().dropped.ttl as usize;
    rig.run_due(5_000);
    let dropped = rig.shard.statistics().dropped.ttl as usize - before;
    assert_eq!(dropped, limits::EXPIRE_STEP_MAX);
    rig.shard.check();
}

/// The timer that a queue is collected by outlived a deletion: inboxes that were made and deleted
/// piled them up until the idle time had passed.
#[test]
fn a_deleted_queue_leaves_no_timer() {
    let mut rig = Rig::new();
    for number in 0..10 {
        assert_eq!(popped(rig.pop(number, pop_of("g"))), 0);
        assert!(rig.shard.next_deadline().is_some());
        let deleted = rig.apply(number, model::Command::Delete(queue()));
        assert!(matches!(
            deleted,
            Some(Reply::Deleted { deleted: true, .. })
        ));
        assert_eq!(rig.shard.next_deadline(), None);
    }
}

/// A message that expired while one group leased it, and that another group gave back once the TTL
/// was lifted, was never passed by the first group: it stayed for ever.
#[test]
fn a_message_that_has_expired_does_not_come_back() {
    let mut rig = Rig::new();
    let options = |ttl_ms| QueueOptions {
        ttl_ms,
        lease_ms: Some(60_000),
        ..QueueOptions::default()
    };
    rig.configure(0, options(Some(1_000)));
    assert_eq!(popped(rig.pop(0, pop_of("keeps"))), 0);
    rig.push(0, "p", 1);
    let settled = Pop {
        auto_ack: true,
        ..pop_of("vanishes")
    };
    let Some(Reply::Popped(lost)) = rig.pop(1, settled) else {
        panic!("a pop is answered with what is there");
    };
    assert_eq!(lost.messages.len(), 1);
    assert_eq!(popped(rig.pop(2, pop_of("keeps"))), 1);
    rig.run_due(1_200);
    rig.configure(1_300, options(None));
    rig.now = Moment::ZERO.after_ms(1_400);
    rig.shard.give_back(rig.now, lost, &mut rig.effects);
    rig.shard.check();
    assert_eq!(popped(rig.pop(1_500, pop_of("vanishes"))), 0);
    // Two groups missed it: it counts once, when the last lease has ended.
    assert_eq!(rig.shard.statistics().dropped.ttl, 0);
    rig.run_due(61_000);
    assert_eq!(rig.shard.statistics().dropped.ttl, 1);
}

/// A message that two groups shared was dropped for the one that had not taken it, and was then given
/// back by the other: it counted as dropped a second time, or, once there was room, came back, also
/// for the group that had counted it as skipped.
#[test]
fn what_counts_as_dropped_neither_comes_back_nor_counts_again() {
    let drop_oldest = QueueOptions {
        max_length: Some(1),
        policy: Policy::DropOldest,
        ..QueueOptions::default()
    };
    let short_lived = QueueOptions {
        ttl_ms: Some(1_000),
        ..QueueOptions::default()
    };
    for (options, by_bounds) in [(drop_oldest, true), (short_lived, false)] {
        for room in [false, true] {
            let mut rig = Rig::new();
            rig.configure(0, options);
            assert_eq!(popped(rig.pop(0, pop_of("slow"))), 0);
            rig.push(0, "p", 1);
            let settled = Pop {
                auto_ack: true,
                ..pop_of("vanishes")
            };
            let Some(Reply::Popped(lost)) = rig.pop(1, settled) else {
                panic!("a pop is answered with what is there");
            };
            assert_eq!(lost.messages.len(), 1);
            if by_bounds {
                rig.push(2, "p", 1);
            }
            rig.run_due(1_200);
            let after = QueueOptions {
                max_length: Some(if room { 10 } else { 1 }),
                ..QueueOptions::default()
            };
            rig.configure(1_300, after);
            rig.now = Moment::ZERO.after_ms(1_400);
            rig.shard.give_back(rig.now, lost, &mut rig.effects);
            rig.shard.check();
            let dropped = rig.shard.statistics().dropped;
            assert_eq!(dropped.bounds, u64::from(by_bounds), "room: {room}");
            assert_eq!(dropped.ttl, u64::from(!by_bounds), "room: {room}");
            let left = usize::from(by_bounds);
            for group in ["slow", "vanishes"] {
                assert_eq!(popped(rig.pop(1_500, pop_of(group))), left, "room: {room}");
            }
        }
    }
}

/// A message that came back to life before the cursor of a group which had registered meanwhile was
/// there for that group too, and nobody told it: its parked pop slept on.
#[test]
fn a_message_that_comes_back_to_life_wakes_every_group_that_may_have_it() {
    let mut rig = Rig::lingering(0);
    let one_of = |group, auto_ack| Pop {
        batch: 1,
        auto_ack,
        ..pop_of(group)
    };
    assert_eq!(popped(rig.pop(0, pop_of("first"))), 0);
    rig.push(0, "p", 2);
    assert_eq!(popped(rig.pop(1, one_of("first", false))), 1);
    let Some(Reply::Popped(lost)) = rig.pop(2, one_of("first", true)) else {
        panic!("a pop is answered with what is there");
    };
    assert_eq!(lost.messages.len(), 1);
    // Its cursor stands at the leased message; behind it nothing is left.
    assert_eq!(popped(rig.pop(3, pop_of("late"))), 1);
    let waiting = Pop {
        wait_ms: Some(10_000),
        ..pop_of("late")
    };
    assert!(rig.pop(4, waiting).is_none(), "it parks");
    rig.shard.give_back(rig.now, lost, &mut rig.effects);
    rig.shard.check();
    let woken = rig.effects.drain(..).map(|effect| match effect {
        Effect::Answer { reply, .. } => popped(Some(reply)),
        Effect::Tell { .. } => panic!("a lone shard has nobody to tell"),
    });
    assert_eq!(woken.collect::<Vec<_>>(), [1]);
    assert_eq!(popped(rig.pop(5, pop_of("first"))), 1);
}

/// Groups and partitions were bounded each, and their product, for which a cursor each is kept, was
/// not: two thousand small pushes to a queue with 4,096 groups took more than a gigabyte.
#[test]
fn the_cursors_of_a_queue_are_bounded() {
    let mut rig = Rig::new();
    for number in 0..limits::GROUPS_MAX {
        assert_eq!(popped(rig.pop(0, pop_of(&format!("g{number}")))), 0);
    }
    let partitions = limits::QUEUE_CURSORS_MAX / limits::GROUPS_MAX;
    for number in 0..partitions {
        let reply = rig.push(0, &format!("p{number}"), 1);
        assert!(
            matches!(reply, Some(Reply::Pushed { count: 1 })),
            "{reply:?}"
        );
    }
    let reply = rig.push(0, "one too many", 1);
    assert!(
        matches!(reply, Some(Reply::Refused(Refusal::QuotaExceeded { .. }))),
        "{reply:?}"
    );
    let reply = rig.push(0, "p0", 1);
    assert!(
        matches!(reply, Some(Reply::Pushed { count: 1 })),
        "{reply:?}"
    );
    let deleted = rig.apply(0, model::Command::Delete(queue()));
    assert!(matches!(deleted, Some(Reply::Deleted { .. })));
    let reply = rig.push(0, "one too many", 1);
    assert!(
        matches!(reply, Some(Reply::Pushed { count: 1 })),
        "{reply:?}"
    );
}

/// A line for the log that could not be written, because nobody read stderr any more, ended the
/// process.
#[test]
fn a_closed_stderr_does_not_end_the_broker() {
    let port = free_port();
    let mut broker = Command::new(env!("CARGO_BIN_EXE_queen"))
        .env_clear()
        .env("PORT", port.to_string())
        .env("QUEEN_BIND_ADDR", "127.0.0.1")
        .env("QUEEN_DURABLE", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the broker's binary can be started");
    drop(broker.stderr.take());
    let address = (std::net::Ipv4Addr::LOCALHOST, port).into();
    eventually("the broker answers", || {
        Client::try_connect(address).is_ok_and(|mut client| client.get("/health").status == 200)
    });
    kill_process(Pid::from_child(&broker), Signal::TERM).expect("the broker can be signalled");
    let status = broker.wait().expect("a child");
    assert_eq!(status.code(), Some(0), "{status}");
}

/// A core that answered more parked pops of another core at once than the lane between them holds
/// was rung for the room, sent nothing because nothing had arrived, did not sleep because there was
/// room, and so on: it never served anybody again.
#[test]
fn more_answers_at_once_than_a_lane_holds_all_arrive() {
    const EACH: usize = 60;
    let broker = Plan::any().start();
    let queue = broker.queue("crowd");
    let target = queue.pop_target("partition=Default&wait=true&timeout=60000&autoAck=true");
    // Twice as many on each core, if they spread as they should, as a lane holds.
    let mut clients: Vec<Client> = Vec::new();
    while clients.len() * EACH < 4 * limits::REPLY_LANE_SLOTS {
        let mut client = broker.client();
        client.set_read_limit(std::time::Duration::from_secs(20));
        client.send_raw(&client.request_bytes("GET", &target, None).repeat(EACH));
        clients.push(client);
        let parked = (clients.len() * EACH) as u64;
        eventually("all pops are parked", || queue.waiting() == parked);
    }
    let payloads: Vec<serde_json::Value> = (0..clients.len() * EACH).map(Into::into).collect();
    queue.push_to("Default", &payloads);
    for client in &mut clients {
        for _ in 0..EACH {
            client.read().expect(200);
        }
    }
    assert_eq!(queue.held(), (0, 0));
}
