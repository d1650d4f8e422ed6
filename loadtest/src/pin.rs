//! Which cores a thread, and what it starts, runs on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::LoadError;

/// CPUs that this thread may use, ascending; empty where the kernel does not tell.
pub fn usable_cpus() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| mask.is_set(cpu))
        .collect()
}

/// Holds the current thread on these CPUs. Threads and processes that it starts inherit that.
pub fn pin(cpus: &[usize]) -> Result<(), LoadError> {
    let mut mask = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(LoadError::Cpu(cpu));
        }
        mask.set(cpu);
    }
    let cannot = |fault: rustix::io::Errno| match *cpus {
        [cpu] => LoadError::Cpu(cpu),
        _ => io::Error::from(fault).into(),
    };
    sched_setaffinity(None, &mask).map_err(cannot)
}

/// Has `start` run on `cpus`, where what it starts stays; the current thread goes on on `afterwards`.
pub fn start_on<T>(
    cpus: &[usize],
    afterwards: usize,
    start: impl FnOnce() -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    pin(cpus)?;
    let started = start();
    pin(&[afterwards])?;
    started
}
