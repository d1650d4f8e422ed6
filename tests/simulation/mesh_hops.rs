//! What a command costs between cores, and what a core that stalls costs others.

use queen::limits::{REPLY_LANE_SLOTS, REQUEST_LANE_SLOTS};
use queen::model::{
    Ack, AckItem, Command, DEFAULT_PARTITION, GroupName, MessageId, PartitionName, Push, QueueName,
    TenantId, Verdict,
};
use queen::placement;

use crate::mesh::MeshRules;
use crate::mesh_ledger::{GROUPS, Place};
use crate::mesh_program::PARTITIONS;
use crate::mesh_world::{Judged, Kind, PopAsked, World};

pub(crate) const TENANT: TenantId = TenantId::DEFAULT;
const CORES: u16 = 4;

/// Names of queues; which cores they live on is looked up.
pub(crate) const QUEUES: [&str; 8] = ["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7"];

pub(crate) fn world() -> World {
    World::new(
        MeshRules {
            cores: CORES,
            request_slots: REQUEST_LANE_SLOTS,
            reply_slots: REPLY_LANE_SLOTS,
            sleeps: true,
            lag_us: 0,
            incarnation: 7,
            broker_bytes: 1 << 30,
            queue_bytes: 1 << 28,
            queue_length: 1 << 20,
            lease_ms: 30_000,
            retry_limit: 5,
            ttl_tick_ms: 100,
            linger_ms: 60_000,
            idle_ms: 0,
        },
        false,
    )
}

pub(crate) fn owner(queue: &str, partition: &str) -> usize {
    usize::from(placement::owner(TENANT, queue, partition, CORES))
}

/// A core that is none of `others`.
pub(crate) fn stranger(others: &[usize]) -> usize {
    let strangers = 0..usize::from(CORES);
    let mut strangers = strangers.filter(|core| !others.contains(core));
    strangers.next().expect("there are more cores")
}

/// A partition of the queue that does not live at its home.
pub(crate) fn partition_away(queue: &str) -> &'static str {
    let home = owner(queue, DEFAULT_PARTITION);
    let away = PARTITIONS
        .iter()
        .find(|partition| owner(queue, partition) != home);
    away.expect("partitions are spread")
}

fn sent(world: &World) -> u64 {
    world.mesh.cores.iter().map(|core| core.port().sent()).sum()
}

impl World {
    /// Frames between cores until everything has come to rest after `turn`.
    fn hops(&mut self, turn: impl FnOnce(&mut World)) -> u64 {
        let before = sent(self);
        turn(self);
        self.settle_lanes().expect("it comes to rest");
        sent(self) - before
    }

    pub(crate) fn store(&mut self, core: usize, queue: &'static str, partition: &'static str) {
        let place = Place {
            tenant: TENANT,
            queue,
            partition,
        };
        let step = self.step() + 1;
        let (push, payloads) = self.ledger.push((place, core), step, &[8]);
        let command = Command::Push(Push {
            queue: QueueName::new(queue).expect("a name"),
            partition: PartitionName::new(partition).expect("a name"),
            payloads,
        });
        self.ask(core, (TENANT, queue), Kind::Push(push), command)
            .expect("a push");
    }

    pub(crate) fn take(&mut self, core: usize, queue: &'static str, asked: PopAsked) {
        self.pop(core, (TENANT, queue), asked).expect("a pop");
    }

    /// Acks everything that was taken at `core`.
    fn ack_all(&mut self, core: usize, queue: &'static str) {
        let (mut acks, mut items) = (Vec::new(), Vec::new());
        while !self.in_flight.is_empty() {
            for held in self.deliver(0) {
                let partition = self.place_of(held.message).partition;
                let (_, sequence) = self.ledger.messages[held.message].id.expect("delivered");
                let incarnation = queen::model::Incarnation(self.mesh.rules.incarnation);
                let id = MessageId {
                    incarnation,
                    partition,
                    sequence,
                };
                items.push(AckItem {
                    id: id.to_string().into(),
                    verdict: Verdict::Completed,
                });
                acks.push(Judged::Message(held.message, Verdict::Completed));
            }
        }
        let command = Command::Ack(Ack {
            queue: QueueName::new(queue).expect("a name"),
            group: GroupName::new(GROUPS[0]).expect("a name"),
            acks: items,
        });
        let kind = Kind::Ack { group: 0, acks };
        self.ask(core, (TENANT, queue), kind, command)
            .expect("an ack");
    }

