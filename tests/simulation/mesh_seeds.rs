//! Many seeds of the simulation of several cores.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mesh_program::MeshProgram;
use crate::{FAILURES_MAX, number_of};

const SEEDS: u64 = 5_000;

/// What the seeds together must have reached.
const REACHED: [&str; 22] = [
    "a command sent to another core",
    "a core that stalls",
    "a delete with pops parked on several cores",
    "a give-back to another core",
    "a half-closed client of another core",
    "a half-closed client that got nothing",
    "a part of a command",
    "a part that is done",
    "a pause from another core",
    "a queue to look at",
    "a ready notice",
    "a refusal for want of room in a lane or time",
    "a travelling pop",
    "a travelling pop that missed",
    "a vanished client of another core",
    "an answer from another core",
    "an answer to a client that has gone",
    "an eviction on another core",
    "frames that wait for room in a lane",
    "room asked of another core",
    "room made by another core",
    "windows that have closed",
];

type Reached = BTreeMap<&'static str, u64>;

/// Runs one seed: what it reached and a number that equal runs share, or what went wrong.
fn run(seed: u64, trace: bool) -> Result<(Reached, u64), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut program = MeshProgram::new(seed, trace);
        program.run()?;
        Ok((program.world.reached, program.world.fingerprint))
    }));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "a panic".to_owned()))
    })
}

fn run_seeds(seeds: u64, next: &AtomicU64, failed: &AtomicU64, reached: &Mutex<Reached>) {
    while failed.load(Ordering::Relaxed) < FAILURES_MAX {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            return;
        }
        match run(seed, false) {
            Ok((by_seed, fingerprint)) => {
                if seed.is_multiple_of(50) {
                    let again = run(seed, false).expect("it went well before");
                    assert_eq!(again.1, fingerprint, "seed {seed} is two different runs");
                }
                let mut sums = reached.lock().expect("nobody panics with it");
                for (what, times) in by_seed {
                    *sums.entry(what).or_default() += times;
                }
            }
            Err(fault) => {
                failed.fetch_add(1, Ordering::Relaxed);
                eprintln!(
                    "seed {seed} failed: {fault}\nreplay it, with every step: \
                     QUEEN_SIM_MESH_SEED={seed} cargo test --test simulation cores -- --nocapture"
                );
            }
        }
    }
}

#[test]
fn several_cores_keep_what_clients_were_told() {
    if let Some(seed) = number_of("QUEEN_SIM_MESH_SEED") {
        let outcome = run(seed, true);
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
        return;
    }
    let seeds = number_of("QUEEN_SIM_MESH_SEEDS").unwrap_or(SEEDS);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let reached = Mutex::new(Reached::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| run_seeds(seeds, &next, &failed, &reached));
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "seeds failed, see above");
    let sums = reached.into_inner().expect("nobody panics with it");
    for what in REACHED {
        let times = sums.get(what).copied().unwrap_or(0);
        eprintln!("{times:>12}  {what}");
        assert!(times > 0 || seeds < SEEDS, "no run reached: {what}");
    }
}
