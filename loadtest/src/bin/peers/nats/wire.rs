//! The client protocol of NATS: what a client sends, and reading what the server sends where it
//! lies, without allocating.

use std::io::{self, Write};

use queen_loadtest::protocol::Protocol;
use queen_loadtest::{LoadError, Refused};

/// Bytes of a line above which the peer cannot be a NATS server: `INFO` is the longest and well below.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a message, headers included, above which the peer cannot be a NATS server: what it can be
/// set to at most.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The wire of NATS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NatsWire;

/// One thing that the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// About itself, as JSON; the first thing on every connection.
    Info(&'a [u8]),
    /// A message for a subscription.
    Message(Message<'a>),
    /// It wants a `PONG`.
    Ping,
    /// Everything sent before the `PING` was taken.
    Pong,
    /// A request was taken; not said to a client that is not verbose.
    Ok,
    /// What was wrong, in words.
    Error(&'a [u8]),
}

/// A message for a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// What it was published to.
    pub(crate) subject: &'a [u8],
    /// The subscription.
    pub(crate) subscription: &'a [u8],
    /// Where an answer is expected.
    pub(crate) reply: Option<&'a [u8]>,
    /// Headers with their version line, empty where there are none. A status such as `404` stands in
    /// that line.
    pub(crate) headers: &'a [u8],
    /// The rest.
    pub(crate) payload: &'a [u8],
}

/// Bytes that a NATS server does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not one of NATS")]
pub(crate) struct Fault;

impl Protocol for NatsWire {
    type Answer<'a> = Said<'a>;

    fn read(bytes: &[u8]) -> Result<Option<(Said<'_>, usize)>, LoadError> {
        Ok(read_said(bytes).map_err(io::Error::other)?)
    }

    fn refused(said: &Said<'_>) -> Refused {
        let text = match said {
            Said::Error(text) => text,
            Said::Message(message) if message.payload.is_empty() => message.headers,
            Said::Message(message) => message.payload,
            _ => b"out of turn",
        };
        Refused::new(None, text)
    }
}

/// Reads what stands at the beginning of `bytes`, with its length; `None`: more bytes are needed.
pub(crate) fn read_said(bytes: &[u8]) -> Result<Option<(Said<'_>, usize)>, Fault> {
    let Some(feed) = memchr::memchr(b'\n', bytes) else {
        if bytes.len() > LINE_BYTES_MAX {
            return Err(Fault);
        }
        return Ok(None);
    };
    let line = bytes[..feed].strip_suffix(b"\r").ok_or(Fault)?;
    let (verb, rest) = match memchr::memchr(b' ', line) {
        Some(space) => (&line[..space], line[space + 1..].trim_ascii()),
        None => (line, &line[line.len()..]),
    };
    let said = match verb {
        b"MSG" => return read_message(rest, false, bytes, feed + 1),
        b"HMSG" => return read_message(rest, true, bytes, feed + 1),
        b"PING" => Said::Ping,
        b"PONG" => Said::Pong,
        b"+OK" => Said::Ok,
        b"INFO" => Said::Info(rest),
        b"-ERR" => Said::Error(rest),
        _ => return Err(Fault),
    };
    Ok(Some((said, feed + 1)))
}

/// `line` is `subject subscription [reply] [header bytes] bytes`; the message follows it at `start`.
fn read_message<'a>(
    line: &'a [u8],
    has_headers: bool,
    bytes: &'a [u8],
    start: usize,
) -> Result<Option<(Said<'a>, usize)>, Fault> {
    let mut words = line.split(|&byte| byte == b' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    let (subject, subscription) = (word().ok_or(Fault)?, word().ok_or(Fault)?);
    // The last words are numbers; before them stands the reply, if there is one.
    let (third, fourth, fifth) = (word().ok_or(Fault)?, word(), word());
    let (reply, header_length, length) = match (has_headers, fourth, fifth) {
        (false, None, None) => (None, 0, number(third)?),
        (false, Some(length), None) => (Some(third), 0, number(length)?),
        (true, Some(length), None) => (None, number(third)?, number(length)?),
        (true, Some(headers), Some(length)) => (Some(third), number(headers)?, number(length)?),
        _ => return Err(Fault),
    };
    if words.next().is_some() || header_length > length {
        return Err(Fault);
    }
    let end = start + length;
    let Some(tail) = bytes.get(end..end + 2) else {
        return Ok(None);
    };
    if tail != b"\r\n" {
        return Err(Fault);
    }
    let (headers, payload) = bytes[start..end].split_at(header_length);
    let message = Message {
        subject,
        subscription,
        reply,
        headers,
        payload,
    };
    Ok(Some((Said::Message(message), end + 2)))
}

fn number(text: &[u8]) -> Result<usize, Fault> {
    let text = std::str::from_utf8(text).map_err(|_| Fault)?;
    let number = text.parse().map_err(|_| Fault)?;
    if number > MESSAGE_BYTES_MAX {
        return Err(Fault);
    }
    Ok(number)
}

/// Appends what a client says first: that it needs no `+OK`, and what it understands.
pub(crate) fn connect(out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":false,\"lang\":\"rust\",\
          \"version\":\"0\",\"name\":\"queen-loadtest\",\"protocol\":1,\"headers\":true,\
          \"no_responders\":true}\r\n",
    );
}

