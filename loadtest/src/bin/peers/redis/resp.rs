//! The protocol of Redis, version 2 (RESP): commands written into a buffer, replies read where they
//! lie, without allocating.

use std::io::{self, Write};

use queen_loadtest::protocol::Protocol;
use queen_loadtest::{LoadError, Refused};

/// Bytes of the first line of a reply above which the peer cannot be Redis: an error in words is the
/// longest.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The wire of Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resp;

/// One whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// A short text such as `OK`.
    Status(&'a [u8]),
    /// What was wrong, in words.
    Error(&'a [u8]),
    /// A number.
    Integer(i64),
    /// A string of bytes.
    Bulk(&'a [u8]),
    /// A string or an array that is not there: a wait that ended.
    Null,
    /// Replies in an array.
    Array(Items<'a>),
}

/// The replies of an array, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Items<'a> {
    rest: &'a [u8],
    left: usize,
}

/// Bytes that are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not one of Redis")]
pub(crate) struct Fault;

/// The first line of a reply, and where it ends.
struct Line<'a> {
    kind: u8,
    text: &'a [u8],
    end: usize,
}

impl Protocol for Resp {
    type Answer<'a> = Reply<'a>;

    fn read(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, LoadError> {
        Ok(read_reply(bytes).map_err(io::Error::other)?)
    }

    fn refused(reply: &Reply<'_>) -> Refused {
        match reply {
            Reply::Error(text) | Reply::Status(text) | Reply::Bulk(text) => {
                Refused::new(None, text)
            }
            other => Refused::new(None, format!("{other:?}").as_bytes()),
        }
    }
}

/// Reads the reply at the beginning of `bytes`, with its length; `None`: more bytes are needed.
pub(crate) fn read_reply(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Fault> {
    let Some(length) = length(bytes)? else {
        return Ok(None);
    };
    Ok(Some((whole(&bytes[..length])?, length)))
}

/// Where the reply at the beginning of `bytes` ends; an array ends with the last of its replies.
fn length(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    let mut at = 0;
    let mut missing = 1_usize;
    while missing > 0 {
        let Some(line) = first_line(&bytes[at..])? else {
            return Ok(None);
        };
        at += line.end;
        missing -= 1;
        match line.kind {
            b'$' => {
                let Some(count) = count(line.text)? else {
                    continue;
                };
                let end = at.checked_add(count).ok_or(Fault)?;
                let Some(tail) = bytes.get(end..end.saturating_add(2)) else {
                    return Ok(None);
                };
                if tail != b"\r\n" {
                    return Err(Fault);
                }
                at = end + 2;
            }
            b'*' => {
                let count = count(line.text)?.unwrap_or(0);
                missing = missing.checked_add(count).ok_or(Fault)?;
            }
            b'+' | b'-' | b':' => {}
            _ => return Err(Fault),
        }
    }
    Ok(Some(at))
}

/// The reply that `bytes` are, of which the length is known to be right.
fn whole(bytes: &[u8]) -> Result<Reply<'_>, Fault> {
    let line = first_line(bytes)?.ok_or(Fault)?;
    let rest = &bytes[line.end..];
    Ok(match line.kind {
        b'+' => Reply::Status(line.text),
        b'-' => Reply::Error(line.text),
        b':' => Reply::Integer(number(line.text)?),
        b'$' => match count(line.text)? {
            Some(count) => Reply::Bulk(&rest[..count]),
            None => Reply::Null,
        },
        b'*' => match count(line.text)? {
            Some(left) => Reply::Array(Items { rest, left }),
            None => Reply::Null,
        },
        _ => return Err(Fault),
    })
}

fn first_line(bytes: &[u8]) -> Result<Option<Line<'_>>, Fault> {
    let Some(&kind) = bytes.first() else {
        return Ok(None);
    };
    let Some(feed) = memchr::memchr(b'\n', bytes) else {
        if bytes.len() > LINE_BYTES_MAX {
            return Err(Fault);
        }
        return Ok(None);
    };
    let text = bytes[1..feed.max(1)].strip_suffix(b"\r").ok_or(Fault)?;
    Ok(Some(Line {
        kind,
        text,
        end: feed + 1,
    }))
}

/// A length; -1 stands for what is not there.
fn count(text: &[u8]) -> Result<Option<usize>, Fault> {
    match number(text)? {
        -1 => Ok(None),
        count => usize::try_from(count).map(Some).map_err(|_| Fault),
    }
}

fn number(text: &[u8]) -> Result<i64, Fault> {
    let text = std::str::from_utf8(text).map_err(|_| Fault)?;
    text.parse().map_err(|_| Fault)
}

impl<'a> Reply<'a> {
    /// The bytes of a string.
    pub(crate) fn bulk(self) -> Option<&'a [u8]> {
        match self {
            Reply::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The replies of an array.
    pub(crate) fn items(self) -> Option<Items<'a>> {
        match self {
            Reply::Array(items) => Some(items),
            _ => None,
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        self.left = self.left.checked_sub(1)?;
        let read = read_reply(self.rest);
        let (reply, length) = read.ok().flatten().expect("an array was read as a whole");
        self.rest = &self.rest[length..];
        Some(reply)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// Appends a command of these words to `out`.
pub(crate) fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    begin(words.len(), out);
    for text in words {
        word(text, out);
    }
}

/// Appends the beginning of a command of `words` words, which [`word`] then appends.
pub(crate) fn begin(words: usize, out: &mut Vec<u8>) {
    write!(out, "*{words}\r\n").expect("writing to memory does not fail");
}

/// Appends a word of a command.
pub(crate) fn word(text: &[u8], out: &mut Vec<u8>) {
    write!(out, "${}\r\n", text.len()).expect("writing to memory does not fail");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies as Redis 7 sends them.
    const REPLIES: [&[u8]; 13] = [
        b"+OK\r\n",
        b"-WRONGTYPE Operation against a key\r\n",
        b":0\r\n",
        b":-12\r\n",
        b"$5\r\nab\r\nc\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*2\r\n$1\r\nk\r\n$3\r\n{}\n\r\n",
        b"*3\r\n:1\r\n*2\r\n+a\r\n*-1\r\n$-1\r\n",
        // XREADGROUP: one stream with two entries of one field.
        b"*1\r\n*2\r\n$1\r\ns\r\n*2\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nd\r\n$2\r\nxx\r\n\
          *2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nd\r\n$2\r\nyy\r\n",
        // BLMPOP: a key and its values.
        b"*2\r\n$1\r\nk\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ];

    #[test]
    fn a_reply_cut_at_every_byte_is_partial_until_it_is_whole() {
        for bytes in REPLIES {
            for cut in 0..bytes.len() {
                let shown = String::from_utf8_lossy(bytes);
                assert_eq!(read_reply(&bytes[..cut]), Ok(None), "{shown} cut at {cut}");
            }
            let (_, length) = read_reply(bytes).unwrap().unwrap();
            assert_eq!(length, bytes.len());
        }
    }

    #[test]
    fn replies_in_a_row_are_read_one_by_one() {
        let stream = REPLIES.concat();
        for cut in 0..=stream.len() {
            let (mut at, mut seen) = (0, 0);
            while let Some((reply, length)) = read_reply(&stream[at..cut]).unwrap() {
                assert_eq!(length, REPLIES[seen].len());
                assert_eq!(reply, read_reply(REPLIES[seen]).unwrap().unwrap().0);
                at += length;
                seen += 1;
            }
            assert!(cut < stream.len() || seen == REPLIES.len());
        }
    }

    #[test]
    fn replies_are_told_apart() {
        let read = |index: usize| read_reply(REPLIES[index]).unwrap().unwrap().0;
        assert_eq!(read(0), Reply::Status(b"OK"));
        assert_eq!(read(1), Reply::Error(b"WRONGTYPE Operation against a key"));
        assert_eq!(read(3), Reply::Integer(-12));
        assert_eq!(read(4).bulk(), Some(&b"ab\r\nc"[..]));
        assert_eq!(read(5).bulk(), Some(&b""[..]));
        assert_eq!((read(6), read(8)), (Reply::Null, Reply::Null));
        assert_eq!(read(7).items().unwrap().len(), 0);
        let nested: Vec<Reply<'_>> = read(10).items().unwrap().collect();
        assert_eq!(nested[0], Reply::Integer(1));
        assert_eq!(nested[1].items().unwrap().last(), Some(Reply::Null));
        assert_eq!(nested[2], Reply::Null);
    }

    #[test]
    fn entries_of_a_stream_are_reached_through_their_arrays() {
        let (reply, _) = read_reply(REPLIES[11]).unwrap().unwrap();
        let stream = reply.items().unwrap().next().unwrap();
        let entries = stream.items().unwrap().nth(1).unwrap().items().unwrap();
        let ids: Vec<&[u8]> = entries
            .map(|entry| entry.items().unwrap().next().unwrap().bulk().unwrap())
            .collect();
        assert_eq!(ids, [b"1-0", b"1-1"]);
    }

    #[test]
    fn what_is_not_a_reply_is_refused() {
        let long = [b"+".as_slice(), &vec![b'x'; LINE_BYTES_MAX]].concat();
        for bytes in [
            b"HTTP/1.1 200 OK\r\n".as_slice(),
            b"\n",
            b"+OK\n",
            b":x\r\n",
            b"$-2\r\n",
            b"$1\r\nab\r\n",
            b"$9223372036854775807\r\n",
            b"*x\r\n",
            b"*2\r\n*9223372036854775807\r\n*9223372036854775807\r\n*9223372036854775807\r\n",
            b"*1\r\n!\r\n",
            &long,
        ] {
            let outcome = read_reply(bytes);
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
            assert!(!matches!(outcome, Ok(Some(_))), "{shown}");
            assert!(outcome.is_err() || bytes[0] == b'$', "{shown}");
        }
    }

    #[test]
    fn commands_are_framed() {
        let mut out = Vec::new();
        command(&[b"RPUSH", b"k", b"a\r\nb"], &mut out);
        assert_eq!(out, b"*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n");
        let (reply, length) = read_reply(&out).unwrap().unwrap();
        assert_eq!((reply.items().unwrap().len(), length), (3, out.len()));
    }
}
