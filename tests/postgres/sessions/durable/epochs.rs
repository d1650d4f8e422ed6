//! Who appends alone does not look where partitions end; whatever others change meanwhile is noticed all
//! the same.

use std::time::Duration;

use queen::model::durable::QueueOptions;
use queen::postgres::Session;
use queen::postgres::durable::Committed::{Stale, Stored};
use queen::postgres::durable::{Batch, QueueRow, Round};

use super::rig::{
    QUEUE, Rig, append, commits, dead_letter, moved, moves, partition, segment, tail,
};
use crate::sessions::server::RULES;
use crate::sessions::store::TENANT;

fn epoch(rig: &Rig) -> i64 {
    let number = rig.database.value("SELECT number FROM queen.durable_epoch");
    number.parse().expect("a number")
}

/// A session that has appended one message to each of two partitions, and goes on to be judged there.
fn rig() -> (Rig, Vec<i64>) {
    let (mut rig, ids) = Rig::with_partitions(2);
    rig.append(ids[0], 1);
    rig.append(ids[1], 1);
    (rig, ids)
}

/// As retention does with what all groups have passed: nothing is left where it was judged to end.
fn remove_from(rig: &Rig, id: i64, base_offset: i64) {
    rig.database.run(&format!(
        "DELETE FROM queen.durable_segment WHERE partition_id = {id} AND base_offset = {base_offset}"
    ));
}

#[track_caller]
fn stale(rig: &mut Rig, batch: &Batch) {
    let before = rig.counts();
    commits(&mut rig.session, batch, Stale);
    assert_eq!(rig.counts(), before);
}

#[test]
fn who_appends_alone_goes_on_in_its_epoch() {
    let (mut rig, ids) = rig();
    let began = epoch(&rig);
    let (group, queue_id) = rig.register("workers");
    let made = rig.id();
    for batch in [
        append(ids[0], 1, 3),
        append(ids[1], 1, 1),
        Batch {
            partitions: vec![partition(made, queue_id, "new")],
            segments: vec![segment(made, 0, 2)],
            ..Batch::default()
        },
        append(made, 2, 1),
        moves(&[moved(group, ids[0], 0, 1)]),
        Batch {
            cursors: vec![moved(group, ids[0], 1, 2)],
            dead_letters: vec![dead_letter(queue_id, ids[0], 1)],
            ..append(ids[0], 4, 1)
        },
        append(ids[0], 5, 1),
    ] {
        rig.stored(&batch);
    }
    assert_eq!(epoch(&rig), began);
    // What it judges wrongly in its own epoch is no better for that.
    stale(&mut rig, &append(ids[0], 5, 1));
    stale(&mut rig, &append(ids[0], 7, 1));
    rig.append(ids[0], 1);
    // In its own epoch it is not looked at: that would find another end.
    remove_from(&rig, ids[0], 6);
    rig.stored(&append(ids[0], 7, 1));
}

#[test]
fn another_that_appends_ends_it_whatever_is_left_of_what_it_appended() {
    let (mut rig, ids) = rig();
    let mut other = rig.database.open();
    commits(&mut other, &append(ids[0], 1, 3), Stored);
    commits(&mut other, &append(ids[0], 4, 1), Stored);
    remove_from(&rig, ids[0], 1);
    // Alone, beside a partition that is as it was, and in a batch of another kind.
    stale(&mut rig, &append(ids[0], 1, 1));
    stale(
        &mut rig,
        &Batch {
            tails: vec![tail(ids[1], 1), tail(ids[0], 1)],
            segments: vec![segment(ids[1], 1, 1), segment(ids[0], 1, 1)],
            ..Batch::default()
        },
    );
    stale(
        &mut rig,
        &Batch {
            dead_letters: vec![dead_letter(1, ids[0], 0)],
            ..append(ids[0], 1, 1)
        },
    );
    // A new epoch by the other partition does not make this one known.
    rig.append(ids[1], 1);
    stale(&mut rig, &append(ids[0], 1, 1));
    rig.append(ids[0], 1);
    // Now it is the other that has to look.
    commits(&mut other, &append(ids[0], 5, 1), Stale);
}

#[test]
fn another_that_appends_beside_more_ends_it() {
    let (mut rig, ids) = rig();
    let mut other = rig.database.open();
    for at in [1, 2] {
        let batch = Batch {
            dead_letters: vec![dead_letter(1, ids[0], 0)],
            ..append(ids[0], at, 1)
        };
        commits(&mut other, &batch, Stored);
    }
    remove_from(&rig, ids[0], 1);
    stale(&mut rig, &append(ids[0], 1, 1));
}

#[test]
fn a_broker_of_before_the_epochs_ends_it() {
    let (mut rig, ids) = rig();
    let id = ids[0];
    let none = |count: usize| vec!["'{}'"; count].join(", ");
    // The 45 parameters that such a broker sends.
    let stores = |at: i64| {
        rig.database.value(&format!(
            "SELECT queen.commit_batch({}, ARRAY[{id}::bigint], ARRAY[{at}::bigint],
               ARRAY[{id}::bigint], ARRAY[{at}::bigint], ARRAY[1::bigint], ARRAY[1],
               ARRAY['x'::bytea], ARRAY['x'::bytea], {})",
            none(11),
            none(26)
        ))
    };
    assert_eq!(stores(0), "false");
    assert_eq!(stores(1), "true");
    assert_eq!(stores(2), "true");
    remove_from(&rig, ids[0], 1);
    stale(&mut rig, &append(ids[0], 1, 1));
}

