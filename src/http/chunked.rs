//! Chunked bodies (RFC 9112 section 7.1): a decoder that can be fed in pieces of any size.

use bytes::BytesMut;

use super::Fault;
use super::octets::{TOKEN, VALUE, hex_value, is_blank};
use crate::limits;

/// Hexadecimal digits of a chunk size: what fits 64 bits.
const SIZE_DIGITS_MAX: u8 = 16;

/// Removes the framing of one chunked body. Extensions and trailers are checked and ignored.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Bytes that the body may still grow by.
    allowance: u64,
    /// Bytes of the extensions of the current chunk.
    extension_bytes: usize,
    /// Bytes of all extensions.
    extensions_bytes: usize,
    /// Bytes of the trailer section.
    trailer_bytes: usize,
    /// Fields of the trailer section.
    trailer_fields: usize,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { value: u64, digits: u8 },
    Extension { value: u64 },
    SizeLineFeed { value: u64 },
    Data { remaining: u64 },
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Complete,
    Failed(Fault),
}

/// How far one call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkedProgress {
    /// Bytes of the input that belong to the body; all of them unless it is complete.
    pub consumed: usize,
    /// The end of the body, trailers included, was reached.
    pub complete: bool,
}

const SIZE_START: State = State::Size {
    value: 0,
    digits: 0,
};

impl ChunkedDecoder {
    /// A decoder for a body of at most `limit_bytes`, framing not counted.
    pub fn new(limit_bytes: u64) -> ChunkedDecoder {
        ChunkedDecoder {
            state: SIZE_START,
            allowance: limit_bytes,
            extension_bytes: 0,
            extensions_bytes: 0,
            trailer_bytes: 0,
            trailer_fields: 0,
        }
    }

    /// Decodes the next piece and appends what it carries to `body`. After a fault every call
    /// gives the same fault; after the end nothing is consumed.
    pub fn decode(&mut self, input: &[u8], body: &mut BytesMut) -> Result<ChunkedProgress, Fault> {
        let mut at = 0;
        loop {
            match self.state {
                State::Complete => {
                    return Ok(ChunkedProgress {
                        consumed: at,
                        complete: true,
                    });
                }
                State::Failed(fault) => return Err(fault),
                _ if at == input.len() => {
                    return Ok(ChunkedProgress {
                        consumed: at,
                        complete: false,
                    });
                }
                State::Data { remaining } => {
                    let available = input.len() - at;
                    let taken = usize::try_from(remaining)
                        .unwrap_or(usize::MAX)
                        .min(available);
                    body.extend_from_slice(&input[at..at + taken]);
                    at += taken;
                    self.state = match remaining - taken as u64 {
                        0 => State::DataReturn,
                        remaining => State::Data { remaining },
                    };
                }
                _ => {
                    self.state = match self.step(input[at]) {
                        Ok(state) => state,
                        Err(fault) => State::Failed(*fault),
                    };
                    at += 1;
                }
            }
        }
    }

