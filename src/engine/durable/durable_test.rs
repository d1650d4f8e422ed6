//! Brokers on one database, on one thread: what they promise together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::store_test::Database;
use super::*;
use crate::model::durable::{
    Ack, AckRefused, Extend, Pop, PushItem, PushStatus, Record, Source, Start, Step, StepOperation,
    StepRefused, Verdict, records,
};

pub(super) const TENANT: TenantId = TenantId::DEFAULT;

/// A broker: what it remembers, and requests to it.
pub(super) struct Broker {
    pub(super) memory: Memory,
    requests: u64,
}

/// A delivered message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) partition_id: i64,
    pub(super) partition: Arc<str>,
    pub(super) offset: i64,
    pub(super) lease_id: Option<uuid::Uuid>,
    pub(super) record: Record,
}

impl Broker {
    pub(super) fn new() -> Broker {
        let mut memory = Memory::default();
        memory.set_clock(Instant::now(), 1_700_000_000_000_000);
        memory.followed = Some((0, Instant::now()));
        Broker {
            memory,
            requests: 0,
        }
    }

    /// What everybody is answered for some requests that have gathered.
    pub(super) fn serve(
        &mut self,
        database: &mut Database,
        commands: Vec<Command>,
    ) -> Vec<(u64, Reply)> {
        let batch = commands.into_iter().map(|command| {
            self.requests += 1;
            Asked {
                client: client(self.requests),
                tenant: TENANT,
                command,
            }
        });
        let batch: Vec<Asked> = batch.collect();
        match serve(&mut self.memory, database, &batch).expect("the database answers") {
            Served::Done(answers) => {
                let answers = answers.into_iter();
                answers
                    .map(|(client, reply)| (client.request, reply.expect("served")))
                    .collect()
            }
            Served::Contended => panic!("nobody else is there"),
        }
    }

    pub(super) fn one(&mut self, database: &mut Database, command: Command) -> Reply {
        let mut answers = self.serve(database, vec![command]);
        assert_eq!(answers.len(), 1);
        answers.remove(0).1
    }

    pub(super) fn push(
        &mut self,
        database: &mut Database,
        items: &[(&str, &str)],
    ) -> Vec<PushStatus> {
        let items = items.iter().map(|(partition, id)| item(partition, id));
        let Reply::Pushed(outcomes) = self.one(database, Command::Push(items.collect())) else {
            panic!("a push is answered as one");
        };
        outcomes.into_iter().map(|outcome| outcome.status).collect()
    }

    pub(super) fn pop(&mut self, database: &mut Database, pop: Pop) -> Vec<Message> {
        messages(&self.one(database, Command::Pop(pop)))
    }

    pub(super) fn ack(
        &mut self,
        database: &mut Database,
        message: &Message,
        verdict: Verdict,
    ) -> Option<AckRefused> {
        let ack = ack_of(message, verdict);
        let Reply::Acked(outcomes) = self.one(database, Command::Ack(vec![ack])) else {
            panic!("an ack is answered as one");
        };
        outcomes[0].refused
    }
}

pub(super) fn client(request: u64) -> ClientRef {
    ClientRef {
        request,
        ..ClientRef::NOBODY
    }
}

pub(super) fn item(partition: &str, id: &str) -> PushItem {
    PushItem {
        queue: "orders".into(),
        partition: partition.into(),
        message_id: uuid::Uuid::now_v7(),
        transaction_id: id.into(),
        payload: Bytes::from(format!("\"{id}\"")),
        trace_id: None,
        producer: None,
    }
}

pub(super) fn pop_of(batch: u32, partitions: u32) -> Pop {
    Pop {
        source: Source::Queue("orders".into()),
        group: "workers".into(),
        batch,
        partitions,
        autopilot: false,
        wait_ms: None,
        auto_ack: false,
        lease_s: None,
        start: Some(Start::All),
    }
}

pub(super) fn ack_of(message: &Message, verdict: Verdict) -> Ack {
    let id = std::str::from_utf8(&message.record.transaction_id).expect("text");
    Ack {
        partition_id: Some(message.partition_id),
        transaction_id: id.into(),
        verdict,
        group: "workers".into(),
        lease_id: message.lease_id.map(|lease| lease.to_string().into()),
        error: None,
    }
}

pub(super) fn messages(reply: &Reply) -> Vec<Message> {
    let Reply::Popped(popped) = reply else {
        panic!("{reply:?} is no answer to a pop");
    };
    let mut found = Vec::new();
    for claim in &popped.claims {
        for piece in &claim.pieces {
            let numbered = (piece.base_offset..).zip(records(&piece.segment));
            let wanted = numbered.filter(|(offset, _)| (piece.from..piece.to).contains(offset));
            found.extend(wanted.map(|(offset, record)| Message {
                partition_id: claim.partition_id,
                partition: Arc::clone(&claim.partition),
                offset,
                lease_id: popped.lease_id,
                record,
            }));
        }
    }
    found
}