    fn taken(&self) -> usize {
        self.in_flight
            .iter()
            .map(|one| one.popped.messages.len())
            .sum()
    }
}

pub(crate) fn asked(partition: Option<&'static str>, wait_ms: Option<u64>) -> PopAsked {
    PopAsked {
        partition,
        group: 0,
        batch: 10,
        wait_ms,
        auto_ack: false,
    }
}

#[test]
fn a_command_travels_to_its_owner_and_back() {
    let mut world = world();
    let queue = QUEUES[0];
    let home = owner(queue, DEFAULT_PARTITION);
    let other = stranger(&[home]);
    for (core, hops) in [(home, 0), (other, 2)] {
        let pop = asked(Some(DEFAULT_PARTITION), None);
        assert_eq!(
            world.hops(|world| world.store(core, queue, DEFAULT_PARTITION)),
            hops
        );
        assert_eq!(world.hops(|world| world.take(core, queue, pop)), hops);
        assert_eq!(world.taken(), 1);
        assert_eq!(world.hops(|world| world.ack_all(core, queue)), hops);
    }
    world.finish().expect("everything is accounted for");
}

#[test]
fn a_parked_pop_that_its_own_core_wakes_costs_nothing_more() {
    let mut world = world();
    let queue = QUEUES[1];
    let home = owner(queue, DEFAULT_PARTITION);
    let other = stranger(&[home]);
    let waiting = || asked(Some(DEFAULT_PARTITION), Some(10_000));
    assert_eq!(world.hops(|world| world.take(home, queue, waiting())), 0);
    assert_eq!(
        world.hops(|world| world.store(home, queue, DEFAULT_PARTITION)),
        0
    );
    assert_eq!(world.taken(), 1);
    // From another core: there, parked, and back when it is woken.
    assert_eq!(world.hops(|world| world.take(other, queue, waiting())), 1);
    assert_eq!(
        world.hops(|world| world.store(home, queue, DEFAULT_PARTITION)),
        1
    );
    assert_eq!(world.taken(), 2);
    world.finish().expect("everything is accounted for");
}

#[test]
fn a_pop_without_partition_costs_three_hops_and_a_notice_one() {
    let mut world = world();
    let queue = QUEUES[2];
    let home = owner(queue, DEFAULT_PARTITION);
    let partition = partition_away(queue);
    let away = owner(queue, partition);
    let other = stranger(&[home, away]);
    world.hops(|world| world.take(home, queue, asked(None, None)));
    // To the home, to the owner, to the client's core.
    assert_eq!(world.hops(|world| world.store(away, queue, partition)), 0);
    assert_eq!(
        world.hops(|world| world.take(other, queue, asked(None, None))),
        3
    );
    assert_eq!(world.taken(), 1);
    // From the home's own client one less.
    world.hops(|world| world.store(away, queue, partition));
    assert_eq!(
        world.hops(|world| world.take(home, queue, asked(None, None))),
        2
    );
    assert_eq!(world.taken(), 2);
    // What waits at home is told by a notice.
    let waiting = asked(None, Some(10_000));
    assert_eq!(world.hops(|world| world.take(other, queue, waiting)), 1);
    assert_eq!(world.hops(|world| world.store(away, queue, partition)), 3);
    assert_eq!(world.taken(), 3);
    // And what is pushed at home needs none.
    let waiting = asked(None, Some(10_000));
    assert_eq!(world.hops(|world| world.take(other, queue, waiting)), 1);
    assert_eq!(
        world.hops(|world| world.store(home, queue, DEFAULT_PARTITION)),
        1
    );
    assert_eq!(world.taken(), 4);
    world.finish().expect("everything is accounted for");
}

