//! Bounds under many producers and consumers at once, on all cores, with partitions that different
//! cores own: never above a cap, and nothing miscounted when all are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use queen::directory::{Bounds, Directory};
use queen::model::{
    ClientRef, Command, Configure, Incarnation, Moment, PartitionName, Policy, Push, QueueName,
    QueueOptions, Refusal, Reply, TenantId,
};
use queen::shard::{Effect, Shard, ShardSettings};
use serde_json::{Value, json};

use crate::support::{Answer, Broker, Client, Message, Queue, each_plan, each_setup, encode};

const PRODUCERS: u64 = 8;
const PUSHES: u64 = 120;
const CONSUMERS: u64 = 2;
const PARTITIONS: u64 = 8;

/// Bytes of every payload, a JSON string.
const PAYLOAD_BYTES: u64 = 10;

/// What the clients were told.
#[derive(Default)]
struct Told {
    pushed: AtomicU64,
    refused: AtomicU64,
    popped: AtomicU64,
}

impl Told {
    fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    fn popped(&self) -> u64 {
        self.popped.load(Ordering::Relaxed)
    }
}

/// Threads that do the same, each on a connection of its own, spread over the cores.
fn run<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    (count, broker): (u64, &'env Broker),
    work: impl Fn(u64, &mut Client) + Clone + Send + 'scope,
) -> Vec<thread::ScopedJoinHandle<'scope, ()>> {
    let threads = (0..count).map(|number| {
        let work = work.clone();
        scope.spawn(move || work(number, &mut broker.client()))
    });
    threads.collect()
}

fn join(threads: Vec<thread::ScopedJoinHandle<'_, ()>>) {
    for thread in threads {
        thread
            .join()
            .expect("its requests are answered as they must");
    }
}

