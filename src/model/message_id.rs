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
        let first = memchr::memchr(b':', rest.as_bytes())?;
        let last = memchr::memrchr(b':', rest.as_bytes())?;
        let partition = rest.get(first + 1..last)?;
        if partition.is_empty() {
            return None;
        }
        Some(MessageId {
            incarnation: Incarnation(read_hexadecimal(&rest[..first])?),
            partition,
            sequence: read_decimal(&rest[last + 1..])?,
        })
    }
}

/// One spelling only: small letters, as they are written.
fn read_hexadecimal(text: &str) -> Option<u64> {
    if !(1..=16).contains(&text.len()) {
        return None;
    }
    text.bytes().try_fold(0, |value, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

/// Digits alone: a sign is none.
fn read_decimal(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.bytes().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        let longer = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        (digit < 10).then_some(longer)
    })
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
            "e:1:p:+18446744073709551615",
            "e:1:p:1x",
            "e:A:p:1",
        ] {
            assert_eq!(MessageId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_number_comes_back() {
        for number in [0, 9, 10, 9_999_999_999_999_999_999, u64::MAX - 1, u64::MAX] {
            let id = MessageId {
                incarnation: Incarnation(number),
                partition: "p",
                sequence: number,
            };
            assert_eq!(MessageId::parse(&id.to_string()), Some(id));
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
