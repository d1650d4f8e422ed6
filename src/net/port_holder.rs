//! Who listens on a port, as far as /proc shows it.

use std::fmt;
use std::fs;
use std::path::Path;

/// The state LISTEN in /proc/net/tcp.
const STATE_LISTEN: &str = "0A";

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    /// Its process id.
    pub pid: u32,
    /// Its command line, or its name if that is all that can be read.
    pub command: String,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} ({})", self.pid, self.command)
    }
}

/// A process that listens on TCP `port`; `None` if there is none or its descriptors are hidden from
/// this user.
pub(super) fn find(port: u16) -> Option<PortHolder> {
    let inodes = listening_inodes(port);
    if inodes.is_empty() {
        return None;
    }
    let targets: Vec<String> = inodes
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if has_descriptor(&process.path(), &targets) {
            return Some(PortHolder {
                pid,
                command: command(&process.path()),
            });
        }
    }
    None
}

fn listening_inodes(port: u16) -> Vec<u64> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| inodes_in(&table, port))
        .collect()
}

/// Inodes of the sockets that listen on `port` in the text of /proc/net/tcp.
fn inodes_in(table: &str, port: u16) -> Vec<u64> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| inode_in(line, port))
        .collect()
}

fn inode_in(line: &str, port: u16) -> Option<u64> {
    let mut columns = line.split_ascii_whitespace();
    let local = columns.nth(1)?;
    let state = columns.nth(1)?;
    let inode = columns.nth(5)?;
    let (_, local_port) = local.rsplit_once(':')?;
    if state != STATE_LISTEN || u16::from_str_radix(local_port, 16).ok()? != port {
        return None;
    }
    inode.parse().ok()
}

fn has_descriptor(process: &Path, targets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors
        .flatten()
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|target| {
            targets
                .iter()
                .any(|wanted| target.as_os_str() == wanted.as_str())
        })
}

fn command(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    if line.trim().is_empty() {
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        return name.trim().to_owned();
    }
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_table_of_sockets() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:19E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:19E8 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000:19E9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
";
        assert_eq!(inodes_in(table, 6632), [4711]);
        assert_eq!(inodes_in(table, 6633), [4713]);
        assert_eq!(inodes_in("", 1), [0_u64; 0]);
    }

    #[test]
    fn finds_this_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = find(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.command.is_empty());
    }
}
