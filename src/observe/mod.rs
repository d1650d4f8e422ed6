//! Per-core counters summed on read, logs, the metrics texts. Knows `model` only.
