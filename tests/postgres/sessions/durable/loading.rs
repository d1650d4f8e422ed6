//! Ids, the time, whole queues, and parts of them anew.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use queen::model::TenantId;
use queen::postgres::SessionFault;
use queen::postgres::durable::{Batch, GroupStart};

use super::rig::{QUEUE, Rig, moved, moves, partition, queue, record, segment, tail};
use crate::sessions::store::TENANT;

#[test]
fn ids_are_taken_once_whoever_takes_them() {
    let rig = Rig::empty();
    let taken = std::thread::scope(|scope| {
        let taking: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut session = rig.database.open();
                    let mut taken = Vec::new();
                    for _ in 0..10 {
                        let ids = session.reserve_ids().expect("ids");
                        assert_eq!(ids.end - ids.start, 1_024);
                        assert!(ids.start > 0);
                        taken.extend([ids.start, ids.end - 1]);
                    }
                    taken
                })
            })
            .collect();
        let taken = taking.into_iter().map(|one| one.join().expect("ids"));
        taken.flatten().collect::<Vec<i64>>()
    });
    // First and last of each step: steps that overlapped would share one or lie within another.
    let mut sorted = taken.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 80);
    assert!(sorted.chunks(2).all(|step| step[1] - step[0] == 1_023));
}

#[test]
fn the_time_is_of_the_databases_clock() {
    let mut rig = Rig::empty();
    let first = rig.session.database_time_us().expect("a time");
    let second = rig.session.database_time_us().expect("a time");
    assert!(second > first);
    let here = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a time");
    // The same machine.
    let here_us = i64::try_from(here.as_micros()).expect("a time");
    assert!((here_us - second).abs() < 60_000_000, "{here_us} {second}");
}

#[test]
fn a_queue_that_is_not_there_has_nothing() {
    let mut rig = Rig::empty();
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a look");
    assert!(load.queue.is_none() && load.partitions.is_empty());
    assert!(load.groups.is_empty() && load.cursors.is_empty());
    let (partitions, cursors) = rig.session.refresh_partitions(&[1, 2]).expect("a look");
    assert!(partitions.is_empty() && cursors.is_empty());
    let (partitions, _) = rig.session.refresh_partitions(&[]).expect("a look");
    assert!(partitions.is_empty());
}

#[test]
fn only_what_belongs_to_the_queue_is_loaded() {
    let (mut rig, ids) = Rig::with_partitions(2);
    let (other_queue, other_partition) = (rig.id(), rig.id());
    rig.stored(&Batch {
        queues: vec![queue(other_queue, "other")],
        partitions: vec![partition(other_partition, other_queue, "partition 0")],
        ..Batch::default()
    });
    let mut begin = |queue: &str, group: &str| {
        let registered = rig
            .session
            .register_group(TENANT, queue, group, GroupStart::All);
        registered.expect("a group").0.id
    };
    let (first, second) = (begin(QUEUE, "a"), begin(QUEUE, "b"));
    let foreign = begin("other", "a");
    rig.stored(&moves(&[
        moved(first, ids[0], 0, 0),
        moved(second, ids[1], 0, 0),
        moved(foreign, other_partition, 0, 0),
    ]));
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let partitions: BTreeSet<i64> = load.partitions.iter().map(|row| row.id).collect();
    assert_eq!(partitions, ids.iter().copied().collect());
    let groups: BTreeSet<i64> = load.groups.iter().map(|row| row.id).collect();
    assert_eq!(groups, [first, second].into());
    let cursors: BTreeSet<(i64, i64)> = load
        .cursors
        .iter()
        .map(|row| (row.group_id, row.partition_id))
        .collect();
    assert_eq!(cursors, [(first, ids[0]), (second, ids[1])].into());
    let (partitions, cursors) = rig
        .session
        .refresh_partitions(&[ids[1], other_partition, 77])
        .expect("rows");
    assert_eq!((partitions.len(), cursors.len()), (2, 2));
    let of_other = rig.session.load_queue(TenantId::from_u128(3), QUEUE);
    assert!(of_other.expect("a look").queue.is_none());
}

