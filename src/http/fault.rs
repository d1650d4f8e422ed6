//! Why bytes are not a request that this broker serves.

/// A request that is answered with an error because of its bytes; framing is in doubt after it, so
/// the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Status of the answer.
    pub status: u16,
    /// Short stable word for machines.
    pub code: &'static str,
    /// What is wrong, for people.
    pub text: &'static str,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $status:literal $code:literal $text:literal;)+) => {
        impl Fault {
            $($(#[$doc])* pub const $name: Fault = Fault {
                status: $status,
                code: $code,
                text: $text,
            };)+
        }
    };
}

faults! {
    /// RFC 9112 section 3.
    BAD_REQUEST_LINE = 400 "bad_request_line" "the request line is malformed";
    /// RFC 9112 section 2.2: a line ends with CR LF, and CR and LF stand nowhere else.
    BAD_LINE_END = 400 "bad_line_end" "a line of the head must end with CR LF";
    /// RFC 9112 section 3.2.
    BAD_TARGET = 400 "bad_target" "the request target is malformed";
    /// RFC 3986 section 2.1.
    BAD_ESCAPE = 400 "bad_escape" "a percent sign must be followed by two hexadecimal digits";
    /// Decoded text that is not UTF-8.
    BAD_ENCODING = 400 "bad_encoding" "percent-encoded text must be UTF-8";
    /// RFC 9112 section 5: the name is a token and nothing stands between it and the colon.
    BAD_HEADER_NAME = 400 "bad_header" "a header name is malformed";
    /// RFC 9110 section 5.5.
    BAD_HEADER_VALUE = 400 "bad_header" "a header value contains a control character";
    /// RFC 9112 section 5.2.
    FOLDED_HEADER = 400 "bad_header" "a header line must not begin with whitespace";
    /// RFC 9112 section 3.2.
    MISSING_HOST = 400 "missing_host" "an HTTP/1.1 request must have a Host header";
    /// RFC 9112 section 3.2.
    REPEATED_HOST = 400 "repeated_host" "a request must not have more than one Host header";
    /// RFC 9110 section 7.2.
    BAD_HOST = 400 "bad_host" "the Host header is malformed";
    /// RFC 9110 section 8.6.
    BAD_LENGTH = 400 "bad_length" "Content-Length must be one decimal number";
    /// RFC 9112 section 6.3.
    REPEATED_LENGTH = 400 "conflicting_length" "a request must not have more than one Content-Length";
    /// RFC 9112 section 6.1.
    CONFLICTING_LENGTH = 400 "conflicting_length"
        "Content-Length and Transfer-Encoding exclude each other";
    /// RFC 9112 section 6.1.
    BAD_CODING = 400 "bad_transfer_encoding" "Transfer-Encoding must be exactly chunked";
    /// RFC 9112 section 6.1.
    CODING_ON_1_0 = 400 "bad_transfer_encoding" "HTTP/1.0 has no Transfer-Encoding";
    /// RFC 9112 section 7.1.
    BAD_CHUNK = 400 "bad_chunk" "the chunked body is malformed";
    /// RFC 9112 section 7.1.1.
    CHUNK_EXTENSION_TOO_LARGE = 400 "bad_chunk" "the chunk extensions are too long";
    /// RFC 9110 section 15.5.9: head or body did not arrive in time.
    REQUEST_TIMEOUT = 408 "request_timeout" "the request did not arrive in time";
    /// RFC 9110 section 15.5.14.
    BODY_TOO_LARGE = 413 "body_too_large" "the body is larger than this broker accepts";
    /// RFC 9110 section 15.5.18.
    UNKNOWN_EXPECTATION = 417 "unknown_expectation" "the only expectation is 100-continue";
    /// RFC 6585 section 5, bytes.
    HEAD_TOO_LARGE = 431 "header_too_large" "the request head is larger than 64 KiB";
    /// RFC 6585 section 5, fields.
    TOO_MANY_FIELDS = 431 "header_too_large" "the request has more than 128 header fields";
    /// RFC 9112 section 6.1.
    UNKNOWN_CODING = 501 "unsupported_coding" "the only transfer coding is chunked";
    /// RFC 9110 section 15.6.6.
    UNSUPPORTED_VERSION = 505 "unsupported_version" "this broker speaks HTTP/1.1 and HTTP/1.0";
}
