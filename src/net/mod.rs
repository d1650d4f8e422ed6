//! Sockets and HTTP connections of one core: listener, one task per connection, answers put back in
//! request order, vanished clients. Knows neither queues nor other cores: what a request means is
//! the business of a [`Service`].

use bytes::{Bytes, BytesMut};

use crate::http;
use crate::model::ClientRef;

/// What answers the requests of a core. Implemented by the broker and by the null responder that
/// the benchmarks use as the floor.
pub trait Service: 'static {
    /// What an answer took from the broker and must give back if it cannot be delivered.
    type Claim;
    /// An answer that is written in steps.
    type Listing;

    /// Serves one complete request. An immediate answer is written to `out` in full, head and body.
    fn call(
        &self,
        request: &Request<'_>,
        client: ClientRef,
        out: &mut BytesMut,
    ) -> Called<Self::Claim, Self::Listing>;

    /// Writes the next step of a streamed answer; `false` when it is complete.
    fn advance(&self, listing: &mut Self::Listing, out: &mut BytesMut) -> bool;

    /// The client of a parked request is gone: it must not be answered any more.
    fn abandon(&self, client: ClientRef);

    /// An answer could not be delivered: what it took goes back.
    fn undelivered(&self, claim: Self::Claim);
}

/// What became of a call.
#[derive(Debug)]
pub enum Called<Claim, Listing> {
    /// The answer is in the buffer; the claim, if any, is held until the kernel has the last byte.
    Answered(Option<Claim>),
    /// The head and the first step are in the buffer, more steps follow.
    Streaming(Listing),
    /// The answer comes later, by `Connections::answer`.
    Parked,
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
