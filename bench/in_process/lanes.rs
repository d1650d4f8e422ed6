//! A request and its reply between two threads that poll, each pinned to a core.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::operations::{answer_request, send_request, take_answer, two_ports};

/// Nanoseconds at the median and at the 99th percentile; `None` with fewer than two cores.
pub(crate) fn round_trip_ns(trips: usize) -> Option<(f64, f64)> {
    let [asking_cpu, answering_cpu] = two_cpus()?;
    let [mut asking, mut answering] = two_ports();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(answering_cpu);
            while !over.load(Ordering::Relaxed) {
                if !answer_request(&mut answering) {
                    spin_loop();
                }
            }
        });
        // A thread of its own, so that this one is not left pinned.
        let times = scope.spawn(|| {
            pin(asking_cpu);
            let mut times = Vec::with_capacity(trips);
            for request in 0..trips as u64 {
                let started = Instant::now();
                send_request(&mut asking, request);
                while take_answer(&mut asking).is_none() {
                    spin_loop();
                }
                times.push(started.elapsed().as_nanos() as u64);
            }
            over.store(true, Ordering::Relaxed);
            times
        });
        let mut times = times.join().expect("the asking thread ends");
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64;
        Some((at(0.5), at(0.99)))
    })
}

fn two_cpus() -> Option<[usize; 2]> {
    let mask = sched_getaffinity(None).ok()?;
    let mut usable = (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu));
    Some([usable.next()?, usable.next()?])
}

fn pin(cpu: usize) {
    let mut mask = CpuSet::new();
    mask.set(cpu);
    sched_setaffinity(None, &mask).expect("a core that the process may use");
}
