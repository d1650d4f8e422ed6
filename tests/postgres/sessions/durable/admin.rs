//! What operators change: groups that go or move, dead letters, traces.

use bytes::Bytes;
use queen::model::TenantId;
use queen::model::durable::{
    Address, DeleteGroup, FindTraces, FoundTraces, LetterFilter, NamedTime, NewTrace, Record, Seek,
    SeekTo, Subscribe, TracePage, records,
};
use queen::postgres::durable::reads::ReadSession;
use queen::postgres::durable::{
    Batch, Committed, CursorState, GroupStart, LetterRow, LettersWanted,
};

use super::rig::{QUEUE, Rig, START_US, append, dead_letter, moves, queue};
use crate::sessions::server::RULES;
use crate::sessions::store::TENANT;

const STRANGER: TenantId = TenantId::from_u128(99);

/// A session that looks things up.
fn reader(rig: &Rig) -> ReadSession {
    let target = rig.database.target();
    ReadSession::open(&target, &RULES, "reader", &mut || true).expect("a session")
}

/// The payload of a message that is not encrypted.
fn payload_of(_place: (i64, i64), record: Record) -> Option<Bytes> {
    (!record.encrypted).then_some(record.payload)
}

/// A cursor as it is stored: version, place, whether leased, failures, settled messages.
fn cursor(rig: &Rig, partition_id: i64) -> String {
    let question = format!(
        "SELECT coalesce(string_agg(concat_ws(' ', version, committed, batch_end, lease_id IS NOT NULL,
           retries, settled_count), ','), 'none')
         FROM queen.durable_cursor WHERE partition_id = {partition_id}"
    );
    rig.database.value(&question)
}

/// A queue with 10 messages in each of so many partitions, and a group that has settled 4 of the first
/// and holds 3 more of them.
fn at_work(partitions: usize, start: GroupStart) -> (Rig, Vec<i64>) {
    let (mut rig, ids) = Rig::with_partitions(partitions);
    for id in &ids {
        rig.append(*id, 10);
    }
    let (group, rows) = rig
        .session
        .register_group(TENANT, QUEUE, "workers", start)
        .expect("a group");
    let version = rows.iter().find(|row| row.partition_id == ids[0]);
    let state = CursorState {
        committed: 4,
        batch_end: 7,
        lease_id: Some(uuid::Uuid::from_u128(5)),
        lease_until_us: START_US * 2,
        retries: 2,
        attempts: 3,
        held_until_us: 9,
        settled_us: START_US,
        settled_count: 4,
    };
    let write = queen::postgres::durable::CursorWrite {
        group_id: group.id,
        partition_id: ids[0],
        version: version.map_or(0, |row| row.version),
        state,
    };
    rig.stored(&moves(&[write]));
    (rig, ids)
}

fn seek(partition: Option<&str>, to: SeekTo) -> Seek {
    Seek {
        group: "workers".into(),
        queue: QUEUE.into(),
        partition: partition.map(Into::into),
        to,
    }
}

fn time(time_us: i64) -> NamedTime {
    NamedTime {
        text: "as sent".into(),
        time_us,
    }
}

#[test]
fn a_seek_moves_every_place_and_ends_leases() {
    let (mut rig, ids) = at_work(2, GroupStart::All);
    assert_eq!(cursor(&rig, ids[0]), "1 4 7 t 2 4");
    let moved = |rig: &mut Rig, to| rig.session.seek_group(TENANT, &seek(None, to));
    assert_eq!(moved(&mut rig, SeekTo::End), Ok(2));
    assert_eq!(cursor(&rig, ids[0]), "2 10 10 f 0 4");
    assert_eq!(cursor(&rig, ids[1]), "1 10 10 f 0 0");
    assert_eq!(moved(&mut rig, SeekTo::Time(time(0))), Ok(2));
    assert_eq!(cursor(&rig, ids[0]), "3 0 0 f 0 4");
    // The message at an offset was accepted so many seconds after the start.
    let at = SeekTo::Time(time(START_US + 3_500_000));
    assert_eq!(moved(&mut rig, at), Ok(2));
    assert_eq!(cursor(&rig, ids[0]), "4 4 4 f 0 4");
    for (offset, place) in [(7, 7), (0, 0), (99, 10)] {
        assert_eq!(moved(&mut rig, SeekTo::Offset(offset)), Ok(2));
        assert!(
            cursor(&rig, ids[1]).contains(&format!(" {place} {place} f")),
            "{offset}"
        );
    }
    let one = seek(Some("partition 1"), SeekTo::Offset(2));
    assert_eq!(rig.session.seek_group(TENANT, &one), Ok(1));
    assert!(cursor(&rig, ids[0]).contains(" 10 10 f"));
    assert!(cursor(&rig, ids[1]).contains(" 2 2 f"));
}

