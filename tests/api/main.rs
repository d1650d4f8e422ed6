//! The ephemeral class over a real socket: the real binary, raw HTTP. Tests that share a broker use
//! queue names of their own, so all of them can run side by side. A number in a test's name is the
//! number of its row in the list of edge cases that the class was specified with.

#[path = "../support/mod.rs"]
mod support;

mod accepted_input;
mod bounds;
mod collection;
mod concurrency;
mod cores;
mod delivery;
mod exchange;
mod groups;
mod ids;
mod listing;
mod long_poll;
mod memory;
mod methods;
mod metrics;
mod names;
mod options;
mod partitions;
mod pause;
mod payloads;
mod polling;
mod process;
mod refusals;
mod request_reply;
mod seed_program;
mod tenancy;
mod tokens;
mod ttl;
mod vanish;
mod window;
mod without_database;