    /// Takes one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, &'static Fault> {
        match (self.state, byte) {
            (State::Size { value, digits }, _) => self.step_size(value, digits, byte),
            (State::Extension { value }, b'\r') => Ok(State::SizeLineFeed { value }),
            (State::Extension { value }, _) if VALUE[usize::from(byte)] => {
                self.count_extension_byte()?;
                Ok(State::Extension { value })
            }
            (State::SizeLineFeed { value: 0 }, b'\n') => Ok(State::TrailerStart),
            (State::SizeLineFeed { value }, b'\n') => {
                self.allowance -= value;
                Ok(State::Data { remaining: value })
            }
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(SIZE_START),
            (State::EndLineFeed, b'\n') => Ok(State::Complete),
            (
                State::TrailerStart
                | State::TrailerName
                | State::TrailerValue
                | State::TrailerLineFeed,
                _,
            ) => self.step_trailer(byte),
            _ => Err(&Fault::BAD_CHUNK),
        }
    }

    fn step_size(&mut self, value: u64, digits: u8, byte: u8) -> Result<State, &'static Fault> {
        if let Some(digit) = hex_value(byte) {
            let value = value.checked_mul(16).ok_or(&Fault::BODY_TOO_LARGE)? + u64::from(digit);
            if value > self.allowance {
                return Err(&Fault::BODY_TOO_LARGE);
            }
            return match digits < SIZE_DIGITS_MAX {
                true => Ok(State::Size {
                    value,
                    digits: digits + 1,
                }),
                false => Err(&Fault::BAD_CHUNK),
            };
        }
        match byte {
            _ if digits == 0 => Err(&Fault::BAD_CHUNK),
            b'\r' => Ok(State::SizeLineFeed { value }),
            b';' => {
                self.extension_bytes = 0;
                self.count_extension_byte()?;
                Ok(State::Extension { value })
            }
            _ => Err(&Fault::BAD_CHUNK),
        }
    }

    fn count_extension_byte(&mut self) -> Result<(), &'static Fault> {
        self.extension_bytes += 1;
        self.extensions_bytes += 1;
        if self.extension_bytes > limits::CHUNK_EXTENSION_BYTES_MAX
            || self.extensions_bytes > limits::CHUNK_EXTENSIONS_BYTES_MAX
        {
            return Err(&Fault::CHUNK_EXTENSION_TOO_LARGE);
        }
        Ok(())
    }

    fn step_trailer(&mut self, byte: u8) -> Result<State, &'static Fault> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > limits::HEAD_BYTES_MAX {
            return Err(&Fault::HEAD_TOO_LARGE);
        }
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::EndLineFeed),
            (State::TrailerStart, _) if TOKEN[usize::from(byte)] => {
                self.trailer_fields += 1;
                match self.trailer_fields <= limits::HEAD_FIELDS_MAX {
                    true => Ok(State::TrailerName),
                    false => Err(&Fault::TOO_MANY_FIELDS),
                }
            }
            (State::TrailerStart, _) if is_blank(byte) => Err(&Fault::FOLDED_HEADER),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerName, _) if TOKEN[usize::from(byte)] => Ok(State::TrailerName),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerValue, _) if VALUE[usize::from(byte)] => Ok(State::TrailerValue),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::TrailerStart | State::TrailerName, _) => Err(&Fault::BAD_HEADER_NAME),
            (State::TrailerValue, _) => Err(&Fault::BAD_HEADER_VALUE),
            _ => Err(&Fault::BAD_LINE_END),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(limit_bytes: u64, input: &[u8]) -> (Result<ChunkedProgress, Fault>, BytesMut) {
        let mut body = BytesMut::new();
        let progress = ChunkedDecoder::new(limit_bytes).decode(input, &mut body);
        (progress, body)
    }

    #[test]
    fn what_follows_the_body_is_left_alone() {
        let (progress, body) = decoded(5, b"3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: v\r\n\r\nGET /");
        assert_eq!(
            progress,
            Ok(ChunkedProgress {
                consumed: 28,
                complete: true
            })
        );
        assert_eq!(&body[..], b"abcde");
    }

    #[test]
    fn the_limit_counts_all_chunks() {
        assert_eq!(decoded(5, b"3\r\nabc\r\n3").0, Err(Fault::BODY_TOO_LARGE));
        assert_eq!(decoded(0, b"1").0, Err(Fault::BODY_TOO_LARGE));
        assert!(
            decoded(0, b"0\r\n\r\n")
                .0
                .is_ok_and(|progress| progress.complete)
        );
        let unbounded = decoded(u64::MAX, b"ffffffffffffffff\r\nabc");
        assert_eq!(
            unbounded.0,
            Ok(ChunkedProgress {
                consumed: 21,
                complete: false
            })
        );
        assert_eq!(
            decoded(u64::MAX, b"10000000000000000").0,
            Err(Fault::BODY_TOO_LARGE)
        );
    }

    #[test]
    fn nothing_of_a_chunk_is_reserved_before_it_arrives() {
        let (progress, body) = decoded(u64::MAX, b"ffffffff\r\nabc");
        assert!(progress.is_ok());
        assert!(body.capacity() < 1_024);
    }

    #[test]
    fn extensions_and_trailers_are_bounded_over_the_whole_body() {
        let extension = [b"1;", &[b'e'; 4_000][..], b"\r\nx\r\n"].concat();
        assert!(decoded(1_000, &extension.repeat(16)).0.is_ok());
        let fault = decoded(1_000, &extension.repeat(17)).0;
        assert_eq!(fault, Err(Fault::CHUNK_EXTENSION_TOO_LARGE));
        let trailer = [b"0\r\nT: ", &[b't'; limits::HEAD_BYTES_MAX][..]].concat();
        assert_eq!(decoded(0, &trailer).0, Err(Fault::HEAD_TOO_LARGE));
    }
}
