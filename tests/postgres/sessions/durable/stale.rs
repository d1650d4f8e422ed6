//! Two brokers: whoever is late stores nothing.

use queen::postgres::Session;
use queen::postgres::durable::{Batch, Committed, GroupStart};

use super::rig::{QUEUE, Rig, append, dead_letter, moved, moves, partition, queue, segment, tail};
use crate::sessions::store::TENANT;

/// What another broker has judged before.
struct Late {
    rig: Rig,
    other: Session,
    before: String,
}

impl Late {
    /// What has been stored meanwhile stays the only thing that is.
    fn new(mut rig: Rig, meanwhile: impl FnOnce(&mut Rig)) -> Late {
        let other = rig.database.open();
        meanwhile(&mut rig);
        let before = rig.counts();
        Late { rig, other, before }
    }

    #[track_caller]
    fn stores_nothing_of(&mut self, batch: &Batch) {
        assert_eq!(self.other.commit_batch(batch), Ok(Committed::Stale));
        assert_eq!(self.rig.counts(), self.before);
    }

    #[track_caller]
    fn stores(&mut self, batch: &Batch) {
        assert_eq!(self.other.commit_batch(batch), Ok(Committed::Stored));
    }
}

#[test]
fn a_tail_that_another_broker_has_moved() {
    let (rig, ids) = Rig::with_partitions(2);
    let mut late = Late::new(rig, |rig| rig.append(ids[0], 3));
    late.stores_nothing_of(&append(ids[0], 0, 1));
    // Behind the tail and before it, and one of two.
    late.stores_nothing_of(&append(ids[0], 4, 1));
    late.stores_nothing_of(&append(ids[0], 2, 1));
    late.stores_nothing_of(&Batch {
        tails: vec![tail(ids[1], 0), tail(ids[0], 0)],
        segments: vec![segment(ids[1], 0, 1), segment(ids[0], 0, 1)],
        ..Batch::default()
    });
    late.stores(&append(ids[0], 3, 1));
}

#[test]
fn a_tail_holds_though_all_before_it_is_removed() {
    let (rig, ids) = Rig::with_partitions(1);
    let mut late = Late::new(rig, |rig| {
        rig.append(ids[0], 3);
        rig.append(ids[0], 2);
        // As retention does: never the last one.
        rig.database
            .run("DELETE FROM queen.durable_segment WHERE base_offset = 0");
    });
    late.stores_nothing_of(&append(ids[0], 0, 1));
    late.stores_nothing_of(&append(ids[0], 3, 1));
    late.stores(&append(ids[0], 5, 1));
}

#[test]
fn a_cursor_that_another_broker_has_moved() {
    let (mut rig, ids) = Rig::with_partitions(2);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let group = registered.expect("a group").0.id;
    let mut late = Late::new(rig, |rig| {
        rig.stored(&moves(&[moved(group, ids[0], 0, 1)]));
        rig.stored(&moves(&[moved(group, ids[0], 1, 2)]));
    });
    // Without a row, with an older one, and with one that never was.
    for version in [0, 1, 3] {
        late.stores_nothing_of(&moves(&[moved(group, ids[0], version, 9)]));
        late.stores_nothing_of(&moves(&[
            moved(group, ids[1], 0, 9),
            moved(group, ids[0], version, 9),
        ]));
    }
    late.stores_nothing_of(&moves(&[moved(group, ids[1], 1, 9)]));
    // What is given up goes with its cursor.
    late.stores_nothing_of(&Batch {
        dead_letters: vec![dead_letter(1, ids[0], 0)],
        ..moves(&[moved(group, ids[0], 1, 9)])
    });
    late.stores(&moves(&[
        moved(group, ids[0], 2, 9),
        moved(group, ids[1], 0, 9),
    ]));
}

#[test]
fn a_queue_that_was_deleted() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let group = registered.expect("a group").0.id;
    rig.append(ids[0], 1);
    rig.stored(&moves(&[moved(group, ids[0], 0, 1)]));
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let old = load.queue.expect("it is there").id;
    let made = rig.id();
    let mut late = Late::new(rig, |rig| {
        assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(true));
    });
    // Its segments and cursors are still to be swept.
    let kept = "SELECT (SELECT count(*) FROM queen.durable_segment) +
                       (SELECT count(*) FROM queen.durable_cursor)";
    assert_eq!(late.rig.database.value(kept), "2");
    let stale = [
        append(ids[0], 1, 1),
        append(ids[0], 0, 1),
        moves(&[moved(group, ids[0], 1, 1)]),
        moves(&[moved(group, ids[0], 0, 1)]),
        Batch {
            partitions: vec![partition(made, old, "new")],
            segments: vec![segment(made, 0, 1)],
            ..Batch::default()
        },
    ];
    for batch in &stale {
        late.stores_nothing_of(batch);
    }
    // Made anew under other ids.
    let again = late.rig.id();
    late.rig.stored(&Batch {
        queues: vec![queue(again, QUEUE)],
        ..Batch::default()
    });
    late.before = late.rig.counts();
    for batch in &stale {
        late.stores_nothing_of(batch);
    }
}

