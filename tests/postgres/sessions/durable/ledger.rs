//! Listings by what is remembered: as a plain count has it, with looks only at what has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use queen::limits::LEDGER_ROWS_MAX;
use queen::model::TenantId;
use queen::postgres::Session;
use queen::postgres::durable::reads::{Ledger, QueueQuery, QueueSums, ReadSession};
use queen::postgres::durable::{Batch, Committed, GroupStart, Marks};

use super::rig::{QUEUE, Rig, append, partition, queue, segment, tail};
use crate::poll::eventually;
use crate::sessions::server::{Database, RULES};
use crate::sessions::store::TENANT;

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

mod random;

/// A broker: a session that stores, one that reads, and what it remembers.
struct Broker {
    name: &'static str,
    session: Session,
    reader: ReadSession,
    ledger: Ledger,
}

impl Broker {
    fn on(database: &Database, name: &'static str) -> Broker {
        Broker::with_room(database, name, LEDGER_ROWS_MAX)
    }

    fn with_room(database: &Database, name: &'static str, rows_max: usize) -> Broker {
        let marks = Arc::new(Marks::default());
        let target = database.target();
        let mut session = Session::open(&target, &RULES, name, &mut || true).expect("a session");
        session.note_changes(&marks);
        let reader = ReadSession::open(&target, &RULES, name, &mut || true).expect("a session");
        Broker {
            name,
            session,
            reader,
            ledger: Ledger::of_size(marks, rows_max),
        }
    }

    fn beat(&mut self) {
        self.session.beat(self.name, TIMEOUT).expect("it is stored");
    }

    fn listed(&mut self, tenant: TenantId, query: QueueQuery<'_>) -> QueueSums {
        let asked = (tenant, query);
        self.reader
            .queues_by(&mut self.ledger, asked, &mut || true)
            .expect("an answer")
    }

    fn counted(&mut self, tenant: TenantId, query: QueueQuery<'_>) -> QueueSums {
        self.reader
            .queues(tenant, query, &mut || true)
            .expect("an answer")
    }

    /// Lists, compares with what is counted in the database, and answers at how many partitions it looked.
    #[track_caller]
    fn agree(&mut self, query: QueueQuery<'_>) -> usize {
        let counted = self.counted(TENANT, query);
        let listed = self.listed(TENANT, query);
        assert_eq!(listed.rows.len(), counted.rows.len());
        assert_eq!(listed.pending_partitions, counted.pending_partitions);
        let passed = listed.now_us.zip(counted.now_us);
        let passed = passed.map_or(0, |(listed, counted)| listed - counted);
        for (mut listed, counted) in listed.rows.into_iter().zip(counted.rows) {
            // What waits grows older between the two questions.
            let (ages, older) = (&mut listed.lags.time_us, counted.lags.time_us);
            let grown = ages.0 - older.0;
            assert!((0..=passed * listed.lags.partitions).contains(&grown));
            assert!((0..=passed).contains(&(ages.1 - older.1)));
            assert!((0..=passed).contains(&(ages.2 - older.2)));
            *ages = older;
            assert_eq!(format!("{listed:?}"), format!("{counted:?}"));
        }
        self.ledger.looked()
    }
}

/// A queue with groups in so many partitions, and a broker that has listed it.
fn listed(partitions: usize) -> (Rig, Broker, Vec<i64>) {
    let (mut rig, ids) = Rig::with_partitions(partitions);
    ids.iter().for_each(|id| rig.append(*id, 3));
    let mut broker = Broker::on(&rig.database, "incarnation-b");
    for group in ["fast", "slow"] {
        let start = GroupStart::All;
        let made = broker.session.register_group(TENANT, QUEUE, group, start);
        made.expect("a group");
    }
    assert_eq!(broker.agree(QueueQuery::default()), partitions);
    (rig, broker, ids)
}

#[test]
fn a_listing_looks_only_at_what_has_changed() {
    let (_rig, mut broker, ids) = listed(50);
    let all = QueueQuery::default();
    assert_eq!(broker.agree(all), 0);
    let stored = broker.session.commit_batch(&append(ids[3], 3, 2));
    assert_eq!(stored, Ok(Committed::Stored));
    assert_eq!(broker.agree(all), 1);
    let sums = broker.listed(TENANT, all);
    assert_eq!(sums.rows[0].counts.stored, 152);
    assert_eq!(broker.agree(all), 0);
    let stale = broker.session.commit_batch(&append(ids[4], 9, 1));
    assert_eq!(stale, Ok(Committed::Stale));
    assert_eq!(broker.agree(all), 1);
    // Ages are looked for once, each group's by itself.
    let ages = QueueQuery {
        with_ages: true,
        ..all
    };
    assert_eq!(broker.agree(ages), 0);
    let group = Some("fast");
    assert_eq!(broker.agree(QueueQuery { group, ..ages }), 0);
    let group = Some("nobody");
    assert_eq!(broker.agree(QueueQuery { group, ..ages }), 0);
}