#[test]
fn what_is_pushed_is_delivered_in_order_and_once() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    let queued = broker.push(&mut database, &[("a", "1"), ("a", "2"), ("b", "3")]);
    assert_eq!(
        queued,
        [0, 1, 0].map(|offset| PushStatus::Queued { offset })
    );
    let taken = broker.pop(&mut database, pop_of(10, 10));
    let ids: Vec<_> = taken
        .iter()
        .map(|message| message.record.transaction_id.clone())
        .collect();
    assert_eq!(ids, ["1", "2", "3"]);
    assert!(broker.pop(&mut database, pop_of(10, 10)).is_empty());
    for message in &taken {
        assert_eq!(broker.ack(&mut database, message, Verdict::Completed), None);
    }
    // Another broker knows nothing but what is stored.
    assert!(Broker::new().pop(&mut database, pop_of(10, 10)).is_empty());
}

#[test]
fn a_repeated_id_is_the_same_message_wherever_it_is_pushed() {
    let (mut database, mut first, mut second) = (Database::default(), Broker::new(), Broker::new());
    first.push(&mut database, &[("a", "1")]);
    let known = PushStatus::Duplicate { offset: 0 };
    assert_eq!(second.push(&mut database, &[("a", "1")]), [known]);
    assert_eq!(
        second.push(&mut database, &[("a", "2")]),
        [PushStatus::Queued { offset: 1 }]
    );
    // The first one's memory is behind: what it would have stored is refused, and judged anew.
    let statuses = first.push(&mut database, &[("a", "2"), ("a", "3")]);
    let (known, queued) = (
        PushStatus::Duplicate { offset: 1 },
        PushStatus::Queued { offset: 2 },
    );
    assert_eq!(statuses, [known, queued]);
    assert_eq!(database.stale, 1);
}

#[test]
fn no_two_brokers_lease_the_same_partition() {
    let (mut database, mut first, mut second) = (Database::default(), Broker::new(), Broker::new());
    first.push(&mut database, &[("a", "1")]);
    assert!(
        second
            .pop(
                &mut database,
                Pop {
                    batch: 1,
                    ..pop_of(1, 1)
                }
            )
            .len()
            == 1
    );
    assert!(first.pop(&mut database, pop_of(1, 1)).is_empty());
}

#[test]
fn a_pop_that_waits_gets_what_is_pushed_in_the_same_commit() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    let waiting = Pop {
        wait_ms: Some(30_000),
        start: None,
        ..pop_of(5, 1)
    };
    assert!(
        broker
            .serve(&mut database, vec![Command::Pop(waiting)])
            .is_empty()
    );
    let pushed = Command::Push(vec![item("a", "1")]);
    let answers = broker.serve(&mut database, vec![pushed]);
    let woken = answers
        .iter()
        .find(|(request, _)| *request == 1)
        .expect("it is woken");
    assert_eq!(messages(&woken.1).len(), 1);
}

#[test]
fn a_database_that_goes_away_leaves_nothing_behind() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1")]);
    database.failures = 1;
    let asked = Asked {
        client: client(99),
        tenant: TENANT,
        command: Command::Push(vec![item("a", "2")]),
    };
    assert!(serve(&mut broker.memory, &mut database, &[asked]).is_err());
    assert_eq!(
        broker.push(&mut database, &[("a", "2")]),
        [PushStatus::Queued { offset: 1 }]
    );
    assert_eq!(broker.pop(&mut database, pop_of(10, 1)).len(), 2);
}

#[test]
fn who_begins_to_wait_in_a_batch_that_fails_or_is_judged_again_waits_once() {
    let (mut database, mut first, mut second) = (Database::default(), Broker::new(), Broker::new());
    first.push(&mut database, &[("a", "1")]);
    let taken = first.pop(&mut database, pop_of(1, 1));
    let waiting = || {
        Command::Pop(Pop {
            wait_ms: Some(30_000),
            ..pop_of(5, 1)
        })
    };
    database.failures = 1;
    let batch = [waiting(), Command::Push(vec![item("a", "2")])].map(|command| Asked {
        client: client(50),
        tenant: TENANT,
        command,
    });
    assert!(serve(&mut first.memory, &mut database, &batch).is_err());
    assert!(first.memory.waiters.take_all().is_empty());
    // The second one's push makes the first one judge again.
    second.push(&mut database, &[("a", "3")]);
    let commands = vec![waiting(), Command::Push(vec![item("a", "4")])];
    let answers = first.serve(&mut database, commands);
    assert_eq!((answers.len(), database.stale), (1, 1));
    assert_eq!(first.memory.waiters.take_all().len(), 1);
    assert_eq!(
        first.ack(&mut database, &taken[0], Verdict::Completed),
        None
    );
}

