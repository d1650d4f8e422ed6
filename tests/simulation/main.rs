//! A broker core against the simplest correct model, step by step, from a seed, on a fake clock.
//!
//! `cargo test --test simulation` runs 2,000 seeds. `QUEEN_SIM_SEEDS=100000` runs so many;
//! `QUEEN_SIM_SEED=7` runs one and tells every step.

mod answers;
mod check;
mod clockwork;
mod model;
mod program;
mod random;
mod settlement;
mod simulation;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use program::Program;

const SEEDS: u64 = 2_000;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number of seeds, or a seed"))
}

/// Runs one seed; what went wrong, if anything did.
fn run(seed: u64, trace: bool) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| Program::new(seed, trace).run()));
    match outcome {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(text.unwrap_or_else(|| "a panic".to_owned()))
        }
    }
}

#[test]
fn the_broker_does_what_the_model_allows() {
    if let Some(seed) = number_of("QUEEN_SIM_SEED") {
        let fault = run(seed, true);
        assert!(
            fault.is_none(),
            "seed {seed}: {}",
            fault.unwrap_or_default()
        );
        return;
    }
    let seeds = number_of("QUEEN_SIM_SEEDS").unwrap_or(SEEDS);
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    if let Some(fault) = run(seed, false) {
                        failed.store(true, Ordering::Relaxed);
                        eprintln!(
                            "seed {seed} failed: {fault}\nreplay it, with every step: \
                             QUEEN_SIM_SEED={seed} cargo test --test simulation -- --nocapture"
                        );
                    }
                }
            });
        }
    });
    assert!(!failed.load(Ordering::Relaxed), "a seed failed, see above");
}