#[test]
fn a_seek_behind_what_was_removed_goes_to_what_is_kept() {
    let (mut rig, ids) = Rig::with_partitions(1);
    rig.append(ids[0], 5);
    rig.append(ids[0], 5);
    rig.database
        .run("DELETE FROM queen.durable_segment WHERE base_offset = 0");
    let asked = seek(None, SeekTo::Offset(1));
    assert_eq!(rig.session.seek_group(TENANT, &asked), Ok(1));
    assert_eq!(cursor(&rig, ids[0]), "1 5 5 f 0 0");
}

#[test]
fn a_seek_of_nothing_changes_nothing() {
    let (mut rig, _) = Rig::with_partitions(0);
    let before = rig.counts();
    let groups = "SELECT count(*)::text FROM queen.durable_group";
    for asked in [
        seek(None, SeekTo::End),
        seek(Some("partition 0"), SeekTo::End),
        Seek {
            queue: "no such queue".into(),
            ..seek(None, SeekTo::End)
        },
    ] {
        assert_eq!(rig.session.seek_group(TENANT, &asked), Ok(0), "{asked:?}");
    }
    let (mut rig, _) = Rig::with_partitions(1);
    let asked = seek(None, SeekTo::End);
    assert_eq!(rig.session.seek_group(STRANGER, &asked), Ok(0));
    assert_eq!(
        rig.session
            .seek_group(TENANT, &seek(Some("x"), SeekTo::End)),
        Ok(0)
    );
    assert_eq!(rig.database.value(groups), "0");
    assert!(rig.counts() >= before);
    // Whoever is new is registered.
    assert_eq!(rig.session.seek_group(TENANT, &asked), Ok(1));
    assert_eq!(rig.database.value(groups), "1");
}

#[test]
fn what_was_judged_before_a_seek_is_stale() {
    let (mut rig, ids) = at_work(1, GroupStart::All);
    let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
    let before = load.cursors[0];
    let asked = seek(None, SeekTo::Offset(before.state.committed));
    assert_eq!(rig.session.seek_group(TENANT, &asked), Ok(1));
    let late = super::rig::moved(before.group_id, ids[0], before.version, 9);
    assert_eq!(
        rig.session.commit_batch(&moves(&[late])),
        Ok(Committed::Stale)
    );
}

fn delete(queue: Option<&str>, registration: bool) -> DeleteGroup {
    DeleteGroup {
        group: "workers".into(),
        queue: queue.map(Into::into),
        registration,
    }
}

#[test]
fn a_group_is_forgotten_in_one_queue_or_everywhere() {
    for named in [None, Some(QUEUE)] {
        let (mut rig, ids) = at_work(2, GroupStart::New);
        let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
        let before = load.cursors[0];
        let start = GroupStart::All;
        for (queue, group) in [("other", "workers"), (QUEUE, "others")] {
            rig.session
                .register_group(TENANT, queue, group, start)
                .expect("a group");
        }
        let changed = rig.session.delete_group(STRANGER, &delete(named, true));
        assert_eq!(changed.expect("nothing of theirs").queues.len(), 0);
        let changed = rig
            .session
            .delete_group(TENANT, &delete(named, true))
            .expect("gone");
        assert_eq!(changed.cursors, 2);
        assert!(changed.queues.contains(&QUEUE.into()));
        assert_eq!(changed.queues.len(), if named.is_some() { 1 } else { 2 });
        let load = rig.session.load_queue(TENANT, QUEUE).expect("a queue");
        let left: Vec<_> = load.groups.iter().map(|group| &*group.name).collect();
        assert_eq!((left, load.cursors.len()), (vec!["others"], 0));
        let late = super::rig::moved(before.group_id, ids[0], before.version, 9);
        assert_eq!(
            rig.session.commit_batch(&moves(&[late])),
            Ok(Committed::Stale)
        );
        let again = rig
            .session
            .delete_group(TENANT, &delete(named, true))
            .expect("nothing");
        assert_eq!((again.cursors, again.queues.len()), (0, 0));
        // What it leaves behind is swept.
        assert!(rig.session.sweep_leftovers(1_000).expect("swept") > 0);
        assert_eq!(cursor(&rig, ids[0]), "none");
    }
}

