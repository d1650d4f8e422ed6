//! Groups that are new to a queue: where they begin.

use std::collections::BTreeMap;

use queen::model::TenantId;
use queen::postgres::durable::{Batch, Committed, CursorRow, GroupStart, QueueRow};

use super::rig::{QUEUE, Rig, START_US, append, moved, moves, partition, queue, segment, tail};
use crate::sessions::store::TENANT;

/// Where a group stands in each partition that has a row.
fn places(rows: &[CursorRow]) -> BTreeMap<i64, i64> {
    let place = |row: &CursorRow| {
        assert_eq!((row.version, row.state.batch_end), (1, row.state.committed));
        (row.partition_id, row.state.committed)
    };
    rows.iter().map(place).collect()
}

#[test]
fn a_group_begins_where_it_says() {
    let (mut rig, ids) = Rig::with_partitions(4);
    for (id, counts) in ids.iter().zip([[4, 6], [1, 0], [0, 0], [10, 1]]) {
        for count in counts.into_iter().filter(|count| *count > 0) {
            rig.append(*id, count);
        }
    }
    let mut begin = |name: &str, start: GroupStart| {
        let registered = rig.session.register_group(TENANT, QUEUE, name, start);
        let (group, rows) = registered.expect("a group");
        assert!(rows.iter().all(|row| row.group_id == group.id));
        (group, places(&rows))
    };
    let (all, places) = begin("all", GroupStart::All);
    assert_eq!((&*all.name, &*all.mode, places.len()), ("all", "all", 0));
    let (new, places) = begin("new", GroupStart::New);
    assert_eq!(&*new.mode, "new");
    assert_eq!(places, [(ids[0], 10), (ids[1], 1), (ids[3], 11)].into());
    // The message at an offset was accepted so many seconds after the start: at a message's time, and
    // between two, in a segment and at its edges.
    for offset in 1..=12 {
        for early_us in [0, 999_999] {
            let name = format!("from {offset} {early_us}");
            let since = START_US + offset * 1_000_000 - early_us;
            let (from, places) = begin(&name, GroupStart::At(since));
            assert_eq!(&*from.mode, "from");
            let expected = [
                (ids[0], offset.min(10)),
                (ids[1], 1),
                (ids[3], offset.min(11)),
            ];
            assert_eq!(places, expected.into(), "{name}");
        }
    }
    let (_, places) = begin("from the start", GroupStart::At(START_US));
    assert_eq!(places.len(), 0);
    // What is registered already is left as it is.
    let (again, places) = begin("new", GroupStart::All);
    assert_eq!((again.id, &*again.mode), (new.id, "new"));
    assert_eq!((again.created_us, places.len()), (new.created_us, 3));
}

#[test]
fn a_time_is_found_among_many_segments_and_behind_removed_ones() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let mut batch = Batch {
        tails: vec![tail(ids[0], 0)],
        ..Batch::default()
    };
    // Of one to seven messages.
    let mut base = 0;
    for round in 0..300 {
        let count = 1 + round % 7;
        batch.segments.push(segment(ids[0], base, count));
        base += i64::try_from(count).expect("a few");
    }
    rig.stored(&batch);
    rig.database
        .run("DELETE FROM queen.durable_segment WHERE base_offset < 100");
    let oldest = rig.bases(ids[0], 0..i64::MAX)[0];
    for wanted in (0..base + 3).step_by(17) {
        let place = format!(
            "queen.durable_offset_at({}, {})",
            ids[0],
            START_US + wanted * 1_000_000
        );
        let expected = wanted.max(oldest).min(base).to_string();
        assert_eq!(rig.database.value(&place), expected, "{wanted}");
    }
}

#[test]
fn a_group_may_be_there_before_its_queue() {
    let mut rig = Rig::empty();
    let registered = rig
        .session
        .register_group(TENANT, "later", "workers", GroupStart::New);
    let (group, _) = registered.expect("a group");
    let load = rig.session.load_queue(TENANT, "later").expect("a look");
    assert!(load.queue.is_none() && load.partitions.is_empty());
    assert_eq!(load.groups[0].id, group.id);
    let (queue_id, partition_id) = (rig.id(), rig.id());
    rig.stored(&Batch {
        queues: vec![queue(queue_id, "later")],
        partitions: vec![partition(partition_id, queue_id, "p")],
        segments: vec![segment(partition_id, 0, 1)],
        cursors: vec![moved(group.id, partition_id, 0, 1)],
        ..Batch::default()
    });
    let load = rig.session.load_queue(TENANT, "later").expect("a queue");
    assert_eq!((load.partitions.len(), load.cursors.len()), (1, 1));
}

