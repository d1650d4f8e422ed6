//! The only room that knows paths, JSON and status codes: route table, decoding to a command,
//! encoding from a reply, refusal to status. Pure functions, called on the core of the connection.
//! Knows no cores and no channels.

mod decode;
mod durable_fault;
mod encode;
mod listing;
mod reads;
mod routes;
mod status;
mod system;
mod timestamp;
mod write_json;

pub use decode::{
    BodyBytes, Call, DecodeRules, ExchangeRequest, ListRequest, check_token, decode,
    read_declaration,
};
pub use durable_fault::{DurableFault, DurableFaultKind, DurableShape};
pub use encode::{DurableEcho, Echo, encode_exchanged, encode_popped, encode_reply};
pub use listing::ListWriter;
pub use reads::encode_read;
pub use routes::{AdminRoute, DurableRoute, MessagePath, ReadRoute, Route, find_read, find_route};
pub use status::{ApiFault, encode_api_fault, encode_fault, encode_refusal};
pub use system::{
    Buffers, Health, ProcessFigures, encode_buffers, encode_health, encode_metrics, encode_options,
    encode_text,
};

/// Media type of all answers but the Prometheus text.
const JSON: &str = "application/json";
