//! Which core a thread, and what it starts, runs on.

use crate::LoadError;

/// CPUs that this thread may use, ascending.
pub fn usable_cpus() -> Vec<usize> {
    let mut cpus: Vec<usize> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .iter()
        .map(|core| core.id)
        .collect();
    cpus.sort_unstable();
    cpus
}

/// Pins the current thread to `cpu`. Processes that it starts inherit that.
pub fn pin(cpu: usize) -> Result<(), LoadError> {
    if core_affinity::set_for_current(core_affinity::CoreId { id: cpu }) {
        return Ok(());
    }
    Err(LoadError::Cpu(cpu))
}
