//! What the shard cores ask of the engine core.

use std::time::Instant;

use super::{ClientRef, Configure, QueueName, TenantId, durable};

/// Something that has to be stored before it holds.
#[derive(Clone, Debug)]
pub struct Job {
    /// Who is answered.
    pub client: ClientRef,
    /// Who asks.
    pub tenant: TenantId,
    /// For what.
    pub change: Change,
    /// Since when; whoever waits is answered in time, wherever the job lies meanwhile.
    pub since: Instant,
}

/// What is to be stored.
#[derive(Clone, Debug)]
pub enum Change {
    /// A declaration.
    Declare(Configure<'static>),
    /// That a queue is declared no more.
    Remove(QueueName<'static>),
    /// Whether the ephemeral class is enabled, for all tenants.
    Switch {
        /// `false`: paused.
        enabled: bool,
    },
    /// A request of the durable class.
    Durable(Box<durable::Command>),
}
