//! The operations of the benchmarks as plain functions: each is made ready once and then repeated,
//! under a clock or under an instruction counter.

use std::hint::black_box;

use queen::channel::{Answer, Forwarded, Frame, Port, mesh};
use queen::http::{FieldSlots, HeadScan, ParsedHead, parse_head};
use queen::limits;
use queen::model::{
    ClientRef, Command, PartitionName, Policy, Push, QueueName, QueueOptions, Reply, TenantId,
};

use crate::heads::HEADS;
use crate::rig::{DECLARED, Rig, To, id_of};

/// What is repeated.
pub(crate) type Work = Box<dyn FnMut()>;

/// A name and what makes the work ready.
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) prepare: Box<dyn Fn() -> Work>,
}

/// Partitions of which one has something.
const PARTITIONS: usize = 10_000;

/// Inboxes that are compared with one.
const INBOXES: usize = 10_000;

/// All of them, in the order of the table.
pub(crate) fn all() -> Vec<Operation> {
    let mut operations = vec![
        operation("push, dropping the oldest", push_dropping_oldest),
        operation("push, pop with autoAck", || push_pop(1)),
        operation("push, pop with autoAck, over 10,000 inboxes", || {
            push_pop(INBOXES)
        }),
        operation("push, pop, ack", push_pop_ack),
        operation("park a pop and wake it", park_and_wake),
        operation("push, pop of a named one of 10,000 partitions", || {
            one_of_many_partitions(true)
        }),
        operation("push, pop without partition over 10,000", || {
            one_of_many_partitions(false)
        }),
        operation("request and reply through two lanes", two_lanes),
    ];
    for (client, head) in HEADS {
        let ours = move || parse_ours(head);
        operations.push(operation(&format!("head of {client}"), ours));
        let theirs = move || parse_theirs(head);
        operations.push(operation(&format!("head of {client}, httparse"), theirs));
    }
    operations
}

fn operation(name: &str, prepare: impl Fn() -> Work + 'static) -> Operation {
    Operation {
        name: name.to_owned(),
        prepare: Box::new(prepare),
    }
}

fn push_dropping_oldest() -> Work {
    const LENGTH: u64 = 1_000;
    let mut rig = Rig::new(QueueOptions {
        max_length: Some(LENGTH),
        policy: Policy::DropOldest,
        ..QueueOptions::default()
    });
    rig.push_many(LENGTH);
    Box::new(move || rig.push_many(1))
}

fn push_pop(inboxes: usize) -> Work {
    let mut rig = Rig::new(QueueOptions::default());
    let names: Vec<String> = (0..inboxes).map(|at| format!("inbox-{at:026}")).collect();
    let mut turn = 0;
    let mut work = move || {
        // Visits each, in an order that jumps.
        turn = (turn + 7_919) % names.len();
        let inbox = To {
            queue: &names[turn],
            partition: None,
        };
        rig.push(inbox);
        black_box(rig.take(inbox, true));
    };
    for _ in 0..inboxes {
        work();
    }
    Box::new(work)
}

fn push_pop_ack() -> Work {
    let mut rig = Rig::new(QueueOptions::default());
    Box::new(move || {
        rig.push_many(1);
        let sequence = rig.take(DECLARED, false);
        rig.ack(&id_of(sequence));
    })
}

fn park_and_wake() -> Work {
    let mut rig = Rig::new(QueueOptions::default());
    Box::new(move || {
        let parked = rig.pop(DECLARED, true, Some(30_000));
        assert!(parked.is_none(), "the queue is empty");
        black_box(rig.push(DECLARED));
    })
}

/// A push to one of many partitions and a pop that names it, or does not.
pub(crate) fn one_of_many_partitions(is_named: bool) -> Work {
    let mut rig = Rig::new(QueueOptions::default());
    let names: Vec<String> = (0..PARTITIONS).map(|at| format!("p{at}")).collect();
    for name in &names {
        rig.push(in_partition(name));
        rig.take(in_partition(name), true);
    }
    let mut turn = 0;
    Box::new(move || {
        turn = (turn + 7_919) % PARTITIONS;
        let partition = in_partition(&names[turn]);
        rig.push(partition);
        let from = if is_named { partition } else { DECLARED };
        black_box(rig.take(from, true));
    })
}

fn in_partition(name: &str) -> To<'_> {
    To {
        partition: Some(name),
        ..DECLARED
    }
}

/// The ports of two cores.
pub(crate) fn two_ports() -> [Port; 2] {
    let ports = mesh(2, limits::REQUEST_LANE_SLOTS, limits::REPLY_LANE_SLOTS);
    ports.try_into().expect("two cores")
}

/// Sends a request to core 1.
pub(crate) fn send_request(port: &mut Port, request: u64) {
    let forwarded = Forwarded {
        client: ClientRef {
            core: 0,
            connection: 0,
            request,
            generation: 0,
        },
        tenant: TenantId::DEFAULT,
        command: Command::Push(Push {
            queue: QueueName::new("presence").expect("a valid name"),
            partition: PartitionName::DEFAULT,
            payloads: Vec::new(),
        }),
    };
    let sent = port.try_send(1, Frame::Request(Box::new(forwarded)));
    assert!(sent.is_ok(), "the lane has room");
    assert_eq!(port.take_rings(), 0, "nobody sleeps");
}

/// Answers the request that has come from core 0, if one has; whether one had.
pub(crate) fn answer_request(port: &mut Port) -> bool {
    let Some((from, frame)) = port.receive() else {
        return false;
    };
    let Frame::Request(forwarded) = frame else {
        panic!("only requests come: {frame:?}");
    };
    let answer = Answer {
        client: forwarded.client,
        reply: Reply::Pushed { count: 1 },
    };
    port.reply(from, Frame::Reply(Box::new(answer)));
    assert_eq!(port.take_rings(), 0, "nobody sleeps");
    true
}

/// Takes the answer, if it has come; the number of its request.
pub(crate) fn take_answer(port: &mut Port) -> Option<u64> {
    let (_, frame) = port.receive()?;
    assert_eq!(port.take_rings(), 0, "nobody sleeps");
    match frame {
        Frame::Reply(answer) => Some(answer.client.request),
        other => panic!("only answers come: {other:?}"),
    }
}

fn two_lanes() -> Work {
    let [mut asking, mut answering] = two_ports();
    let mut request = 0;
    Box::new(move || {
        request += 1;
        send_request(&mut asking, request);
        assert!(answer_request(&mut answering));
        assert_eq!(take_answer(&mut asking), Some(request));
    })
}

pub(crate) fn parse_ours(head: &'static [u8]) -> Work {
    let mut slots = FieldSlots::new();
    Box::new(move || {
        let mut scan = HeadScan::default();
        match parse_head(black_box(head), &mut scan, &mut slots) {
            ParsedHead::Complete { length, .. } => assert_eq!(length, head.len()),
            other => panic!("{other:?}"),
        }
    })
}

pub(crate) fn parse_theirs(head: &'static [u8]) -> Work {
    let mut fields = [httparse::EMPTY_HEADER; limits::HEAD_FIELDS_MAX];
    Box::new(move || {
        let mut request = httparse::Request::new(&mut fields);
        let length = request.parse(black_box(head));
        assert_eq!(length, Ok(httparse::Status::Complete(head.len())));
    })
}