/// Appends a subscription. A message of a `group` goes to one of its members.
pub(crate) fn subscribe(
    subject: &str,
    group: Option<&str>,
    subscription: usize,
    out: &mut Vec<u8>,
) {
    let written = match group {
        Some(group) => write!(out, "SUB {subject} {group} {subscription}\r\n"),
        None => write!(out, "SUB {subject} {subscription}\r\n"),
    };
    written.expect("writing to memory does not fail");
}

/// Appends a message to `subject`, which may name where it is to be answered.
pub(crate) fn publish(subject: &[u8], reply: Option<&[u8]>, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"PUB ");
    out.extend_from_slice(subject);
    out.push(b' ');
    if let Some(reply) = reply {
        out.extend_from_slice(reply);
        out.push(b' ');
    }
    write!(out, "{}\r\n", payload.len()).expect("writing to memory does not fail");
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// Appends a question whether all before it was taken.
pub(crate) fn ping(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PING\r\n");
}

/// Appends the answer to the server's question whether the client is there.
pub(crate) fn pong(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PONG\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: [&[u8]; 10] = [
        b"INFO {\"server_id\":\"N\",\"headers\":true} \r\n",
        b"PING\r\n",
        b"PONG\r\n",
        b"+OK\r\n",
        b"-ERR 'Unknown Protocol Operation'\r\n",
        b"MSG a.b 9 5\r\nx\r\nyz\r\n",
        b"MSG a.b 9 _INBOX.1 0\r\n\r\n",
        b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        b"HMSG a 1 _INBOX.7 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
        b"MSG $JS.ACK.S.C.1.2.3.4.5 12 2\r\n{}\r\n",
    ];

    #[test]
    fn what_is_cut_at_every_byte_is_partial_until_it_is_whole() {
        for bytes in SAID {
            for cut in 0..bytes.len() {
                let shown = String::from_utf8_lossy(bytes);
                assert_eq!(read_said(&bytes[..cut]), Ok(None), "{shown} cut at {cut}");
            }
            let (_, length) = read_said(bytes).unwrap().unwrap();
            assert_eq!(length, bytes.len());
        }
    }

    #[test]
    fn what_comes_in_a_row_is_read_one_by_one() {
        let stream = SAID.concat();
        for cut in 0..=stream.len() {
            let (mut at, mut seen) = (0, 0);
            while let Some((said, length)) = read_said(&stream[at..cut]).unwrap() {
                assert_eq!(said, read_said(SAID[seen]).unwrap().unwrap().0);
                at += length;
                seen += 1;
            }
            assert!(cut < stream.len() || seen == SAID.len());
        }
    }

    #[test]
    fn messages_are_taken_apart() {
        let message = |index: usize| match read_said(SAID[index]).unwrap().unwrap().0 {
            Said::Message(message) => message,
            other => panic!("{other:?}"),
        };
        let plain = message(5);
        assert_eq!(
            (plain.subject, plain.subscription),
            (&b"a.b"[..], &b"9"[..])
        );
        assert_eq!((plain.reply, plain.payload), (None, &b"x\r\nyz"[..]));
        let asked = message(6);
        assert_eq!(
            (asked.reply, asked.payload),
            (Some(&b"_INBOX.1"[..]), &b""[..])
        );
        let headed = message(7);
        assert_eq!(headed.headers, b"NATS/1.0\r\n\r\n");
        assert_eq!((headed.reply, headed.payload), (None, &b"hi"[..]));
        let status = message(8);
        assert_eq!(status.headers, b"NATS/1.0 503\r\n\r\n");
        assert_eq!(status.reply, Some(&b"_INBOX.7"[..]));
        let said = |index: usize| read_said(SAID[index]).unwrap().unwrap().0;
        assert_eq!(said(4), Said::Error(b"'Unknown Protocol Operation'"));
        assert!(matches!(said(0), Said::Info(text) if text.ends_with(b"}")));
    }

    #[test]
    fn what_no_server_says_is_refused() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        for bytes in [
            b"HTTP/1.1 200 OK\r\n".as_slice(),
            b"PING\n",
            b"MSG a\r\n",
            b"MSG a 1\r\n",
            b"MSG a 1 x\r\n",
            b"MSG a 1 r 1 2\r\n",
            b"MSG a 1 1\r\nab\r\n",
            b"MSG a 1 99999999999\r\n",
            b"HMSG a 1 5\r\n",
            b"HMSG a 1 5 4\r\n",
            b"HMSG a 1 r 1 2 3\r\n",
            &long,
        ] {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
            assert_eq!(read_said(bytes), Err(Fault), "{shown}");
        }
    }

    #[test]
    fn requests_are_written_as_the_server_reads_them() {
        let mut out = Vec::new();
        subscribe("a.*", Some("g"), 1, &mut out);
        subscribe("b", None, 2, &mut out);
        publish(b"a.b", Some(b"r"), b"hi", &mut out);
        publish(b"a.b", None, b"", &mut out);
        ping(&mut out);
        pong(&mut out);
        let expected =
            b"SUB a.* g 1\r\nSUB b 2\r\nPUB a.b r 2\r\nhi\r\nPUB a.b 0\r\n\r\nPING\r\nPONG\r\n";
        assert_eq!(out, expected);
    }
}
