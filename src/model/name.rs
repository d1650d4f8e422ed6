//! Names of queues, partitions and consumer groups.

use std::borrow::Cow;

use crate::limits;

/// The partition of a push that names none.
pub const DEFAULT_PARTITION: &str = "Default";

/// The group of a pop or ack that names none: the shared cursor.
pub const QUEUE_MODE_GROUP: &str = "__QUEUE_MODE__";

/// Why a text is not a name (README, "Limits": 1 to 512 bytes, no byte below 0x20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// It has no characters.
    #[error("must not be empty")]
    Empty,
    /// It is longer than [`limits::NAME_BYTES_MAX`].
    #[error("must be at most 512 bytes of UTF-8")]
    TooLong,
    /// It contains a byte below 0x20.
    #[error("must not contain control characters (bytes below 0x20)")]
    Control,
}

fn check(text: &str) -> Result<(), NameFault> {
    if text.is_empty() {
        return Err(NameFault::Empty);
    }
    if text.len() > limits::NAME_BYTES_MAX {
        return Err(NameFault::TooLong);
    }
    if text.bytes().any(|byte| byte < 0x20) {
        return Err(NameFault::Control);
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name<'a>(Cow<'a, str>);

        impl<'a> $name<'a> {
            /// Checks `text` against the rules of names.
            pub fn new(text: impl Into<Cow<'a, str>>) -> Result<$name<'a>, NameFault> {
                let text = text.into();
                check(&text)?;
                Ok($name(text))
            }

            /// The name, without what it borrows from.
            pub fn into_owned(self) -> $name<'static> {
                $name(Cow::Owned(self.0.into_owned()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type!(
    /// A queue's name, checked.
    QueueName
);
name_type!(
    /// A partition's name, checked.
    PartitionName
);
name_type!(
    /// A consumer group's name, checked.
    GroupName
);

impl PartitionName<'_> {
    /// The partition of a push that names none.
    pub const DEFAULT: PartitionName<'static> = PartitionName(Cow::Borrowed(DEFAULT_PARTITION));
}

impl GroupName<'_> {
    /// The group of a pop or ack that names none.
    pub const QUEUE_MODE: GroupName<'static> = GroupName(Cow::Borrowed(QUEUE_MODE_GROUP));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_name() {
        assert_eq!(QueueName::new(""), Err(NameFault::Empty));
        assert!(QueueName::new("x".repeat(512)).is_ok());
        assert_eq!(QueueName::new("x".repeat(513)), Err(NameFault::TooLong));
        assert_eq!(QueueName::new("a\u{1f}b"), Err(NameFault::Control));
        assert!(QueueName::new("a b/c:\u{7f}\u{1f600}").is_ok());
    }
}
