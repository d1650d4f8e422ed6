//! Encrypted messages between brokers that know more or less of each other, and of the key.

use super::durable_test::{Broker, TENANT, client, item, messages, pop_of};
use super::follow::follow;
use super::store::Store;
use super::store_test::Database;
use super::*;
use crate::engine::seal::Seal;
use crate::limits::DURABLE_REFUSALS_MAX;
use crate::model::durable::{
    Administer, Administered, Configure, LetterFilter, OptionChange, OptionChanges, Pop,
    PushStatus, Unopened, Verdict,
};
use crate::postgres::durable::NewSegment;

fn broker(key: u8) -> Broker {
    let mut broker = Broker::new();
    broker.memory.rules.seal = Seal::new(&[key; 32]);
    broker
}

/// Switches the encryption of the queue.
fn encrypt(broker: &mut Broker, database: &mut Database, on: bool, replace: bool) {
    let configure = Configure {
        queue: "orders".into(),
        replace,
        changes: OptionChanges {
            encryption: OptionChange::Set(on),
            ..OptionChanges::default()
        },
    };
    let answer = configure_queue(&mut broker.memory, database, TENANT, &configure);
    let Ok(Ok(Reply::Configured(configured))) = answer else {
        panic!("a queue is configured");
    };
    assert_eq!(
        configured.unencrypted,
        on && !broker.memory.rules.seal.has_key()
    );
}

fn settled_at_once() -> Pop {
    Pop {
        auto_ack: true,
        ..pop_of(10, 10)
    }
}

/// What is refused of a request.
#[track_caller]
fn refused(broker: &mut Broker, database: &mut Database, command: Command) -> Refusal {
    let asked = Asked {
        client: client(77),
        tenant: TENANT,
        command,
    };
    let served = serve(&mut broker.memory, database, &[asked]).expect("the database answers");
    let Served::Done(mut answers) = served else {
        panic!("nobody else is there");
    };
    assert_eq!(answers.len(), 1);
    answers.remove(0).1.expect_err("it is refused")
}

