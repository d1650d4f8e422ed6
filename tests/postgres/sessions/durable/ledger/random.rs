//! Whatever one broker or two do to queues, each lists what a plain count finds.

use std::thread;
use std::time::Duration;

use queen::model::durable::read::QueueFilter;
use queen::model::durable::{DeleteGroup, NamedTime, QueueOptions, Seek, SeekTo};
use queen::postgres::durable::reads::QueueQuery;
use queen::postgres::durable::{Batch, CursorState, CursorWrite, GroupStart, QueueRow, Round};
use uuid::Uuid;

use super::Broker;
use crate::sessions::durable::rig::{START_US, append, dead_letter, partition, queue, segment};
use crate::sessions::server::{Database, Server};
use crate::sessions::store::TENANT;

const QUEUES: [&str; 3] = ["first", "second", "third"];
const GROUPS: [&str; 2] = ["fast", "slow"];

/// Numbers that a seed decides (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len())])
    }
}

/// Brokers on a database.
struct World {
    random: Random,
    _database: Database,
    brokers: Vec<Broker>,
    client: postgres::Client,
    round: Round,
    idle_round: Round,
    next_id: i64,
}

impl World {
    fn new(seed: u64, names: &[&'static str]) -> World {
        let database = Server::shared().database();
        let brokers = names.iter().map(|name| Broker::on(&database, name));
        let mut brokers = Vec::from_iter(brokers);
        brokers.iter_mut().for_each(Broker::beat);
        World {
            random: Random(seed),
            client: database.client(),
            _database: database,
            brokers,
            round: Round::default(),
            idle_round: Round::default(),
            next_id: 1,
        }
    }

    fn id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    /// The numbers of a question.
    fn numbers<const N: usize>(&mut self, question: &str) -> Vec<[i64; N]> {
        let rows = self.client.query(question, &[]).expect("rows");
        let row = |row: postgres::Row| std::array::from_fn(|column| row.get(column));
        rows.into_iter().map(row).collect()
    }

    /// Partitions that are there, with their queues and ends.
    fn partitions(&mut self) -> Vec<[i64; 3]> {
        self.numbers(
            "SELECT id, queue_id, coalesce((
               SELECT max(base_offset + count) FROM queen.durable_segment WHERE partition_id = id), 0)
             FROM queen.durable_partition ORDER BY id",
        )
    }

    /// A random broker stores a batch, or finds that it is stale.
    fn store(&mut self, batch: &Batch) {
        let broker = self.random.below(self.brokers.len());
        let done = self.brokers[broker].session.commit_batch(batch);
        done.expect("it is judged on what is there");
    }

    fn make_queue(&mut self) {
        let name = QUEUES[self.random.below(QUEUES.len())];
        let known = self.numbers::<1>(&format!(
            "SELECT id FROM queen.durable_queue WHERE name = '{name}'"
        ));
        if !known.is_empty() {
            return;
        }
        let options = QueueOptions {
            retention_enabled: self.random.below(4) > 0,
            retention_s: 3_600,
            ..QueueOptions::default()
        };
        let row = QueueRow {
            options,
            task: "work".into(),
            ..queue(self.id(), name)
        };
        let queues = vec![row];
        self.store(&Batch {
            queues,
            ..Batch::default()
        });
    }

    fn make_partition(&mut self) {
        let queues = self.numbers::<1>("SELECT id FROM queen.durable_queue ORDER BY id");
        let Some([queue_id]) = self.random.one(&queues) else {
            return;
        };
        let id = self.id();
        let segments = match self.random.below(3) {
            0 => Vec::new(),
            count => vec![segment(id, 0, count)],
        };
        self.store(&Batch {
            partitions: vec![partition(id, queue_id, &format!("partition {id}"))],
            segments,
            ..Batch::default()
        });
    }

    fn push(&mut self) {
        let partitions = self.partitions();
        if let Some([id, _, behind]) = self.random.one(&partitions) {
            let count = 1 + self.random.below(3);
            self.store(&append(id, behind, count));
        }
    }

    fn register(&mut self) {
        let queue = QUEUES[self.random.below(QUEUES.len())];
        let group = GROUPS[self.random.below(GROUPS.len())];
        let start = [GroupStart::All, GroupStart::New][self.random.below(2)];
        let broker = self.random.below(self.brokers.len());
        let session = &mut self.brokers[broker].session;
        let made = session.register_group(TENANT, queue, group, start);
        made.expect("a group");
    }

    /// A group takes some of a partition, or passes it, and now and then gives up a message.
    fn move_group(&mut self) {
        let places = self.numbers::<6>(
            "SELECT known.id, part.id, part.queue_id, coalesce(held.version, 0),
                    coalesce(held.committed, 0), coalesce((
                      SELECT max(base_offset + count) FROM queen.durable_segment AS stored
                      WHERE stored.partition_id = part.id), 0)
             FROM queen.durable_group AS known
             JOIN queen.durable_queue AS owner ON owner.name = known.queue
             JOIN queen.durable_partition AS part ON part.queue_id = owner.id
             LEFT JOIN queen.durable_cursor AS held
               ON held.group_id = known.id AND held.partition_id = part.id
             ORDER BY known.id, part.id",
        );
        let Some([group_id, partition_id, queue_id, version, committed, behind]) =
            self.random.one(&places)
        else {
            return;
        };
        let left = usize::try_from(behind - committed).unwrap_or(0);
        let committed = match self.random.below(3) {
            0 => behind.max(committed),
            _ => committed + self.random.below(left + 1) as i64,
        };
        let lease = self.random.below(3);
        let state = CursorState {
            committed,
            batch_end: behind.max(committed),
            lease_id: (lease > 0).then(|| Uuid::from_u128(5)),
            lease_until_us: [0, START_US, START_US * 2][lease],
            retries: self.random.below(2) as i32,
            settled_us: START_US,
            ..CursorState::default()
        };
        let dead_letters = match self.random.below(8) {
            0 => vec![dead_letter(queue_id, partition_id, 0)],
            _ => Vec::new(),
        };
        self.store(&Batch {
            cursors: vec![CursorWrite {
                group_id,
                partition_id,
                version,
                state,
            }],
            dead_letters,
            ..Batch::default()
        });
    }

    fn operate(&mut self) {
        let group = GROUPS[self.random.below(GROUPS.len())];
        let queue = QUEUES[self.random.below(QUEUES.len())];
        let broker = self.random.below(self.brokers.len());
        let kind = self.random.below(6);
        let session = &mut self.brokers[broker].session;
        match kind {
            0 => {
                let all = self.random.below(2) == 0;
                let asked = DeleteGroup {
                    group: group.into(),
                    queue: (!all).then(|| queue.into()),
                    registration: self.random.below(2) == 0,
                };
                session.delete_group(TENANT, &asked).expect("it is done");
            }
            1 => {
                session.delete_queue(TENANT, queue).expect("it is done");
            }
            _ => {
                let to = match self.random.below(3) {
                    0 => SeekTo::End,
                    1 => SeekTo::Offset(self.random.below(5) as i64),
                    _ => SeekTo::Time(NamedTime {
                        text: "as sent".into(),
                        time_us: START_US + 1_500_000,
                    }),
                };
                let asked = Seek {
                    group: group.into(),
                    queue: queue.into(),
                    partition: None,
                    to,
                };
                session.seek_group(TENANT, &asked).expect("it is done");
            }
        }
    }

    fn remove_old(&mut self) {
        let broker = self.random.below(self.brokers.len());
        let session = &mut self.brokers[broker].session;
        match self.random.below(4) {
            0 => {
                session.sweep_leftovers(5).expect("a step");
            }
            1 => {
                let idle = Duration::from_secs(1);
                let step = session.remove_idle(&mut self.idle_round, idle, 2);
                step.expect("a step");
            }
            _ => {
                session.retain(&mut self.round, 3).expect("a step");
            }
        }
    }

    fn list(&mut self) {
        let filter = QueueFilter {
            task: Some("work".into()),
            ..QueueFilter::default()
        };
        let name = QUEUES[self.random.below(QUEUES.len())];
        let query = QueueQuery {
            name: (self.random.below(3) == 0).then_some(name),
            filter: (self.random.below(2) == 0).then_some(&filter),
            group: (self.random.below(3) == 0).then_some(GROUPS[0]),
            page: None,
            with_ages: self.random.below(2) == 0,
        };
        let broker = self.random.below(self.brokers.len());
        self.brokers[broker].agree(query);
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.make_queue(),
            1 | 2 => self.make_partition(),
            3 => self.register(),
            4 => self.operate(),
            5..8 => self.remove_old(),
            8..11 => self.push(),
            11..15 => self.move_group(),
            _ => self.list(),
        }
    }
}

/// Whether each broker looks at nothing when all is quiet.
fn live(seed: u64, names: &[&'static str]) -> bool {
    let mut world = World::new(seed * 0x9e37_79b9, names);
    for _ in 0..400 {
        world.step();
    }
    let quiet = |broker: &mut Broker| {
        broker.agree(QueueQuery::default());
        broker.agree(QueueQuery::default()) == 0
    };
    world.brokers.iter_mut().all(quiet)
}

#[track_caller]
fn live_by_seeds(names: &'static [&'static str]) {
    for seed in 1..=4 {
        // A panic names its thread.
        let thread = thread::Builder::new().name(format!("seed {seed}"));
        let lived = thread.spawn(move || live(seed, names)).expect("a thread");
        assert!(lived.join().expect("it agrees"), "seed {seed}");
    }
}

#[test]
fn a_broker_lists_what_is_there_whatever_it_does() {
    live_by_seeds(&["incarnation-b"]);
}

#[test]
fn two_brokers_list_what_is_there_whatever_they_do() {
    live_by_seeds(&["incarnation-b", "incarnation-c"]);
}
