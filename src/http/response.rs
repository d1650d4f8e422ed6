//! Writing of responses (RFC 9112 sections 4 to 7) straight into the connection's buffer.

use bytes::{BufMut, BytesMut};

use super::{Head, Method, Version};

/// The interim answer to `Expect: 100-continue` (RFC 9110 section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Digits kept free for a length that is known only after the body: just below 10 GB.
const LENGTH_DIGITS: usize = 10;

/// Bodies that are moved so that no free digit remains before them: copying so little costs less
/// than anything else about the answer.
const SHIFTED_BODY_BYTES_MAX: usize = 4 * 1024;

/// Digits kept free for the size of a chunk: 4 GiB.
const CHUNK_DIGITS: usize = 8;

/// Bytes of the longest head that is written without growing the buffer twice.
const HEAD_BYTES_USUAL: usize = 256;

/// How an answer must be framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseStyle {
    /// The client spoke HTTP/1.0: no chunked answers, keep-alive must be said.
    pub http_1_0: bool,
    /// The connection stays open after the answer.
    pub keep_alive: bool,
    /// HEAD: the head of the answer alone, with the length the body would have.
    pub head_only: bool,
}

impl ResponseStyle {
    /// The style of the last answer of a connection, where no request says how to frame it.
    pub const CLOSING: ResponseStyle = ResponseStyle {
        http_1_0: false,
        keep_alive: false,
        head_only: false,
    };

    /// The style that the request `head` asks for.
    pub fn of(head: &Head<'_>) -> ResponseStyle {
        ResponseStyle {
            http_1_0: head.version == Version::Http10,
            keep_alive: head.keep_alive,
            head_only: head.method == Method::Head,
        }
    }