#[test]
fn what_could_not_be_delivered_goes_back_also_where_its_queue_was_forgotten() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1")]);
    let taken = broker.pop(&mut database, pop_of(1, 1));
    broker.memory.forget_all();
    broker.memory.followed = Some((0, Instant::now()));
    let lease_id = taken[0].lease_id.expect("a lease");
    broker.serve(&mut database, vec![Command::Release { lease_id }]);
    assert_eq!(broker.pop(&mut database, pop_of(1, 1)).len(), 1);
}

#[test]
fn a_lease_is_nobodys_but_its_tenants_also_where_it_is_not_remembered() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1")]);
    let discovery = Source::Discovery {
        namespace: Some("".into()),
        task: None,
    };
    for source in [Source::Queue("orders".into()), discovery] {
        let pop = Pop {
            source,
            ..pop_of(1, 1)
        };
        let taken = broker.pop(&mut database, pop);
        let lease_id = taken[0].lease_id.expect("a lease");
        let extend = Command::Extend(Extend {
            lease_id: lease_id.to_string().into(),
            seconds: 60,
        });
        let mut strange = |memory: &mut Memory, command: &Command| {
            let asked = Asked {
                client: client(50),
                tenant: TenantId::from_u128(7),
                command: command.clone(),
            };
            let served = serve(memory, &mut database, &[asked]);
            let Served::Done(answers) = served.expect("the database answers") else {
                panic!("nobody else is there");
            };
            answers
        };
        let mut forgetful = Broker::new();
        for memory in [&mut broker.memory, &mut forgetful.memory] {
            let is_known = memory.slot(TENANT, "orders").is_some();
            let answers = strange(memory, &extend);
            let Ok(Reply::Extended(extended)) = &answers[0].1 else {
                panic!("{answers:?} is no answer to that");
            };
            assert_eq!(extended.renewed, 0);
            strange(memory, &Command::Release { lease_id });
            let is_loaded = memory.slot(TENANT, "orders").is_some();
            assert!(is_known || !is_loaded, "it is another's");
        }
        let Reply::Extended(extended) = forgetful.one(&mut database, extend) else {
            panic!("a lease is extended");
        };
        assert_eq!(extended.renewed, 1);
        let release = Command::Release { lease_id };
        broker.serve(&mut database, vec![release]);
    }
}

#[test]
fn a_look_for_changes_that_fails_leaves_everything_as_it_was() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1")]);
    let taken = broker.pop(&mut database, pop_of(1, 1));
    let stranger = Ack {
        lease_id: Some("nonsense".into()),
        ..ack_of(&taken[0], Verdict::Completed)
    };
    let waiting = Pop {
        wait_ms: Some(30_000),
        ..pop_of(1, 1)
    };
    let pushed = Command::Push(vec![item("a", "2")]);
    let batch = [pushed, Command::Pop(waiting), Command::Ack(vec![stranger])];
    let batch = batch.map(|command| Asked {
        client: client(50),
        tenant: TENANT,
        command,
    });
    database.failing_looks = 1;
    assert!(serve(&mut broker.memory, &mut database, &batch).is_err());
    assert!(broker.memory.waiters.is_empty());
    let queued = [PushStatus::Queued { offset: 1 }];
    assert_eq!(broker.push(&mut database, &[("a", "2")]), queued);
    assert_eq!(database.stale, 0);
}

#[test]
fn who_waits_is_looked_at_when_everything_was_forgotten() {
    let (mut database, mut first, mut second) = (Database::default(), Broker::new(), Broker::new());
    let waiting = Pop {
        wait_ms: Some(30_000),
        ..pop_of(1, 1)
    };
    assert!(
        first
            .serve(&mut database, vec![Command::Pop(waiting)])
            .is_empty()
    );
    second.push(&mut database, &[("a", "1")]);
    first.memory.forget_all();
    assert!(first.memory.is_due(0));
    let answers = first.serve(&mut database, Vec::new());
    assert_eq!(messages(&answers[0].1).len(), 1);
}

