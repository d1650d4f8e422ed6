//! Options of a queue, as asked and as in force.

/// What happens to a push that finds its queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The push is refused with 429 `queue_full`.
    #[default]
    Reject,
    /// The oldest messages of the queue make room.
    DropOldest,
}

/// A waiting pop is held until so many messages or so much time has passed since the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowBuffer {
    /// Milliseconds since the first message; 0: time never ends the hold.
    pub ms: u64,
    /// Messages that end the hold; 0: count never ends it. Both 0: off.
    pub count: u64,
}

/// Options as a client asked for them: `None` takes the broker's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// Payload bytes the queue may hold.
    pub max_bytes: Option<u64>,
    /// Messages the queue may hold.
    pub max_length: Option<u64>,
    /// What a full queue does.
    pub policy: Policy,
    /// Milliseconds a message lives; `None`: for ever.
    pub ttl_ms: Option<u64>,
    /// Milliseconds a delivered message is leased.
    pub lease_ms: Option<u64>,
    /// Deliveries after which a message is dropped for a group.
    pub retry_limit: Option<u64>,
    /// The hold of a waiting pop.
    pub window_buffer: WindowBuffer,
}

/// Options in force: defaults filled in, everything within the ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveOptions {
    /// Payload bytes the queue may hold.
    pub max_bytes: u64,
    /// Messages the queue may hold.
    pub max_length: u64,
    /// What a full queue does.
    pub policy: Policy,
    /// Milliseconds a message lives; `None`: for ever.
    pub ttl_ms: Option<u64>,
    /// Milliseconds a delivered message is leased.
    pub lease_ms: u64,
    /// Deliveries after which a message is dropped for a group.
    pub retry_limit: u32,
    /// The hold of a waiting pop.
    pub window_buffer: WindowBuffer,
}