#[test]
fn a_group_that_was_deleted() {
    let (mut rig, ids) = Rig::with_partitions(2);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let group = registered.expect("a group").0.id;
    rig.stored(&moves(&[moved(group, ids[0], 0, 1)]));
    let mut late = Late::new(rig, |rig| {
        rig.database.run("DELETE FROM queen.durable_group");
    });
    late.stores_nothing_of(&moves(&[moved(group, ids[0], 1, 2)]));
    late.stores_nothing_of(&moves(&[moved(group, ids[1], 0, 2)]));
    let registered = late
        .other
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let (again, cursors) = registered.expect("a group");
    assert_ne!(again.id, group);
    assert_eq!(cursors.len(), 0);
    late.stores_nothing_of(&moves(&[moved(group, ids[0], 1, 2)]));
    late.stores(&moves(&[moved(again.id, ids[0], 0, 2)]));
}

#[test]
fn a_partition_that_is_gone() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let group = registered.expect("a group").0.id;
    let mut late = Late::new(rig, |rig| {
        rig.database.run("DELETE FROM queen.durable_partition");
    });
    late.stores_nothing_of(&append(ids[0], 0, 1));
    late.stores_nothing_of(&moves(&[moved(group, ids[0], 0, 0)]));
}

#[test]
fn a_queue_or_partition_that_another_broker_has_made() {
    let mut rig = Rig::empty();
    let ids: Vec<i64> = (0..6).map(|_| rig.id()).collect();
    let made = |queue_id: i64, partition_id: i64| Batch {
        queues: vec![queue(queue_id, QUEUE)],
        partitions: vec![partition(partition_id, queue_id, "p")],
        segments: vec![segment(partition_id, 0, 1)],
        ..Batch::default()
    };
    let mut late = Late::new(rig, |rig| rig.stored(&made(ids[0], ids[1])));
    late.stores_nothing_of(&made(ids[2], ids[3]));
    // The queue is known, the partition not yet.
    late.stores_nothing_of(&Batch {
        queues: Vec::new(),
        partitions: vec![
            partition(ids[3], ids[0], "p"),
            partition(ids[4], ids[0], "q"),
        ],
        ..made(ids[0], ids[3])
    });
    late.stores(&Batch {
        queues: Vec::new(),
        partitions: vec![partition(ids[4], ids[0], "q")],
        segments: vec![segment(ids[4], 0, 1)],
        ..Batch::default()
    });
}

#[test]
fn brokers_that_append_at_once_leave_no_gap_and_lose_nothing() {
    let (mut rig, ids) = Rig::with_partitions(3);
    const ROUNDS: i64 = 60;
    const BROKERS: i64 = 3;
    std::thread::scope(|scope| {
        for _ in 0..BROKERS {
            let (database, ids) = (&rig.database, &ids);
            scope.spawn(move || {
                let mut session = database.open();
                for _ in 0..ROUNDS {
                    loop {
                        let (rows, _) = session.refresh_partitions(ids).expect("rows");
                        let batch = Batch {
                            tails: rows
                                .iter()
                                .map(|row| tail(row.id, row.next_offset))
                                .collect(),
                            segments: rows
                                .iter()
                                .map(|row| segment(row.id, row.next_offset, 2))
                                .collect(),
                            ..Batch::default()
                        };
                        let committed = session.commit_batch(&batch).expect("an answer");
                        if committed == Committed::Stored {
                            break;
                        }
                    }
                }
            });
        }
    });
    let expected: Vec<i64> = (0..ROUNDS * BROKERS).map(|round| 2 * round).collect();
    for id in ids {
        assert_eq!(rig.tail_of(id), 2 * ROUNDS * BROKERS);
        assert_eq!(rig.bases(id, 0..i64::MAX), expected);
    }
}

#[test]
fn brokers_that_move_a_cursor_at_once_each_see_the_last_move() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let group = registered.expect("a group").0.id;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (database, ids) = (&rig.database, &ids);
            scope.spawn(move || {
                let mut session = database.open();
                let mut moves_left = 40;
                while moves_left > 0 {
                    let (_, rows) = session.refresh_partitions(ids).expect("rows");
                    let known = rows.first().map(|row| (row.version, row.state.committed));
                    let (version, committed) = known.unwrap_or_default();
                    let batch = moves(&[moved(group, ids[0], version, committed + 1)]);
                    let outcome = session.commit_batch(&batch).expect("an answer");
                    moves_left -= i32::from(outcome == Committed::Stored);
                }
            });
        }
    });
    let (_, rows) = rig.session.refresh_partitions(&ids).expect("rows");
    assert_eq!((rows[0].version, rows[0].state.committed), (120, 120));
}
