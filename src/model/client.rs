//! Who is to be answered.

/// One request of one connection: the address an answer is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientRef {
    /// The shard core that owns the connection.
    pub core: u16,
    /// Key of the connection on its core, reused after it closed.
    pub connection: u32,
    /// Number of the request on its connection, counted from 0 and never reused on it.
    pub request: u64,
    /// Distinguishes connections that had the same key.
    pub generation: u64,
}

impl ClientRef {
    /// Nobody: what is done for it is answered to no one.
    pub const NOBODY: ClientRef = ClientRef {
        core: u16::MAX,
        connection: 0,
        request: 0,
        generation: 0,
    };
}
