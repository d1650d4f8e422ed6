//! A batch that is stored, and one of which nothing is.

use std::collections::BTreeMap;

use bytes::Bytes;
use queen::model::durable::{QueueOptions, records};
use queen::postgres::SessionFault;
use queen::postgres::durable::{
    Batch, Committed, CursorState, GroupStart, NewSegment, QueueRow, Range,
};
use uuid::Uuid;

use super::rig::{
    QUEUE, Rig, START_US, append, dead_letter, moved, moves, partition, queue, record, segment,
    tail,
};
use crate::sessions::store::TENANT;

/// A cursor with something in each of its fields.
const LEASED: CursorState = CursorState {
    committed: 1,
    batch_end: 3,
    lease_id: Some(Uuid::from_u128(5)),
    lease_until_us: START_US + 60,
    retries: 2,
    attempts: 4,
    held_until_us: START_US + 30,
    settled_us: START_US + 1,
    settled_count: 1,
};

/// A queue with something in each of its fields.
fn shop_queue(id: i64) -> QueueRow {
    QueueRow {
        namespace: "shop".into(),
        task: "invoices".into(),
        options: QueueOptions {
            retry_delay_ms: Some(7),
            max_size: u64::MAX,
            priority: -3,
            sink_hold: "it's \"held\"".into(),
            ..QueueOptions::implicit()
        },
        ..queue(id, QUEUE)
    }
}

#[test]
fn everything_at_once_is_stored_and_loaded_as_it_was() {
    let mut rig = Rig::empty();
    let started = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::New);
    let (group, cursors) = started.expect("a group of a queue that is not there");
    assert_eq!(cursors.len(), 0);
    let (queue_id, partition_id) = (rig.id(), rig.id());
    let name = "it's a / \u{1f980}";
    let mut leased = moved(group.id, partition_id, 0, 1);
    leased.state = LEASED;
    rig.stored(&Batch {
        queues: vec![shop_queue(queue_id)],
        partitions: vec![partition(partition_id, queue_id, name)],
        segments: vec![segment(partition_id, 0, 2), segment(partition_id, 2, 3)],
        cursors: vec![leased],
        dead_letters: vec![dead_letter(queue_id, partition_id, 0)],
        ..Batch::default()
    });

    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let (stored, made) = (load.queue.expect("it is there"), shop_queue(queue_id));
    assert_eq!((stored.id, &*stored.name), (queue_id, QUEUE));
    assert_eq!((&*stored.namespace, &*stored.task), ("shop", "invoices"));
    assert_eq!(stored.options, made.options);
    assert_eq!(stored.created_us, START_US);
    let found = &load.partitions[0];
    assert_eq!((found.id, &*found.name), (partition_id, name));
    assert_eq!((found.first_offset, found.next_offset), (0, 5));
    assert_eq!(found.written_us, record(4).created_us);
    let loaded = &load.groups[0];
    assert_eq!((&*loaded.name, &*loaded.mode), ("workers", "new"));
    let cursor = load.cursors[0];
    assert_eq!(cursor.group_id, group.id);
    assert_eq!(cursor.partition_id, partition_id);
    assert_eq!((cursor.version, cursor.state), (1, LEASED));
    let asked = Range {
        partition_id,
        from: 0,
        to: 5,
    };
    let segments = rig.session.read_segments(&[asked]).expect("segments");
    let messages = segments
        .iter()
        .flat_map(|segment| records(&segment.payload));
    assert!(messages.eq((0..5).map(record)));
    let letter = "SELECT concat_ws('|', group_name, message_offset, error, retries, transaction_id)
                  FROM queen.dead_letter";
    let expected = "workers|0|it failed|3|transaction 0";
    assert_eq!(rig.database.value(letter), expected);
}

#[test]
fn what_a_batch_does_not_have_is_no_work() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let before = rig.counts();
    rig.stored(&Batch::default());
    rig.stored(&Batch {
        tails: vec![tail(ids[0], 0)],
        ..Batch::default()
    });
    assert_eq!(rig.counts(), before);
}

#[test]
fn nothing_of_a_batch_is_stored_where_one_row_is_refused() {
    let (mut rig, ids) = Rig::with_partitions(2);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let (group, _) = registered.expect("a group");
    rig.append(ids[0], 1);
    let before = rig.counts();
    let (queue_id, made) = (rig.id(), rig.id());
    let whole = Batch {
        queues: vec![queue(queue_id, "second")],
        partitions: vec![partition(made, queue_id, "p")],
        tails: vec![tail(ids[0], 1), tail(ids[1], 0)],
        segments: vec![
            segment(ids[0], 1, 1),
            segment(ids[1], 0, 1),
            segment(made, 0, 1),
        ],
        cursors: vec![moved(group.id, ids[0], 0, 1)],
        dead_letters: vec![dead_letter(queue_id, ids[0], 0)],
        ..Batch::default()
    };
    let refused = |rig: &mut Rig, batch: &Batch| {
        let fault = rig.session.commit_batch(batch).expect_err("it is refused");
        let SessionFault::Write { heals: false, .. } = fault else {
            panic!("{fault:?}")
        };
    };
    let clone = |change: &dyn Fn(&mut Batch)| {
        let mut batch = Batch {
            queues: whole.queues.clone(),
            partitions: whole.partitions.clone(),
            tails: whole.tails.clone(),
            segments: whole.segments.clone(),
            cursors: whole.cursors.clone(),
            dead_letters: whole.dead_letters.clone(),
            ..Batch::default()
        };
        change(&mut batch);
        batch
    };
    refused(&mut rig, &clone(&|batch| batch.segments[2].count = 0));
    refused(
        &mut rig,
        &clone(&|batch| batch.segments[2].base_offset = -1),
    );
    refused(
        &mut rig,
        &clone(&|batch| batch.partitions[0].name = "".into()),
    );
    refused(
        &mut rig,
        &clone(&|batch| batch.queues[0].name = "x".repeat(513).into()),
    );
    refused(
        &mut rig,
        &clone(&|batch| batch.dead_letters[0].group = "\0".into()),
    );
    // A key that no race can take: to judge it again would end the same, and sink who is beside it.
    refused(
        &mut rig,
        &clone(&|batch| batch.segments.push(segment(made, 0, 1))),
    );
    assert_eq!(rig.counts(), before);
    let stale = clone(&|batch| batch.cursors[0].version = 9);
    assert_eq!(rig.session.commit_batch(&stale), Ok(Committed::Stale));
    assert_eq!(rig.counts(), before);
    rig.stored(&whole);
    assert_ne!(rig.counts(), before);
}

