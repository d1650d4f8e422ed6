//! What a generator must know of a wire: where an answer ends, and how to say what is wrong with one.

use crate::response::{Response, read_response};
use crate::{LoadError, Refused};

/// A wire.
pub trait Protocol {
    /// One whole answer, or a message that the server sends unasked.
    type Answer<'a>;

    /// Reads the answer at the beginning of `bytes`, with its length; `None`: more bytes are needed.
    fn read(bytes: &[u8]) -> Result<Option<(Self::Answer<'_>, usize)>, LoadError>;

    /// What is said of an answer that is not the one asked for.
    fn refused(answer: &Self::Answer<'_>) -> Refused;
}

/// HTTP/1.1.
#[derive(Clone, Copy, Debug)]
pub struct Http;

impl Protocol for Http {
    type Answer<'a> = Response<'a>;

    fn read(bytes: &[u8]) -> Result<Option<(Response<'_>, usize)>, LoadError> {
        let mut skipped = 0;
        while let Some(response) = read_response(&bytes[skipped..])? {
            let length = skipped + response.length;
            // An interim answer (RFC 9110, 15.2) is not the answer.
            if response.status >= 200 {
                return Ok(Some((response, length)));
            }
            skipped = length;
        }
        Ok(None)
    }

    fn refused(response: &Response<'_>) -> Refused {
        Refused::new(Some(response.status), &response.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interim_answers_belong_to_the_one_that_follows() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 2";
        let (response, length) = Http::read(bytes).unwrap().unwrap();
        assert_eq!((response.status, length), (204, bytes.len() - 10));
        assert!(Http::read(&bytes[..30]).unwrap().is_none());
    }
}
