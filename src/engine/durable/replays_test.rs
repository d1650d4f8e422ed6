//! Dead letters that are pushed once more, by brokers on one database; and who waits meanwhile.

use super::durable_test::{Broker, TENANT, ack_of, pop_of};
use super::store_test::Database;
use super::*;
use crate::model::durable::{
    Address, Administer, Administered, Configure, LetterFilter, OptionChange, OptionChanges,
    Replay, Replayed, Verdict,
};

/// A database in which so many messages were given up, and who did it.
fn given_up(count: usize) -> (Database, Broker, Vec<Address>) {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    let ids: Vec<String> = (0..count).map(|number| format!("t{number}")).collect();
    let items: Vec<(&str, &str)> = ids.iter().map(|id| ("p", &**id)).collect();
    broker.push(&mut database, &items);
    let mut addresses = Vec::new();
    for _ in 0..count {
        let message = broker.pop(&mut database, pop_of(1, 1)).remove(0);
        let refused = broker.ack(&mut database, &message, Verdict::DeadLetter);
        assert_eq!(refused, None);
        addresses.push(Address {
            partition: message.partition_id.to_string().into(),
            partition_id: Some(message.partition_id),
            transaction_id: ack_of(&message, Verdict::DeadLetter).transaction_id,
        });
    }
    assert_eq!(database.dead_letters.len(), count);
    (database, broker, addresses)
}

fn administer(broker: &mut Broker, database: &mut Database, asked: Administer) -> Administered {
    let command = Command::Administer(Box::new(asked));
    let Reply::Administered(answer) = broker.one(database, command) else {
        panic!("an operator is answered as one");
    };
    *answer
}

fn replay(broker: &mut Broker, database: &mut Database, asked: Replay) -> Option<Replayed> {
    match administer(broker, database, Administer::Replay(asked)) {
        Administered::Replayed { replayed, .. } => replayed.map(|one| *one),
        answer => panic!("{answer:?} is no answer to a replay"),
    }
}

#[test]
fn a_dead_letter_comes_back_once_with_an_id_of_its_own() {
    let (mut database, mut broker, addresses) = given_up(2);
    let mut other = Broker::new();
    let asked = Replay::Newest(addresses[1].clone());
    let replayed = replay(&mut other, &mut database, asked.clone()).expect("it is there");
    assert_eq!(
        (replayed.letter_id, replayed.offset, replayed.duplicate),
        (1, 2, false)
    );
    assert_eq!((&*replayed.queue, &*replayed.partition), ("orders", "p"));
    assert_eq!(
        (&*replayed.group, &*replayed.transaction_id),
        ("workers", "t1")
    );
    assert!(replay(&mut broker, &mut database, asked).is_none());
    let message = other.pop(&mut database, pop_of(10, 1)).remove(0);
    assert_eq!(
        (&*message.record.transaction_id, message.offset),
        (&b"dlq:1"[..], 2)
    );
    assert_eq!(message.record.message_id, replayed.message_id);
    assert_eq!(&*message.record.payload, b"\"t1\"");
}

#[test]
fn what_another_broker_has_replayed_is_judged_anew() {
    let (mut database, mut broker, addresses) = given_up(1);
    let (mut other, mut first) = (Broker::new(), database.clone());
    let asked = || Administer::Replay(Replay::Newest(addresses[0].clone()));
    // Judged on the same rows; the second finds its rows changed.
    administer(&mut other, &mut first, asked());
    database = first;
    let stale = database.stale;
    let answer = administer(&mut broker, &mut database, asked());
    assert!(matches!(
        answer,
        Administered::Replayed { replayed: None, .. }
    ));
    broker.push(&mut database, &[("p", "next")]);
    assert!(database.stale > stale, "the first broker was behind");
    let delivered = broker.pop(&mut database, pop_of(10, 1));
    let ids: Vec<&[u8]> = delivered
        .iter()
        .map(|one| &*one.record.transaction_id)
        .collect();
    assert_eq!(ids, [&b"dlq:0"[..], b"next"]);
}

#[test]
fn a_replay_may_go_elsewhere_and_a_repeat_is_recognised_there() {
    let (mut database, mut broker, _) = given_up(2);
    let elsewhere = |id: i64| Replay::One {
        id: id.to_string().into(),
        letter_id: Some(id),
        queue: Some("elsewhere".into()),
        partition: Some("q".into()),
    };
    let replayed = replay(&mut broker, &mut database, elsewhere(0)).expect("it is there");
    assert_eq!(
        (&*replayed.queue, &*replayed.partition, replayed.offset),
        ("elsewhere", "q", 0)
    );
    assert!(replay(&mut broker, &mut database, elsewhere(0)).is_none());
    assert!(replay(&mut broker, &mut database, elsewhere(7)).is_none());
    // Somebody has pushed that very id by hand.
    broker.push(&mut database, &[("p", "dlq:1")]);
    let here = Replay::One {
        id: "1".into(),
        letter_id: Some(1),
        queue: None,
        partition: None,
    };
    let replayed = replay(&mut broker, &mut database, here).expect("it is there");
    assert!(replayed.duplicate);
    assert_eq!(replayed.offset, 2);
}