/// Pushes batches of one to five messages to all partitions in turn; `refusals` are the codes that
/// a push may be refused with.
fn produce(client: &mut Client, (queue, number): (&str, u64), refusals: &[&str], told: &Told) {
    for push in 0..PUSHES {
        let count = 1 + (number + push) % 5;
        let messages: Vec<Value> = (0..count).map(|_| json!({"payload": "12345678"})).collect();
        let partition = format!("p{}", (number + push * 3) % PARTITIONS);
        let body = json!({"queue": queue, "partition": partition, "messages": messages});
        let answer = client.post("/api/v1/ephemeral/push", &body);
        if answer.status == 201 {
            told.pushed.fetch_add(count, Ordering::Relaxed);
        } else {
            assert_refused_with_one_of(&answer, refusals);
            told.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn assert_refused_with_one_of(answer: &Answer, codes: &[&str]) {
    let body = answer.json();
    let code = body["code"].as_str().expect("a code");
    assert!(codes.contains(&code), "{} {body}", answer.status);
}

/// Pops until told to stop, by turns from one partition and from any.
fn consume(client: &mut Client, (queue, number): (&str, u64), stop: &AtomicBool, told: &Told) {
    let queue = encode(queue);
    let mut turn = number;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let partition = match turn % 2 {
            0 => String::new(),
            _ => format!("&partition=p{}", (turn / 2) % PARTITIONS),
        };
        let target = format!("/api/v1/ephemeral/pop?queue={queue}{partition}&batch=3&autoAck=true");
        let got = Message::all(&client.get(&target)).len();
        told.popped.fetch_add(got as u64, Ordering::Relaxed);
    }
}

/// Looks at the queue until told to stop: the list and the depth never show more than the caps.
fn sample(client: &mut Client, name: &str, (length_max, bytes_max): (u64, u64), stop: &AtomicBool) {
    let list = format!("/api/v1/ephemeral/queues?prefix={}", encode(name));
    let depth = format!("/api/v1/ephemeral/queues/{}/depth", encode(name));
    while !stop.load(Ordering::Relaxed) {
        let row = client.get(&list).expect(200)["queues"][0].clone();
        let within = |key: &str, most: u64| row[key].as_u64().is_some_and(|held| held <= most);
        assert!(within("depth", length_max), "{row}");
        assert!(within("bytes", bytes_max), "{row}");
        let depth = client.get(&depth).expect(200);
        assert!(
            depth["bytes"]
                .as_u64()
                .is_some_and(|held| held <= bytes_max),
            "{depth}"
        );
    }
}

struct Case {
    name: &'static str,
    options: Value,
    length_max: u64,
    bytes_max: u64,
    /// Whether somebody takes messages meanwhile.
    consumed: bool,
}

/// Everybody at once; then the books are closed.
fn assert_exact(broker: &Broker, case: &Case) {
    let queue = broker.queue(case.name);
    queue.configure(case.options.clone());
    let told = Told::default();
    let (stop, name) = (AtomicBool::new(false), queue.name.as_str());
    let refusals: &[&str] = match case.options["policy"].as_str() {
        Some("dropOldest") => &["overloaded"],
        _ => &["queue_full"],
    };
    thread::scope(|scope| {
        let (told, stop) = (&told, &stop);
        let caps = (case.length_max, case.bytes_max);
        let producers = run(scope, (PRODUCERS, broker), move |number, client| {
            produce(client, (name, number), refusals, told);
        });
        let consumers = run(
            scope,
            (if case.consumed { CONSUMERS } else { 0 }, broker),
            move |number, client| consume(client, (name, number), stop, told),
        );
        let sampler = run(scope, (1, broker), move |_, client| {
            sample(client, name, caps, stop)
        });
        let done = thread::Builder::new().spawn_scoped(scope, move || {
            join(producers);
        });
        let outcome = done.expect("a thread").join();
        stop.store(true, Ordering::Relaxed);
        join(consumers);
        join(sampler);
        outcome.expect("all pushes were answered as they must");
    });
    assert_books_close(&queue, case, &told);
}

fn assert_books_close(queue: &Queue, case: &Case, told: &Told) {
    let (held, bytes) = queue.held();
    let dropped = queue.drops("bounds");
    assert_eq!(told.pushed(), held + told.popped() + dropped);
    assert_eq!(bytes, held * PAYLOAD_BYTES);
    assert_eq!(queue.depth()["pending"], held);
    let most = case.length_max.min(case.bytes_max / PAYLOAD_BYTES);
    if !case.consumed {
        // A push of one fits as long as there is room for one.
        while queue.held().0 < most {
            queue.push_to("p0", &[json!("12345678")]);
        }
        assert!(
            dropped > 0 || told.refused.load(Ordering::Relaxed) > 0,
            "the cap was met"
        );
    }
    let before = queue.held().0;
    let more = queue.try_push(Some("p1"), &[json!("12345678")]);
    if before == most && case.options["policy"] == "reject" {
        more.assert_refused(429, "queue_full");
    } else {
        more.expect(201);
    }
    let held = queue.held().0;
    assert!(held <= most);
    assert_eq!(queue.reset(), held);
    assert_eq!(queue.held(), (0, 0));
    assert_eq!(queue.depth()["pending"], 0);
    queue.push_to("p2", &[json!(1)]);
    assert_eq!(queue.delete(), (true, true));
}

fn each_policy(name: &'static str, options: Value, (length_max, bytes_max): (u64, u64)) {
    each_plan(|plan| {
        let broker = plan.start();
        for policy in ["reject", "dropOldest"] {
            for consumed in [false, true] {
                let mut options = options.clone();
                options["policy"] = json!(policy);
                let case = Case {
                    name,
                    options,
                    length_max,
                    bytes_max,
                    consumed,
                };
                assert_exact(&broker, &case);
                assert_eq!(
                    broker.sample("queen_ephemeral_bytes"),
                    0.0,
                    "{policy} {consumed}"
                );
            }
        }
    });
}

#[test]
fn max_length_is_exact_under_concurrent_pushes() {
    each_policy("crowded-length", json!({"maxLength": 100}), (100, u64::MAX));
}

#[test]
fn max_bytes_is_exact_under_concurrent_pushes() {
    each_policy(
        "crowded-bytes",
        json!({"maxBytes": 1_000}),
        (u64::MAX, 1_000),
    );
}

#[test]
fn the_brokers_budget_is_exact_under_concurrent_pushes() {
    const CAP: u64 = 3_000;
    each_plan(|plan| {
        let broker = plan.set("QUEEN_EPHEMERAL_MAX_BYTES", CAP).start();
        let queues = ["full-a", "full-b", "full-c"].map(|name| broker.queue(name));
        for (queue, policy) in queues.iter().zip(["reject", "dropOldest", "reject"]) {
            queue.configure(json!({"policy": policy, "maxBytes": CAP}));
        }
        let names = queues.each_ref().map(|queue| queue.name.clone());
        let told = Told::default();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (names, told, stop) = (&names, &told, &stop);
            let producers = run(scope, (PRODUCERS, &broker), move |number, client| {
                let queue = &names[number as usize % names.len()];
                let refusals = ["ephemeral_unavailable", "queue_full", "overloaded"];
                produce(client, (queue, number), &refusals, told);
            });
            let consumers = run(scope, (1, &broker), move |number, client| {
                consume(client, (&names[0], number), stop, told);
            });
            let sampler = run(scope, (1, &broker), move |_, client| {
                while !stop.load(Ordering::Relaxed) {
                    let list = client.get("/api/v1/ephemeral/queues").expect(200);
                    assert!(
                        list["cellBytes"].as_u64().is_some_and(|held| held <= CAP),
                        "{list}"
                    );
                }
            });
            let done = scope.spawn(move || join(producers)).join();
            stop.store(true, Ordering::Relaxed);
            join(consumers);
            join(sampler);
            done.expect("all pushes were answered as they must");
        });
        assert!(told.refused.load(Ordering::Relaxed) > 0, "the cap was met");
        let held: u64 = queues.iter().map(|queue| queue.held().0).sum();
        let dropped: u64 = queues.iter().map(|queue| queue.drops("bounds")).sum();
        assert_eq!(told.pushed(), held + told.popped() + dropped);
        let bytes = held * PAYLOAD_BYTES;
        assert_eq!(broker.sample("queen_ephemeral_bytes"), bytes as f64);
        // To the byte: what is left fits, one byte more does not.
        let last = broker.queue("full-last");
        let left = (CAP - bytes) as usize;
        let sized = |bytes: usize| json!("x".repeat(bytes - 2));
        if left > 2 {
            let answer = last.try_push(None, &[sized(left + 1)]);
            answer.assert_refused(503, "ephemeral_unavailable");
            last.push(&[sized(left)]);
        }
        let answer = last.try_push(None, &[json!(1)]);
        answer.assert_refused(503, "ephemeral_unavailable");
        for queue in &queues {
            queue.reset();
        }
        last.delete();
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 0.0);
        last.push(&[sized(CAP as usize)]);
    });
}