#[test]
fn a_group_that_keeps_its_registration_stands_where_it_started() {
    for (start, place) in [
        (GroupStart::All, 0),
        (GroupStart::At(START_US + 6_000_000), 6),
        // Registered behind everything, by the clock of the database.
        (GroupStart::New, 10),
    ] {
        let (mut rig, ids) = at_work(1, start);
        let before = cursor(&rig, ids[0]);
        let version: i64 = before
            .split(' ')
            .next()
            .and_then(|one| one.parse().ok())
            .expect("one");
        let changed = rig
            .session
            .delete_group(TENANT, &delete(None, false))
            .expect("reset");
        assert_eq!(
            (changed.cursors, &*changed.queues),
            (1, &[QUEUE.into()][..])
        );
        let expected = format!("{} {place} {place} f 0 0", version + 1);
        assert_eq!(cursor(&rig, ids[0]), expected, "{start:?}, before {before}");
    }
}

#[test]
fn a_subscription_says_where_a_group_starts_again_and_moves_nothing() {
    let (mut rig, ids) = at_work(1, GroupStart::All);
    let before = cursor(&rig, ids[0]);
    let asked = Subscribe {
        group: "workers".into(),
        from: time(START_US + 8_000_000),
    };
    assert_eq!(rig.session.set_group_start(STRANGER, &asked), Ok(0));
    assert_eq!(rig.session.set_group_start(TENANT, &asked), Ok(1));
    assert_eq!(cursor(&rig, ids[0]), before);
    rig.session
        .delete_group(TENANT, &delete(None, false))
        .expect("reset");
    assert_eq!(cursor(&rig, ids[0]), "2 8 8 f 0 0");
}

/// A queue with dead letters of the first so many messages.
fn given_up(count: i64) -> (Rig, i64, i64) {
    let (mut rig, ids) = Rig::with_partitions(1);
    rig.append(ids[0], 10);
    let queue_id = rig
        .database
        .value("SELECT id::text FROM queen.durable_queue");
    let queue_id: i64 = queue_id.parse().expect("an id");
    let mut batch = Batch::default();
    for offset in 0..count {
        let mut letter = dead_letter(queue_id, ids[0], offset);
        letter.failed_us += offset;
        letter.group = ["workers", "others"][usize::from(offset % 2 == 1)].into();
        batch.dead_letters.push(letter);
    }
    rig.stored(&batch);
    (rig, queue_id, ids[0])
}

fn address(partition_id: i64, offset: i64) -> Address {
    Address {
        partition: partition_id.to_string().into(),
        partition_id: Some(partition_id),
        transaction_id: format!("transaction {offset}").into(),
    }
}

/// Six dead letters: two groups have given the same message up.
fn given_up_twice() -> (Rig, i64) {
    let (mut rig, queue_id, partition_id) = given_up(5);
    let twice = dead_letter(queue_id, partition_id, 3);
    rig.stored(&Batch {
        dead_letters: vec![twice],
        ..Batch::default()
    });
    (rig, partition_id)
}

/// The dead letters of a tenant that are meant, all of them; another one has none.
fn find_all(rig: &mut Rig, wanted: LettersWanted<'_>) -> Vec<LetterRow> {
    let found = rig.session.find_letters(TENANT, wanted).expect("letters");
    let others = rig.session.find_letters(STRANGER, wanted).expect("none");
    assert!(others.rows.is_empty());
    assert!(!found.more);
    found.rows
}

#[test]
fn dead_letters_are_found_by_id_and_address() {
    let (mut rig, partition_id) = given_up_twice();
    let mut find = |wanted: LettersWanted<'_>| find_all(&mut rig, wanted);
    let newest = find(LettersWanted::Newest(&address(partition_id, 3)));
    assert_eq!((newest.len(), &*newest[0].group), (1, "workers"));
    assert_eq!(
        (&*newest[0].queue, &*newest[0].partition),
        (QUEUE, "partition 0")
    );
    let record = records(&newest[0].record).next().expect("a message");
    assert_eq!(&*record.transaction_id, b"transaction 3");
    assert_eq!(find(LettersWanted::One(newest[0].id))[0].id, newest[0].id);
    assert!(find(LettersWanted::One(newest[0].id + 1)).is_empty());
    assert!(find(LettersWanted::Newest(&address(partition_id, 9))).is_empty());
    assert!(find(LettersWanted::Newest(&address(partition_id + 1, 3))).is_empty());
}

