//! Encryption of payloads where they are stored: AES-256-GCM, each with a random nonce of its own and
//! bound to its place, so that bytes which somebody has moved from one message to another are refused.
//!
//! ```text
//! sealed    u8 form (1), 4 bytes mark of the key, 12 bytes nonce, encrypted payload, 16 bytes tag
//! ```
//! The mark tells a wrong key from bytes that were changed. It is a keyed hash, which gives nothing of
//! the key away that could be used. The form is stored: it may be followed by others, and never changes.
//!
//! Nonces of 96 random bits may meet: after 2^32 payloads under one key with a probability of 2^-33,
//! after a million million of them with one of 1 in 150,000. A meeting gives away how two payloads
//! differ, and lets who knows them forge others.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use uuid::Uuid;

use crate::model::TenantId;
use crate::model::durable::{Record, Unopened};

const FORM: u8 = 1;
const MARK_BYTES: usize = 4;
const HEAD_BYTES: usize = 1 + MARK_BYTES + NONCE_LEN;

/// Encrypts payloads and decrypts them; without a key it leaves them as they are.
#[derive(Clone, Default)]
pub struct Seal {
    keyed: Option<Arc<Keyed>>,
}

struct Keyed {
    key: LessSafeKey,
    mark: [u8; MARK_BYTES],
    random: SystemRandom,
}

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.has_key() {
            "Seal (key not shown)"
        } else {
            "Seal (no key)"
        })
    }
}

/// Where a payload lies. One that is sealed can be opened at this place alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// Among the messages of a partition, or among the dead letters as the message from there.
    Stored {
        /// The partition.
        partition_id: i64,
        /// The offset.
        offset: i64,
    },
    /// In a spool.
    Spooled {
        /// Which spool.
        identity: Uuid,
        /// The number of the entry.
        number: u64,
        /// Whose message it is.
        tenant: TenantId,
        /// Its queue and partition.
        names: [&'a str; 2],
    },
}

impl Seal {
    /// With a key.
    pub fn new(key: &[u8; 32]) -> Seal {
        let mark = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, key),
            b"queen: mark of a key",
        );
        let unbound = UnboundKey::new(&AES_256_GCM, key).expect("a key of 32 bytes");
        Seal {
            keyed: Some(Arc::new(Keyed {
                key: LessSafeKey::new(unbound),
                mark: mark.as_ref()[..MARK_BYTES]
                    .try_into()
                    .expect("a hash is longer"),
                random: SystemRandom::new(),
            })),
        }
    }

    /// Whether there is a key.
    pub fn has_key(&self) -> bool {
        self.keyed.is_some()
    }

    /// Encrypts the payload of a message that goes to a place, if there is a key.
    pub(super) fn close(&self, place: Place<'_>, record: Record) -> Record {
        let Some(keyed) = &self.keyed else {
            return record;
        };
        assert!(!record.encrypted, "what is sealed is moved opened");
        let mut nonce = [0; NONCE_LEN];
        let filled = keyed.random.fill(&mut nonce);
        // Nothing that is secret can be made without it, and it never fails once it has worked.
        filled.expect("the system gives random bytes");
        let tag_bytes = AES_256_GCM.tag_len();
        let mut sealed = Vec::with_capacity(HEAD_BYTES + record.payload.len() + tag_bytes);
        sealed.put_u8(FORM);
        sealed.put_slice(&keyed.mark);
        sealed.put_slice(&nonce);
        sealed.put_slice(&record.payload);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let bound = Aad::from(bound_to(place, &record));
        let tag = keyed
            .key
            .seal_in_place_separate_tag(nonce, bound, &mut sealed[HEAD_BYTES..])
            .expect("a payload is far smaller than the cipher takes");
        sealed.put_slice(tag.as_ref());
        Record {
            encrypted: true,
            payload: sealed.into(),
            ..record
        }
    }

    /// The message with its payload as it was pushed: JSON text, also where it claims never to have been
    /// encrypted.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(super) fn open(&self, place: Place<'_>, record: Record) -> Result<Record, Unopened> {
        let opened = if record.encrypted {
            let keyed = self.keyed.as_ref().ok_or(Unopened::NoKey)?;
            let payload = keyed.open(place, &record)?;
            Record {
                encrypted: false,
                payload,
                ..record
            }
        } else {
            record
        };
        match is_json(&opened.payload) {
            true => Ok(opened),
            false => Err(Unopened::Damaged),
        }
    }
}

