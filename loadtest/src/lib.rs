//! Programs that load a running broker.