#[test]
fn dead_letters_are_found_by_filter() {
    let (mut rig, _) = given_up_twice();
    let none = LetterFilter::default;
    for (filter, count) in [
        (none(), 6),
        (
            LetterFilter {
                queue: Some(QUEUE.into()),
                ..none()
            },
            6,
        ),
        (
            LetterFilter {
                queue: Some("x".into()),
                ..none()
            },
            0,
        ),
        (
            LetterFilter {
                group: Some("others".into()),
                ..none()
            },
            2,
        ),
        (
            LetterFilter {
                partition: Some("partition 0".into()),
                ..none()
            },
            6,
        ),
        (
            LetterFilter {
                partition: Some("x".into()),
                queue: Some(QUEUE.into()),
                ..none()
            },
            0,
        ),
        (
            LetterFilter {
                from_us: Some(START_US + 2),
                ..none()
            },
            3,
        ),
        (
            LetterFilter {
                to_us: Some(START_US + 1),
                queue: Some(QUEUE.into()),
                ..none()
            },
            3,
        ),
        (
            LetterFilter {
                from_us: Some(START_US + 1),
                to_us: Some(START_US + 1),
                ..none()
            },
            1,
        ),
    ] {
        let found = find_all(&mut rig, LettersWanted::Meant(&filter));
        assert_eq!(found.len(), count, "{filter:?}");
        assert!(found.is_sorted_by_key(|letter| letter.id));
    }
}

#[test]
fn a_replay_takes_the_dead_letter_with_it_or_nothing_is_stored() {
    let (mut rig, _, partition_id) = given_up(2);
    let wanted = address(partition_id, 1);
    let found = rig
        .session
        .find_letters(TENANT, LettersWanted::Newest(&wanted));
    let id = found.expect("letters").rows[0].id;
    let replay = |at| Batch {
        replayed_letters: vec![id],
        ..append(partition_id, at, 1)
    };
    rig.stored(&replay(10));
    let before = rig.counts();
    assert_eq!(rig.session.commit_batch(&replay(11)), Ok(Committed::Stale));
    assert_eq!(rig.counts(), before);
    let left = rig
        .session
        .find_letters(TENANT, LettersWanted::Newest(&wanted));
    assert!(left.expect("letters").rows.is_empty());
}

#[test]
fn dead_letters_are_thrown_away_in_steps() {
    let (mut rig, queue_id, partition_id) = given_up(1_003);
    let gone = rig
        .session
        .discard_letters_of(STRANGER, &address(partition_id, 0));
    assert_eq!(gone, Ok(0));
    assert_eq!(
        rig.session
            .discard_letters_of(TENANT, &address(partition_id, 0)),
        Ok(1)
    );
    assert_eq!(
        rig.session
            .discard_letters_of(TENANT, &address(partition_id, 0)),
        Ok(0)
    );
    let no_id = Address {
        partition_id: None,
        ..address(partition_id, 1)
    };
    assert_eq!(rig.session.discard_letters_of(TENANT, &no_id), Ok(0));
    let filter = LetterFilter {
        queue: Some(QUEUE.into()),
        ..LetterFilter::default()
    };
    assert_eq!(
        rig.session.discard_letters(STRANGER, &filter),
        Ok((0, false))
    );
    let found = rig
        .session
        .find_letters(TENANT, LettersWanted::Meant(&filter));
    let found = found.expect("letters");
    assert_eq!((found.rows.len(), found.more), (1_000, true));
    assert_eq!(
        rig.session.discard_letters(TENANT, &filter),
        Ok((1_000, true))
    );
    assert_eq!(rig.session.discard_letters(TENANT, &filter), Ok((2, false)));
    assert_eq!(rig.session.discard_letters(TENANT, &filter), Ok((0, false)));
    // What one request replays is bounded by bytes, too, but for the first.
    let mut batch = Batch::default();
    for offset in 0..3 {
        let mut letter = dead_letter(queue_id, partition_id, offset);
        letter.record = Bytes::from(vec![0; 9 << 20]);
        batch.dead_letters.push(letter);
    }
    rig.stored(&batch);
    let found = rig
        .session
        .find_letters(TENANT, LettersWanted::Meant(&filter));
    let found = found.expect("letters");
    assert_eq!((found.rows.len(), found.more), (1, true));
}

fn trace(message: Address, names: &[&str]) -> NewTrace {
    NewTrace {
        message,
        group: "workers".into(),
        names: names.iter().map(|name| (*name).into()).collect(),
        event: "step".into(),
        data: Bytes::from_static(b"{\"b\":1,\"a\":\"\\u0000\"}"),
        worker: None,
    }
}

const PAGE: TracePage = TracePage {
    limit: 2,
    offset: 0,
};

