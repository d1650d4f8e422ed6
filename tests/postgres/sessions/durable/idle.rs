//! Partitions that nobody uses any more, and what is judged on them meanwhile.

use std::time::Duration;

use queen::model::durable::QueueOptions;
use queen::postgres::durable::{Committed, GroupStart, QueueRow, Round};

use super::rig::{QUEUE, Rig, append, moved, moves, partition};
use crate::sessions::store::TENANT;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The messages of all tests are years old: partitions of a queue whose only group has passed everything,
/// and of which retention has left the last segment.
fn rig(partitions: usize) -> (Rig, Vec<i64>, i64) {
    let (mut rig, ids) = Rig::with_partitions(partitions);
    configure(&mut rig, 3_600);
    for id in &ids {
        rig.append(*id, 1);
        rig.append(*id, 1);
    }
    let group = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let group = group.expect("a group").0.id;
    let done: Vec<_> = ids.iter().map(|id| moved(group, *id, 0, 2)).collect();
    rig.stored(&moves(&done));
    let step = rig.session.retain(&mut Round::default(), 1_000);
    assert_eq!(step.expect("a step").rows, ids.len() as i32);
    (rig, ids, group)
}

#[track_caller]
fn configure(rig: &mut Rig, retention_s: u32) {
    configure_ages(rig, retention_s, 0);
}

#[track_caller]
fn configure_ages(rig: &mut Rig, retention_s: u32, max_wait_s: u32) {
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let row = QueueRow {
        options: QueueOptions {
            retention_enabled: retention_s > 0,
            retention_s,
            max_wait_s,
            ..QueueOptions::default()
        },
        ..load.queue.expect("it is there")
    };
    assert_eq!(rig.session.save_queue(&row), Ok(true));
}

/// A whole round in steps of so many rows: how many partitions each has removed.
#[track_caller]
fn rounds(rig: &mut Rig, idle: Duration, rows_max: i32) -> Vec<usize> {
    let (mut round, mut removed) = (Round::default(), Vec::new());
    loop {
        let step = rig.session.remove_idle(&mut round, idle, rows_max);
        let (partitions, is_over) = step.expect("a step");
        removed.push(partitions.len());
        assert!(removed.len() < 100, "a round ends");
        if is_over {
            assert_eq!(round, Round::default());
            return removed;
        }
    }
}

fn left(rig: &Rig) -> String {
    rig.database.value(
        "SELECT concat_ws(' ', (SELECT count(*) FROM queen.durable_partition),
           (SELECT count(*) FROM queen.durable_cursor), (SELECT count(*) FROM queen.durable_segment))",
    )
}

#[test]
fn what_nobody_uses_goes_with_everything_of_it() {
    let (mut rig, ..) = rig(3);
    assert_eq!(left(&rig), "3 3 3");
    assert_eq!(rounds(&mut rig, DAY, 1_000), [3]);
    assert_eq!(left(&rig), "0 0 3");
    assert_eq!(rig.session.sweep_leftovers(100), Ok(6));
    assert_eq!(left(&rig), "0 0 0");
    assert_eq!(rounds(&mut rig, DAY, 1_000), [0]);
}

#[test]
fn a_step_is_bounded_and_the_next_one_goes_on() {
    let (mut rig, ..) = rig(5);
    // Three rows each, and at least one partition.
    assert_eq!(rounds(&mut rig, DAY, 6), [2, 2, 1]);
    let (mut rig, ..) = self::rig(2);
    assert_eq!(rounds(&mut rig, DAY, 1), [1, 1]);
}

#[test]
fn what_is_used_stays() {
    let (mut rig, ids, group) = rig(6);
    // Nothing is that old.
    assert_eq!(rounds(&mut rig, 100 * 365 * DAY, 1_000), [0]);
    // A message that is not passed, a dead letter, a trace, a group that was there lately, and a second
    // message that retention has left.
    rig.append(ids[0], 1);
    rig.database.run(&format!(
        "INSERT INTO queen.dead_letter (queue_id, partition_id, group_name, message_offset, error, retries,
           failed_us, transaction_id, record) VALUES (1, {}, 'g', 1, 'e', 0, 0, 't', '');
         INSERT INTO queen.trace (queue_id, partition_id, transaction_id, group_name, event, data, created_us)
           VALUES (1, {}, 't', 'g', 'e', '1', 0);
         UPDATE queen.durable_cursor SET settled_us = (extract(epoch FROM now()) * 1000000)::bigint
           WHERE partition_id = {}",
        ids[1], ids[2], ids[3]
    ));
    rig.append(ids[4], 1);
    rig.stored(&moves(&[moved(group, ids[4], 1, 3)]));
    assert_eq!(rounds(&mut rig, DAY, 1_000), [1]);
    assert_eq!(left(&rig).split(' ').next(), Some("5"));
    // A group that has not been there is not done with anything.
    let other = rig
        .session
        .register_group(TENANT, QUEUE, "other", GroupStart::All);
    other.expect("a group");
    rig.database
        .run("DELETE FROM queen.dead_letter; DELETE FROM queen.trace");
    assert_eq!(rounds(&mut rig, DAY, 1_000), [0]);
    // Nor is a queue that keeps everything.
    let (mut rig, ..) = self::rig(1);
    configure(&mut rig, 0);
    assert_eq!(rounds(&mut rig, DAY, 1_000), [0]);
}

#[test]
fn without_a_group_only_what_has_waited_too_long_goes() {
    const YEAR_S: u32 = 365 * 24 * 60 * 60;
    let (mut rig, ids) = Rig::with_partitions(1);
    rig.append(ids[0], 1);
    for (max_wait_s, removed) in [(0, 0), (10 * YEAR_S, 0), (YEAR_S, 1)] {
        configure_ages(&mut rig, 3_600, max_wait_s);
        assert_eq!(rounds(&mut rig, DAY, 1_000), [removed], "{max_wait_s}");
    }
}

#[test]
fn what_was_judged_on_it_is_stale_and_one_of_its_name_begins_anew() {
    let (mut rig, ids, group) = rig(1);
    let queue_id = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let queue_id = queue_id.queue.expect("it is there").id;
    assert_eq!(rounds(&mut rig, DAY, 1_000), [1]);
    for batch in [
        append(ids[0], 2, 1),
        append(ids[0], 0, 1),
        moves(&[moved(group, ids[0], 1, 3)]),
        moves(&[moved(group, ids[0], 0, 2)]),
    ] {
        assert_eq!(rig.session.commit_batch(&batch), Ok(Committed::Stale));
    }
    let id = rig.id();
    let mut batch = append(id, 0, 1);
    batch.tails.clear();
    batch.partitions = vec![partition(id, queue_id, "partition 0")];
    rig.stored(&batch);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    assert_eq!(load.partitions.len(), 1);
    assert_eq!(
        (load.partitions[0].id, load.partitions[0].next_offset),
        (id, 1)
    );
    assert!(load.cursors.is_empty());
}
