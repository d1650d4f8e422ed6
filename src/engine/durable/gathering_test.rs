//! Pops that gather, and queues that are full.

use super::durable_test::{Broker, TENANT, item, messages, pop_of};
use super::store_test::Database;
use super::*;
use crate::model::durable::{Configure, OptionChange, OptionChanges, Pop, PushStatus, Source};

const START_US: i64 = 1_700_000_000_000_000;
const NOTHING: [usize; 0] = [];

/// A queue with these options.
pub(super) fn configured(changes: OptionChanges) -> (Database, Broker) {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    let configure = Configure {
        queue: "orders".into(),
        replace: false,
        changes,
    };
    let done = configure_queue(&mut broker.memory, &mut database, TENANT, &configure);
    assert!(matches!(done, Ok(Ok(_))));
    (database, broker)
}

fn gathering(min_pop_wait_ms: u32) -> (Database, Broker) {
    configured(OptionChanges {
        min_pop_wait_ms: OptionChange::Set(min_pop_wait_ms),
        ..OptionChanges::default()
    })
}

fn waiting(batch: u32) -> Command {
    Command::Pop(Pop {
        wait_ms: Some(30_000),
        auto_ack: true,
        ..pop_of(batch, 10)
    })
}

fn push(numbers: std::ops::Range<u32>) -> Command {
    let items = numbers.map(|number| item(&format!("p{}", number % 2), &number.to_string()));
    Command::Push(items.collect())
}

/// How many messages each pop gets of what commands are answered.
fn served(broker: &mut Broker, database: &mut Database, commands: Vec<Command>) -> Vec<usize> {
    let answers = broker.serve(database, commands);
    let pops = answers.iter().map(|(_, reply)| reply);
    pops.filter(|reply| matches!(reply, Reply::Popped(_)))
        .map(|reply| messages(reply).len())
        .collect()
}

/// The clock shows a time so many milliseconds after its start.
fn at(broker: &mut Broker, ms: i64) {
    let time_us = START_US + ms * 1_000;
    broker.memory.set_clock(Instant::now(), time_us);
}

#[test]
fn it_is_held_until_it_is_full() {
    let (mut database, mut broker) = gathering(20_000);
    assert_eq!(
        served(&mut broker, &mut database, vec![push(0..1)]),
        NOTHING
    );
    assert_eq!(
        served(&mut broker, &mut database, vec![waiting(3)]),
        NOTHING
    );
    assert_eq!(
        served(&mut broker, &mut database, vec![push(1..2)]),
        NOTHING
    );
    assert_eq!(served(&mut broker, &mut database, vec![push(2..9)]), [3]);
    // What is full at once is not held, nor who takes one, nor who does not wait.
    assert_eq!(served(&mut broker, &mut database, vec![waiting(5)]), [5]);
    served(&mut broker, &mut database, vec![push(9..11)]);
    assert_eq!(served(&mut broker, &mut database, vec![waiting(1)]), [1]);
    let at_once = Command::Pop(Pop {
        auto_ack: true,
        ..pop_of(3, 10)
    });
    assert_eq!(served(&mut broker, &mut database, vec![at_once]), [2]);
}

#[test]
fn it_is_held_no_longer_than_it_was_to_be_nor_than_it_waits() {
    for (min_pop_wait_ms, over_ms) in [(20_000, 20_001), (60_000, 30_001)] {
        let (mut database, mut broker) = gathering(min_pop_wait_ms);
        served(&mut broker, &mut database, vec![push(0..1), waiting(3)]);
        at(&mut broker, over_ms - 1_000);
        assert_eq!(served(&mut broker, &mut database, vec![]), NOTHING);
        // A database that fails just then does not have it forgotten.
        at(&mut broker, over_ms);
        assert!(broker.memory.is_due(START_US + over_ms * 1_000));
        database.failures = 1;
        assert!(serve(&mut broker.memory, &mut database, &[]).is_err());
        assert_eq!(served(&mut broker, &mut database, vec![]), [1]);
    }
}

#[test]
fn who_has_gathered_gets_what_comes_and_stands_in_nobody_s_way() {
    let (mut database, mut broker) = gathering(1_000);
    served(&mut broker, &mut database, vec![waiting(9)]);
    // One that does not gather is served before it.
    served(&mut broker, &mut database, vec![waiting(1)]);
    assert_eq!(served(&mut broker, &mut database, vec![push(0..1)]), [1]);
    at(&mut broker, 2_000);
    assert_eq!(served(&mut broker, &mut database, vec![]), NOTHING);
    assert!(!broker.memory.is_due(START_US + 2_000_000));
    assert_eq!(served(&mut broker, &mut database, vec![push(1..2)]), [1]);
}

#[test]
fn one_partition_gathers_by_itself() {
    let (mut database, mut broker) = gathering(20_000);
    served(&mut broker, &mut database, vec![push(0..6)]);
    let source = Source::Partition {
        queue: "orders".into(),
        partition: "p0".into(),
    };
    let pop = Command::Pop(Pop {
        source,
        wait_ms: Some(30_000),
        auto_ack: true,
        ..pop_of(4, 1)
    });
    assert_eq!(served(&mut broker, &mut database, vec![pop]), NOTHING);
    assert_eq!(served(&mut broker, &mut database, vec![push(6..9)]), [4]);
}

#[test]
fn what_can_never_fit_is_told_from_what_may_fit_later() {
    let (mut database, mut broker) = configured(OptionChanges {
        max_size: OptionChange::Set(3),
        ..OptionChanges::default()
    });
    let mut refusal = |items: Vec<crate::model::durable::PushItem>| {
        let asked = Asked {
            client: super::durable_test::client(7),
            tenant: TENANT,
            command: Command::Push(items),
        };
        let Ok(Served::Done(mut answers)) = serve(&mut broker.memory, &mut database, &[asked])
        else {
            panic!("the database answers");
        };
        answers.remove(0).1
    };
    let items = |ids: &[&str]| ids.iter().map(|id| item("p", id)).collect::<Vec<_>>();
    let wanted = match refusal(items(&["1", "2", "3", "4"])) {
        Err(Refusal::NeverFits {
            limit: 3, wanted, ..
        }) => wanted,
        other => panic!("{other:?}"),
    };
    assert_eq!(wanted, 4);
    // Repeated ones take no room.
    let Ok(Reply::Pushed(outcomes)) = refusal(items(&["1", "2", "2", "1"])) else {
        panic!("there is room for two");
    };
    assert_eq!(outcomes[3].status, PushStatus::Duplicate { offset: 0 });
    let full = refusal(items(&["3", "4"]));
    assert!(
        matches!(full, Err(Refusal::QueueFull { limit: 3, .. })),
        "{full:?}"
    );
}
