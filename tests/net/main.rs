//! Connections over real sockets, every test on each driver: clients that vanish, answers in
//! request order, bounds, deadlines, and stopping. The service behind them is a plain one of this
//! suite; see `service.rs` for what its paths do.

mod bounds;
mod client;
mod deadlines;
mod forwarding;
mod framing;
mod listening;
mod order;
mod server;
mod service;
mod vanishing;
