//! Reads HTTP/1.1 answers (RFC 9112) as far as a generator needs: status and body, the body framed
//! by `Content-Length` or by chunks. Stateless: the caller keeps the bytes until an answer is whole.

use std::borrow::Cow;

use memchr::memmem;

/// Bytes of a head above which the peer cannot be a broker.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// One whole answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// The body, framing removed.
    pub body: Cow<'a, [u8]>,
    /// Bytes that the answer took, framing included.
    pub length: usize,
}

/// Bytes that are not an answer this reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first line is not a status line of HTTP/1.1.
    #[error("the answer does not begin with a status line of HTTP/1.1")]
    StatusLine,
    /// The head does not end.
    #[error("the head of the answer is longer than 64 KiB")]
    HeadTooLong,
    /// Neither a length nor chunks, or a length that is not a number.
    #[error("the answer has no framing that can be read")]
    Framing,
    /// A chunk has no size, or does not end where its size says.
    #[error("the answer has a broken chunk")]
    Chunk,
}

enum Framing {
    Length(usize),
    Chunked,
}

/// Reads the answer at the beginning of `bytes`; `None`: more bytes are needed.
pub fn read_response(bytes: &[u8]) -> Result<Option<Response<'_>>, Fault> {
    let Some(head_end) = memmem::find(bytes, b"\r\n\r\n") else {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(Fault::HeadTooLong);
        }
        return Ok(None);
    };
    let (status, framing) = read_head(&bytes[..head_end])?;
    let body_start = head_end + 4;
    match framing {
        Framing::Length(length) => {
            let end = body_start.checked_add(length).ok_or(Fault::Framing)?;
            Ok(bytes.get(body_start..end).map(|body| Response {
                status,
                body: Cow::Borrowed(body),
                length: end,
            }))
        }
        Framing::Chunked => read_chunks(status, bytes, body_start),
    }
}

fn read_head(head: &[u8]) -> Result<(u16, Framing), Fault> {
    let mut lines = head.split(|&byte| byte == b'\n');
    let status = read_status(lines.next().unwrap_or_default())?;
    let mut framing = None;
    for line in lines {
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
            framing = Some(Framing::Length(length.ok_or(Fault::Framing)?));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Fault::Framing);
            }
            framing = Some(Framing::Chunked);
            break;
        }
    }
    if status < 200 || status == 204 || status == 304 {
        return Ok((status, Framing::Length(0)));
    }
    Ok((status, framing.ok_or(Fault::Framing)?))
}

fn read_status(line: &[u8]) -> Result<u16, Fault> {
    let rest = line.strip_prefix(b"HTTP/1.1 ").ok_or(Fault::StatusLine)?;
    let digits = rest.get(..3).ok_or(Fault::StatusLine)?;
    let text = std::str::from_utf8(digits).map_err(|_| Fault::StatusLine)?;
    text.parse().map_err(|_| Fault::StatusLine)
}

/// Removes the framing of chunks (RFC 9112, 7.1); extensions and trailers are skipped.
fn read_chunks(
    status: u16,
    bytes: &[u8],
    body_start: usize,
) -> Result<Option<Response<'_>>, Fault> {
    let mut body = Vec::new();
    let mut at = body_start;
    loop {
        let Some(line_length) = memmem::find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        let size = read_chunk_size(&bytes[at..at + line_length])?;
        at += line_length + 2;
        if size == 0 {
            break;
        }
        let end = at.checked_add(size).ok_or(Fault::Chunk)?;
        let Some(tail) = bytes.get(end..end.saturating_add(2)) else {
            return Ok(None);
        };
        if tail != b"\r\n" {
            return Err(Fault::Chunk);
        }
        body.extend_from_slice(&bytes[at..end]);
        at = end + 2;
    }
    loop {
        let Some(line_length) = memmem::find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        at += line_length + 2;
        if line_length == 0 {
            return Ok(Some(Response {
                status,
                body: Cow::Owned(body),
                length: at,
            }));
        }
    }
}

fn read_chunk_size(line: &[u8]) -> Result<usize, Fault> {
    let end = memchr::memchr(b';', line).unwrap_or(line.len());
    let digits = line[..end].trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(Fault::Chunk);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Fault::Chunk)?;
    usize::from_str_radix(text, 16).map_err(|_| Fault::Chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: [(&[u8], u16, &[u8]); 6] = [
        (
            b"HTTP/1.1 201 Created\r\ncontent-length: 12\r\n\r\n{\"pushed\":1}",
            201,
            b"{\"pushed\":1}",
        ),
        (
            b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length:0\r\n\r\n",
            200,
            b"",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1A;x=y\r\n\
              abcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n",
            200,
            b"abcabcdefghijklmnopqrstuvwxyz",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\n\r\n\r\n0\r\na: b\r\n\r\n",
            200,
            b"\r\n",
        ),
        (
            b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}",
            429,
            b"{}",
        ),
    ];

    #[test]
    fn an_answer_cut_at_every_byte_is_partial_until_it_is_whole() {
        for (bytes, status, body) in ANSWERS {
            for cut in 0..bytes.len() {
                assert_eq!(
                    read_response(&bytes[..cut]),
                    Ok(None),
                    "{status} cut at {cut}"
                );
            }
            let whole = read_response(bytes).unwrap().unwrap();
            assert_eq!(
                (whole.status, &*whole.body, whole.length),
                (status, body, bytes.len())
            );
        }
    }

    #[test]
    fn pipelined_answers_are_read_one_by_one() {
        let stream: Vec<u8> = ANSWERS
            .iter()
            .flat_map(|(bytes, ..)| bytes.to_vec())
            .collect();
        for cut in 0..stream.len() {
            let mut at = 0;
            let mut seen = 0;
            while let Some(response) = read_response(&stream[at..cut]).unwrap() {
                assert_eq!(response.status, ANSWERS[seen].1);
                at += response.length;
                seen += 1;
            }
            assert!(at <= cut);
        }
    }

    #[test]
    fn what_is_not_an_answer_is_refused() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for (bytes, fault) in [
            ("HTTP/1.0 200 OK\r\n\r\n".to_owned(), Fault::StatusLine),
            ("HTTP/1.1 2\r\n\r\n".to_owned(), Fault::StatusLine),
            ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), Fault::Framing),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n".to_owned(),
                Fault::Framing,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n".to_owned(),
                Fault::Framing,
            ),
            (format!("{head}\r\n"), Fault::Chunk),
            (format!("{head}+1\r\n"), Fault::Chunk),
            (format!("{head}1\r\nabc\r\n"), Fault::Chunk),
            (format!("{head}ffffffffffffffff\r\n"), Fault::Chunk),
            ("x".repeat(HEAD_BYTES_MAX + 1), Fault::HeadTooLong),
        ] {
            assert_eq!(read_response(bytes.as_bytes()), Err(fault), "{bytes:.60}");
        }
    }
}
