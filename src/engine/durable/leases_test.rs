//! Leases of discoveries, which hold places of several queues.

use super::durable_test::{Broker, Message, TENANT, item, pop_of};
use super::store_test::Database;
use super::*;
use crate::model::durable::{Extend, Pop, PushItem, Source, Step, StepRefused};

const QUEUES: [&str; 3] = ["shop.a", "shop.b", "shop.c"];

/// Pushes a message to each of some queues.
fn push(broker: &mut Broker, database: &mut Database, queues: &[&str], id: &str) {
    let items = queues.iter().map(|queue| PushItem {
        queue: (*queue).into(),
        ..item("p", id)
    });
    broker.one(database, Command::Push(items.collect()));
}

fn discover(broker: &mut Broker, database: &mut Database) -> Vec<Message> {
    let source = Source::Discovery {
        namespace: Some("shop".into()),
        task: None,
    };
    let pop = Pop {
        source,
        ..pop_of(10, 10)
    };
    broker.pop(database, pop)
}

/// How many places are held for longer.
fn extend(broker: &mut Broker, database: &mut Database, lease_id: uuid::Uuid) -> u64 {
    let extend = Extend {
        lease_id: lease_id.to_string().into(),
        seconds: 60,
    };
    let Reply::Extended(extended) = broker.one(database, Command::Extend(extend)) else {
        panic!("a lease is extended");
    };
    extended.renewed.into()
}

/// A broker with a lease that holds a message of each queue.
fn leased() -> (Database, Broker, uuid::Uuid) {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    push(&mut broker, &mut database, &QUEUES, "1");
    let taken = discover(&mut broker, &mut database);
    assert_eq!(taken.len(), 3);
    let lease_id = taken[0].lease_id.expect("a lease");
    (database, broker, lease_id)
}

#[test]
fn a_lease_of_several_queues_is_extended_whole_whichever_of_them_were_forgotten() {
    let (mut database, mut broker, lease_id) = leased();
    for forgotten in [&QUEUES[..1], &QUEUES[1..], &QUEUES] {
        // Some of them are read anew before the lease is asked for.
        for read in 0..=forgotten.len() {
            for queue in forgotten {
                let slot = broker.memory.slot(TENANT, queue).expect("remembered");
                broker.memory.forget(slot);
            }
            let id = format!("{}-{read}", forgotten.len());
            push(&mut broker, &mut database, &forgotten[..read], &id);
            assert_eq!(extend(&mut broker, &mut database, lease_id), 3);
        }
    }
    assert!(discover(&mut broker, &mut database).is_empty());
}

#[test]
fn a_lease_of_several_queues_is_extended_whole_by_a_broker_that_remembers_one_of_them() {
    let (mut database, mut broker, lease_id) = leased();
    let mut other = Broker::new();
    for broker in [&mut broker, &mut other] {
        broker.memory.forget_all();
        broker.memory.followed = Some((0, Instant::now()));
        push(broker, &mut database, &QUEUES[..1], "2");
        assert_eq!(extend(broker, &mut database, lease_id), 3);
    }
}

#[test]
fn a_broker_that_remembers_a_queue_as_it_was_before_the_lease_extends_it_whole() {
    let (mut database, mut first, mut second) = (Database::default(), Broker::new(), Broker::new());
    push(&mut first, &mut database, &QUEUES, "1");
    push(&mut second, &mut database, &QUEUES[..1], "2");
    let taken = discover(&mut first, &mut database);
    let lease_id = taken[0].lease_id.expect("a lease");
    assert_eq!(extend(&mut second, &mut database, lease_id), 3);
}

#[test]
fn a_lease_of_several_queues_goes_back_whole() {
    let (mut database, _, lease_id) = leased();
    let mut other = Broker::new();
    push(&mut other, &mut database, &QUEUES[..1], "2");
    other.serve(&mut database, vec![Command::Release { lease_id }]);
    let taken = discover(&mut other, &mut database);
    assert_eq!(taken.len(), 4, "the three of the lease, and the new one");
}

#[test]
fn a_lease_is_not_extended_in_part_where_the_queue_is_gone_that_its_id_names() {
    let (mut database, mut broker, lease_id) = leased();
    let gone = delete_queue(&mut broker.memory, &mut database, TENANT, QUEUES[0]);
    assert!(matches!(gone, Ok(Ok(_))));
    let mut other = Broker::new();
    push(&mut other, &mut database, &QUEUES[1..2], "2");
    for broker in [&mut broker, &mut other] {
        assert_eq!(extend(broker, &mut database, lease_id), 0);
    }
}

#[test]
fn a_step_that_requires_a_lease_finds_what_it_still_holds() {
    let (mut database, mut broker, lease_id) = leased();
    let mut other = Broker::new();
    // What it remembers holds nothing of the lease.
    push(&mut other, &mut database, &["shop.d"], "2");
    let mut require = |broker: &mut Broker, lease_id: uuid::Uuid| {
        let step = Step {
            operations: Vec::new(),
            required_leases: vec![lease_id.to_string().into()],
        };
        let Reply::Stepped(outcome) = broker.one(&mut database, Command::Step(step)) else {
            panic!("a step is answered as one");
        };
        outcome.result
    };
    assert!(require(&mut broker, lease_id).is_ok());
    assert!(require(&mut other, lease_id).is_ok());
    let refused = require(&mut other, uuid::Uuid::new_v4());
    assert!(matches!(refused, Err(StepRefused::Lease { .. })));
}
