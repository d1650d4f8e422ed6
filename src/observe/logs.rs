//! Logs: one line per event on stderr.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Starts logging to stderr. `filter` is in the form of `RUST_LOG` (for example
/// `info,queen::net=debug`); what it does not name is silent below `info`.
///
/// # Errors
/// A text that says what is wrong with the filter, or that logging was started before.
pub fn start_logs(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::builder()
        .parse(if filter.trim().is_empty() {
            "info"
        } else {
            filter
        })
        .map_err(|fault| format!("the log filter {filter:?} cannot be used: {fault}"))?;
    tracing_subscriber::fmt()
        .compact()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // It would be reported on stderr, which has just failed, and a failing report panics.
        .log_internal_errors(false)
        .try_init()
        .map_err(|fault| format!("logging cannot be started: {fault}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_a_text_not_a_panic() {
        let fault = start_logs("queen=loud").unwrap_err();
        assert!(fault.contains("queen=loud"), "{fault}");
    }
}
