//! Why a request was refused. `api` maps each to a status and a code.

use std::sync::Arc;

use super::durable::Unopened;

/// The client's fault, or a bound that was reached; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request cannot be understood.
    BadRequest {
        /// What is wrong and where.
        text: String,
        /// A stable word for machines, where one is promised.
        reason: Option<&'static str>,
        /// Path of the faulty field, where one is promised.
        field: Option<String>,
    },
    /// The queue's own bound is reached; room may come.
    QueueFull {
        /// The queue.
        queue: Arc<str>,
        /// `maxBytes`, `maxLength` or, of a durable queue, `maxSize`.
        bound: &'static str,
        /// Its value.
        limit: u64,
    },
    /// The push is larger than the queue's bound: it can never be stored.
    NeverFits {
        /// The queue.
        queue: Arc<str>,
        /// `maxBytes`, `maxLength` or, of a durable queue, `maxSize`.
        bound: &'static str,
        /// Its value.
        limit: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// The tenant's allowance is used up.
    QuotaExceeded {
        /// What is used up and how to free it.
        text: &'static str,
    },
    /// The tenant may not use the class: it has no grant where one is required, or its grant is
    /// disabled.
    FeatureGated {
        /// What is missing and who can change it.
        text: &'static str,
    },
    /// The tenant pushes faster than its grant or `QUEEN_EPHEMERAL_RATE` allows.
    RateLimited {
        /// Whole seconds until it may succeed, at least 1.
        retry_after_s: u64,
    },
    /// The broker cannot take it: memory, queues or tenants are at their limit.
    Unavailable {
        /// What is at its limit.
        text: &'static str,
    },
    /// A declaration cannot be stored or removed now.
    DatabaseAway {
        /// Why, and whether it may have been stored all the same.
        reason: String,
    },
    /// The database refuses a declaration, or its removal, for a reason that does not pass.
    StoreFailed {
        /// Whether it was to be removed.
        removal: bool,
        /// Why.
        reason: String,
    },
    /// The durable class cannot be served now: there is no PostgreSQL, or it does not answer.
    DurableAway {
        /// Why, and what to do.
        reason: String,
        /// Whether it is unknown if the request was carried out.
        uncertain: bool,
    },
    /// The durable class refuses what it cannot store for a reason that does not pass.
    DurableFailed {
        /// Why.
        reason: String,
    },
    /// A stored message is encrypted and cannot be read.
    Unopened {
        /// Which one.
        message: String,
        /// Why.
        why: Unopened,
    },
    /// A core has more to do than it can: a moment later it may have room.
    Overloaded {
        /// What is overloaded.
        text: &'static str,
    },
    /// The operator has paused the class.
    Paused,
    /// No such queue (depth only).
    QueueNotFound {
        /// The queue.
        queue: Arc<str>,
    },
}

impl Refusal {
    /// A request that cannot be understood.
    pub fn bad_request(text: impl Into<String>) -> Refusal {
        Refusal::BadRequest {
            text: text.into(),
            reason: None,
            field: None,
        }
    }
}
