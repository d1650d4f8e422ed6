//! Which CPUs the process may use, and holding a thread on one of them.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may use, in ascending order: its affinity mask
/// (sched_getaffinity(2)), which a thread inherits from the one that started it. To be asked before
/// any thread is pinned.
///
/// # Errors
/// What the kernel says, above all on a machine with more CPUs than a mask of fixed size names.
pub fn usable_cpus() -> io::Result<Vec<usize>> {
    let mask = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| mask.is_set(cpu))
        .collect();
    assert!(!cpus.is_empty(), "the calling thread runs on a CPU");
    Ok(cpus)
}

/// Holds the calling thread, and the threads and processes that it starts from now on, on these CPUs
/// (sched_setaffinity(2)).
///
/// # Errors
/// The process may use none of them, or may not pin.
pub(super) fn hold_current_thread(cpus: &[usize]) -> io::Result<()> {
    let mut mask = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        mask.set(cpu);
    }
    Ok(sched_setaffinity(None, &mask)?)
}

/// The same for a thread that may run unpinned; no CPUs: anywhere.
pub(super) fn hold_where_named(cpus: &[usize], thread: &str) {
    if !cpus.is_empty()
        && let Err(fault) = hold_current_thread(cpus)
    {
        tracing::warn!("the {thread} runs unpinned: {fault}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_pinned_thread_may_use_one_cpu_and_leaves_the_others_alone() {
        let usable = usable_cpus().unwrap();
        for &cpu in &usable {
            let pinned = thread::spawn(move || {
                hold_current_thread(&[cpu]).unwrap();
                usable_cpus().unwrap()
            });
            assert_eq!(pinned.join().unwrap(), [cpu]);
        }
        assert_eq!(usable_cpus().unwrap(), usable);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        let before = usable_cpus().unwrap();
        assert!(hold_current_thread(&[CpuSet::MAX_CPU]).is_err());
        assert!(hold_current_thread(&[usize::MAX]).is_err());
        assert_eq!(usable_cpus().unwrap(), before);
    }
}
