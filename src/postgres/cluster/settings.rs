//! What a new cluster has beyond PostgreSQL's own defaults. It stands at the end of its
//! `postgresql.conf`, with reasons, and is the operator's from then on.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use super::data_folder::{DataFolder, open_plain};
use super::fault::ClusterFault;
use crate::limits::{CLUSTER_BUFFERS_MB_MAX, CLUSTER_BUFFERS_MB_MIN};

/// An eighth of the machine for pages of the cluster.
const MEMORY_SHARE: u64 = 8;

/// Writes the settings into a cluster that is being created.
pub(super) fn append(folder: &DataFolder, cluster: &Path) -> Result<(), ClusterFault> {
    let path = cluster.join("postgresql.conf");
    let written = open_plain(OpenOptions::new().append(true), &path).and_then(|mut file| {
        file.write_all(text(buffers_mb(memory_bytes())).as_bytes())?;
        file.sync_all()
    });
    written.map_err(|fault| folder.fault_of("writing", &path, fault))
}

fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    // Words of the size of the machine's own.
    (system.totalram as u64).saturating_mul(u64::from(system.mem_unit))
}

fn buffers_mb(memory_bytes: u64) -> u64 {
    let share_mb = memory_bytes / MEMORY_SHARE / (1024 * 1024);
    share_mb.clamp(CLUSTER_BUFFERS_MB_MIN, CLUSTER_BUFFERS_MB_MAX)
}

fn text(buffers_mb: u64) -> String {
    format!(
        "
#------------------------------------------------------------------------------
# QUEEN: for durable queues. Yours to change.
#------------------------------------------------------------------------------

# An eighth of the machine, at most {CLUSTER_BUFFERS_MB_MAX} MB: a push reads nothing but the end of its
# partition, and more has not made a push or pop faster.
shared_buffers = {buffers_mb}MB
# Once the buffers are full, each page that a push needs must evict another, and finds it dirty: large
# pushes fell to 0.6 of their rate with 5 million messages stored. A background writer that keeps ahead
# brought them back to 0.87; by default it writes 100 pages five times a second.
bgwriter_delay = 10ms
bgwriter_lru_maxpages = 1000
bgwriter_lru_multiplier = 4
# A checkpoint writes all that is dirty, and after it the first change of every page goes to the WAL as
# a whole. By default one begins after each gigabyte, which is seconds of large pushes. Up to this much
# of the disk is used, and read again after a crash.
max_wal_size = 4GB
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_follow_the_machine_within_bounds() {
        assert_eq!(buffers_mb(0), 128);
        assert_eq!(buffers_mb(2 << 30), 256);
        assert_eq!(buffers_mb(1 << 40), 512);
        assert!(memory_bytes() > 1 << 26);
    }
}
