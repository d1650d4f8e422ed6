//! The published clients, unmodified, against the real binary: Rust here, Python and JavaScript as
//! child processes. `tests/all.sh` installs their interpreters and packages.

#[path = "../support/mod.rs"]
mod support;

mod buffered_push;
mod interpreters;
mod request_reply;
mod seed_program;

use queen_mq::{Config, Ephemeral, Queen};
use support::{Broker, Plan, Setup, shared};

/// The published client, connected.
fn connect(broker: &Broker) -> Queen {
    Queen::connect(Config::new(broker.url())).expect("the client accepts the URL")
}

/// The client's view of the ephemeral class.
fn ephemeral(broker: &Broker) -> Ephemeral {
    connect(broker).ephemeral()
}

/// The shared broker of each setup.
fn brokers() -> Vec<std::sync::Arc<Broker>> {
    let setups = Setup::all().iter();
    setups.map(|&setup| shared(Plan::new(setup))).collect()
}
