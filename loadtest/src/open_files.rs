//! The limit of open files: every connection is one, here as in a server, which takes the limit over.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::LoadError;

/// Files that a server or the generator has open beside the connections, at most.
const OTHER_FILES: u64 = 500;

/// Lets this process, and what it starts from now on, have so many connections.
pub fn allow(connections: usize) -> Result<(), LoadError> {
    let wanted = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|&maximum| maximum < wanted) {
        return Err(LoadError::text(format!(
            "{wanted} open files are needed and {maximum} allowed: raise the limit (ulimit -Hn) \
             or take fewer connections"
        )));
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    Ok(setrlimit(Resource::Nofile, raised).map_err(io::Error::from)?)
}