#[test]
fn what_a_broker_of_the_step_before_asks_ends_it() {
    let (mut rig, ids) = rig();
    let began = epoch(&rig);
    let asks = |at: i64| {
        let asked = format!(
            "SELECT queen.tails_hold(ARRAY[{}], ARRAY[{at}::bigint])",
            ids[0]
        );
        rig.database.value(&asked)
    };
    assert_eq!((asks(0), asks(1)), ("false".into(), "true".into()));
    assert_eq!(epoch(&rig), began + 1);
    rig.append(ids[0], 1);
    assert_eq!(epoch(&rig), began + 2);
}

#[test]
fn whatever_removes_a_partition_ends_it() {
    let check = |way: &str, remove: &dyn Fn(&mut Rig)| {
        let (mut rig, ids) = rig();
        remove(&mut rig);
        let before = rig.counts();
        let late = rig.session.commit_batch(&append(ids[0], 1, 1));
        assert_eq!(late, Ok(Stale), "{way}");
        assert_eq!(rig.counts(), before, "{way}");
    };
    let by_hand = |rig: &mut Rig| rig.database.run("DELETE FROM queen.durable_partition");
    let truncate = |rig: &mut Rig| rig.database.run("TRUNCATE queen.durable_partition");
    let by_another = |rig: &mut Rig| {
        assert_eq!(rig.database.open().delete_queue(TENANT, QUEUE), Ok(true));
    };
    let by_itself = |rig: &mut Rig| {
        assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(true));
    };
    let idle = |rig: &mut Rig| {
        // The messages of all tests are years old.
        let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
        let row = QueueRow {
            options: QueueOptions {
                retention_enabled: true,
                retention_s: 60,
                max_wait_s: 60,
                ..QueueOptions::default()
            },
            ..load.queue.expect("it is there")
        };
        assert_eq!(rig.session.save_queue(&row), Ok(true));
        let mut other = rig.database.open();
        let step = other.remove_idle(&mut Round::default(), Duration::from_secs(60), 1_000);
        assert_eq!(step.expect("a step").0.len(), 2);
    };
    check("by hand", &by_hand);
    check("all at once", &truncate);
    check("by another", &by_another);
    check("by itself", &by_itself);
    check("idle", &idle);
}

#[test]
fn a_removal_that_is_left_open_holds_nothing_up_and_ends_it_with_its_commit() {
    let (rig, ids) = rig();
    let mut operator = rig.database.client();
    operator
        .batch_execute(&format!(
            "BEGIN; DELETE FROM queen.durable_partition WHERE id = {}",
            ids[0]
        ))
        .expect("removed, but not yet for others");
    // One that has to end an epoch and to open another, and one that goes on in it.
    let mut other = rig.database.open();
    for at in [1, 2] {
        for id in &ids {
            commits(&mut other, &append(*id, at, 1), Stored);
        }
    }
    operator.batch_execute("COMMIT").expect("removed");
    commits(&mut other, &append(ids[0], 3, 1), Stale);
    commits(&mut other, &append(ids[1], 3, 1), Stored);
}

#[test]
fn a_partition_that_is_being_removed_while_an_epoch_begins() {
    let (mut rig, ids) = Rig::with_partitions(1);
    rig.append(ids[0], 1);
    let mut operator = rig.database.client();
    operator
        .batch_execute("BEGIN; DELETE FROM queen.durable_partition; SET CONSTRAINTS ALL IMMEDIATE")
        .expect("removed, as in the middle of its commit");
    let mut other = rig.database.open();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let late = other.commit_batch(&append(ids[0], 1, 1));
            (late, other.commit_batch(&append(ids[0], 1, 1)))
        });
        let waits = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while rig.database.value(waits) == "0" {
            assert!(!late.is_finished(), "it waits for the operator");
            std::thread::yield_now();
        }
        operator.batch_execute("COMMIT").expect("removed");
        let (first, second) = late.join().expect("two answers");
        assert_eq!(first, Ok(Stale));
        assert_eq!(second, Ok(Stale));
    });
}

#[test]
fn where_another_broker_lives_none_is_opened() {
    let (mut rig, ids) = rig();
    let open = |rig: &Rig| {
        rig.database
            .value("SELECT is_open FROM queen.durable_epoch")
    };
    assert_eq!(open(&rig), "true");
    let target = rig.database.target();
    let mut other =
        Session::open(&target, &RULES, "incarnation-b", &mut || true).expect("a session");
    let timeout = Duration::from_secs(5);
    rig.session.beat("one", timeout).expect("it lives");
    other.beat("other", timeout).expect("it lives");
    commits(&mut other, &append(ids[0], 1, 1), Stored);
    let ended = epoch(&rig);
    for at in 1..5 {
        commits(&mut rig.session, &append(ids[1], at, 1), Stored);
        commits(&mut other, &append(ids[0], at + 1, 1), Stored);
    }
    // Nothing is written that would have to be cleaned up.
    assert_eq!((epoch(&rig), &*open(&rig)), (ended, "false"));
    stale(&mut rig, &append(ids[0], 1, 1));
    // The other one is gone for long.
    rig.database.run("DELETE FROM queen.broker");
    rig.append(ids[0], 1);
    assert_eq!((epoch(&rig), &*open(&rig)), (ended + 1, "true"));
}

#[test]
fn what_an_error_leaves_unknown_is_looked_at() {
    let (mut rig, ids) = rig();
    let began = epoch(&rig);
    let mut faulty = append(ids[0], 1, 1);
    faulty.segments[0].count = 0;
    rig.session
        .commit_batch(&faulty)
        .expect_err("it is refused");
    rig.append(ids[0], 1);
    assert_eq!(epoch(&rig), began + 1);
}
