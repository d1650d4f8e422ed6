//! Flags and `QUEEN_*` environment, checked together, all faults reported at once, then frozen.
