//! Pushes that wait for room which another shard has to make, and commands beside a lane that is full.

use std::sync::Arc;

use bytes::Bytes;
use queen::channel;
use queen::core_loop::{Outcome, ShardCore};
use queen::directory::{Bounds, Directory};
use queen::limits;
use queen::model::{
    ClientRef, Command, Configure, DEFAULT_PARTITION, Moment, PartitionName, Policy, Push,
    QueueName, QueueOptions, Refusal, Reply, TenantId,
};
use queen::placement;
use queen::shard::{Effect, Shard};

use super::bounds;
use super::several_shards::shard_of_two;

const QUEUE: &str = "q";

/// Two shards whose messages to each other wait until they are carried.
struct Two {
    shards: [Shard; 2],
    effects: [Vec<Effect>; 2],
    requests: u64,
}

impl Two {
    fn new(bounds: Bounds) -> Two {
        let directory = Arc::new(Directory::new(bounds));
        Two {
            shards: [0, 1].map(|shard| shard_of_two(shard, &directory)),
            effects: Default::default(),
            requests: 0,
        }
    }

    fn apply(&mut self, shard: usize, mut command: Command<'_>) {
        self.requests += 1;
        let client = client(shard, self.requests);
        let effects = &mut self.effects[shard];
        let tenant = TenantId::DEFAULT;
        self.shards[shard].apply(Moment::ZERO, client, tenant, &mut command, effects);
    }

    /// The answers of a shard since, oldest first.
    fn answers(&mut self, shard: usize) -> Vec<Reply> {
        let effects = std::mem::take(&mut self.effects[shard]);
        let (answers, rest) = effects
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Answer { .. }));
        self.effects[shard] = rest;
        let answers: Vec<Effect> = answers;
        let reply = |effect| match effect {
            Effect::Answer { reply, .. } => reply,
            other => panic!("{other:?}"),
        };
        answers.into_iter().map(reply).collect()
    }

    /// Carries all that the shards have to tell each other.
    fn carry(&mut self) {
        for from in [0, 1, 0, 1, 0, 1] {
            let effects = std::mem::take(&mut self.effects[from]);
            for effect in effects {
                match effect {
                    Effect::Tell { shard, message } => {
                        let to = usize::from(shard);
                        let effects = &mut self.effects[to];
                        self.shards[to].on_peer(Moment::ZERO, from as u16, message, effects);
                    }
                    answer => self.effects[from].push(answer),
                }
            }
        }
    }
}

fn client(core: usize, request: u64) -> ClientRef {
    ClientRef {
        core: core as u16,
        connection: 0,
        request,
        generation: 0,
    }
}