    /// Whether the connection stays open after a streamed answer: on HTTP/1.0 only its close can
    /// end the body.
    pub fn keeps_alive_after_stream(self) -> bool {
        self.keep_alive && !self.http_1_0
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead {
    /// Status code, 200 to 599. With 204 there is no content, hence no content type.
    pub status: u16,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Seconds for `Retry-After`.
    pub retry_after_s: Option<u64>,
    /// Methods for `Allow`.
    pub allow: Option<&'static str>,
    /// The challenge for `WWW-Authenticate` (RFC 9110 section 11.6.1).
    pub challenge: Option<&'static str>,
    /// How the answer must be framed.
    pub style: ResponseStyle,
}

impl ResponseHead {
    /// A head with nothing in it that only some answers have.
    pub fn new(status: u16, content_type: &'static str, style: ResponseStyle) -> ResponseHead {
        ResponseHead {
            status,
            content_type,
            retry_after_s: None,
            allow: None,
            challenge: None,
            style,
        }
    }
}

/// Appends a whole response; `write_body` appends the body to the same buffer and must leave what
/// stands before it alone. The length is filled in afterwards. On HEAD the body is cut off again
/// and its length stays; on 204 `write_body` is not called.
pub fn write_response(
    out: &mut BytesMut,
    head: &ResponseHead,
    write_body: impl FnOnce(&mut BytesMut),
) {
    out.reserve(HEAD_BYTES_USUAL);
    write_head_start(out, head);
    write_connection(out, head.style, head.style.keep_alive);
    if head.status == 204 {
        out.put_slice(b"\r\n");
        return;
    }
    out.put_slice(b"content-length:          0\r\n\r\n");
    let body_start = out.len();
    write_body(out);
    assert!(out.len() >= body_start);
    let length = out.len() - body_start;
    let digits_end = body_start - b"\r\n\r\n".len();
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(length);
    assert!(digits.len() <= LENGTH_DIGITS, "more digits than room");
    let digits_start = digits_end - digits.len();
    out[digits_start..digits_end].copy_from_slice(digits.as_bytes());
    if head.style.head_only {
        out.truncate(body_start);
    }
    // Whitespace before a value has no meaning (RFC 9110 section 5.5), so the digits of a long body
    // stay on the right; before a short one there is none, for clients that read less well.
    if length <= SHIFTED_BODY_BYTES_MAX {
        let field_start = digits_end - LENGTH_DIGITS;
        out.copy_within(digits_start.., field_start);
        out.truncate(out.len() - (digits_start - field_start));
    }
}

/// Appends the head of a response whose length is not known: chunked, on HTTP/1.0 ended by the
/// close of the connection, which it then announces whatever the style says.
pub fn start_streamed_response(out: &mut BytesMut, head: &ResponseHead) {
    assert!(head.status != 204);
    out.reserve(HEAD_BYTES_USUAL);
    write_head_start(out, head);
    write_connection(out, head.style, head.style.keeps_alive_after_stream());
    if !head.style.http_1_0 {
        out.put_slice(b"transfer-encoding: chunked\r\n");
    }
    out.put_slice(b"\r\n");
}

/// Appends what `write_part` appends, framed as the style demands; nothing for an empty part,
/// because an empty chunk would end the body, and nothing for HEAD.
pub fn write_chunk(
    out: &mut BytesMut,
    style: ResponseStyle,
    write_part: impl FnOnce(&mut BytesMut),
) {
    let chunk_start = out.len();
    if !style.http_1_0 {
        out.put_slice(b"00000000\r\n");
    }
    let part_start = out.len();
    write_part(out);
    assert!(out.len() >= part_start);
    let length = out.len() - part_start;
    if length == 0 || style.head_only {
        out.truncate(chunk_start);
        return;
    }
    if !style.http_1_0 {
        write_hexadecimal(
            &mut out[chunk_start..chunk_start + CHUNK_DIGITS],
            length as u64,
        );
        out.put_slice(b"\r\n");
    }
}

/// Appends the end of a streamed response.
pub fn end_streamed_response(out: &mut BytesMut, style: ResponseStyle) {
    if !style.http_1_0 && !style.head_only {
        out.put_slice(b"0\r\n\r\n");
    }
}

/// Status line and the fields that do not depend on framing.
fn write_head_start(out: &mut BytesMut, head: &ResponseHead) {
    assert!((200..600).contains(&head.status));
    if head.status == 200 {
        out.put_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        out.put_slice(b"HTTP/1.1 ");
        put_decimal(out, u64::from(head.status));
        out.put_slice(b" ");
        out.put_slice(reason(head.status).as_bytes());
        out.put_slice(b"\r\n");
    }
    if head.status != 204 {
        out.put_slice(b"content-type: ");
        out.put_slice(head.content_type.as_bytes());
        out.put_slice(b"\r\n");
    }
    if let Some(seconds) = head.retry_after_s {
        out.put_slice(b"retry-after: ");
        put_decimal(out, seconds);
        out.put_slice(b"\r\n");
    }
    if let Some(challenge) = head.challenge {
        out.put_slice(b"www-authenticate: ");
        out.put_slice(challenge.as_bytes());
        out.put_slice(b"\r\n");
    }
    if let Some(methods) = head.allow {
        out.put_slice(b"allow: ");
        out.put_slice(methods.as_bytes());
        out.put_slice(b"\r\n");
    }
}

fn write_connection(out: &mut BytesMut, style: ResponseStyle, keep_alive: bool) {
    if !keep_alive {
        out.put_slice(b"connection: close\r\n");
    } else if style.http_1_0 {
        out.put_slice(b"connection: keep-alive\r\n");
    }
}

/// Reason phrases (RFC 9110 section 15); clients ignore them.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

/// Writes `value` over the whole of `field`, which must have room for it.
fn write_hexadecimal(field: &mut [u8], mut value: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value % 16) as usize];
        value /= 16;
    }
    assert!(value == 0, "more digits than room");
}