#[test]
fn names_of_tenants_queues_and_groups_do_not_meet() {
    let mut rig = Rig::empty();
    let other = TenantId::from_u128(9);
    let mut ids = Vec::new();
    for (tenant, queue, group) in [
        (TENANT, "a", "g"),
        (other, "a", "g"),
        (TENANT, "b", "g"),
        (TENANT, "a", "h"),
    ] {
        let registered = rig
            .session
            .register_group(tenant, queue, group, GroupStart::New);
        ids.push(registered.expect("a group").0.id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(
        rig.session
            .load_queue(other, "a")
            .expect("a look")
            .groups
            .len(),
        1
    );
    assert_eq!(
        rig.session
            .load_queue(TENANT, "a")
            .expect("a look")
            .groups
            .len(),
        2
    );
}

#[test]
fn a_group_that_begins_beside_pushes_stands_at_a_tail_that_was() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let (database, id) = (&rig.database, ids[0]);
    std::thread::scope(|scope| {
        let pushing = scope.spawn(move || {
            let mut session = database.open();
            for round in 0..100 {
                let committed = session.commit_batch(&append(id, 2 * round, 2));
                assert_eq!(committed, Ok(Committed::Stored));
            }
        });
        let mut session = database.open();
        for number in 0..20 {
            let name = format!("group {number}");
            let registered = session.register_group(TENANT, QUEUE, &name, GroupStart::New);
            let (group, rows) = registered.expect("a group");
            let place = rows.first().map_or(0, |row| row.state.committed);
            assert_eq!(place % 2, 0);
            // Nobody has moved it since.
            if place > 0 {
                let committed = session.commit_batch(&moves(&[moved(group.id, id, 1, place)]));
                assert_eq!(committed, Ok(Committed::Stored));
            }
        }
        pushing.join().expect("it pushes");
    });
    assert_eq!(rig.tail_of(id), 200);
}

#[test]
fn what_a_lease_of_a_discovery_holds_is_found_by_any_of_its_groups_and_by_its_tenant_alone() {
    let mut rig = Rig::empty();
    let stranger = TenantId::from_u128(8);
    let lease = uuid::Uuid::from_u128(1);
    let mut groups = Vec::new();
    for (tenant, queue_name, group, holder) in [
        (TENANT, "a", "workers", Some(lease)),
        (TENANT, "b", "workers", Some(lease)),
        (TENANT, "c", "workers", None),
        (TENANT, "d", "workers", Some(uuid::Uuid::from_u128(2))),
        (TENANT, "e", "others", Some(lease)),
        (stranger, "a", "workers", Some(lease)),
    ] {
        let registered = rig
            .session
            .register_group(tenant, queue_name, group, GroupStart::All);
        let group_id = registered.expect("a group").0.id;
        let (queue_id, partition_id) = (rig.id(), rig.id());
        let mut cursor = moved(group_id, partition_id, 0, 1);
        cursor.state.lease_id = holder;
        rig.stored(&Batch {
            queues: vec![QueueRow {
                tenant,
                ..queue(queue_id, queue_name)
            }],
            partitions: vec![partition(partition_id, queue_id, "p")],
            cursors: vec![cursor],
            ..Batch::default()
        });
        groups.push(group_id);
    }
    let mut found = |tenant: TenantId, group: usize| {
        let found = rig.session.find_leased(tenant, lease, groups[group]);
        let mut queues = found.expect("a look");
        queues.sort();
        queues.join(" ")
    };
    for group in 0..4 {
        assert_eq!(found(TENANT, group), "a b");
        assert_eq!(found(stranger, group), "");
    }
    assert_eq!(found(TENANT, 4), "e");
    assert_eq!(found(TENANT, 5), "");
    assert_eq!(found(stranger, 5), "a");
}
