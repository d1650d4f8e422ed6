//! What travels between cores. Small: whatever is large goes by reference.

use crate::model::{ClientRef, Command, PeerMessage, Popped, Reply, TenantId};

/// One message from a core to another.
#[derive(Debug)]
pub enum Frame {
    /// A client's command, to the core that serves it.
    Request(Box<Forwarded>),
    /// The client of a forwarded pop is gone: nobody waits any more.
    Abandon(ClientRef),
    /// The client of a forwarded pop has closed its half: whoever waits does so no longer.
    Hurry(ClientRef),
    /// What an answer took could not be delivered.
    GiveBack(Box<Popped>),
    /// The answer to a client of the receiving core.
    Reply(Box<Answer>),
    /// From shard to shard.
    Peer(Box<PeerMessage>),
    /// The operator has paused the class: nobody stays parked.
    Pause,
}

const _: () = assert!(size_of::<Frame>() <= 32);

/// A command on its way to the core that serves it.
#[derive(Debug)]
pub struct Forwarded {
    /// Who is answered.
    pub client: ClientRef,
    /// Whose queue it is.
    pub tenant: TenantId,
    /// The command.
    pub command: Command<'static>,
}

/// An answer on its way to the core of its client.
#[derive(Debug)]
pub struct Answer {
    /// Who is answered.
    pub client: ClientRef,
    /// The answer.
    pub reply: Reply,
}
