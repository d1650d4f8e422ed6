//! The shard cores as the engine sees them.

use crate::model::{ClientRef, Configure, Declaration, Grant, QueueName, Refusal, Reply, TenantId};

/// What the engine tells the shard cores, and asks of what they share. None of it waits.
pub trait Shards {
    /// A place for a queue that is not there yet, within all bounds; dropped: given back.
    type Slot;

    /// Reads options as a client has sent them.
    ///
    /// # Errors
    /// They are no options that this broker knows.
    fn read_declaration(&self, declaration: &Declaration) -> Result<Configure<'static>, Refusal>;

    /// A place for a queue that is to be declared; `None`: it is there already.
    ///
    /// # Errors
    /// A bound of the tenant or of the broker is reached.
    fn reserve(&self, tenant: TenantId, queue: &str) -> Result<Option<Self::Slot>, Refusal>;

    /// What a client has declared is stored: it holds from now on, and `client` is answered.
    fn declare(&mut self, client: ClientRef, tenant: TenantId, declared: Stored<Self::Slot>);

    /// What was declared elsewhere holds here too from now on, whatever the bounds say.
    fn take_over(&mut self, declaration: Declaration, configure: Configure<'static>);

    /// A declaration is gone, and its queue with it; `client` is answered.
    fn remove(&mut self, client: ClientRef, tenant: TenantId, queue: QueueName<'static>);

    /// The grants of all tenants.
    fn set_grants(&mut self, grants: Vec<(TenantId, Grant)>);

    /// Whether the class is enabled; nobody stays parked when it is not.
    fn set_enabled(&mut self, enabled: bool);

    /// Answers a client.
    fn answer(&mut self, client: ClientRef, reply: Reply);

    /// Sends what has waited; to be called in every turn. Whether something still waits.
    fn flush(&mut self) -> bool;
}

/// A declaration that is stored.
#[derive(Debug)]
pub struct Stored<S> {
    /// The declaration.
    pub configure: Configure<'static>,
    /// The place that was reserved for its queue, if it was not there.
    pub slot: Option<S>,
}
