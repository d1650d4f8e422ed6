//! A shard without sockets and JSON, for the benchmarks.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use queen::directory::{Bounds, Directory};
use queen::model::{
    Ack, AckItem, AckOutcome, ClientRef, Command, Configure, GroupName, Incarnation, MessageId,
    Moment, PartitionName, Pop, Push, QueueName, QueueOptions, Reply, TenantId, Verdict,
};
use queen::shard::{Effect, Shard, ShardSettings};

const INCARNATION: Incarnation = Incarnation(0x1a2b_3c4d_5e6f_7a8b);

/// Bytes of a payload, as in the load tests.
const PAYLOAD: &[u8] = &[b'7'; 256];

/// Where a command goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To<'a> {
    /// The queue.
    pub(crate) queue: &'a str,
    /// The partition; for a pop `None` is any.
    pub(crate) partition: Option<&'a str>,
}

/// The queue that is declared, no partition named.
pub(crate) const DECLARED: To<'static> = To {
    queue: "presence",
    partition: None,
};

/// A shard with one declared queue.
pub(crate) struct Rig {
    shard: Shard,
    now: Moment,
    client: ClientRef,
    effects: Vec<Effect>,
}

impl Rig {
    /// The queue is declared with `options`.
    pub(crate) fn new(options: QueueOptions) -> Rig {
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
            queue: name(DECLARED),
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

    /// Pushes one message, which wakes a pop if one is parked.
    pub(crate) fn push(&mut self, to: To<'_>) -> Option<Reply> {
        let partition = to.partition.map_or(PartitionName::DEFAULT, partition);
        self.apply(Command::Push(Push {
            queue: name(to),
            partition,
            payloads: vec![Bytes::from_static(PAYLOAD)],
        }))
    }

    /// Pops one message.
    pub(crate) fn pop(
        &mut self,
        from: To<'_>,
        auto_ack: bool,
        wait_ms: Option<u64>,
    ) -> Option<Reply> {
        self.apply(Command::Pop(Pop {
            queue: name(from),
            partition: from.partition.map(partition),
            group: GroupName::QUEUE_MODE,
            batch: 1,
            wait_ms,
            since: None,
            auto_ack,
        }))
    }

    /// Pops one message, which is there, and returns its number.
    pub(crate) fn take(&mut self, from: To<'_>, auto_ack: bool) -> u64 {
        match self.pop(from, auto_ack, None) {
            Some(Reply::Popped(popped)) => popped.messages[0].sequence,
            other => panic!("a message stands in the queue: {other:?}"),
        }
    }

    /// Settles a message of the declared queue by its id.
    pub(crate) fn ack(&mut self, id: &str) {
        let reply = self.apply(Command::Ack(Ack {
            queue: name(DECLARED),
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

    /// Pushes so many messages to the declared queue.
    pub(crate) fn push_many(&mut self, count: u64) {
        for _ in 0..count {
            let pushed = self.push(DECLARED);
            assert!(matches!(pushed, Some(Reply::Pushed { count: 1 })));
        }
    }
}

fn name(to: To<'_>) -> QueueName<'_> {
    QueueName::new(to.queue).expect("a valid name")
}

fn partition(name: &str) -> PartitionName<'_> {
    PartitionName::new(name).expect("a valid name")
}

/// The id of a message in the `Default` partition.
pub(crate) fn id_of(sequence: u64) -> String {
    let id = MessageId {
        incarnation: INCARNATION,
        partition: "Default",
        sequence,
    };
    id.to_string()
}
