//! Faults of several cores that the simulation found, one test each.

use queen::model::{Command, Configure, GroupName, QueueName, QueueOptions, WindowBuffer};

use crate::mesh_hops::{QUEUES, TENANT, asked, owner, partition_away, stranger, world};
use crate::mesh_world::{Kind, World};

fn configure(world: &mut World, queue: &'static str, options: QueueOptions) {
    let effective = world.mesh.directory.bounds().effective(&options);
    let command = Command::Configure(Configure {
        queue: QueueName::new(queue).expect("a name"),
        options,
        options_as_sent: "{}".into(),
        stored: false,
    });
    let kind = Kind::Configure(effective);
    world
        .ask(owner(queue, "Default"), (TENANT, queue), kind, command)
        .expect("it is declared");
}

/// The home told what the cell counted before other shards expired what was due there: a depth
/// showed bytes that none of its partitions had.
#[test]
fn a_depth_counts_nothing_that_has_expired_on_another_core() {
    let mut world = world();
    let queue = QUEUES[0];
    let (home, partition) = (owner(queue, "Default"), partition_away(queue));
    configure(
        &mut world,
        queue,
        QueueOptions {
            ttl_ms: Some(50),
            ..QueueOptions::default()
        },
    );
    world.store(owner(queue, partition), queue, partition);
    // Before the tick that expires it.
    world.mesh.now = world.mesh.now.after_ms(60);
    let command = Command::Depth {
        queue: QueueName::new(queue).expect("a name"),
        group: Some(GroupName::QUEUE_MODE),
    };
    let other = stranger(&[home]);
    world
        .ask(other, (TENANT, queue), Kind::Depth, command)
        .expect("it is there");
    world.settle_lanes().expect("it comes to rest");
    let depth = world.depth.take().expect("it was told");
    assert_eq!((depth.pending, depth.bytes, depth.drops.ttl), (0, 0, 1));
}

/// A pop parked by a window that was gone again before another shard learned of it: that shard saw
/// no change, told nobody what it had, and the pop waited for its whole time.
#[test]
fn a_window_that_came_and_went_leaves_nobody_waiting() {
    let mut world = world();
    let queue = QUEUES[0];
    let (home, partition) = (owner(queue, "Default"), partition_away(queue));
    world.take(home, queue, asked(None, None));
    world.store(owner(queue, partition), queue, partition);
    world.settle_lanes().expect("it comes to rest");
    let window_buffer = WindowBuffer { ms: 0, count: 3 };
    configure(
        &mut world,
        queue,
        QueueOptions {
            window_buffer,
            ..QueueOptions::default()
        },
    );
    world.take(home, queue, asked(None, Some(60_000)));
    configure(&mut world, queue, QueueOptions::default());
    assert!(world.in_flight.is_empty());
    world.settle_lanes().expect("it comes to rest");
    assert_eq!(world.in_flight.len(), 1);
    world.finish().expect("everything is accounted for");
}
