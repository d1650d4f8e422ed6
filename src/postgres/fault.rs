//! What can be wrong with a session.

/// Why a call of a session failed. No text ever holds a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionFault {
    /// There is no session any more, or none could be had: try again later.
    #[error("{reason}")]
    Away {
        /// What happened, and where it helps what to do.
        reason: String,
    },
    /// This server must not be used: what is wrong does not heal by itself.
    #[error("{reason}")]
    Refused {
        /// What is wrong and what to do.
        reason: String,
    },
    /// The statement failed and changed nothing; the session goes on.
    #[error("{reason}")]
    Write {
        /// What the server said.
        reason: String,
        /// Whether it is the environment's fault, so that the same statement may succeed later: a
        /// full disk, a server that only reads, a lock that is held, too little memory.
        heals: bool,
    },
}
