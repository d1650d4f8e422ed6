//! HTTP/1.1 as bytes: request heads, body framing, response writing, percent and form decoding
//! (RFC 9110, RFC 9112). Knows no sockets, no JSON and no queues; lives on no core in particular
//! and keeps no state of its own. Strict: what the grammar does not allow is a [`Fault`].

mod chunked;
mod decode;
mod fault;
mod field_meaning;
mod head;
mod octets;
mod parse;
mod response;
mod simd;
mod target;

pub use chunked::{ChunkedDecoder, ChunkedProgress};
pub use decode::{FormPairs, decode_path_segment, form_pairs};
pub use fault::Fault;
pub use head::{FieldSlots, Framing, Head, HeadScan, Method, ParsedHead, Version};
pub use parse::parse_head;
pub use response::{
    CONTINUE, ResponseHead, ResponseStyle, end_streamed_response, start_streamed_response,
    write_chunk, write_response,
};
