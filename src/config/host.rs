//! What the settings are judged by, other than themselves.

use std::path::Path;

/// The machine that the broker starts on, as far as defaults follow from it.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The CPUs that the process may use: at least one, in ascending order.
    pub usable_cpus: &'a [usize],
    /// Whether PostgreSQL's programs are found: in the folder alone where one is given, else in the
    /// usual places. `Err` says what is wrong with a given folder. Asked only where a private
    /// cluster would be run.
    pub finds_postgres: &'a dyn Fn(Option<&Path>) -> Result<bool, String>,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Host")
            .field("usable_cpus", &self.usable_cpus)
            .finish_non_exhaustive()
    }
}