impl Keyed {
    fn open(&self, place: Place<'_>, record: &Record) -> Result<Bytes, Unopened> {
        let head = record.payload.get(..HEAD_BYTES).ok_or(Unopened::Damaged)?;
        let (form, rest) = head.split_first().expect("a head is not empty");
        let (mark, nonce) = rest.split_at(MARK_BYTES);
        if *form != FORM {
            return Err(Unopened::Damaged);
        }
        if mark != self.mark {
            return Err(Unopened::OtherKey);
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).expect("so many bytes are left");
        let bound = Aad::from(bound_to(place, record));
        let mut bytes = record.payload[HEAD_BYTES..].to_vec();
        let opened = self.key.open_in_place(nonce, bound, &mut bytes);
        let length = opened.map_err(|_| Unopened::Damaged)?.len();
        bytes.truncate(length);
        Ok(bytes.into())
    }
}

fn is_json(payload: &[u8]) -> bool {
    let text = std::str::from_utf8(payload).ok();
    text.is_some_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

/// What a payload is bound to: its place, and the ids of its message.
fn bound_to(place: Place<'_>, record: &Record) -> Vec<u8> {
    let mut bound = Vec::with_capacity(128);
    let put_text = |bound: &mut Vec<u8>, text: &[u8]| {
        bound.put_u64_le(text.len() as u64);
        bound.put_slice(text);
    };
    match place {
        Place::Stored {
            partition_id,
            offset,
        } => {
            bound.put_u8(1);
            bound.put_i64_le(partition_id);
            bound.put_i64_le(offset);
        }
        Place::Spooled {
            identity,
            number,
            tenant,
            names,
        } => {
            bound.put_u8(2);
            bound.put_slice(identity.as_bytes());
            bound.put_u64_le(number);
            bound.put_u128_le(tenant.as_u128());
            names
                .iter()
                .for_each(|name| put_text(&mut bound, name.as_bytes()));
        }
    }
    bound.put_slice(record.message_id.as_bytes());
    put_text(&mut bound, &record.transaction_id);
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &[u8] = b"{\"secret\":\"swordfish\"}";

    fn record(message: u128, transaction_id: &'static str) -> Record {
        Record {
            message_id: Uuid::from_u128(message),
            transaction_id: Bytes::from_static(transaction_id.as_bytes()),
            created_us: 7,
            trace_id: None,
            producer: None,
            encrypted: false,
            payload: Bytes::from_static(PAYLOAD),
        }
    }

    fn stored(partition_id: i64, offset: i64) -> Place<'static> {
        Place::Stored {
            partition_id,
            offset,
        }
    }

    fn spooled(number: u64, queue: &str) -> Place<'_> {
        Place::Spooled {
            identity: Uuid::from_u128(9),
            number,
            tenant: TenantId::DEFAULT,
            names: [queue, "p"],
        }
    }

    #[test]
    fn what_is_closed_is_opened_and_looks_like_nothing_meanwhile() {
        let seal = Seal::new(&[7; 32]);
        for place in [stored(1, 2), spooled(0, "q")] {
            let plain = record(1, "t");
            let closed = seal.close(place, plain.clone());
            assert!(closed.encrypted);
            assert_eq!(closed.payload.len(), PAYLOAD.len() + 33);
            let holds = |part: &[u8]| closed.payload.windows(part.len()).any(|some| some == part);
            assert!(!holds(b"sword") && !holds(b"secret"));
            assert_ne!(closed.payload, seal.close(place, plain.clone()).payload);
            assert_eq!(seal.open(place, closed), Ok(plain));
        }
    }

    #[test]
    fn what_claims_to_be_plain_is_json_at_least() {
        let seal = Seal::new(&[7; 32]);
        let closed = seal.close(stored(1, 2), record(1, "t"));
        let unmarked = Record {
            encrypted: false,
            ..closed.clone()
        };
        // As one is that was sealed once more.
        let twice = seal.close(stored(1, 2), unmarked.clone());
        let with = |payload: &'static [u8]| Record {
            payload: Bytes::from_static(payload),
            ..record(1, "t")
        };
        for damaged in [
            unmarked,
            twice,
            with(b""),
            with(b"{\"a\":"),
            with(b"\"\xff\""),
        ] {
            let opened = seal.open(stored(1, 2), damaged);
            assert_eq!(opened, Err(Unopened::Damaged));
        }
    }

    #[test]
    fn what_comes_from_another_place_or_message_is_refused() {
        let seal = Seal::new(&[7; 32]);
        let closed = seal.close(stored(1, 2), record(1, "t"));
        let refused = |place, record| seal.open(place, record).unwrap_err();
        for place in [stored(1, 3), stored(2, 2), spooled(2, "q")] {
            assert_eq!(refused(place, closed.clone()), Unopened::Damaged);
        }
        for other in [record(2, "t"), record(1, "u"), record(1, "")] {
            let swapped = Record {
                encrypted: true,
                payload: closed.payload.clone(),
                ..other
            };
            assert_eq!(refused(stored(1, 2), swapped), Unopened::Damaged);
        }
        let closed = seal.close(spooled(5, "q"), record(1, "t"));
        for place in [spooled(6, "q"), spooled(5, "r"), stored(5, 5)] {
            assert_eq!(refused(place, closed.clone()), Unopened::Damaged);
        }
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_noticed() {
        let seal = Seal::new(&[7; 32]);
        let closed = seal.close(stored(1, 2), record(1, "t"));
        let opened = |payload: Vec<u8>| {
            let record = Record {
                payload: payload.into(),
                ..closed.clone()
            };
            seal.open(stored(1, 2), record)
        };
        for at in 0..closed.payload.len() {
            let mut bytes = closed.payload.to_vec();
            bytes[at] ^= 1;
            let in_mark = (1..=MARK_BYTES).contains(&at);
            let why = if in_mark {
                Unopened::OtherKey
            } else {
                Unopened::Damaged
            };
            assert_eq!(opened(bytes), Err(why), "byte {at}");
            let cut = closed.payload[..at].to_vec();
            assert_eq!(opened(cut), Err(Unopened::Damaged), "cut at {at}");
        }
    }

    #[test]
    fn without_the_key_it_says_so() {
        let closed = Seal::new(&[7; 32]).close(stored(1, 2), record(1, "t"));
        let open = |seal: &Seal| seal.open(stored(1, 2), closed.clone());
        assert_eq!(open(&Seal::new(&[8; 32])), Err(Unopened::OtherKey));
        assert_eq!(open(&Seal::default()), Err(Unopened::NoKey));
        // What is not encrypted needs none, and nothing is encrypted without one.
        let plain = Seal::default().close(stored(1, 2), record(1, "t"));
        assert_eq!(plain, record(1, "t"));
        assert_eq!(
            Seal::new(&[7; 32]).open(stored(9, 9), plain.clone()),
            Ok(plain)
        );
    }

    #[test]
    fn the_key_is_not_shown() {
        let shown = format!("{:?} {:?}", Seal::new(&[7; 32]), Seal::default());
        assert_eq!(shown, "Seal (key not shown) Seal (no key)");
    }
}
