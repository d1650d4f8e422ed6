//! The owner of rings: pure. No I/O, no clock, no channels, no HTTP.
