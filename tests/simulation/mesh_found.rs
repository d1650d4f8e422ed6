//! Faults of several cores that the simulation found, one test each.

use queen::model::{Command, Configure, GroupName, QueueName, QueueOptions};

use crate::mesh_hops::{QUEUES, TENANT, owner, partition_away, stranger, world};
use crate::mesh_world::Kind;

/// The home told what the cell counted before other shards expired what was due there: a depth
/// showed bytes that none of its partitions had.
#[test]
fn a_depth_counts_nothing_that_has_expired_on_another_core() {
    let mut world = world();
    let queue = QUEUES[0];
    let name = || QueueName::new(queue).expect("a name");
    let (home, partition) = (owner(queue, "Default"), partition_away(queue));
    let options = QueueOptions {
        ttl_ms: Some(50),
        ..QueueOptions::default()
    };
    let effective = world.mesh.directory.bounds().effective(&options);
    let command = Command::Configure(Configure {
        queue: name(),
        options,
        options_as_sent: "{}".into(),
    });
    let kind = Kind::Configure(effective);
    world
        .ask(home, (TENANT, queue), kind, command)
        .expect("it is declared");
    world.store(owner(queue, partition), queue, partition);
    // Before the tick that expires it.
    world.mesh.now = world.mesh.now.after_ms(60);
    let command = Command::Depth {
        queue: name(),
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
