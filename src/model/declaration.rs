//! What the database keeps of the ephemeral class: declared queues and what tenants are granted.

use super::TenantId;

/// A declared queue, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Whose queue it is.
    pub tenant: TenantId,
    /// The queue's name, as it was stored: a row written by hand may hold anything.
    pub queue: String,
    /// Its options: a JSON object, exactly as the client sent it.
    pub options: String,
}

/// What an operator grants to a tenant (README, "Grants").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whether the tenant may use the class at all.
    pub enabled: bool,
    /// Payload bytes that the tenant may hold; `None`: no bound of its own.
    pub max_bytes: Option<u64>,
    /// Queues that the tenant may have, declared and implicit; `None`: no bound of its own.
    pub max_queues: Option<u64>,
    /// Messages that the tenant may push in a second; `None`: what the broker allows.
    pub messages_per_second: Option<u64>,
}
