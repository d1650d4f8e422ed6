//! `Shard::apply` for push, pop and ack: what the owner of a ring costs without sockets and JSON.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use queen::directory::{Bounds, Directory};
use queen::model::{
    Ack, AckItem, AckOutcome, ClientRef, Command, Configure, GroupName, Incarnation, MessageId,
    Moment, PartitionName, Policy, Pop, Push, QueueName, QueueOptions, Reply, TenantId, Verdict,
};
use queen::shard::{Effect, Shard, ShardSettings};

const INCARNATION: Incarnation = Incarnation(0x1a2b_3c4d_5e6f_7a8b);

/// Bytes of a payload, as in the load tests.
const PAYLOAD: &[u8] = &[b'7'; 256];

/// Messages that stand in the queue while one operation after the other is timed.
const STANDING: u64 = 1_000;

/// A shard with one queue.
struct Rig {
    shard: Shard,
    now: Moment,
    client: ClientRef,
    effects: Vec<Effect>,
}

impl Rig {
    fn new(options: QueueOptions) -> Rig {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: 1 << 30,
            queue_bytes: 1 << 28,
            queue_length: 1 << 20,
            lease_ms: 30_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 10,
            shards: 1,
        }));
        let settings = ShardSettings {
            incarnation: INCARNATION,
            shard: 0,
            shards: 1,
            ttl_tick_ms: 100,
            linger_ms: 60_000,
            implicit_idle_ms: 600_000,
        };
        let mut rig = Rig {
            shard: Shard::new(settings, directory),
            now: Moment::ZERO,
            client: ClientRef {
                core: 0,
                connection: 0,
                request: 0,
                generation: 0,
            },
            effects: Vec::new(),
        };
        let declared = rig.apply(Command::Configure(Configure {
            queue: queue(),
            options,
            options_as_sent: Cow::Borrowed("{}"),
            stored: false,
        }));
        assert!(matches!(declared, Some(Reply::Configured { .. })));
        rig
    }

    /// Applies one command a microsecond after the one before it; the last answer is returned.
    fn apply(&mut self, mut command: Command<'_>) -> Option<Reply> {
        self.now = Moment::from_us(self.now.as_us() + 1);
        self.client.request += 1;
        let tenant = TenantId::DEFAULT;
        self.shard.apply(
            self.now,
            self.client,
            tenant,
            &mut command,
            &mut self.effects,
        );
        let last = self.effects.pop();
        self.effects.clear();
        last.map(|effect| match effect {
            Effect::Answer { reply, .. } => reply,
            Effect::Tell { .. } => panic!("a lone shard has nobody to tell"),
        })
    }

    fn push(&mut self) -> Option<Reply> {
        self.apply(Command::Push(Push {
            queue: queue(),
            partition: PartitionName::DEFAULT,
            payloads: vec![Bytes::from_static(PAYLOAD)],
        }))
    }

    fn pop(&mut self, auto_ack: bool, wait_ms: Option<u64>) -> Option<Reply> {
        self.apply(Command::Pop(Pop {
            queue: queue(),
            partition: None,
            group: GroupName::QUEUE_MODE,
            batch: 1,
            wait_ms,
            since: None,
            auto_ack,
        }))
    }

    /// Pops one message and returns its number.
    fn take(&mut self, auto_ack: bool) -> u64 {
        match self.pop(auto_ack, None) {
            Some(Reply::Popped(popped)) => popped.messages[0].sequence,
            other => panic!("a message stands in the queue: {other:?}"),
        }
    }

    fn ack(&mut self, id: &str) {
        let reply = self.apply(Command::Ack(Ack {
            queue: queue(),
            group: GroupName::QUEUE_MODE,
            acks: vec![AckItem {
                id: Cow::Borrowed(id),
                verdict: Verdict::Completed,
            }],
        }));
        match reply {
            Some(Reply::Acked(outcomes)) => assert_eq!(outcomes, [AckOutcome::Acked]),
            other => panic!("the lease is live: {other:?}"),
        }
    }

    fn push_many(&mut self, count: u64) {
        for _ in 0..count {
            assert!(matches!(self.push(), Some(Reply::Pushed { count: 1 })));
        }
    }
}

fn queue() -> QueueName<'static> {
    QueueName::new("presence").expect("a valid name")
}

fn id_of(sequence: u64) -> String {
    let id = MessageId {
        incarnation: INCARNATION,
        partition: "Default",
        sequence,
    };
    id.to_string()
}

/// Has `work` time its operation on `iterations` messages, in portions that are pushed untimed.
fn in_portions(iterations: u64, mut work: impl FnMut(&mut Rig, u64) -> Duration) -> Duration {
    let mut rig = Rig::new(QueueOptions::default());
    let mut total = Duration::ZERO;
    let mut left = iterations;
    while left > 0 {
        let portion = left.min(STANDING);
        rig.push_many(portion);
        total += work(&mut rig, portion);
        left -= portion;
    }
    total
}

fn pops(rig: &mut Rig, portion: u64, auto_ack: bool) -> Duration {
    let mut ids = Vec::new();
    let started = Instant::now();
    for _ in 0..portion {
        ids.push(black_box(rig.take(auto_ack)));
    }
    let elapsed = started.elapsed();
    for id in ids.into_iter().filter(|_| !auto_ack) {
        rig.ack(&id_of(id));
    }
    elapsed
}

fn acks(rig: &mut Rig, portion: u64) -> Duration {
    let ids: Vec<String> = (0..portion).map(|_| id_of(rig.take(false))).collect();
    let started = Instant::now();
    for id in &ids {
        rig.ack(black_box(id));
    }
    started.elapsed()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("shard");
    group.throughput(Throughput::Elements(1));
    group.bench_function("push_dropping_oldest", |bencher| {
        let mut rig = Rig::new(QueueOptions {
            max_length: Some(STANDING),
            policy: Policy::DropOldest,
            ..QueueOptions::default()
        });
        bencher.iter(|| rig.push_many(1));
    });
    group.bench_function("pop_leased", |bencher| {
        bencher.iter_custom(|iterations| in_portions(iterations, |rig, n| pops(rig, n, false)));
    });
    group.bench_function("pop_auto_ack", |bencher| {
        bencher.iter_custom(|iterations| in_portions(iterations, |rig, n| pops(rig, n, true)));
    });
    group.bench_function("ack", |bencher| {
        bencher.iter_custom(|iterations| in_portions(iterations, acks));
    });
    group.bench_function("push_pop_ack", |bencher| {
        let mut rig = Rig::new(QueueOptions::default());
        bencher.iter(|| {
            rig.push_many(1);
            let sequence = rig.take(false);
            rig.ack(&id_of(sequence));
        });
    });
    group.bench_function("park_and_wake", |bencher| {
        let mut rig = Rig::new(QueueOptions::default());
        bencher.iter(|| {
            assert!(rig.pop(true, Some(30_000)).is_none(), "the queue is empty");
            rig.push()
        });
    });
    group.finish();
    criterion.final_summary();
}
