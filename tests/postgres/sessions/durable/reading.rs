//! Stored messages and their transaction ids, read by offset.

use queen::postgres::durable::{Batch, NewSegment, Range, SegmentRow};

use super::rig::{Rig, record, segment, tail};

#[test]
fn a_run_is_read_with_the_segment_that_holds_its_first_offset() {
    let (mut rig, ids) = Rig::with_partitions(2);
    for count in [2, 3, 1, 4] {
        rig.append(ids[0], count);
    }
    rig.append(ids[1], 1);
    // They begin at 0, 2, 5 and 6.
    let cases: [(std::ops::Range<i64>, &[i64]); 9] = [
        (0..10, &[0, 2, 5, 6]),
        (0..1, &[0]),
        (1..2, &[0]),
        (1..3, &[0, 2]),
        (4..6, &[2, 5]),
        (5..5, &[]),
        (9..10, &[6]),
        (10..20, &[]),
        (3..i64::MAX, &[2, 5, 6]),
    ];
    for (run, expected) in cases {
        assert_eq!(rig.bases(ids[0], run.clone()), expected, "{run:?}");
    }
    rig.database
        .run("DELETE FROM queen.durable_segment WHERE base_offset IN (0, 2) AND count > 1");
    assert_eq!(rig.bases(ids[0], 0..10), [5, 6]);
    assert_eq!(rig.bases(ids[0], 3..6), [5]);
    assert_eq!(rig.bases(ids[0], 0..4), [] as [i64; 0]);
}

#[test]
fn many_runs_are_one_question() {
    let (mut rig, ids) = Rig::with_partitions(200);
    for _ in 0..3 {
        let tails = rig.session.refresh_partitions(&ids).expect("rows").0;
        rig.stored(&Batch {
            tails: tails
                .iter()
                .map(|row| tail(row.id, row.next_offset))
                .collect(),
            segments: tails
                .iter()
                .map(|row| segment(row.id, row.next_offset, 2))
                .collect(),
            ..Batch::default()
        });
    }
    let mut asked: Vec<Range> = ids
        .iter()
        .map(|&partition_id| Range {
            partition_id,
            from: 3,
            to: 6,
        })
        .collect();
    asked.reverse();
    let rows = rig.session.read_segments(&asked).expect("segments");
    let places: Vec<(i64, i64)> = rows
        .iter()
        .map(|row| (row.partition_id, row.base_offset))
        .collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    let expected: Vec<(i64, i64)> = sorted.iter().flat_map(|&id| [(id, 2), (id, 4)]).collect();
    assert_eq!(places, expected);
    let whole = |row: &SegmentRow| {
        let of_test = segment(row.partition_id, row.base_offset, 2);
        row.count == 2 && row.payload == of_test.payload
    };
    assert!(rows.iter().all(whole));
    assert!(rig.session.read_segments(&[]).expect("nothing").is_empty());
}

#[test]
fn the_ids_of_a_window_are_read_newest_first() {
    let (mut rig, ids) = Rig::with_partitions(2);
    // More than are read in one step.
    const SEGMENTS: i64 = 2_100;
    let segments: Vec<NewSegment> = (0..SEGMENTS).map(|at| segment(ids[0], at, 1)).collect();
    rig.stored(&Batch {
        tails: vec![tail(ids[0], 0), tail(ids[1], 0)],
        segments,
        ..Batch::default()
    });
    let rows = rig.session.read_hashes(ids[0], 0, 0).expect("ids");
    let bases: Vec<i64> = rows.iter().map(|row| row.base_offset).collect();
    assert_eq!(bases, (0..SEGMENTS).rev().collect::<Vec<i64>>());
    for row in &rows {
        assert_eq!(*row.hashes, row.base_offset.to_le_bytes());
        assert_eq!(row.created_us, record(row.base_offset).created_us);
    }
    for since in [2_099, 2_000, 1_100, 1_099, 1_000, 7] {
        let rows = rig
            .session
            .read_hashes(ids[0], record(since).created_us, 0)
            .expect("ids");
        assert_eq!(rows.last().map(|row| row.base_offset), Some(since));
        assert_eq!(rows.len() as i64, SEGMENTS - since);
    }
    let rows = rig.session.read_hashes(ids[0], 0, 2_000).expect("ids");
    assert_eq!(rows.len(), 100);
    assert_eq!(rows[99].base_offset, 2_000);
    let after = record(SEGMENTS).created_us;
    assert!(
        rig.session
            .read_hashes(ids[0], after, 0)
            .expect("ids")
            .is_empty()
    );
    assert!(
        rig.session
            .read_hashes(ids[1], 0, 0)
            .expect("ids")
            .is_empty()
    );
}
