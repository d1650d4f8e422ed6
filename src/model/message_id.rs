//! The id of a message, opaque to clients.

use std::fmt;

/// Random number drawn when the process starts; an id of another one is `stale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// A new one.
    pub fn random() -> Incarnation {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        // Of a random UUID's bits only those of version and variant are fixed; folding hides them.
        Incarnation(high.rotate_left(32) ^ low)
    }
}

/// `e:<incarnation, hex>:<partition>:<sequence, decimal>`. The partition is verbatim and may itself
/// contain colons, so an id is read from both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId<'a> {
    /// The process that issued it.
    pub incarnation: Incarnation,
    /// The partition the message is in.
    pub partition: &'a str,
    /// Its number in that partition.
    pub sequence: u64,
}

impl<'a> MessageId<'a> {
    /// Reads an id; `None` means it is not one that this broker issues.
    pub fn parse(text: &'a str) -> Option<MessageId<'a>> {
        let rest = text.strip_prefix("e:")?;
        let (incarnation, rest) = rest.split_once(':')?;
        let (partition, sequence) = rest.rsplit_once(':')?;
        if partition.is_empty() {
            return None;
        }
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !digits(incarnation) || !sequence.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(MessageId {
            incarnation: Incarnation(u64::from_str_radix(incarnation, 16).ok()?),
            partition,
            sequence: sequence.parse().ok()?,
        })
    }
}

impl fmt::Display for MessageId<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "e:{:x}:{}:{}",
            self.incarnation.0, self.partition, self.sequence
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_ids_are_rejected() {
        let uuid = "018f4d3e-2b7c-7e0f-9d6e-0a1b2c3d4e5f";
        for text in [
            "e:1:2",
            "e:zz:p:1",
            "e:1:p:x",
            "e:1::1",
            uuid,
            "",
            "e:1:p:",
            "e::p:1",
            "e:+1:p:1",
            "e:1:p:+1",
            "e:11111111111111111:p:1",
            "e:1:p:18446744073709551616",
        ] {
            assert_eq!(MessageId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_partition_with_colons_survives() {
        let id = MessageId {
            incarnation: Incarnation(0x9f1),
            partition: "orders:eu:west",
            sequence: 7,
        };
        let text = id.to_string();
        assert_eq!(text, "e:9f1:orders:eu:west:7");
        assert_eq!(MessageId::parse(&text), Some(id));
    }
}