#[test]
fn a_thousand_partitions_are_one_batch() {
    let (mut rig, ids) = Rig::with_partitions(1_000);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let (group, _) = registered.expect("a group");
    for round in 0..3 {
        let batch = Batch {
            tails: ids.iter().map(|&id| tail(id, 2 * round)).collect(),
            segments: ids.iter().map(|&id| segment(id, 2 * round, 2)).collect(),
            cursors: ids
                .iter()
                .map(|&id| moved(group.id, id, round, 2 * round))
                .collect(),
            ..Batch::default()
        };
        rig.stored(&batch);
        assert_eq!(rig.session.commit_batch(&batch), Ok(Committed::Stale));
    }
    let (partitions, cursors) = rig.session.refresh_partitions(&ids).expect("rows");
    assert_eq!(partitions.len(), 1_000);
    assert!(partitions.iter().all(|row| row.next_offset == 6));
    assert_eq!(cursors.len(), 1_000);
    assert!(
        cursors
            .iter()
            .all(|row| row.version == 3 && row.state.committed == 4)
    );
}

#[test]
fn cursors_with_rows_and_without_are_one_batch() {
    let (mut rig, ids) = Rig::with_partitions(4);
    let registered = rig
        .session
        .register_group(TENANT, QUEUE, "workers", GroupStart::All);
    let (group, _) = registered.expect("a group");
    rig.stored(&moves(&[
        moved(group.id, ids[1], 0, 1),
        moved(group.id, ids[3], 0, 1),
    ]));
    rig.stored(&moves(&[
        moved(group.id, ids[0], 0, 5),
        moved(group.id, ids[1], 1, 5),
        moved(group.id, ids[2], 0, 5),
        moved(group.id, ids[3], 1, 5),
    ]));
    let (_, cursors) = rig.session.refresh_partitions(&ids).expect("rows");
    let versions: BTreeMap<i64, i64> = cursors
        .iter()
        .map(|row| (row.partition_id, row.version))
        .collect();
    let expected = [1, 2, 1, 2];
    assert_eq!(versions.into_values().collect::<Vec<_>>(), expected);
    assert!(cursors.iter().all(|row| row.state.committed == 5));
}

#[test]
fn a_segment_of_twenty_megabytes_is_stored_and_read() {
    let (mut rig, ids) = Rig::with_partitions(1);
    // Nothing that could be compressed.
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..20 * 1024 * 1024)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let payload = Bytes::from(bytes);
    let large = NewSegment {
        payload: payload.clone(),
        ..segment(ids[0], 0, 1)
    };
    rig.stored(&Batch {
        segments: vec![large],
        ..append(ids[0], 0, 1)
    });
    rig.append(ids[0], 1);
    let asked = Range {
        partition_id: ids[0],
        from: 0,
        to: 1,
    };
    let segments = rig.session.read_segments(&[asked]).expect("segments");
    assert_eq!(segments.len(), 1);
    assert!(segments[0].payload == payload);
    // What fits into a page stays in its row; what does not is not compressed.
    let outside = "SELECT pg_relation_size(reltoastrelid) >= 20 * 1024 * 1024 FROM pg_class
                   WHERE oid = 'queen.durable_segment'::regclass";
    assert_eq!(rig.database.value(outside), "true");
    let table = "SELECT reltoastrelid::regclass FROM pg_class
                 WHERE oid = 'queen.durable_segment'::regclass";
    let table = rig.database.value(table);
    // The rows themselves: a server's statistics lag behind what they count.
    let chunks = format!("SELECT count(*) FROM {table}");
    let before = rig.database.value(&chunks);
    assert_ne!(before, "0");
    let whole = NewSegment {
        payload: payload.slice(..7_900),
        ..segment(ids[0], 2, 1)
    };
    rig.stored(&Batch {
        tails: vec![tail(ids[0], 2)],
        segments: vec![whole],
        ..Batch::default()
    });
    assert_eq!(rig.database.value(&chunks), before);
    assert_eq!(rig.bases(ids[0], 0..9), [0, 1, 2]);
}

#[test]
fn a_text_with_a_character_that_the_server_cannot_keep_is_stored() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let mut letter = dead_letter(1, ids[0], 0);
    letter.error = "a\0b".into();
    letter.transaction_id = "\0".into();
    rig.stored(&Batch {
        dead_letters: vec![letter],
        replayed_letters: Vec::new(),
        ..Batch::default()
    });
    let stored = "SELECT error || transaction_id FROM queen.dead_letter";
    assert_eq!(rig.database.value(stored), "a\u{fffd}b\u{fffd}");
}

#[test]
#[should_panic(expected = "has no tail to check")]
fn what_is_appended_must_be_fenced() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let batch = Batch {
        tails: Vec::new(),
        ..append(ids[0], 0, 1)
    };
    // It does not come to an answer.
    let _ = rig.session.commit_batch(&batch);
}