/// Queues that come and go under the pushes: nobody is told anything but that all went well, and
/// nothing of it is left.
#[test]
fn queues_deleted_and_reset_under_pushes_leave_nothing_behind() {
    each_plan(|plan| {
        let broker = plan.start();
        let queue = broker.queue("come-and-go");
        let name = queue.name.as_str();
        let (told, stop) = (Told::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let (told, stop) = (&told, &stop);
            let producers = run(scope, (PRODUCERS, &broker), move |number, client| {
                produce(client, (name, number), &["overloaded"], told);
            });
            let consumers = run(scope, (CONSUMERS, &broker), move |number, client| {
                consume(client, (name, number), stop, told);
            });
            let deleters = run(scope, (2, &broker), move |number, client| {
                while !stop.load(Ordering::Relaxed) {
                    if number == 0 {
                        let body = json!({"queue": name});
                        client.post("/api/v1/ephemeral/reset", &body).expect(200);
                    } else {
                        let target = format!("/api/v1/ephemeral/queue/{}", encode(name));
                        client.delete(&target).expect(200);
                    }
                }
            });
            let done = scope.spawn(move || join(producers)).join();
            stop.store(true, Ordering::Relaxed);
            join(consumers);
            join(deleters);
            done.expect("all pushes were answered as they must");
        });
        queue.push_to("p0", &[json!(1)]);
        let (held, bytes) = queue.held();
        assert_eq!(broker.sample("queen_ephemeral_bytes"), bytes as f64);
        assert_eq!(queue.depth()["pending"], held);
        assert_eq!(queue.reset(), held);
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 0.0);
        queue.delete();
        assert_eq!(broker.sample("queen_ephemeral_queues"), 0.0);
    });
}