#[test]
fn a_queue_of_which_much_has_changed_is_looked_through() {
    let (mut rig, mut broker, ids) = listed(1_200);
    let all = QueueQuery::default();
    let mut change = |broker: &mut Broker, count: usize| {
        let mut batch = Batch::default();
        for id in &ids[..count] {
            let behind = rig.tail_of(*id);
            batch.tails.push(tail(*id, behind));
            batch.segments.push(segment(*id, behind, 1));
        }
        let stored = broker.session.commit_batch(&batch);
        assert_eq!(stored, Ok(Committed::Stored));
    };
    change(&mut broker, 400);
    assert_eq!(broker.agree(all), 400);
    change(&mut broker, 401);
    assert_eq!(broker.agree(all), 1_200);
}

#[test]
fn another_tenants_listing_knows_nothing_of_it() {
    let (_rig, mut broker, _) = listed(5);
    let stranger = TenantId::from_u128(99);
    assert!(
        broker
            .listed(stranger, QueueQuery::default())
            .rows
            .is_empty()
    );
    let named = QueueQuery {
        name: Some(QUEUE),
        ..QueueQuery::default()
    };
    assert!(broker.listed(stranger, named).rows.is_empty());
    assert_eq!(broker.listed(TENANT, named).rows[0].partitions, 5);
}

#[test]
fn what_takes_more_than_may_be_remembered_is_counted() {
    let (mut rig, ..) = listed(5);
    for room in [0, 4] {
        let mut broker = Broker::with_room(&rig.database, "incarnation-c", room);
        for _ in 0..2 {
            assert_eq!(broker.agree(QueueQuery::default()), 0, "{room}");
        }
    }
    // A second queue takes the room of the first.
    let mut broker = Broker::with_room(&rig.database, "incarnation-c", 5);
    let id = rig.id();
    let made = Batch {
        queues: vec![queue(id, "second")],
        partitions: vec![
            partition(rig.id(), id, "one"),
            partition(rig.id(), id, "two"),
        ],
        ..Batch::default()
    };
    assert_eq!(broker.session.commit_batch(&made), Ok(Committed::Stored));
    let of = |name| QueueQuery {
        name: Some(name),
        ..QueueQuery::default()
    };
    for looked in [(5, 2), (5, 2)] {
        assert_eq!(broker.agree(of(QUEUE)), looked.0);
        assert_eq!(broker.agree(of(QUEUE)), 0);
        assert_eq!(broker.agree(of("second")), looked.1);
        assert_eq!(broker.agree(of("second")), 0);
    }
    assert_eq!(broker.agree(QueueQuery::default()), 0, "both at once");
    let mut broker = Broker::with_room(&rig.database, "incarnation-c", 7);
    assert_eq!(broker.agree(QueueQuery::default()), 7);
    assert_eq!(broker.agree(QueueQuery::default()), 0);
}

#[test]
fn what_is_changed_by_hand_is_seen_when_it_is_asked_for() {
    let (rig, mut broker, ids) = listed(3);
    rig.database.run(&format!(
        "DELETE FROM queen.durable_segment WHERE partition_id = {}",
        ids[0]
    ));
    let all = QueueQuery::default();
    assert_eq!(broker.listed(TENANT, all).rows[0].counts.stored, 9);
    broker.ledger.forget();
    assert_eq!(broker.agree(all), 3);
    assert_eq!(broker.listed(TENANT, all).rows[0].counts.stored, 6);
}

#[test]
fn what_is_stored_behind_a_listing_is_seen_by_the_next() {
    let (rig, mut broker, ids) = listed(5);
    let mut client = rig.database.client();
    let mut change = client.transaction().expect("it begins");
    let lock = "SELECT pg_advisory_xact_lock(31935750722158594)";
    change.batch_execute(lock).expect("the lock");
    let Broker {
        session,
        reader,
        ledger,
        ..
    } = &mut broker;
    let all = QueueQuery::default();
    thread::scope(|scope| {
        let stored = scope.spawn(|| session.commit_batch(&append(ids[2], 3, 4)));
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        eventually("it waits for the lock", || rig.database.value(waits) == "1");
        let mut list = || {
            let sums = reader.queues_by(ledger, (TENANT, all), &mut || true);
            sums.expect("an answer").rows[0].counts.stored
        };
        // Twice: what goes on is not forgotten because it was looked at.
        assert_eq!([list(), list()], [15, 15]);
        drop(change);
        assert_eq!(stored.join().expect("it lives"), Ok(Committed::Stored));
        assert_eq!(list(), 19);
    });
    assert_eq!(broker.agree(all), 0);
}

