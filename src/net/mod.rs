//! Sockets and HTTP connections of one core: listener, one task per connection, answers put back in
//! request order, vanished clients. Knows neither queues nor other cores: what a request means is
//! the business of a [`Service`].
//!
//! In reading order: `listener` accepts, `connections` registers, `connection` is the task with its
//! `input`, `body` and `outbox`; `deadline` ends what lasts too long.

mod body;
mod connection;
mod connections;
mod deadline;
mod input;
mod line;
mod lingering;
pub mod listener;
mod outbox;
mod port_holder;

use bytes::{Bytes, BytesMut};

use crate::http;
use crate::model::ClientRef;

pub use connections::Connections;
pub use port_holder::PortHolder;

/// What the operator can set about connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a request body, framing not counted (413 above it).
    pub max_body_bytes: u64,
    /// Milliseconds from the first byte of a head to its last, and between two pieces of a body
    /// (408 after it).
    pub head_timeout_ms: u64,
    /// Milliseconds that a connection without a request stays open.
    pub idle_timeout_ms: u64,
    /// Connections of the whole process (503 above it).
    pub max_connections: usize,
}

/// What answers the requests of a core. Implemented by the broker and by the null responder that
/// the benchmarks use as the floor.
pub trait Service: 'static {
    /// What an answer took from the broker and must give back if it cannot be delivered.
    type Claim;
    /// An answer that is written in steps.
    type Listing;

    /// Serves one complete request. An immediate answer is written to `out` in full, head and body,
    /// after what stands there already.
    fn call(
        &self,
        request: &Request<'_>,
        client: ClientRef,
        out: &mut BytesMut,
    ) -> Called<Self::Claim, Self::Listing>;

    /// Writes the next step of a streamed answer; `false` when it is complete.
    fn advance(&self, listing: &mut Self::Listing, out: &mut BytesMut) -> bool;

    /// The client of a parked or forwarded request is gone: it must not be answered any more.
    fn abandon(&self, client: ClientRef);

    /// The client of a forwarded request has closed its half: whoever waits for messages does so
    /// no longer. Told once per request that is open then. The request is still answered by
    /// [`Connections::answer`], or given up by [`Connections::drop_request`] if it had to wait;
    /// both may happen within this call.
    fn hurry(&self, client: ClientRef);

    /// A connection was opened or closed: how many are open now, and how many ever were.
    fn connections_changed(&self, _open: usize, _accepted: u64) {}

    /// An answer could not be delivered: what it took goes back.
    fn undelivered(&self, claim: Self::Claim);

    /// Whether a request is to be answered though its body is still to come, which is then not received:
    /// the answer is written to `out`, in full, and is the last of the connection.
    fn turn_away(
        &self,
        _head: &http::Head<'_>,
        _style: http::ResponseStyle,
        _out: &mut BytesMut,
    ) -> bool {
        false
    }

    /// Writes the answer to bytes that never became a request, in full, to the end of `out`.
    fn refuse(&self, fault: &http::Fault, style: http::ResponseStyle, out: &mut BytesMut);
}

/// What became of a call.
#[derive(Debug)]
pub enum Called<Claim, Listing> {
    /// The answer is in the buffer; the claim, if any, is held until the kernel has the last byte.
    Answered(Option<Claim>),
    /// The head of an answer without length and the first step are in the buffer; more steps follow,
    /// or none. A client that knows no chunks sees the end of it when the connection closes.
    Streaming(Option<Listing>),
    /// The answer comes later, by [`Connections::answer`]; nothing was written. A client that
    /// closes its half meanwhile is gone.
    Parked,
    /// The answer comes soon, by [`Connections::answer`], from another core; nothing was written.
    /// A client that closes its half meanwhile is answered all the same, unless another request of
    /// its connection is parked; see [`Service::hurry`].
    Forwarded,
}

/// One complete request as the service sees it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The head.
    pub head: &'a http::Head<'a>,
    /// The body, framing removed.
    pub body: Body<'a>,
    /// How the answer must be framed.
    pub style: http::ResponseStyle,
}

/// A request body, framing removed.
#[derive(Debug)]
pub enum Body<'a> {
    /// It stands in the connection's read buffer, which is reused after the call.
    Borrowed(&'a [u8]),
    /// It has a buffer of its own, which may be kept.
    Owned(Bytes),
}