fn why(refusal: Refusal) -> Unopened {
    match refusal {
        Refusal::Unopened { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_has_not_heard_of_the_option_delivers_plain_text_all_the_same() {
    let (mut database, mut first, mut second) = (Database::default(), broker(1), broker(1));
    second.push(&mut database, &[("a", "0")]);
    encrypt(&mut first, &mut database, true, false);
    first.push(&mut database, &[("a", "1")]);
    // Its memory is behind. It pushes, and takes what it finds out about in the same batch.
    let push = Command::Push(vec![item("a", "2")]);
    let answers = second.serve(&mut database, vec![push, Command::Pop(settled_at_once())]);
    assert_eq!(database.stale, 1);
    let taken = messages(&answers[1].1);
    let payloads: Vec<_> = taken.iter().map(|one| one.record.payload.clone()).collect();
    assert_eq!(payloads, ["\"0\"", "\"1\"", "\"2\""]);
    assert!(taken.iter().all(|message| !message.record.encrypted));
}

#[test]
fn what_was_encrypted_is_read_when_the_option_is_gone() {
    for replace in [false, true] {
        let (mut database, mut first) = (Database::default(), broker(1));
        encrypt(&mut first, &mut database, true, false);
        first.push(&mut database, &[("a", "1"), ("a", "2")]);
        encrypt(&mut first, &mut database, false, replace);
        first.push(&mut database, &[("a", "3")]);
        let taken = broker(1).pop(&mut database, settled_at_once());
        let payloads: Vec<_> = taken.iter().map(|one| one.record.payload.clone()).collect();
        assert_eq!(payloads, ["\"1\"", "\"2\"", "\"3\""]);
    }
}

#[test]
fn who_has_not_heard_of_the_option_and_changes_others_does_not_hide_what_is_encrypted() {
    let (mut database, mut first) = (Database::default(), broker(1));
    first.push(&mut database, &[("a", "1")]);
    let load = |database: &mut Database| {
        let load = database.load_queue(TENANT, "orders");
        load.expect("the database answers").queue.expect("a queue")
    };
    let row = load(&mut database);
    encrypt(&mut first, &mut database, true, false);
    // What another broker stores that has read the options before.
    assert_eq!(database.save_queue(&row), Ok(true));
    first.push(&mut database, &[("a", "2")]);
    assert!(!load(&mut database).options.encryption);
    let taken = broker(1).pop(&mut database, settled_at_once());
    let payloads: Vec<_> = taken.iter().map(|one| one.record.payload.clone()).collect();
    assert_eq!(payloads, ["\"1\"", "\"2\""]);
    assert!(taken.iter().all(|message| !message.record.encrypted));
}

#[test]
fn a_pop_that_waits_is_told_and_takes_nothing() {
    let (mut database, mut first, mut second) = (Database::default(), broker(1), broker(2));
    encrypt(&mut first, &mut database, true, false);
    let waiting = Pop {
        wait_ms: Some(30_000),
        ..settled_at_once()
    };
    let answers = second.serve(&mut database, vec![Command::Pop(waiting)]);
    assert!(answers.is_empty());
    first.push(&mut database, &[("a", "1")]);
    follow(&mut second.memory, &mut database, Instant::now()).expect("the database answers");
    // A look for what others have done meanwhile fails: it waits on, and is told by the next one.
    database.failing_looks = 1;
    assert!(serve(&mut second.memory, &mut database, &[]).is_err());
    let served = serve(&mut second.memory, &mut database, &[]).expect("the database answers");
    let Served::Done(mut answers) = served else {
        panic!("nobody else is there");
    };
    assert_eq!(answers.len(), 1);
    let refusal = answers.remove(0).1.expect_err("it is refused");
    assert_eq!(why(refusal), Unopened::OtherKey);
    assert!(second.memory.waiters.is_empty());
    assert_eq!(first.pop(&mut database, settled_at_once()).len(), 1);
}

#[test]
fn other_partitions_are_delivered_and_the_one_is_told_of_alone() {
    let (mut database, mut first, mut second) = (Database::default(), broker(1), broker(2));
    encrypt(&mut first, &mut database, true, false);
    first.push(&mut database, &[("a", "1")]);
    let queued = PushStatus::Queued { offset: 0 };
    assert_eq!(second.push(&mut database, &[("b", "2")]), [queued]);
    let taken = second.pop(&mut database, settled_at_once());
    assert_eq!(taken.len(), 1);
    assert_eq!(&*taken[0].partition, "b");
    for _ in 0..2 {
        let refusal = refused(&mut second, &mut database, Command::Pop(settled_at_once()));
        assert_eq!(why(refusal), Unopened::OtherKey);
    }
    second.memory.rules.seal = Seal::default();
    let refusal = refused(&mut second, &mut database, Command::Pop(settled_at_once()));
    assert_eq!(why(refusal), Unopened::NoKey);
}

/// A queue of one partition with three segments, of 2, 2 and 1 messages.
fn three_segments(encrypted: bool) -> (Database, Broker) {
    let (mut database, mut first) = (Database::default(), broker(1));
    if encrypted {
        encrypt(&mut first, &mut database, true, false);
    }
    first.push(&mut database, &[("a", "1"), ("a", "2")]);
    first.push(&mut database, &[("a", "3"), ("a", "4")]);
    first.push(&mut database, &[("a", "5")]);
    (database, first)
}

/// What somebody may do to a segment.
fn damages() -> [fn(&mut NewSegment); 4] {
    fn change(segment: &mut NewSegment, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = segment.payload.to_vec();
        change(&mut bytes);
        segment.payload = bytes.into();
    }
    [
        |segment| change(segment, |bytes| bytes.truncate(bytes.len() - 1)),
        |segment| change(segment, Vec::clear),
        |segment| change(segment, |bytes| bytes[0] ^= 4),
        |segment| segment.count += 1,
    ]
}

#[test]
fn a_damaged_segment_is_told_of_and_nothing_of_it_is_taken() {
    for encrypted in [false, true] {
        for damage in damages() {
            for at in [0, 2, 4] {
                let (mut database, mut first) = three_segments(encrypted);
                database.damage(|segment| {
                    if segment.base_offset == at {
                        damage(segment);
                    }
                });
                first.push(&mut database, &[("b", "6")]);
                let mut second = broker(1);
                let taken = second.pop(&mut database, settled_at_once());
                let ids: Vec<_> = taken.iter().map(|one| one.record.payload.clone()).collect();
                let before = ["\"1\"", "\"2\"", "\"3\"", "\"4\""];
                let expected = before[..at as usize].iter().chain(&["\"6\""]);
                assert_eq!(ids, expected.copied().collect::<Vec<_>>());
                for _ in 0..2 {
                    let pop = Command::Pop(settled_at_once());
                    let refusal = refused(&mut second, &mut database, pop);
                    assert_eq!(why(refusal), Unopened::Damaged, "{encrypted} {at}");
                }
            }
        }
    }
}

#[test]
fn a_flag_that_was_cleared_or_that_should_not_be_there_delivers_no_sealed_bytes() {
    // The flag is cleared in the first message of a segment.
    let (mut database, _) = three_segments(true);
    database.damage(|segment| {
        let mut bytes = segment.payload.to_vec();
        bytes[4] &= !4;
        segment.payload = bytes.into();
    });
    let mut second = broker(1);
    let refusal = refused(&mut second, &mut database, Command::Pop(settled_at_once()));
    assert_eq!(why(refusal), Unopened::Damaged);
    // A sealed segment comes to lie in a queue that knows of no encryption.
    for cleared in [false, true] {
        let (source, _) = three_segments(true);
        let mut sealed = Vec::new();
        let mut source = source;
        source.damage(|segment| sealed.push(segment.payload.clone()));
        let (mut database, _) = three_segments(false);
        let mut sealed = sealed.into_iter();
        database.damage(|segment| {
            let mut bytes = sealed.next().expect("as many").to_vec();
            if cleared {
                bytes[4] &= !4;
            }
            segment.payload = bytes.into();
        });
        let mut second = broker(2);
        let refusal = refused(&mut second, &mut database, Command::Pop(settled_at_once()));
        let expected = if cleared {
            Unopened::Damaged
        } else {
            Unopened::OtherKey
        };
        assert_eq!(why(refusal), expected);
    }
}

#[test]
fn a_pop_looks_at_so_many_partitions_that_it_cannot_read_and_later_ones_at_the_rest() {
    let (mut database, mut first, mut second) = (Database::default(), broker(1), broker(2));
    encrypt(&mut first, &mut database, true, false);
    let names: Vec<String> = (0..2 * DURABLE_REFUSALS_MAX)
        .map(|number| format!("p{number:03}"))
        .collect();
    for name in &names {
        first.push(&mut database, &[(name, name)]);
    }
    second.push(&mut database, &[("readable", "1")]);
    for _ in 0..2 {
        let refusal = refused(&mut second, &mut database, Command::Pop(settled_at_once()));
        assert_eq!(why(refusal), Unopened::OtherKey);
    }
    let taken = second.pop(&mut database, settled_at_once());
    assert_eq!(taken.len(), 1);
    assert_eq!(&*taken[0].partition, "readable");
}

#[test]
fn dead_letters_that_cannot_be_read_stay_and_the_others_are_replayed() {
    let (mut database, mut first, mut second) = (Database::default(), broker(1), broker(2));
    encrypt(&mut first, &mut database, true, false);
    for (broker, id) in [(&mut first, "1"), (&mut second, "2")] {
        broker.push(&mut database, &[(id, id)]);
        let message = broker.pop(&mut database, pop_of(1, 1)).remove(0);
        broker.ack(&mut database, &message, Verdict::DeadLetter);
    }
    assert_eq!(database.dead_letters.len(), 2);
    let all = || {
        let all = Administer::ReplayLetters(LetterFilter::default());
        Command::Administer(Box::new(all))
    };
    let Reply::Administered(answer) = second.one(&mut database, all()) else {
        panic!("an operator is answered as one");
    };
    assert!(matches!(
        *answer,
        Administered::LettersReplayed {
            moved: 1,
            unreadable: 1,
            more: false,
            ..
        }
    ));
    // There is no other one.
    let refusal = refused(&mut second, &mut database, all());
    assert_eq!(why(refusal), Unopened::OtherKey);
    let Reply::Administered(answer) = first.one(&mut database, all()) else {
        panic!("an operator is answered as one");
    };
    assert!(matches!(
        *answer,
        Administered::LettersReplayed {
            moved: 1,
            unreadable: 0,
            ..
        }
    ));
}