#[test]
fn what_another_broker_changes_is_seen_at_once() {
    let (mut rig, mut broker, ids) = listed(20);
    let all = QueueQuery::default();
    let mut other = Broker::on(&rig.database, "incarnation-c");
    // Counted anew: until now nobody was told anything.
    broker.beat();
    other.beat();
    assert_eq!(broker.agree(all), 20);
    assert_eq!(broker.agree(all), 0);
    let stored = other.session.commit_batch(&append(ids[3], 3, 2));
    assert_eq!(stored, Ok(Committed::Stored));
    assert_eq!(broker.agree(all), 1);
    let stored = broker.session.commit_batch(&append(ids[3], 5, 2));
    assert_eq!(stored, Ok(Committed::Stored));
    assert_eq!(broker.agree(all), 1);
    assert_eq!(broker.agree(all), 0);
    // One that was away for long may have been told nothing.
    rig.database
        .run("UPDATE queen.broker SET seen_at = now() - interval '70 seconds' WHERE incarnation = 'incarnation-b'");
    for _ in 0..2 {
        broker.ledger.forget();
        assert_eq!(broker.agree(all), 0, "it is counted in the database");
        let behind = rig.tail_of(ids[3]);
        let stored = other.session.commit_batch(&append(ids[3], behind, 2));
        assert_eq!(stored, Ok(Committed::Stored));
    }
    broker.beat();
    assert_eq!(broker.agree(all), 20);
}

#[test]
fn a_long_change_holds_no_listing_up_for_long() {
    let (rig, mut broker, _) = listed(5);
    broker.ledger.forget();
    let mut client = rig.database.client();
    let mut change = client.transaction().expect("it begins");
    let lock = "SELECT pg_advisory_xact_lock(31935750722158594)";
    change.batch_execute(lock).expect("the lock");
    let all = QueueQuery::default();
    assert_eq!(broker.agree(all), 0, "it is counted in the database");
    drop(change);
    assert_eq!(broker.agree(all), 5);
}

#[test]
fn what_another_broker_has_numbered_and_stores_later_is_seen() {
    let (rig, mut broker, ids) = listed(4);
    let mut other = Broker::on(&rig.database, "incarnation-c");
    broker.beat();
    other.beat();
    let all = QueueQuery::default();
    broker.agree(all);
    let mut slow = rig.database.client();
    let mut removal = slow.transaction().expect("it begins");
    let text = format!(
        "SET LOCAL queen.broker = 'incarnation-c'; DELETE FROM queen.durable_segment WHERE partition_id = {id};
         SELECT queen.note_batch('{{}}', ARRAY[{id}::bigint])",
        id = ids[0]
    );
    removal.batch_execute(&text).expect("it is removed");
    let stored = other.session.commit_batch(&append(ids[1], 3, 1));
    assert_eq!(stored, Ok(Committed::Stored));
    assert_eq!(broker.agree(all), 1);
    removal.commit().expect("it is stored");
    assert_eq!(broker.agree(all), 1);
    assert_eq!(broker.agree(all), 0);
}

#[test]
fn a_listing_shows_one_moment_and_what_its_client_has_stored_before() {
    let (mut rig, ids) = Rig::with_partitions(1);
    let mut broker = Broker::on(&rig.database, "incarnation-b");
    let (second, there) = (rig.id(), rig.id());
    let batch = Batch {
        queues: vec![queue(second, "second")],
        partitions: vec![partition(there, second, "only")],
        ..Batch::default()
    };
    rig.stored(&batch);
    let all = QueueQuery::default();
    broker.agree(all);
    let Broker {
        mut session,
        mut reader,
        mut ledger,
        ..
    } = broker;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let asked = (TENANT, all);
                let sums = reader.queues_by(&mut ledger, asked, &mut || true);
                let rows = sums.expect("an answer").rows;
                assert_eq!(rows[0].counts.stored, rows[1].counts.stored);
            }
        });
        for at in 0..1_000 {
            let batch = Batch {
                tails: vec![tail(ids[0], at), tail(there, at)],
                segments: vec![segment(ids[0], at, 1), segment(there, at, 1)],
                ..Batch::default()
            };
            assert_eq!(session.commit_batch(&batch), Ok(Committed::Stored));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let sums = reader.queues_by(&mut ledger, (TENANT, all), &mut || true);
    let rows = sums.expect("an answer").rows;
    assert_eq!(rows[0].counts.stored, 1_000);
    assert!(ledger.looked() <= 2);
}
