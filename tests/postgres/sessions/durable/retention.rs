//! What goes with age, and what stays.

use queen::model::durable::QueueOptions;
use queen::postgres::Session;
use queen::postgres::durable::{Expired, GroupStart, QueueRow, Removed, Round};

use super::rig::{QUEUE, Rig, moved, moves};
use crate::sessions::store::TENANT;

/// The messages of all tests are years old.
fn aged() -> QueueOptions {
    QueueOptions {
        retention_enabled: true,
        retention_s: 3_600,
        completed_retention_s: 0,
        ..QueueOptions::default()
    }
}

/// A queue of so many partitions with eight segments of one message each.
fn rig(partitions: usize, options: QueueOptions) -> (Rig, Vec<i64>) {
    let (mut rig, ids) = Rig::with_partitions(partitions);
    configure(&mut rig, options);
    for id in &ids {
        for _ in 0..8 {
            rig.append(*id, 1);
        }
    }
    (rig, ids)
}

#[track_caller]
fn configure(rig: &mut Rig, options: QueueOptions) {
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let row = QueueRow {
        options,
        ..load.queue.expect("it is there")
    };
    assert_eq!(rig.session.save_queue(&row), Ok(true));
}

#[track_caller]
fn register(rig: &mut Rig, group: &str) -> i64 {
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, group, GroupStart::All);
    registered.expect("a group").0.id
}

/// A whole round in steps of so many rows: what each step has removed.
#[track_caller]
fn rounds(session: &mut Session, rows_max: i32) -> Vec<i32> {
    let (mut round, mut removed) = (Round::default(), Vec::new());
    loop {
        let step = session.retain(&mut round, rows_max).expect("a step");
        assert!(step.rows <= rows_max, "{} of {rows_max}", step.rows);
        removed.push(step.rows);
        assert!(removed.len() < 1_000, "a round ends");
        if step.is_over {
            assert_eq!(round, Round::default());
            return removed;
        }
    }
}

#[test]
fn what_all_groups_have_passed_goes_and_the_rest_stays() {
    let (mut rig, ids) = rig(3, aged());
    // Nobody has passed anything where there is nobody.
    assert_eq!(rounds(&mut rig.session, 1_000), [0]);
    let (slow, fast) = (register(&mut rig, "slow"), register(&mut rig, "fast"));
    rig.stored(&moves(&[
        moved(fast, ids[0], 0, 8),
        moved(fast, ids[1], 0, 8),
        moved(fast, ids[2], 0, 8),
        moved(slow, ids[0], 0, 3),
        moved(slow, ids[1], 0, 8),
    ]));
    let step = rig.session.retain(&mut Round::default(), 1_000);
    let step = step.expect("a step");
    let begins = |partition_id: i64, first_offset: i64| Removed {
        partition_id,
        first_offset: Some(first_offset),
    };
    assert_eq!((step.rows, step.is_over), (10, true));
    assert_eq!(step.partitions, [begins(ids[0], 3), begins(ids[1], 7)]);
    assert_eq!(rig.bases(ids[0], 0..8), [3, 4, 5, 6, 7]);
    // The last one says where the partition ends.
    assert_eq!(rig.bases(ids[1], 0..8), [7]);
    assert_eq!(rig.tail_of(ids[1]), 8);
    assert_eq!(rig.bases(ids[2], 0..8).len(), 8);
    assert_eq!(rounds(&mut rig.session, 1_000), [0]);
    rig.append(ids[1], 1);
    assert_eq!(rig.bases(ids[1], 0..9), [7, 8]);
}

#[test]
fn young_messages_and_remembered_ids_stay() {
    let years = 100 * 365 * 86_400;
    for options in [
        QueueOptions::default(),
        QueueOptions {
            retention_enabled: false,
            ..aged()
        },
        QueueOptions {
            retention_s: years,
            ..aged()
        },
        QueueOptions {
            dedup_window_s: years,
            ..aged()
        },
    ] {
        let (mut rig, ids) = rig(1, options.clone());
        let group = register(&mut rig, "workers");
        rig.stored(&moves(&[moved(group, ids[0], 0, 8)]));
        assert_eq!(rounds(&mut rig.session, 1_000), [0], "{options:?}");
        // The smaller of the two ages counts, and once nothing is remembered they go.
        configure(
            &mut rig,
            QueueOptions {
                completed_retention_s: 1,
                retention_s: years,
                ..aged()
            },
        );
        assert_eq!(rounds(&mut rig.session, 1_000), [7]);
    }
}

#[test]
fn a_step_removes_no_more_rows_than_it_may() {
    let (mut rig, ids) = rig(5, aged());
    let group = register(&mut rig, "workers");
    let all: Vec<_> = ids.iter().map(|id| moved(group, *id, 0, 8)).collect();
    rig.stored(&moves(&all));
    let removed = rounds(&mut rig.session, 3);
    assert_eq!(removed.iter().sum::<i32>(), 35);
    assert_eq!(removed.iter().filter(|rows| **rows == 3).count(), 11);
    for id in ids {
        assert_eq!(rig.bases(id, 0..8), [7]);
    }
}

#[test]
fn more_partitions_than_one_step_looks_at() {
    let (mut rig, ids) = Rig::with_partitions(600);
    configure(&mut rig, aged());
    let group = register(&mut rig, "workers");
    for id in [ids[0], ids[599]] {
        rig.append(id, 1);
        rig.append(id, 1);
        rig.stored(&moves(&[moved(group, id, 0, 2)]));
    }
    let removed = rounds(&mut rig.session, 1_000);
    assert!((3..=4).contains(&removed.len()), "{removed:?}");
    assert_eq!(removed.iter().sum::<i32>(), 2);
}

#[test]
fn what_waits_too_long_is_found_for_each_group_in_steps() {
    let waiting = QueueOptions {
        max_wait_s: 3_600,
        ..QueueOptions::default()
    };
    let (mut rig, ids) = rig(2, waiting.clone());
    let find = |rig: &mut Rig, rows_max: i32| {
        let (mut round, mut found) = (Round::default(), Vec::new());
        let step = rig.session.find_expired(&mut round, rows_max);
        let step = step.expect("a step");
        found.extend(step.expired);
        (found, step.is_over)
    };
    assert_eq!(find(&mut rig, 1_000), (Vec::new(), true));
    let (one, two) = (register(&mut rig, "one"), register(&mut rig, "two"));
    rig.stored(&moves(&[
        moved(one, ids[0], 0, 8),
        moved(one, ids[1], 0, 8),
        moved(two, ids[0], 0, 8),
        moved(two, ids[1], 0, 5),
    ]));
    let expired = |group_id: i64, offset: i64| Expired {
        tenant: TENANT,
        queue: QUEUE.into(),
        group_id,
        partition_id: ids[1],
        offset,
    };
    assert_eq!(find(&mut rig, 1_000), (vec![expired(two, 8)], true));
    assert_eq!(find(&mut rig, 2), (vec![expired(two, 7)], false));
    // What all have passed goes then, although no retention is asked for.
    rig.stored(&moves(&[moved(two, ids[1], 1, 8)]));
    assert_eq!(find(&mut rig, 1_000), (Vec::new(), true));
    assert_eq!(rounds(&mut rig.session, 1_000), [14]);
    // Without groups as well.
    let (mut rig, ids) = self::rig(1, waiting);
    assert_eq!(rounds(&mut rig.session, 1_000), [7]);
    assert_eq!(rig.bases(ids[0], 0..8), [7]);
}