#[test]
fn all_that_are_meant_come_back_in_the_order_in_which_they_were_given_up() {
    let (mut database, mut broker, _) = given_up(3);
    let filter = LetterFilter {
        queue: Some("orders".into()),
        ..LetterFilter::default()
    };
    let asked = || Administer::ReplayLetters(filter.clone());
    let answer = administer(&mut broker, &mut database, asked());
    let Administered::LettersReplayed {
        moved,
        duplicates,
        unreadable,
        more,
    } = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!((moved, duplicates, unreadable, more), (3, 0, 0, false));
    let delivered = broker.pop(&mut database, pop_of(10, 1));
    let ids: Vec<&[u8]> = delivered
        .iter()
        .map(|one| &*one.record.transaction_id)
        .collect();
    assert_eq!(ids, [&b"dlq:0"[..], b"dlq:1", b"dlq:2"]);
    let answer = administer(&mut broker, &mut database, asked());
    assert!(matches!(
        answer,
        Administered::LettersReplayed { moved: 0, .. }
    ));
}

#[test]
fn who_waits_gets_what_is_replayed() {
    let (mut database, mut broker, addresses) = given_up(1);
    let mut pop = pop_of(1, 1);
    pop.wait_ms = Some(60_000);
    assert!(
        broker
            .serve(&mut database, vec![Command::Pop(pop)])
            .is_empty()
    );
    let asked = Administer::Replay(Replay::Newest(addresses[0].clone()));
    let answers = broker.serve(&mut database, vec![Command::Administer(Box::new(asked))]);
    assert_eq!(answers.len(), 2, "{answers:?}");
}

#[test]
fn who_waits_is_registered_anew_when_the_queue_was_deleted() {
    let (mut database, mut broker, _) = given_up(1);
    let mut pop = pop_of(1, 1);
    pop.wait_ms = Some(60_000);
    assert!(
        broker
            .serve(&mut database, vec![Command::Pop(pop)])
            .is_empty()
    );
    let deleted = delete_queue(&mut broker.memory, &mut database, TENANT, "orders");
    assert!(matches!(deleted, Ok(Ok(Reply::Deleted { existed: true }))));
    assert!(broker.memory.is_due(0), "who waits is looked at");
    assert!(broker.serve(&mut database, Vec::new()).is_empty());
    let item = super::durable_test::item("p", "anew");
    let answers = broker.serve(&mut database, vec![Command::Push(vec![item])]);
    assert_eq!(answers.len(), 2, "{answers:?}");
}

#[test]
fn a_replay_is_as_old_as_a_push_and_fits_where_a_push_fits() {
    let (mut database, mut broker, addresses) = given_up(2);
    let configure = Configure {
        queue: "orders".into(),
        replace: false,
        changes: OptionChanges {
            max_size: OptionChange::Set(1),
            ..OptionChanges::default()
        },
    };
    let configured = configure_queue(&mut broker.memory, &mut database, TENANT, &configure);
    assert!(matches!(configured, Ok(Ok(Reply::Configured(_)))));
    let later = Instant::now();
    broker.memory.set_clock(later, 1_700_000_500_000_000);
    let asked = |address: &Address| Administer::Replay(Replay::Newest(address.clone()));
    administer(&mut broker, &mut database, asked(&addresses[0]));
    let refused = |broker: &mut Broker, database: &mut Database, asked: Administer| {
        let asked = Asked {
            client: ClientRef::NOBODY,
            tenant: TENANT,
            command: Command::Administer(Box::new(asked)),
        };
        match serve(&mut broker.memory, database, &[asked]).expect("the database answers") {
            Served::Done(answers) => matches!(answers[0].1, Err(Refusal::QueueFull { .. })),
            Served::Contended => false,
        }
    };
    assert!(refused(&mut broker, &mut database, asked(&addresses[1])));
    let all = Administer::ReplayLetters(LetterFilter::default());
    assert!(refused(&mut broker, &mut database, all));
    let message = broker.pop(&mut database, pop_of(10, 1)).remove(0);
    assert!(message.record.created_us >= 1_700_000_500_000_000);
    broker.ack(&mut database, &message, Verdict::Completed);
    assert!(
        replay(
            &mut broker,
            &mut database,
            Replay::Newest(addresses[1].clone())
        )
        .is_some()
    );
}
