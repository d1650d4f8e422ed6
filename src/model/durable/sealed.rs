//! What becomes of a message whose payload cannot be had.

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// The broker has no key.
    NoKey,
    /// It was encrypted with another key.
    OtherKey,
    /// It is not what was stored there: it was changed, cut, or moved from somewhere else.
    Damaged,
}

impl Unopened {
    /// What to tell people, to follow upon what it is about.
    pub fn text(self) -> &'static str {
        match self {
            Unopened::NoKey => {
                "is encrypted and this broker has no key; start it with the QUEEN_ENCRYPTION_KEY \
                 with which it was stored"
            }
            Unopened::OtherKey => {
                "is encrypted with another key than this broker has; start it with the \
                 QUEEN_ENCRYPTION_KEY with which it was stored"
            }
            Unopened::Damaged => {
                "is not what was stored there: its bytes were changed, are missing, or come from \
                 somewhere else"
            }
        }
    }
}