/// Each message once and in the order of its partition, with pops of one partition and pops of any
/// against each other.
#[test]
fn competing_consumers_on_all_cores_take_every_message_once() {
    each_setup(|broker| {
        let queue = broker.queue("competing");
        let name = queue.name.as_str();
        let seen: Vec<AtomicU64> = (0..PRODUCERS * PUSHES).map(|_| AtomicU64::new(0)).collect();
        let total = PRODUCERS * PUSHES;
        let taken = AtomicU64::new(0);
        thread::scope(|scope| {
            let (seen, taken) = (&seen, &taken);
            run(scope, (PRODUCERS, broker), move |number, client| {
                for push in 0..PUSHES {
                    let body = json!({
                        "queue": name, "partition": format!("p{number}"),
                        "messages": [{"payload": number * PUSHES + push}],
                    });
                    client.post("/api/v1/ephemeral/push", &body).expect(201);
                }
            });
            run(scope, (4, broker), move |_, client| {
                let queue = encode(name);
                let target = format!(
                    "/api/v1/ephemeral/pop?queue={queue}&batch=7&autoAck=true&wait=true&timeout=200"
                );
                let mut last = [None; PRODUCERS as usize];
                while taken.load(Ordering::Relaxed) < total {
                    for message in Message::all(&client.get(&target)) {
                        let payload = message.payload.as_u64().expect("a number");
                        seen[payload as usize].fetch_add(1, Ordering::Relaxed);
                        taken.fetch_add(1, Ordering::Relaxed);
                        let last = &mut last[(payload / PUSHES) as usize];
                        assert!(last.is_none_or(|last| last < payload), "out of order");
                        *last = Some(payload);
                    }
                }
            });
        });
        assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1));
        assert_eq!(queue.held(), (0, 0));
    });
}

/// Pushes and pops of one shard on a thread of its own, until `rounds` are over.
fn work_on_shard(number: u16, directory: &Arc<Directory>, policy: Policy) {
    const ROUNDS: u64 = 20_000;
    let settings = ShardSettings {
        incarnation: Incarnation(1),
        shard: number,
        shards: 2,
        ttl_tick_ms: 100,
        linger_ms: 0,
        implicit_idle_ms: 0,
    };
    let mut shard = Shard::new(settings, Arc::clone(directory));
    let name = format!("of-{number}");
    let queue = || QueueName::new(name.as_str()).expect("a name");
    let mut request = 0;
    let mut serve = |mut command: Command<'_>| {
        request += 1;
        let client = ClientRef {
            core: number,
            connection: 0,
            request,
            generation: 0,
        };
        let mut effects = Vec::new();
        let tenant = TenantId::DEFAULT;
        shard.apply(Moment::ZERO, client, tenant, &mut command, &mut effects);
        match effects.pop() {
            Some(Effect::Answer { reply, .. }) => reply,
            other => panic!("{other:?}"),
        }
    };
    let options = QueueOptions {
        max_length: Some(12),
        policy,
        ..QueueOptions::default()
    };
    serve(Command::Configure(Configure {
        queue: queue(),
        options,
        options_as_sent: "{}".into(),
        stored: false,
    }));
    for round in 0..ROUNDS {
        let bytes = 1 + round as usize % 30;
        let pushed = serve(Command::Push(Push {
            queue: queue(),
            partition: PartitionName::DEFAULT,
            payloads: vec![Bytes::from(vec![b'1'; bytes])],
        }));
        let allowed = match &pushed {
            Reply::Pushed { count: 1 } | Reply::Refused(Refusal::QuotaExceeded { .. }) => true,
            Reply::Refused(Refusal::QueueFull { .. }) => policy == Policy::Reject,
            _ => false,
        };
        assert!(allowed, "{pushed:?}");
        let used = tenant_bytes(directory);
        assert!(used <= TENANT_BYTES, "{used} bytes of {TENANT_BYTES}");
        if round % 7 == 0 {
            serve(Command::Reset(queue()));
        }
    }
    serve(Command::Delete(queue()));
}

const TENANT_BYTES: u64 = 200;

fn tenant_bytes(directory: &Directory) -> u64 {
    let tenant = directory.tenant(TenantId::DEFAULT).expect("a tenant");
    tenant.budget().used()
}

/// No setting gives a tenant an allowance yet, so the shards are driven without their sockets.
#[test]
fn the_tenants_budget_is_exact_under_concurrent_pushes() {
    for policy in [Policy::Reject, Policy::DropOldest] {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: 1 << 20,
            queue_bytes: 1 << 20,
            queue_length: 1 << 20,
            lease_ms: 1_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 1,
            shards: 2,
        }));
        let tenant = directory.tenant(TenantId::DEFAULT).expect("a tenant");
        tenant.budget().set_cap(Some(TENANT_BYTES));
        thread::scope(|scope| {
            for number in [0, 1] {
                let directory = &directory;
                scope.spawn(move || work_on_shard(number, directory, policy));
            }
        });
        assert_eq!(tenant_bytes(&directory), 0);
        assert_eq!(directory.broker().used(), 0);
    }
}