#[test]
fn who_waits_is_served_also_where_a_batch_failed_when_a_lease_was_over() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1")]);
    let lease = Pop {
        lease_s: Some(1),
        ..pop_of(1, 1)
    };
    assert_eq!(broker.pop(&mut database, lease).len(), 1);
    let waiting = Pop {
        wait_ms: Some(30_000),
        ..pop_of(1, 1)
    };
    assert!(
        broker
            .serve(&mut database, vec![Command::Pop(waiting)])
            .is_empty()
    );
    let later_us = broker.memory.time_us(Instant::now()) + 5_000_000;
    broker.memory.set_clock(Instant::now(), later_us);
    // It makes a partition, so that everything of the queue is forgotten when it fails.
    database.failures = 1;
    let asked = Asked {
        client: client(99),
        tenant: TENANT,
        command: Command::Push(vec![item("b", "2")]),
    };
    assert!(serve(&mut broker.memory, &mut database, &[asked]).is_err());
    assert!(broker.memory.is_due(later_us));
    let answers = broker.serve(&mut database, Vec::new());
    assert_eq!(messages(&answers[0].1).len(), 1);
}

#[test]
fn a_place_has_one_timer_however_often_it_is_leased() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    for number in 0..50 {
        broker.push(&mut database, &[("a", &*format!("m{number}"))]);
        let taken = broker.pop(&mut database, pop_of(1, 1));
        assert_eq!(
            broker.ack(&mut database, &taken[0], Verdict::Completed),
            None
        );
    }
    assert_eq!(broker.memory.timers(), 1);
}

#[test]
fn a_step_needs_every_lease_that_it_requires() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1")]);
    let taken = broker.pop(&mut database, pop_of(1, 1));
    let live: Box<str> = taken[0].lease_id.expect("a lease").to_string().into();
    let mut step = |leases: &[&str], id: &str| {
        let step = Step {
            operations: vec![StepOperation::Push(item("next", id))],
            required_leases: leases.iter().map(|&lease| lease.into()).collect(),
        };
        let Reply::Stepped(outcome) = broker.one(&mut database, Command::Step(step)) else {
            panic!("a step is answered as one");
        };
        outcome.result
    };
    let unknown = uuid::Uuid::nil().to_string();
    for leases in [&[&*live, "nonsense"][..], &[&live, &unknown], &[&unknown]] {
        assert!(matches!(step(leases, "2"), Err(StepRefused::Lease { .. })));
    }
    assert!(step(&[&live], "2").is_ok());
}

#[test]
fn a_discovery_that_waits_gets_the_first_message_of_a_queue_that_comes_to_be() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    let waiting = |task: &str| Pop {
        source: Source::Discovery {
            namespace: Some("shop".into()),
            task: Some(task.into()),
        },
        wait_ms: Some(30_000),
        start: None,
        ..pop_of(5, 1)
    };
    let waiters = ["orders", "bills"].map(|task| Command::Pop(waiting(task)));
    assert!(broker.serve(&mut database, waiters.into()).is_empty());
    let first = PushItem {
        queue: "shop.orders".into(),
        ..item("a", "1")
    };
    let answers = broker.serve(&mut database, vec![Command::Push(vec![first])]);
    let woken = answers.iter().find(|(request, _)| *request == 1);
    assert_eq!(messages(&woken.expect("it is woken").1).len(), 1);
    assert_eq!(answers.len(), 2);
}

#[test]
fn a_lease_is_held_for_longer_and_a_stranger_extends_nothing() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1"), ("b", "2")]);
    let taken = broker.pop(&mut database, pop_of(10, 10));
    let mut extend = |lease_id: &str| {
        let extend = Extend {
            lease_id: lease_id.into(),
            seconds: 600,
        };
        let Reply::Extended(extended) = broker.one(&mut database, Command::Extend(extend)) else {
            panic!("an extension is answered as one");
        };
        extended.renewed
    };
    assert_eq!(extend(&taken[0].lease_id.expect("a lease").to_string()), 2);
    assert_eq!(
        (extend("nonsense"), extend(&uuid::Uuid::nil().to_string())),
        (0, 0)
    );
}

