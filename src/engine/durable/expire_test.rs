//! What is given up because of its age, and what becomes of leases and offsets.

use super::durable_test::{Broker, TENANT, pop_of};
use super::expire::give_up;
use super::store_test::Database;
use super::*;
use crate::model::durable::Verdict;
use crate::postgres::durable::{Expired, Removed};

/// What is too old for the only group in the only partition.
fn expired(broker: &Broker, offset: i64) -> Expired {
    let slot = broker.memory.slot(TENANT, "orders").expect("it is known");
    let queue = broker.memory.queue(slot);
    Expired {
        tenant: TENANT,
        queue: "orders".into(),
        group_id: queue.groups[0].id,
        partition_id: queue.partitions[0].id,
        offset,
    }
}

#[track_caller]
fn expire(broker: &mut Broker, database: &mut Database, offset: i64) {
    let expired = expired(broker, offset);
    let served = give_up(&mut broker.memory, database, &[expired]).expect("the database answers");
    assert!(matches!(served, Served::Done(_)));
}

#[test]
fn what_is_too_old_becomes_dead_letters_even_if_it_is_leased() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1"), ("a", "2"), ("a", "3")]);
    let taken = broker.pop(&mut database, pop_of(10, 1));
    assert_eq!(taken.len(), 3);
    expire(&mut broker, &mut database, 2);
    let letters = database.dead_letters.iter();
    let letters: Vec<_> = letters
        .map(|letter| (letter.offset, &*letter.error, &*letter.transaction_id))
        .collect();
    assert_eq!(letters, [(0, "expired", "1"), (1, "expired", "2")]);
    // The lease is over, and what is left comes once more.
    let refused = broker.ack(&mut database, &taken[2], Verdict::Completed);
    assert_eq!(refused, Some(crate::model::durable::AckRefused::Lease));
    let again = broker.pop(&mut database, pop_of(10, 1));
    assert_eq!((again.len(), again[0].offset), (1, 2));
    // Once more the same: nothing is left of it.
    expire(&mut broker, &mut database, 2);
    assert_eq!(database.dead_letters.len(), 2);
    let done = broker.ack(&mut database, &again[0], Verdict::Completed);
    assert_eq!(done, None);
}

#[test]
fn another_broker_that_has_moved_the_group_meanwhile_is_not_overruled() {
    let (mut database, mut first, mut second) = (Database::default(), Broker::new(), Broker::new());
    first.push(&mut database, &[("a", "1"), ("a", "2")]);
    first.pop(&mut database, pop_of(1, 1));
    let taken = second.pop(&mut database, pop_of(1, 1));
    assert!(taken.is_empty(), "the first one has it");
    expire(&mut second, &mut database, 1);
    assert_eq!(second.pop(&mut database, pop_of(1, 1))[0].offset, 1);
    // The first one remembers its lease, and is told otherwise.
    expire(&mut first, &mut database, 1);
    assert_eq!((database.dead_letters.len(), database.stale), (1, 1));
}

#[test]
fn what_is_removed_is_not_delivered() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1"), ("a", "2")]);
    broker.push(&mut database, &[("a", "3")]);
    let slot = broker.memory.slot(TENANT, "orders").expect("it is known");
    let partition_id = broker.memory.queue(slot).partitions[0].id;
    for first_offset in [2, 1] {
        broker.memory.begin_later(Removed {
            partition_id,
            first_offset: Some(first_offset),
        });
    }
    let taken = broker.pop(&mut database, pop_of(10, 1));
    assert_eq!((taken.len(), taken[0].offset), (1, 2));
    // What is gone as a whole is not remembered either.
    broker.memory.begin_later(Removed {
        partition_id,
        first_offset: None,
    });
    assert_eq!(broker.memory.slot_of_partition(partition_id), None);
}
