//! Encrypted messages between brokers that know more or less of each other, and of the key.

use super::durable_test::{Broker, TENANT, client, item, messages, pop_of};
use super::follow::follow;
use super::store::Store;
use super::store_test::Database;
use super::*;
use crate::engine::seal::Seal;
use crate::model::durable::{Configure, OptionChange, OptionChanges, Pop, PushStatus, Unopened};

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