fn push(queue: &str, partition: &str, payload: &'static str) -> Command<'static> {
    Command::Push(Push {
        queue: QueueName::new(queue.to_owned()).expect("a name"),
        partition: PartitionName::new(partition.to_owned()).expect("a name"),
        payloads: vec![Bytes::from_static(payload.as_bytes())],
    })
}

/// A partition that a shard owns.
fn partition_of(queue: &str, shard: usize) -> String {
    let mut names = (0..).map(|number| format!("p{number}"));
    let owned =
        |name: &String| usize::from(placement::owner(TenantId::DEFAULT, queue, name, 2)) == shard;
    names.find(owned).expect("names are spread")
}

/// A queue for one message, which drops the oldest: that one lies on `holder`.
fn full_queue(two: &mut Two, holder: usize) {
    let home = usize::from(placement::owner(
        TenantId::DEFAULT,
        QUEUE,
        DEFAULT_PARTITION,
        2,
    ));
    let options = QueueOptions {
        max_length: Some(1),
        policy: Policy::DropOldest,
        ..QueueOptions::default()
    };
    two.apply(
        home,
        Command::Configure(Configure {
            queue: QueueName::new(QUEUE).expect("a name"),
            options,
            options_as_sent: "{}".into(),
            stored: false,
        }),
    );
    two.apply(holder, push(QUEUE, &partition_of(QUEUE, holder), "1"));
    two.carry();
    assert_eq!(two.answers(0).len() + two.answers(1).len(), 2);
}

/// The broker's part was given up while the push waited, and another push took it: the waiting one
/// was refused after the oldest message had been dropped for it.
#[test]
fn what_is_dropped_for_a_push_is_not_dropped_in_vain() {
    let mut two = Two::new(Bounds {
        broker_bytes: 2,
        queue_bytes: 2,
        ..bounds(2)
    });
    full_queue(&mut two, 1);
    two.apply(0, push(QUEUE, &partition_of(QUEUE, 0), "2"));
    assert!(two.answers(0).is_empty(), "it waits for the other shard");
    two.apply(0, push("other", &partition_of("other", 0), "3"));
    let refused = two.answers(0).pop();
    assert!(
        matches!(refused, Some(Reply::Refused(Refusal::Unavailable { .. }))),
        "{refused:?}"
    );
    two.carry();
    let stored = two.answers(0).pop();
    assert!(
        matches!(stored, Some(Reply::Pushed { count: 1 })),
        "{stored:?}"
    );
}

/// Pushes that wait drained their bounded lane into a queue without a bound.
#[test]
fn pushes_that_wait_for_room_are_bounded() {
    let mut two = Two::new(bounds(2));
    full_queue(&mut two, 1);
    let partition = partition_of(QUEUE, 0);
    for _ in 0..limits::HELD_PUSHES_MAX {
        two.apply(0, push(QUEUE, &partition, "2"));
    }
    assert!(two.answers(0).is_empty());
    two.apply(0, push(QUEUE, &partition, "2"));
    let refused = two.answers(0).pop();
    assert!(
        matches!(refused, Some(Reply::Refused(Refusal::Overloaded { .. }))),
        "{refused:?}"
    );
    // In their order and in bounded steps, each drops the one before it.
    two.carry();
    let mut stored = two.answers(0).len();
    while let Some(next) = two.shards[0]
        .next_deadline()
        .filter(|at| *at == Moment::ZERO)
    {
        two.shards[0].run_due(next, &mut two.effects[0]);
        let more = two.answers(0).len();
        assert!(more <= limits::HELD_STEP_MAX, "{more} in one step");
        stored += more;
    }
    assert_eq!(stored, limits::HELD_PUSHES_MAX);
}

/// A full lane to any core refused what concerns a whole queue, also of a queue that the core at its
/// end does not know.
#[test]
fn a_full_lane_refuses_nothing_of_queues_elsewhere() {
    let directory = Arc::new(Directory::new(bounds(2)));
    let mut ports = channel::mesh(2, 1, 1).into_iter();
    let port = ports.next().expect("two ports");
    let shard = shard_of_two(0, &directory);
    let mut core = ShardCore::new(port, shard, Arc::clone(&directory));
    let mut requests = 0;
    let mut serve = |command| {
        requests += 1;
        core.command(
            Moment::ZERO,
            client(0, requests),
            TenantId::DEFAULT,
            command,
        )
    };
    let home_of = |name: &str| placement::owner(TenantId::DEFAULT, name, DEFAULT_PARTITION, 2);
    let mut names = (0..).map(|number| format!("q{number}"));
    let here = names.find(|name| home_of(name) == 0).expect("a name");
    let there = names.find(|name| home_of(name) == 1).expect("a name");
    let to_there = || push(&there, DEFAULT_PARTITION, "1");
    assert!(matches!(serve(to_there()), Outcome::Forwarded));
    let full = serve(to_there()).reply();
    assert!(
        matches!(full, Some(Reply::Refused(Refusal::Overloaded { .. }))),
        "{full:?}"
    );
    assert!(matches!(
        serve(push(&here, DEFAULT_PARTITION, "1")).reply(),
        Some(Reply::Pushed { count: 1 })
    ));
    let reset = serve(Command::Reset(
        QueueName::new(here.as_str()).expect("a name"),
    ));
    let reset = reset.reply();
    assert!(
        matches!(reset, Some(Reply::Reset { dropped: 1 })),
        "{reset:?}"
    );
}
