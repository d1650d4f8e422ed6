//! A broker core against the simplest correct model, step by step, from a seed, on a fake clock; and
//! (`mesh_*`) several cores and the lanes between them against the books of what clients were told.
//!
//! `cargo test --test simulation` runs 2,000 seeds of the first and 5,000 of the second.
//! `QUEEN_SIM_SEEDS=100000` runs so many; `QUEEN_SIM_SEED=7` runs one and tells every step.
//! `QUEEN_SIM_MESH_SEEDS` and `QUEEN_SIM_MESH_SEED` do so for several cores.

mod answers;
mod check;
mod clockwork;
mod engine;
mod mesh;
mod mesh_found;
mod mesh_hops;
mod mesh_ledger;
mod mesh_lives;
mod mesh_program;
mod mesh_rest;
mod mesh_seeds;
mod mesh_sums;
mod mesh_world;
mod model;
mod program;
mod random;
mod settlement;
mod simulation;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use model::Reached;
use program::Program;

const SEEDS: u64 = 2_000;

/// Seeds that may fail before the run gives up: a long run is worth more than its first fault.
const FAILURES_MAX: u64 = 20;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number of seeds, or a seed"))
}

/// Runs one seed: what it reached, or what went wrong.
fn run(seed: u64, trace: bool) -> Result<Reached, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut program = Program::new(seed, trace);
        program.run().map(|()| program.reached())
    }));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "a panic".to_owned()))
    })
}

/// Takes seeds until none is left or [`FAILURES_MAX`] have failed.
fn run_seeds(seeds: u64, next: &AtomicU64, failed: &AtomicU64, reached: &Mutex<Vec<u64>>) {
    while failed.load(Ordering::Relaxed) < FAILURES_MAX {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            return;
        }
        match run(seed, false) {
            Ok(by_seed) => {
                let mut sums = reached.lock().expect("nobody panics with it");
                sums.resize(by_seed.by_name().len(), 0);
                for (sum, (_, times)) in sums.iter_mut().zip(by_seed.by_name()) {
                    *sum += times;
                }
            }
            Err(fault) => {
                failed.fetch_add(1, Ordering::Relaxed);
                eprintln!(
                    "seed {seed} failed: {fault}\nreplay it, with every step: \
                     QUEEN_SIM_SEED={seed} cargo test --test simulation -- --nocapture"
                );
            }
        }
    }
}

#[test]
fn the_broker_does_what_the_model_allows() {
    if let Some(seed) = number_of("QUEEN_SIM_SEED") {
        let outcome = run(seed, true);
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
        return;
    }
    let seeds = number_of("QUEEN_SIM_SEEDS").unwrap_or(SEEDS);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let reached = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| run_seeds(seeds, &next, &failed, &reached));
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "seeds failed, see above");
    let sums = reached.into_inner().expect("nobody panics with it");
    for ((name, _), times) in Reached::default().by_name().iter().zip(sums) {
        eprintln!("{times:>12}  {name}");
        assert!(times > 0 || seeds < SEEDS, "no run reached: {name}");
    }
}
