//! `Shard::apply` for push, pop and ack: what the owner of a ring costs without sockets and JSON.

#[path = "common/rig.rs"]
mod rig;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use queen::model::{Policy, QueueOptions};
use rig::{DECLARED, Rig, id_of};

/// Messages that stand in the queue while one operation after the other is timed.
const STANDING: u64 = 1_000;

/// Has `work` time its operation on `iterations` messages, in portions that are pushed untimed.
fn in_portions(iterations: u64, mut work: impl FnMut(&mut Rig, u64) -> Duration) -> Duration {
    let mut rig = Rig::new(QueueOptions::default());
    let mut total = Duration::ZERO;
    let mut left = iterations;
    while left > 0 {
        let portion = left.min(STANDING);
        rig.push_many(portion);
        total += work(&mut rig, portion);
        left -= portion;
    }
    total
}

fn pops(rig: &mut Rig, portion: u64, auto_ack: bool) -> Duration {
    let mut ids = Vec::new();
    let started = Instant::now();
    for _ in 0..portion {
        ids.push(black_box(rig.take(DECLARED, auto_ack)));
    }
    let elapsed = started.elapsed();
    for id in ids.into_iter().filter(|_| !auto_ack) {
        rig.ack(&id_of(id));
    }
    elapsed
}

fn acks(rig: &mut Rig, portion: u64) -> Duration {
    let ids: Vec<String> = (0..portion)
        .map(|_| id_of(rig.take(DECLARED, false)))
        .collect();
    let started = Instant::now();
    for id in &ids {
        rig.ack(black_box(id));
    }
    started.elapsed()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("shard");
    group.throughput(Throughput::Elements(1));
    group.bench_function("push_dropping_oldest", |bencher| {
        let mut rig = Rig::new(QueueOptions {
            max_length: Some(STANDING),
            policy: Policy::DropOldest,
            ..QueueOptions::default()
        });
        bencher.iter(|| rig.push_many(1));
    });
    group.bench_function("pop_leased", |bencher| {
        bencher.iter_custom(|iterations| in_portions(iterations, |rig, n| pops(rig, n, false)));
    });
    group.bench_function("pop_auto_ack", |bencher| {
        bencher.iter_custom(|iterations| in_portions(iterations, |rig, n| pops(rig, n, true)));
    });
    group.bench_function("ack", |bencher| {
        bencher.iter_custom(|iterations| in_portions(iterations, acks));
    });
    group.bench_function("push_pop_ack", |bencher| {
        let mut rig = Rig::new(QueueOptions::default());
        bencher.iter(|| {
            rig.push_many(1);
            let sequence = rig.take(DECLARED, false);
            rig.ack(&id_of(sequence));
        });
    });
    group.bench_function("park_and_wake", |bencher| {
        let mut rig = Rig::new(QueueOptions::default());
        bencher.iter(|| {
            assert!(
                rig.pop(DECLARED, true, Some(30_000)).is_none(),
                "the queue is empty"
            );
            rig.push(DECLARED)
        });
    });
    group.finish();
    criterion.final_summary();
}