#[test]
fn traces_are_found_by_message_and_by_name() {
    let (mut rig, ids) = Rig::with_partitions(1);
    rig.append(ids[0], 5);
    let mut note = |tenant, message, names: &[&str], offset| {
        let noted = rig
            .session
            .record_trace(tenant, &trace(message, names), offset);
        noted.expect("a trace").is_some()
    };
    assert!(!note(STRANGER, address(ids[0], 1), &["x"], None));
    assert!(!note(TENANT, address(ids[0] + 1, 1), &["x"], None));
    assert!(note(TENANT, address(ids[0], 1), &["x", "y"], Some(1)));
    assert!(note(TENANT, address(ids[0], 1), &["x"], None));
    // Somebody else's message lies there by now.
    assert!(note(TENANT, address(ids[0], 2), &["x"], Some(3)));
    assert!(note(TENANT, address(ids[0], 3), &[], Some(3)));
    let mut reader = reader(&rig);
    let of_message = FindTraces::Message(address(ids[0], 1));
    let found = reader.find_traces(TENANT, &of_message, &mut || true, &mut payload_of);
    let Ok(FoundTraces::OfMessage(rows)) = found else {
        panic!("{found:?}");
    };
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].names, ["x".into(), "y".into()] as [Box<str>; 2]);
    assert_eq!(
        (&*rows[0].queue, &*rows[0].partition),
        (QUEUE, "partition 0")
    );
    assert_eq!(&*rows[0].data, b"{\"b\":1,\"a\":\"\\u0000\"}");
    assert_eq!((&*rows[0].event, rows[0].worker.as_deref()), ("step", None));
    let named = |offset| FindTraces::Name {
        name: "x".into(),
        page: TracePage { offset, ..PAGE },
    };
    let mut payloads = Vec::new();
    for offset in [0, 2, 4] {
        let found = reader.find_traces(TENANT, &named(offset), &mut || true, &mut payload_of);
        let Ok(FoundTraces::Named { total, rows, .. }) = found else {
            panic!("{found:?}");
        };
        assert_eq!(total, 3);
        let shown = rows.iter().map(|row| (row.id, row.payload.is_some()));
        payloads.extend(shown);
    }
    assert!(payloads.is_sorted_by_key(|(id, _)| -id));
    let shown: Vec<bool> = payloads.into_iter().map(|(_, shown)| shown).collect();
    assert_eq!(shown, [false, false, true]);
    let found = reader.find_traces(
        TENANT,
        &FindTraces::Names(PAGE),
        &mut || true,
        &mut payload_of,
    );
    let Ok(FoundTraces::Names { total, rows, .. }) = found else {
        panic!("{found:?}");
    };
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (&*row.name, row.traces, row.messages))
        .collect();
    assert_eq!((total, &*rows), (2, &[("x", 3, 2), ("y", 1, 1)][..]));
    let found = reader.find_traces(
        STRANGER,
        &FindTraces::Names(PAGE),
        &mut || true,
        &mut payload_of,
    );
    assert!(matches!(found, Ok(FoundTraces::Names { total: 0, .. })));
}

#[test]
fn traces_and_dead_letters_go_with_their_queue() {
    let (mut rig, queue_id, partition_id) = given_up(3);
    for _ in 0..3 {
        let trace = trace(address(partition_id, 1), &["x", "y"]);
        rig.session
            .record_trace(TENANT, &trace, None)
            .expect("a trace");
    }
    assert_eq!(rig.session.delete_queue(TENANT, QUEUE), Ok(true));
    let mut reader = reader(&rig);
    let of_message = FindTraces::Message(address(partition_id, 1));
    let found = reader.find_traces(TENANT, &of_message, &mut || true, &mut payload_of);
    assert!(matches!(found, Ok(FoundTraces::OfMessage(rows)) if rows.is_empty()));
    let found = reader.find_traces(
        TENANT,
        &FindTraces::Names(PAGE),
        &mut || true,
        &mut payload_of,
    );
    assert!(matches!(found, Ok(FoundTraces::Names { total: 0, .. })));
    let all = LetterFilter::default();
    let found = rig.session.find_letters(TENANT, LettersWanted::Meant(&all));
    assert!(found.expect("letters").rows.is_empty());
    // One of the same name has nothing to do with it.
    let id = rig.id();
    assert_ne!(id, queue_id);
    rig.stored(&Batch {
        queues: vec![queue(id, QUEUE)],
        ..Batch::default()
    });
    let mut steps = 0;
    while rig.session.sweep_leftovers(2).expect("swept") == 2 {
        steps += 1;
        assert!(steps < 100, "it comes to an end");
    }
    let left = "SELECT concat_ws(' ', (SELECT count(*) FROM queen.trace),
        (SELECT count(*) FROM queen.trace_name), (SELECT count(*) FROM queen.dead_letter),
        (SELECT count(*) FROM queen.durable_leftover))";
    assert_eq!(rig.database.value(left), "0 0 0 0");
}