#[test]
fn acks_of_several_owners_cost_two_hops_for_each_other_owner() {
    let mut world = world();
    let queue = QUEUES[2];
    let home = owner(queue, DEFAULT_PARTITION);
    let partition = partition_away(queue);
    let away = owner(queue, partition);
    for (core, hops) in [(home, 2), (away, 2), (stranger(&[home, away]), 4)] {
        world.hops(|world| world.store(home, queue, DEFAULT_PARTITION));
        world.hops(|world| world.store(away, queue, partition));
        for partition in [DEFAULT_PARTITION, partition] {
            world.hops(|world| world.take(core, queue, asked(Some(partition), None)));
        }
        assert_eq!(world.taken(), 2);
        assert_eq!(world.hops(|world| world.ack_all(core, queue)), hops);
    }
    world.finish().expect("everything is accounted for");
}

/// Rounds of turns of all cores that have any, until nothing is on its way to one of them.
fn turns_until_answered(world: &mut World) -> u32 {
    let mut turns = 0;
    while !world.open.is_empty() {
        for core in 0..world.mesh.len() {
            for from in 0..world.mesh.len() {
                while world.receive(core, from).expect("a turn") {}
            }
        }
        turns += 1;
        assert!(turns < 100, "not answered: {:?}", world.open);
    }
    turns
}

#[test]
fn a_stalled_core_costs_its_own_keys_only() {
    let mut world = world();
    let of_core = |core: usize| {
        let mut queues = QUEUES.iter();
        let found = queues.find(|queue| owner(queue, DEFAULT_PARTITION) == core);
        *found.expect("queues are spread")
    };
    let stalled = owner(QUEUES[0], DEFAULT_PARTITION);
    let served = owner(
        QUEUES
            .iter()
            .find(|queue| owner(queue, DEFAULT_PARTITION) != stalled)
            .expect("queues are spread"),
        DEFAULT_PARTITION,
    );
    let asker = stranger(&[stalled, served]);
    let (of_stalled, of_served) = (of_core(stalled), of_core(served));
    world.store(asker, of_served, DEFAULT_PARTITION);
    let before = turns_until_answered(&mut world);
    world.mesh.stall(stalled, 1_000);
    // As many requests wait for it as its lane holds; one more is refused at once.
    for _ in 0..REQUEST_LANE_SLOTS {
        world.store(asker, of_stalled, DEFAULT_PARTITION);
    }
    let waiting = world.open.len();
    assert_eq!(waiting, REQUEST_LANE_SLOTS);
    assert_eq!(
        world
            .reached
            .get("a refusal for want of room in a lane or time"),
        None
    );
    for refused in 1..10 {
        world.store(asker, of_stalled, DEFAULT_PARTITION);
        let refusals = world.reached["a refusal for want of room in a lane or time"];
        assert_eq!((refusals, world.open.len()), (refused, waiting));
    }
    // Other keys are answered in as many turns as before.
    let held = std::mem::take(&mut world.open);
    world.store(asker, of_served, DEFAULT_PARTITION);
    assert_eq!(turns_until_answered(&mut world), before);
    world.take(asker, of_served, asked(Some(DEFAULT_PARTITION), None));
    assert_eq!(turns_until_answered(&mut world), before);
    assert_eq!(world.taken(), 2);
    world.open = held;
    // When it goes on, everybody is answered and nothing is lost.
    world.sleep_ms(1_000).expect("time passes");
    world.settle_lanes().expect("it comes to rest");
    assert!(world.open.is_empty());
    let pops = REQUEST_LANE_SLOTS / 10 + 1;
    for _ in 0..pops {
        world.hops(|world| world.take(asker, of_stalled, asked(None, None)));
    }
    assert_eq!(world.taken(), 2 + REQUEST_LANE_SLOTS);
    world.finish().expect("everything is accounted for");
}