#[test]
fn a_partition_begins_where_retention_has_left_it() {
    let (mut rig, ids) = Rig::with_partitions(2);
    for count in [2, 3, 4] {
        rig.append(ids[0], count);
    }
    rig.database
        .run("DELETE FROM queen.durable_segment WHERE base_offset < 5");
    let (mut rows, _) = rig.session.refresh_partitions(&ids).expect("rows");
    rows.sort_by_key(|row| row.id);
    assert_eq!((rows[0].first_offset, rows[0].next_offset), (5, 9));
    assert_eq!(rows[0].written_us, record(8).created_us);
    // An empty one.
    assert_eq!((rows[1].first_offset, rows[1].next_offset), (0, 0));
    assert_eq!(rows[1].written_us, 0);
}

#[test]
fn a_hundred_thousand_partitions_are_loaded_placed_and_deleted_within_seconds() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let queue_id = load.queue.expect("it is there").id;
    rig.database.run(&format!(
        "INSERT INTO queen.durable_partition (id, queue_id, name, created_us)
         SELECT -number, {queue_id}, 'p' || number, 1 FROM generate_series(1, 99999) AS number;
         INSERT INTO queen.durable_segment
         SELECT -number, base, 1, 1, '', '' FROM generate_series(1, 99999) AS number,
           generate_series(0, 1) AS base"
    ));
    rig.append(ids[0], 1);
    let begin = Instant::now();
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "late", GroupStart::New);
    assert_eq!(registered.expect("a group").1.len(), 100_000);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    assert_eq!(load.partitions.len(), 100_000);
    assert_eq!(load.cursors.len(), 100_000);
    assert!(load.partitions.iter().all(|row| row.next_offset > 0));
    assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(true));
    // Each within its bound, on a busy machine.
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "{:?}",
        begin.elapsed()
    );
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a look");
    assert!(load.queue.is_none() && load.groups.is_empty());
}

#[test]
fn options_that_are_spoiled_by_hand_are_told() {
    let (mut rig, _) = Rig::with_partitions(1);
    // One that is missing has its default, one that nobody knows has no effect.
    rig.database.run(
        "UPDATE queen.durable_queue SET options = options - 'lease_s' || '{\"of_the_future\": 1}'",
    );
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    assert_eq!(load.queue.expect("it is there").options.lease_s, 300);
    rig.database
        .run("UPDATE queen.durable_queue SET options = '{\"lease_s\": \"soon\"}'");
    let fault = rig.session.load_queue(TENANT, QUEUE).expect_err("a fault");
    let SessionFault::Write { reason, heals } = fault else {
        panic!("{fault:?}")
    };
    assert!(
        reason.contains(QUEUE) && reason.contains("soon") && !heals,
        "{reason}"
    );
}

#[test]
fn a_look_is_of_one_moment() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let group = registered.expect("a group").0.id;
    rig.append(ids[0], 1);
    rig.stored(&moves(&[moved(group, ids[0], 0, 1)]));
    std::thread::scope(|scope| {
        let (database, ids) = (&rig.database, &ids);
        let writing = scope.spawn(move || {
            let mut session = database.open();
            for at in 1..150 {
                // The cursor follows the tail in the same commit.
                let batch = Batch {
                    tails: vec![tail(ids[0], at)],
                    segments: vec![segment(ids[0], at, 1)],
                    ..moves(&[moved(group, ids[0], at, at + 1)])
                };
                session.commit_batch(&batch).expect("stored");
            }
        });
        let mut session = database.open();
        let mut looks = 0;
        while looks < 20 || !writing.is_finished() {
            looks += 1;
            let (rows, cursors) = session.refresh_partitions(ids).expect("rows");
            assert_eq!(rows[0].next_offset, cursors[0].state.committed);
            let load = session.load_queue(TENANT, QUEUE).expect("a queue");
            assert_eq!(
                load.partitions[0].next_offset,
                load.cursors[0].state.committed
            );
        }
        writing.join().expect("it writes");
    });
    assert_eq!(rig.tail_of(ids[0]), 150);
}
