//! The limit of open files, which every connection counts against.

use super::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not connections: standard streams, listeners, rings, doorbells, signals,
/// and a margin for connections that are being refused.
const RESERVED_FILES: u64 = 128;

/// Raises the soft limit of open files to the hard one and returns the soft limit then in force.
/// Where the system refuses, the old limit stays; `u64::MAX` means that there is none.
pub fn raise_open_files_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // A container may forbid it; what is in force is read back and lowers the connections.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

impl Config {
    /// Lowers the connections to what `open_files` descriptors allow, which adds a warning.
    pub fn fit_open_files(&mut self, open_files: u64) {
        let wanted = self.server.max_connections;
        let allowed = connections_allowed(wanted, open_files);
        if allowed < wanted {
            self.server.max_connections = allowed;
            self.warnings.push(format!(
                "QUEEN_MAX_CONNECTIONS ({wanted}) is lowered to {allowed}: the limit of open \
                 files is {open_files} (raise it with `ulimit -n` or LimitNOFILE)"
            ));
        }
    }
}

/// Connections that fit, of `wanted`, where `open_files` descriptors are allowed; at least 1.
fn connections_allowed(wanted: usize, open_files: u64) -> usize {
    assert!(wanted > 0);
    let room = open_files.saturating_sub(RESERVED_FILES).max(1);
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_other_files() {
        assert_eq!(connections_allowed(65_536, 1_024), 896);
        assert_eq!(connections_allowed(500, 1_024), 500);
        assert_eq!(connections_allowed(500, 10), 1);
        assert_eq!(connections_allowed(65_536, u64::MAX), 65_536);
        let mut config = Config::default();
        config.fit_open_files(100_000);
        assert!(config.warnings.is_empty());
        config.fit_open_files(1_024);
        assert_eq!(config.server.max_connections, 896);
        assert_eq!(config.warnings.len(), 1);
    }

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let raised = raise_open_files_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(raised, limit.current.unwrap_or(u64::MAX));
        assert!(raised > 0);
    }
}
