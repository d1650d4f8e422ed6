//! Figures of the process as the kernel counts them.

use std::fs;
use std::time::Duration;

/// Memory and processor time of this process; zeros where /proc cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// Bytes of memory resident now.
    pub resident_bytes: u64,
    /// Seconds of processor time in user mode.
    pub cpu_user_s: f64,
    /// Seconds of processor time in the kernel.
    pub cpu_system_s: f64,
}

impl ProcessFigures {
    /// Reads the figures from `/proc/self` (proc(5)).
    pub fn read() -> ProcessFigures {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let memory = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        ProcessFigures::parse(
            &stat,
            &memory,
            rustix::param::clock_ticks_per_second(),
            rustix::param::page_size() as u64,
        )
    }

    fn parse(stat: &str, memory: &str, ticks_per_second: u64, page_bytes: u64) -> ProcessFigures {
        // The command name stands in parentheses and may itself contain spaces and parentheses.
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let seconds = |field: usize| {
            let ticks: u64 = number(after_name, field);
            ticks as f64 / ticks_per_second.max(1) as f64
        };
        ProcessFigures {
            resident_bytes: number(memory, 1) * page_bytes,
            cpu_user_s: seconds(11),
            cpu_system_s: seconds(12),
        }
    }
}

/// Time that a thread of this process was on a CPU: the first number of its `schedstat`, in
/// nanoseconds. Zero where /proc cannot be read or the thread is gone.
pub(super) fn thread_cpu_time(thread: u64) -> Duration {
    let schedule = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    Duration::from_nanos(number(&schedule.unwrap_or_default(), 0))
}

fn number(text: &str, field: usize) -> u64 {
    text.split_ascii_whitespace()
        .nth(field)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_spaces_and_parentheses_is_skipped() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        let figures = ProcessFigures::parse(stat, "100 25 3", 100, 4096);
        assert_eq!(figures.cpu_user_s, 2.5);
        assert_eq!(figures.cpu_system_s, 0.5);
        assert_eq!(figures.resident_bytes, 25 * 4096);
    }

    #[test]
    fn a_thread_that_is_not_there_used_no_time() {
        assert_eq!(thread_cpu_time(0), Duration::ZERO);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(ProcessFigures::read().resident_bytes > 0);
    }

    #[test]
    fn what_cannot_be_read_is_zero() {
        assert_eq!(
            ProcessFigures::parse("", "x", 0, 1),
            ProcessFigures::default()
        );
    }
}
