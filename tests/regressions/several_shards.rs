//! Faults of queues that lie on several shards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use queen::directory::Directory;
use queen::model::{ClientRef, Command, DEFAULT_PARTITION, Incarnation, Moment, Pop, TenantId};
use queen::placement;
use queen::shard::{Shard, ShardSettings};
use serde_json::{Value, json};

use super::{bounds, pop_of};
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

/// Other shards change their marks at any time: a pop that saw one must not look again and find none.
#[test]
fn a_mark_may_go_while_a_pop_is_served() {
    const QUEUE: &str = "q";
    let directory = Arc::new(Directory::new(bounds(2)));
    let home = placement::owner(TenantId::DEFAULT, QUEUE, DEFAULT_PARTITION, 2);
    let settings = ShardSettings {
        incarnation: Incarnation(1),
        shard: home,
        shards: 2,
        ttl_tick_ms: 100,
        linger_ms: 0,
        implicit_idle_ms: 0,
    };
    let mut shard = Shard::new(settings, Arc::clone(&directory));
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
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                group.set_ready(1 - home, true);
                group.set_ready(1 - home, false);
            }
        });
        for request in 1..200_000 {
            pop(request);
        }
        done.store(true, Ordering::Relaxed);
    });
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
