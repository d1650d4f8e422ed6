//! Faults of queues that lie on several shards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use queen::directory::{Bounds, Directory};
use queen::model::{
    ClientRef, Command, DEFAULT_PARTITION, Incarnation, Moment, PartitionName, Pop, Push,
    QueueName, Reply, TenantId,
};
use queen::placement;
use queen::shard::{Effect, Shard, ShardSettings};
use serde_json::{Value, json};

use super::{bounds, pop_of, queue};
use crate::support::{Broker, Client, Plan, Queue, Setup};

const SHARDS: u16 = 4;

fn broker() -> Broker {
    Plan::new(Setup::with_shards(SHARDS)).start()
}

/// A queue, and a partition of it on every shard but its home.
fn spread_queue(broker: &Broker, name: &str) -> (Queue, Vec<String>) {
    let name = format!("{name}-spread");
    let owner = |partition: &str| placement::owner(TenantId::DEFAULT, &name, partition, SHARDS);
    let mut found = BTreeMap::new();
    for number in 0..1_000 {
        let partition = format!("p{number}");
        found.entry(owner(&partition)).or_insert(partition);
    }
    found.remove(&owner(DEFAULT_PARTITION));
    assert_eq!(found.len(), usize::from(SHARDS) - 1);
    (broker.queue_named(&name), found.into_values().collect())
}

fn window(ms: u64, count: u64) -> Value {
    json!({"windowBuffer": {"ms": ms, "count": count}})
}

pub(crate) fn shard_of_two(shard: u16, directory: &Arc<Directory>) -> Shard {
    let settings = ShardSettings {
        incarnation: Incarnation(1),
        shard,
        shards: 2,
        ttl_tick_ms: 100,
        linger_ms: 0,
        implicit_idle_ms: 0,
    };
    Shard::new(settings, Arc::clone(directory))
}

/// Other shards change their marks at any time: a pop that saw one must not look again and find none.
#[test]
fn a_mark_may_go_while_a_pop_is_served() {
    const QUEUE: &str = "q";
    let directory = Arc::new(Directory::new(bounds(2)));
    let home = placement::owner(TenantId::DEFAULT, QUEUE, DEFAULT_PARTITION, 2);
    let mut shard = shard_of_two(home, &directory);
    let mut effects = Vec::new();
    let mut pop = |request| {
        let pop = Pop {
            wait_ms: Some(1_000),
            ..pop_of("g")
        };
        let client = ClientRef {
            core: home,
            connection: 0,
            request,
            generation: 0,
        };
        let (tenant, mut command) = (TenantId::DEFAULT, Command::Pop(pop));
        shard.apply(Moment::ZERO, client, tenant, &mut command, &mut effects);
        shard.abandon(Moment::ZERO, client, &mut effects);
        effects.clear();
    };
    pop(0);
    let cell = directory.peek(TenantId::DEFAULT, QUEUE).expect("a queue");
    let group = cell.groups_since(0).remove(0);
    let goes_on = Arc::new(());
    let watched = Arc::downgrade(&goes_on);
    let other = thread::spawn(move || {
        while watched.strong_count() > 0 {
            group.set_ready(1 - home, true);
            group.set_ready(1 - home, false);
        }
    });
    for request in 1..2_000_000 {
        pop(request);
    }
    drop(goes_on);
    other.join().expect("the other shard's thread");
}

/// A pop that was filled by the first of several shards left the others uncounted.
#[test]
fn a_window_counts_what_an_earlier_pop_left_at_other_shards() {
    let broker = broker();
    let (queue, partitions) = spread_queue(&broker, "left");
    queue.configure(window(100, 1_000));
    queue.pop("");
    for partition in &partitions {
        queue.push_to(partition, &[json!(partition)]);
    }
    let mut client = broker.client();
    client.set_read_limit(Duration::from_secs(10));
    for _ in &partitions {
        let got = pop_waiting(&mut client, &queue, "batch=1&autoAck=true");
        assert_eq!(got, 1);
    }
}

/// Only pops for which something lay at the home were looked at when a window changed.
#[test]
fn a_changed_window_releases_what_lies_at_other_shards() {
    let broker = broker();
    for (number, changed) in [window(0, 2), window(300, 20), json!({})]
        .into_iter()
        .enumerate()
    {
        let (queue, partitions) = spread_queue(&broker, &format!("changed-{number}"));
        queue.configure(window(0, 10));
        queue.push_to(&partitions[0], &[json!(1), json!(2), json!(3)]);
        let mut parked = queue.park(broker.client(), "batch=100&timeout=60000");
        parked.client().set_read_limit(Duration::from_secs(10));
        queue.configure(changed);
        assert_eq!(parked.messages().len(), 3);
    }
}

/// Messages that a pop got which waits for longer than the client does.
fn pop_waiting(client: &mut Client, queue: &Queue, query: &str) -> usize {
    let target = queue.pop_target(&format!("{query}&wait=true&timeout=60000"));
    let answer = client.get(&target).expect(200);
    answer["messages"].as_array().expect("messages").len()
}

/// Pushes `payloads` and drops them again; the answer.
fn push_and_reset(shard: &mut Shard, partition: &str, payloads: Vec<Bytes>) -> Reply {
    let client = ClientRef {
        core: 0,
        connection: 0,
        request: 0,
        generation: 0,
    };
    let push = Push {
        queue: queue(),
        partition: PartitionName::new(partition).expect("a name"),
        payloads,
    };
    let mut effects = Vec::new();
    let mut run = |mut command| {
        shard.apply(
            Moment::ZERO,
            client,
            TenantId::DEFAULT,
            &mut command,
            &mut effects,
        );
    };
    run(Command::Push(push));
    run(Command::Reset(QueueName::new("q").expect("a name")));
    match effects.swap_remove(0) {
        Effect::Answer { reply, .. } => reply,
        other => panic!("{other:?}"),
    }
}

/// A push that was refused took room for a moment, and others were refused for want of it.
#[test]
fn a_refused_push_refuses_nobody_else() {
    let directory = Arc::new(Directory::new(Bounds {
        broker_bytes: 500,
        queue_bytes: 650,
        ..bounds(2)
    }));
    let mut small = shard_of_two(0, &directory);
    let mut large = shard_of_two(1, &directory);
    let goes_on = Arc::new(());
    let watched = Arc::downgrade(&goes_on);
    let other = thread::spawn(move || {
        let payload = Bytes::from(vec![b'1'; 600]);
        while watched.strong_count() > 0 {
            let reply = push_and_reset(&mut large, "large", vec![payload.clone()]);
            assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
        }
    });
    let payload = Bytes::from(vec![b'1'; 100]);
    for _ in 0..300_000 {
        let reply = push_and_reset(&mut small, "small", vec![payload.clone()]);
        assert!(matches!(reply, Reply::Pushed { count: 1 }), "{reply:?}");
    }
    drop(goes_on);
    other.join().expect("the other shard's thread");
}
