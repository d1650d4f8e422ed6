//! Why a request of the durable class did not become a command.

use uuid::Uuid;

/// A request of the durable class that is refused for what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableFault {
    /// What kind of fault it is.
    pub kind: DurableFaultKind,
    /// What is wrong and where.
    pub text: String,
    /// How its route tells it.
    pub shape: DurableShape,
}

/// A kind of fault: a status and a code each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableFaultKind {
    /// The request cannot be understood, or a value is out of its bounds.
    BadRequest,
    /// A name is longer than names may be.
    NameTooLong,
    /// The header of the tenant is missing or malformed.
    BadTenant,
    /// The body is in a form that this broker does not read.
    MediaType,
    /// A transaction asks for keys and values.
    KeysAway,
    /// A transaction asks for timers.
    TimersAway,
}

/// How a route tells that it refuses a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurableShape {
    /// Text and code.
    #[default]
    Plain,
    /// An answer to a pop that has no messages.
    Pop,
    /// An answer to a step that did nothing; the step's own id.
    Step(Uuid),
}

impl DurableFault {
    /// A fault of a kind.
    pub(super) fn new(kind: DurableFaultKind, text: impl Into<String>) -> DurableFault {
        DurableFault {
            kind,
            text: text.into(),
            shape: DurableShape::Plain,
        }
    }

    /// A request that cannot be understood.
    pub(super) fn bad_request(text: impl Into<String>) -> DurableFault {
        DurableFault::new(DurableFaultKind::BadRequest, text)
    }

    /// The fault as a route tells it.
    pub(super) fn shaped(self, shape: DurableShape) -> DurableFault {
        DurableFault { shape, ..self }
    }
}
