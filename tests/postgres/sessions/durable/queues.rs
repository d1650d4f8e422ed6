//! Whole queues: options that change, the end of a queue, and how queues are found.

use std::time::Duration;

use queen::model::TenantId;
use queen::model::durable::QueueOptions;
use queen::postgres::durable::{Batch, GroupStart, QueueRow};

use super::rig::{QUEUE, Rig, dead_letter, moved, moves, partition, queue};
use crate::poll::eventually_within;
use crate::sessions::store::TENANT;

const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'queen' AND
                       datname = current_database() AND wait_event_type = 'Lock'";

#[test]
fn options_are_changed_as_long_as_the_queue_is_there() {
    let (mut rig, _) = Rig::with_partitions(1);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let changed = QueueRow {
        namespace: "shop".into(),
        task: "mail".into(),
        options: QueueOptions {
            lease_s: 9,
            ..QueueOptions::default()
        },
        ..load.queue.expect("it is there")
    };
    assert_eq!(rig.session.save_queue(&changed), Ok(true));
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let stored = load.queue.expect("it is there");
    assert_eq!(stored.options, changed.options);
    assert_eq!((&*stored.namespace, &*stored.task), ("shop", "mail"));
    assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(true));
    assert_eq!(rig.session.save_queue(&changed), Ok(false));
}

#[test]
fn that_messages_may_be_encrypted_is_never_forgotten() {
    let (mut rig, _) = Rig::with_partitions(1);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let plain = load.queue.expect("it is there");
    let encrypted = QueueRow {
        options: QueueOptions {
            encryption: true,
            ..plain.options.clone()
        },
        ..plain.clone()
    };
    let mut saved = |row: &QueueRow| {
        assert_eq!(rig.session.save_queue(row), Ok(true));
        let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
        let options = load.queue.expect("it is there").options;
        (options.encryption, options.was_encrypted)
    };
    assert_eq!(saved(&plain), (false, false));
    assert_eq!(saved(&encrypted), (true, false));
    // By who has read the options before.
    assert_eq!(saved(&plain), (false, true));
    assert_eq!(saved(&plain), (false, true));
    assert_eq!(saved(&encrypted), (true, true));
}

#[test]
fn a_deleted_queue_leaves_nothing_once_it_is_swept() {
    let (mut rig, ids) = Rig::with_partitions(3);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let queue_id = load.queue.expect("it is there").id;
    let (kept_queue, kept_partition) = (rig.id(), rig.id());
    rig.stored(&Batch {
        queues: vec![queue(kept_queue, "kept")],
        partitions: vec![partition(kept_partition, kept_queue, "p")],
        ..Batch::default()
    });
    let mut begin = |queue: &str| {
        let registered = rig
            .session
            .register_group(TENANT, queue, "workers", GroupStart::All);
        registered.expect("a group").0.id
    };
    let (group, kept_group) = (begin(QUEUE), begin("kept"));
    for id in [ids[0], ids[1], ids[2], kept_partition] {
        for _ in 0..7 {
            rig.append(id, 1);
        }
    }
    let mut batch = moves(&[
        moved(group, ids[0], 0, 1),
        moved(group, ids[1], 0, 1),
        moved(kept_group, kept_partition, 0, 1),
    ]);
    batch.dead_letters = vec![
        dead_letter(queue_id, ids[0], 0),
        dead_letter(queue_id, ids[1], 0),
        dead_letter(kept_queue, kept_partition, 0),
    ];
    rig.stored(&batch);
    // Nothing to be swept yet.
    assert_eq!(rig.session.sweep_leftovers(100), Ok(0));

    assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(true));
    assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(false));
    assert_eq!(rig.session.find_partition(ids[0]).expect("a look"), None);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a look");
    assert!(load.queue.is_none() && load.groups.is_empty() && load.cursors.is_empty());
    let (partitions, cursors) = rig.session.refresh_partitions(&ids).expect("rows");
    assert!(partitions.is_empty() && cursors.is_empty());
    let mut steps = 0;
    loop {
        let removed = rig.session.sweep_leftovers(4).expect("a step");
        assert!(removed <= 4, "{removed}");
        steps += 1;
        if removed < 4 {
            break;
        }
    }
    // 21 segments, 2 cursors, 2 dead letters, and what they belonged to.
    assert!((7..=10).contains(&steps), "{steps}");
    assert_eq!(rig.counts(), "1 1 7 1 1 1");
    let left = "SELECT count(*) FROM queen.durable_leftover";
    assert_eq!(rig.database.value(left), "0");
    assert_eq!(rig.tail_of(kept_partition), 7);
}

#[test]
fn what_retention_removes_meanwhile_hides_nothing_from_a_sweep() {
    let (mut rig, ids) = Rig::with_partitions(1);
    for _ in 0..7 {
        rig.append(ids[0], 1);
    }
    assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(true));
    // As retention does that has begun before the queue was deleted.
    let mut retention = rig.database.client();
    retention
        .batch_execute("BEGIN; DELETE FROM queen.durable_segment WHERE base_offset < 4")
        .expect("removed");
    let session = &mut rig.session;
    std::thread::scope(|scope| {
        let sweeping = scope.spawn(move || session.sweep_leftovers(4));
        eventually_within(Duration::from_secs(20), "the sweep waits", || {
            rig.database.value(WAITING) == "1"
        });
        retention.batch_execute("COMMIT").expect("ended");
        assert!(sweeping.join().expect("no panic").expect("a step") < 4);
    });
    while rig.session.sweep_leftovers(4).expect("a step") > 0 {}
    for table in ["durable_leftover", "durable_segment"] {
        let left = format!("SELECT count(*) FROM queen.{table}");
        assert_eq!(rig.database.value(&left), "0", "{table}");
    }
}

#[test]
fn groups_of_a_queue_that_never_was_are_deleted_with_its_name() {
    let mut rig = Rig::empty();
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::New);
    registered.expect("a group");
    assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(false));
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a look");
    assert!(load.groups.is_empty());
}

#[test]
fn a_partition_names_its_queue() {
    let (mut rig, ids) = Rig::with_partitions(2);
    let found = rig.session.find_partition(ids[1]).expect("a look");
    assert_eq!(found, Some((TENANT, QUEUE.into())));
    for unknown in [0, -1, i64::MAX] {
        assert_eq!(rig.session.find_partition(unknown).expect("a look"), None);
    }
}

#[test]
fn queues_are_found_by_namespace_and_task() {
    let mut rig = Rig::empty();
    let other = TenantId::from_u128(8);
    let mut batch = Batch::default();
    for (tenant, name, namespace, task) in [
        (TENANT, "c", "shop", "mail"),
        (TENANT, "a", "shop", "mail"),
        (TENANT, "b", "shop", ""),
        (TENANT, "d", "", "mail"),
        (TENANT, "e", "shopping", "mails"),
        (other, "f", "shop", "mail"),
    ] {
        batch.queues.push(QueueRow {
            tenant,
            namespace: namespace.into(),
            task: task.into(),
            ..queue(rig.id(), name)
        });
    }
    rig.stored(&batch);
    let mut found = |namespace: Option<&str>, task: Option<&str>| {
        let names = rig.session.discover_queues(TENANT, namespace, task);
        names.expect("names").join(" ")
    };
    assert_eq!(found(Some("shop"), None), "a b c");
    assert_eq!(found(None, Some("mail")), "a c d");
    assert_eq!(found(Some("shop"), Some("mail")), "a c");
    assert_eq!(found(Some("shop"), Some("mails")), "");
    assert_eq!(found(Some("none"), None), "");
    assert_eq!(found(None, None), "");
}
