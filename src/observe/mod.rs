//! What the broker tells about itself: counters of each core, summed when somebody reads; figures
//! of the process; Prometheus text; logs. Lives on no core: a core only adds to its own counters.
//! Knows neither queues nor HTTP.

mod core_families;
mod counters;
mod logs;
mod process;
mod prometheus;

pub use counters::{CoreCounters, Figure, Observed, Totals};
pub use logs::start_logs;
pub use process::ProcessFigures;
pub use prometheus::{DatabaseFigures, Gauges, ParkedQueue, prometheus_text};
