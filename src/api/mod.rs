//! The only room that knows paths, JSON and status codes: route table, decoding to a command,
//! encoding from a reply, refusal to status. Knows no cores and no channels.
