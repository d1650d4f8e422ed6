//! A request body that outgrows the read buffer.

use bytes::{Bytes, BytesMut};

use super::input::Input;
use crate::http::{ChunkedDecoder, Fault};

/// Bytes that a growing body starts with.
const START_BYTES: usize = 64 * 1024;

/// A body on its way, with the head that announced it.
#[derive(Debug)]
pub(super) struct PendingBody {
    /// The head, to be parsed again when the body is complete.
    head: Vec<u8>,
    bytes: BytesMut,
    framing: Pending,
    /// A part has arrived.
    begun: bool,
}

#[derive(Debug)]
enum Pending {
    Length(usize),
    Chunked(ChunkedDecoder),
}

impl PendingBody {
    /// A body of `length` bytes.
    pub(super) fn sized(head: &[u8], length: usize) -> PendingBody {
        let bytes = BytesMut::with_capacity(length.min(START_BYTES));
        PendingBody {
            head: head.to_vec(),
            bytes,
            framing: Pending::Length(length),
            begun: false,
        }
    }

    /// A chunked body of at most `bytes_max` bytes.
    pub(super) fn chunked(head: &[u8], bytes_max: u64) -> PendingBody {
        let decoder = ChunkedDecoder::new(bytes_max);
        PendingBody {
            head: head.to_vec(),
            bytes: BytesMut::new(),
            framing: Pending::Chunked(decoder),
            begun: false,
        }
    }

    /// Takes from `input` what belongs to the body; whether it is complete now.
    pub(super) fn feed(&mut self, input: &mut Input) -> Result<bool, Fault> {
        self.begun |= !input.is_empty();
        match &mut self.framing {
            Pending::Length(length) => {
                let length = *length;
                let count = (length - self.bytes.len()).min(input.unread().len());
                if count > 0 {
                    grow(&mut self.bytes, count, length);
                    self.bytes.extend_from_slice(&input.unread()[..count]);
                    input.consume(count);
                }
                Ok(self.bytes.len() == length)
            }
            Pending::Chunked(decoder) => {
                let progress = decoder.decode(input.unread(), &mut self.bytes)?;
                input.consume(progress.consumed);
                Ok(progress.complete)
            }
        }
    }

    /// Whether a part of it has arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Lends the buffer to be read into directly, with how many bytes may be read; `None` if the
    /// framing has to be removed first.
    pub(super) fn lend(&mut self) -> Option<(BytesMut, usize)> {
        let Pending::Length(length) = self.framing else {
            return None;
        };
        let rest = length - self.bytes.len();
        assert!(rest > 0);
        grow(&mut self.bytes, 1, length);
        Some((std::mem::take(&mut self.bytes), rest))
    }

    /// Takes the buffer back.
    pub(super) fn restore(&mut self, bytes: BytesMut) {
        self.begun |= !bytes.is_empty();
        self.bytes = bytes;
    }

    /// Head and body, once complete.
    pub(super) fn into_parts(self) -> (Vec<u8>, Bytes) {
        (self.head, self.bytes.freeze())
    }
}

/// Makes room for `count` more bytes, doubling, but never for more than `length` bytes in all:
/// what was announced is only believed as it arrives.
fn grow(bytes: &mut BytesMut, count: usize, length: usize) {
    let needed = bytes.len() + count;
    if needed <= bytes.capacity() {
        return;
    }
    let capacity = needed
        .max(bytes.capacity() * 2)
        .max(START_BYTES)
        .min(length);
    assert!(capacity >= needed);
    let mut larger = BytesMut::with_capacity(capacity);
    larger.extend_from_slice(bytes);
    *bytes = larger;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_never_holds_more_than_its_length() {
        let mut bytes = BytesMut::new();
        let length = START_BYTES * 3;
        while bytes.len() < length {
            grow(&mut bytes, 1, length);
            assert!(bytes.capacity() <= length);
            bytes.resize(bytes.capacity(), 0);
        }
        assert_eq!(bytes.len(), length);
    }
}