#[test]
fn a_step_happens_whole_or_not_at_all() {
    let (mut database, mut broker) = (Database::default(), Broker::new());
    broker.push(&mut database, &[("a", "1"), ("b", "2")]);
    let taken = broker.pop(&mut database, pop_of(10, 10));
    let mut step = |acks: &[&Message], pushes: &[&str]| {
        let acks = acks
            .iter()
            .map(|message| ack_of(message, Verdict::Completed));
        let pushes = pushes.iter().map(|id| item("next", id));
        let operations = acks
            .map(StepOperation::Ack)
            .chain(pushes.map(StepOperation::Push));
        let step = Step {
            operations: operations.collect(),
            required_leases: Vec::new(),
        };
        let Reply::Stepped(outcome) = broker.one(&mut database, Command::Step(step)) else {
            panic!("a step is answered as one");
        };
        outcome.result
    };
    let refused = step(&[&taken[1]], &["3", "4"]);
    assert!(refused.is_ok());
    let again = step(&[&taken[1]], &["5"]);
    assert!(matches!(
        again,
        Err(StepRefused::Ack {
            index: 0,
            reason: AckRefused::Lease,
            ..
        })
    ));
    let repeated = step(&[&taken[0]], &["3"]);
    assert!(matches!(
        repeated,
        Err(StepRefused::Duplicate { index: 1, .. })
    ));
    assert!(step(&[&taken[0]], &["5", "5"]).is_ok());
    let left = broker.pop(&mut database, pop_of(10, 10));
    let ids: Vec<_> = left
        .iter()
        .map(|message| message.record.transaction_id.clone())
        .collect();
    assert_eq!(ids, ["3", "4", "5"]);
}

#[test]
fn what_one_broker_has_taken_another_one_settles_and_extends() {
    let (mut database, mut first, mut second) = (Database::default(), Broker::new(), Broker::new());
    first.push(&mut database, &[("a", "1"), ("b", "2")]);
    // The second one knows the queue, but neither the group nor what it takes.
    second.push(&mut database, &[("c", "3")]);
    let taken = first.pop(&mut database, pop_of(10, 2));
    let extend = Extend {
        lease_id: taken[0].lease_id.expect("a lease").to_string().into(),
        seconds: 600,
    };
    let Reply::Extended(extended) = second.one(&mut database, Command::Extend(extend)) else {
        panic!("an extension is answered as one");
    };
    assert_eq!(extended.renewed, 2);
    for message in &taken {
        assert_eq!(second.ack(&mut database, message, Verdict::Completed), None);
    }
}

/// Random requests to several brokers: every message is delivered, to one worker at a time, in order.
#[test]
fn several_brokers_lose_nothing_and_deliver_in_order() {
    for seed in 0..60 {
        let mut random = Random(seed + 1);
        let mut database = Database::default();
        let mut brokers = [Broker::new(), Broker::new(), Broker::new()];
        let mut pushed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut settled: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut held: Vec<(usize, Vec<Message>)> = Vec::new();
        for number in 0..120 {
            let broker = random.below(3);
            match random.below(4) {
                0 | 1 => {
                    let partition = format!("p{}", random.below(3));
                    let id = format!("m{number}");
                    let items = [(&*partition, &*id)];
                    assert_ne!(brokers[broker].push(&mut database, &items), []);
                    pushed.entry(partition).or_default().push(id);
                }
                2 => {
                    let batch = 1 + random.below(4) as u32;
                    let taken = brokers[broker].pop(&mut database, pop_of(batch, 2));
                    if !taken.is_empty() {
                        held.push((broker, taken));
                    }
                }
                _ => {
                    let Some((_, taken)) = held.pop() else {
                        continue;
                    };
                    settle_all(
                        &mut brokers[broker],
                        &mut database,
                        &taken,
                        &mut settled,
                        &mut random,
                    );
                }
            }
        }
        for (broker, taken) in std::mem::take(&mut held) {
            settle_all(
                &mut brokers[broker],
                &mut database,
                &taken,
                &mut settled,
                &mut random,
            );
        }
        let mut last = Broker::new();
        for _ in 0..200 {
            let taken = last.pop(&mut database, pop_of(50, 64));
            for message in &taken {
                assert_eq!(last.ack(&mut database, message, Verdict::Completed), None);
                note(&mut settled, message);
            }
        }
        assert_eq!(settled, pushed, "seed {seed}");
    }
}

fn settle_all(
    broker: &mut Broker,
    database: &mut Database,
    taken: &[Message],
    settled: &mut BTreeMap<String, Vec<String>>,
    random: &mut Random,
) {
    for message in taken {
        // What is given back comes again, with all behind it in its partition.
        let verdict = match random.below(4) {
            0 => Verdict::Retry,
            _ => Verdict::Completed,
        };
        let refused = broker.ack(database, message, verdict);
        if verdict == Verdict::Completed && refused.is_none() {
            note(settled, message);
        }
        assert!(
            matches!(refused, None | Some(AckRefused::Lease)),
            "{refused:?}"
        );
    }
}

fn note(settled: &mut BTreeMap<String, Vec<String>>, message: &Message) {
    let id = String::from_utf8_lossy(&message.record.transaction_id).into_owned();
    settled
        .entry(message.partition.to_string())
        .or_default()
        .push(id);
}

/// Numbers that a seed decides (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}