/// Appends `value`.
fn put_decimal(out: &mut BytesMut, value: u64) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: ResponseStyle = ResponseStyle {
        http_1_0: false,
        keep_alive: true,
        head_only: false,
    };

    fn head(status: u16, style: ResponseStyle) -> ResponseHead {
        ResponseHead::new(status, "application/json", style)
    }

    fn written(head: &ResponseHead, body: &[u8]) -> String {
        let mut out = BytesMut::from(&b"before"[..]);
        write_response(&mut out, head, |out| out.put_slice(body));
        String::from_utf8(out[6..].to_vec()).unwrap()
    }

    #[test]
    fn a_plain_answer() {
        assert_eq!(
            written(&head(200, KEPT), b"{\"a\":123456}"),
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
             content-length: 12\r\n\r\n{\"a\":123456}"
        );
    }

    #[test]
    fn every_length_is_right() {
        for length in [0, 1, 9, 10, 99, 100, 12_345, 1_000_000] {
            let text = written(&head(200, KEPT), &vec![b'x'; length]);
            let (fields, body) = text.split_once("\r\n\r\n").unwrap();
            let (_, said) = fields.rsplit_once(':').unwrap();
            assert_eq!(said.trim_start().parse(), Ok(length));
            assert_eq!(body.len(), length);
        }
    }

    #[test]
    fn an_answer_without_content() {
        let mut head = head(
            204,
            ResponseStyle {
                keep_alive: false,
                ..KEPT
            },
        );
        head.allow = Some("GET, HEAD, OPTIONS");
        assert_eq!(
            written(&head, b"never written"),
            "HTTP/1.1 204 No Content\r\nallow: GET, HEAD, OPTIONS\r\nconnection: close\r\n\r\n"
        );
    }

    #[test]
    fn the_head_alone_says_the_length_of_the_body() {
        let text = written(
            &head(
                200,
                ResponseStyle {
                    head_only: true,
                    ..KEPT
                },
            ),
            b"12345",
        );
        assert!(text.ends_with("content-length: 5\r\n\r\n"), "{text}");
    }

    #[test]
    fn advice_and_persistence_are_said() {
        let mut head = head(
            429,
            ResponseStyle {
                http_1_0: true,
                ..KEPT
            },
        );
        head.retry_after_s = Some(u64::MAX);
        let text = written(&head, b"{}");
        assert!(
            text.starts_with("HTTP/1.1 429 Too Many Requests\r\n"),
            "{text}"
        );
        assert!(
            text.contains("\r\nretry-after: 18446744073709551615\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\nconnection: keep-alive\r\n"), "{text}");
        head.style.keep_alive = false;
        assert!(written(&head, b"{}").contains("\r\nconnection: close\r\n"));
    }

    fn streamed(style: ResponseStyle) -> (String, String) {
        let mut out = BytesMut::new();
        start_streamed_response(&mut out, &head(200, style));
        for part in ["[1,", "", "2, and a good deal more]"] {
            write_chunk(&mut out, style, |out| out.put_slice(part.as_bytes()));
        }
        end_streamed_response(&mut out, style);
        let text = String::from_utf8(out.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn a_streamed_answer_is_chunked() {
        let (head, body) = streamed(KEPT);
        assert!(head.ends_with("\r\ntransfer-encoding: chunked"), "{head}");
        assert!(!head.contains("content-length"));
        let mut decoded = BytesMut::new();
        let mut decoder = crate::http::ChunkedDecoder::new(1_000);
        let progress = decoder.decode(body.as_bytes(), &mut decoded).unwrap();
        assert!(progress.complete);
        assert_eq!(progress.consumed, body.len());
        assert_eq!(&decoded[..], b"[1,2, and a good deal more]");
    }

    #[test]
    fn a_streamed_answer_on_1_0_ends_with_the_connection() {
        let style = ResponseStyle {
            http_1_0: true,
            ..KEPT
        };
        let (head, body) = streamed(style);
        assert!(head.ends_with("\r\nconnection: close"), "{head}");
        assert_eq!(body, "[1,2, and a good deal more]");
        assert!(!style.keeps_alive_after_stream());
    }

    #[test]
    fn a_streamed_answer_to_head_has_no_body() {
        let (_, body) = streamed(ResponseStyle {
            head_only: true,
            ..KEPT
        });
        assert_eq!(body, "");
    }
}
