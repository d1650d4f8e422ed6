//! What can be wrong with a session.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::DbError;

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

impl SessionFault {
    pub(super) fn away(reason: impl Into<String>) -> SessionFault {
        let reason = reason.into();
        SessionFault::Away { reason }
    }

    pub(super) fn refused(reason: impl Into<String>) -> SessionFault {
        let reason = reason.into();
        SessionFault::Refused { reason }
    }

    /// What an error of a statement means for the session.
    pub(super) fn of_statement(error: &Error) -> SessionFault {
        let reason = text_of(error);
        let Some(said) = error.as_db_error() else {
            // What cannot be put into a message was not sent; all else is the connection's.
            let unsent = error.to_string().contains("error encoding")
                || error.to_string().contains("error serializing");
            return match unsent {
                true => SessionFault::Write {
                    reason,
                    heals: false,
                },
                false => SessionFault::Away { reason },
            };
        };
        match kind_of(said.code().code()) {
            Kind::Away => SessionFault::Away { reason },
            _ if is_fatal(said) => SessionFault::Away { reason },
            Kind::Environment => SessionFault::Write {
                reason,
                heals: true,
            },
            Kind::Statement => SessionFault::Write {
                reason,
                heals: false,
            },
        }
    }
}

fn is_fatal(said: &DbError) -> bool {
    use tokio_postgres::error::Severity;
    match said.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A new session may do better: this one ends, or the schema is another one by now.
    Away,
    Environment,
    Statement,
}

/// PostgreSQL's manual, appendix "Error Codes".
fn kind_of(code: &str) -> Kind {
    match code {
        // The server goes down or has ended the session.
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25P03" | "25P04" => Kind::Away,
        // The schema or a table is gone, or a plan is of another schema.
        "3F000" | "42P01" | "42703" | "42883" | "0A000" | "26000" => Kind::Away,
        // Only reading; rights that an operator can give back; cancelled, also by a timeout; a lock.
        "25006" | "42501" | "57014" | "55P03" => Kind::Environment,
        // Insufficient resources (disk, memory, connections), errors of the system, lost races.
        code if code.starts_with("53") || code.starts_with("58") || code.starts_with("40") => {
            Kind::Environment
        }
        code if code.starts_with("08") => Kind::Away,
        _ => Kind::Statement,
    }
}

/// Everything that an error says, its causes included.
pub(super) fn text_of(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        let mut text = said.message().to_owned();
        for more in [said.detail(), said.hint()].into_iter().flatten() {
            text.push_str(": ");
            text.push_str(more);
        }
        text.push_str(&format!(" (SQLSTATE {})", said.code().code()));
        return text;
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text.push_str(": ");
        text.push_str(&one.to_string());
        cause = one.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_is_to_blame_for_heals() {
        for code in [
            "53100", "53200", "25006", "55P03", "57014", "40P01", "58030", "42501",
        ] {
            assert_eq!(kind_of(code), Kind::Environment, "{code}");
        }
        for code in ["57P01", "42P01", "3F000", "08006"] {
            assert_eq!(kind_of(code), Kind::Away, "{code}");
        }
        for code in ["23514", "22021", "42601", "P0001"] {
            assert_eq!(kind_of(code), Kind::Statement, "{code}");
        }
    }
}
