//! HTTP/1.1 as bytes: request heads, body framing, response writing, percent and form decoding
//! (RFC 9110, RFC 9112). Knows no sockets, no JSON and no queues.

/// A request head (to be filled).
#[derive(Debug)]
pub struct Head<'a>(std::marker::PhantomData<&'a ()>);

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
